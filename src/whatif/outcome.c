/* What came of a world, in figures (measure.h). */
#include "base/mem.h"
#include "whatif/world.h"
#include <string.h>

/* Sums over the jobs of a row. */
struct sums {
    int64_t first_us, last_us;
    double wait_h, stood_h, job_h, held, held_spot, held_usd, productive, running, devices,
        overhead, cv2, exchange, lost, work;
    uint64_t jobs, ended, started, restarts, missed, unfinished;
};

struct paid {
    double usd, device_us;
};

static bool in_row(const struct world *w, const struct live_job *job, uint32_t row)
{
    if (job->stage == JOB_COMING) return false;
    return row == 0 || w->scene->jobs[job->entry].group + 1 == row;
}

static double wait_h_of(const struct world *w, const struct live_job *job)
{
    int64_t until_us = job->start_us != 0 ? job->start_us : w->now_us;
    return (double)(until_us - job->submit_us) / HOUR;
}

static bool missed(const struct world *w, const struct live_job *job)
{
    int64_t deadline_us = w->scene->jobs[job->entry].deadline_us;
    if (deadline_us == 0) return false;
    int64_t end_us = job->stage == JOB_ENDED ? job->end_us : w->now_us;
    return end_us > job->submit_us + deadline_us || job->stage == JOB_REFUSED_BY_POOL;
}

static void add(const struct world *w, const struct live_job *job, struct sums *s)
{
    bool ended = job->stage == JOB_ENDED;
    int64_t last_us = ended ? job->end_us : w->now_us;
    if (s->jobs == 0 || job->submit_us < s->first_us) s->first_us = job->submit_us;
    if (last_us > s->last_us) s->last_us = last_us;
    s->jobs++;
    s->wait_h += wait_h_of(w, job);
    s->stood_h += (double)job->stood_us / HOUR;
    if (ended) s->job_h += (double)(job->end_us - job->submit_us) / HOUR;
    s->ended += ended;
    s->unfinished += !ended;
    s->missed += missed(w, job);
    s->restarts += job->restarts;
    s->held += job->held_sum;
    s->held_spot += job->held_spot_sum;
    s->held_usd += job->held_usd;
    s->productive += job->productive_sum;
    s->running += job->running_sum;
    s->devices += job->device_sum;
    s->overhead += job->overhead_sum + job->pause_sum;
    s->cv2 += job->cv2_sum;
    s->exchange += job->exchange_sum;
    s->lost += job->lost_work;
    s->work += job->done;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* What was bought, and all of what is paid whether used or not. */
static struct paid paid_of(struct world *w)
{
    struct paid paid = {.usd = w->bought_usd, .device_us = w->bought_device_us};
    double passed_us = (double)(w->now_us - START_US);
    for (uint32_t i = 0; i < w->scene->offer_count; i++) {
        const struct scene_offer *o = &w->scene->offers[i];
        if (!o->paid_always || !market_told(w, i)) continue;
        market_paid(w, i);
        double from = (double)o->from_us, until = o->until_us > 0 ? (double)o->until_us : passed_us;
        double share = (until < passed_us ? until : passed_us) - from;
        if (share <= 0) continue;
        paid.usd += w->offers[i].paid * ratio(share, passed_us) * o->stock;
        paid.device_us += share * o->stock * o->device_count;
    }
    return paid;
}

static double square_root(double x)
{
    return x <= 0 ? 0 : __builtin_sqrt(x);
}

/* `loaded`: dollars paid for each dollar that jobs held; busy: device time paid of what they held. */
static void fill(const struct sums *s, double loaded, double spare, double *v)
{
    v[MEASURE_TIME] = (double)(s->last_us - s->first_us) / HOUR;
    v[MEASURE_COST] = s->held_usd * loaded;
    v[MEASURE_UTILIZATION] = ratio(s->productive, s->held * spare);
    v[MEASURE_BUSY] = ratio(s->held, s->held * spare);
    v[MEASURE_OVERHEAD] = ratio(s->overhead, s->running);
    v[MEASURE_JITTER] = square_root(ratio(s->cv2, s->running));
    v[MEASURE_STEP_LOSS] = ratio(s->exchange, s->running);
    v[MEASURE_WAIT] = ratio(s->wait_h, (double)s->jobs);
    v[MEASURE_STOOD] = ratio(s->stood_h, (double)s->jobs);
    v[MEASURE_JOB_TIME] = ratio(s->job_h, (double)s->ended);
    v[MEASURE_JOB_COST] = ratio(v[MEASURE_COST], (double)s->ended);
    v[MEASURE_LOST_WORK] = ratio(s->lost, s->work);
    v[MEASURE_DEVICES] = ratio(s->devices, s->running);
    v[MEASURE_RESTARTS] = (double)s->restarts;
    v[MEASURE_MISSED] = (double)s->missed;
    v[MEASURE_UNFINISHED] = (double)s->unfinished;
    v[MEASURE_JOBS] = (double)s->jobs;
    v[MEASURE_SPOT_SHARE] = ratio(s->held_spot, s->held);
}

/* Of those that the world waits for, if it does not wait for all. */
static void note_unfinished(const struct world *w, struct unfinished *ret)
{
    for (uint32_t j = 0; j < w->job_count; j++) {
        const struct live_job *job = &w->jobs[j];
        if (job->stage == JOB_ENDED || !in_row(w, job, w->stop_group)) continue;
        *ret = (struct unfinished){.entry = job->entry,
                                   .number = job->number,
                                   .refused = job->stage == JOB_REFUSED_BY_POOL,
                                   .waited = job->stage != JOB_RUNS && job->wait_reason != 0,
                                   .reason = job->wait_reason,
                                   .a = job->wait_a,
                                   .b = job->wait_b,
                                   .c = job->wait_c};
        return;
    }
}

/* Waits by class; the memory is for the percentiles. */
static bool fill_waits(const struct world *w, struct outcome *out)
{
    double *waits = mem_alloc((w->job_count + 1) * sizeof *waits);
    if (waits == NULL) return false;
    for (uint32_t row = 0; row < 1 + w->scene->group_count; row++) {
        uint32_t count = 0;
        for (uint32_t j = 0; j < w->job_count; j++)
            if (in_row(w, &w->jobs[j], row)) waits[count++] = wait_h_of(w, &w->jobs[j]);
        out->values[row][MEASURE_WAIT_P95] = measure_percentile(waits, count, 0.95);
    }
    for (uint32_t class = 0; class < JOB_CLASS_END; class ++) {
        uint32_t count = 0;
        for (uint32_t j = 0; j < w->job_count; j++) {
            if (!in_row(w, &w->jobs[j], 0) || w->scene->jobs[w->jobs[j].entry].job_class != class)
                continue;
            waits[count] = wait_h_of(w, &w->jobs[j]);
            out->class_wait_h[class] += waits[count++];
        }
        out->class_wait_h[class] = ratio(out->class_wait_h[class], count);
        out->class_jobs[class] = count;
        out->class_wait_p95_h[class] = measure_percentile(waits, count, 0.95);
    }
    mem_free(waits);
    return true;
}

bool outcome_of(struct world *w, struct outcome *out)
{
    *out = (struct outcome){.events = w->events, .digest = w->digest};
    memcpy(out->met, w->met, sizeof out->met);
    out->bytes = w->memory_bytes + w->job_count * sizeof *w->jobs +
                 w->node_room * sizeof *w->nodes + w->worker_room * sizeof *w->workers +
                 w->queue.capacity * sizeof *w->queue.items + w->id_room * sizeof *w->id_jobs;
    struct pool_totals totals;
    pool_totals_read(w->pool, &totals);
    out->metered_usd = w->metered_usd;
    out->ledger_usd = (double)(totals.usd_micros_jobs + totals.usd_micros_overhead +
                               totals.usd_micros_idle + totals.usd_micros_adjustment) /
                      1e6;
    struct paid paid = paid_of(w);
    double loaded = 1, spare = 1;
    for (uint32_t row = 0; row < 1 + w->scene->group_count; row++) {
        struct sums sums = {0};
        for (uint32_t j = 0; j < w->job_count; j++)
            if (in_row(w, &w->jobs[j], row)) add(w, &w->jobs[j], &sums);
        if (row == 0) {
            loaded = sums.held_usd > 0 ? paid.usd / sums.held_usd : 1;
            spare = sums.held > 0 ? paid.device_us / sums.held : 1;
        }
        fill(&sums, loaded, spare, out->values[row]);
        out->values[row][MEASURE_PREEMPTIONS] = (double)w->preemptions;
        out->values[row][MEASURE_BOUGHT] = (double)w->begun;
    }
    note_unfinished(w, &out->unfinished);
    return fill_waits(w, out);
}
