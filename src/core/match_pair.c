#include "core/match_pair.h"
#include "core/assert.h"
#include "core/match.h"
#include "core/match_weight.h"

static int64_t value_alone(const struct match_pair_job *job)
{
    return job->type == MATCH_OUT ? 0 : job->value[job->type];
}

/* weight * rate of a beside b; 0 = not measured. */
static int64_t value_beside(const struct match_pairs *pairs, const struct match_pair_job *a,
                            const struct match_pair_job *b, uint32_t type)
{
    uint64_t row = (uint64_t)type * pairs->profiles + a->profile;
    return match_worth(a->weight, pairs->rates[row * pairs->profiles + b->profile]);
}

/* What both are worth together on the type; 0 = they cannot be. */
static int64_t value_together(const struct match_pairs *pairs, const struct match_pair_job *a,
                              const struct match_pair_job *b, uint32_t type)
{
    int64_t of_a = value_beside(pairs, a, b, type);
    int64_t of_b = value_beside(pairs, b, a, type);
    return of_a > 0 && of_b > 0 ? of_a + of_b : 0;
}

static int64_t value_now(const struct match_pairs *pairs, const struct match_pair_job *job)
{
    if (job->type == MATCH_OUT) return 0;
    if (job->partner == MATCH_OUT) return value_alone(job);
    return value_beside(pairs, job, &pairs->jobs[job->partner], job->type);
}

/* Devices of the type are free: who gains most by having them for itself? A job in a pair leaves its
 * partner alone, which gains too. */
static uint32_t best_heir(const struct match_pairs *pairs, uint32_t type, bool also_paired)
{
    uint32_t best = MATCH_OUT;
    int64_t best_gain = 0;
    for (uint32_t i = 0; i < pairs->job_count; i++) {
        const struct match_pair_job *job = &pairs->jobs[i];
        if (job->value[type] <= 0 || job->width > pairs->free[type]) continue;
        if (job->partner != MATCH_OUT && !also_paired) continue;
        if (job->partner == MATCH_OUT && job->type == type) continue;
        int64_t gain = job->value[type] - value_now(pairs, job);
        if (job->partner != MATCH_OUT) {
            const struct match_pair_job *left = &pairs->jobs[job->partner];
            gain += value_alone(left) - value_now(pairs, left);
        }
        gain *= job->width;
        if (gain <= best_gain) continue;
        best_gain = gain;
        best = i;
    }
    return best;
}

static void move_alone(struct match_pairs *pairs, uint32_t i, uint32_t type)
{
    struct match_pair_job *job = &pairs->jobs[i];
    ASSERT(pairs->free[type] >= job->width);
    if (job->partner != MATCH_OUT) {
        pairs->jobs[job->partner].partner = MATCH_OUT; /* keeps the devices */
        job->partner = MATCH_OUT;
    } else if (job->type != MATCH_OUT) {
        pairs->free[job->type] += job->width;
    }
    pairs->free[type] -= job->width;
    job->type = type;
}

static void use_free(struct match_pairs *pairs, bool also_paired)
{
    /* Each move gains, so it ends; the bound is for the time. */
    for (uint32_t moves = 0; moves < pairs->job_count; moves++) {
        bool moved = false;
        for (uint32_t type = 0; type < pairs->types; type++) {
            if (pairs->free[type] == 0) continue;
            uint32_t heir = best_heir(pairs, type, also_paired);
            if (heir == MATCH_OUT) continue;
            move_alone(pairs, heir, type);
            moved = true;
        }
        if (!moved) return;
    }
}

static uint32_t best_partner(const struct match_pairs *pairs, uint32_t i)
{
    const struct match_pair_job *job = &pairs->jobs[i];
    int64_t now = value_now(pairs, job);
    uint32_t best = MATCH_OUT;
    int64_t best_gain = 0;
    for (uint32_t j = 0; j < pairs->job_count; j++) {
        const struct match_pair_job *host = &pairs->jobs[j];
        if (j == i || host->type == MATCH_OUT || host->partner != MATCH_OUT) continue;
        if (host->width != job->width) continue;
        int64_t together = value_together(pairs, job, host, host->type);
        if (together == 0) continue;
        int64_t gain = together - value_alone(host) - now;
        if (gain <= best_gain) continue;
        best_gain = gain;
        best = j;
    }
    return best;
}

static bool join(struct match_pairs *pairs, uint32_t i)
{
    struct match_pair_job *job = &pairs->jobs[i];
    if (job->partner != MATCH_OUT) return false;
    uint32_t host = best_partner(pairs, i);
    if (host == MATCH_OUT) return false;
    uint32_t left = job->type;
    if (left != MATCH_OUT) pairs->free[left] += job->width;
    job->type = pairs->jobs[host].type;
    job->partner = host;
    pairs->jobs[host].partner = i;
    if (left == MATCH_OUT) return true;
    uint32_t heir = best_heir(pairs, left, /* also_paired */ false);
    if (heir != MATCH_OUT) move_alone(pairs, heir, left);
    return true;
}

/* The partner whom i, that waits, replaces with the greatest gain; returns who stays. */
static uint32_t best_to_replace(const struct match_pairs *pairs, uint32_t i)
{
    const struct match_pair_job *job = &pairs->jobs[i];
    uint32_t best = MATCH_OUT;
    int64_t best_gain = 0;
    for (uint32_t j = 0; j < pairs->job_count; j++) {
        const struct match_pair_job *host = &pairs->jobs[j];
        if (host->partner == MATCH_OUT || host->width != job->width) continue;
        int64_t together = value_together(pairs, job, host, host->type);
        if (together == 0) continue;
        int64_t gain =
            together - value_now(pairs, host) - value_now(pairs, &pairs->jobs[host->partner]);
        if (gain <= best_gain) continue;
        best_gain = gain;
        best = j;
    }
    return best;
}

static bool replace(struct match_pairs *pairs, uint32_t i)
{
    struct match_pair_job *job = &pairs->jobs[i];
    if (job->type != MATCH_OUT) return false;
    uint32_t host = best_to_replace(pairs, i);
    if (host == MATCH_OUT) return false;
    struct match_pair_job *gone = &pairs->jobs[pairs->jobs[host].partner];
    gone->type = gone->partner = MATCH_OUT;
    job->type = pairs->jobs[host].type;
    job->partner = host;
    pairs->jobs[host].partner = i;
    return true;
}

/* The job of another pair that i gains most by, if their partners become a pair too. */
static uint32_t best_to_swap(const struct match_pairs *pairs, uint32_t i)
{
    const struct match_pair_job *a = &pairs->jobs[i], *b = &pairs->jobs[a->partner];
    int64_t here = value_now(pairs, a) + value_now(pairs, b);
    uint32_t best = MATCH_OUT;
    int64_t best_gain = 0;
    for (uint32_t j = 0; j < pairs->job_count; j++) {
        const struct match_pair_job *c = &pairs->jobs[j];
        if (c->partner == MATCH_OUT || c == a || c == b || c->width != a->width) continue;
        const struct match_pair_job *d = &pairs->jobs[c->partner];
        int64_t stays = value_together(pairs, a, c, a->type);
        int64_t goes = value_together(pairs, b, d, c->type);
        if (stays == 0 || goes == 0) continue;
        int64_t gain = stays + goes - here - value_now(pairs, c) - value_now(pairs, d);
        if (gain <= best_gain) continue;
        best_gain = gain;
        best = j;
    }
    return best;
}

static bool swap(struct match_pairs *pairs, uint32_t i)
{
    struct match_pair_job *a = &pairs->jobs[i];
    if (a->partner == MATCH_OUT) return false;
    uint32_t j = best_to_swap(pairs, i);
    if (j == MATCH_OUT) return false;
    struct match_pair_job *c = &pairs->jobs[j];
    uint32_t left = a->partner, other = c->partner;
    pairs->jobs[left].type = c->type;
    pairs->jobs[left].partner = other;
    pairs->jobs[other].partner = left;
    c->type = a->type;
    c->partner = i;
    a->partner = j;
    return true;
}

static bool trade(struct match_pairs *pairs)
{
    bool traded = false;
    for (uint32_t i = 0; i < pairs->job_count; i++) traded = replace(pairs, i) || traded;
    for (uint32_t i = 0; i < pairs->job_count; i++) traded = swap(pairs, i) || traded;
    return traded;
}

void match_pair(struct match_pairs *pairs)
{
    ASSERT(pairs->types <= MATCH_TYPES_MAX);
    ASSERT(pairs->profiles <= MATCH_PROFILES_MAX);
    for (uint32_t i = 0; i < pairs->job_count; i++) {
        ASSERT(pairs->jobs[i].profile < pairs->profiles);
        pairs->jobs[i].partner = MATCH_OUT;
    }
    for (uint32_t pass = 0; pass < MATCH_PAIR_PASSES; pass++) {
        bool joined = false;
        for (uint32_t i = 0; i < pairs->job_count; i++)
            if (join(pairs, i)) joined = true;
        if (!joined) break;
    }
    bool traded = true;
    for (uint32_t pass = 0; traded && pass < MATCH_PAIR_TRADES; pass++) {
        use_free(pairs, /* also_paired */ true);
        traded = trade(pairs);
    }
    if (traded) use_free(pairs, /* also_paired */ true);
}
