/* `work` of job.yaml: the kind of work a job is, how fast it runs on each model, how long it takes.
 *
 * Kind       Jobs with the same tenant, project, work name (the job's name unless given) and declared
 *            rates are one kind, whose rates they share, declared and measured (core/rate.h).
 */
#ifndef SHOAL_CODEC_JOB_WORK_H
#define SHOAL_CODEC_JOB_WORK_H

#include "codec/job_spec.h"
#include "codec/yaml.h"

/* job_deadline.c: `deadline`, after all that tells how long the job runs. */
void job_deadline_read(struct job_spec *spec, yaml_item *root);
void job_work_read(const struct catalog *catalog, struct job_spec *spec, yaml_item *work);
uint64_t job_work_id(const struct job_spec *spec); /* 0: the job has no `work` */
/* RATE_TOLD for each declared rate; seq and now_us are left 0. Returns how many. */
uint32_t job_work_events(const struct job_spec *spec, struct pool_event *ret_events);

#endif
