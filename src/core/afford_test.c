/* Refusals for a budget against all the ways there are: at the least cost a job is admitted, at a
 * micro-dollar less it is not, whatever risk and order of the market say. */
#include "core/risk.h"
#include "core/testing.h"

enum { OFFERS = 4, WORLDS = 400 };

struct world {
    struct bench b;
    struct test_offer offers[OFFERS];
    uint32_t hazards[OFFERS];
    uint64_t random;
};

static uint32_t draw(struct world *w, uint32_t end)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((w->random >> 33) % end);
}

static void make_world(struct world *w, uint64_t seed)
{
    *w = (struct world){.random = seed};
    for (uint32_t i = 0; i < OFFERS; i++) {
        w->offers[i] = (struct test_offer){.id = 1 + i,
                                           .region = 1,
                                           .model = draw(w, 2),
                                           .capacity = CAPACITY_SPOT,
                                           .devices = 1 + draw(w, 4),
                                           .stock = draw(w, 4),
                                           .price = (1 + draw(w, 30)) * USD / 10};
        w->offers[i].on_demand = w->offers[i].price * 4;
        w->hazards[i] = draw(w, 3) * 4000000;
    }
}

static void open_world(struct world *w)
{
    bench_open(&w->b, NULL);
    bench_model(&w->b, 0, 1000, 24, 1);
    bench_model(&w->b, 1, 2500, 24, 1);
    for (uint32_t i = 0; i < OFFERS; i++) {
        bench_offer(&w->b, w->offers[i]);
        w->b.p->offers[i].hazard_ppm = w->hazards[i];
        risk_weigh(w->b.p, i);
    }
}

/* The least that so many devices cost with the offers from `at` on; -1: not to be had. */
static int64_t least_cost(const struct world *w, uint32_t at, int64_t devices, bool single)
{
    int64_t least = -1;
    if (devices <= 0) return 0;
    if (at == OFFERS) return -1;
    const struct test_offer *o = &w->offers[at];
    for (uint32_t nodes = 0; nodes <= o->stock; nodes++) {
        if (single && nodes > 0 && (nodes > 1 || o->devices < devices)) break;
        int64_t rest = least_cost(w, at + 1, devices - (int64_t)nodes * o->devices, single);
        if (rest < 0) continue;
        int64_t cost = rest + nodes * o->price;
        if (least < 0 || cost < least) least = cost;
    }
    return least;
}

static void submit(struct world *w, struct test_job job, uint32_t kind, uint32_t reason)
{
    open_world(w);
    bench_submit(&w->b, job);
    const struct pool_decision *d = bench_decision(&w->b, kind, reason);
    assert_non_null(d);
    int64_t said = d->a;
    bench_close(&w->b);
    if (reason != REASON_BUDGET_TOO_SMALL) return;
    job.budget_per_hour = said; /* what is said to be enough is enough */
    submit(w, job, DECISION_ADMIT, REASON_FITS);
}

static void a_budget_is_refused_if_and_only_if_no_mix_is_within_it(void **state)
{
    (void)state;
    struct world w;
    uint32_t refused = 0;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        make_world(&w, seed);
        uint32_t devices = 1 + draw(&w, 6);
        bool single = draw(&w, 3) == 0;
        int64_t least = least_cost(&w, 0, devices, single);
        if (least < 0) continue;
        struct test_job job = {.id = 1,
                               .min = devices,
                               .max = devices,
                               .kind = single ? JOB_KIND_BATCH : JOB_KIND_ELASTIC,
                               .job_class = JOB_CLASS_P2,
                               .budget_per_hour = least};
        submit(&w, job, DECISION_ADMIT, REASON_FITS);
        job.budget_per_hour = least - 1;
        submit(&w, job, DECISION_REFUSE, REASON_BUDGET_TOO_SMALL);
        refused++;
    }
    assert_true(refused > WORLDS / 4);
}

/* Too many to count every mix: refused is what even the cheapest device of all, so many times, is above. */
static void large_gangs_are_refused_only_below_any_mix(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, NULL);
    bench_model(&b, 0, 1000, 24, 1);
    bench_offer(&b, (struct test_offer){.id = 1,
                                        .region = 1,
                                        .capacity = CAPACITY_ON_DEMAND,
                                        .devices = 8,
                                        .stock = 20,
                                        .price = 8 * USD,
                                        .on_demand = 8 * USD});
    struct test_job job = {
        .id = 1, .min = 100, .max = 100, .job_class = JOB_CLASS_P2, .budget_per_hour = 99 * USD};
    bench_submit(&b, job);
    assert_non_null(bench_decision(&b, DECISION_REFUSE, REASON_BUDGET_TOO_SMALL));
    job.id = 2;
    job.budget_per_hour = 104 * USD;
    bench_submit(&b, job);
    assert_non_null(bench_decision(&b, DECISION_ADMIT, REASON_FITS));
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_is_refused_if_and_only_if_no_mix_is_within_it),
        cmocka_unit_test(large_gangs_are_refused_only_below_any_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
