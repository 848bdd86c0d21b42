/* job.yaml: what a user submits. Described for users in docs/config.md.
 *
 * Role       Text -> struct job_spec, checked as far as one job alone can be (whether the pool can
 *            ever run it is admission's to say), -> event JOB_SUBMITTED.
 * Canonical  job_spec_text() writes a spec as one JSON line that job_spec_parse() reads back to the
 *            same spec. The server stores that text by its hash; the hash does not depend on how
 *            the user laid the file out.
 * Units      work_per_slot_us: microseconds on one NCU for one slot of one step, 0 = not known.
 */
#ifndef SHOAL_CODEC_JOB_SPEC_H
#define SHOAL_CODEC_JOB_SPEC_H

#include "codec/catalog.h"
#include "codec/config.h"
#include "codec/ids.h"
#include "codec/text_list.h"

enum {
    JOB_NAME_BYTES = 64,
    JOB_PATH_BYTES = 512,
    JOB_POOLS_MAX = 16,
    JOB_DEVICES_MAX = 4096,
    JOB_SLOTS_MAX = 1024, /* SHOAL_SLOTS_MAX of include/shoal.h */
};
/* checkpoint_every: chosen by the workers from what a checkpoint costs and how often one is lost */
#define JOB_CHECKPOINT_AUTO UINT32_MAX

/* Declared: per device, any unit, one for all models; 0 = never runs there. */
struct job_rate {
    uint64_t rate_micro;
    uint32_t model; /* catalog index */
};

struct job_spec {
    char name[JOB_NAME_BYTES];
    char tenant[JOB_NAME_BYTES], project[JOB_NAME_BYTES];
    char team[JOB_NAME_BYTES], user[JOB_NAME_BYTES], experiment[JOB_NAME_BYTES];
    uint32_t job_class, kind; /* enum job_class, enum job_kind */
    struct device_need need;
    uint32_t devices_min, devices_max;
    uint32_t pool_count;
    char pools[JOB_POOLS_MAX][CONFIG_NAME_BYTES];
    uint32_t degrades;                 /* it may fall back upon the pool after those, */
    char next_tier[CONFIG_NAME_BYTES]; /* this one; "": not known without a configuration */
    int64_t budget_usd_micros_per_hour, budget_usd_micros; /* 0 = none */
    uint32_t capacity_mask;                                /* bit = enum capacity_kind; 0 = any */
    uint32_t price_threshold_ppm;                          /* 0 = the pool's */
    char region[JOB_NAME_BYTES];                           /* "" = any one region */
    uint32_t slots, checkpoint_every;    /* steps; 0: never; or JOB_CHECKPOINT_AUTO */
    char checkpoint_dir[JOB_PATH_BYTES]; /* folder or s3://BUCKET/PREFIX; "" = the server chooses */
    uint64_t steps;
    int64_t work_per_slot_us;
    char work[JOB_NAME_BYTES]; /* kind of work (job_work.h); "" = it has no `work` */
    uint64_t parameters;       /* of the model, for advice; 0 = not known */
    uint32_t rate_count;
    struct job_rate rates[CATALOG_MODELS_MAX];
    char data_region[JOB_NAME_BYTES]; /* where its data lies; "" = nowhere in particular */
    struct text_list command;         /* argv */
    struct text_list env;             /* key, value, key, value, ... */
    char dir[JOB_PATH_BYTES];
    /* What is asked for beyond JOB_SUBMITTED, in the core's units; numbers of names (data_region)
     * are filled in by job_spec_event(). */
    struct job_terms terms;
};

/* What the core is told of a job, in this order. */
struct job_events {
    struct pool_event rates[CATALOG_MODELS_MAX]; /* rate_count of RATE_TOLD */
    uint32_t rate_count, link_count;
    struct pool_event links[LINK_EVENTS_MAX]; /* link_count of LINKS_TOLD */
    struct pool_event terms;                  /* kind 0: it has none */
    struct pool_event submitted;
};

/* `config` knows the pools; NULL: pool names are not checked. On failure what is in *ret_spec means
 * nothing. A spec is large (about 36 KiB): mind small stacks. */
bool job_spec_parse(const struct catalog *catalog, const struct config *config, const char *file,
                    const char *text, size_t bytes, struct job_spec *ret_spec,
                    struct error *ret_error) WARN_UNUSED;

/* One line of JSON from mem_alloc(), the caller's to mem_free(); NULL: out of memory. */
char *job_spec_text(const struct catalog *catalog, const struct job_spec *spec) WARN_UNUSED;
uint64_t job_spec_text_hash(const char *text); /* XXH3, never 0 */

/* RATE_TOLD, LINKS_TOLD (with a catalog, if it has data) and TERMS_DEFINED, if it has any, and JOB_SUBMITTED; seq and now_us are left 0 for the caller. false:
 * a name found no number. */
bool job_spec_event(const struct job_spec *spec, const struct links *links, uint64_t job_id,
                    uint64_t spec_hash, id_of_name_fn *id_of, void *id_self,
                    struct job_events *ret_events, struct error *ret_error) WARN_UNUSED;

/* Work of the whole job in NCU microseconds: steps * slots * work_per_slot_us; 0 = not known. */
int64_t job_spec_work_us(const struct job_spec *spec);

#endif
