/* Accounts: the algebra of quotas against its definition, shares, limits, and the stories D3, D4. */
#include "core/job.h"
#include "core/quota.h"
#include "core/quote.h"
#include "core/share.h"
#include "core/testing.h"

enum { T4, A100, CPU, T4_NCU = 200, A100_NCU = 1600, CPU_NCU = 50 };

static struct pool_event account_event(uint32_t tenant, uint32_t project, int64_t quota)
{
    return (struct pool_event){.kind = POOL_EVENT_ACCOUNT_DEFINED,
                               .u.account_defined = {.names = {tenant, project},
                                                     .quota_milli = {quota, -1},
                                                     .borrow_milli = {-1, -1},
                                                     .lend_milli = {-1, -1}}};
}

static void open_pool(struct bench *b)
{
    bench_open(b, NULL);
    bench_model(b, T4, T4_NCU, 16, 9);
    bench_model(b, A100, A100_NCU, 80, 3);
    bench_model(b, CPU, CPU_NCU, 0, 4);
    bench_step(b, (struct pool_event){
                      .kind = POOL_EVENT_QUOTA_MODEL_DEFINED,
                      .u.quota_model_defined = {.model = CPU, .kind = 1, .weight_milli = 1000}});
    for (uint32_t model = T4; model <= CPU; model++)
        bench_offer(b, (struct test_offer){.id = 1 + model,
                                           .region = 1,
                                           .model = model,
                                           .capacity = CAPACITY_OWNED,
                                           .devices = 1,
                                           .stock = 60,
                                           .price = USD * (1 + model)});
}

static void submit(struct bench *b, uint64_t id, uint32_t tenant, uint32_t project,
                   uint64_t capabilities, uint32_t min, uint32_t max)
{
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                                      .u.job_submitted = {.job_id = id,
                                                          .spec_hash = id,
                                                          .capability_mask = capabilities,
                                                          .devices_min = min,
                                                          .devices_max = max,
                                                          .tenant = tenant,
                                                          .project = project,
                                                          .job_class = JOB_CLASS_P2,
                                                          .kind = JOB_KIND_ELASTIC}});
    while (pool_next_wake_us(b->p) <= b->now_us) bench_tick(b);
}

static uint32_t job_slot(const struct bench *b, uint64_t id)
{
    uint32_t slot = table_find(&b->p->job_table, id);
    assert_int_not_equal(slot, SLOT_NONE);
    return slot;
}

static uint32_t account_of(const struct bench *b, uint32_t tenant, uint32_t project)
{
    return quota_find(b->p, (const uint32_t[ACCOUNT_LEVELS]){tenant, project});
}

static uint32_t devices_of(const struct bench *b, uint64_t id)
{
    return job_holding(b->p, job_slot(b, id)).device_count;
}

/* D4: of two teams of equal weight one borrows 20 T4, the other 20 A100: the second has taken
 * eight times as much, so what a third team is due comes from it. */
static void victims_come_from_who_borrows_most_ncu(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    for (uint32_t team = 1; team <= 3; team++)
        bench_step(&b, account_event(1, team, team == 3 ? 36000 : 0));
    submit(&b, 1, 1, 1, 8, 20, 20); /* T4: no other model has that capability */
    submit(&b, 2, 1, 2, 2, 20, 20); /* A100, likewise */
    submit(&b, 3, 1, 3, 1, 1, 1);
    int64_t x = quota_borrowed(b.p, account_of(&b, 1, 1), 0);
    int64_t y = quota_borrowed(b.p, account_of(&b, 1, 2), 0);
    assert_int_equal(y, 32000);
    assert_int_equal(x, 4000);
    assert_int_equal(quota_victim_rank(b.p, job_slot(&b, 3), job_slot(&b, 1), 0, 1), x);
    assert_int_equal(quota_victim_rank(b.p, job_slot(&b, 3), job_slot(&b, 2), 0, 1), y);
    assert_int_equal(quota_victim_rank(b.p, job_slot(&b, 3), job_slot(&b, 2), 1, 1), 0);
    bench_close(&b);
}

/* D3: over its quota of CPUs, under that of accelerators, which are lent out: it gets these back. */
static void only_the_kind_that_lacks_is_reclaimed(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    struct pool_event mine = account_event(1, 0, 16000), theirs = account_event(2, 0, 0);
    mine.u.account_defined.quota_milli[1] = 0;
    theirs.u.account_defined.quota_milli[1] = 500;
    bench_step(&b, mine);
    bench_step(&b, theirs);
    submit(&b, 1, 1, 0, 4, 10, 10); /* ten CPUs: all borrowed */
    submit(&b, 2, 2, 0, 2, 5, 10);  /* ten A100: all borrowed */
    assert_int_equal(devices_of(&b, 1), 10);
    assert_int_equal(devices_of(&b, 2), 10);
    submit(&b, 3, 1, 0, 2, 1, 1);
    assert_int_equal(bench_job_state(&b, 3), JOB_QUEUED); /* nothing runs yet that could go */
    struct job_view view;
    assert_true(pool_job_find(b.p, 3, &view));
    assert_int_equal(view.last_reason, REASON_WAIT_QUOTA);
    assert_int_equal(view.last_a, A100_NCU);
    assert_int_equal(view.last_b, 0);
    const int64_t needed[QUOTA_KINDS] = {A100_NCU, 0};
    uint32_t first = job_slot(&b, 1), second = job_slot(&b, 2), third = job_slot(&b, 3);
    assert_int_equal(quota_lacks(b.p, b.p->jobs[third].account, needed), 1);
    assert_int_equal(quota_victim_rank(b.p, third, second, 0, A100_NCU), 16000);
    assert_int_equal(quota_victim_rank(b.p, third, second, 0, 16001), 0);
    assert_int_equal(quota_victim_rank(b.p, third, second, 1, 1), 0);
    assert_int_equal(quota_victim_rank(b.p, second, first, 0, 1), 0);
    assert_true(quota_is_protected(b.p, second, third, 0, 1));
    assert_false(quota_is_protected(b.p, third, second, 0, 1));
    bench_raise(&b);
    submit(&b, 4, 1, 0, 2, 1, 1); /* of the ten A100 one goes for each, of the CPUs none */
    assert_true(b.said[DECISION_PREEMPT][REASON_PREEMPTS] >= 1);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_SHRUNK_FOR],
                     b.said[DECISION_PREEMPT][REASON_PREEMPTS]);
    assert_int_equal(devices_of(&b, 1), 10);
    bench_live(&b, 120 * SECOND_US);
    bench_raise(&b);
    assert_int_equal(devices_of(&b, 4) + devices_of(&b, 3), 2); /* and with it the next */
    assert_int_equal(devices_of(&b, 2), 8);
    bench_close(&b);
}

/* Of two that borrow, who has borrowed most for his weight goes. */
static void who_borrows_most_goes_first(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    for (uint32_t team = 1; team <= 4; team++)
        bench_step(&b, account_event(1, team, team >= 3 ? 3 * A100_NCU : 0));
    submit(&b, 1, 1, 1, 2, 1, 1); /* borrows one A100, */
    submit(&b, 2, 1, 2, 2, 1, 3); /* three, */
    submit(&b, 3, 1, 4, 2, 2, 2); /* and has two of its own three */
    bench_raise(&b);
    bench_live(&b, 10 * SECOND_US);
    submit(&b, 4, 1, 3, 2, 1, 1);
    assert_int_equal(devices_of(&b, 1), 1);
    assert_int_equal(devices_of(&b, 2), 2); /* not the one whose loss would be as small */
    bench_live(&b, 120 * SECOND_US);
    assert_int_equal(devices_of(&b, 4), 1);
    bench_close(&b);
}

static void above_every_quota_is_refused(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    struct pool_event mine = account_event(1, 0, 4 * A100_NCU);
    mine.u.account_defined.borrow_milli[0] = 2 * A100_NCU;
    bench_step(&b, mine);
    bench_step(&b, account_event(2, 0, 4 * A100_NCU));
    submit(&b, 1, 1, 0, 2, 6, 6); /* its own four and the two it may borrow */
    assert_int_equal(devices_of(&b, 1), 6);
    submit(&b, 2, 1, 0, 2, 6, 6); /* once those are free */
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
    submit(&b, 3, 1, 0, 2, 7, 8);
    const struct pool_decision *d = bench_decision(&b, DECISION_REFUSE, REASON_ABOVE_QUOTA);
    assert_non_null(d);
    assert_int_equal(d->a, 7 * A100_NCU);
    assert_int_equal(d->b, 6 * A100_NCU);
    assert_int_equal(d->c, 1);
    submit(&b, 4, 2, 0, 1, 9, 9); /* T4 would do: eight times as many */
    assert_int_equal(devices_of(&b, 4), 9);
    bench_close(&b);
}

static void an_elastic_job_takes_what_quota_leaves(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    bench_step(&b, account_event(1, 0, 5 * A100_NCU));
    submit(&b, 1, 1, 0, 2, 2, 8);
    assert_int_equal(devices_of(&b, 1), 5);
    assert_int_equal(quota_available(b.p, account_of(&b, 1, 0), 0), 0);
    bench_close(&b);
}

static void the_lowest_share_goes_first(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    for (uint32_t project = 1; project <= 2; project++)
        bench_step(&b, account_event(1, project, -1));
    bench_offer(&b, (struct test_offer){.id = 2,
                                        .region = 1,
                                        .model = A100,
                                        .capacity = CAPACITY_OWNED,
                                        .devices = 1,
                                        .stock = 4,
                                        .price = 2 * USD});
    for (uint64_t id = 1; id <= 4; id++) submit(&b, id, 1, 1, 2, 1, 1); /* all there is */
    submit(&b, 5, 1, 1, 2, 1, 1); /* older, but of who holds four */
    submit(&b, 6, 1, 2, 2, 1, 1);
    bench_raise(&b);
    bench_live(&b, SECOND_US);
    struct lease_view lease;
    assert_true(bench_lease(&b, 1, 0, &lease));
    bench_cancel(&b, 1);
    bench_worker(&b, lease.node_key, 1, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    bench_live(&b, SECOND_US);
    assert_int_equal(devices_of(&b, 6), 1);
    assert_int_equal(devices_of(&b, 5), 0);
    bench_close(&b);
}

static void doors_close_with_a_number_and_a_time(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    struct pool_event event = account_event(1, 0, -1);
    event.u.account_defined.submissions_per_minute_max = 6;
    event.u.account_defined.jobs_max = 8;
    bench_step(&b, event);
    for (uint64_t id = 1; id <= 6; id++) submit(&b, id, 1, 7, 1, 1, 1);
    submit(&b, 7, 1, 8, 1, 1, 1);
    assert_int_equal(bench_job_state(&b, 7), 0);
    assert_int_equal(b.said[DECISION_REFUSE][REASON_ACCOUNT_SUBMISSIONS], 1);
    submit(&b, 8, 2, 7, 1, 1, 1); /* another tenant */
    assert_int_not_equal(bench_job_state(&b, 8), 0);
    b.now_us += 10 * SECOND_US - 1;
    submit(&b, 7, 1, 8, 1, 1, 1);
    assert_int_equal(bench_job_state(&b, 7), 0);
    b.now_us += 1; /* as was said */
    submit(&b, 7, 1, 8, 1, 1, 1);
    assert_int_not_equal(bench_job_state(&b, 7), 0);
    b.now_us += 60 * SECOND_US;
    submit(&b, 9, 1, 8, 1, 1, 1);
    submit(&b, 10, 1, 8, 1, 1, 1);
    assert_int_equal(b.said[DECISION_REFUSE][REASON_ACCOUNT_JOBS], 1);
    bench_cancel(&b, 9);
    submit(&b, 10, 1, 8, 1, 1, 1);
    assert_int_not_equal(bench_job_state(&b, 10), 0);
    bench_close(&b);
}

static void dollars_and_workers_of_a_tenant_bind(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    struct pool_event event = account_event(1, 0, -1);
    event.u.account_defined.usd_micros_per_hour_max = 7 * USD; /* three A100 at $2 */
    bench_step(&b, event);
    submit(&b, 1, 1, 0, 2, 1, 8);
    assert_int_equal(devices_of(&b, 1), 3);
    submit(&b, 2, 1, 0, 2, 1, 8);
    struct job_view view;
    assert_true(pool_job_find(b.p, 2, &view));
    assert_int_equal(view.last_reason, REASON_WAIT_ACCOUNT_BUDGET);
    assert_int_equal(view.last_a, 2 * USD);
    assert_int_equal(view.last_b, 1 * USD);
    event = account_event(2, 0, -1);
    event.u.account_defined.workers_max = 2;
    bench_step(&b, event);
    submit(&b, 3, 2, 0, 2, 1, 8);
    assert_int_equal(devices_of(&b, 3), 2);
    bench_close(&b);
}

static struct pool_event share_of_t4(uint64_t id)
{
    return (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                               .u.job_submitted = {.job_id = id,
                                                   .capability_mask = 8,
                                                   .devices_min = 1,
                                                   .devices_max = 1,
                                                   .tenant = 1,
                                                   .job_class = JOB_CLASS_P2,
                                                   .kind = JOB_KIND_BATCH,
                                                   .terms_id = 4}};
}

/* A quota of one T4: two and a half jobs of 0.4 of it. */
static void a_share_counts_as_much_as_it_is(void **state)
{
    (void)state;
    struct bench b;
    struct job_view view;
    static const struct pool_limits limits = {.nodes_max = 8,
                                              .jobs_max = 8,
                                              .offers_max = 4,
                                              .models_max = 3,
                                              .pools_max = 1,
                                              .terms_max = 2,
                                              .leases_max = 16};
    bench_open(&b, &limits);
    bench_model(&b, T4, T4_NCU, 16, 8);
    bench_offer(&b,
                (struct test_offer){
                    .id = 1, .region = 1, .capacity = CAPACITY_OWNED, .devices = 1, .stock = 4});
    bench_step(&b, account_event(0, 0, T4_NCU));
    bench_step(&b, account_event(1, 0, T4_NCU));
    bench_terms(&b, 4, (struct job_terms){.device_milli = 400});
    for (uint64_t id = 1; id <= 3; id++) {
        bench_step(&b, share_of_t4(id));
        while (pool_next_wake_us(b.p) <= b.now_us) bench_tick(&b);
        bench_raise(&b);
    }
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    assert_true(pool_job_find(b.p, 3, &view));
    assert_int_equal(view.state, JOB_QUEUED);
    assert_int_equal(view.last_reason, REASON_WAIT_QUOTA);
    assert_true(view.last_a == T4_NCU * 4 / 10 && view.last_b == T4_NCU * 2 / 10);
    bench_close(&b);
}

static struct quote quote_of(const struct bench *b, uint32_t tenant, uint32_t min)
{
    struct quote quote;
    const struct pool_event submitted = {.kind = POOL_EVENT_JOB_SUBMITTED,
                                         .u.job_submitted = {.job_id = 99,
                                                             .capability_mask = 2,
                                                             .devices_min = min,
                                                             .devices_max = min,
                                                             .tenant = tenant,
                                                             .job_class = JOB_CLASS_P2,
                                                             .kind = JOB_KIND_ELASTIC}};
    pool_quote(b->p, &(struct quote_ask){.submitted = &submitted}, &quote);
    return quote;
}

/* What a plan says is what a submission would meet. */
static void a_plan_knows_the_limits_of_its_account(void **state)
{
    (void)state;
    struct bench b;
    open_pool(&b);
    bench_step(&b, account_event(0, 0, 100 * A100_NCU));
    bench_step(&b, account_event(1, 0, 100 * A100_NCU));
    struct pool_event event = account_event(2, 0, 0);
    event.u.account_defined.borrow_milli[0] = 2 * A100_NCU;
    bench_step(&b, event);
    event = account_event(3, 0, -1);
    event.u.account_defined.usd_micros_per_hour_max = 7 * USD; /* three A100 at $2 */
    event.u.account_defined.workers_max = 9;
    bench_step(&b, event);
    event = account_event(4, 0, -1);
    event.u.account_defined.workers_max = 2;
    bench_step(&b, event);
    event = account_event(5, 0, -1);
    event.u.account_defined.jobs_max = 1;
    bench_step(&b, event);
    assert_int_equal(quote_of(&b, 1, 4).options[0].reason, REASON_FITS);
    struct quote quote = quote_of(&b, 2, 4);
    assert_int_equal(quote.options[0].reason, REASON_WAIT_QUOTA);
    assert_true(quote.options[0].a == 4 * A100_NCU && quote.options[0].b == 2 * A100_NCU);
    assert_int_equal(quote_of(&b, 2, 2).options[0].reason, REASON_FITS);
    quote = quote_of(&b, 3, 4);
    assert_int_equal(quote.options[0].reason, REASON_WAIT_ACCOUNT_BUDGET);
    assert_true(quote.options[0].a == 2 * USD && quote.options[0].b == 7 * USD);
    assert_int_equal(quote_of(&b, 3, 3).options[0].reason, REASON_FITS);
    assert_int_equal(quote_of(&b, 4, 4).options[0].reason, REASON_WAIT_WORKERS);
    assert_int_equal(quote_of(&b, 5, 1).verdict, REASON_FITS);
    submit(&b, 1, 5, 0, 2, 1, 1);
    assert_int_equal(quote_of(&b, 5, 1).verdict, REASON_ACCOUNT_JOBS);
    bench_close(&b);
}

/* D15: $100 a day, $96 spent; an hour on demand would be $6, on spot $3.5. */
static void a_day_has_its_dollars(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, NULL);
    b.now_us = 100 * INT64_C(86400000000);
    bench_model(&b, 0, 1000, 16, 1);
    struct pool_event event = account_event(1, 1, -1);
    event.u.account_defined.usd_micros_max[0] = 100 * USD;
    bench_step(&b, event);
    b.p->accounts[account_of(&b, 1, 1)].spent_usd_micros[0] = 96 * USD;
    b.p->accounts[account_of(&b, 1, 1)].period[0] = 100;
    struct test_offer offer = {.id = 1,
                               .region = 1,
                               .capacity = CAPACITY_ON_DEMAND,
                               .devices = 1,
                               .stock = 9,
                               .price = 6 * USD,
                               .on_demand = 6 * USD};
    bench_offer(&b, offer);
    submit(&b, 1, 1, 1, 1, 1, 1);
    struct job_view view;
    assert_true(pool_job_find(b.p, 1, &view));
    assert_int_equal(view.last_reason, REASON_WAIT_ACCOUNT_BUDGET);
    assert_int_equal(view.last_a, 6 * USD);
    assert_int_equal(view.last_b, 4 * USD);
    offer = (struct test_offer){.id = 2,
                                .region = 1,
                                .capacity = CAPACITY_SPOT,
                                .devices = 1,
                                .stock = 9,
                                .price = 35 * USD / 10,
                                .on_demand = 6 * USD};
    bench_offer(&b, offer);
    while (pool_next_wake_us(b.p) <= b.now_us) bench_tick(&b);
    assert_int_equal(devices_of(&b, 1), 1);
    submit(&b, 2, 1, 1, 1, 1, 1); /* at the same instant: the half dollar left is not enough */
    assert_int_equal(devices_of(&b, 2), 0);
    const struct account *a = &b.p->accounts[account_of(&b, 1, 1)];
    assert_int_equal(a->reserved_usd_micros, 35 * USD / 10);
    bench_raise(&b);
    bench_live(&b, 1800 * SECOND_US); /* half an hour later half of it is spent, the sum the same */
    assert_in_range(a->spent_usd_micros[0] + a->reserved_usd_micros, 995 * USD / 10,
                    995 * USD / 10 + 1);
    assert_in_range(a->reserved_usd_micros, 1, 2 * USD);
    /* Beyond its hour it lives on what is left, then it is stopped. */
    struct lease_view lease;
    assert_true(bench_lease(&b, 1, 0, &lease));
    for (uint32_t i = 0; i < 60 && bench_job_state(&b, 1) != JOB_FAILED; i++)
        bench_live(&b, 60 * SECOND_US);
    assert_int_equal(bench_job_state(&b, 1), JOB_FAILED);
    assert_int_equal(b.said[DECISION_STOP][REASON_ACCOUNT_SPENT], 1);
    bench_worker(&b, lease.node_key, 1, lease.worker_id, WORKER_PHASE_STOPPED, 0);
    bench_node(&b, lease.node_key, NODE_PHASE_GONE);
    assert_in_range(a->spent_usd_micros[0], 100 * USD, 100 * USD + 35 * USD / 10 / 30);
    assert_int_equal(devices_of(&b, 2), 0);
    bench_live(&b, 101 * INT64_C(86400000000) - b.now_us + SECOND_US);
    assert_int_equal(devices_of(&b, 2), 1); /* a new day */
    bench_close(&b);
}

/* ---- the algebra against its definition ---- */

enum { NODES = 24 };

static uint32_t draw(uint64_t *random, uint32_t end)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*random >> 33) % end);
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The definition, from nothing but what was declared and what each account's own jobs hold. */
static int64_t total_of(const pool *p, uint32_t at)
{
    int64_t sum = 0;
    for (uint32_t i = 1; i < p->accounts_end; i++)
        if (p->accounts[i].parent == at) sum += total_of(p, i);
    return most(sum, p->accounts[at].quota_milli[0]);
}

static int64_t kept_of(const pool *p, uint32_t at);

static int64_t pool_of(const pool *p, uint32_t at) /* its total less what children keep */
{
    int64_t rest = total_of(p, at);
    for (uint32_t i = 1; i < p->accounts_end; i++)
        if (p->accounts[i].parent == at) rest -= total_of(p, i) - pool_of(p, i) + kept_of(p, i);
    return rest;
}

static int64_t kept_of(const pool *p, uint32_t at)
{
    int64_t lend = p->accounts[at].lend_milli[0];
    return lend < 0 ? 0 : most(0, pool_of(p, at) - lend);
}

static int64_t used_of(const pool *p, uint32_t at, const int64_t own[NODES])
{
    int64_t used = own[at];
    for (uint32_t i = 1; i < p->accounts_end; i++)
        if (p->accounts[i].parent == at) used += most(0, used_of(p, i, own) - kept_of(p, i));
    return used;
}

/* May `more` be added? Walked as one would by hand: what goes beyond what an account keeps is asked
 * of its parent, if the borrow limit lets it. */
static bool may_add(const pool *p, uint32_t at, int64_t more, const int64_t own[NODES])
{
    int64_t used = used_of(p, at, own), kept = kept_of(p, at);
    if (at == ACCOUNT_POOL) return used + more <= pool_of(p, at);
    int64_t before = most(0, used - kept), after = most(0, used + more - kept);
    if (after == before) return true;
    int64_t borrow = p->accounts[at].borrow_milli[0];
    if (borrow >= 0 && after > pool_of(p, at) - kept + borrow) return false;
    return may_add(p, p->accounts[at].parent, after - before, own);
}

static void define_tree(struct bench *b, uint64_t *random)
{
    for (uint32_t i = 0; i < 16; i++) {
        struct pool_event event = {.kind = POOL_EVENT_ACCOUNT_DEFINED,
                                   .u.account_defined = {.quota_milli = {-1, -1},
                                                         .borrow_milli = {-1, -1},
                                                         .lend_milli = {-1, -1}}};
        for (uint32_t level = 0; level <= draw(random, ACCOUNT_LEVELS); level++)
            event.u.account_defined.names[level] = 1 + draw(random, 2);
        if (draw(random, 3) != 0) event.u.account_defined.quota_milli[0] = draw(random, 20) * 1000;
        if (draw(random, 3) == 0) event.u.account_defined.borrow_milli[0] = draw(random, 6) * 1000;
        if (draw(random, 3) == 0) event.u.account_defined.lend_milli[0] = draw(random, 6) * 1000;
        if (b->p->accounts_end < NODES - ACCOUNT_LEVELS) bench_step(b, event);
    }
}

static void available_is_what_the_definition_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct bench b;
        uint64_t random = seed;
        int64_t own[NODES] = {0};
        bench_open(&b, NULL);
        bench_model(&b, 0, 1000, 16, 1);
        bench_offer(&b, (struct test_offer){.id = 1,
                                            .region = 1,
                                            .capacity = CAPACITY_OWNED,
                                            .devices = 1,
                                            .stock = 1000,
                                            .price = USD});
        define_tree(&b, &random);
        if (!b.p->accounts[ACCOUNT_POOL].has_quota[0]) {
            bench_close(&b);
            continue;
        }
        for (uint32_t i = 0; i < 60; i++) {
            uint32_t at = 1 + draw(&random, b.p->accounts_end - 1);
            int64_t available = quota_available(b.p, at, 0);
            assert_true(available == 0 || may_add(b.p, at, available, own));
            assert_false(may_add(b.p, at, available + 1, own));
            int64_t devices = draw(&random, (uint32_t)(available / 1000) + 1);
            if (devices == 0) continue;
            uint32_t names[ACCOUNT_LEVELS] = {0};
            for (uint32_t up = at; up != ACCOUNT_POOL; up = b.p->accounts[up].parent)
                names[b.p->accounts[up].level - 1] = b.p->accounts[up].name;
            bench_step(&b, (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                                               .u.job_submitted = {.job_id = 1 + i,
                                                                   .capability_mask = 1,
                                                                   .devices_min = 1,
                                                                   .devices_max = (uint32_t)devices,
                                                                   .tenant = names[0],
                                                                   .project = names[1],
                                                                   .team = names[2],
                                                                   .user = names[3],
                                                                   .kind = JOB_KIND_ELASTIC}});
            while (pool_next_wake_us(b.p) <= b.now_us) bench_tick(&b);
            uint32_t slot = table_find(&b.p->job_table, 1 + i);
            if (slot == SLOT_NONE) break; /* the bench's nodes are used up */
            own[at] += job_holding(b.p, slot).device_count * 1000;
            if (b.p->node_count == b.config.limits.nodes_max) break;
        }
        bench_close(&b);
    }
}

static void averages_forget_by_half(void **state)
{
    (void)state;
    int64_t hour_us = INT64_C(3600000000);
    assert_int_equal(share_decay(0, hour_us), 1 << 30);
    assert_int_equal(share_decay(hour_us, hour_us), 1 << 29);
    assert_int_equal(share_average(1000 * SHARE_FRACTION, 0, 3 * hour_us, hour_us),
                     125 * SHARE_FRACTION);
    assert_int_equal(share_average(0, 1000, 3 * hour_us, hour_us), 875 * SHARE_FRACTION);
    for (int64_t us = 0; us < 2 * hour_us; us += hour_us / 1000) { /* in any two steps as in one */
        int64_t once = share_average(5000 * SHARE_FRACTION, 100, us, hour_us);
        int64_t half = share_average(5000 * SHARE_FRACTION, 100, us / 2, hour_us);
        int64_t twice = share_average(half, 100, us - us / 2, hour_us);
        assert_in_range(once - twice + 5000, 0, 10000); /* of 5 million: 0.1 % */
    }
}

/* Two fifths of a device: 640 milli-NCU of an A100, whatever a T4 would count that nobody sells. */
static void a_share_is_told_the_quota_of_a_model_that_is_sold(void **state)
{
    (void)state;
    struct bench b;
    struct job_view view;
    struct pool_event account = account_event(1, 0, 500);
    static const struct pool_limits limits = {.nodes_max = 8,
                                              .jobs_max = 8,
                                              .offers_max = 4,
                                              .models_max = 3,
                                              .pools_max = 1,
                                              .terms_max = 2,
                                              .leases_max = 16};
    bench_open(&b, &limits);
    bench_model(&b, T4, T4_NCU, 16, 9);
    bench_model(&b, A100, A100_NCU, 80, 3);
    bench_offer(&b, (struct test_offer){.id = 2,
                                        .region = 1,
                                        .model = A100,
                                        .capacity = CAPACITY_OWNED,
                                        .devices = 1,
                                        .stock = 6,
                                        .price = USD});
    account.u.account_defined.borrow_milli[0] = 0;
    bench_step(&b, account);
    bench_terms(&b, 1, (struct job_terms){.device_milli = 400});
    bench_submit(&b, (struct test_job){.id = 1,
                                       .min = 1,
                                       .max = 1,
                                       .job_class = JOB_CLASS_P2,
                                       .kind = JOB_KIND_BATCH,
                                       .capability_mask = 1,
                                       .terms_id = 1});
    while (pool_next_wake_us(b.p) <= b.now_us) bench_tick(&b);
    assert_true(pool_job_find(b.p, 1, &view));
    assert_int_equal(view.last_reason, REASON_WAIT_QUOTA);
    assert_true(view.last_a == 640 && view.last_b == 500);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_is_told_the_quota_of_a_model_that_is_sold),
        cmocka_unit_test(victims_come_from_who_borrows_most_ncu),
        cmocka_unit_test(only_the_kind_that_lacks_is_reclaimed),
        cmocka_unit_test(who_borrows_most_goes_first),
        cmocka_unit_test(above_every_quota_is_refused),
        cmocka_unit_test(an_elastic_job_takes_what_quota_leaves),
        cmocka_unit_test(the_lowest_share_goes_first),
        cmocka_unit_test(doors_close_with_a_number_and_a_time),
        cmocka_unit_test(dollars_and_workers_of_a_tenant_bind),
        cmocka_unit_test(a_day_has_its_dollars),
        cmocka_unit_test(a_share_counts_as_much_as_it_is),
        cmocka_unit_test(a_plan_knows_the_limits_of_its_account),
        cmocka_unit_test(available_is_what_the_definition_says),
        cmocka_unit_test(averages_forget_by_half)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
