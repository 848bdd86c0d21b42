/* Verdicts and stuck workers: read back as written, refused with a sentence, told in words. */
#include "base/mem.h"
#include "codec/agent_report.h"
#include "codec/codec.h"
#include "codec/names.h"
#include "codec/worker_line.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LINE                                                                                       \
    "{\"t\":\"stall\",\"step\":4486,\"stalled\":true,\"waited_us\":7012345,\"victims\":63,"        \
    "\"workers\":64,\"culprits\":[{\"worker\":37,\"kind\":\"host\",\"slow\":false,\"peer\":0,"     \
    "\"phase\":\"compute\",\"host\":\"sleeps\",\"slot\":12,\"step\":4486,\"for_us\":7100000,"      \
    "\"usual_us\":120000,\"cpu_us\":2000,\"dropped\":true}]}"

static void read_line(const char *text, struct worker_line *ret_line)
{
    struct error error;
    if (!worker_line_parse(text, strlen(text), ret_line, &error)) fail_msg("%s", error.text);
}

static void a_verdict_survives_both_hops(void **state)
{
    (void)state;
    struct worker_line line;
    struct error error;
    read_line(LINE, &line);
    assert_int_equal(line.kind, WORKER_LINE_STALL);
    assert_int_equal(line.stall.culprit_count, 1);
    line.stall.job = 9;
    const struct report_worker worker = {.job = 9,
                                         .worker = 37,
                                         .phase = 2,
                                         .stuck = {.is = true,
                                                   .for_us = 5,
                                                   .phase = "data",
                                                   .state = "S",
                                                   .call = "read",
                                                   .wchan = "pipe_read",
                                                   .stack = "a\nb\xff",
                                                   .pid = 77,
                                                   .slot = 3,
                                                   .step = 8}};
    const struct agent_report report = {.phase = 1,
                                        .device_model = "H100",
                                        .worker_count = 1,
                                        .workers = &worker,
                                        .stall_count = 1,
                                        .stalls = &line.stall};
    char *text = agent_report_write(&report);
    struct agent_report back;
    assert_non_null(text);
    if (!agent_report_parse(text, strlen(text), &back, &error)) fail_msg("%s", error.text);
    assert_int_equal(back.stall_count, 1);
    const struct report_stall *stall = &back.stalls[0];
    assert_int_equal(stall->job, 9);
    assert_int_equal(stall->step, 4486);
    assert_int_equal(stall->waited_us, 7012345);
    assert_int_equal(stall->victims, 63);
    assert_true(stall->stalled);
    assert_int_equal(stall->culprits[0].worker, 37);
    assert_string_equal(stall->culprits[0].kind, "host");
    assert_string_equal(stall->culprits[0].host, "sleeps");
    assert_int_equal(stall->culprits[0].cpu_us, 2000);
    assert_true(stall->culprits[0].dropped);
    assert_true(back.workers[0].stuck.is);
    assert_int_equal(back.workers[0].stuck.pid, 77);
    assert_string_equal(back.workers[0].stuck.wchan, "pipe_read");
    assert_string_equal(back.workers[0].stuck.stack, "a\nb?"); /* any bytes become text */
    mem_free(text);
    agent_report_close(&back);
    worker_line_close(&line);
}

static void expect_mistake(const char *text, const char *sentence)
{
    struct worker_line line;
    struct error error;
    assert_false(worker_line_parse(text, strlen(text), &line, &error));
    if (strstr(error.text, sentence) == NULL) fail_msg("%s", error.text);
}

static void mistakes_name_their_member(void **state)
{
    (void)state;
    expect_mistake("{\"t\":\"stall\",\"culprits\":[]}", "step");
    expect_mistake("{\"t\":\"stall\",\"step\":1,\"culprits\":[{\"worker\":1,\"kind\":\"lazy\","
                   "\"phase\":\"compute\",\"host\":\"runs\"}]}",
                   "culprits[0].kind: expected silent, host, data");
    expect_mistake("{\"t\":\"stall\",\"step\":1,\"culprits\":[{\"worker\":1,\"kind\":\"data\","
                   "\"phase\":\"lunch\",\"host\":\"runs\"}]}",
                   "culprits[0].phase");
    expect_mistake("{\"t\":\"stall\",\"step\":1,\"waited_us\":-1}", "waited_us");
}

static void culprits_are_told_in_words(void **state)
{
    (void)state;
    char text[STALL_SENTENCE_BYTES];
    struct worker_line line;
    read_line(LINE, &line);
    assert_string_equal(
        stall_text(&line.stall, text),
        "step 4486 has been waiting 7.0 s for worker 37; 63 of 64 workers are victims");
    const struct report_stuck stuck = {.is = true,
                                       .phase = "compute",
                                       .state = "S",
                                       .call = "clock_nanosleep",
                                       .wchan = "",
                                       .stack = ""};
    struct report_culprit culprit = line.stall.culprits[0];
    assert_string_equal(
        stall_culprit_text(&culprit, &stuck, 4, 0, text),
        "worker 37 on node 4: its program is stuck in slot 12 for 7.1 s, usually 120 ms, 0 % of a "
        "processor (in clock_nanosleep); the others do its slots until it moves");
    const struct report_stuck stopped = {.is = true,
                                         .phase = "reduce",
                                         .state = "T",
                                         .call = "",
                                         .wchan = "",
                                         .stack = "",
                                         .for_us = 2000000,
                                         .pid = 99,
                                         .step = 5};
    assert_string_equal(stall_stuck_text(37, 0, &stopped, text),
                        "worker 37: its process is stopped by a signal (state T) for 2.0 s, in "
                        "reduce of step 5; kill -CONT 99 lets it go on");
    culprit.kind = "link";
    culprit.peer = 8;
    culprit.dropped = false;
    assert_string_equal(stall_culprit_text(&culprit, NULL, 4, 5, text),
                        "the network between worker 37 on node 4 and worker 8 on node 5 does not "
                        "move data for 7.1 s, usually 120 ms");
    culprit.kind = "compute";
    culprit.slow = true;
    culprit.for_us = 240000;
    assert_string_equal(stall_culprit_text(&culprit, NULL, 4, 0, text),
                        "worker 37 on node 4: computes a slot for 240 ms instead of 120 ms, 2.0 "
                        "times as long; it moves, and slots move away from it");
    worker_line_close(&line);
}

/* Every kind has a sentence, a word of its own as a decision, and ends within the buffer. */
static void every_kind_has_a_sentence(void **state)
{
    (void)state;
    static const char *const kinds[] = {"silent",  "host", "data",    "compute",
                                        "storage", "link", "network", "diverged"};
    char text[STALL_SENTENCE_BYTES];
    for (uint32_t i = 0; i < 2 * sizeof kinds / sizeof kinds[0]; i++) {
        const struct report_culprit culprit = {.worker = UINT64_MAX,
                                               .peer = 1,
                                               .kind = kinds[i / 2],
                                               .phase = "checkpoint",
                                               .host = "disk",
                                               .slow = i % 2 == 1,
                                               .for_us = STALL_TIME_US_MAX,
                                               .usual_us = 1,
                                               .cpu_us = STALL_TIME_US_MAX};
        (void)stall_culprit_text(&culprit, NULL, UINT64_MAX, 1, text);
        assert_in_range(strlen(text), 20, sizeof text - 2);
        uint32_t kind = stall_kind_of(&culprit);
        const char *name = name_reason(REASON_STALL_OVER + kind - STALL_OVER);
        assert_true(strncmp(name, "STALL_", 6) == 0 || strncmp(name, "SLOW_", 5) == 0);
    }
}

int main(void)
{
    codec_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_survives_both_hops),
        cmocka_unit_test(mistakes_name_their_member),
        cmocka_unit_test(culprits_are_told_in_words),
        cmocka_unit_test(every_kind_has_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
