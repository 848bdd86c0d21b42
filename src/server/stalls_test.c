/* Levels in, edges out: a verdict is told once, again when it changes, and once when it is over. */
#include "base/mem.h"
#include "core/limits.h"
#include "server/stalls.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct heard {
    uint32_t named, stopped, over;
    uint64_t worker, job;
};

static void hear(void *self, const struct stall_change *change)
{
    struct heard *heard = self;
    heard->job = change->job_id;
    heard->worker = change->worker_id;
    heard->named += change->culprit != NULL;
    heard->stopped += change->is_stopped;
    heard->over += change->culprit == NULL && !change->is_stopped;
}

static uint64_t node_of(void *self, uint64_t job_id, uint64_t worker_id)
{
    (void)self;
    return job_id == 1 ? worker_id + 100 : 0;
}

static struct report_culprit culprit = {
    .worker = 7, .kind = "data", .phase = "data", .host = "reads", .for_us = 2000000, .step = 5};
static const struct report_stall stall = {.job = 1,
                                          .step = 5,
                                          .stalled = true,
                                          .waited_us = 2000000,
                                          .victims = 3,
                                          .workers = 4,
                                          .culprit_count = 1,
                                          .culprits = &culprit};
static const struct agent_report standing = {.stall_count = 1, .stalls = &stall}, quiet = {0};

static void a_verdict_is_told_once(void **state)
{
    (void)state;
    struct stalls stalls;
    struct heard heard = {0};
    char text[STALL_SENTENCE_BYTES];
    stalls_init(&stalls);
    for (int64_t us = 0; us < 10; us++)
        assert_true(stalls_take(&stalls, 50, &standing, us, hear, &heard));
    assert_int_equal(heard.named, 1);
    assert_int_equal(heard.worker, 7);
    assert_true(
        stalls_take(&stalls, 51, &quiet, 10, hear, &heard)); /* another node knows nothing */
    assert_int_equal(heard.over, 0);
    assert_string_equal(stalls_text(&stalls, 1, text),
                        "step 5 has been waiting 2.0 s for worker 7; 3 of 4 workers are victims");
    assert_string_equal(stalls_text(&stalls, 2, text), "");
    culprit.kind = "compute"; /* another reason is news */
    assert_true(stalls_take(&stalls, 50, &standing, 11, hear, &heard));
    culprit.kind = "data";
    assert_int_equal(heard.named, 2);
    assert_true(stalls_take(&stalls, 50, &quiet, 12, hear, &heard));
    assert_int_equal(heard.over, 1);
    assert_string_equal(stalls_text(&stalls, 1, text), "");
    stalls_free(&stalls);
}

/* What stands is told again: the core believes it for a while only. */
static void a_verdict_that_stands_is_repeated(void **state)
{
    (void)state;
    struct stalls stalls;
    struct heard heard = {0};
    struct report_worker worker = {.job = 1, .worker = 9};
    worker.stuck = (struct report_stuck){
        .is = true, .phase = "reduce", .state = "T", .call = "", .wchan = "", .stack = ""};
    const struct agent_report report = {.worker_count = 1, .workers = &worker};
    stalls_init(&stalls);
    for (int64_t us = 0; us < 3 * STALL_TOLD_AGAIN_US; us += STALL_TOLD_AGAIN_US / 10) {
        assert_true(stalls_take(&stalls, 50, &standing, us, hear, &heard));
        assert_true(stalls_take(&stalls, 51, &report, us, hear, &heard));
    }
    assert_int_equal(heard.named, 3);
    assert_int_equal(heard.stopped, 3);
    assert_int_equal(heard.over, 0);
    stalls_free(&stalls);
}

static void a_silent_speaker_is_not_believed_for_ever(void **state)
{
    (void)state;
    struct stalls stalls;
    struct heard heard = {0};
    stalls_init(&stalls);
    assert_true(stalls_take(&stalls, 50, &standing, 100, hear, &heard));
    stalls_expire(&stalls, 100 + STALLS_LEASE_US, hear, &heard);
    assert_int_equal(heard.over, 0);
    stalls_expire(&stalls, 101 + STALLS_LEASE_US, hear, &heard);
    assert_int_equal(heard.over, 1);
    stalls_free(&stalls);
}

static void a_stopped_worker_is_told_by_its_agent_alone(void **state)
{
    (void)state;
    struct stalls stalls;
    struct heard heard = {0};
    struct report_worker worker = {.job = 1, .worker = 9};
    worker.stuck = (struct report_stuck){.is = true,
                                         .phase = "reduce",
                                         .state = "T",
                                         .call = "",
                                         .wchan = "",
                                         .stack = "one\ntwo",
                                         .for_us = 1,
                                         .pid = 3};
    const struct agent_report report = {.worker_count = 1, .workers = &worker};
    stalls_init(&stalls);
    for (int64_t us = 0; us < 3; us++)
        assert_true(stalls_take(&stalls, 50, &report, us, hear, &heard));
    assert_int_equal(heard.stopped, 1);
    json_t *json = stalls_json(&stalls, 1, node_of, NULL);
    const json_t *row = json_array_get(json_object_get(json, "culprits"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "kind")), "stopped");
    assert_int_equal(json_integer_value(json_object_get(row, "worker")), 9);
    assert_int_equal(json_array_size(json_object_get(row, "stack")), 2);
    json_decref(json);
    worker.stuck.state = "S"; /* not stopped, only late: no verdict of the group, so no culprit */
    assert_true(stalls_take(&stalls, 50, &report, 3, hear, &heard));
    json = stalls_json(&stalls, 1, node_of, NULL);
    assert_true(json_is_null(json));
    json_decref(json);
    assert_true(stalls_take(&stalls, 50, &quiet, 4, hear, &heard));
    assert_int_equal(heard.over, 1);
    stalls_free(&stalls);
}

static void both_views_are_joined(void **state)
{
    (void)state;
    struct stalls stalls;
    struct heard heard = {0};
    struct report_worker worker = {.job = 1, .worker = 7};
    worker.stuck = (struct report_stuck){.is = true,
                                         .phase = "data",
                                         .state = "S",
                                         .call = "read",
                                         .wchan = "pipe_read",
                                         .stack = "next_batch+0x1"};
    const struct agent_report report = {
        .worker_count = 1, .workers = &worker, .stall_count = 1, .stalls = &stall};
    stalls_init(&stalls);
    assert_true(stalls_take(&stalls, 50, &report, 1, hear, &heard));
    json_t *json = stalls_json(&stalls, 1, node_of, NULL);
    const json_t *rows = json_object_get(json, "culprits"), *row = json_array_get(rows, 0);
    assert_int_equal(json_array_size(rows), 1);
    assert_int_equal(json_integer_value(json_object_get(row, "node")), 107);
    assert_non_null(strstr(json_string_value(json_object_get(row, "text")), "pipe_read"));
    assert_int_equal(json_array_size(json_object_get(row, "stack")), 1);
    json_decref(json);
    stalls_free(&stalls);
}

/* Whatever allocation fails, nothing is lost for good and nothing leaks. */
static void failing_memory_is_survived(void **state)
{
    (void)state;
    struct report_worker worker = {.job = 1, .worker = 7};
    worker.stuck = (struct report_stuck){
        .is = true, .phase = "data", .state = "T", .call = "", .wchan = "", .stack = "x"};
    const struct agent_report report = {
        .worker_count = 1, .workers = &worker, .stall_count = 1, .stalls = &stall};
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        struct stalls stalls;
        struct heard heard = {0};
        stalls_init(&stalls);
        mem_fail_at(nth);
        failed = !stalls_take(&stalls, 50, &report, 1, hear, &heard);
        mem_fail_at(0);
        assert_true(stalls_take(&stalls, 50, &report, 2, hear, &heard));
        assert_int_equal(heard.named, 1);
        stalls_free(&stalls);
        assert_in_range(nth, 1, 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_is_told_once),
        cmocka_unit_test(a_verdict_that_stands_is_repeated),
        cmocka_unit_test(a_silent_speaker_is_not_believed_for_ever),
        cmocka_unit_test(a_stopped_worker_is_told_by_its_agent_alone),
        cmocka_unit_test(both_views_are_joined),
        cmocka_unit_test(failing_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
