#include "core/predict.h"
#include "core/job.h"

static struct history *entry_of(const pool *p, const struct shape *s, uint32_t project,
                                uint64_t *ret_key)
{
    *ret_key = table_hash(s->hash ^ (uint64_t)project << 32);
    return &p->histories[*ret_key % HISTORY_MAX];
}

void predict_learn(pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    uint64_t key;
    if (j->started_us == 0 || p->now_us <= j->started_us) return;
    struct history *h = entry_of(p, &p->shapes[j->shape], j->project, &key);
    int64_t run_us = p->now_us - j->started_us;
    if (h->key != key || h->count == 0) {
        *h =
            (struct history){.key = key, .mean_us = run_us, .deviation_us = run_us / 2, .count = 1};
        return;
    }
    int64_t error_us = run_us - h->mean_us;
    h->mean_us += error_us / 8;
    h->deviation_us += ((error_us < 0 ? -error_us : error_us) - h->deviation_us) / 4;
    if (h->count < UINT32_MAX) h->count++;
}

int64_t predict_run_us(const pool *p, const struct shape *s, uint32_t project)
{
    uint64_t key;
    if (terms_of(p, s)->run_us != 0) return terms_of(p, s)->run_us;
    const struct history *h = entry_of(p, s, project, &key);
    if (h->key != key || h->count < PREDICT_MIN_COUNT) return 0;
    return h->mean_us + 4 * h->deviation_us; /* below 5 times the year 2100 */
}

int64_t predict_end_us(const pool *p, uint32_t job)
{
    const struct job *j = &p->jobs[job];
    if (!job_is_live(j)) return p->now_us;
    int64_t run_us = predict_run_us(p, &p->shapes[j->shape], j->project);
    if (run_us == 0) return INT64_MAX;
    int64_t since_us = j->started_us != 0 ? j->started_us : p->now_us;
    int64_t ran_us = p->now_us - since_us;
    while (run_us <= ran_us) run_us *= 2; /* ran_us is below the year 2100: no overflow */
    return since_us + run_us;
}
