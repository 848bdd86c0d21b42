/* A day made up by a world whose losses are known, kept in a journal, and asked what else it could have
 * been: what the model says of the recorded policy is near the record, the same seed gives the same
 * world, and changes do what they must. */
#include "base/mem.h"
#include "server/definitions.h"
#include "server/rerun_sums.h"
#include "server/restore.h"
#include "server/test_dir.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { JOBS = 12, SEEDS = 8 };
#define START_US  INT64_C(1700000000000000)
#define MINUTE_US INT64_C(60000000)
#define DAY_US    (24 * 60 * MINUTE_US)
#define DEAREST_USD_MICROS INT64_C(20000000) /* that a device of the class may cost an hour */

struct fixture {
    char dir[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    journal *j;
    struct batch b;
    struct facts truth, facts; /* truth: what the day is made up from */
    struct survival_curve curves[8], *learned;
    struct survival_seen seen;
    pool *pool;
    void *memory;
    struct pool_output out;
    world *world;
    names *names;
    uint32_t price_events;
};

static struct error error;

static void commit(struct fixture *f)
{
    if (!journal_commit(f->j, &f->b, &error)) fail_msg("%s", error.text);
    batch_clear(&f->b);
}

static void happen(struct fixture *f, struct pool_event event, int64_t now_us)
{
    event.seq = pool_last_seq(f->pool) + 1;
    event.version = POOL_CORE_VERSION;
    event.now_us = now_us > pool_now_us(f->pool) ? now_us : pool_now_us(f->pool);
    const char *trouble = pool_event_check(&event);
    if (trouble != NULL) fail_msg("%s", trouble);
    *(struct pool_event *)array_push(&f->b.events) = event;
    pool_step(f->pool, &event, &f->out);
    for (uint32_t i = 0; i < f->out.decision_count; i++)
        *(struct batch_decision *)array_push(&f->b.decisions) =
            (struct batch_decision){.decision = f->out.decisions[i], .t_us = event.now_us};
    for (uint32_t i = 0; i < f->out.entry_count; i++)
        *(struct ledger_entry *)array_push(&f->b.entries) = f->out.entries[i];
    if (f->world != NULL) world_obey(f->world, f->pool, &f->out, event.now_us);
    if (f->b.events.count > 500) commit(f);
}

/* Offer 1: spot at $1, lost twice an hour; offer 2: the same on demand at $3. */
static struct pool_event offer(uint64_t id, int64_t usd_micros, uint32_t capacity)
{
    struct pool_event event = {.kind = POOL_EVENT_OFFER_CHANGED};
    event.u.offer_changed.offer_id = id;
    event.u.offer_changed.usd_micros_per_hour = usd_micros;
    event.u.offer_changed.on_demand_usd_micros_per_hour = 3000000;
    event.u.offer_changed.provider = event.u.offer_changed.region = event.u.offer_changed.zone = 1;
    event.u.offer_changed.capacity = capacity;
    event.u.offer_changed.device_count = 1;
    event.u.offer_changed.stock_count = 8;
    return event;
}

static void submit(struct fixture *f, uint64_t id, int64_t now_us)
{
    struct pool_event event = {.kind = POOL_EVENT_JOB_SUBMITTED};
    event.u.job_submitted.job_id = id;
    event.u.job_submitted.spec_hash = id;
    event.u.job_submitted.devices_min = event.u.job_submitted.devices_max = 1;
    event.u.job_submitted.job_class = JOB_CLASS_P2;
    event.u.job_submitted.kind = JOB_KIND_BATCH;
    struct fact_job *job = array_push(&f->truth.jobs); /* ids grow */
    job->job_id = id;
    job->ncu_us = (double)(60 + id * 7) * 60e6; /* an hour and more on one NCU */
    job->ckpt_us = 5 * MINUTE_US;
    happen(f, event, now_us);
}

static void live_until(struct fixture *f, int64_t until_us)
{
    for (;;) {
        struct pool_event event = {.kind = POOL_EVENT_TICK};
        int64_t world_us = world_next_us(f->world), wake_us = pool_next_wake_us(f->pool);
        int64_t now_us = world_us < wake_us ? world_us : wake_us;
        if (now_us > until_us) return;
        if (world_us <= wake_us && world_next(f->world, now_us, &event))
            happen(f, event, now_us);
        else if (wake_us <= world_us)
            happen(f, (struct pool_event){.kind = POOL_EVENT_TICK}, wake_us);
    }
}

static void make_truth(struct fixture *f, const struct pool_config *config)
{
    struct facts *t = &f->truth;
    t->start.config = *config;
    t->from_us = START_US;
    t->to_us = START_US + DAY_US;
    array_init(&t->offers, sizeof(struct fact_offer));
    array_init(&t->jobs, sizeof(struct fact_job));
    array_init(&t->lives, sizeof(struct fact_life));
    array_init(&t->boots, sizeof(struct fact_boot));
    array_init(&t->starts, sizeof(int64_t));
    array_init(&t->stops, sizeof(int64_t));
    array_init(&t->releases, sizeof(int64_t));
    for (uint32_t i = 0; i < 3; i++) {
        struct fact_offer *row = array_push(&t->offers);
        *row = (struct fact_offer){.is_known = i > 0,
                                   .capacity = i == 1 ? CAPACITY_SPOT : CAPACITY_ON_DEMAND,
                                   .device_count = 1};
    }
    for (uint32_t i = 0; i < SURVIVAL_AGES; i++) {
        f->curves[1].per_hour[i] = 2;
        f->curves[1].hours[i] = 1e6; /* known for sure */
        f->curves[0].hours[i] = f->curves[2].hours[i] = 1e6;
        f->curves[0].per_hour[i] = f->curves[2].per_hour[i] = 1e-5;
    }
}

static void live_a_day(struct fixture *f)
{
    struct pool_event model = {.kind = POOL_EVENT_MODEL_DEFINED};
    model.u.model_defined.ncu_milli = 1000;
    model.u.model_defined.vram_mib = 40960;
    happen(f, model, START_US);
    struct pool_event buying = {.kind = POOL_EVENT_BUYING_DEFINED};
    buying.u.buying_defined.scope = BUYING_OF_CLASS;
    buying.u.buying_defined.index = JOB_CLASS_P2;
    buying.u.buying_defined.device_usd_micros_max = DEAREST_USD_MICROS;
    happen(f, buying, START_US);
    happen(f, offer(1, 1000000, CAPACITY_SPOT), START_US);
    happen(f, offer(2, 3000000, CAPACITY_ON_DEMAND), START_US);
    f->world = world_open(&f->truth, f->curves, 5, f->pool);
    assert_non_null(f->world);
    world_told(f->world, 1, 8);
    world_told(f->world, 2, 8);
    for (uint64_t id = 1; id <= JOBS; id++) {
        live_until(f, START_US + (int64_t)id * 45 * MINUTE_US);
        submit(f, id, START_US + (int64_t)id * 45 * MINUTE_US);
        struct pool_event priced = {.kind = POOL_EVENT_OFFERS_PRICED,
                                    .u.offers_priced = {.count = 1, .prices = {{1, 0}}}};
        priced.u.offers_priced.prices[0].usd_micros_per_hour = 900000 + (int64_t)id * 20000;
        happen(f, priced, START_US + (int64_t)id * 45 * MINUTE_US);
    }
    live_until(f, START_US + DAY_US);
    happen(f, (struct pool_event){.kind = POOL_EVENT_TICK}, START_US + DAY_US);
    commit(f);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct pool_config config;
    struct restored restored;
    test_dir_make(f->dir);
    (void)test_dir_path(f->dir, "journal.db", f->path);
    f->j = journal_open(&(struct journal_options){.path = f->path}, NULL);
    pool_config_default(&config);
    config.limits.jobs_max = 64;
    config.limits.nodes_max = 64;
    const struct restore_options options = {.journal = f->j, .config = &config};
    if (f->j == NULL || !restore_pool(&options, &restored, NULL)) return 1;
    f->pool = restored.pool;
    f->memory = restored.memory;
    batch_init(&f->b);
    f->names = names_open();
    make_truth(f, &config);
    live_a_day(f);
    const struct facts_options all = {.from_us = INT64_MIN, .to_us = INT64_MAX};
    *state = f;
    if (!facts_read(f->j, &all, &f->facts, &error)) return 1;
    f->learned = rerun_curves(&f->facts, f->j, &f->seen, &error);
    return f->learned == NULL;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    world_close(f->world);
    facts_free(&f->facts);
    facts_free(&f->truth);
    mem_free(f->learned);
    names_close(f->names);
    journal_close(f->j);
    batch_free(&f->b);
    mem_free(f->memory);
    test_dir_remove(f->dir);
    free(f);
    return 0;
}

static struct rerun_outcome run(struct fixture *f, const struct rerun_change *change, uint64_t seed)
{
    struct rerun_plan plan;
    struct rerun_outcome outcome = {.digest = 0};
    if (!rerun_prepare(&f->facts, change, f->names, &plan, &error) ||
        !rerun_run(&f->facts, change, &plan, f->learned, seed, &outcome, &error))
        fail_msg("%s", error.text);
    rerun_plan_free(&plan);
    return outcome;
}

static double mean(struct fixture *f, const struct rerun_change *change, enum rerun_sum kind)
{
    double sum = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rerun_outcome outcome = run(f, change, seed);
        sum += rerun_sum_of(&outcome.tally, kind) / SEEDS;
        tally_free(&outcome.tally);
    }
    return sum;
}

static const struct rerun_change as_recorded;

static void the_model_of_what_was_is_near_it(void **state)
{
    struct fixture *f = *state;
    double cost = rerun_sum_of(&f->facts.recorded, SUM_COST);
    assert_int_equal(rerun_sum_of(&f->facts.recorded, SUM_DONE), JOBS);
    for (uint64_t id = 1; id <= JOBS; id++) { /* the work that was put in is found again */
        double made = (double)(60 + id * 7), found = facts_job(&f->facts, id)->ncu_us / 60e6;
        if (fabs(found - made) > 0.05 * made) fail_msg("job %d: %g of %g", (int)id, found, made);
    }
    assert_true(rerun_sum_of(&f->facts.recorded, SUM_LOST) > 8);
    assert_true(f->seen.losses > 8);
    double modelled = mean(f, &as_recorded, SUM_COST);
    if (fabs(modelled - cost) > 0.05 * cost) fail_msg("modelled %g, recorded %g", modelled, cost);
    double lost = mean(f, &as_recorded, SUM_LOST);
    double was = rerun_sum_of(&f->facts.recorded, SUM_LOST);
    if (fabs(lost - was) > 0.25 * was) fail_msg("modelled %g losses, recorded %g", lost, was);
    assert_int_equal(mean(f, &as_recorded, SUM_DONE), JOBS);
    struct rerun_outcome outcome = run(f, &as_recorded, 1);
    double known = (double)outcome.fate.known_us, all = known + (double)outcome.fate.modelled_us;
    assert_true(known / all > 0.9); /* the same nodes, and their fates */
    tally_free(&outcome.tally);
}

static void the_same_seed_is_the_same_world(void **state)
{
    struct fixture *f = *state;
    const struct rerun_change change = {.forbidden_mask = 1U << CAPACITY_SPOT};
    struct rerun_outcome a = run(f, &change, 3), b = run(f, &change, 3);
    assert_true(a.digest == b.digest);
    assert_int_equal(a.tally.usd_micros, b.tally.usd_micros);
    tally_free(&a.tally);
    tally_free(&b.tally);
}

/* The work of the day at three dollars an hour, nothing lost. */
static void without_spot_nothing_is_lost_and_all_costs_more(void **state)
{
    struct fixture *f = *state;
    const struct rerun_change change = {.forbidden_mask = 1U << CAPACITY_SPOT};
    double hours = 0;
    for (uint32_t id = 1; id <= JOBS; id++) hours += (60 + id * 7) / 60.0;
    double cost = mean(f, &change, SUM_COST) / 1e6;
    if (cost < hours * 3 || cost > hours * 3 * 1.1) fail_msg("$%g for %g hours", cost, hours);
    assert_true(mean(f, &change, SUM_LOST) < 0.5);
    assert_true(mean(f, &change, SUM_WAITED) < mean(f, &as_recorded, SUM_WAITED));
}

static void prices_change_by_factor_and_by_file(void **state)
{
    struct fixture *f = *state;
    const struct rerun_change doubled = {.spot_factor = 2, .on_demand_factor = 2};
    double was = mean(f, &as_recorded, SUM_COST), is = mean(f, &doubled, SUM_COST);
    if (fabs(is - 2 * was) > 0.02 * was) fail_msg("%g instead of twice %g", is, was);
    uint32_t id;
    struct price_feed feed;
    assert_true(names_id(f->names, NAME_MODEL, "A10", &id) && id == 0);
    assert_true(names_id(f->names, ID_ZONE, "z/a", &id) && id == 1);
    static const char csv[] = "time,zone,type,price,capacity\n2023-11-01,z/a,A10,0.5,spot\n"
                              "2023-11-15T04:00:00Z,z/a,A10,0.5,spot\n2023-11-01,z/b,A10,9,spot\n";
    assert_true(price_feed_read(csv, strlen(csv), &feed, &error));
    const struct rerun_change filed = {.prices = &feed};
    struct rerun_plan plan;
    assert_true(rerun_prepare(&f->facts, &filed, f->names, &plan, &error));
    assert_int_equal(plan.priced_offers, 1);
    rerun_plan_free(&plan);
    double cheap = mean(f, &filed, SUM_COST);
    assert_true(cheap > 0.45 * was && cheap < 0.6 * was); /* spot was about a dollar */
    price_feed_close(&feed);
}

/* The recorded model comes after the beginning of the stretch, and must not take the new one back. */
static void a_device_of_another_catalog_is_as_fast_as_it_says(void **state)
{
    struct fixture *f = *state;
    struct array definitions;
    array_init(&definitions, sizeof(struct pool_event));
    struct pool_event *model = array_push(&definitions);
    *model = (struct pool_event){.kind = POOL_EVENT_MODEL_DEFINED, .version = POOL_CORE_VERSION};
    model->u.model_defined.ncu_milli = 2000;
    model->u.model_defined.vram_mib = 40960;
    const struct rerun_change twice = {.definitions = &definitions};
    double was = mean(f, &as_recorded, SUM_COST), is = mean(f, &twice, SUM_COST);
    if (is < 0.45 * was || is > 0.65 * was) fail_msg("%g at twice the speed, %g before", is, was);
    array_free(&definitions);
}

/* Spot above the price of on-demand is not bought. */
static void dear_spot_is_left_alone(void **state)
{
    struct fixture *f = *state;
    const struct rerun_change dear = {.spot_factor = 4};
    assert_true(mean(f, &dear, SUM_LOST) < 1.5);
}

static void jobs_that_allow_only_the_forbidden_keep_it(void **state)
{
    struct fixture *f = *state;
    struct fact_event *row = NULL;
    for (uint32_t i = 0; i < f->facts.events.count && row == NULL; i++) {
        row = array_at(&f->facts.events, i);
        if (row->event.kind != POOL_EVENT_JOB_SUBMITTED) row = NULL;
    }
    assert_non_null(row);
    row->event.u.job_submitted.capacity_mask = 1U << CAPACITY_SPOT;
    const struct rerun_change change = {.forbidden_mask = 1U << CAPACITY_SPOT};
    struct rerun_plan plan;
    assert_true(rerun_prepare(&f->facts, &change, f->names, &plan, &error));
    assert_int_equal(plan.kept_jobs, 1);
    rerun_plan_free(&plan);
    row->event.u.job_submitted.capacity_mask = 0;
}

/* Another policy is another policy: what a device may cost at most stays as it was recorded. */
static void a_policy_leaves_the_limits_of_buying_alone(void **state)
{
    struct fixture *f = *state;
    static const uint32_t policies[] = {0, BUYING_TABLE, BUYING_GREEDY};
    for (uint32_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        const struct rerun_change dear = {.buying = policies[i],
                                          .forbidden_mask = 1U << CAPACITY_SPOT,
                                          .on_demand_factor = 8}; /* $24 */
        assert_int_equal(mean(f, &dear, SUM_DONE), 0);
        const struct rerun_change fair = {.buying = policies[i],
                                          .forbidden_mask = 1U << CAPACITY_SPOT};
        assert_int_equal(mean(f, &fair, SUM_DONE), JOBS);
    }
}

/* Nor those that another file defines. */
static void a_policy_leaves_the_limits_of_a_file_alone(void **state)
{
    struct fixture *f = *state;
    struct array definitions;
    array_init(&definitions, sizeof(struct pool_event));
    struct pool_event *rule = array_push(&definitions);
    *rule = (struct pool_event){.kind = POOL_EVENT_BUYING_DEFINED, .version = POOL_CORE_VERSION};
    rule->u.buying_defined.scope = BUYING_OF_CLASS;
    rule->u.buying_defined.index = JOB_CLASS_P2;
    rule->u.buying_defined.device_usd_micros_max = 2000000;
    const struct rerun_change change = {.definitions = &definitions,
                                        .buying = BUYING_GREEDY,
                                        .forbidden_mask = 1U << CAPACITY_SPOT};
    assert_int_equal(mean(f, &change, SUM_DONE), 0);
    array_free(&definitions);
}

static void a_policy_leaves_what_was_defined_before(struct fixture *f)
{
    struct rerun_change dear = {.forbidden_mask = 1U << CAPACITY_SPOT, .on_demand_factor = 8};
    double nothing_new = mean(f, &dear, SUM_DONE);
    dear.buying = BUYING_GREEDY;
    assert_true(mean(f, &dear, SUM_DONE) == nothing_new);
    dear.on_demand_factor = 1;
    assert_true(mean(f, &dear, SUM_DONE) > nothing_new);
}

/* The pool of noon, with its nodes and jobs. */
static void a_stretch_begins_with_what_was_there(void **state)
{
    struct fixture *f = *state;
    const struct facts_options afternoon = {.from_us = START_US + 6 * 60 * MINUTE_US,
                                            .to_us = START_US + 20 * 60 * MINUTE_US};
    struct facts facts = f->facts; /* kept */
    struct survival_curve *learned = f->learned;
    assert_true(facts_read(f->j, &afternoon, &f->facts, &error));
    assert_true(f->facts.from_us >= afternoon.from_us && f->facts.to_us <= afternoon.to_us);
    f->learned = rerun_curves(&f->facts, f->j, &f->seen, &error);
    assert_non_null(f->learned);
    double cost = rerun_sum_of(&f->facts.recorded, SUM_COST);
    double modelled = mean(f, &as_recorded, SUM_COST);
    assert_true(cost > 0);
    if (fabs(modelled - cost) > 0.1 * cost) fail_msg("modelled %g, recorded %g", modelled, cost);
    a_policy_leaves_what_was_defined_before(f);
    mem_free(f->learned);
    facts_free(&f->facts);
    f->facts = facts;
    f->learned = learned;
    const struct facts_options never = {.from_us = START_US + 2 * DAY_US, .to_us = INT64_MAX};
    struct facts none;
    assert_false(facts_read(f->j, &never, &none, &error));
    assert_string_equal(error.text, "no event of the journal lies in this stretch of time");
    facts_free(&none);
}

static void without_memory_a_sentence(void **state)
{
    struct fixture *f = *state;
    const struct facts_options all = {.from_us = INT64_MIN, .to_us = INT64_MAX};
    uint32_t failures = 0;
    for (uint64_t nth = 1; nth < 40; nth += nth < 20 ? 1 : 7) {
        struct facts facts;
        struct rerun_plan plan = {.events = {0}};
        struct rerun_outcome outcome = {.digest = 0};
        error.text[0] = '\0';
        mem_fail_at(nth);
        bool ok = facts_read(f->j, &all, &facts, &error);
        mem_fail_at(0);
        if (!ok) assert_string_not_equal(error.text, "");
        failures += !ok;
        facts_free(&facts);
        mem_fail_at(nth);
        ok = rerun_prepare(&f->facts, &as_recorded, f->names, &plan, &error) &&
             rerun_run(&f->facts, &as_recorded, &plan, f->learned, 1, &outcome, &error);
        mem_fail_at(0);
        if (!ok) assert_string_not_equal(error.text, "");
        failures += !ok;
        tally_free(&outcome.tally);
        rerun_plan_free(&plan);
    }
    assert_true(failures > 30);
}

static void spreads_hold_nine_of_ten(void **state)
{
    (void)state;
    double values[100];
    for (int i = 0; i < 100; i++) values[i] = (i * 37) % 100;
    struct rerun_spread s = rerun_spread_of(values, 100);
    assert_true(fabs(s.mean - 49.5) < 1e-9);
    assert_true(s.low == 4 && s.high == 95);
    assert_true(rerun_spread_of(values, 0).mean == 0);
    assert_true(rerun_spread_of(values, 1).high == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_of_what_was_is_near_it),
        cmocka_unit_test(the_same_seed_is_the_same_world),
        cmocka_unit_test(without_spot_nothing_is_lost_and_all_costs_more),
        cmocka_unit_test(prices_change_by_factor_and_by_file),
        cmocka_unit_test(a_device_of_another_catalog_is_as_fast_as_it_says),
        cmocka_unit_test(dear_spot_is_left_alone),
        cmocka_unit_test(jobs_that_allow_only_the_forbidden_keep_it),
        cmocka_unit_test(a_policy_leaves_the_limits_of_buying_alone),
        cmocka_unit_test(a_policy_leaves_the_limits_of_a_file_alone),
        cmocka_unit_test(a_stretch_begins_with_what_was_there),
        cmocka_unit_test(without_memory_a_sentence),
        cmocka_unit_test(spreads_hold_nine_of_ten),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
