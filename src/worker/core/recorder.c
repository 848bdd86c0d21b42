#include "worker/core/recorder.h"
#include "core/assert.h"
#include <string.h>

enum { SLOW_SPREADS = 6, SLOW_SHARE = 5 /* a fifth */, SLOW_STEP_SHARE = 20 };

bool record_is_work(uint32_t phase)
{
    return phase == RECORD_DATA || phase == RECORD_COMPUTE || phase == RECORD_APPLY ||
           phase == RECORD_SAVE;
}

void recorder_init(struct recorder *r)
{
    memset(r, 0, sizeof *r);
    r->last_slot = UINT32_MAX;
}

static uint32_t clamp_us(int64_t us)
{
    return us < 0 ? 0 : us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

const struct record *recorder_last(const struct recorder *r, uint32_t back)
{
    if (r->sequence <= back || back >= RECORD_RING) return NULL;
    return &r->ring[(r->sequence - 1 - back) % RECORD_RING];
}

/* ---- what is usual ---- */

static void sort(uint32_t *us, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && us[k - 1] > us[k]; k--) {
            uint32_t swap = us[k];
            us[k] = us[k - 1];
            us[k - 1] = swap;
        }
}

static void median_of(uint32_t *us, uint32_t count, uint32_t *ret_median, uint32_t *ret_spread)
{
    sort(us, count);
    uint32_t median = us[count / 2];
    for (uint32_t i = 0; i < count; i++) us[i] = us[i] > median ? us[i] - median : median - us[i];
    sort(us, count);
    *ret_median = median;
    *ret_spread = us[count / 2] / 2 * 3;
}

/* Without the newest `skip` samples. */
static bool usual_before(const struct record_habit *habit, uint32_t skip, uint32_t *ret_usual,
                         uint32_t *ret_spread)
{
    const uint32_t room = RECORD_WINDOW + RECORD_FRESH;
    uint32_t known = habit->count < room ? habit->count : room, us[RECORD_WINDOW + RECORD_FRESH];
    *ret_usual = *ret_spread = 0;
    if (known < skip + RECORD_SAMPLES_MIN) return false;
    uint32_t count = known - skip;
    for (uint32_t i = 0; i < count; i++) us[i] = habit->us[(habit->count - known + i) % room];
    median_of(us, count, ret_usual, ret_spread);
    return true;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

bool record_habit_usual(const struct record_habit *habit, uint32_t *ret_usual_us,
                        uint32_t *ret_spread_us)
{
    if (!usual_before(habit, 0, ret_usual_us, ret_spread_us)) return false;
    *ret_usual_us = larger(*ret_usual_us, habit->slow_us); /* a slow rank moves at its new pace */
    return true;
}

static uint32_t fresh_smallest(const struct record_habit *habit)
{
    uint32_t smallest = UINT32_MAX;
    for (uint32_t i = 1; i <= RECORD_FRESH; i++) {
        uint32_t us = habit->us[(habit->count - i) % (RECORD_WINDOW + RECORD_FRESH)];
        if (us < smallest) smallest = us;
    }
    return smallest;
}

/* floor_us: what one step has of it must grow by at least this to matter. */
static void take_sample(struct record_habit *habit, uint32_t us, uint32_t floor_us)
{
    habit->us[habit->count++ % (RECORD_WINDOW + RECORD_FRESH)] = us;
    if (habit->slow_us != 0) {
        uint32_t half = habit->slow_usual_us + (habit->slow_limit_us - habit->slow_usual_us) / 2;
        if (us < half) habit->slow_us = 0;
        return;
    }
    uint32_t usual, spread;
    if (!usual_before(habit, RECORD_FRESH, &usual, &spread)) return;
    uint32_t margin = larger(larger(SLOW_SPREADS * spread, usual / SLOW_SHARE), floor_us);
    if (margin == 0 || margin > UINT32_MAX - usual || fresh_smallest(habit) <= usual + margin)
        return;
    habit->slow_us = fresh_smallest(habit);
    habit->slow_usual_us = usual;
    habit->slow_limit_us = usual + margin;
}

/* ---- the step in work ---- */

static void end_peers(struct recorder *r, uint32_t floor_us)
{
    for (uint32_t i = 0; i < GROUP_MEMBERS_MAX; i++) {
        struct record_peer *peer = &r->peer[i];
        if (peer->bytes > 0 && !r->disturbed)
            take_sample(&peer->habit, clamp_us(peer->last_us - peer->first_us), floor_us);
        peer->bytes = 0;
    }
}

static void end_step(struct recorder *r, int64_t now_us)
{
    uint32_t usual = 0, spread = 0, slots = r->slots == 0 ? 1 : r->slots;
    (void)usual_before(&r->habit[RECORD_OUTSIDE], 0, &usual, &spread); /* zero: not known yet */
    uint32_t floor_us = usual / SLOW_STEP_SHARE;
    if (r->slots > 0) {
        take_sample(&r->habit[RECORD_DATA], r->sum_us[RECORD_DATA] / slots, floor_us / slots);
        take_sample(&r->habit[RECORD_COMPUTE], r->sum_us[RECORD_COMPUTE] / slots, floor_us / slots);
    }
    if (r->sum_us[RECORD_APPLY] > 0)
        take_sample(&r->habit[RECORD_APPLY], r->sum_us[RECORD_APPLY], floor_us);
    if (r->sum_us[RECORD_SAVE] > 0)
        take_sample(&r->habit[RECORD_SAVE], r->sum_us[RECORD_SAVE], floor_us);
    if (!r->disturbed) {
        take_sample(&r->habit[RECORD_REDUCE], r->sum_us[RECORD_REDUCE], UINT32_MAX / 2);
        take_sample(&r->habit[RECORD_OUTSIDE], clamp_us(now_us - r->step_us), UINT32_MAX / 2);
    }
    end_peers(r, floor_us);
}

static void begin_step(struct recorder *r, int64_t now_us)
{
    memset(r->sum_us, 0, sizeof r->sum_us);
    r->slots = 0;
    r->last_slot = UINT32_MAX;
    r->step_us = now_us;
    r->disturbed = false;
}

static void leave(struct recorder *r, struct record *last, const struct record_place *place,
                  int64_t now_us)
{
    last->left_us = now_us;
    r->sum_us[last->phase] += clamp_us(now_us - last->entered_us);
    if (record_is_work(last->phase)) {
        r->work_phase = (uint8_t)last->phase;
        r->work_us = clamp_us(now_us - last->entered_us);
    }
    if (last->phase == RECORD_SYNC) r->disturbed = true;
    if (place->step == last->step && place->attempt != last->attempt) r->disturbed = true;
    if (place->step == last->step + 1 && last->phase != RECORD_SYNC) end_step(r, now_us);
    if (place->step != last->step) begin_step(r, now_us);
}

bool recorder_enter(struct recorder *r, const struct record_place *place, int64_t now_us)
{
    ASSERT(place->phase < RECORD_PHASE_END);
    struct record *last = r->sequence == 0 ? NULL : &r->ring[(r->sequence - 1) % RECORD_RING];
    if (last != NULL && last->step == place->step && last->attempt == place->attempt &&
        last->phase == place->phase && last->detail == (uint16_t)place->detail) {
        last->collective = place->collective;
        return false;
    }
    if (last == NULL)
        r->step_us = now_us;
    else
        leave(r, last, place, now_us);
    bool slot = place->phase == RECORD_COMPUTE || place->phase == RECORD_DATA;
    if (slot && place->detail != r->last_slot) {
        r->slots++;
        r->last_slot = place->detail;
    }
    r->host = HOST_UNKNOWN;
    r->cpu_us = 0;
    r->ring[r->sequence % RECORD_RING] = (struct record){.step = place->step,
                                                         .collective = place->collective,
                                                         .entered_us = now_us,
                                                         .attempt = place->attempt,
                                                         .phase = (uint16_t)place->phase,
                                                         .detail = (uint16_t)place->detail};
    r->sequence++;
    return true;
}

void recorder_members(struct recorder *r, uint64_t generation)
{
    if (r->members == generation) return;
    r->members = generation;
    memset(r->peer, 0, sizeof r->peer);
}

void recorder_bytes(struct recorder *r, int64_t now_us)
{
    if (now_us > r->bytes_us) r->bytes_us = now_us;
}

void recorder_part(struct recorder *r, uint32_t peer, uint64_t bytes, int64_t now_us)
{
    ASSERT(peer < GROUP_MEMBERS_MAX);
    recorder_bytes(r, now_us);
    struct record_peer *from = &r->peer[peer];
    if (from->bytes == 0) from->first_us = now_us;
    from->last_us = now_us;
    from->bytes += bytes;
}

void recorder_host(struct recorder *r, enum record_host host, uint32_t cpu_us)
{
    r->host = (uint8_t)host;
    r->cpu_us = cpu_us;
}

/* ---- the summary ---- */

/* The worst of what is slow, by what it adds. */
static void tell_slow(const struct recorder *r, struct record_summary *told)
{
    static const uint8_t phases[] = {RECORD_DATA, RECORD_COMPUTE, RECORD_APPLY, RECORD_SAVE};
    uint32_t worst = 0;
    for (uint32_t i = 0; i < sizeof phases; i++) {
        const struct record_habit *habit = &r->habit[phases[i]];
        if (habit->slow_us == 0 || habit->slow_us - habit->slow_usual_us <= worst) continue;
        worst = habit->slow_us - habit->slow_usual_us;
        told->slow_us = habit->slow_us;
        told->slow_usual_us = habit->slow_usual_us;
        told->slow_phase = phases[i];
    }
    for (uint32_t i = 0; i < GROUP_MEMBERS_MAX; i++)
        if (r->peer[i].habit.slow_us != 0) told->slow_from |= UINT64_C(1) << i;
}

/* Of the step in work once its slots are done, else of the last one. */
static uint32_t pace_permille(const struct recorder *r, const struct record *last)
{
    const struct record_habit *habit = &r->habit[RECORD_COMPUTE];
    uint32_t usual, spread;
    if (!usual_before(habit, 0, &usual, &spread) || usual == 0) return 0;
    bool done = last->phase == RECORD_REDUCE && r->slots > 0;
    uint64_t us = done ? r->sum_us[RECORD_COMPUTE] / r->slots
                       : habit->us[(habit->count - 1) % (RECORD_WINDOW + RECORD_FRESH)];
    return clamp_us((int64_t)(us * 1000 / usual));
}

struct record_summary recorder_tell(const struct recorder *r, int64_t now_us)
{
    struct record_summary told = {0};
    const struct record *last = recorder_last(r, 0);
    if (last == NULL) return told;
    const struct record_habit *habit = &r->habit[last->phase];
    told.step = last->step;
    told.collective = last->collective;
    told.attempt = last->attempt;
    told.detail = last->detail;
    told.phase = (uint8_t)last->phase;
    told.in_phase_us = clamp_us(now_us - last->entered_us);
    told.moves = (uint32_t)r->sequence;
    told.host = r->host;
    told.cpu_us = r->cpu_us;
    if (last->phase != RECORD_OUTSIDE && record_habit_usual(habit, &told.usual_us, &told.spread_us))
        told.samples = habit->count > UINT8_MAX ? UINT8_MAX : (uint8_t)habit->count;
    int64_t idle_since_us = r->bytes_us > last->entered_us ? r->bytes_us : last->entered_us;
    if (last->phase == RECORD_REDUCE) told.idle_us = clamp_us(now_us - idle_since_us);
    told.pace_permille = pace_permille(r, last);
    told.work_phase = r->work_phase;
    told.work_us = r->work_us;
    tell_slow(r, &told);
    return told;
}

const char *record_phase_name(uint32_t phase)
{
    static const char names[RECORD_PHASE_END][12] = {"outside", "data",       "compute", "reduce",
                                                     "apply",   "checkpoint", "sync"};
    return phase < RECORD_PHASE_END ? names[phase] : "unknown";
}

const char *record_host_name(uint32_t host)
{
    static const char names[HOST_END][12] = {"unknown", "runs", "reads", "sleeps",
                                             "locked",  "disk", "call",  "stopped"};
    return host < HOST_END ? names[host] : names[HOST_UNKNOWN];
}
