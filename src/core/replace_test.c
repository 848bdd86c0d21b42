/* A worker that its job's own workers name for long enough loses its node; a victim never does. */
#include "core/limits.h"
#include "core/testing.h"

enum { H100 };

static const struct test_offer spot = {.id = 11,
                                       .region = 1,
                                       .model = H100,
                                       .capacity = CAPACITY_SPOT,
                                       .devices = 1,
                                       .stock = 32,
                                       .price = 2 * USD,
                                       .on_demand = 4 * USD};

/* A job of `workers` that run, each on a node of its own. */
static void begin(struct bench *b, struct test_offer offer, uint32_t workers)
{
    bench_model(b, H100, /* ncu_milli */ 2500, /* vram_gib */ 80, /* capabilities */ 1);
    bench_offer(b, offer);
    bench_submit(b, (struct test_job){.id = 1, .min = workers, .max = workers});
    bench_raise(b);
}

static void open_offer(struct bench *b, struct test_offer offer, uint32_t workers)
{
    bench_open(b, NULL);
    begin(b, offer, workers);
}

/* Of those that run. */
static struct lease_view lease_of(const struct bench *b, uint32_t nth)
{
    struct lease_view lease;
    for (uint32_t i = 0; bench_lease(b, 1, i, &lease); i++)
        if (lease.worker_id != 0 && lease.stop_reason == 0 && nth-- == 0) return lease;
    fail_msg("not so many workers run");
    return lease;
}

static void tell(struct bench *b, const struct lease_view *lease, uint32_t kind)
{
    bench_step(b, (struct pool_event){
                      .kind = POOL_EVENT_WORKER_STALLED,
                      .u.worker_stalled = {.job_id = 1,
                                           .node_key = lease == NULL ? 0 : lease->node_key,
                                           .worker_id = lease == NULL ? 0 : lease->worker_id,
                                           .step = (uint64_t)(b->now_us / SECOND_US),
                                           .kind = kind}});
}

/* As the shell does while it lasts. */
static void tell_for(struct bench *b, const struct lease_view *lease, uint32_t kind,
                     int64_t duration_us)
{
    for (int64_t us = 0; us < duration_us; us += STALL_TOLD_AGAIN_US) {
        tell(b, lease, kind);
        bench_live(b, STALL_TOLD_AGAIN_US);
    }
    tell(b, lease, kind);
}

static uint32_t stalled_nodes_gone(const struct bench *b)
{
    return b->said[DECISION_DRAIN][REASON_CULPRIT_STALLED];
}

static uint32_t slow_nodes_gone(const struct bench *b)
{
    return b->said[DECISION_DRAIN][REASON_CULPRIT_SLOW];
}

static bool runs(const struct bench *b, uint64_t worker_id)
{
    struct lease_view lease;
    for (uint32_t nth = 0; bench_lease(b, 1, nth, &lease); nth++)
        if (lease.worker_id == worker_id && lease.stop_reason == 0) return true;
    return false;
}

static void a_stalled_workers_node_is_replaced(void **state)
{
    struct bench b;
    (void)state;
    open_offer(&b, spot, 4);
    struct lease_view culprit = lease_of(&b, 1);
    const uint64_t others[] = {lease_of(&b, 0).worker_id, lease_of(&b, 2).worker_id,
                               lease_of(&b, 3).worker_id};
    tell_for(&b, &culprit, STALL_DATA, b.config.replace_stalled_us - STALL_TOLD_AGAIN_US);
    assert_int_equal(stalled_nodes_gone(&b), 0);
    assert_int_equal(b.said[DECISION_STALL][REASON_STALL_DATA], 1); /* said once, told often */
    tell_for(&b, &culprit, STALL_DATA, STALL_TOLD_AGAIN_US);
    assert_int_equal(stalled_nodes_gone(&b), 1);
    const struct pool_decision *decision =
        bench_decision(&b, DECISION_DRAIN, REASON_CULPRIT_STALLED);
    assert_non_null(decision);
    assert_int_equal(decision->node_key, culprit.node_key);
    assert_int_equal(decision->job_id, 1);
    assert_int_equal(decision->a, b.config.replace_stalled_us);
    assert_int_equal(decision->b, culprit.worker_id);
    assert_int_equal(decision->c, 1);
    bench_live(&b, b.config.drain_us + 2 * b.config.ask_again_us); /* it never answers */
    bench_raise(&b);
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 4);
    for (uint32_t i = 0; i < 3; i++) assert_true(runs(&b, others[i]));
    assert_false(runs(&b, culprit.worker_id));
    struct pool_totals totals;
    pool_totals_read(b.p, &totals);
    assert_int_equal(totals.nodes_replaced, 1);
    assert_int_equal(stalled_nodes_gone(&b), 1);
    bench_close(&b);
}

static void what_is_told_no_more_is_believed_no_more(void **state)
{
    struct bench b;
    (void)state;
    open_offer(&b, spot, 4);
    struct lease_view culprit = lease_of(&b, 0);
    int64_t nearly_us = b.config.replace_stalled_us - STALL_TOLD_AGAIN_US;
    tell_for(&b, &culprit, STALL_HOST, nearly_us);
    bench_live(&b, STALL_BELIEVED_US + SECOND_US); /* "it is over" was lost */
    tell_for(&b, &culprit, STALL_HOST, nearly_us);
    tell(&b, NULL, STALL_OVER);
    tell_for(&b, &culprit, STALL_HOST, nearly_us);
    tell(&b, &culprit, STALL_OVER); /* that worker alone moves again */
    tell_for(&b, &culprit, STALL_HOST, nearly_us);
    assert_int_equal(stalled_nodes_gone(&b), 0);
    bench_step(&b, (struct pool_event){.kind = POOL_EVENT_RESTARTED}); /* and it goes on */
    tell_for(&b, &culprit, STALL_COMPUTE, STALL_TOLD_AGAIN_US);        /* for another reason */
    assert_int_equal(stalled_nodes_gone(&b), 1);
    bench_close(&b);
}

/* Slowness flickers: a fast step in between is no news, a quarter of a minute is. */
static void slowness_may_flicker(void **state)
{
    struct bench b;
    (void)state;
    open_offer(&b, spot, 4);
    struct lease_view culprit = lease_of(&b, 0);
    int64_t half_us = b.config.replace_slow_us / 2;
    tell_for(&b, &culprit, SLOW_COMPUTE, half_us);
    bench_live(&b, STALL_BELIEVED_US + SECOND_US);
    tell_for(&b, &culprit, SLOW_COMPUTE, half_us);
    tell(&b, NULL, STALL_OVER);
    bench_live(&b, STALL_BELIEVED_US - SECOND_US);
    assert_int_equal(slow_nodes_gone(&b), 0);
    assert_int_equal(b.said[DECISION_STALL][REASON_STALL_OVER], 1);
    tell_for(&b, &culprit, SLOW_COMPUTE, half_us);
    assert_int_equal(slow_nodes_gone(&b), 1);
    assert_int_equal(b.said[DECISION_STALL][REASON_SLOW_COMPUTE], 2); /* and when it came back */
    bench_close(&b);
}

static void many_at_once_are_nobodys_fault(void **state)
{
    struct bench b;
    (void)state;
    open_offer(&b, spot, 8);
    struct lease_view first = lease_of(&b, 0), second = lease_of(&b, 1);
    for (int i = 0; i < 50; i++) {
        tell(&b, &first, STALL_DATA);
        tell(&b, &second, STALL_NETWORK);
        bench_live(&b, STALL_TOLD_AGAIN_US);
    }
    assert_int_equal(stalled_nodes_gone(&b), 0);
    tell_for(&b, &first, STALL_DATA, STALL_BELIEVED_US + STALL_TOLD_AGAIN_US);
    assert_int_equal(stalled_nodes_gone(&b), 1); /* the other one moves again */
    bench_close(&b);
}

static void what_is_of_no_single_machine_replaces_none(void **state)
{
    static const uint32_t kinds[] = {STALL_LINK, SLOW_LINK, STALL_DIVERGED};
    struct bench b;
    (void)state;
    open_offer(&b, spot, 4);
    struct lease_view culprit = lease_of(&b, 3);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        tell_for(&b, &culprit, kinds[i], 2 * b.config.replace_slow_us);
    assert_int_equal(stalled_nodes_gone(&b) + slow_nodes_gone(&b), 0);
    bench_close(&b);
}

static void owned_machines_would_only_come_back(void **state)
{
    struct bench b;
    struct test_offer owned = spot;
    (void)state;
    owned.capacity = CAPACITY_OWNED;
    open_offer(&b, owned, 4);
    struct lease_view culprit = lease_of(&b, 0);
    tell_for(&b, &culprit, STALL_STOPPED, 2 * b.config.replace_stalled_us);
    assert_int_equal(stalled_nodes_gone(&b), 0);
    bench_close(&b);
}

/* A fault of the program moves along with it: pauses of 10, 20, 40 minutes. */
static void pauses_between_two_nodes_double(void **state)
{
    struct bench b;
    (void)state;
    open_offer(&b, spot, 4);
    int64_t begun_us = b.now_us;
    for (int64_t minutes = 0; minutes < 75; minutes++) {
        struct lease_view culprit = lease_of(&b, 0);
        tell_for(&b, &culprit, STALL_COMPUTE, 60 * SECOND_US);
        bench_raise(&b);
    }
    assert_true(b.now_us - begun_us < (10 + 20 + 40 + 10) * 60 * SECOND_US);
    assert_int_equal(stalled_nodes_gone(&b), 4);
    bench_close(&b);
}

static void a_slow_worker_goes_only_for_another_machine(void **state)
{
    struct bench b;
    (void)state;
    open_offer(&b, spot, 4);
    struct lease_view culprit = lease_of(&b, 2);
    struct test_offer sold_out = spot;
    sold_out.stock = 0;
    bench_offer(&b, sold_out);
    tell_for(&b, &culprit, SLOW_COMPUTE, b.config.replace_slow_us + STALL_TOLD_AGAIN_US);
    assert_int_equal(slow_nodes_gone(&b), 0);
    bench_offer(&b, spot);
    tell_for(&b, &culprit, SLOW_COMPUTE, STALL_TOLD_AGAIN_US);
    assert_int_equal(slow_nodes_gone(&b), 1);
    assert_int_equal(b.said[DECISION_STALL][REASON_SLOW_COMPUTE], 1);
    bench_close(&b);
}

/* Others work on the machine: only the job leaves it. */
static void neighbours_stay(void **state)
{
    struct bench b;
    struct test_offer large = spot;
    (void)state;
    large.devices = 4;
    open_offer(&b, large, 2);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1});
    bench_raise(&b);
    struct lease_view culprit = lease_of(&b, 0);
    tell_for(&b, &culprit, SLOW_DATA, b.config.replace_slow_us + STALL_TOLD_AGAIN_US);
    assert_int_equal(slow_nodes_gone(&b), 0); /* it works, and no machine would become free */
    tell_for(&b, &culprit, STALL_DATA, b.config.replace_stalled_us);
    assert_int_equal(stalled_nodes_gone(&b), 1);
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 1);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    bench_close(&b);
}

static void it_can_be_turned_off(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, NULL);
    b.config.replace_stalled_us = b.config.replace_slow_us = 0;
    b.p = pool_init(b.memory, pool_size(&b.config.limits), &b.config);
    b.seq = 0;
    begin(&b, spot, 4);
    struct lease_view culprit = lease_of(&b, 0);
    tell_for(&b, &culprit, STALL_DATA, HOUR_US / 2);
    tell_for(&b, &culprit, SLOW_DATA, HOUR_US / 2);
    assert_int_equal(stalled_nodes_gone(&b) + slow_nodes_gone(&b), 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stalled_workers_node_is_replaced),
        cmocka_unit_test(what_is_told_no_more_is_believed_no_more),
        cmocka_unit_test(slowness_may_flicker),
        cmocka_unit_test(many_at_once_are_nobodys_fault),
        cmocka_unit_test(what_is_of_no_single_machine_replaces_none),
        cmocka_unit_test(owned_machines_would_only_come_back),
        cmocka_unit_test(pauses_between_two_nodes_double),
        cmocka_unit_test(a_slow_worker_goes_only_for_another_machine),
        cmocka_unit_test(neighbours_stay),
        cmocka_unit_test(it_can_be_turned_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
