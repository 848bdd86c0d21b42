/* `deadline` of job.yaml: how long after its submission, or when. Described for users in docs/config.md. */
#include "codec/job_work.h"
#include "codec/utc.h"
#include "codec/yaml_tree.h"
#include "core/limits.h"

static bool read_when(const char *text, int64_t *ret_us)
{
    if (yaml_parse_duration_us(text, ret_us)) return *ret_us > 0 && *ret_us <= TERMS_US_MAX;
    if (!utc_parse(text, ret_us)) return false;
    *ret_us -= *ret_us % 1000000;
    return *ret_us > TERMS_US_MAX && *ret_us <= TIME_US_MAX;
}

/* The run time at the least that it takes, where only its steps are known: a device as one NCU. */
static int64_t run_of_steps(const struct job_spec *spec)
{
    int64_t work_us = job_spec_work_us(spec) / spec->devices_min;
    return work_us < TERMS_US_MAX ? work_us : TERMS_US_MAX;
}

void job_deadline_read(struct job_spec *spec, yaml_item *root)
{
    yaml_item *item = yaml_any(root, "deadline");
    if (item == NULL) return;
    const char *text = yaml_item_string(item);
    if (text[0] == '\0') return; /* noted */
    if (!read_when(text, &spec->terms.deadline_us)) {
        yaml_mistake(item,
                     "\"%s\" is no deadline; write how long after its submission, like 26h, "
                     "or when, like 2027-03-01T08:00:00Z",
                     yaml_show(text).text);
        return;
    }
    if (spec->terms.run_us == 0) spec->terms.run_us = run_of_steps(spec);
    if (spec->terms.run_us == 0)
        yaml_mistake(item, "a deadline without a run time tells nobody when to hurry; give work: "
                           "{time: 8h}, or elastic: {work_per_slot: 2s}");
    if (spec->steps <= UINT32_MAX) spec->terms.steps_total = (uint32_t)spec->steps;
}
