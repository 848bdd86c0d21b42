/* Worlds by known figures: what can be worked out by hand must come out. */
#include "base/io.h"
#include "base/mem.h"
#include "whatif/crowd.h"
#include "whatif/print.h"
#include "whatif/report.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OFFER_LAB                                                                                  \
    "offers:\n"                                                                                    \
    "  - {name: lab, kind: reserved, model: A100-40GB, place: lab/hall/rack, devices: 8, stock: "  \
    "2, "                                                                                          \
    "price: 16, boot: {min: 0s, max: 0s}}\n"
#define SPOT                                                                                       \
    "offers:\n"                                                                                    \
    "  - {name: a, kind: spot, model: A100-40GB, place: aws/east/east-a, stock: 16, on_demand: "   \
    "2.8, "                                                                                        \
    "price: {mean: 1, every: 5m, step: 0.05}, up: {mean: 5h, down: 1h}, life: 8h, notice: 2m}\n"   \
    "  - {name: b, kind: spot, model: H100, place: aws/west/west-b, stock: 8, on_demand: 4.5, "    \
    "price: {mean: 1.6, every: 5m, step: 0.05, spikes: {every: 20h, last: 1h, to: 1.2}}, life: "   \
    "9h}\n"                                                                                        \
    "  - {name: od, kind: on_demand, model: A100-40GB, place: aws/east/east-a, stock: 32, price: " \
    "2.8}\n"
#define JOBS                                                                                       \
    "jobs:\n"                                                                                      \
    "  - {name: train, devices: {min: 4, max: 16}, work: 200, exchanges: 40, count: 4, every: "    \
    "6h, "                                                                                         \
    "checkpoint: 5s, join: 2s}\n"                                                                  \
    "  - {name: small, devices: 1, work: 3, count: 60, every: 20m, random: true, class: P3, "      \
    "spread: 1, deadline: 12d}\n"

static struct scene *read_scene(const char *text)
{
    struct error error = {""};
    struct scene *scene = scene_new();
    assert_non_null(scene);
    if (!scene_read(scene, "test.yaml", ".", text, strlen(text), NULL, 0, &error))
        fail_msg("%s", error.text);
    return scene;
}

static struct outcome run(const char *text, const char *policy, uint64_t seed)
{
    struct scene *scene = read_scene(text);
    struct scene_case c;
    struct outcome outcome;
    assert_true(scene_case_of_policy(scene, policy, &c));
    assert_true(world_run(scene, &c, seed, NULL, &outcome));
    scene_close(scene);
    return outcome;
}

static void assert_near(double value, double wanted, double within)
{
    if (value < wanted - within || value > wanted + within)
        fail_msg("%.6f is not %.6f", value, wanted);
}

/* 160 NCU-hours on 16 A100: 10 hours, and two reserved nodes at $16 are paid all that time. */
static void a_job_alone_takes_its_work_over_its_devices(void **state)
{
    (void)state;
    struct outcome o = run("name: t\npool: {worker_start: 0s}\n" OFFER_LAB
                           "jobs:\n  - {name: j, devices: 16, work: 160, restart: 0s}\n",
                           "shoal", 1);
    assert_near(o.values[0][MEASURE_TIME], 10, 1e-3);
    assert_near(o.values[0][MEASURE_COST], 320, 0.1);
    assert_near(o.values[0][MEASURE_UTILIZATION], 1, 1e-3);
    assert_near(o.values[0][MEASURE_UNFINISHED], 0, 0);
}

/* A step of 60 NCU-seconds on 16 devices takes 3.75 s; 40 exchanges of 15 ms add 0.6 s, 50 ms are the
 * orchestration's. */
static void exchanges_and_orchestration_are_a_share_of_the_step(void **state)
{
    (void)state;
    struct outcome o =
        run("name: t\npool: {worker_start: 0s}\n"
            "network: {same_region: {exchange: 15ms}}\n" OFFER_LAB
            "jobs:\n  - {name: j, devices: 16, work: 160, restart: 0s, exchanges: 40, "
            "orchestration: 50ms}\n",
            "shoal", 1);
    assert_near(o.values[0][MEASURE_STEP_LOSS], 0.6 / 3.8, 1e-6);
    assert_near(o.values[0][MEASURE_OVERHEAD], 0.05 / 4.4, 1e-6);
    assert_near(o.values[0][MEASURE_TIME], 10 * 4.4 / 3.75, 1e-3);
}

/* A slow device costs a job with even shares the speed of all, one with shares by speed only its own. */
static void a_straggler_costs_even_shares_more(void **state)
{
    (void)state;
    static const char text[] =
        "name: t\npool: {worker_start: 0s}\n%s" OFFER_LAB
        "jobs:\n  - {name: j, devices: 16, work: 160, restart: 0s, split: %s}\n";
    char even[1024], fair[1024];
    static const char slow[] = "stragglers: {every: 40h, last: 3h, speed: 0.5}\n";
    static const char all_slow[] = "stragglers: {every: 1s, last: 1000d, speed: 0.5}\n";
    (void)snprintf(even, sizeof even, text, slow, "even");
    (void)snprintf(fair, sizeof fair, text, slow, "by_speed");
    double even_h = 0, fair_h = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        even_h += run(even, "shoal", seed).values[0][MEASURE_TIME] / 4;
        fair_h += run(fair, "shoal", seed).values[0][MEASURE_TIME] / 4;
    }
    assert_true(fair_h > 10.05);
    assert_true(even_h > 1.2 * fair_h && even_h < 20);
    (void)snprintf(even, sizeof even, text, all_slow, "even");
    assert_near(run(even, "shoal", 3).values[0][MEASURE_TIME], 20, 0.1);
}

/* The pool's ledger and the world's meter are two books of the same nodes. */
static void the_ledger_of_the_pool_is_what_the_world_bills(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct outcome o = run("name: t\n" SPOT JOBS, seed % 2 == 0 ? "failover" : "shoal", seed);
        assert_true(o.metered_usd > 10);
        assert_near(o.ledger_usd / o.metered_usd, 1, 2e-4);
        assert_near(o.values[0][MEASURE_UNFINISHED], 0, 0);
    }
}

static void all_policies_finish_the_same_work(void **state)
{
    (void)state;
    struct scene *scene = read_scene("name: t\n" SPOT JOBS);
    struct rank_net net;
    struct error error;
    assert_true(rank_net_shipped(&net, &error));
    for (uint32_t p = 0; p < POLICY_COUNT; p++) {
        struct scene_case c;
        struct outcome o;
        assert_true(scene_case_of_policy(scene, scene_policy_names[p], &c));
        c.net = &net;
        assert_true(world_run(scene, &c, 5, NULL, &o));
        assert_near(o.values[0][MEASURE_UNFINISHED], 0, 0);
        assert_true(o.values[0][MEASURE_UTILIZATION] > 0 && o.values[0][MEASURE_UTILIZATION] <= 1);
        if (p == POLICY_ON_DEMAND) assert_near(o.values[0][MEASURE_SPOT_SHARE], 0, 0);
        if (p == POLICY_ONE_ZONE) assert_near(o.values[0][MEASURE_SPOT_SHARE], 1, 1e-9);
    }
    scene_close(scene);
}

#define FLAPS                                                                                      \
    "offers:\n"                                                                                    \
    "  - {name: a, kind: spot, model: A100-40GB, place: aws/east/east-a, stock: 4, on_demand: "    \
    "2.8, "                                                                                        \
    "price: 0.9, up: {mean: 3h, down: 3h}, notice: 2m}\n"                                          \
    "  - {name: od, kind: on_demand, model: A100-40GB, place: aws/east/east-a, stock: 8, price: "  \
    "2.8}\n"
#define HURRIES                                                                                    \
    "jobs:\n"                                                                                      \
    "  - {name: j, devices: 1, work: 8, count: 4, every: 20h, deadline: 12h, restart: 1m, "        \
    "checkpoint_every: 10m}\n"

/* The pool knows of deadlines, and buys for them as it is told: all in time, each in a way of its own. */
static void jobs_with_a_deadline_are_bought_for_as_the_case_says(void **state)
{
    (void)state;
    static const char *const ways[] = {"on_demand", "greedy", "uniform_progress", "shoal", "table"};
    uint64_t digests[5] = {0};
    double costs[5] = {0}, missed_alone = 0;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        for (uint32_t i = 0; i < 5; i++) {
            struct outcome o = run("name: t\n" FLAPS HURRIES, ways[i], seed);
            assert_near(o.values[0][MEASURE_MISSED], 0, 0);
            assert_near(o.values[0][MEASURE_UNFINISHED], 0, 0);
            costs[i] += o.values[0][MEASURE_COST];
            digests[i] = digests[i] * 31 + o.digest;
        }
        missed_alone +=
            run("name: t\n" FLAPS HURRIES, "one_zone", seed).values[0][MEASURE_MISSED];
    }
    assert_true(missed_alone > 0); /* who knows nothing of deadlines misses some */
    for (uint32_t i = 1; i < 5; i++) assert_true(costs[i] < 0.95 * costs[0]);
    assert_true(digests[1] != digests[2] && digests[2] != digests[3]);
    assert_int_equal(digests[3], digests[4]); /* the table is how the pool buys anyway */
}

/* Spot that spikes to 0.9 of on demand now and then, otherwise stays: who bids less than that loses it then,
 * who bids less than it ever costs gets none, who bids more than it ever costs might as well not bid. */
static void spot_is_lost_to_its_bid_alone(void **state)
{
    (void)state;
    static const char text[] =
        "name: t\npool: {buying: {policy: greedy}}\noffers:\n"
        "  - {name: a, kind: spot, model: A100-40GB, place: aws/east/east-a, stock: 4, on_demand: "
        "2.8, price: {mean: 0.9, every: 30m, step: 0, spikes: {every: 5h, last: 30m, to: 0.9}}, "
        "notice: 1m}\n"
        "  - {name: od, kind: on_demand, model: A100-40GB, place: aws/east/east-a, stock: 8, "
        "price: 2.8}\n"
        "jobs:\n  - {name: j, devices: 1, work: 40, count: 2, checkpoint_every: 10m}\n"
        "cases:\n  - {name: none}\n  - {name: above, buying: {bid: 2.53}}\n"
        "  - {name: between, buying: {bid: 1.25}}\n  - {name: below, buying: {bid: 0.5}}\n";
    struct scene *scene = read_scene(text);
    struct outcome o[4];
    for (uint32_t i = 0; i < 4; i++)
        assert_true(world_run(scene, &scene->cases[i], 3, NULL, &o[i]));
    assert_near(o[0].values[0][MEASURE_PREEMPTIONS], 0, 0);
    assert_int_equal(o[0].digest, o[1].digest);
    assert_near(o[1].values[0][MEASURE_COST], o[0].values[0][MEASURE_COST], 0);
    assert_true(o[2].values[0][MEASURE_PREEMPTIONS] >= 4);
    assert_true(o[2].values[0][MEASURE_SPOT_SHARE] > 0.5);
    assert_near(o[3].values[0][MEASURE_SPOT_SHARE], 0, 0);
    for (uint32_t i = 0; i < 4; i++) assert_near(o[i].values[0][MEASURE_UNFINISHED], 0, 0);
    scene_close(scene);
}

/* Dearer and in time is cheaper than late. */
static void a_case_that_is_late_is_not_the_cheapest(void **state)
{
    (void)state;
    static const char text[] = "name: t\n" FLAPS HURRIES
                               "cases:\n  - {name: late, policy: one_zone}\n"
                               "  - {name: dear, policy: on_demand}\n  - {name: pool}\n";
    struct scene *scene = read_scene(text);
    struct crowd crowd = {.scene = scene,
                          .cases = scene->cases,
                          .case_count = 3,
                          .first_seed = 1,
                          .seed_count = 2,
                          .threads = 1};
    struct error error;
    char *page;
    size_t bytes;
    assert_true(crowd_run(&crowd, &error));
    assert_true(crowd_estimate(&crowd, 0, 0, MEASURE_COST).mean <
                crowd_estimate(&crowd, 2, 0, MEASURE_COST).mean);
    assert_near(crowd_unfinished(&crowd, 0, 0), 0, 0);
    assert_true(crowd_later(&crowd, 0) > 0);
    assert_near(crowd_later(&crowd, 1) + crowd_later(&crowd, 2), 0, 0);
    assert_int_equal(crowd_cheapest(&crowd), 2);
    FILE *stream = open_memstream(&page, &bytes);
    assert_non_null(stream);
    print_table(&crowd, stream);
    (void)fclose(stream);
    assert_non_null(strstr(page, "LATE  late: "));
    assert_null(strstr(page, "LATE  pool"));
    assert_non_null(strstr(page, "cheapest of those that finished with the fewest deadlines missed: pool"));
    free(page);
    crowd_free(&crowd);
    scene_close(scene);
}

/* One that cannot be in time is refused by the pool, and counted as missed. */
static void what_cannot_end_in_time_is_missed(void **state)
{
    (void)state;
    struct outcome o = run("name: t\n" FLAPS
                           "jobs:\n  - {name: j, devices: 1, work: 8, spread: 2, count: 20, every: "
                           "1h, deadline: 9h}\n",
                           "shoal", 1);
    assert_true(o.values[0][MEASURE_MISSED] > 0);
    assert_near(o.values[0][MEASURE_MISSED], o.values[0][MEASURE_UNFINISHED], 0);
}

/* Who did not do the work is never called cheapest, its dollars prove nothing, and it is said why. */
static void a_case_that_did_not_finish_is_not_the_cheapest(void **state)
{
    (void)state;
    static const char text[] =
        "name: t\nhorizon: 3d\n" FLAPS "jobs:\n"
        "  - {name: j, devices: 1, work: 8, count: 2, deadline: 8h, spread: 0.001}\n"
        "  - {name: late, devices: 1, work: 1, count: 2, after: j}\n"
        "cases:\n  - {name: none, buying: {policy: greedy}}\n  - {name: all, policy: failover}\n"
        "claims:\n  - {metric: cost_usd, of: none, over: all, at_most: 1}\n"
        "  - {metric: missed, of: none, at_least: 2}\n"
        "  - {metric: cost_usd, of: all, over: none, at_least: 0}\n"  /* of nothing */
        "  - {metric: cost_usd, of: none, over: all, at_least: 0}\n"; /* it would be more */
    struct scene *scene = read_scene(text);
    struct crowd crowd = {.scene = scene,
                          .cases = scene->cases,
                          .case_count = 2,
                          .first_seed = 1,
                          .seed_count = 2,
                          .threads = 1};
    struct error error;
    char why[PRINT_UNFINISHED_BYTES];
    assert_true(crowd_run(&crowd, &error));
    assert_true(crowd_estimate(&crowd, 0, 0, MEASURE_COST).mean <
                crowd_estimate(&crowd, 1, 0, MEASURE_COST).mean);
    assert_near(crowd_unfinished(&crowd, 0, 0), 4, 0);
    assert_near(crowd_estimate(&crowd, 0, 2, MEASURE_WAIT).mean, 0, 0); /* it never came */
    assert_int_equal(crowd_cheapest(&crowd), 1);
    assert_false(crowd_holds(&crowd, &scene->claims[0]));
    assert_true(crowd_holds(&crowd, &scene->claims[1]));
    assert_false(crowd_holds(&crowd, &scene->claims[2]));
    assert_true(crowd_holds(&crowd, &scene->claims[3]));
    print_unfinished(&crowd, 0, why, sizeof why);
    assert_non_null(strstr(why, "4 of 4 jobs did not end; the first, j number 1, was refused: its "
                                "deadline is in 8 h"));
    print_unfinished(&crowd, 1, why, sizeof why);
    assert_string_equal(why, "");
    crowd_free(&crowd);
    scene_close(scene);
}

static void the_same_seed_gives_the_same_bytes_with_any_number_of_threads(void **state)
{
    (void)state;
    struct scene *scene = read_scene("name: t\n" SPOT JOBS);
    struct scene_case cases[2];
    struct crowd one = {.scene = scene,
                        .cases = cases,
                        .case_count = 2,
                        .first_seed = 1,
                        .seed_count = 3,
                        .threads = 1};
    struct crowd four = one;
    struct error error;
    four.threads = 4;
    assert_true(scene_case_of_policy(scene, "shoal", &cases[0]));
    assert_true(scene_case_of_policy(scene, "failover", &cases[1]));
    assert_true(crowd_run(&one, &error) && crowd_run(&four, &error));
    assert_memory_equal(one.outcomes, four.outcomes, 6 * sizeof *one.outcomes);
    assert_true(one.outcomes[0].digest != one.outcomes[1].digest);
    crowd_free(&one);
    crowd_free(&four);
    scene_close(scene);
}

/* Every allocation of a world fails once: it says so, and nothing leaks or is left half done. */
static void a_world_without_memory_says_so(void **state)
{
    (void)state;
    struct scene *scene = read_scene("name: t\n" SPOT JOBS);
    struct scene_case c;
    struct outcome whole, o;
    assert_true(scene_case_of_policy(scene, "failover", &c));
    uint64_t before = mem_calls();
    assert_true(world_run(scene, &c, 1, NULL, &whole));
    uint64_t calls = mem_calls() - before;
    for (uint64_t n = 1; n <= calls; n++) {
        mem_fail_at(n);
        assert_false(world_run(scene, &c, 1, NULL, &o));
        mem_fail_at(0);
    }
    assert_true(world_run(scene, &c, 1, NULL, &o));
    assert_memory_equal(&o, &whole, sizeof o);
    scene_close(scene);
}

static void refuse(const char *text, const char *because)
{
    struct error error = {""};
    struct scene *scene = scene_new();
    assert_non_null(scene);
    assert_false(scene_read(scene, "test.yaml", ".", text, strlen(text), NULL, 0, &error));
    if (strstr(error.text, because) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, because);
    scene_close(scene);
}

static void bad_scenarios_are_refused_with_a_reason(void **state)
{
    (void)state;
    refuse("name: t\n" OFFER_LAB "jobs:\n  - {name: j, devices: 64, work: 1}\n",
           "job j can never run: it needs 64 devices at once, no region has more than 16");
    refuse("name: t\n" OFFER_LAB "jobs:\n  - {name: j, devices: 1, work: 1, kinds: [spot]}\n",
           "nothing on offer is of a model, kind and region that it allows");
    refuse("name: t\n" OFFER_LAB "jobs:\n  - {name: j, devices: 12, work: 1, one_node: true}\n",
           "needs 12 devices at once in one node, no node has more than 8");
    refuse("name: t\n" OFFER_LAB "jobs:\n  - {name: j, devices: 8, work: 100, budget: 15}\n",
           "budget is $15.00 an hour, 8 devices that it allows cost $16.00 at the least");
    refuse("name: t\n" OFFER_LAB "jobs:\n  - {name: j, devices: 2, work: 100, deadline: 40h}\n",
           "work takes 50.0 h on 2 of the fastest devices that it allows, its deadline is 40.0 h");
    refuse("name: t\nhorizon: 10h\n" OFFER_LAB "jobs:\n  - {name: j, work: 1, at: 11h}\n",
           "job j never comes: its first is after 11.0 h, the horizon is 10.0 h");
    refuse("name: t\n" OFFER_LAB "jobs:\n  - {name: j, work: 1}\n"
           "cases:\n  - {name: c, policy: one_zone}\n",
           "job j can never run in case c: nothing on offer");
    refuse("name: t\noffers:\n  - {name: a, kind: spot, model: T4, place: x/y/z, on_demand: 1, boot: "
           "{min: 9m, max: 1m}}\njobs:\n  - {name: j, work: 1}\n",
           "boot: min is above max");
    refuse("name: t\n" OFFER_LAB "jobs:\n  - {name: j, devices: 1, work: 1, models: [A1000]}\n",
           "A1000");
    refuse("name: t\n" OFFER_LAB "jobs:\n  - {name: j, devices: 1, work: 1, region: mars}\n",
           "nothing is offered in a region \"mars\"");
    refuse("name: t\noffers:\n  - {name: a, kind: spot, model: T4, place: x/y/z, on_demand: 0}\n"
           "jobs:\n  - {name: j, work: 1}\n",
           "on_demand");
    refuse("name: t\noffers:\n  - {name: a, kind: spot, model: T4, place: x, on_demand: 1}\n"
           "jobs:\n  - {name: j, work: 1}\n",
           "place is PROVIDER/REGION/ZONE");
    refuse("name: t\n" OFFER_LAB "jobs:\n  - {name: j, work: 1, after: k}\n",
           "no job above is called \"k\"");
    refuse("name: t\n" OFFER_LAB "jobs:\n  - {name: j, work: 1, color: red}\n", "color");
    refuse("name: t\n" OFFER_LAB
           "jobs:\n  - {name: j, work: 1}\ncases:\n  - {name: c, policy: best}\n",
           "not \"best\"");
}

static void refuse_series(const struct series_query *query, const char *text, const char *because)
{
    struct series series;
    struct error error = {""};
    assert_false(series_read(query, text, strlen(text), &series, &error));
    if (strstr(error.text, because) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, because);
    assert_null(series.steps);
}

static void bad_traces_are_refused_with_their_line(void **state)
{
    (void)state;
    struct series_query price = {.file = "p.csv",
                                 .picks = {{.column = "zone", .word = "a"}},
                                 .pick_count = 1,
                                 .time = "t",
                                 .value = "usd",
                                 .step_us = 1,
                                 .gap_max_us = INT64_C(7200000000),
                                 .scale_ppm = 1000000,
                                 .is_price = true};
    struct series_query runs = {.file = "r.csv",
                                .time = "start",
                                .value = "up",
                                .length = "n",
                                .step_us = 1000000,
                                .gap_max_us = 1000000,
                                .scale_ppm = 1000000};
    refuse_series(&price, "zone,t,usd\na,0,1\na,60,0\n", "p.csv:3: a price is above 0");
    refuse_series(&price, "zone,t,usd\na,60,1\na,0,2\n", "p.csv:3: times do not go back");
    refuse_series(&price, "zone,t,usd\na,-5,1\n", "p.csv:2: a time is not before the beginning");
    refuse_series(&price, "zone,t,usd\na,soon,1\n", "p.csv:2: a time is a date");
    refuse_series(&price, "zone,t,usd\na,0,1\na,9000,2\n",
                  "p.csv:3: nothing is known of the 9000 s");
    refuse_series(&price, "zone,t,usd\nb,0,1\n", "no row has \"a\" in its column \"zone\"");
    refuse_series(&price, "zone,t\na,0\n", "p.csv:1: there is no column \"usd\"");
    refuse_series(&price, "zone,t,usd\na,0\n", "p.csv:2: a row of 2 fields");
    refuse_series(&price, "", "is empty");
    refuse_series(&runs, "start,n,up\n0,5,1\n3,5,0\n", "r.csv:3: runs do not overlap");
    refuse_series(&runs, "start,n,up\n0,5,1\n50,5,0\n", "r.csv:3: nothing is known of the 45 s");
    refuse_series(&runs, "start,n,up\n0,0,1\n", "r.csv:2: a run has a length above 0");
    refuse_series(&runs, "start,n,up\n0,5,-1\n", "r.csv:2: nodes to be had are a number from 0");
}

static const struct series_words words = {
    .count = 3, .words = {"V100M16", "T4", "A10"}, .models = {7, 3, 4}};

/* Lists of jobs as clusters wrote them: sorted, and each row that is not kept is counted. */
static void lists_of_jobs_are_taken_as_they_are(void **state)
{
    (void)state;
    static const char text[] = "t,from,to,gpus,milli,model\n"
                               "90,100,160,2,1000,V100M16|T4\n"
                               "10,10,70,1,250,\n"            /* out of order, a share */
                               "20,20,80,1,1000,G2|T4\n"      /* G2 is not known, T4 will do */
                               "30,30,90,1,1000,G2\n"         /* unknown */
                               "-5,0,9,1,1000,\n"             /* negative */
                               "31,31,31,1,1000,\n"           /* takes no time */
                               "32,40,39,1,1000,\n"           /* ends before it begins */
                               "33,33,50,0,0,\n"              /* no devices */
                               "34,34,50,64,1000,\n"          /* wide */
                               "500,500,501,1,1000,\n"        /* after until */
                               "soon\033[2J,1,2,1,1000,\n"    /* malformed, and steers no terminal */
                               "35,,50,1,1000,\n"             /* never scheduled */
                               "36,36\n"                      /* cut short */
                               "37,37,9999,1,1000,\n";        /* lasting */
    const struct series_query q = {.file = "j.csv",
                                   .time = "t",
                                   .begin = "from",
                                   .end = "to",
                                   .devices = "gpus",
                                   .share = "milli",
                                   .model = "model",
                                   .words = &words,
                                   .devices_max = 32,
                                   .run_max_us = INT64_C(3600000000),
                                   .until_us = 400000000};
    struct arrivals a;
    struct series_tally t;
    struct error error = {""};
    assert_true(arrivals_read(&q, text, strlen(text), &a, &t, &error));
    assert_int_equal(a.count, 3);
    assert_int_equal(a.rows[0].at_us, 10000000);
    assert_int_equal(a.rows[1].model_mask, 1U << 3);
    assert_int_equal(a.rows[2].model_mask, 1U << 7 | 1U << 3);
    assert_int_equal(a.rows[2].run_us, 60000000);
    assert_int_equal(t.rows, 14);
    assert_int_equal(t.lasting, 1);
    assert_int_equal(t.kept, 3);
    assert_int_equal(t.unsorted, 2); /* both after the 90 */
    assert_int_equal(t.shares, 1);
    assert_int_equal(t.unknown_model, 1);
    assert_int_equal(t.negative, 1);
    assert_int_equal(t.without_time, 2);
    assert_int_equal(t.without_devices, 1);
    assert_int_equal(t.wide, 1);
    assert_int_equal(t.outside, 1);
    assert_int_equal(t.malformed, 3);
    assert_string_equal(t.first, "line 12, a time is a date, a date and a time, or seconds, not "
                                 "\"soon?[2J\"");
    arrivals_free(&a);
}

static void lists_of_nodes_are_kinds_with_counts(void **state)
{
    (void)state;
    static const char text[] = "sn,gpu,model,n\na,4,T4,1\nb,4,T4,2\nc,8,T4,1\nd,8,G2,1\ne,0,,1\n"
                               "f,2,,1\ng,2,A10,0\nh,2,A10,5\n";
    const struct series_query q = {
        .file = "n.csv", .devices = "gpu", .model = "model", .nodes = "n", .words = &words};
    struct shapes s;
    struct series_tally t;
    struct error error = {""};
    assert_true(shapes_read(&q, text, strlen(text), &s, &t, &error));
    assert_int_equal(s.count, 3);
    assert_memory_equal(&s.rows[0], (&(struct shape_row){3, 4, 3}), sizeof s.rows[0]);
    assert_memory_equal(&s.rows[1], (&(struct shape_row){3, 8, 1}), sizeof s.rows[0]);
    assert_memory_equal(&s.rows[2], (&(struct shape_row){4, 2, 5}), sizeof s.rows[0]);
    assert_int_equal(t.unknown_model, 1);
    assert_int_equal(t.without_devices, 1);
    assert_int_equal(t.malformed, 2); /* no model; no nodes */
    assert_int_equal(t.rows, 8);
}

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[96];
    struct error error;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_true(io_write_file(path, text, strlen(text), 0600, &error));
}

/* Jobs and nodes of a scenario from files: they run, and what was left out is told. */
static void a_scenario_takes_jobs_and_nodes_from_lists(void **state)
{
    (void)state;
    char folder[] = "/tmp/whatif_test.XXXXXX", path[64];
    static const char text[] =
        "name: t\noffers:\n  - {name: lab, kind: owned, place: a/b/c, price: 1, nodes: {csv: n.csv, as: "
        "{G2: A100-40GB}}}\n"
        "jobs:\n  - {name: j, work: 1, restart: 0s, trace: {csv: j.csv}}\n"
        "  - {name: one, work: 1, restart: 0s, trace: {csv: one.csv}}\n";
    struct error error = {""};
    struct scene *scene = scene_new();
    struct scene_case c;
    struct outcome o;
    assert_non_null(mkdtemp(folder));
    write_text(folder, "n.csv", "gpu,model\n4,G2\n4,G2\n2,G3\n");
    write_text(folder, "j.csv", "submit_s,num_gpus,duration_s\n60,4,3600\n0,8,7200\n5,0,1\n");
    write_text(folder, "one.csv", "submit_s,num_gpus,duration_s\n120,4,3600\n");
    if (!scene_read(scene, "t.yaml", folder, text, strlen(text), NULL, 0, &error))
        fail_msg("%s", error.text);
    assert_string_equal(scene->offers[0].name, "lab-A100-40GB-x4");
    assert_int_equal(scene->offers[0].stock, 2);
    assert_int_equal(scene->offers[0].price.usd_micros, 4000000);
    assert_string_equal(scene->told[0],
                        "offers.lab: n.csv: 3 rows, 2 nodes; left out: 1 of a model that is not known");
    assert_string_equal(scene->told[1], "jobs.j: j.csv: 3 rows, 2 jobs (1 out of order, sorted); left "
                                        "out: 1 without devices");
    assert_string_equal(scene->told[2], "jobs.one: one.csv: 1 row, 1 job");
    assert_true(scene_case_of_policy(scene, "shoal", &c));
    assert_true(world_run(scene, &c, 1, NULL, &o));
    assert_near(o.values[0][MEASURE_UNFINISHED], 0, 0);
    assert_near(o.values[0][MEASURE_TIME], 3, 0.02); /* all eight for two hours, then four for one */
    scene_close(scene);
    static const char *const files[] = {"n.csv", "j.csv", "one.csv"};
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
    refuse("name: t\noffers:\n  - {name: l, kind: owned, place: a/b/c, price: 1, nodes: {csv: "
           "$SHOAL_NO_SUCH_VARIABLE/n.csv}}\njobs:\n  - {name: j, work: 1}\n",
           "the variable SHOAL_NO_SUCH_VARIABLE is not set; export it, or write the folder");
}

static void a_trace_begins_where_it_is_cut(void **state)
{
    (void)state;
    struct series_query q = {.file = "p.csv",
                             .time = "t",
                             .value = "usd",
                             .step_us = 1,
                             .from_us = INT64_C(1577923200000000),
                             .scale_ppm = 500000,
                             .is_price = true};
    static const char text[] =
        "t,usd\n2020-01-01T00:00:00Z,1\n2020-01-01 12:00:00,2\n2020-01-02,2\n"
        "2020-01-03,4.0000001\n";
    struct series s;
    struct error error = {""};
    assert_true(series_read(&q, text, strlen(text), &s, &error));
    assert_int_equal(s.count, 2); /* said again is not a step */
    assert_int_equal(s.steps[0].at_us, 0);
    assert_int_equal(s.steps[0].value, 1000000);
    assert_int_equal(s.steps[1].at_us, INT64_C(86400000000));
    assert_int_equal(s.steps[1].value, 2000000);
    series_free(&s);
}

/* --set: another number of the file, or a sentence about what is wrong with it. */
static void a_setting_changes_one_number(void **state)
{
    (void)state;
    static const char text[] = "name: t\npool: {worker_start: 0s}\n" OFFER_LAB
                               "jobs:\n  - {name: j, devices: 16, work: 160, restart: 0s}\n";
    const struct scene_set good = {.path = "jobs.j.work", .value = "320"};
    const struct scene_set bad[] = {{.path = "jobs.j.work", .value = "-1"},
                                    {.path = "jobs.j.wrok", .value = "1"},
                                    {.path = "jobs.k.work", .value = "1"}};
    static const char *const because[] = {"not a number in its range", "perhaps jobs.j.work",
                                          "has no such number"};
    struct error error = {""};
    struct outcome o;
    struct scene_case c;
    struct scene *scene = scene_new();
    assert_true(scene_read(scene, "test.yaml", ".", text, strlen(text), &good, 1, &error));
    assert_true(scene_case_of_policy(scene, "shoal", &c));
    assert_true(world_run(scene, &c, 1, NULL, &o));
    assert_near(o.values[0][MEASURE_TIME], 20, 1e-3);
    scene_close(scene);
    for (uint32_t i = 0; i < 3; i++) {
        scene = scene_new();
        assert_false(scene_read(scene, "test.yaml", ".", text, strlen(text), &bad[i], 1, &error));
        if (strstr(error.text, because[i]) == NULL)
            fail_msg("\"%s\": not \"%s\"", error.text, because[i]);
        scene_close(scene);
    }
}

/* The report holds every case, loads nothing, and says when it cannot be written. */
static void a_report_is_one_whole_page(void **state)
{
    (void)state;
    char folder[] = "/tmp/whatif_test.XXXXXX", path[64], *page;
    size_t bytes;
    struct scene *scene = read_scene("name: t\n" SPOT JOBS);
    struct scene_case cases[POLICY_COUNT];
    struct crowd crowd = {.scene = scene,
                          .cases = cases,
                          .case_count = POLICY_COUNT,
                          .first_seed = 1,
                          .seed_count = 2,
                          .threads = 1};
    struct error error = {""};
    for (uint32_t p = 0; p < POLICY_COUNT; p++)
        assert_true(scene_case_of_policy(scene, scene_policy_names[p], &cases[p]));
    assert_true(crowd_run(&crowd, &error));
    assert_non_null(mkdtemp(folder));
    assert_true(report_write(&crowd, folder, &error));
    (void)snprintf(path, sizeof path, "%s/report.html", folder);
    assert_true(io_read_file(path, 1 << 24, &page, &bytes, &error));
    for (uint32_t p = 0; p < POLICY_COUNT; p++)
        assert_non_null(strstr(page, scene_policy_names[p]));
    assert_null(strstr(page, "http"));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "nan"));
    assert_non_null(strstr(page, "</html>"));
    assert_true(report_can_write(folder, &error));
    assert_false(report_can_write(path, &error)); /* a file is no folder */
    io_fail_at(1, ENOSPC);
    assert_false(report_can_write(folder, &error));
    io_fail_at(1, ENOSPC);
    assert_false(report_write(&crowd, folder, &error));
    io_fail_at(0, 0);
    mem_free(page);
    (void)unlink(path);
    (void)rmdir(folder);
    crowd_free(&crowd);
    scene_close(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_alone_takes_its_work_over_its_devices),
        cmocka_unit_test(exchanges_and_orchestration_are_a_share_of_the_step),
        cmocka_unit_test(a_straggler_costs_even_shares_more),
        cmocka_unit_test(the_ledger_of_the_pool_is_what_the_world_bills),
        cmocka_unit_test(all_policies_finish_the_same_work),
        cmocka_unit_test(jobs_with_a_deadline_are_bought_for_as_the_case_says),
        cmocka_unit_test(spot_is_lost_to_its_bid_alone),
        cmocka_unit_test(a_case_that_is_late_is_not_the_cheapest),
        cmocka_unit_test(what_cannot_end_in_time_is_missed),
        cmocka_unit_test(a_case_that_did_not_finish_is_not_the_cheapest),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes_with_any_number_of_threads),
        cmocka_unit_test(a_world_without_memory_says_so),
        cmocka_unit_test(bad_scenarios_are_refused_with_a_reason),
        cmocka_unit_test(bad_traces_are_refused_with_their_line),
        cmocka_unit_test(lists_of_jobs_are_taken_as_they_are),
        cmocka_unit_test(lists_of_nodes_are_kinds_with_counts),
        cmocka_unit_test(a_scenario_takes_jobs_and_nodes_from_lists),
        cmocka_unit_test(a_trace_begins_where_it_is_cut),
        cmocka_unit_test(a_setting_changes_one_number),
        cmocka_unit_test(a_report_is_one_whole_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
