/* The guarantees as stories: classes, preemption, moves, gangs. Names D1 to D14: the scenarios that
 * docs/scheduling.md lists. */
#include "core/testing.h"

enum { T4, H100 };

static const struct pool_limits wide = {.nodes_max = 256,
                                        .jobs_max = 512,
                                        .offers_max = 8,
                                        .models_max = 4,
                                        .pools_max = 2,
                                        .terms_max = 16,
                                        .leases_max = 1024};

static void open_owned(struct bench *b, uint32_t nodes, uint32_t devices)
{
    bench_open(b, &wide);
    bench_strict_classes(b);
    bench_model(b, T4, 200, 16, 1);
    bench_model(b, H100, 2500, 80, 3);
    bench_offer(b, (struct test_offer){.id = 1,
                                       .region = 1,
                                       .model = H100,
                                       .capacity = CAPACITY_OWNED,
                                       .devices = devices,
                                       .stock = nodes});
}

static void submit(struct bench *b, uint64_t id, uint32_t job_class, uint32_t min, uint32_t max)
{
    bench_submit(b, (struct test_job){.id = id, .min = min, .max = max, .job_class = job_class});
    bench_raise(b);
}

static void submit_batch(struct bench *b, uint64_t id, uint32_t job_class, uint32_t devices)
{
    bench_submit(b, (struct test_job){.id = id,
                                      .min = devices,
                                      .max = devices,
                                      .job_class = job_class,
                                      .kind = JOB_KIND_BATCH});
    bench_raise(b);
}

static uint32_t workers_of(const struct bench *b, uint64_t job_id, bool leaving)
{
    uint32_t count = 0;
    struct lease_view l;
    for (uint32_t i = 0; bench_lease(b, job_id, i, &l); i++)
        count += (l.stop_reason != 0) == leaving;
    return count;
}

/* Whoever was told to stop stops: the notice is kept. */
static void stop_told(struct bench *b)
{
    struct lease_view l;
    for (uint32_t i = 0; i < pool_leases_end(b->p); i++)
        if (pool_lease_at(b->p, i, &l) && l.stop_reason != 0 && l.worker_id != 0)
            bench_worker(b, l.node_key, l.job_id, l.worker_id, WORKER_PHASE_STOPPED, 0);
}

static void finish_job(struct bench *b, uint64_t job_id)
{
    struct lease_view l;
    assert_true(bench_lease(b, job_id, 0, &l));
    bench_worker(b, l.node_key, job_id, l.worker_id, WORKER_PHASE_FINISHED, 1);
    stop_told(b);
}

static void p0_starts_at_once_or_is_refused_with_the_truth(void **state)
{
    struct bench b;
    (void)state;
    open_owned(&b, 2, 8);
    submit(&b, 1, JOB_CLASS_P1, 12, 12);
    submit(&b, 2, JOB_CLASS_P0, 8, 8); /* four are free, P1 is not preemptible */
    assert_int_equal(bench_job_state(&b, 2), JOB_REFUSED);
    struct job_view view;
    assert_true(pool_job_find(b.p, 2, &view));
    assert_int_equal(view.last_reason, REASON_NO_QUEUE);
    assert_int_equal(view.last_a, 4);
    assert_int_equal(view.last_b, 8);
    submit(&b, 3, JOB_CLASS_P0, 4, 4); /* as many as it said: so it was true */
    assert_int_equal(bench_job_state(&b, 3), JOB_RUNNING);
    bench_close(&b);
}

static void p0_takes_from_p3_with_notice(void **state)
{
    struct bench b;
    (void)state;
    open_owned(&b, 2, 4);
    submit_batch(&b, 1, JOB_CLASS_P3, 4);
    submit_batch(&b, 2, JOB_CLASS_P3, 4);
    submit(&b, 3, JOB_CLASS_P0, 4, 4);
    assert_int_equal(bench_job_state(&b, 3), JOB_STARTING); /* in the same round */
    assert_int_equal(workers_of(&b, 1, true) + workers_of(&b, 2, true), 1);
    bench_tick(&b);
    stop_told(&b);
    bench_tick(&b);
    assert_int_equal(bench_job_state(&b, 3), JOB_RUNNING);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTED_FOR], 1);
    bench_close(&b);
}

static void a_victim_that_does_not_leave_costs_its_node_not_the_guarantee(void **state)
{
    struct bench b;
    (void)state;
    open_owned(&b, 2, 4);
    submit_batch(&b, 1, JOB_CLASS_P3, 4);
    submit_batch(&b, 2, JOB_CLASS_P3, 4);
    submit(&b, 3, JOB_CLASS_P0, 4, 4);
    bench_live(&b, b.config.drain_us + 2 * b.config.ask_again_us); /* it never answers */
    stop_told(&b); /* the other one does, when it is asked in its place */
    bench_live(&b, 2 * b.config.ask_again_us);
    assert_int_equal(bench_job_state(&b, 3), JOB_RUNNING);
    bench_close(&b);
}

/* The one with the newest checkpoint loses least, whatever its place in the tables. */
static void least_work_is_lost(void **state)
{
    (void)state;
    for (uint64_t saved = 1; saved <= 3; saved++) {
        struct bench b;
        open_owned(&b, 3, 4);
        for (uint64_t id = 1; id <= 3; id++) submit_batch(&b, id, JOB_CLASS_P3, 4);
        bench_live(&b, 600 * SECOND_US);
        bench_step(&b, (struct pool_event){.kind = POOL_EVENT_CKPT_DURABLE,
                                           .u.ckpt_durable = {.job_id = saved, .step = 5}});
        submit_batch(&b, 9, JOB_CLASS_P1, 4);
        for (uint64_t id = 1; id <= 3; id++)
            assert_int_equal(workers_of(&b, id, true), id == saved);
        bench_close(&b);
    }
}

/* P1 recalls within its reserved share; beyond it, it waits. */
static void a_class_recalls_within_its_share_only(void **state)
{
    struct bench b;
    (void)state;
    open_owned(&b, 10, 1);
    for (uint64_t id = 1; id <= 10; id++) submit_batch(&b, id, JOB_CLASS_P3, 1);
    for (uint64_t id = 11; id <= 20; id++) submit_batch(&b, id, JOB_CLASS_P1, 1);
    uint32_t leaving = 0;
    for (uint64_t id = 1; id <= 10; id++) leaving += workers_of(&b, id, true);
    for (uint32_t i = 0; i < 4; i++) {
        stop_told(&b);
        bench_tick(&b);
    }
    uint32_t running = 0;
    for (uint64_t id = 11; id <= 20; id++) running += bench_job_state(&b, id) == JOB_RUNNING;
    assert_true(leaving <= 7);
    assert_int_equal(running, 7); /* 70 % of ten */
    bench_class(&b, JOB_CLASS_P1, 1000000, 0, 1U << JOB_CLASS_P3, false, true);
    for (uint32_t i = 0; i < 4; i++) {
        stop_told(&b);
        bench_tick(&b);
    }
    running = 0;
    for (uint64_t id = 11; id <= 20; id++) running += bench_job_state(&b, id) == JOB_RUNNING;
    assert_int_equal(running, 10); /* the obstacle named was the obstacle */
    bench_close(&b);
}

/* D1: the full type is protected, the other is free: placed there, nobody goes. D2: no eviction while
 * anything is free. */
static void d1_d2_free_devices_come_before_victims(void **state)
{
    struct bench b;
    (void)state;
    open_owned(&b, 2, 1);
    bench_offer(&b, (struct test_offer){.id = 2,
                                        .region = 1,
                                        .model = T4,
                                        .capacity = CAPACITY_OWNED,
                                        .devices = 1,
                                        .stock = 2});
    for (uint64_t id = 1; id <= 3; id++) {
        submit_batch(&b, id, id == 3 ? JOB_CLASS_P1 : JOB_CLASS_P3, 1);
        assert_int_equal(bench_job_state(&b, id), JOB_RUNNING);
    }
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTS], 0);
    assert_int_equal(b.asked[POOL_COMMAND_STOP_WORKER], 0);
    bench_close(&b);
}

/* D5: ten thousand wait for one type, here two hundred; one for the other type starts at once. */
static void d5_who_waits_for_one_type_keeps_nobody_off_another(void **state)
{
    struct bench b;
    (void)state;
    open_owned(&b, 1, 1);
    bench_offer(&b, (struct test_offer){.id = 2,
                                        .region = 1,
                                        .model = T4,
                                        .capacity = CAPACITY_OWNED,
                                        .devices = 1,
                                        .stock = 1});
    for (uint64_t id = 1; id <= 200; id++)
        bench_submit(&b,
                     (struct test_job){
                         .id = id, .min = 1, .max = 1, .vram_gib = 80, .job_class = JOB_CLASS_P2});
    bench_raise(&b);
    submit(&b, 999, JOB_CLASS_P2, 1, 1);
    assert_int_equal(bench_job_state(&b, 999), JOB_RUNNING);
    finish_job(&b, 1);
    bench_tick(&b);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING); /* in order */
    assert_int_equal(bench_job_state(&b, 3), JOB_QUEUED);
    bench_close(&b);
}

/* D6: gangs at the same instant; one runs whole, the others hold nothing. */
static void d6_gangs_run_whole_or_hold_nothing(void **state)
{
    (void)state;
    for (uint32_t gangs = 2; gangs <= 3; gangs++) {
        struct bench b;
        uint32_t size = gangs == 2 ? 100 : 60;
        open_owned(&b, 100, 1);
        for (uint64_t id = 1; id <= gangs; id++) submit(&b, id, JOB_CLASS_P2, size, size);
        for (uint64_t first = 1; first <= gangs; first++) {
            for (uint64_t id = first; id <= gangs; id++) {
                assert_int_equal(bench_job_state(&b, id), id == first ? JOB_RUNNING : JOB_QUEUED);
                assert_int_equal(workers_of(&b, id, false), id == first ? size : 0);
            }
            finish_job(&b, first);
            bench_tick(&b);
            bench_raise(&b);
            bench_tick(&b);
        }
        bench_close(&b);
    }
}

static void terms(struct bench *b, uint64_t terms_id, int64_t run_us)
{
    bench_step(b, (struct pool_event){
                      .kind = POOL_EVENT_TERMS_DEFINED,
                      .u.terms_defined = {.terms_id = terms_id, .terms = {.run_us = run_us}}});
}

static void submit_running(struct bench *b, uint64_t id, uint32_t min, uint64_t terms_id)
{
    terms(b, terms_id, (terms_id == 7 ? 100 : 20) * SECOND_US);
    bench_step(b, (struct pool_event){.kind = POOL_EVENT_JOB_SUBMITTED,
                                      .u.job_submitted = {.job_id = id,
                                                          .spec_hash = id,
                                                          .devices_min = min,
                                                          .devices_max = min,
                                                          .tenant = 1,
                                                          .project = 1,
                                                          .team = 1,
                                                          .experiment = 1,
                                                          .terms_id = terms_id,
                                                          .job_class = JOB_CLASS_P2,
                                                          .kind = JOB_KIND_ELASTIC}});
}

/* D8: singles of 100 s without end, always more waiting than fit; a gang of 64 comes. It starts within
 * the time of those that ran when it came, and what is backfilled ends before. */
static void d8_a_gang_behind_endless_singles_starts_within_its_bound(void **state)
{
    struct bench b;
    struct job_view view;
    uint64_t next = 1;
    (void)state;
    open_owned(&b, 80, 1);
    for (; next <= 80; next++) submit_running(&b, next, 1, 7);
    bench_raise(&b);
    bench_tick(&b);
    submit_running(&b, 100000, 64, 8);
    int64_t came_us = b.now_us;
    uint32_t seconds = 0;
    for (; bench_job_state(&b, 100000) != JOB_RUNNING && seconds < 400; seconds++) {
        bench_live(&b, SECOND_US);
        for (uint64_t id = 1; id < next; id++) {
            if (!pool_job_find(b.p, id, &view) || view.state != JOB_RUNNING) continue;
            if (b.now_us - view.started_us < (id <= 80 || id % 2 == 0 ? 100 : 20) * SECOND_US)
                continue;
            finish_job(&b, id);
        }
        for (uint32_t i = 0; i < 2 && next < 400; i++, next++)
            submit_running(&b, next, 1, next % 2 == 0 ? 7 : 8); /* half of them short: backfill */
    }
    assert_int_equal(bench_job_state(&b, 100000), JOB_RUNNING);
    assert_true(b.now_us - came_us <=
                100 * SECOND_US + b.config.drain_us + 2 * b.config.ask_again_us);
    bench_close(&b);
}

/* D9: a P3 bundle of 11 with a minimum of 1, and a P2 job: one P3 worker goes. */
static void d9_a_bundle_gives_one_worker(void **state)
{
    struct bench b;
    (void)state;
    open_owned(&b, 12, 1);
    submit(&b, 1, JOB_CLASS_P3, 1, 11);
    submit(&b, 2, JOB_CLASS_P2, 1, 1);
    assert_int_equal(workers_of(&b, 1, false), 11);
    bench_live(&b, 300 * SECOND_US);
    submit(&b, 3, JOB_CLASS_P1, 1, 1);
    assert_int_equal(workers_of(&b, 1, true), 1);
    assert_int_equal(workers_of(&b, 1, false), 10);
    assert_int_equal(workers_of(&b, 2, true), 0);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_SHRUNK_FOR], 1);
    bench_close(&b);
}

/* D10: every node of eight holds six of P1 and two of P3; P0 wants eight on one node: no scattered
 * kills, a refusal without any. */
static void d10_no_scattered_kills(void **state)
{
    struct bench b;
    (void)state;
    open_owned(&b, 4, 8);
    for (uint64_t id = 1; id <= 4; id++) {
        submit_batch(&b, id, JOB_CLASS_P1, 6);
        submit_batch(&b, 10 + id, JOB_CLASS_P3, 2);
    }
    submit_batch(&b, 99, JOB_CLASS_P0, 8);
    assert_int_equal(bench_job_state(&b, 99), JOB_REFUSED);
    assert_int_equal(b.asked[POOL_COMMAND_STOP_WORKER], 0);
    bench_close(&b);
}

/* Enough is idle, on two nodes: a worker moves, nobody is killed. */
static void moves_come_before_kills(void **state)
{
    struct bench b;
    (void)state;
    open_owned(&b, 3, 4);
    submit_batch(&b, 1, JOB_CLASS_P2, 4);
    submit(&b, 2, JOB_CLASS_P2, 2, 2);
    submit_batch(&b, 3, JOB_CLASS_P3, 4); /* the last node */
    submit_batch(&b, 4, JOB_CLASS_P2, 2); /* beside job 2 */
    finish_job(&b, 3);
    submit(&b, 5, JOB_CLASS_P3, 2, 2); /* wherever: four are idle on one node, or two and two */
    finish_job(&b, 4);
    submit_batch(&b, 6, JOB_CLASS_P1, 4);
    bench_tick(&b);
    stop_told(&b);
    bench_tick(&b);
    assert_int_equal(bench_job_state(&b, 6), JOB_RUNNING);
    assert_int_equal(bench_job_state(&b, 5), JOB_RUNNING);
    assert_int_equal(b.said[DECISION_PREEMPT][REASON_PREEMPTED_FOR], 0);
    bench_close(&b);
}

/* A class may ask for what it likes: only those below it count, so no chain comes back. */
static void no_class_preempts_its_equals_or_betters(void **state)
{
    (void)state;
    for (uint32_t job_class = JOB_CLASS_P0; job_class < JOB_CLASS_END; job_class++)
        for (uint32_t holder = JOB_CLASS_P0; holder <= job_class; holder++) {
            struct bench b;
            open_owned(&b, 1, 4);
            for (uint32_t c = 0; c < JOB_CLASS_END; c++)
                bench_class(&b, c, 1000000, 0, (1U << JOB_CLASS_END) - 1, true, true);
            submit_batch(&b, 1, holder, 4);
            submit_batch(&b, 2, job_class, 4);
            assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
            assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
            bench_close(&b);
        }
}

/* Two devices come free at once while three wait for theirs: the two oldest take them, in order. */
static void who_waits_for_victims_takes_what_comes_free_before(void **state)
{
    struct bench b;
    struct lease_view l;
    (void)state;
    open_owned(&b, 4, 2);
    submit_batch(&b, 1, JOB_CLASS_P2, 2);
    for (uint64_t id = 2; id <= 7; id++) submit(&b, id, JOB_CLASS_P3, 1, 1);
    for (uint64_t id = 10; id <= 12; id++) submit(&b, id, JOB_CLASS_P1, 1, 1);
    for (uint64_t id = 10; id <= 12; id++) assert_int_equal(bench_job_state(&b, id), JOB_STARTING);
    assert_true(bench_lease(&b, 1, 0, &l));
    bench_worker(&b, l.node_key, 1, l.worker_id, WORKER_PHASE_FINISHED, 1);
    bench_tick(&b);
    assert_int_equal(bench_job_state(&b, 10), JOB_RUNNING);
    assert_int_equal(bench_job_state(&b, 11), JOB_RUNNING);
    assert_int_equal(bench_job_state(&b, 12), JOB_STARTING);
    stop_told(&b);
    bench_tick(&b);
    assert_int_equal(bench_job_state(&b, 12), JOB_RUNNING);
    bench_close(&b);
}

/* Of a gang of eight one node is lost, and a fresh job of its class waits too: what comes back is the gang's,
 * whose other workers went on. */
static void d7_what_comes_back_is_the_gangs_first(void **state)
{
    struct bench b;
    struct lease_view lease;
    (void)state;
    open_owned(&b, 8, 1);
    submit(&b, 1, JOB_CLASS_P2, 8, 8);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_true(bench_lease(&b, 1, 3, &lease));
    bench_offer(&b, (struct test_offer){.id = 1,
                                        .region = 1,
                                        .model = H100,
                                        .capacity = CAPACITY_OWNED,
                                        .devices = 1,
                                        .stock = 0});
    bench_node_full(&b, lease.node_key, NODE_PHASE_GONE, NODE_REASON_CRASHED, 0, -1);
    submit_batch(&b, 2, JOB_CLASS_P2, 1);
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
    bench_live(&b, 30 * SECOND_US);
    uint32_t started = b.asked[POOL_COMMAND_ENSURE_WORKER];
    bench_offer(&b, (struct test_offer){.id = 1,
                                        .region = 1,
                                        .model = H100,
                                        .capacity = CAPACITY_OWNED,
                                        .devices = 1,
                                        .stock = 1});
    bench_raise(&b);
    assert_int_equal(bench_job_state(&b, 1), JOB_RUNNING);
    assert_int_equal(workers_of(&b, 1, false), 8);
    assert_int_equal(bench_job_state(&b, 2), JOB_QUEUED);
    assert_true(b.asked[POOL_COMMAND_ENSURE_WORKER] > started);
    finish_job(&b, 1);
    bench_raise(&b);
    assert_int_equal(bench_job_state(&b, 2), JOB_RUNNING);
    bench_close(&b);
}

/* D14: stopped and read back at every event, it decides the same. */
static void d14_a_restart_at_any_event_changes_nothing(void **state)
{
    struct bench b;
    static uint8_t bytes[1 << 20];
    (void)state;
    open_owned(&b, 4, 4);
    for (uint64_t id = 1; id <= 30; id++) {
        if (id % 7 == 0)
            submit(&b, id, JOB_CLASS_P1, 6, 6);
        else
            submit_batch(&b, id, id % 2 == 0 ? JOB_CLASS_P2 : JOB_CLASS_P3, 1 + id % 4);
        size_t used = pool_snapshot_write(b.p, bytes, sizeof bytes);
        assert_true(used <= sizeof bytes);
        uint64_t digest = pool_digest(b.p);
        assert_true(pool_snapshot_read(b.p, bytes, used));
        pool_check(b.p);
        assert_int_equal(pool_digest(b.p), digest);
        if (id % 3 == 0) stop_told(&b);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p0_starts_at_once_or_is_refused_with_the_truth),
        cmocka_unit_test(p0_takes_from_p3_with_notice),
        cmocka_unit_test(a_victim_that_does_not_leave_costs_its_node_not_the_guarantee),
        cmocka_unit_test(least_work_is_lost),
        cmocka_unit_test(a_class_recalls_within_its_share_only),
        cmocka_unit_test(d1_d2_free_devices_come_before_victims),
        cmocka_unit_test(d5_who_waits_for_one_type_keeps_nobody_off_another),
        cmocka_unit_test(d6_gangs_run_whole_or_hold_nothing),
        cmocka_unit_test(d7_what_comes_back_is_the_gangs_first),
        cmocka_unit_test(d8_a_gang_behind_endless_singles_starts_within_its_bound),
        cmocka_unit_test(d9_a_bundle_gives_one_worker),
        cmocka_unit_test(d10_no_scattered_kills),
        cmocka_unit_test(moves_come_before_kills),
        cmocka_unit_test(no_class_preempts_its_equals_or_betters),
        cmocka_unit_test(who_waits_for_victims_takes_what_comes_free_before),
        cmocka_unit_test(d14_a_restart_at_any_event_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
