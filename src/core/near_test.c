/* Together and apart (near.h), against all ways to place a job in small worlds: it starts exactly when one of
 * them holds, nobody is sent away who need not go, and where it runs is where it asked to be. */
#include "core/explain.h"
#include "core/limits.h"
#include "core/testing.h"
#include <inttypes.h>

enum { OFFERS_MAX = 6, UNITS_MAX = 64, WORLDS = 1500, NCU = 1000, ASKING = 1000, TERMS = 7 };

struct world {
    struct bench b;
    struct test_offer offers[OFFERS_MAX];
    uint32_t offer_count, fillers;
    uint64_t random;
};

/* A node that is there or could be bought, with what is free of it. */
struct unit {
    uint32_t zone, rack, free;
};

struct units {
    uint32_t count;
    struct unit items[UNITS_MAX];
};

static uint32_t draw(struct world *w, uint32_t end)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((w->random >> 33) % end);
}

static void settle(struct bench *b)
{
    for (int i = 0; i < 3; i++) {
        while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
        bench_raise(b);
    }
    while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
}

static void open_world(struct world *w, uint64_t seed)
{
    static const struct pool_limits limits = {.nodes_max = 40,
                                              .jobs_max = 64,
                                              .offers_max = OFFERS_MAX,
                                              .models_max = 1,
                                              .pools_max = 1,
                                              .terms_max = 8,
                                              .leases_max = 160};
    *w = (struct world){.random = seed};
    bench_open(&w->b, &limits);
    bench_model(&w->b, 0, NCU, 24, 1);
    bench_class(&w->b, JOB_CLASS_P1, 1000000, 0, 1U << JOB_CLASS_P3, false, true);
    w->offer_count = 1 + draw(w, OFFERS_MAX);
    for (uint32_t i = 0; i < w->offer_count; i++) {
        w->offers[i] = (struct test_offer){.id = i + 1,
                                           .region = 1,
                                           .zone = 1 + draw(w, 2),
                                           .rack = draw(w, 3),
                                           .capacity = CAPACITY_OWNED,
                                           .devices = 1 + draw(w, 4),
                                           .stock = draw(w, 3)};
        bench_offer(&w->b, w->offers[i]);
    }
    w->fillers = draw(w, 12);
    for (uint32_t i = 0; i < w->fillers; i++) {
        bench_submit(&w->b,
                     (struct test_job){.id = i + 1, .min = 1, .max = 1, .job_class = JOB_CLASS_P3});
        settle(&w->b);
    }
}

/* victims: as if the fillers were gone. */
static struct units units_of(const struct world *w, bool victims)
{
    struct units units = {0};
    struct node_view n;
    uint32_t held[OFFERS_MAX] = {0};
    for (uint32_t i = 0; i < pool_nodes_end(w->b.p); i++) {
        if (!pool_node_at(w->b.p, i, &n)) continue;
        assert_int_equal(n.state, NODE_READY);
        held[n.offer_id - 1]++;
        units.items[units.count++] =
            (struct unit){n.zone, n.rack, victims ? n.device_count : n.devices_free};
    }
    for (uint32_t i = 0; i < w->offer_count; i++)
        for (uint32_t k = held[i]; k < w->offers[i].stock; k++)
            units.items[units.count++] =
                (struct unit){w->offers[i].zone, w->offers[i].rack, w->offers[i].devices};
    return units;
}

static bool is_together(const struct units *u, uint32_t a, uint32_t b, uint32_t same)
{
    if (same == TOPOLOGY_ANY || a == b) return true;
    if (same == TOPOLOGY_ZONE) return u->items[a].zone == u->items[b].zone;
    return same == TOPOLOGY_RACK && u->items[a].zone == u->items[b].zone &&
           u->items[a].rack == u->items[b].rack && u->items[a].rack != 0;
}

static bool is_too_near(const struct unit *a, const struct unit *b, uint32_t spread)
{
    if (spread == TOPOLOGY_NODE) return false;
    return a->zone == b->zone && (spread == TOPOLOGY_ZONE || a->rack == b->rack);
}

/* The most devices with all of them as near to unit `at` as asked. */
static uint32_t most_at(const struct units *u, uint32_t at, struct job_terms terms)
{
    uint32_t most = 0, count = 0, chosen[UNITS_MAX];
    for (uint32_t i = 0; i < u->count; i++) {
        if (u->items[i].free == 0 || !is_together(u, at, i, terms.affinity)) continue;
        if (terms.spread == TOPOLOGY_ANY) {
            most += u->items[i].free;
            continue;
        }
        bool near = false;
        for (uint32_t k = 0; k < count; k++)
            near |= is_too_near(&u->items[i], &u->items[chosen[k]], terms.spread);
        if (!near) chosen[count++] = i;
    }
    return terms.spread == TOPOLOGY_ANY ? most : count;
}

static uint32_t most_of(const struct units *u, struct job_terms terms)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < u->count; i++) {
        uint32_t most = most_at(u, i, terms);
        if (most > best) best = most;
    }
    return best;
}

/* The fewest fillers that have to go; each has one device, so each leaves at most one that helps. */
static uint32_t fewest_victims(const struct units *now, const struct units *all,
                               struct job_terms terms, uint32_t count)
{
    uint32_t fewest = UINT32_MAX;
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t there = most_at(now, i, terms);
        if (most_at(all, i, terms) < count) continue;
        uint32_t needed = there < count ? count - there : 0;
        if (needed < fewest) fewest = needed;
    }
    return fewest;
}

static struct job_terms draw_terms(struct world *w)
{
    static const uint8_t pairs[][2] = {
        {TOPOLOGY_ZONE, TOPOLOGY_ANY},  {TOPOLOGY_RACK, TOPOLOGY_ANY},
        {TOPOLOGY_NODE, TOPOLOGY_ANY},  {TOPOLOGY_ANY, TOPOLOGY_NODE},
        {TOPOLOGY_ANY, TOPOLOGY_RACK},  {TOPOLOGY_ANY, TOPOLOGY_ZONE},
        {TOPOLOGY_ZONE, TOPOLOGY_NODE}, {TOPOLOGY_ZONE, TOPOLOGY_RACK},
    };
    const uint8_t *pair = pairs[draw(w, sizeof pairs / sizeof pairs[0])];
    return (struct job_terms){.affinity = pair[0], .spread = pair[1]};
}

/* Where its workers are. */
static struct units units_held(const struct world *w)
{
    struct units units = {0};
    struct lease_view lease;
    struct node_view n;
    for (uint32_t i = 0; bench_lease(&w->b, ASKING, i, &lease); i++) {
        assert_true(pool_node_find(w->b.p, lease.node_key, &n));
        units.items[units.count++] = (struct unit){n.zone, n.rack, lease.device_count};
    }
    return units;
}

static void check_held(const struct world *w, struct job_terms terms, uint32_t count, uint64_t seed)
{
    struct units held = units_held(w);
    uint32_t devices = 0;
    for (uint32_t i = 0; i < held.count; i++) devices += held.items[i].free;
    if (devices != count || most_of(&held, terms) != count)
        fail_msg("seed %" PRIu64 ": %u of %u devices, %u of them as asked (same %u, spread %u)",
                 seed, devices, count, most_of(&held, terms), terms.affinity, terms.spread);
}

static uint32_t said_waits(const struct bench *b)
{
    return b->said[DECISION_WAIT][REASON_WAIT_SAME] + b->said[DECISION_WAIT][REASON_WAIT_SPREAD];
}

/* What is said of one that waits is so: without the wish it would start. */
static void check_wait(struct world *w, const struct units *now, uint32_t count)
{
    struct explanation e;
    bool place = most_of(now, (struct job_terms){0}) >= count, wished = false;
    assert_int_equal(said_waits(&w->b) > 0, place);
    assert_true(pool_explain(w->b.p, ASKING, &e));
    for (uint32_t i = 0; i < e.wish_count; i++) wished |= e.wishes[i].kind == WISH_ANY_PLACE;
    assert_int_equal(wished, place);
}

static void submit(struct world *w, uint32_t job_class, uint32_t count, struct job_terms terms)
{
    bench_terms(&w->b, TERMS, terms);
    bench_submit(
        &w->b,
        (struct test_job){
            .id = ASKING, .min = count, .max = count, .job_class = job_class, .terms_id = TERMS});
    settle(&w->b);
}

static void it_starts_where_it_may_and_only_there(void **state)
{
    uint32_t started = 0, waited = 0, refused = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct world w;
        open_world(&w, seed);
        struct job_terms terms = draw_terms(&w);
        uint32_t count = 2 + draw(&w, 5);
        struct units now = units_of(&w, false), all = units_of(&w, true);
        submit(&w, JOB_CLASS_P3, count, terms);
        uint32_t is = bench_job_state(&w.b, ASKING);
        uint32_t expected = most_of(&now, terms) >= count   ? JOB_RUNNING
                            : most_of(&all, terms) >= count ? JOB_QUEUED
                                                            : JOB_REFUSED;
        if (is != expected)
            fail_msg("seed %" PRIu64 ": state %u, expected %u (same %u, spread %u, %u devices)",
                     seed, is, expected, terms.affinity, terms.spread, count);
        if (is == JOB_RUNNING) check_held(&w, terms, count, seed);
        if (is == JOB_QUEUED) check_wait(&w, &now, count);
        started += is == JOB_RUNNING;
        waited += is == JOB_QUEUED;
        refused += is == JOB_REFUSED;
        bench_close(&w.b);
    }
    printf("%u started, %u waited, %u were refused\n", started, waited, refused);
    assert_true(started > WORLDS / 10 && waited > WORLDS / 20 && refused > WORLDS / 10);
}

static uint32_t devices_up(const struct bench *b)
{
    struct pool_totals totals;
    pool_totals_read(b->p, &totals);
    return (uint32_t)totals.devices;
}

static uint32_t preempted(const struct bench *b)
{
    return b->said[DECISION_PREEMPT][REASON_PREEMPTED_FOR];
}

static void stop_workers(struct bench *b)
{
    struct lease_view lease;
    for (uint32_t i = 0; i < pool_leases_end(b->p); i++)
        if (pool_lease_at(b->p, i, &lease) && lease.stop_reason != 0)
            bench_worker(b, lease.node_key, lease.job_id, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    settle(b);
}

static void victims_make_a_fit_and_are_as_few_as_can_be(void **state)
{
    uint32_t worlds = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct world w;
        open_world(&w, seed);
        struct job_terms terms = draw_terms(&w);
        uint32_t count = 2 + draw(&w, 5);
        struct units now = units_of(&w, false), all = units_of(&w, true);
        uint32_t victims = fewest_victims(&now, &all, terms, count);
        if (victims > 0 && devices_up(&w.b) < count) { /* the share of its class is of those */
            bench_close(&w.b);
            continue;
        }
        submit(&w, JOB_CLASS_P1, count, terms);
        for (int i = 0; i < 4; i++) stop_workers(&w.b);
        bool runs = bench_job_state(&w.b, ASKING) == JOB_RUNNING;
        if (runs != (victims != UINT32_MAX))
            fail_msg("seed %" PRIu64 ": state %u (same %u, spread %u, %u devices, %u victims)",
                     seed, bench_job_state(&w.b, ASKING), terms.affinity, terms.spread, count,
                     victims);
        if (runs) check_held(&w, terms, count, seed);
        if (preempted(&w.b) != (runs ? victims : 0))
            fail_msg("seed %" PRIu64 ": %u victims, %u would do (same %u, spread %u, %u devices)",
                     seed, preempted(&w.b), victims, terms.affinity, terms.spread, count);
        worlds += preempted(&w.b) > 0;
        bench_close(&w.b);
    }
    printf("victims in %u worlds\n", worlds);
    assert_true(worlds > WORLDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_where_it_may_and_only_there),
        cmocka_unit_test(victims_make_a_fit_and_are_as_few_as_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
