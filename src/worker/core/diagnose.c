#include "worker/core/diagnose.h"
#include "core/assert.h"
#include <string.h>

#define LATE_MIN_US   INT64_C(1000000)
#define LATE_USUAL_US INT64_C(4000000)
enum {
    CRAWL_LIMITS = 4,
    SLOW_PACE_PERCENT = 120,
    LATE_SPREADS = 8,
    BUSY_SHARE = 4 /* a quarter of the time on a processor is busy */
};

static uint64_t bit(uint32_t index)
{
    return UINT64_C(1) << index;
}

static uint32_t ones(uint64_t mask)
{
    uint32_t count = 0;
    for (; mask != 0; mask &= mask - 1) count++;
    return count;
}

int64_t diagnose_limit_us(int64_t usual_us, int64_t spread_us)
{
    int64_t margin_us = LATE_SPREADS * spread_us, usual = usual_us;
    if (usual > LATE_USUAL_US) usual = LATE_USUAL_US;
    if (margin_us < usual) margin_us = usual;
    if (margin_us < LATE_MIN_US) margin_us = LATE_MIN_US;
    return usual_us + margin_us;
}

/* What is known while a verdict is made. */
struct look {
    const struct diagnose_input *input;
    uint64_t silent, entered, late; /* masks over the ranks */
    uint64_t front;                 /* the step that the first have reached */
    uint64_t blamed;                /* has been named */
    uint32_t pace_permille;         /* of the group: its median */
    struct diagnose_verdict *verdict;
};

static int64_t in_phase_us(const struct diagnose_rank *rank)
{
    return (int64_t)rank->told.in_phase_us + rank->age_us;
}

static struct diagnose_culprit *blame(struct look *look, uint32_t rank, enum diagnose_kind kind)
{
    const struct diagnose_rank *of = &look->input->rank[rank];
    look->blamed |= bit(rank);
    if (look->verdict->culprit_count == GROUP_MEMBERS_MAX) return NULL;
    struct diagnose_culprit *culprit = &look->verdict->culprit[look->verdict->culprit_count++];
    *culprit = (struct diagnose_culprit){
        .rank = rank,
        .peer = rank,
        .kind = kind,
        .phase = of->told.phase,
        .host = of->told.host,
        .detail = of->told.detail,
        .attempt = of->told.attempt,
        .step = of->told.step,
        .since_us = in_phase_us(of),
        .usual_us = of->told.usual_us,
        .cpu_us = of->told.cpu_us,
    };
    return culprit;
}

/* ---- bad links: a rank that has most of them, or each for itself ---- */

struct links {
    uint64_t from[GROUP_MEMBERS_MAX]; /* [to]: bit j = data j -> to does not come */
};

static uint64_t partners(const struct links *links, uint32_t count, uint32_t rank)
{
    uint64_t mask = links->from[rank];
    for (uint32_t i = 0; i < count; i++)
        if ((links->from[i] & bit(rank)) != 0) mask |= bit(i);
    return mask & ~bit(rank);
}

static void forget(struct links *links, uint32_t count, uint32_t rank)
{
    links->from[rank] = 0;
    for (uint32_t i = 0; i < count; i++) links->from[i] &= ~bit(rank);
}

static void blame_links(struct look *look, struct links *links, bool slow)
{
    uint32_t count = look->input->count, others = count - 1;
    for (;;) {
        uint32_t worst = 0, most = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t degree = ones(partners(links, count, i));
            if (degree > most) worst = i, most = degree;
        }
        if (most == 0) return;
        bool node = most >= 2 && 2 * most >= others;
        uint64_t ends = partners(links, count, worst);
        if (node) {
            struct diagnose_culprit *culprit = blame(look, worst, DIAGNOSE_NETWORK);
            if (culprit != NULL) culprit->slow = slow;
            forget(links, count, worst);
            continue;
        }
        for (uint32_t peer = 0; peer < count; peer++) {
            if ((ends & bit(peer)) == 0) continue;
            struct diagnose_culprit *culprit =
                blame(look, worst < peer ? worst : peer, DIAGNOSE_LINK);
            if (culprit != NULL) culprit->peer = worst < peer ? peer : worst;
            if (culprit != NULL) culprit->slow = slow;
            look->blamed |= bit(worst) | bit(peer);
        }
        forget(links, count, worst);
    }
}

/* ---- who is heard ---- */

static bool judge_silence(struct look *look)
{
    const struct diagnose_input *input = look->input;
    uint32_t others = input->count - 1;
    for (uint32_t i = 0; i < input->count; i++) {
        const struct diagnose_rank *rank = &input->rank[i];
        if (i != input->me && (!rank->heard || rank->age_us > rank->silent_us))
            look->silent |= bit(i);
    }
    if (others >= 2 && 2 * ones(look->silent) > others) {
        (void)blame(look, input->me, DIAGNOSE_NETWORK); /* the list has room: it is the first */
        return false;
    }
    struct links links = {0};
    for (uint32_t i = 0; i < input->count; i++) {
        if ((look->silent & bit(i)) == 0) continue;
        /* What others hear is known by their heartbeats, which are older than the silence. */
        bool asked_late = input->rank[i].age_us > input->rank[i].silent_us * 3 / 2;
        if (!asked_late && input->rank[i].heard) continue;
        uint32_t hear = 0, asked = 0;
        for (uint32_t k = 0; k < input->count; k++) {
            if (k == input->me || (look->silent & bit(k)) != 0) continue;
            asked++;
            hear += (input->rank[k].told.unheard & bit(i)) == 0;
        }
        if (asked >= 2 && 2 * hear > asked && input->rank[i].heard)
            links.from[input->me] |= bit(i);
        else
            (void)blame(look, i, DIAGNOSE_SILENT); /* one place for each rank: there is room */
    }
    blame_links(look, &links, false);
    return true;
}

/* ---- who is where ---- */

static bool has_entered(const struct look *look, uint32_t i)
{
    const struct record_summary *told = &look->input->rank[i].told;
    return told->phase == RECORD_REDUCE || told->step > look->verdict->step;
}

/* The step in work is the lowest that somebody is still in; the front may be one ahead. */
static void place_ranks(struct look *look)
{
    const struct diagnose_input *input = look->input;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < input->count; i++) {
        if ((look->silent & bit(i)) != 0) continue;
        const struct record_summary *told = &input->rank[i].told;
        if (told->step > look->front) look->front = told->step;
        if (told->step < lowest) lowest = told->step;
    }
    look->verdict->step = lowest == UINT64_MAX ? 0 : lowest;
    for (uint32_t i = 0; i < input->count; i++) {
        if ((look->silent & bit(i)) != 0) continue;
        if (has_entered(look, i))
            look->entered |= bit(i);
        else
            look->late |= bit(i);
    }
}

/* ---- late ones ---- */

static uint32_t group_pace(const struct diagnose_input *input)
{
    uint32_t pace[GROUP_MEMBERS_MAX], count = 0;
    for (uint32_t i = 0; i < input->count; i++) {
        uint32_t own = input->rank[i].told.pace_permille, at = count;
        if (own == 0) continue;
        for (; at > 0 && pace[at - 1] > own; at--) pace[at] = pace[at - 1];
        pace[at] = own;
        count++;
    }
    return count < 3 || pace[count / 2] < 1000 ? 1000 : pace[count / 2];
}

/* Median over the ranks that have a past in this phase: the measure for one that has none. */
static bool measure_of_others(const struct diagnose_input *input, uint32_t phase,
                              int64_t *ret_usual_us, int64_t *ret_spread_us)
{
    int64_t us[GROUP_MEMBERS_MAX], spread_us = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < input->count; i++) {
        const struct record_summary *told = &input->rank[i].told;
        if (told->phase != phase || told->samples == 0) continue;
        uint32_t at = count++;
        for (; at > 0 && us[at - 1] > told->usual_us; at--) us[at] = us[at - 1];
        us[at] = told->usual_us;
        if (told->spread_us > spread_us) spread_us = told->spread_us;
    }
    if (count == 0) return false;
    *ret_usual_us = us[count / 2];
    *ret_spread_us = spread_us;
    return true;
}

/* In the collective, or done with it and without anything to do before the others are. */
static bool waits(const struct look *look, uint32_t i)
{
    uint8_t phase = look->input->rank[i].told.phase;
    if (phase == RECORD_SYNC) return true;
    return (look->entered & bit(i)) != 0 && (phase == RECORD_REDUCE || phase == RECORD_OUTSIDE);
}

static int64_t longest_wait_us(const struct look *look)
{
    int64_t longest_us = 0;
    for (uint32_t i = 0; i < look->input->count; i++)
        if (waits(look, i) && in_phase_us(&look->input->rank[i]) > longest_us)
            longest_us = in_phase_us(&look->input->rank[i]);
    return longest_us;
}

/* Those who are through with it and wait: how long did the same take them, this time? */
static int64_t took_the_others_us(const struct look *look, uint32_t phase)
{
    int64_t us[GROUP_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < look->input->count; i++) {
        const struct record_summary *told = &look->input->rank[i].told;
        if (!waits(look, i) || told->work_phase != phase) continue;
        uint32_t at = count++;
        for (; at > 0 && us[at - 1] > told->work_us; at--) us[at] = us[at - 1];
        us[at] = told->work_us;
    }
    return count == 0 ? 0 : us[count / 2];
}

static bool is_overdue(const struct look *look, uint32_t i)
{
    const struct diagnose_rank *rank = &look->input->rank[i];
    int64_t usual_us = rank->told.usual_us, spread_us = rank->told.spread_us;
    if (rank->told.samples == 0 &&
        !measure_of_others(look->input, rank->told.phase, &usual_us, &spread_us)) {
        /* The first step of all: late by the time that others have been waiting for it. */
        return in_phase_us(rank) > 2 * LATE_USUAL_US && longest_wait_us(look) > LATE_USUAL_US;
    }
    if (rank->told.phase == RECORD_COMPUTE) usual_us = usual_us * look->pace_permille / 1000;
    int64_t others_us = took_the_others_us(look, rank->told.phase);
    if (rank->told.phase != RECORD_COMPUTE && others_us > usual_us) usual_us = others_us;
    return in_phase_us(rank) > diagnose_limit_us(usual_us, spread_us);
}

enum diagnose_kind diagnose_kind_of_late(const struct diagnose_rank *rank)
{
    switch ((enum record_phase)rank->told.phase) {
    case RECORD_DATA: return DIAGNOSE_DATA;
    case RECORD_SAVE: return DIAGNOSE_STORAGE;
    case RECORD_SYNC: return DIAGNOSE_NETWORK;
    case RECORD_COMPUTE:
    case RECORD_APPLY:
    case RECORD_OUTSIDE:
    case RECORD_REDUCE:
    case RECORD_PHASE_END: break;
    }
    bool busy = (int64_t)rank->told.cpu_us * BUSY_SHARE >= in_phase_us(rank);
    if (busy) return DIAGNOSE_COMPUTE;
    switch ((enum record_host)rank->told.host) {
    case HOST_READS: return DIAGNOSE_DATA;
    case HOST_SLEEPS:
    case HOST_LOCKED:
    case HOST_DISK:
    case HOST_STOPPED:
    case HOST_CALL: return DIAGNOSE_HOST;
    case HOST_UNKNOWN:
    case HOST_RUNS:
    case HOST_END: break;
    }
    return DIAGNOSE_COMPUTE;
}

static void judge_late(struct look *look)
{
    const struct diagnose_input *input = look->input;
    /* All evaluate, or all compile: as long as nobody waits for it nobody is late. */
    if (input->count > 1 && longest_wait_us(look) < LATE_MIN_US) return;
    for (uint32_t i = 0; i < input->count; i++) {
        if ((look->late & bit(i)) == 0 || (look->blamed & bit(i)) != 0) continue;
        uint8_t phase = input->rank[i].told.phase;
        if (phase == RECORD_OUTSIDE || phase == RECORD_SYNC) continue; /* nothing is asked of it */
        if (is_overdue(look, i))
            (void)blame(look, i, diagnose_kind_of_late(&input->rank[i])); /* room for each */
    }
}

/* ---- the network ---- */

/* How long a collective may take once everybody has entered: by the least that anybody waits, who
 * usually comes last. */
static int64_t link_limit_us(const struct look *look)
{
    int64_t usual_us = INT64_MAX, spread_us = INT64_MAX;
    for (uint32_t i = 0; i < look->input->count; i++) {
        const struct record_summary *told = &look->input->rank[i].told;
        if (told->phase != RECORD_REDUCE || told->samples == 0) continue;
        if (told->usual_us < usual_us) usual_us = told->usual_us, spread_us = told->spread_us;
    }
    if (usual_us == INT64_MAX) usual_us = LATE_USUAL_US, spread_us = 0;
    return diagnose_limit_us(usual_us, spread_us);
}

/* Code divergence: they have entered, but not the same. */
static void judge_collectives(struct look *look)
{
    const struct diagnose_input *input = look->input;
    uint32_t best = 0, votes = 0, total = 0;
    int64_t limit_us = link_limit_us(look); /* a new turn reaches all within moments */
    uint64_t in = 0;
    for (uint32_t i = 0; i < input->count; i++) {
        const struct record_summary *told = &input->rank[i].told;
        bool here = (look->silent & bit(i)) == 0 && told->phase == RECORD_REDUCE &&
                    told->step == look->verdict->step && told->collective != 0;
        if (here) in |= bit(i);
    }
    for (uint32_t i = 0; i < input->count; i++) {
        if ((in & bit(i)) == 0) continue;
        uint32_t same = 0;
        for (uint32_t k = 0; k < input->count; k++)
            same += (in & bit(k)) != 0 &&
                    input->rank[k].told.collective == input->rank[i].told.collective;
        total++;
        if (same > votes) best = i, votes = same;
    }
    if (2 * votes <= total) return; /* no majority to measure by */
    for (uint32_t i = 0; i < input->count; i++)
        if ((in & bit(i)) != 0 && in_phase_us(&input->rank[i]) > limit_us &&
            input->rank[i].told.collective != input->rank[best].told.collective)
            (void)blame(look, i, DIAGNOSE_DIVERGED); /* room for each */
}

static bool in_collective(const struct look *look, uint32_t i)
{
    const struct record_summary *told = &look->input->rank[i].told;
    return (look->silent & bit(i)) == 0 && told->phase == RECORD_REDUCE &&
           told->step == look->verdict->step;
}

/* to misses what from has had ready for longer than the limit: nothing comes, or it comes so slowly
 * that four times the limit did not do. */
static bool is_missing(const struct look *look, uint32_t to, uint32_t from, int64_t limit_us)
{
    const struct diagnose_rank *rank = look->input->rank;
    if (!in_collective(look, to) || (look->silent & bit(from)) != 0) return false;
    int64_t idle_us = (int64_t)rank[to].told.idle_us + rank[to].age_us;
    int64_t both_us = in_phase_us(&rank[to]);
    bool sender_left = rank[from].told.step > look->verdict->step;
    if (!sender_left && !in_collective(look, from)) return false;
    if (!sender_left && in_phase_us(&rank[from]) < both_us) both_us = in_phase_us(&rank[from]);
    bool crawls = !sender_left && both_us > CRAWL_LIMITS * limit_us;
    return crawls || (both_us > limit_us && idle_us > limit_us);
}

static void judge_network(struct look *look)
{
    const struct diagnose_input *input = look->input;
    int64_t limit_us = link_limit_us(look);
    struct links parts = {0}, means = {0};
    uint64_t any_part = 0, any_mean = 0;
    for (uint32_t to = 0; to < input->count; to++)
        for (uint32_t from = 0; from < input->count; from++) {
            const struct record_summary *told = &input->rank[to].told;
            if (to == from || !is_missing(look, to, from, limit_us)) continue;
            parts.from[to] |= told->await_part & bit(from);
            means.from[to] |= told->await_mean & bit(from);
            any_part |= told->await_part & bit(from);
            any_mean |= told->await_mean & bit(from);
        }
    for (uint32_t i = 0; i < input->count; i++) {
        if ((look->blamed & bit(i)) == 0) continue;
        forget(&parts, input->count, i);
        forget(&means, input->count, i);
    }
    if (any_part != 0)
        blame_links(look, &parts, false);
    else if (any_mean != 0 && look->verdict->culprit_count == 0 && look->late == 0)
        blame_links(look, &means, false);
}

/* ---- slowness ---- */

static void judge_slow(struct look *look)
{
    const struct diagnose_input *input = look->input;
    uint32_t slow[RECORD_PHASE_END] = {0};
    struct links links = {0};
    for (uint32_t i = 0; i < input->count; i++) {
        const struct record_summary *told = &input->rank[i].told;
        if ((look->silent & bit(i)) != 0) continue;
        slow[told->slow_phase] += told->slow_us != 0;
        links.from[i] = told->slow_from & ~bit(i);
    }
    for (uint32_t i = 0; i < input->count; i++) {
        const struct record_summary *told = &input->rank[i].told;
        if (((look->silent | look->blamed) & bit(i)) != 0 || told->slow_us == 0) continue;
        if (input->count > 2 && 2 * slow[told->slow_phase] >= input->count) continue;
        uint64_t group_us = (uint64_t)told->slow_usual_us * look->pace_permille / 1000;
        bool computes = told->slow_phase == RECORD_COMPUTE;
        if (computes && (uint64_t)told->slow_us * 100 < group_us * SLOW_PACE_PERCENT) continue;
        enum diagnose_kind kind = told->slow_phase == RECORD_DATA   ? DIAGNOSE_DATA
                                  : told->slow_phase == RECORD_SAVE ? DIAGNOSE_STORAGE
                                                                    : DIAGNOSE_COMPUTE;
        struct diagnose_culprit *culprit = blame(look, i, kind);
        if (culprit == NULL) continue;
        culprit->slow = true;
        culprit->phase = told->slow_phase;
        culprit->since_us = told->slow_us;
        culprit->usual_us = told->slow_usual_us;
        culprit->cpu_us = 0;
    }
    for (uint32_t i = 0; i < input->count; i++) /* what a named rank sends late is its own fault */
        if ((look->blamed & bit(i)) != 0) forget(&links, input->count, i);
    blame_links(look, &links, true);
}

/* ---- the verdict as a whole ---- */

static void name_victims(struct look *look)
{
    const struct diagnose_input *input = look->input;
    look->verdict->waited_us = longest_wait_us(look);
    for (uint32_t i = 0; i < input->count; i++)
        if (waits(look, i) && (look->blamed & bit(i)) == 0) look->verdict->victims |= bit(i);
    bool stuck = false;
    for (uint32_t i = 0; i < look->verdict->culprit_count; i++)
        stuck = stuck || !look->verdict->culprit[i].slow;
    look->verdict->stalled =
        stuck && (look->verdict->waited_us > 0 || input->count == 1 || look->entered == 0);
}

static void judge_drops(struct look *look)
{
    const struct diagnose_input *input = look->input;
    struct diagnose_verdict *verdict = look->verdict;
    uint32_t stuck = 0;
    for (uint32_t i = 0; i < verdict->culprit_count; i++) stuck += !verdict->culprit[i].slow;
    bool own_fault = stuck == 1 ? input->count >= 2 : 4 * stuck < input->count;
    bool all_wait = 2 * ones(verdict->victims) >= input->count;
    if (!own_fault || !all_wait) return;
    int64_t price_us = input->drop_cost_us;
    if (price_us < DIAGNOSE_DROP_MIN_US) price_us = DIAGNOSE_DROP_MIN_US;
    for (uint32_t i = 0; i < verdict->culprit_count; i++) {
        struct diagnose_culprit *culprit = &verdict->culprit[i];
        bool own_work = culprit->kind == DIAGNOSE_HOST || culprit->kind == DIAGNOSE_DATA ||
                        culprit->kind == DIAGNOSE_COMPUTE;
        bool in_slot = culprit->phase == RECORD_COMPUTE || culprit->phase == RECORD_DATA;
        if (input->rank[culprit->rank].told.samples == 0) continue; /* its first steps: not sure */
        int64_t lost_us = culprit->since_us - culprit->usual_us;
        if (verdict->waited_us < lost_us) lost_us = verdict->waited_us;
        culprit->drop = !culprit->slow && own_work && in_slot && lost_us > price_us;
    }
}

void diagnose(const struct diagnose_input *input, struct diagnose_verdict *ret_verdict)
{
    ASSERT(input->count > 0);
    ASSERT(input->count <= GROUP_MEMBERS_MAX);
    ASSERT(input->me < input->count);
    memset(ret_verdict, 0, sizeof *ret_verdict);
    struct look look = {.input = input, .verdict = ret_verdict, .pace_permille = group_pace(input)};
    bool connected = judge_silence(&look);
    place_ranks(&look);
    if (connected) {
        judge_collectives(&look);
        judge_late(&look);
        judge_network(&look);
        judge_slow(&look);
    }
    name_victims(&look);
    judge_drops(&look);
}
