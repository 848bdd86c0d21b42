/* The examples of docs/protocol.md parse, what is written is read back, mistakes name their member.
 */
#include "base/mem.h"
#include "codec/agent_report.h"
#include "codec/codec.h"
#include "codec/worker_line.h"
#include "core/event.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

static const char report_text[] =
    "{\"agent\":{\"pid\":1,\"started\":\"2026-11-29T20:14:02.123Z\"},\"phase\":\"joined\","
    "\"device\":{\"model\":\"H100\",\"count\":1,\"vram_mib\":81920,\"rack\":\"r7\",\"emulated\":"
    "true,"
    "\"groups\":{\"form\":1,\"nvlink\":[2,0,15],\"pcie\":[],\"numa\":[1]}},"
    "\"workers\":[{\"job\":1,\"worker\":5,\"phase\":\"running\",\"exit_code\":0,\"step\":12,"
    "\"addr\":\"127.0.0.1:40001\",\"tokens_per_s\":1234.5,\"doing\":\"compute\"}],"
    "\"progress\":[{\"job\":1,\"step\":11,\"loss\":3.21,\"generation\":4,\"attempt\":1,"
    "\"workers\":[{\"worker\":5,\"slots\":\"00ff\"}]}],"
    "\"ckpts\":[{\"job\":1,\"step\":10}],"
    "\"logs\":[{\"job\":1,\"worker\":5,\"t\":\"x\",\"stream\":\"out\",\"line\":\"hello\"}],"
    "\"logs_after\":17}";

static const char reply_text[] =
    "{\"lease_ms\":15000,\"report_ms\":250,\"logs_after\":18,\"progress_after\":11,"
    "\"workers\":[{\"job\":1,\"worker\":5,\"want\":\"run\",\"spec\":{\"argv\":[\"a\",\"b c\"],"
    "\"env\":{\"K\":\"V\"},\"dir\":\".\"},\"token\":\"s\",\"slots\":32,\"steps\":200,\"gang\":4,"
    "\"checkpoint_dir\":\"c\",\"checkpoint_every\":20,\"devices\":[0,5],\"device_milli\":1000},"
    "{\"job\":1,\"worker\":3,\"want\":\"stop\",\"reason\":\"price\",\"deadline_ms\":3000}],"
    "\"peers\":[{\"job\":1,\"told\":12,\"workers\":[{\"worker\":5,\"addr\":\"127.0.0.1:40001\"}]}],"
    "\"notice_ms\":0,\"leave\":false}";

static void the_report_of_the_protocol_is_read(void **state)
{
    (void)state;
    struct agent_report report;
    struct error error;
    if (!agent_report_parse(report_text, strlen(report_text), &report, &error))
        fail_msg("%s", error.text);
    assert_int_equal(report.pid, 1);
    assert_int_equal(report.phase, AGENT_PHASE_JOINED);
    assert_string_equal(report.device_model, "H100");
    assert_int_equal(report.device_count, 1);
    assert_int_equal(report.device_vram_mib, 81920);
    assert_string_equal(report.rack, "r7");
    assert_true(report.emulated);
    assert_int_equal(report.groups.form, DEVICE_GROUPS_FORM);
    assert_int_equal(report.groups.nvlink[0], 0x02);
    assert_int_equal(report.groups.nvlink[1], 0x0f);
    assert_int_equal(report.groups.numa[0], 0x01);
    assert_int_equal(report.worker_count, 1);
    assert_int_equal(report.workers[0].worker, 5);
    assert_int_equal(report.workers[0].phase, WORKER_PHASE_RUNNING);
    assert_int_equal(report.workers[0].step, 12);
    assert_string_equal(report.workers[0].addr, "127.0.0.1:40001");
    assert_string_equal(report.workers[0].doing, "compute");
    assert_true(report.workers[0].tokens_per_s > 1234.4 && report.workers[0].tokens_per_s < 1234.6);
    assert_int_equal(report.progress_count, 1);
    assert_int_equal(report.progress[0].generation, 4);
    assert_int_equal(report.progress[0].worker_count, 1);
    assert_string_equal(report.progress[0].workers[0].slots, "00ff");
    assert_int_equal(report.ckpt_count, 1);
    assert_int_equal(report.ckpts[0].step, 10);
    assert_int_equal(report.log_count, 1);
    assert_string_equal(report.logs[0].line, "hello");
    assert_int_equal(report.logs_after, 17);
    agent_report_close(&report);
    assert_null(report.owner);
    agent_report_close(&report); /* closing twice is fine */
}

static void the_reply_of_the_protocol_is_read(void **state)
{
    (void)state;
    struct agent_reply reply;
    struct error error;
    if (!agent_reply_parse(reply_text, strlen(reply_text), &reply, &error))
        fail_msg("%s", error.text);
    assert_int_equal(reply.lease_ms, 15000);
    assert_int_equal(reply.logs_after, 18);
    assert_int_equal(reply.progress_after, 11);
    assert_int_equal(reply.worker_count, 2);
    assert_int_equal(reply.workers[0].want, REPLY_RUN);
    assert_int_equal(reply.workers[0].arg_count, 2);
    assert_string_equal(reply.workers[0].args[1], "b c");
    assert_int_equal(reply.workers[0].env_count, 1);
    assert_string_equal(reply.workers[0].env[0], "K");
    assert_string_equal(reply.workers[0].env[1], "V");
    assert_string_equal(reply.workers[0].dir, ".");
    assert_string_equal(reply.workers[0].token, "s");
    assert_string_equal(reply.workers[0].checkpoint_dir, "c");
    assert_int_equal(reply.workers[0].slots, 32);
    assert_int_equal(reply.workers[0].steps, 200);
    assert_int_equal(reply.workers[0].gang, 4);
    assert_int_equal(reply.workers[0].checkpoint_every, 20);
    assert_int_equal(reply.workers[0].device_mask, 0x21);
    assert_int_equal(reply.workers[0].device_milli, 1000);
    assert_int_equal(reply.workers[1].want, REPLY_STOP);
    assert_string_equal(reply.workers[1].reason, "price");
    assert_int_equal(reply.workers[1].deadline_ms, 3000);
    assert_int_equal(reply.peers_count, 1);
    assert_int_equal(reply.peers[0].told, 12);
    assert_string_equal(reply.peers[0].peers[0].addr, "127.0.0.1:40001");
    assert_false(reply.leave);
    agent_reply_close(&reply);
}

static void what_is_written_is_what_was_read(void **state)
{
    (void)state;
    struct agent_report report;
    struct agent_reply reply;
    assert_true(agent_report_parse(report_text, strlen(report_text), &report, NULL));
    char *text = agent_report_write(&report);
    assert_non_null(strstr(text, "\"loss\":3.21"));
    agent_report_close(&report);
    assert_true(agent_report_parse(text, strlen(text), &report, NULL));
    char *again = agent_report_write(&report);
    assert_string_equal(text, again);
    agent_report_close(&report);
    mem_free(text);
    mem_free(again);

    assert_true(agent_reply_parse(reply_text, strlen(reply_text), &reply, NULL));
    text = agent_reply_write(&reply);
    assert_string_equal(text, reply_text);
    agent_reply_close(&reply);
    mem_free(text);
}

static void mistakes_name_their_member(void **state)
{
    (void)state;
#define AGENT  "\"agent\":{\"pid\":1},\"phase\":\"joined\""
#define DEVICE "\"device\":{\"model\":\"T4\",\"count\":1}"
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"[]", "report: expected an object; see docs/protocol.md"},
        {"{" DEVICE "}", "report: agent: it is missing"},
        {"{" AGENT "}", "report: device: it is missing"},
        {"{" AGENT "," DEVICE ",\"worker\":[]}",
         "report: worker: unknown member; see docs/protocol.md"},
        {"{" AGENT "," DEVICE ",\"workers\":{}}", "report: workers: expected a list"},
        {"{" AGENT "," DEVICE ",\"workers\":[1]}", "report: workers: expected a list of objects"},
        {"{" AGENT "," DEVICE ",\"ckpts\":[{\"job\":1,\"step\":2},{\"job\":1,\"step\":\"2\"}]}",
         "report: ckpts[1].step: expected a whole number"},
        {"{" AGENT "," DEVICE ",\"ckpts\":[{\"job\":-1,\"step\":2}]}",
         "report: ckpts[0].job: expected 0 to 9223372036854775807"},
        {"{" AGENT "," DEVICE ",\"workers\":[{\"job\":1,\"worker\":2,\"phase\":\"ran\"}]}",
         "report: workers[0].phase: expected starting, running, finished, failed or stopped"},
        {"{" AGENT "," DEVICE
         ",\"progress\":[{\"job\":1,\"step\":1,\"workers\":[{\"worker\":1,\"slots\":\"0G\"}]}]}",
         "report: progress[0].workers[0].slots: expected lower-case hexadecimal digits"},
        {"{" AGENT "," DEVICE
         ",\"logs\":[{\"job\":1,\"worker\":2,\"line\":\"x\",\"stream\":\"in\"}]}",
         "report: logs[0].stream: expected out or err"},
        {"{" AGENT ",\"device\":{\"model\":7,\"count\":1}}",
         "report: device.model: expected a text"},
        {"{\"agent\":{\"pid\":1,\"x y\":1},\"phase\":\"joined\"," DEVICE "}",
         "report: agent.x?y: unknown member; see docs/protocol.md"},
        {"{\"agent\":{\"pid\":1},\"phase\":\"here\"," DEVICE "}",
         "report: phase: expected joined or leaving"},
        {"{\"agent\":1,\"agent\":2}",
         "report: line 1 column 18: duplicate object key near '\"agent\"'; see docs/protocol.md"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct agent_report report;
        struct error error = {{0}};
        assert_false(agent_report_parse(cases[i].text, strlen(cases[i].text), &report, &error));
        assert_string_equal(error.text, cases[i].sentence);
    }
}

static void a_reply_may_grow(void **state)
{
    (void)state;
    static const char text[] = "{\"lease_ms\":1,\"report_ms\":2,\"new\":{\"x\":1}}";
    static const char bad[] = "{\"lease_ms\":0,\"report_ms\":2}";
    struct agent_reply reply;
    struct error error;
    assert_true(agent_reply_parse(text, strlen(text), &reply, &error));
    assert_int_equal(reply.worker_count, 0);
    agent_reply_close(&reply);
    assert_false(agent_reply_parse(bad, strlen(bad), &reply, &error));
    assert_string_equal(error.text, "reply: lease_ms: expected 1 to 2592000000");
}

static void limits_are_refused(void **state)
{
    (void)state;
    size_t bytes = REPORT_BYTES_MAX + 1, used;
    char *text = mem_zalloc(1, bytes);
    struct agent_report report;
    struct error error;
    assert_false(agent_report_parse(text, bytes, &report, &error));
    assert_non_null(strstr(error.text, "above the limit"));
    (void)strcpy(text, "{\"ckpts\":[");
    used = strlen(text);
    for (int i = 0; i <= REPORT_CKPTS_MAX; i++, used += 3) memcpy(text + used, "{},", 3);
    (void)strcpy(text + used - 1, "]," AGENT "," DEVICE "}");
    assert_false(agent_report_parse(text, strlen(text), &report, &error));
    assert_string_equal(error.text, "report: ckpts: more than 64 elements");
    mem_free(text);
}

static void loss_that_is_no_number_travels(void **state)
{
    (void)state;
    const struct report_progress progress = {.job = 1, .step = 2, .loss = NAN};
    const struct agent_report sent = {.phase = AGENT_PHASE_LEAVING,
                                      .device_model = "T4",
                                      .progress_count = 1,
                                      .progress = &progress};
    struct agent_report got;
    char *text = agent_report_write(&sent);
    assert_true(agent_report_parse(text, strlen(text), &got, NULL));
    assert_true(isnan(got.progress[0].loss));
    assert_string_equal(got.started, "");
    agent_report_close(&got);
    mem_free(text);
}

static void log_lines_of_any_bytes_travel(void **state)
{
    (void)state;
    static const struct {
        const char *line, *shown;
    } cases[] = {
        {"plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
         "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff\xfe half", "?? half"},
        {"cut \xe2\x82", "cut ??"},
        {"over \xc0\xaf long \xe0\x80\xaf", "over ?? long ???"},
        {"\xed\xa0\x80 surrogate", "??? surrogate"},
        {"\xf4\x90\x80\x80 beyond", "???? beyond"},
        {"\x1b[1m\t\"\\", "\x1b[1m\t\"\\"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct report_log log = {
            .job = 1, .worker = 2, .time = "t", .stream = "err", .line = cases[i].line};
        const struct agent_report sent = {
            .phase = AGENT_PHASE_JOINED, .device_model = "T4", .log_count = 1, .logs = &log};
        struct agent_report got;
        char *text = agent_report_write(&sent);
        assert_non_null(text);
        assert_true(agent_report_parse(text, strlen(text), &got, NULL));
        assert_string_equal(got.logs[0].line, cases[i].shown);
        agent_report_close(&got);
        mem_free(text);
    }
}

static void worker_lines_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t kind;
        uint64_t generation, step;
    } cases[] = {
        {"{\"t\":\"hello\",\"addr\":\"127.0.0.1:1\"}", WORKER_LINE_HELLO, 0, 0},
        {"{\"t\":\"joined\",\"generation\":3,\"step\":4}", WORKER_LINE_JOINED, 3, 4},
        {"{\"t\":\"progress\",\"step\":5,\"loss\":1.5,\"generation\":3,\"attempt\":1,\"workers\":"
         "[{\"worker\":5,\"slots\":\"00ff\"}]}",
         WORKER_LINE_PROGRESS, 3, 5},
        {"{\"t\":\"ckpt\",\"step\":6}", WORKER_LINE_CKPT, 0, 6},
        {"{\"t\":\"stats\",\"tokens_per_s\":1,\"step\":7,\"more\":1}", WORKER_LINE_STATS, 0, 7},
        {"{\"t\":\"done\",\"step\":8}", WORKER_LINE_DONE, 0, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct worker_line line;
        struct error error;
        if (!worker_line_parse(cases[i].text, strlen(cases[i].text), &line, &error))
            fail_msg("%s", error.text);
        assert_int_equal(line.kind, cases[i].kind);
        assert_int_equal(line.generation, cases[i].generation);
        assert_int_equal(line.step, cases[i].step);
        if (line.kind == WORKER_LINE_HELLO) assert_string_equal(line.addr, "127.0.0.1:1");
        if (line.kind == WORKER_LINE_PROGRESS)
            assert_string_equal(line.progress.workers[0].slots, "00ff");
        worker_line_close(&line);
    }
    struct worker_line line;
    struct error error;
    assert_false(worker_line_parse("{\"t\":\"x\"}", 9, &line, &error));
    assert_string_equal(
        error.text,
        "worker line: t: expected hello, joined, progress, ckpt, stats, stall, stack or done");
    assert_false(worker_line_parse("hi", 2, &line, &error));
    assert_non_null(strstr(error.text, "worker line: line 1 column"));
}

static void lines_to_workers_are_written(void **state)
{
    (void)state;
    static const struct reply_peer rows[] = {{5, "127.0.0.1:1"}, {6, "127.0.0.1:2"}};
    const struct reply_peers peers = {.job = 1, .peer_count = 2, .peers = rows};
    char *text = worker_line_write_peers(&peers);
    assert_string_equal(text,
                        "{\"t\":\"peers\",\"workers\":[{\"worker\":5,\"addr\":\"127.0.0.1:1\"}"
                        ",{\"worker\":6,\"addr\":\"127.0.0.1:2\"}]}");
    mem_free(text);
    text = worker_line_write_leave("price", 3000);
    assert_string_equal(text, "{\"t\":\"leave\",\"reason\":\"price\",\"deadline_ms\":3000}");
    mem_free(text);
    text = worker_line_write_told(12);
    assert_string_equal(text, "{\"t\":\"told\",\"steps\":12}");
    mem_free(text);
    text = worker_line_write_notice(2000);
    assert_string_equal(text, "{\"t\":\"notice\",\"in_ms\":2000}");
    mem_free(text);
}

/* Parses and writes once; false if any of it ran out of memory. */
static bool round_trip(struct error *ret_error)
{
    struct agent_report report;
    struct agent_reply reply;
    char *text = NULL;
    if (!agent_report_parse(report_text, strlen(report_text), &report, ret_error)) return false;
    text = agent_report_write(&report);
    bool good = text != NULL;
    mem_free(text);
    agent_report_close(&report);
    if (!good) return error_set(ret_error, "out of memory in write");
    if (!agent_reply_parse(reply_text, strlen(reply_text), &reply, ret_error)) return false;
    text = agent_reply_write(&reply);
    good = text != NULL;
    mem_free(text);
    agent_reply_close(&reply);
    return good || error_set(ret_error, "out of memory in write");
}

static void no_allocation_failure_is_lost(void **state)
{
    (void)state;
    bool good = false;
    uint64_t nth;
    for (nth = 1; !good; nth++) {
        struct error error = {{0}};
        mem_fail_at(nth);
        good = round_trip(&error);
        mem_fail_at(0);
        if (!good) assert_non_null(strstr(error.text, "out of memory"));
        assert_true(nth < 5000);
    }
    assert_true(nth > 100); /* jansson's allocations are among them */
}

int main(void)
{
    codec_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_report_of_the_protocol_is_read),
        cmocka_unit_test(the_reply_of_the_protocol_is_read),
        cmocka_unit_test(what_is_written_is_what_was_read),
        cmocka_unit_test(mistakes_name_their_member),
        cmocka_unit_test(a_reply_may_grow),
        cmocka_unit_test(limits_are_refused),
        cmocka_unit_test(loss_that_is_no_number_travels),
        cmocka_unit_test(log_lines_of_any_bytes_travel),
        cmocka_unit_test(worker_lines_are_read),
        cmocka_unit_test(lines_to_workers_are_written),
        cmocka_unit_test(no_allocation_failure_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
