/* Nodes and workers when things go wrong: one story each. */
#include "core/testing.h"

enum { H100 };

static const struct test_offer spot = {.id = 11,
                                       .region = 1,
                                       .model = H100,
                                       .capacity = CAPACITY_SPOT,
                                       .devices = 1,
                                       .stock = 4,
                                       .price = 2 * USD,
                                       .on_demand = 4 * USD};
static const struct test_offer dearer = {.id = 12,
                                         .region = 1,
                                         .model = H100,
                                         .capacity = CAPACITY_SPOT,
                                         .devices = 1,
                                         .stock = 4,
                                         .price = 3 * USD,
                                         .on_demand = 4 * USD};

static void open_with(struct bench *b, uint32_t job_min)
{
    bench_open(b, NULL);
    bench_model(b, H100, 2500, 80, 1);
    bench_offer(b, spot);
    bench_offer(b, dearer);
    bench_submit(b, (struct test_job){.id = 1, .min = job_min, .max = job_min});
}

static uint64_t last_ordered(const struct bench *b)
{
    return bench_command(b, POOL_COMMAND_ENSURE_NODE, 0)->node_key;
}

static void an_order_without_answer_is_asked_again_under_the_same_key(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, 1);
    uint64_t key = last_ordered(&b);
    assert_int_equal(pool_next_wake_us(b.p), b.now_us + b.config.ask_again_us);
    bench_advance(&b, 60 * SECOND_US);
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], 13);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, &key), 1);
    assert_int_equal(b.said[DECISION_BUY][REASON_CHEAPEST], 1);
    bench_node(&b, key, NODE_PHASE_UP);
    uint32_t asked = b.asked[POOL_COMMAND_ENSURE_NODE];
    bench_advance(&b, 30 * SECOND_US);
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_NODE], asked);
    bench_close(&b);
}

static void keys_are_of_this_incarnation_and_never_used_again(void **state)
{
    struct bench b;
    uint64_t last = 0;
    (void)state;
    open_with(&b, 1);
    for (uint32_t i = 0; i < 200; i++) { /* more than the slots that remember ended nodes */
        uint64_t key = 0;
        assert_int_equal(bench_nodes(&b, NODE_ORDERED, &key), 1);
        assert_int_equal(key >> 40, b.config.incarnation);
        assert_true(key > last);
        last = key;
        bench_node(&b, key, NODE_PHASE_UP);
        bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_PREEMPTED, 0, (int64_t)i);
    }
    bench_close(&b);
}

static void a_refusal_backs_off_and_tries_the_next_offer(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, 1);
    uint64_t refused = last_ordered(&b);
    bench_node_full(&b, refused, NODE_PHASE_REFUSED, NODE_REASON_STOCKOUT, 0, -1);
    const struct pool_decision *d = bench_decision(&b, DECISION_LOST, REASON_STOCKOUT);
    assert_int_equal(d->a, b.config.refused_backoff_us);
    /* It may have started it after all: released until it says there is none. */
    assert_int_equal(bench_command(&b, POOL_COMMAND_RELEASE_NODE, 0)->node_key, refused);
    const struct pool_command *c = bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0);
    assert_int_equal(c->offer_id, 12);
    bench_node_full(&b, c->node_key, NODE_PHASE_REFUSED, NODE_REASON_QUOTA, 0, -1);
    assert_non_null(bench_decision(&b, DECISION_LOST, REASON_QUOTA));
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_NODE), 0); /* both are left alone now */
    bench_node(&b, refused, NODE_PHASE_ABSENT);
    bench_advance(&b, b.config.refused_backoff_us);
    assert_int_equal(b.said[DECISION_BUY][REASON_CHEAPEST], 3);
    bench_close(&b);
}

static void a_node_that_does_not_come_up_is_given_up(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, 1);
    bench_node(&b, last_ordered(&b), NODE_PHASE_PENDING);
    bench_advance(&b, b.config.boot_timeout_us + SECOND_US);
    assert_int_equal(b.said[DECISION_LOST][REASON_BOOT_TIMEOUT], 1);
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, NULL), 1);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, NULL), 1); /* elsewhere */
    bench_close(&b);
}

static void a_silent_agent_is_lost_but_the_node_is_paid_until_it_is_gone(void **state)
{
    struct bench b;
    uint64_t key;
    (void)state;
    open_with(&b, 1);
    key = last_ordered(&b);
    bench_raise(&b);
    bench_advance(&b, b.config.agent_lease_us);
    assert_int_equal(b.said[DECISION_LOST][REASON_AGENT_SILENT], 0);
    bench_advance(&b, SECOND_US);
    assert_int_equal(b.said[DECISION_LOST][REASON_AGENT_SILENT], 1);
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, NULL), 1);
    bench_agent(&b, key); /* too late */
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 0);
    bench_advance(&b, 100 * SECOND_US);
    assert_true(b.asked[POOL_COMMAND_RELEASE_NODE] >= 20); /* until the provider says so */
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, NULL), 1);
    bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_RELEASED, 0, 77777);
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, NULL), 0);
    int64_t sum = 0;
    for (uint32_t kind = ENTRY_JOB; kind < ENTRY_KIND_END; kind++)
        sum += b.entered_usd_micros[kind];
    assert_int_equal(sum, 77777);
    bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_RELEASED, 0, 77777);
    assert_int_equal(b.out.entry_count, 0); /* the same bill again changes nothing */
    bench_close(&b);
}

/* Sixteen nodes, the seventh is lost in the middle of the run: the other fifteen notice nothing, and
 * one node is bought. */
static void a_gang_that_loses_a_node_keeps_the_rest_and_buys_one(void **state)
{
    struct bench b;
    struct lease_view lease;
    (void)state;
    bench_open(&b, NULL);
    bench_model(&b, H100, 2500, 80, 1);
    struct test_offer stock = spot;
    stock.stock = 20;
    bench_offer(&b, stock);
    bench_submit(&b, (struct test_job){.id = 1, .min = 8, .max = 16});
    bench_raise(&b);
    bench_tick(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 16);
    uint32_t stopped = b.asked[POOL_COMMAND_STOP_WORKER],
             started = b.asked[POOL_COMMAND_ENSURE_WORKER];
    assert_true(bench_lease(&b, 1, 6, &lease));
    bench_node_full(&b, lease.node_key, NODE_PHASE_GONE, NODE_REASON_PREEMPTED, 0, -1);
    bench_tick(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 15);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, NULL), 1);
    assert_int_equal(b.asked[POOL_COMMAND_STOP_WORKER], stopped);
    bench_raise(&b);
    bench_tick(&b);
    assert_int_equal(b.asked[POOL_COMMAND_ENSURE_WORKER], started + 1);
    assert_int_equal(b.said[DECISION_PLACE][REASON_GANG_READY], 1);
    bench_close(&b);
}

/* The same silence of the machine, three causes, three reasons. */
static void a_loss_is_told_by_its_cause(void **state)
{
    static const struct {
        uint32_t told, reason;
        int64_t notice_us;
    } causes[] = {{NODE_REASON_PREEMPTED, REASON_PREEMPTED, 0},
                  {NODE_REASON_PREEMPTED, REASON_PREEMPTED_NOTICED, 30 * SECOND_US},
                  {NODE_REASON_CRASHED, REASON_CRASHED, 0}};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct bench b;
        open_with(&b, 1);
        uint64_t key = last_ordered(&b);
        bench_raise(&b);
        if (causes[i].notice_us != 0)
            bench_node_full(&b, key, NODE_PHASE_UP, 0, b.now_us + causes[i].notice_us, -1);
        bench_node_full(&b, key, NODE_PHASE_GONE, causes[i].told, 0, -1);
        assert_non_null(bench_decision(&b, DECISION_LOST, causes[i].reason));
        bench_close(&b);
    }
}

static void late_answers_about_ended_nodes_meet_a_release(void **state)
{
    struct bench b;
    uint64_t key;
    (void)state;
    open_with(&b, 1);
    key = last_ordered(&b);
    bench_raise(&b);
    bench_cancel(&b, 1);
    bench_live(&b, 200 * SECOND_US);
    bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_RELEASED, 0, 5000);
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, NULL), 0);
    bench_node(&b, key, NODE_PHASE_UP);
    assert_int_equal(bench_command(&b, POOL_COMMAND_RELEASE_NODE, 0)->node_key, key);
    bench_node_full(&b, key, NODE_PHASE_GONE, NODE_REASON_RELEASED, 0, 5000);
    assert_int_equal(b.out.entry_count, 0); /* billed once */
    /* A node of an earlier incarnation, which nobody here ever ordered. */
    bench_node(&b, 7, NODE_PHASE_UP);
    assert_int_equal(bench_command(&b, POOL_COMMAND_RELEASE_NODE, 0)->node_key, 7);
    bench_node_full(&b, 7, NODE_PHASE_GONE, NODE_REASON_RELEASED, 0, 900);
    assert_int_equal(b.out.entries[0].usd_micros, 900);
    assert_int_equal(b.out.entries[0].kind, ENTRY_ADJUSTMENT);
    /* A key that will be made here later must not be taken. */
    bench_node(&b, b.config.incarnation << 40 | 1000, NODE_PHASE_UP);
    assert_int_equal(b.out.command_count, 0);
    assert_int_equal(pool_next_wake_us(b.p), INT64_MAX);
    bench_close(&b);
}

static void absent_before_the_order_arrived_is_not_believed(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, 1);
    uint64_t key = last_ordered(&b);
    bench_node(&b, key, NODE_PHASE_ABSENT);
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, NULL), 1);
    bench_cancel(&b, 1);
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, NULL), 1);
    bench_node(&b, key, NODE_PHASE_ABSENT);
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, NULL), 0);
    bench_close(&b);
}

static void absent_about_a_node_that_runs_is_asked_back_before_it_is_believed(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, 1);
    uint64_t key = last_ordered(&b);
    bench_raise(&b);
    bench_node(&b, key, NODE_PHASE_ABSENT); /* perhaps a list made before it ran */
    assert_int_equal(b.said[DECISION_LOST][REASON_PREEMPTED], 1);
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, NULL), 1);
    assert_int_equal(bench_command(&b, POOL_COMMAND_RELEASE_NODE, 0)->node_key, key);
    bench_node(&b, key, NODE_PHASE_ABSENT);
    assert_int_equal(bench_nodes(&b, NODE_RELEASING, NULL), 0);
    bench_close(&b);
}

static void after_a_restart_everything_is_asked_again(void **state)
{
    struct bench b;
    struct lease_view lease;
    (void)state;
    open_with(&b, 2);
    bench_raise(&b);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(bench_lease(&b, 1, i, &lease));
        bench_worker(&b, lease.node_key, 1, lease.worker_id, WORKER_PHASE_RUNNING, 1);
    }
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1});
    bench_tick(&b);
    b.now_us += 3600 * SECOND_US; /* down for an hour: nobody's silence */
    bench_step(&b, (struct pool_event){.kind = POOL_EVENT_RESTARTED});
    assert_int_equal(bench_count(&b, POOL_COMMAND_OBSERVE_NODE), 2);
    assert_int_equal(bench_count(&b, POOL_COMMAND_ENSURE_WORKER), 2);
    assert_int_equal(b.said[DECISION_LOST][REASON_AGENT_SILENT], 0);
    bench_close(&b);
}

static void what_fell_due_while_the_server_was_down_is_asked_first(void **state)
{
    struct bench b;
    struct lease_view lease;
    uint64_t ordered;
    (void)state;
    open_with(&b, 1);
    bench_raise(&b);
    assert_true(bench_lease(&b, 1, 0, &lease));
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1});
    assert_int_equal(bench_nodes(&b, NODE_ORDERED, &ordered), 1);
    bench_cancel(&b, 1); /* its worker is told to stop */
    b.now_us += 3600 * SECOND_US;
    bench_step(&b, (struct pool_event){.kind = POOL_EVENT_RESTARTED});
    assert_int_equal(b.said[DECISION_LOST][REASON_BOOT_TIMEOUT], 0);
    assert_int_equal(b.said[DECISION_RELEASE][REASON_CANCELLED], 0);
    assert_non_null(bench_command(&b, POOL_COMMAND_ENSURE_NODE, 0));
    assert_non_null(bench_command(&b, POOL_COMMAND_STOP_WORKER, 0));
    bench_worker(&b, lease.node_key, 1, lease.worker_id, WORKER_PHASE_STOPPED, 1);
    bench_raise(&b);
    assert_int_equal(bench_nodes(&b, NODE_READY, NULL), 2);
    bench_close(&b);
}

static void failing_workers_are_restarted_until_it_is_too_often(void **state)
{
    struct bench b;
    struct lease_view lease;
    uint64_t last = 0;
    (void)state;
    open_with(&b, 1);
    bench_raise(&b);
    for (uint32_t i = 1; i <= b.config.worker_failures_max + 3; i++) {
        assert_true(bench_lease(&b, 1, 0, &lease));
        assert_true(lease.worker_id != last); /* a new worker each time */
        last = lease.worker_id;
        /* A step in between forgives the failures before it. */
        if (i == 3) bench_worker(&b, lease.node_key, 1, last, WORKER_PHASE_RUNNING, 10);
        bench_worker(&b, lease.node_key, 1, last, WORKER_PHASE_FAILED, 0);
        bench_worker(&b, lease.node_key, 1, last, WORKER_PHASE_FAILED, 0); /* the report repeats */
    }
    assert_int_equal(b.said[DECISION_STOP][REASON_TOO_MANY_FAILURES], 1);
    assert_int_equal(b.said[DECISION_PLACE][REASON_WORKER_FAILED],
                     b.config.worker_failures_max + 2);
    assert_int_equal(bench_job_state(&b, 1), JOB_FAILED);
    bench_close(&b);
}

static void workers_that_fail_together_count_once(void **state)
{
    struct bench b;
    struct lease_view lease;
    (void)state;
    open_with(&b, 4);
    bench_raise(&b);
    for (uint32_t round = 1; round <= b.config.worker_failures_max + 1; round++) {
        uint64_t workers[4], keys[4];
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(bench_lease(&b, 1, i, &lease));
            workers[i] = lease.worker_id;
            keys[i] = lease.node_key;
        }
        assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING); /* 4 a round are above the limit */
        for (uint32_t i = 0; i < 4; i++)
            bench_worker(&b, keys[i], 1, workers[i], WORKER_PHASE_FAILED, 0);
    }
    assert_int_equal(b.said[DECISION_STOP][REASON_TOO_MANY_FAILURES], 1);
    assert_int_equal(bench_job_state(&b, 1), JOB_FAILED);
    bench_close(&b);
}

static void a_worker_nobody_wants_is_stopped(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, 1);
    uint64_t key = last_ordered(&b);
    bench_raise(&b);
    bench_worker(&b, key, 9, 12345, WORKER_PHASE_RUNNING, 1);
    assert_int_equal(bench_command(&b, POOL_COMMAND_STOP_WORKER, 0)->worker_id, 12345);
    bench_worker(&b, key, 9, 12345, WORKER_PHASE_STOPPED, 1);
    assert_int_equal(b.out.command_count, 0);
    bench_close(&b);
}

static void a_submit_changes_nothing_the_second_time_also_after_the_end(void **state)
{
    struct bench b;
    (void)state;
    open_with(&b, 1);
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t before = b.said[DECISION_ADMIT][REASON_FITS];
        bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
        assert_int_equal(b.out.decision_count, 0);
        assert_int_equal(b.said[DECISION_ADMIT][REASON_FITS], before);
        assert_true((b.out.marks >> POOL_MARK_JOB_RESUBMITTED & 1) != 0);
        bench_cancel(&b, 1);
    }
    assert_int_equal(bench_job_state(&b, 1), JOB_CANCELLED);
    bench_close(&b);
}

static void a_spent_budget_stops_the_job_at_the_micro_dollar(void **state)
{
    struct bench b;
    struct job_view view;
    (void)state;
    bench_open(&b, NULL);
    bench_model(&b, H100, 2500, 80, 1);
    bench_offer(&b, spot);
    bench_submit(&b, (struct test_job){.id = 1, .min = 2, .max = 2, .budget = USD / 10});
    bench_raise(&b);
    int64_t start_us = b.now_us;
    bench_live(&b, 60 * SECOND_US);
    struct test_offer up = spot;
    up.price = 4 * USD; /* the time left is counted anew */
    bench_offer(&b, up);
    bench_live(&b, 60 * SECOND_US);
    assert_int_equal(b.said[DECISION_STOP][REASON_BUDGET_SPENT], 1);
    assert_true(pool_job_find(b.p, 1, &view));
    assert_int_equal(view.state, JOB_FAILED);
    /* 60 s at $4/h, the rest at $8/h: ($0.1 - $0.0667) / $8/h = 15 s */
    assert_true(view.ended_us - start_us > 74 * SECOND_US);
    assert_true(view.ended_us - start_us <= 76 * SECOND_US);
    bench_close(&b);
}

static void a_shared_node_is_paid_by_devices(void **state)
{
    struct bench b;
    struct test_offer big = {.id = 41,
                             .region = 1,
                             .model = H100,
                             .capacity = CAPACITY_ON_DEMAND,
                             .devices = 4,
                             .stock = 1,
                             .price = 7 * USD,
                             .on_demand = 7 * USD};
    (void)state;
    bench_open(&b, NULL);
    bench_model(&b, H100, 2500, 80, 1);
    bench_offer(&b, big);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    bench_raise(&b);
    bench_submit(&b, (struct test_job){.id = 2, .min = 2, .max = 2});
    bench_live(&b, 61 * SECOND_US);
    int64_t jobs = b.entered_usd_micros[ENTRY_JOB], idle = b.entered_usd_micros[ENTRY_IDLE];
    int64_t whole = 7 * USD * 60 / 3600;
    assert_true(jobs + idle >= whole);
    assert_true(jobs + idle <= whole + 1);
    assert_true(idle >= whole / 4);
    assert_true(idle <= whole / 4 + 1);
    struct job_view one, two;
    assert_true(pool_job_find(b.p, 1, &one));
    assert_true(pool_job_find(b.p, 2, &two));
    assert_true(two.usd_micros > one.usd_micros * 19 / 10);
    assert_true(two.usd_micros < one.usd_micros * 21 / 10);
    bench_close(&b);
}

static void a_full_queue_refuses_and_an_ended_job_makes_room(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, &(struct pool_limits){.nodes_max = 1,
                                         .jobs_max = 2,
                                         .offers_max = 2,
                                         .models_max = 1,
                                         .pools_max = 0,
                                         .leases_max = 1});
    bench_model(&b, H100, 2500, 80, 1);
    bench_offer(&b, spot);
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1});
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1});
    bench_submit(&b, (struct test_job){.id = 3, .min = 1, .max = 1});
    assert_int_equal(bench_decision(&b, DECISION_REFUSE, REASON_LIMIT_JOBS)->a, 2);
    bench_cancel(&b, 2);
    bench_submit(&b, (struct test_job){.id = 3, .min = 1, .max = 1});
    assert_int_equal(bench_job_state(&b, 3), JOB_QUEUED);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_without_answer_is_asked_again_under_the_same_key),
        cmocka_unit_test(keys_are_of_this_incarnation_and_never_used_again),
        cmocka_unit_test(a_refusal_backs_off_and_tries_the_next_offer),
        cmocka_unit_test(a_node_that_does_not_come_up_is_given_up),
        cmocka_unit_test(a_silent_agent_is_lost_but_the_node_is_paid_until_it_is_gone),
        cmocka_unit_test(a_gang_that_loses_a_node_keeps_the_rest_and_buys_one),
        cmocka_unit_test(a_loss_is_told_by_its_cause),
        cmocka_unit_test(late_answers_about_ended_nodes_meet_a_release),
        cmocka_unit_test(absent_before_the_order_arrived_is_not_believed),
        cmocka_unit_test(absent_about_a_node_that_runs_is_asked_back_before_it_is_believed),
        cmocka_unit_test(after_a_restart_everything_is_asked_again),
        cmocka_unit_test(what_fell_due_while_the_server_was_down_is_asked_first),
        cmocka_unit_test(failing_workers_are_restarted_until_it_is_too_often),
        cmocka_unit_test(workers_that_fail_together_count_once),
        cmocka_unit_test(a_worker_nobody_wants_is_stopped),
        cmocka_unit_test(a_submit_changes_nothing_the_second_time_also_after_the_end),
        cmocka_unit_test(a_spent_budget_stops_the_job_at_the_micro_dollar),
        cmocka_unit_test(a_shared_node_is_paid_by_devices),
        cmocka_unit_test(a_full_queue_refuses_and_an_ended_job_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
