/* Which devices of a node a job gets (island.h), against all ways to give it any, on small nodes: as close
 * together as they can be, the smallest group that is enough, for `same` one group or nothing, and no
 * victim too many. */
#include "core/explain.h"
#include "core/island.h"
#include "core/testing.h"
#include <inttypes.h>

enum { NODE_DEVICES = 8, PICKS = 20000, WORLDS = 1500, ASKING = 1000, TERMS = 7 };

static const uint32_t levels[] = {TOPOLOGY_NVLINK, TOPOLOGY_PCIE, TOPOLOGY_NUMA};

struct random {
    uint64_t state;
};

static uint32_t draw(struct random *r, uint32_t end)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((r->state >> 33) % end);
}

static void set(uint8_t *row, uint32_t device, uint32_t group)
{
    row[device / 2] = (uint8_t)(row[device / 2] | group << device % 2 * 4);
}

/* Each level cuts the devices its own way, and may not be known of some. */
static struct device_groups draw_groups(struct random *r)
{
    struct device_groups groups = {.form = DEVICE_GROUPS_FORM};
    uint8_t *rows[] = {groups.nvlink, groups.pcie, groups.numa};
    for (uint32_t level = 0; level < 3; level++) {
        uint32_t kinds = 1 + draw(r, 4), unknown = draw(r, 4) == 0;
        for (uint32_t i = 0; i < NODE_DEVICES; i++)
            set(rows[level], i, unknown && draw(r, 2) == 0 ? 0 : 1 + draw(r, kinds));
    }
    return groups;
}

static uint32_t bits(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

/* Straight from the meaning: every two are of one known group. */
static bool is_one(const struct device_groups *g, uint32_t level, uint32_t mask)
{
    for (uint32_t a = 0; a < NODE_DEVICES; a++)
        for (uint32_t b = a + 1; b < NODE_DEVICES; b++) {
            if ((mask >> a & 1) == 0 || (mask >> b & 1) == 0) continue;
            uint32_t group = island_of(g, level, a);
            if (group == 0 || group != island_of(g, level, b)) return false;
        }
    return true;
}

/* The free devices that lie with these; they lie together. */
static uint32_t company(const struct device_groups *g, uint32_t level, uint32_t mask, uint32_t free)
{
    uint32_t with = mask;
    for (uint32_t i = 0; i < NODE_DEVICES; i++)
        if ((free >> i & 1) != 0 && is_one(g, level, mask | 1u << i)) with |= 1u << i;
    return with;
}

/* Smaller is better: the level, then how many free ones its group has. */
static uint32_t badness(const struct device_groups *g, uint32_t mask, uint32_t free)
{
    for (uint32_t i = 0; i < 3; i++)
        if (is_one(g, levels[i], mask)) return i * 100 + bits(company(g, levels[i], mask, free));
    return 300;
}

static void what_is_picked_lies_together_best(void **state)
{
    uint32_t at_level[4] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= PICKS; seed++) {
        struct random r = {seed};
        struct device_groups groups = draw_groups(&r);
        uint32_t free = 1 + draw(&r, 255), count = 1 + draw(&r, bits(free)), best = UINT32_MAX;
        uint32_t picked = island_pick(&groups, free, count);
        assert_int_equal(picked & ~free, 0);
        assert_int_equal(bits(picked), count);
        for (uint32_t mask = 1; mask < 256; mask++)
            if ((mask & ~free) == 0 && bits(mask) == count && badness(&groups, mask, free) < best)
                best = badness(&groups, mask, free);
        if (badness(&groups, picked, free) != best)
            fail_msg("seed %" PRIu64 ": %x of %x is %u, %u can be had", seed, picked, free,
                     badness(&groups, picked, free), best);
        at_level[best / 100]++;
    }
    for (int i = 0; i < 4; i++) assert_true(at_level[i] > PICKS / 100);
}

static void one_device_leaves_large_groups_whole_and_many_span_few(void **state)
{
    (void)state;
    struct device_groups g = {.form = DEVICE_GROUPS_FORM};
    for (uint32_t i = 0; i < 8; i++) set(g.nvlink, i, i < 4 ? 1 : 2);
    for (uint32_t i = 0; i < 8; i++) set(g.numa, i, i < 4 ? 1 : 2);
    assert_int_equal(island_pick(&g, 0xfe, 1), 0x02); /* 0 is taken: the broken island first */
    assert_int_equal(island_pick(&g, 0x7f, 1), 0x10);
    assert_int_equal(island_pick(&g, 0xf7, 4), 0xf0);
    assert_int_equal(island_pick(&g, 0xff, 5), 0x1f);
    assert_int_equal(island_pick(&g, 0xf3, 5), 0xf1); /* the whole one, and one more */
    struct device_groups none = {.form = DEVICE_GROUPS_FORM};
    assert_int_equal(island_pick(&none, 0xd6, 3), 0x16); /* nothing is known: as they come */
}

/* ---- worlds of one or two nodes ---- */

struct world {
    struct bench b;
    struct random r;
    uint32_t devices, level, count;
};

static void settle(struct bench *b)
{
    for (int i = 0; i < 3; i++) {
        while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
        bench_raise(b);
    }
    while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
}

static void stop_workers(struct bench *b)
{
    struct lease_view l;
    for (uint32_t i = 0; i < pool_leases_end(b->p); i++)
        if (pool_lease_at(b->p, i, &l) && l.stop_reason != 0)
            bench_worker(b, l.node_key, l.job_id, l.worker_id, WORKER_PHASE_STOPPED, 0);
    settle(b);
}

/* Fillers of one device each, some of them gone again: what is free lies anywhere. */
static void open_world(struct world *w, uint64_t seed)
{
    static const struct pool_limits limits = {.nodes_max = 8,
                                              .jobs_max = 64,
                                              .offers_max = 2,
                                              .models_max = 1,
                                              .pools_max = 1,
                                              .terms_max = 8,
                                              .leases_max = 64};
    *w = (struct world){.r = {seed}};
    bench_open(&w->b, &limits);
    w->b.groups = draw_groups(&w->r);
    w->devices = 4 + draw(&w->r, 5);
    w->level = levels[draw(&w->r, 3)];
    w->count = 2 + draw(&w->r, 3);
    bench_model(&w->b, 0, 1000, 24, 1);
    bench_class(&w->b, JOB_CLASS_P1, 1000000, 0, 1U << JOB_CLASS_P3, false, true);
    bench_offer(
        &w->b,
        (struct test_offer){
            .id = 1, .region = 1, .capacity = CAPACITY_OWNED, .devices = w->devices, .stock = 1});
    for (uint32_t i = 1; i <= w->devices; i++) {
        bench_submit(&w->b,
                     (struct test_job){.id = i, .min = 1, .max = 1, .job_class = JOB_CLASS_P3});
        settle(&w->b);
    }
    for (uint32_t i = 2; i <= w->devices; i++)
        if (draw(&w->r, 2) == 0) bench_cancel(&w->b, i);
    stop_workers(&w->b);
}

/* Of the only node; those that these jobs do not have. */
static uint32_t free_mask(const struct world *w)
{
    struct lease_view l;
    uint32_t used = 0;
    for (uint32_t i = 0; i < pool_leases_end(w->b.p); i++)
        if (pool_lease_at(w->b.p, i, &l)) used |= l.device_mask;
    return ~used & ((1u << w->devices) - 1);
}

/* The fewest devices that are not free of any set that would do; UINT32_MAX: none would. */
static uint32_t fewest_missing(const struct world *w, uint32_t free)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t mask = 1; mask < 1u << w->devices; mask++)
        if (bits(mask) == w->count && is_one(&w->b.groups, w->level, mask) &&
            bits(mask & ~free) < best)
            best = bits(mask & ~free);
    return best;
}

static void ask(struct world *w, uint32_t job_class)
{
    bench_terms(&w->b, TERMS, (struct job_terms){.affinity = (uint8_t)w->level});
    bench_submit(&w->b, (struct test_job){.id = ASKING,
                                          .min = w->count,
                                          .max = w->count,
                                          .job_class = job_class,
                                          .terms_id = TERMS});
    settle(&w->b);
}

static void check_held(const struct world *w, uint64_t seed)
{
    struct lease_view l;
    assert_true(bench_lease(&w->b, ASKING, 0, &l));
    if (bits(l.device_mask) != w->count || !is_one(&w->b.groups, w->level, l.device_mask))
        fail_msg("seed %" PRIu64 ": %u devices %x are not of one group", seed, w->count,
                 l.device_mask);
}

static void same_is_one_group_or_nothing(void **state)
{
    uint32_t started = 0, waited = 0, refused = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct world w;
        open_world(&w, seed);
        uint32_t free = free_mask(&w), missing = fewest_missing(&w, free);
        ask(&w, JOB_CLASS_P3);
        uint32_t is = bench_job_state(&w.b, ASKING);
        uint32_t expected = missing == 0            ? JOB_RUNNING
                            : missing != UINT32_MAX ? JOB_QUEUED
                                                    : JOB_REFUSED;
        if (is != expected)
            fail_msg("seed %" PRIu64 ": state %u, expected %u (%u devices, level %u, free %x)",
                     seed, is, expected, w.count, w.level, free);
        if (is == JOB_RUNNING) check_held(&w, seed);
        if (is == JOB_REFUSED)
            assert_int_equal(w.b.said[DECISION_REFUSE][REASON_PLACE_TOO_SMALL], 1);
        if (is == JOB_QUEUED && bits(free) >= w.count)
            assert_true(w.b.said[DECISION_WAIT][REASON_WAIT_SAME] > 0);
        started += is == JOB_RUNNING;
        waited += is == JOB_QUEUED;
        refused += is == JOB_REFUSED;
        bench_close(&w.b);
    }
    printf("%u started, %u waited, %u were refused\n", started, waited, refused);
    assert_true(started > WORLDS / 10 && waited > WORLDS / 10 && refused > WORLDS / 20);
}

static void victims_make_one_group_free_and_are_as_few_as_can_be(void **state)
{
    uint32_t worlds = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct world w;
        open_world(&w, seed);
        uint32_t missing = fewest_missing(&w, free_mask(&w));
        ask(&w, JOB_CLASS_P1);
        for (int i = 0; i < 4; i++) stop_workers(&w.b);
        bool runs = bench_job_state(&w.b, ASKING) == JOB_RUNNING;
        uint32_t victims = w.b.said[DECISION_PREEMPT][REASON_PREEMPTED_FOR];
        if (runs != (missing != UINT32_MAX) || victims != (runs ? missing : 0))
            fail_msg("seed %" PRIu64 ": state %u, %u victims, %u would do (%u devices, level %u)",
                     seed, bench_job_state(&w.b, ASKING), victims, missing, w.count, w.level);
        if (runs) check_held(&w, seed);
        worlds += victims > 0;
        bench_close(&w.b);
    }
    printf("victims in %u worlds\n", worlds);
    assert_true(worlds > WORLDS / 10);
}

/* A node that nobody has seen may have what is asked for; once it has joined and has not, it is not held,
 * and nothing of its kind is bought for that again. */
static void what_turns_out_too_small_is_given_back(void **state)
{
    static const struct pool_limits limits = {.nodes_max = 8,
                                              .jobs_max = 8,
                                              .offers_max = 2,
                                              .models_max = 1,
                                              .pools_max = 1,
                                              .terms_max = 8,
                                              .leases_max = 64};
    for (uint32_t known = 0; known < 2; known++) {
        struct world w = {.level = TOPOLOGY_NVLINK, .count = 4, .devices = 4};
        (void)state;
        bench_open(&w.b, &limits);
        bench_model(&w.b, 0, 1000, 24, 1);
        bench_offer(&w.b, (struct test_offer){.id = 1,
                                              .region = 1,
                                              .capacity = CAPACITY_ON_DEMAND,
                                              .price = USD,
                                              .on_demand = USD,
                                              .devices = 4,
                                              .stock = 2});
        if (known == 1) w.b.groups = (struct device_groups){.form = 1, .nvlink = {0x11, 0x22}};
        ask(&w, JOB_CLASS_P2);
        assert_int_equal(bench_job_state(&w.b, ASKING), JOB_QUEUED);
        assert_int_equal(bench_count(&w.b, POOL_COMMAND_ENSURE_WORKER), 0);
        bench_live(&w.b, 3600 * SECOND_US);
        assert_int_equal(bench_job_state(&w.b, ASKING), JOB_QUEUED);
        assert_true(w.b.asked[POOL_COMMAND_ENSURE_NODE] <= 2);
        assert_int_equal(bench_nodes(&w.b, NODE_READY, NULL), 0);
        bench_close(&w.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_picked_lies_together_best),
        cmocka_unit_test(one_device_leaves_large_groups_whole_and_many_span_few),
        cmocka_unit_test(same_is_one_group_or_nothing),
        cmocka_unit_test(victims_make_one_group_free_and_are_as_few_as_can_be),
        cmocka_unit_test(what_turns_out_too_small_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
