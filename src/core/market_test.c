/* The market moves, and jobs that run move with it: no more than it is worth. The rows of the table Churn
 * in docs/scheduling.md that are about buying are proven here. */
#include "core/limits.h"
#include "core/testing.h"

enum { GPU };
#define MINUTE_US INT64_C(60000000)

static const struct test_offer cheap = {1, 1, GPU, CAPACITY_SPOT, 1, 3, 1 * USD, 4 * USD};
static const struct test_offer dearer = {2, 1, GPU, CAPACITY_SPOT, 1, 2, 3 * USD / 2, 4 * USD};
static const struct test_offer reserved = {3, 1, GPU, CAPACITY_RESERVED, 1, 8, 3 * USD, 4 * USD};
static const struct test_offer on_demand = {4, 1, GPU, CAPACITY_ON_DEMAND, 1, 8, 4 * USD, 4 * USD};

static void open_with(struct bench *b, const struct test_offer *offers, uint32_t count)
{
    bench_open(b, NULL);
    bench_model(b, GPU, 1000, 80, 1);
    for (uint32_t i = 0; i < count; i++) bench_offer(b, offers[i]);
}

static void tell(struct bench *b, struct test_offer offer, int64_t price, uint32_t stock,
                 uint32_t hazard_ppm)
{
    bench_step(
        b, (struct pool_event){.kind = POOL_EVENT_OFFER_CHANGED,
                               .u.offer_changed = {.offer_id = offer.id,
                                                   .usd_micros_per_hour = price,
                                                   .on_demand_usd_micros_per_hour = offer.on_demand,
                                                   .provider = 1,
                                                   .region = offer.region,
                                                   .zone = 1,
                                                   .model = offer.model,
                                                   .capacity = offer.capacity,
                                                   .device_count = offer.devices,
                                                   .stock_count = stock,
                                                   .hazard_ppm = hazard_ppm}});
}

static uint32_t held_at(const struct bench *b, uint64_t offer_id)
{
    struct node_view node;
    uint32_t count = 0;
    for (uint32_t i = 0; i < pool_nodes_end(b->p); i++)
        count +=
            pool_node_at(b->p, i, &node) && node.offer_id == offer_id && node.state <= NODE_READY;
    return count;
}

static uint32_t orders(const struct bench *b)
{
    return bench_count(b, POOL_COMMAND_ENSURE_NODE);
}

/* Counts per offer, not one mode for the job: all there is of the cheapest, then of the next. */
static void an_elastic_job_takes_of_several_offers_at_once(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){on_demand, dearer, cheap}, 3);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 6});
    assert_int_equal(held_at(&b, cheap.id), 3);
    assert_int_equal(held_at(&b, dearer.id), 2);
    assert_int_equal(held_at(&b, on_demand.id), 1);
    bench_close(&b);
}

/* What is reserved is the baseline: taken before any purchase, so it is on demand that spot is returned to
 * from. */
static void spot_above_on_demand_fails_over_to_on_demand_and_returns(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){on_demand, cheap}, 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    bench_raise(&b);
    tell(&b, cheap, 5 * USD, 3, 0);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_PRICE_ABOVE_THRESHOLD], 1);
    assert_int_equal(held_at(&b, on_demand.id), 1); /* before the loss, not after it */
    bench_raise(&b);
    bench_live(&b, 5 * MINUTE_US);
    assert_int_equal(held_at(&b, cheap.id), 0);
    tell(&b, cheap, 1 * USD, 3, 0);
    bench_live(&b, 2 * MINUTE_US);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_CHEAPER_SPOT], 1);
    assert_int_equal(held_at(&b, cheap.id), 1);
    assert_int_equal(b.said[DECISION_BUY][REASON_FALLBACK], 1);
    bench_close(&b);
}

/* Owned and reserved before spot, however cheap that is, and nobody leaves them for it; what they do not
 * give is bought, the cheapest first. */
static void the_baseline_comes_before_cheaper_spot(void **state)
{
    struct bench b;
    (void)state;
    struct test_offer owned = reserved;
    owned.id = 5;
    owned.capacity = CAPACITY_OWNED;
    owned.stock = 2;
    struct test_offer few = reserved;
    few.stock = 2;
    open_with(&b, (struct test_offer[]){on_demand, few, cheap, owned}, 4);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 4});
    assert_int_equal(held_at(&b, owned.id), 2);
    assert_int_equal(held_at(&b, few.id), 2);
    bench_raise(&b);
    bench_live(&b, 10 * MINUTE_US);
    assert_int_equal(held_at(&b, owned.id) + held_at(&b, few.id), 4);
    bench_submit(&b, (struct test_job){.id = 2, .min = 2, .max = 4});
    assert_int_equal(held_at(&b, cheap.id), 3);
    assert_int_equal(held_at(&b, on_demand.id), 1);
    bench_close(&b);
}

/* In another region too; and a job that could not pay for the baseline starts without it. */
static void the_baseline_is_gone_to_and_paid_for_within_the_budget(void **state)
{
    struct bench b;
    (void)state;
    struct test_offer far = reserved;
    far.region = 2;
    far.stock = 4;
    open_with(&b, (struct test_offer[]){cheap, far}, 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 2});
    assert_int_equal(held_at(&b, far.id), 2);
    bench_submit(&b, (struct test_job){.id = 2, .min = 2, .max = 2, .budget_per_hour = 4 * USD});
    assert_int_equal(held_at(&b, far.id), 2);
    assert_int_equal(held_at(&b, cheap.id), 2);
    bench_close(&b);
}

static void define_quota(struct bench *b, int64_t ncu_milli)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_ACCOUNT_DEFINED,
                                      .u.account_defined = {.names = {1},
                                                            .quota_milli = {ncu_milli, -1},
                                                            .borrow_milli = {-1, -1},
                                                            .lend_milli = {-1, -1}}});
}

/* Who lost its nodes goes where there is more of it, and is told so: dollars are no reason there. */
static void who_changes_region_for_the_baseline_is_told_so(void **state)
{
    struct bench b;
    uint64_t key;
    (void)state;
    struct test_offer home = reserved, far = reserved;
    home.id = 5;
    home.price = 1 * USD;
    home.stock = far.stock = 2;
    far.region = 2;
    open_with(&b, (struct test_offer[]){home, far, cheap}, 3);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 2, .job_class = JOB_CLASS_P2});
    bench_raise(&b);
    assert_int_equal(held_at(&b, home.id), 2);
    define_quota(&b, 1000); /* too little to start again at once */
    home.stock = 0;
    bench_offer(&b, home);
    while (bench_nodes(&b, NODE_READY, &key) > 0)
        bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_CRASHED, 0, -1);
    assert_int_equal(bench_job_state(&b, 1), JOB_QUEUED);
    define_quota(&b, -1);
    while (pool_next_wake_us(b.p) <= b.now_us && held_at(&b, far.id) == 0) bench_tick(&b);
    const struct pool_decision *d = bench_decision(&b, DECISION_PLACE, REASON_REGION_BASELINE);
    assert_non_null(d);
    assert_int_equal(d->a, 2);
    assert_int_equal(d->b, 0);
    assert_int_equal(d->c, 2);
    assert_int_equal(b.said[DECISION_PLACE][REASON_REGION_CHEAPER], 0);
    assert_int_equal(held_at(&b, far.id), 2);
    bench_close(&b);
}

/* P0 does not burst: it recalls the baseline that is lent, and leaves what could be bought alone. Where that
 * is not enough it is bought for, unless a gate forbids it. */
static void p0_is_put_on_the_baseline(void **state)
{
    struct bench b;
    (void)state;
    struct test_offer few = reserved;
    few.stock = 2;
    open_with(&b, (struct test_offer[]){few, cheap}, 2);
    bench_strict_classes(&b);
    bench_submit(&b, (struct test_job){.id = 1,
                                       .min = 1,
                                       .max = 2,
                                       .job_class = JOB_CLASS_P2,
                                       .capacity_mask = 1U << CAPACITY_RESERVED});
    bench_raise(&b);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1, .job_class = JOB_CLASS_P0});
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_SHRUNK_FOR], 1);
    assert_int_equal(held_at(&b, cheap.id), 0);
    bench_submit(&b, (struct test_job){.id = 3, .min = 3, .max = 3, .job_class = JOB_CLASS_P0});
    assert_int_equal(held_at(&b, cheap.id), 3);
    bench_submit(&b, (struct test_job){.id = 4, .min = 1, .max = 1, .job_class = JOB_CLASS_P1});
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTED_FOR], 1); /* no spot is left */
    bench_close(&b);
}

/* Where there is no baseline it takes of lower classes what is bought, like the others. */
static void p0_takes_what_is_bought_where_that_is_all(void **state)
{
    struct bench b;
    (void)state;
    struct test_offer few = on_demand;
    few.stock = 1;
    open_with(&b, (struct test_offer[]){few}, 1);
    bench_strict_classes(&b);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1, .job_class = JOB_CLASS_P2});
    bench_raise(&b);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1, .job_class = JOB_CLASS_P0});
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTED_FOR], 1);
    struct lease_view lease;
    assert_true(bench_lease(&b, 1, 0, &lease));
    bench_worker(&b, lease.node_key, 1, lease.worker_id, WORKER_PHASE_STOPPED, 1);
    bench_live(&b, MINUTE_US);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    bench_close(&b);
}

/* Six hours of a price that crosses the threshold every other minute, and four nodes: every command that
 * has to do with nodes and workers, less than four for each node-hour. */
static void a_price_that_wavers_costs_few_commands(void **state)
{
    struct bench b;
    (void)state;
    struct test_offer many = cheap;
    many.stock = 8;
    open_with(&b, (struct test_offer[]){on_demand, many}, 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 4, .max = 4, .threshold_ppm = 500000});
    bench_raise(&b);
    bench_live(&b, MINUTE_US);
    uint32_t before = b.said[DECISION_BUY][REASON_FALLBACK] + b.said[DECISION_BUY][REASON_CHEAPEST];
    for (uint32_t minute = 0; minute < 360; minute++) {
        int64_t price = minute % 2 == 0 ? 21 * USD / 10 : 19 * USD / 10;
        tell(&b, many, price, 8, 0);
        bench_raise(&b);
        bench_live(&b, MINUTE_US);
    }
    uint32_t after = b.said[DECISION_BUY][REASON_FALLBACK] + b.said[DECISION_BUY][REASON_CHEAPEST];
    assert_int_equal(held_at(&b, many.id) + held_at(&b, on_demand.id), 4);
    assert_true(after - before >= 4);     /* it moved once */
    assert_true(after - before <= 6 * 4); /* at most once an hour for each node */
    bench_close(&b);
}

/* The same when it falls far enough each time that going back is worth it: a node is held for a minute at
 * least, so an hour sees at most sixty moves, however fast the price moves. */
static void a_price_that_swings_is_followed_at_most_once_a_minute(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){on_demand, cheap}, 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1, .threshold_ppm = 500000});
    bench_raise(&b);
    for (uint32_t swing = 0; swing < 720; swing++) { /* an hour, every five seconds */
        tell(&b, cheap, swing % 2 == 0 ? 3 * USD : 1 * USD, 3, 0);
        bench_raise(&b);
        bench_live(&b, 5 * SECOND_US);
    }
    assert_true(b.said[DECISION_BUY][REASON_FALLBACK] <= 60);
    assert_true(b.said[DECISION_DRAIN][REASON_CHEAPER_SPOT] <= 60);
    assert_true(b.said[DECISION_BUY][REASON_FALLBACK] > 0);
    bench_close(&b);
}

/* A provider that says it will take many of its nodes is left before it does, one node at a time. */
static void spot_said_to_be_taken_soon_is_left_before(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){cheap, dearer}, 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 2});
    bench_raise(&b);
    bench_live(&b, 2 * MINUTE_US);
    assert_int_equal(held_at(&b, cheap.id), 2);
    tell(&b, cheap, cheap.price, 3, 15000000); /* fifteen an hour: one every four minutes */
    assert_int_equal(b.said[DECISION_DRAIN][REASON_HAZARD_TOLD], 1);
    assert_int_equal(held_at(&b, cheap.id), 1);
    assert_int_equal(held_at(&b, dearer.id), 1); /* its place is taken before it goes */
    bench_raise(&b);
    bench_live(&b, 5 * MINUTE_US);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_HAZARD_TOLD], 2);
    assert_int_equal(held_at(&b, dearer.id), 2);
    bench_raise(&b);
    bench_live(&b, 60 * MINUTE_US);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_HAZARD_TOLD], 2); /* and stays away */
    bench_close(&b);
}

/* Nobody knows whether an offer that refused has capacity again: who can do without asks for one. */
static void an_offer_that_refused_is_asked_for_one_node_first(void **state)
{
    struct bench b;
    (void)state;
    struct test_offer wide = cheap;
    wide.stock = 20;
    open_with(&b, (struct test_offer[]){wide, on_demand}, 2);
    bench_submit(
        &b, (struct test_job){.id = 1, .min = 1, .max = 12, .capacity_mask = 1 << CAPACITY_SPOT});
    uint64_t keys[16] = {0};
    uint32_t count = orders(&b);
    assert_int_equal(count, 12);
    for (uint32_t i = 0; i < count; i++)
        keys[i] = bench_command(&b, POOL_COMMAND_ENSURE_NODE, i)->node_key;
    bench_node(&b, keys[0], NODE_PHASE_UP);
    bench_agent(&b, keys[0]);
    for (uint32_t i = 1; i < count; i++)
        bench_node_full(&b, keys[i], NODE_PHASE_REFUSED, NODE_REASON_STOCKOUT, 0,
                        TEST_NEVER_BILLED);
    for (uint32_t second = 0; second < 120 && held_at(&b, wide.id) == 1; second++) {
        bench_agent(&b, keys[0]);
        bench_advance(&b, SECOND_US);
    }
    uint64_t probe;
    assert_int_equal(held_at(&b, wide.id), 2);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, &probe), 1);
    bench_live(&b, 10 * SECOND_US);
    assert_int_equal(held_at(&b, wide.id), 2); /* it has not answered yet */
    bench_node(&b, probe, NODE_PHASE_UP);
    bench_agent(&b, probe);
    assert_int_equal(held_at(&b, wide.id), 2 + wide.stock - 13); /* it has: all the rest at once */
    bench_close(&b);
}

static void define_buying(struct bench *b, uint32_t scope, uint32_t index, uint32_t threshold_ppm,
                          int64_t max)
{
    bench_step(b, (struct pool_event){
                      .kind = POOL_EVENT_BUYING_DEFINED,
                      .u.buying_defined = {scope, index, BUYING_TABLE, threshold_ppm, max}});
}

/* Nothing dearer is bought, which is said with both prices; a price that falls to it is. */
static void nothing_is_bought_above_the_most_a_class_or_pool_pays(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){dearer, on_demand}, 2);
    define_buying(&b, BUYING_OF_CLASS, JOB_CLASS_P0, 0, dearer.price - 1);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    const struct pool_decision *waits = bench_decision(&b, DECISION_WAIT, REASON_WAIT_MAX_PRICE);
    assert_non_null(waits);
    assert_int_equal(waits->a, dearer.price);
    assert_int_equal(waits->b, dearer.price - 1);
    tell(&b, dearer, dearer.price - 1, 2, 0);
    assert_int_equal(held_at(&b, dearer.id), 1);
    bench_step(&b, (struct pool_event){.kind = POOL_EVENT_POOL_DEFINED,
                                       .u.pool_defined = {.pool = 1, .hardware_mask = 1}});
    define_buying(&b, BUYING_OF_POOL, 1, 0, dearer.price / 2); /* the lower of the two */
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1, .pool_mask = 2});
    assert_non_null(bench_decision(&b, DECISION_WAIT, REASON_WAIT_MAX_PRICE));
    bench_close(&b);
}

static void bid(struct bench *b, uint32_t scope, uint32_t index, int64_t bid)
{
    bench_step(b, (struct pool_event){
                      .kind = POOL_EVENT_BUYING_DEFINED,
                      .u.buying_defined = {.scope = scope, .index = index, .bid_usd_micros = bid}});
}

/* Spot is asked for at the lowest bid of its class and pools, which the command carries for all devices of
 * the node; on demand has none. Above the bid spot is not asked for, and left before it is taken; it is
 * asked for again when clearly below. */
static void spot_is_asked_for_at_a_bid_and_left_above_it(void **state)
{
    static const struct test_offer two = {1, 1, GPU, CAPACITY_SPOT, 2, 3, 2 * USD, 8 * USD};
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){two, on_demand}, 2);
    bench_step(&b, (struct pool_event){.kind = POOL_EVENT_POOL_DEFINED,
                                       .u.pool_defined = {.pool = 1, .hardware_mask = 1}});
    bid(&b, BUYING_OF_CLASS, JOB_CLASS_P0, 2 * USD);
    bid(&b, BUYING_OF_POOL, 1, 3 * USD / 2);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 2, .pool_mask = 2});
    const struct pool_command *asks = bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0);
    assert_int_equal(asks->offer_id, two.id);
    assert_int_equal(asks->bid_usd_micros, 3 * USD);
    bench_raise(&b);
    tell(&b, two, 3 * USD, 2, 0); /* at the bid: stays */
    assert_int_equal(b.said[DECISION_DRAIN][REASON_PRICE_ABOVE_BID], 0);
    tell(&b, two, 3 * USD + 2, 2, 0);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_PRICE_ABOVE_BID], 1);
    asks = bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0);
    assert_int_equal(asks->offer_id, on_demand.id); /* instead */
    assert_int_equal(asks->bid_usd_micros, 0);
    tell(&b, two, 3 * USD, 3, 0);
    bench_submit(
        &b, (struct test_job){
                .id = 2, .min = 2, .max = 2, .pool_mask = 2, .capacity_mask = 1U << CAPACITY_SPOT});
    assert_int_equal(held_at(&b, two.id), 0); /* a price that wavers around the bid */
    tell(&b, two, 2 * USD, 3, 0);
    assert_true(held_at(&b, two.id) > 0);
    bench_close(&b);
}

/* What keeps a job from spot that costs more than its bid is said with both. */
static void a_bid_below_the_price_is_said(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){cheap}, 1);
    bid(&b, BUYING_OF_CLASS, JOB_CLASS_P0, cheap.price - 1);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    const struct pool_decision *waits = bench_decision(&b, DECISION_WAIT, REASON_WAIT_MAX_PRICE);
    assert_non_null(waits);
    assert_int_equal(waits->a, cheap.price);
    assert_int_equal(waits->b, cheap.price - 1);
    bid(&b, BUYING_OF_CLASS, JOB_CLASS_P0, cheap.price);
    assert_int_equal(held_at(&b, cheap.id), 1);
    bench_close(&b);
}

/* The threshold of a class drains what its jobs hold, unless they brought their own. */
static void a_class_has_a_threshold_of_its_own(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){cheap, on_demand}, 2);
    define_buying(&b, BUYING_OF_CLASS, JOB_CLASS_P0, 500000, 0);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1, .threshold_ppm = 900000});
    bench_raise(&b);
    tell(&b, cheap, 3 * USD, 3, 0);
    assert_int_equal(b.said[DECISION_DRAIN][REASON_PRICE_ABOVE_THRESHOLD], 1);
    assert_int_equal(held_at(&b, cheap.id), 1);
    bench_close(&b);
}

static void rank(struct bench *b, uint32_t state, uint64_t offer_id, uint32_t factor_ppm)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_OFFERS_RANKED,
                                      .u.offers_ranked = {.count = offer_id != 0,
                                                          .state = state,
                                                          .ranks = {{offer_id, factor_ppm, 0}}}});
}

/* What the site says an offer counts as decides, and is said; without its word the built-in does again. */
static void the_sites_ranking_decides_until_it_is_gone(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){cheap, dearer}, 2);
    rank(&b, RANKING_OWN, dearer.id, 100000);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    const struct pool_decision *bought = bench_decision(&b, DECISION_BUY, REASON_RANKED);
    assert_non_null(bought);
    assert_int_equal(bought->offer_id, dearer.id);
    assert_int_equal(bought->a, dearer.price);
    assert_int_equal(bought->b, dearer.price / 10);
    rank(&b, RANKING_LATE, 0, 0);
    rank(&b, RANKING_LATE, 0, 0);
    assert_int_equal(b.said[DECISION_DISTRUST][REASON_RANKING_LATE], 1); /* once */
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1});
    bought = bench_decision(&b, DECISION_BUY, REASON_UNRANKED);
    assert_non_null(bought);
    assert_int_equal(bought->offer_id, cheap.id);
    rank(&b, RANKING_BUILT_IN, 0, 0);
    bench_submit(&b, (struct test_job){.id = 3, .min = 1, .max = 1});
    assert_non_null(bench_decision(&b, DECISION_BUY, REASON_CHEAPEST));
    bench_close(&b);
}

/* The provider has taken the order from the stock that it tells, but not answered yet: until it does the
 * order counts as taken, and no longer, although no stock is told again. */
static void an_order_is_taken_from_the_stock_once(void **state)
{
    struct bench b;
    (void)state;
    struct test_offer few = cheap;
    few.stock = 2;
    open_with(&b, &few, 1);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    few.stock = 1;
    bench_offer(&b, few);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1});
    assert_int_equal(held_at(&b, few.id), 1);
    uint64_t key;
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, &key), 1);
    bench_node(&b, key, NODE_PHASE_UP);
    assert_int_equal(held_at(&b, few.id), 2);
    bench_submit(&b, (struct test_job){.id = 3, .min = 1, .max = 1});
    bench_raise(&b); /* not in what was told: it stays taken */
    assert_int_equal(held_at(&b, few.id), 2);
    bench_close(&b);
}

/* Where a learned ranking knows nothing like it, the built-in one decides, and that is said. */
static void what_is_outside_of_a_learned_ranking_counts_as_built_in(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, (struct test_offer[]){cheap, dearer}, 2);
    rank(&b, RANKING_OWN, cheap.id, RANK_OUTSIDE);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    const struct pool_decision *bought = bench_decision(&b, DECISION_BUY, REASON_RANK_OUTSIDE);
    assert_non_null(bought);
    assert_int_equal(bought->offer_id, cheap.id);
    assert_int_equal(bought->a, cheap.price);
    rank(&b, RANKING_OWN, dearer.id, RANK_PPM_MIN);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1});
    bought = bench_decision(&b, DECISION_BUY, REASON_RANKED);
    assert_non_null(bought);
    assert_int_equal(bought->offer_id, dearer.id);
    struct pool_event event = {.kind = POOL_EVENT_OFFERS_RANKED,
                               .version = POOL_CORE_VERSION,
                               .u.offers_ranked = {.count = 1,
                                                   .state = RANKING_OWN,
                                                   .ranks = {{cheap.id, RANK_OUTSIDE + 1, 0}}}};
    assert_non_null(pool_event_check(&event));
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_elastic_job_takes_of_several_offers_at_once),
        cmocka_unit_test(spot_above_on_demand_fails_over_to_on_demand_and_returns),
        cmocka_unit_test(the_baseline_comes_before_cheaper_spot),
        cmocka_unit_test(the_baseline_is_gone_to_and_paid_for_within_the_budget),
        cmocka_unit_test(who_changes_region_for_the_baseline_is_told_so),
        cmocka_unit_test(p0_is_put_on_the_baseline),
        cmocka_unit_test(p0_takes_what_is_bought_where_that_is_all),
        cmocka_unit_test(a_price_that_wavers_costs_few_commands),
        cmocka_unit_test(a_price_that_swings_is_followed_at_most_once_a_minute),
        cmocka_unit_test(spot_said_to_be_taken_soon_is_left_before),
        cmocka_unit_test(an_offer_that_refused_is_asked_for_one_node_first),
        cmocka_unit_test(nothing_is_bought_above_the_most_a_class_or_pool_pays),
        cmocka_unit_test(spot_is_asked_for_at_a_bid_and_left_above_it),
        cmocka_unit_test(a_bid_below_the_price_is_said),
        cmocka_unit_test(a_class_has_a_threshold_of_its_own),
        cmocka_unit_test(the_sites_ranking_decides_until_it_is_gone),
        cmocka_unit_test(an_order_is_taken_from_the_stock_once),
        cmocka_unit_test(what_is_outside_of_a_learned_ranking_counts_as_built_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
