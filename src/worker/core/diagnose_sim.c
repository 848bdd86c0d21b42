#include "worker/core/diagnose_sim.h"
#include "core/assert.h"
#include <stdio.h>
#include <string.h>

static const char *const fault_names[FAULT_KINDS] = {
    "nothing", "pause",   "all slower", "slots moved",  "evaluation", "stopped",   "sleep",
    "lock",    "disk",    "data",       "read",         "busy",       "apply",     "storage",
    "link",    "network", "diverged",   "slow compute", "slow data",  "slow link", "slow network",
};

static uint64_t draw(struct world *w, uint64_t below)
{
    return w->next(&w->random) % below;
}

static int64_t between(struct world *w, int64_t low, int64_t high)
{
    return low + (int64_t)draw(w, (uint64_t)(high - low + 1));
}

/* +- 6 %, now and then up to 40 % more: what a machine that does other things as well does. */
static int64_t jitter(struct world *w, int64_t us)
{
    int64_t more = draw(w, 25) == 0 ? between(w, 0, us * 2 / 5) : 0;
    return us + us * between(w, -60, 60) / 1000 + more;
}

static const struct fault *fault_of(const struct world *w, uint32_t rank)
{
    for (uint32_t i = 0; w->ill && i < w->fault_count; i++)
        if (w->fault[i].rank == rank) return &w->fault[i];
    return NULL;
}

static bool has_fault(const struct world *w, uint32_t rank, enum fault_kind kind)
{
    const struct fault *fault = fault_of(w, rank);
    return fault != NULL && fault->kind == kind;
}

/* ---- the timeline of one step ---- */

static void happen(struct world *w, uint32_t rank, int64_t at_us, enum record_phase phase,
                   uint32_t detail)
{
    struct actor *a = &w->actor[rank];
    ASSERT(a->count < EVENTS_MAX);
    uint64_t collective = has_fault(w, rank, FAULT_DIVERGED) ? 999 : 4096;
    a->happening[a->count++] = (struct happening){at_us,
                                                  {.step = w->step,
                                                   .collective = collective,
                                                   .attempt = 1,
                                                   .phase = phase,
                                                   .detail = detail}};
}

static bool sticks_in_slot(const struct fault *fault)
{
    if (fault == NULL) return false;
    return fault->kind == FAULT_SLEEP || fault->kind == FAULT_LOCK || fault->kind == FAULT_DISK ||
           fault->kind == FAULT_DATA_READ || fault->kind == FAULT_BUSY ||
           fault->kind == FAULT_STOPPED;
}

static int64_t slot_takes(struct world *w, uint32_t rank, uint32_t slot)
{
    int64_t us = jitter(w, w->actor[rank].slot_us);
    if (has_fault(w, rank, SLOW_COMPUTE)) us = us * 2;
    if (has_fault(w, rank, CONTROL_PAUSE) && w->step == w->onset_step && slot == 0)
        us += between(w, 100 * MS, 900 * MS);
    if (w->ill && w->fault[0].kind == CONTROL_ALL_SLOW) us = us * 2;
    return us;
}

static void note_onset(struct world *w, int64_t at_us)
{
    if (w->ill && at_us < w->onset_us) w->onset_us = at_us;
}

/* Data and slots; the time at which this rank enters the collective. */
static int64_t work_until(struct world *w, uint32_t rank, int64_t at_us, uint32_t first_slot)
{
    struct actor *a = &w->actor[rank];
    const struct fault *fault = fault_of(w, rank);
    if (w->step % 5 == 0) {
        happen(w, rank, at_us, RECORD_SAVE, 0);
        if (has_fault(w, rank, FAULT_STORAGE)) return note_onset(w, at_us), NEVER;
        at_us += jitter(w, w->save_us);
    }
    uint32_t stuck = a->slots == 0 ? 0 : (uint32_t)draw(w, a->slots);
    for (uint32_t i = 0; i < a->slots; i++) {
        happen(w, rank, at_us, RECORD_DATA, first_slot + i);
        if (has_fault(w, rank, FAULT_DATA_TOLD) && i == stuck) return note_onset(w, at_us), NEVER;
        at_us += jitter(w, w->data_us);
        if (has_fault(w, rank, SLOW_DATA)) at_us += a->slot_us / 2 + w->data_us;
        happen(w, rank, at_us, RECORD_COMPUTE, first_slot + i);
        if (sticks_in_slot(fault) && i == stuck) {
            note_onset(w, at_us);
            a->stopped = fault->kind == FAULT_STOPPED;
            return NEVER;
        }
        at_us += slot_takes(w, rank, i);
    }
    happen(w, rank, at_us, RECORD_REDUCE, 0);
    return at_us;
}

static bool is_pair(const struct fault *fault, uint32_t a, uint32_t b)
{
    return (fault->rank == a && fault->peer == b) || (fault->rank == b && fault->peer == a);
}

static int64_t transfer_us(struct world *w, uint32_t from, uint32_t to)
{
    int64_t us = jitter(w, w->part_us);
    for (uint32_t i = 0; w->ill && i < w->fault_count; i++) {
        const struct fault *fault = &w->fault[i];
        bool end = fault->rank == from || fault->rank == to;
        if (fault->kind == FAULT_LINK && is_pair(fault, from, to)) return NEVER;
        if (fault->kind == FAULT_NETWORK && end) return NEVER;
        if (fault->kind == SLOW_LINK && is_pair(fault, from, to)) us *= 6;
        if (fault->kind == SLOW_NETWORK && end) us *= 6;
    }
    return us;
}

static int64_t sum_us(int64_t a, int64_t b)
{
    return a >= NEVER || b >= NEVER ? NEVER : a + b;
}

static void reduce(struct world *w)
{
    static int64_t duration_us[GROUP_MEMBERS_MAX][GROUP_MEMBERS_MAX];
    for (uint32_t to = 0; to < w->count; to++) {
        struct actor *a = &w->actor[to];
        a->final_us = a->enter_us;
        for (uint32_t from = 0; from < w->count; from++) {
            int64_t us = from == to ? 0 : transfer_us(w, from, to);
            if (has_fault(w, from, FAULT_DIVERGED) && from != to) us = NEVER;
            duration_us[to][from] = us;
            a->part_us[from] = sum_us(w->actor[from].enter_us, us);
            if (a->part_us[from] > a->final_us) a->final_us = a->part_us[from];
            if (us >= NEVER) note_onset(w, w->actor[from].enter_us);
        }
    }
    for (uint32_t to = 0; to < w->count; to++) {
        struct actor *a = &w->actor[to];
        a->end_us = a->final_us;
        for (uint32_t from = 0; from < w->count; from++) {
            int64_t us = from == to ? 0 : transfer_us(w, from, to);
            a->mean_us[from] = sum_us(w->actor[from].final_us, us);
            if (a->mean_us[from] > a->end_us) a->end_us = a->mean_us[from];
            int64_t part_us = a->part_us[from];
            if (from == to || part_us >= NEVER) continue;
            recorder_part(&a->recorder, from, 1, part_us - duration_us[to][from] + a->clock_us);
            recorder_part(&a->recorder, from, 1, part_us + a->clock_us);
        }
    }
}

/* Lays out what happens in the next step. */
static void plan_step(struct world *w)
{
    uint32_t slot = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        struct actor *a = &w->actor[i];
        a->count = a->next = 0;
        a->enter_us = work_until(w, i, w->now_us + between(w, 0, 2 * MS), slot);
        slot += a->slots;
    }
    reduce(w);
    w->held = false;
    int64_t end_us = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        struct actor *a = &w->actor[i];
        if (a->end_us >= NEVER) {
            w->held = true;
            continue;
        }
        happen(w, i, a->end_us, RECORD_APPLY, 0);
        if (has_fault(w, i, FAULT_APPLY)) {
            note_onset(w, a->end_us);
            w->held = true;
            continue;
        }
        a->end_us += jitter(w, w->apply_us);
        if (w->ill && w->fault[0].kind == CONTROL_EVALUATE && w->step == w->onset_step)
            a->end_us += w->evaluate_us + w->evaluate_us * between(w, -60, 60) / 1000;
        w->step++;
        happen(w, i, a->end_us, RECORD_OUTSIDE, 0);
        w->step--;
        if (a->end_us > end_us) end_us = a->end_us;
    }
    w->now_us = end_us + 1 * MS; /* when the next one begins, unless held */
}

/* ---- what is told and seen ---- */

static void catch_up(struct actor *a, int64_t now_us)
{
    while (a->next < a->count && a->happening[a->next].at_us <= now_us) {
        const struct happening *h = &a->happening[a->next++];
        (void)recorder_enter(&a->recorder, &h->place, h->at_us + a->clock_us);
    }
}

static void sample_host(struct world *w, uint32_t rank, int64_t now_us)
{
    struct actor *a = &w->actor[rank];
    const struct record *last = recorder_last(&a->recorder, 0);
    int64_t in_us = last == NULL ? 0 : now_us + a->clock_us - last->entered_us;
    const struct fault *fault = fault_of(w, rank);
    if (in_us < SECOND / 2) return;
    enum record_host host = HOST_RUNS;
    int64_t cpu_us = in_us;
    if (fault != NULL && last->phase == RECORD_COMPUTE) {
        if (fault->kind == FAULT_SLEEP) host = HOST_SLEEPS, cpu_us = 300;
        if (fault->kind == FAULT_LOCK) host = HOST_LOCKED, cpu_us = 300;
        if (fault->kind == FAULT_DISK) host = HOST_DISK, cpu_us = 300;
        if (fault->kind == FAULT_DATA_READ) host = HOST_READS, cpu_us = 300;
    }
    recorder_host(&a->recorder, host, (uint32_t)cpu_us);
}

/* Does `rank` hear `of`? Both ends of a cut link hear the others, and not each other. */
static bool hears(const struct world *w, uint32_t rank, uint32_t of, int64_t now_us)
{
    const struct fault *fault = &w->fault[0];
    int64_t last_us = w->actor[of].told_us;
    if (w->ill && fault->kind == FAULT_LINK && fault->cut && is_pair(fault, rank, of) &&
        w->onset_us < last_us)
        last_us = w->onset_us;
    return now_us - last_us <= SECOND;
}

/* The timeline has only the ends of a transfer; bytes come all the while in between. */
static void tell_idle(const struct world *w, const struct actor *a, uint32_t rank, int64_t now_us,
                      struct record_summary *told)
{
    int64_t last_us = a->enter_us;
    for (uint32_t i = 0; i < w->count; i++) {
        int64_t part_us = a->part_us[i], mean_us = a->mean_us[i], sent_us = w->actor[i].final_us;
        if (i == rank) continue;
        if (part_us <= now_us && part_us > last_us) last_us = part_us;
        if (mean_us <= now_us && mean_us > last_us) last_us = mean_us;
        bool part_flows = w->actor[i].enter_us <= now_us && part_us > now_us && part_us < NEVER;
        bool mean_flows = sent_us <= now_us && mean_us > now_us && mean_us < NEVER;
        if (part_flows || mean_flows) last_us = now_us;
    }
    told->idle_us = (uint32_t)(now_us - last_us);
}

static void beat(struct world *w, uint32_t rank, int64_t now_us)
{
    struct actor *a = &w->actor[rank];
    a->beat_us = now_us + between(w, BEAT_MS * MS * 9 / 10, BEAT_MS * MS * 13 / 10);
    if (a->stopped && now_us > w->onset_us) return;
    sample_host(w, rank, now_us);
    struct record_summary told = recorder_tell(&a->recorder, now_us + a->clock_us);
    if (told.phase == RECORD_REDUCE) tell_idle(w, a, rank, now_us, &told);
    if (told.phase == RECORD_REDUCE)
        for (uint32_t i = 0; i < w->count; i++) {
            if (a->part_us[i] > now_us && i != rank) told.await_part |= UINT64_C(1) << i;
            if (a->mean_us[i] > now_us && i != rank) told.await_mean |= UINT64_C(1) << i;
        }
    for (uint32_t i = 0; i < w->count; i++)
        if (i != rank && !hears(w, rank, i, now_us)) told.unheard |= UINT64_C(1) << i;
    a->told = told;
    a->told_us = now_us + between(w, 0, 60 * MS);
    a->heard = true;
}

static bool guilty(const struct world *w, const struct diagnose_culprit *culprit)
{
    static const enum diagnose_kind kinds[FAULT_KINDS] = {
        [FAULT_STOPPED] = DIAGNOSE_SILENT,  [FAULT_SLEEP] = DIAGNOSE_HOST,
        [FAULT_LOCK] = DIAGNOSE_HOST,       [FAULT_DISK] = DIAGNOSE_HOST,
        [FAULT_DATA_TOLD] = DIAGNOSE_DATA,  [FAULT_DATA_READ] = DIAGNOSE_DATA,
        [FAULT_BUSY] = DIAGNOSE_COMPUTE,    [FAULT_APPLY] = DIAGNOSE_COMPUTE,
        [FAULT_STORAGE] = DIAGNOSE_STORAGE, [FAULT_LINK] = DIAGNOSE_LINK,
        [FAULT_NETWORK] = DIAGNOSE_NETWORK, [FAULT_DIVERGED] = DIAGNOSE_DIVERGED,
        [SLOW_COMPUTE] = DIAGNOSE_COMPUTE,  [SLOW_DATA] = DIAGNOSE_DATA,
        [SLOW_LINK] = DIAGNOSE_LINK,        [SLOW_NETWORK] = DIAGNOSE_NETWORK,
    };
    for (uint32_t i = 0; w->ill && i < w->fault_count; i++) {
        const struct fault *fault = &w->fault[i];
        if (kinds[fault->kind] != culprit->kind) continue;
        if (culprit->kind == DIAGNOSE_LINK && is_pair(fault, culprit->rank, culprit->peer))
            return true;
        if (culprit->kind != DIAGNOSE_LINK && fault->rank == culprit->rank) return true;
    }
    return false;
}

static void judge(struct world *w, uint32_t observer, uint32_t which, int64_t now_us)
{
    static struct diagnose_input input;
    static struct diagnose_verdict verdict;
    memset(&input, 0, sizeof input);
    input.count = w->count;
    input.me = observer;
    input.drop_cost_us = 800 * MS;
    for (uint32_t i = 0; i < w->count; i++) {
        const struct actor *a = &w->actor[i];
        int64_t age_us = now_us > a->told_us ? now_us - a->told_us : 0;
        if (i != observer && !hears(w, observer, i, now_us) && age_us < now_us - w->onset_us)
            age_us = now_us - w->onset_us; /* of a cut link */
        input.rank[i] =
            (struct diagnose_rank){a->heard, i == observer ? 0 : age_us, 1000 * MS, a->told};
    }
    diagnose(&input, &verdict);
    if (!diagnose_settle(&w->memory[which], &verdict, now_us)) return;
    uint32_t right = 0;
    for (uint32_t i = 0; i < verdict.culprit_count; i++) {
        bool is = guilty(w, &verdict.culprit[i]);
        right += is;
        w->innocent += !is;
        w->drops += verdict.culprit[i].drop;
        w->wrong_drops += verdict.culprit[i].drop && !is;
        if (!is && w->story[0] == '\0')
            snprintf(w->story, sizeof w->story,
                     "at %+lld ms observer %u named %u (peer %u) %s%s, phase %s, %lld us, usual "
                     "%lld us",
                     (long long)((now_us - w->onset_us) / MS), observer, verdict.culprit[i].rank,
                     verdict.culprit[i].peer, verdict.culprit[i].slow ? "slow " : "",
                     diagnose_kind_name(verdict.culprit[i].kind),
                     record_phase_name(verdict.culprit[i].phase),
                     (long long)verdict.culprit[i].since_us,
                     (long long)verdict.culprit[i].usual_us);
        for (uint32_t k = 0; is && k < w->fault_count; k++)
            if (verdict.victims >> w->fault[k].rank & 1 && w->fault[k].kind < FAULT_LINK)
                w->innocent++, snprintf(w->story, sizeof w->story, "a culprit among the victims");
    }
    if (w->ill && right == w->fault_count && w->named_us == 0) w->named_us = now_us;
}

/* Beats and looks in order of time. */
static void run_until(struct world *w, int64_t from_us, int64_t to_us)
{
    uint32_t first = 0, other = w->count - 1;
    if (w->fault[0].kind == FAULT_LINK) first = w->fault[0].rank; /* it can see it too */
    while (w->fault[0].kind != FAULT_LINK && fault_of(w, first) != NULL && first + 1 < w->count)
        first++;
    while (fault_of(w, other) != NULL && other > 0) other--;
    for (int64_t now_us = from_us; now_us < to_us; now_us += 25 * MS) {
        for (uint32_t i = 0; i < w->count; i++) {
            catch_up(&w->actor[i], now_us);
            if (w->actor[i].beat_us <= now_us) beat(w, i, now_us);
        }
        if (now_us / MS % 100 < 25) {
            judge(w, first, 0, now_us);
            judge(w, other, 1, now_us);
        }
    }
    for (uint32_t i = 0; i < w->count; i++) catch_up(&w->actor[i], to_us);
}

static void deal_slots(struct world *w, uint32_t slots)
{
    int64_t rate = 0;
    for (uint32_t i = 0; i < w->count; i++) rate += 1000000000 / w->actor[i].slot_us;
    for (uint32_t i = 0; i < w->count; i++) {
        int64_t share = (int64_t)slots * (1000000000 / w->actor[i].slot_us) / rate;
        w->actor[i].slots = share < 1 ? 1 : (uint32_t)share;
    }
}

static void make_world(struct world *w, uint64_t seed)
{
    w->random = seed * 7919;
    static const uint32_t counts[] = {4, 5, 6, 8, 8, 12, 16, 16, 24, 32, 48, 64};
    w->count = counts[draw(w, sizeof counts / sizeof counts[0])];
    int64_t slot_us = between(w, 15 * MS, draw(w, 10) == 0 ? 2000 * MS : 500 * MS);
    bool unequal = draw(w, 2) == 0;
    for (uint32_t i = 0; i < w->count; i++) {
        struct actor *a = &w->actor[i];
        recorder_init(&a->recorder);
        a->clock_us = between(w, 0, 5000 * SECOND);
        a->slot_us = unequal ? slot_us * between(w, 50, 200) / 100 : slot_us;
        a->beat_us = between(w, 0, BEAT_MS * MS);
    }
    deal_slots(w, w->count * (uint32_t)between(w, 1, slot_us > 500 * MS ? 2 : 8));
    w->part_us = between(w, 5 * MS, 80 * MS);
    if (w->part_us < slot_us / 6) w->part_us = slot_us / 6;
    w->evaluate_us = between(w, 2 * SECOND, 30 * SECOND);
    w->apply_us = between(w, 1 * MS, 20 * MS);
    w->save_us = between(w, 2 * MS, 40 * MS);
    w->data_us = between(w, 0, 5 * MS);
    w->onset_us = NEVER;
    w->now_us = SECOND;
}

bool diagnose_sim_is_control(const struct world *w)
{
    return w->fault[0].kind < FAULT_STOPPED;
}

bool diagnose_sim_is_slow(const struct world *w)
{
    return w->fault[0].kind >= SLOW_COMPUTE;
}

static bool can_be_joined(enum fault_kind kind)
{
    return kind >= FAULT_STOPPED && kind <= FAULT_BUSY;
}

static void make_faults(struct world *w)
{
    w->fault[0].kind = (enum fault_kind)draw(w, FAULT_KINDS);
    w->fault[0].rank = (uint32_t)draw(w, w->count);
    w->fault[0].peer = (w->fault[0].rank + 1 + (uint32_t)draw(w, w->count - 1)) % w->count;
    w->fault[0].cut = draw(w, 2) == 0;
    w->fault_count = 1;
    bool slow = w->fault[0].kind == SLOW_COMPUTE || w->fault[0].kind == SLOW_DATA;
    if (w->count < 8 || draw(w, 3) != 0) return;
    if (slow) w->fault[w->fault_count++] = (struct fault){SLOW_COMPUTE, w->fault[0].peer, 0, false};
    if (!can_be_joined(w->fault[0].kind)) return;
    uint32_t more = 1 + (uint32_t)draw(w, FAULTS_MAX - 1);
    for (uint32_t k = 1; k <= more; k++) { /* several at once, of several kinds */
        do w->fault[k].kind = (enum fault_kind)draw(w, FAULT_KINDS);
        while (!can_be_joined(w->fault[k].kind));
        w->fault[k].rank = (w->fault[0].rank + k * (w->count / 4)) % w->count;
        w->fault_count++;
    }
}

/* The onset of a slowdown is the first slow step, of a stall the moment in which it stands. */
void diagnose_sim_run(struct world *w)
{
    uint64_t warm = WARM_STEPS + draw(w, 10);
    for (;; w->step++) {
        int64_t from_us = w->now_us;
        if (w->step == warm) {
            w->ill = true;
            w->onset_step = w->step;
            if (diagnose_sim_is_control(w) || diagnose_sim_is_slow(w)) w->onset_us = from_us;
            if (w->fault[0].kind == CONTROL_MOVED) {
                w->actor[w->fault[0].rank].slots += 2;
                if (w->actor[w->fault[0].peer].slots > 2) w->actor[w->fault[0].peer].slots -= 2;
            }
        }
        plan_step(w);
        if (w->held) {
            run_until(w, from_us, w->onset_us + NAME_US + 2 * SECOND);
            return;
        }
        run_until(w, from_us, w->now_us);
        if (w->step == warm + 2) w->third_us = w->now_us;
        if (w->step >= warm + STEPS_AFTER && w->now_us > w->third_us + 2 * SECOND) return;
    }
}

void diagnose_sim_init(struct world *w, uint64_t seed, uint64_t (*next)(uint64_t *state))
{
    memset(w, 0, sizeof *w);
    w->next = next;
    make_world(w, seed);
    make_faults(w);
}

const char *diagnose_sim_fault_name(enum fault_kind kind)
{
    return fault_names[kind];
}
