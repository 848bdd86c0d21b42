/* A real agent with real workers (shell scripts) under a scripted server: what it does when all is
 * well, and when the server lies, falls silent, restarts, or refuses it. After every test no
 * process of it may be left.
 */
#include "agent/fake_server.h"
#include "base/clock.h"
#include "core/event.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *agent_program; /* from argv */

enum { JOB = 3, WORKER = 7, WAIT_MS = 15000 };

struct fixture {
    struct fake_server *server;
    char dir[64], token[96], errors[96], server_file[96], url[64];
    pid_t agent;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/shoal-agent-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->token, sizeof f->token, "%s/token", f->dir);
    (void)snprintf(f->errors, sizeof f->errors, "%s/stderr", f->dir);
    (void)snprintf(f->server_file, sizeof f->server_file, "%s/server.json", f->dir);
    FILE *file = fopen(f->token, "w");
    assert_non_null(file);
    fputs("secret-of-the-agents\n", file);
    fclose(file);
    f->server = fake_server_open(0);
    (void)snprintf(f->url, sizeof f->url, "http://127.0.0.1:%u", fake_server_port(f->server));
    *state = f;
    return 0;
}

static void start_agent_as(struct fixture *f, const char *lease_ms, const char *emulate_slot_us)
{
    f->agent = fork();
    assert_true(f->agent >= 0);
    if (f->agent > 0) return;
    int fd = open(f->errors, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)dup2(fd, 2);
    (void)execl(agent_program, agent_program, "--server", f->url, "--token-file", f->token,
                "--node", "42", "--device", "H100", "--zone", "aurora/east-a", "--vram-mib",
                "81920", "--emulate-slot-us", emulate_slot_us, "--data", f->dir, "--lease-ms",
                lease_ms, "--server-file", f->server_file, (char *)NULL);
    _exit(99);
}

static void start_agent(struct fixture *f, const char *lease_ms)
{
    start_agent_as(f, lease_ms, "1000");
}

/* A pidfd is readable once the process has ended: waits for anybody's child, without polling. */
static void wait_gone(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) return; /* gone and reaped */
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&wanted, 1, WAIT_MS), 1);
    (void)close(fd);
}

static int agent_exit(struct fixture *f)
{
    int status;
    wait_gone(f->agent);
    assert_int_equal(waitpid(f->agent, &status, 0), f->agent);
    f->agent = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Live processes that have this test's folder in their environment (SHOAL_STATUS of workers). */
static int processes_of(const struct fixture *f)
{
    static char text[1 << 18];
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        char path[300];
        if (atoi(entry->d_name) <= 0) continue;
        (void)snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        int fd = open(path, O_RDONLY);
        ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof text);
        if (fd >= 0) (void)close(fd);
        if (bytes > 0 && memmem(text, (size_t)bytes, f->dir, strlen(f->dir)) != NULL) count++;
    }
    (void)closedir(proc);
    return count;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[128];
    if (f->agent > 0) {
        (void)kill(f->agent, SIGTERM);
        (void)agent_exit(f);
    }
    fake_server_close(f->server);
    assert_int_equal(processes_of(f), 0);
    (void)snprintf(command, sizeof command, "rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static void assert_said(const struct fixture *f, const char *text)
{
    char content[16384];
    int fd = open(f->errors, O_RDONLY);
    ssize_t bytes = fd < 0 ? -1 : read(fd, content, sizeof content - 1);
    assert_true(bytes >= 0);
    (void)close(fd);
    content[bytes] = '\0';
    if (strstr(content, text) == NULL) fail_msg("the agent did not say \"%s\":\n%s", text, content);
}

/* ---- replies ---- */

static struct reply_worker shell_worker(const char *const *args)
{
    return (struct reply_worker){
        .job = JOB,
        .worker = WORKER,
        .want = REPLY_RUN,
        .arg_count = 3,
        .args = args,
        .dir = "",
        .token = "of-the-job",
        .checkpoint_dir = "",
        .slots = 32,
        .gang = 2,
        .steps = 100,
        .reason = "",
    };
}

static void run_script(struct fixture *f, const char *script, uint32_t slots)
{
    const char *const args[] = {"sh", "-c", script};
    struct reply_worker worker = shell_worker(args);
    worker.slots = slots;
    fake_server_set_reply(
        f->server, &(struct agent_reply){
                       .lease_ms = 15000, .report_ms = 50, .worker_count = 1, .workers = &worker});
}

static void stop_script(struct fixture *f, int64_t deadline_ms)
{
    struct reply_worker worker = {.job = JOB,
                                  .worker = WORKER,
                                  .want = REPLY_STOP,
                                  .reason = "price",
                                  .deadline_ms = deadline_ms};
    fake_server_set_reply(
        f->server, &(struct agent_reply){
                       .lease_ms = 15000, .report_ms = 50, .worker_count = 1, .workers = &worker});
}

static bool any(const struct agent_report *report, void *argument)
{
    (void)report;
    (void)argument;
    return true;
}

static bool in_phase(const struct agent_report *report, void *argument)
{
    return report->worker_count == 1 && report->workers[0].phase == *(const uint32_t *)argument;
}

static struct agent_report wait_phase(struct fixture *f, uint32_t phase)
{
    return fake_server_wait(f->server, in_phase, &phase);
}

static bool has_line(const struct agent_report *report, void *argument)
{
    for (uint32_t i = 0; i < report->log_count; i++)
        if (strstr(report->logs[i].line, argument) != NULL) return true;
    return false;
}

/* Waits until the script has written a line with this text. */
static void wait_line(struct fixture *f, const char *text)
{
    struct agent_report report = fake_server_wait(f->server, has_line, (void *)(uintptr_t)text);
    agent_report_close(&report);
}

/* A script prints "pid N": returns N. */
static pid_t wait_pid(struct fixture *f)
{
    struct agent_report report = fake_server_wait(f->server, has_line, (void *)(uintptr_t) "pid ");
    long pid = 0;
    for (uint32_t i = 0; i < report.log_count; i++)
        if (strncmp(report.logs[i].line, "pid ", 4) == 0) pid = atol(report.logs[i].line + 4);
    agent_report_close(&report);
    assert_true(pid > 1);
    return (pid_t)pid;
}

/* ---- all is well ---- */

static void test_reports_what_it_is(void **state)
{
    struct fixture *f = *state;
    start_agent(f, "15000");
    struct agent_report report = fake_server_wait(f->server, any, NULL);
    assert_int_equal(report.phase, AGENT_PHASE_JOINED);
    assert_int_equal(report.pid, f->agent);
    assert_string_equal(report.device_model, "H100");
    assert_int_equal(report.device_count, 1);
    assert_int_equal(report.device_vram_mib, 81920);
    agent_report_close(&report);
}

static void test_worker_joins_and_finishes(void **state)
{
    struct fixture *f = *state;
    run_script(f,
               "echo '{\"t\":\"hello\",\"addr\":\"127.0.0.1:4711\"}' >&3; "
               "echo '{\"t\":\"joined\",\"generation\":1,\"step\":5}' >&3; "
               "echo \"$SHOAL_JOB $SHOAL_WORKER $SHOAL_NODE $SHOAL_SLOTS $SHOAL_STEPS $SHOAL_GANG "
               "$SHOAL_DEVICE_MODEL $SHOAL_ZONE $SHOAL_TOKEN $SHOAL_EMULATE_SLOT_US\"; "
               "echo oops >&2; read line <&3",
               32);
    start_agent(f, "15000");
    struct agent_report report = wait_phase(f, WORKER_PHASE_RUNNING);
    assert_string_equal(report.workers[0].addr, "127.0.0.1:4711");
    assert_int_equal(report.workers[0].step, 5);
    agent_report_close(&report);
    wait_line(f, "3 7 42 32 100 2 H100 aurora/east-a of-the-job 1000");
    wait_line(f, "oops");
    stop_script(f, 5000); /* the script reads the leave line and exits 0 */
    report = wait_phase(f, WORKER_PHASE_STOPPED);
    assert_int_equal(report.workers[0].exit_code, 0);
    agent_report_close(&report);
}

/* It is told which devices are its own, in the words of each maker; where the agent itself was given some
 * of the machine's, by the machine's numbers. */
static void test_worker_sees_only_its_devices(void **state)
{
    struct fixture *f = *state;
    static const char tell[] = "echo \"$SHOAL_DEVICES $SHOAL_DEVICE_MILLI $CUDA_VISIBLE_DEVICES "
                               "$ROCR_VISIBLE_DEVICES $ASCEND_RT_VISIBLE_DEVICES.\"";
    const char *const args[] = {"/bin/sh", "-c", tell};
    struct reply_worker worker = shell_worker(args);
    worker.slots = 0;
    worker.device_mask = 1 << 1 | 1 << 3;
    worker.device_milli = 1000;
    fake_server_set_reply(
        f->server, &(struct agent_reply){
                       .lease_ms = 15000, .report_ms = 50, .worker_count = 1, .workers = &worker});
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "4,GPU-5,6,GPU-7", 1), 0);
    start_agent_as(f, "15000", "0");
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    wait_line(f, "1,3  GPU-5,GPU-7 1,3 1,3.");
    struct agent_report report = wait_phase(f, WORKER_PHASE_FINISHED);
    agent_report_close(&report);
}

static void test_batch_ends(void **state)
{
    struct fixture *f = *state;
    run_script(f, "exit 0", 0);
    start_agent(f, "15000");
    struct agent_report report = wait_phase(f, WORKER_PHASE_FINISHED);
    agent_report_close(&report);
    /* A reply that is late and still wants it must not run it twice. */
    fake_server_forget(f->server);
    for (int i = 0; i < 5; i++) {
        report = fake_server_wait(f->server, any, NULL);
        assert_int_equal(report.worker_count, 1);
        assert_int_equal(report.workers[0].phase, WORKER_PHASE_FINISHED);
        agent_report_close(&report);
    }
}

static void test_worker_leaves_nobody_behind(void **state)
{
    struct fixture *f = *state;
    run_script(f, "sleep 60 & echo \"pid $!\"; exit 0", 0);
    start_agent(f, "15000");
    wait_gone(wait_pid(f)); /* while the agent lives on */
    struct agent_report report = wait_phase(f, WORKER_PHASE_FINISHED);
    agent_report_close(&report);
}

static void test_failure_is_told(void **state)
{
    struct fixture *f = *state;
    run_script(f, "exit 3", 32);
    start_agent(f, "15000");
    struct agent_report report = wait_phase(f, WORKER_PHASE_FAILED);
    assert_int_equal(report.workers[0].exit_code, 3);
    agent_report_close(&report);
}

static void test_command_that_is_not_there(void **state)
{
    struct fixture *f = *state;
    const char *const args[] = {"/nonexistent/program", "a", "b"};
    struct reply_worker worker = shell_worker(args);
    fake_server_set_reply(
        f->server, &(struct agent_reply){
                       .lease_ms = 15000, .report_ms = 50, .worker_count = 1, .workers = &worker});
    start_agent(f, "15000");
    struct agent_report report = wait_phase(f, WORKER_PHASE_FAILED);
    assert_int_equal(report.workers[0].exit_code, 127);
    agent_report_close(&report);
}

static void test_peers_are_passed_on(void **state)
{
    struct fixture *f = *state;
    const char *const args[] = {"sh", "-c", "while read line <&3; do echo \"got $line\"; done"};
    struct reply_worker worker = shell_worker(args);
    struct reply_peer peer = {.worker = 9, .addr = "127.0.0.1:9009"};
    struct reply_peers peers = {.job = JOB, .peer_count = 1, .peers = &peer};
    struct agent_reply reply = {.lease_ms = 15000,
                                .report_ms = 50,
                                .worker_count = 1,
                                .workers = &worker,
                                .peers_count = 1,
                                .peers = &peers};
    fake_server_set_reply(f->server, &reply);
    start_agent(f, "15000");
    wait_line(f, "127.0.0.1:9009");
    peer.addr = "127.0.0.1:9010";
    fake_server_set_reply(f->server, &reply);
    wait_line(f, "127.0.0.1:9010");
}

/* ---- stopping ---- */

static void test_stubborn_worker_is_killed_at_the_deadline(void **state)
{
    struct fixture *f = *state;
    /* The shell ignores SIGTERM, and so does the sleep it starts; its number is the one told. */
    run_script(f, "trap '' TERM; sleep 60 & echo \"pid $!\"; wait", 32);
    start_agent(f, "15000");
    pid_t pid = wait_pid(f);
    stop_script(f, 300);
    struct agent_report report = wait_phase(f, WORKER_PHASE_STOPPED);
    assert_int_equal(report.workers[0].exit_code, 128 + SIGKILL);
    agent_report_close(&report);
    wait_gone(pid); /* the whole group */
}

static void test_unlisted_worker_is_stopped(void **state)
{
    struct fixture *f = *state;
    run_script(f, "echo \"pid $$\"; exec sleep 60", 32);
    start_agent(f, "15000");
    pid_t pid = wait_pid(f);
    fake_server_set_reply(f->server, &(struct agent_reply){.lease_ms = 15000, .report_ms = 50});
    wait_gone(pid);
}

static void test_leave_stops_everything(void **state)
{
    struct fixture *f = *state;
    run_script(f, "echo \"pid $$\"; exec sleep 60", 32);
    start_agent(f, "15000");
    pid_t pid = wait_pid(f);
    fake_server_set_reply(f->server,
                          &(struct agent_reply){.lease_ms = 15000, .report_ms = 50, .leave = true});
    wait_gone(pid);
    struct agent_report report = wait_phase(f, WORKER_PHASE_STOPPED); /* the last report says so */
    assert_int_equal(report.phase, AGENT_PHASE_LEAVING);
    agent_report_close(&report);
    assert_int_equal(agent_exit(f), 0);
}

static void test_workers_die_with_a_killed_agent(void **state)
{
    struct fixture *f = *state;
    run_script(f, "echo \"pid $$\"; exec sleep 60", 32);
    start_agent(f, "15000");
    pid_t pid = wait_pid(f);
    assert_int_equal(kill(f->agent, SIGKILL), 0);
    wait_gone(pid);
    assert_int_equal(agent_exit(f), 128 + SIGKILL);
}

static void notice_script(struct fixture *f, const char *script)
{
    const char *const args[] = {"sh", "-c", script};
    struct reply_worker worker = shell_worker(args);
    fake_server_set_reply(f->server, &(struct agent_reply){.lease_ms = 15000,
                                                           .report_ms = 50,
                                                           .worker_count = 1,
                                                           .workers = &worker,
                                                           .notice_ms = 2000});
}

static void test_notice_is_passed_on(void **state)
{
    struct fixture *f = *state;
    /* `read` is interrupted by the trap: try again. */
    const char *script = "trap 'echo signalled' USR1; echo ready; "
                         "until read line <&3; do :; done; echo \"got $line\"; sleep 60 & wait";
    run_script(f, script, 32);
    start_agent(f, "15000");
    wait_line(f, "ready");
    notice_script(f, script);
    wait_line(f, "signalled");
    wait_line(f, "\"notice\"");
}

static void test_notice_does_not_kill_the_unprepared(void **state)
{
    struct fixture *f = *state;
    const char *script = "echo ready; while read line <&3; do echo \"got $line\"; done";
    run_script(f, script, 32);
    start_agent(f, "15000");
    wait_line(f, "ready");
    notice_script(f, script);
    wait_line(f, "\"notice\"");
    fake_server_forget(f->server);
    struct agent_report report = wait_phase(f, WORKER_PHASE_STARTING); /* alive */
    agent_report_close(&report);
}

/* ---- the server lies, falls silent, restarts ---- */

static void test_wrong_token(void **state)
{
    struct fixture *f = *state;
    fake_server_set_raw(f->server, 401, "{\"error\":\"wrong token\"}");
    start_agent(f, "15000");
    assert_int_equal(agent_exit(f), 1);
    assert_said(f, "refuses the token of");
    assert_said(f, "agent-token");
}

static void test_missing_token_file(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(unlink(f->token), 0);
    start_agent(f, "15000");
    assert_int_equal(agent_exit(f), 1);
    assert_said(f, "agent token");
}

static void test_lease_ends(void **state)
{
    struct fixture *f = *state;
    static const char script[] = "trap '' TERM; setsid sleep 60 & sleep 60 & echo \"pid $!\"; wait";
    const char *const args[] = {"sh", "-c", script};
    struct reply_worker worker = shell_worker(args);
    fake_server_set_reply(
        f->server, &(struct agent_reply){
                       .lease_ms = 800, .report_ms = 50, .worker_count = 1, .workers = &worker});
    start_agent(f, "15000");
    pid_t pid = wait_pid(f);
    fake_server_set_raw(f->server, 503, "{\"error\":\"busy\"}");
    wait_gone(pid);
    assert_int_equal(agent_exit(f), 1);
    assert_said(f, "the lease has ended");
    assert_int_equal(processes_of(f), 0); /* the one that left the session too */
}

static void test_nobody_there(void **state)
{
    struct fixture *f = *state;
    (void)snprintf(f->url, sizeof f->url, "http://127.0.0.1:1"); /* nothing listens on port 1 */
    start_agent(f, "500");
    assert_int_equal(agent_exit(f), 1);
    assert_said(f, "trying again until the lease ends");
}

static void test_garbage_changes_nothing(void **state)
{
    static const char *const garbage[] = {
        "",
        "{",
        "null",
        "[]",
        "{\"lease_ms\":\"x\"}",
        "{\"workers\":7}",
        "<html>\377\376",
        "{\"lease_ms\":15000,\"report_ms\":50,\"workers\":[{\"job\":1}]}",
    };
    struct fixture *f = *state;
    run_script(f, "echo \"pid $$\"; exec sleep 60", 32);
    start_agent(f, "15000");
    pid_t pid = wait_pid(f);
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        fake_server_set_raw(f->server, 200, garbage[i]);
        fake_server_forget(f->server);
        struct agent_report report = fake_server_wait(f->server, any, NULL);
        agent_report_close(&report);
    }
    assert_int_equal(kill(pid, 0), 0);
    run_script(f, "echo \"pid $$\"; exec sleep 60", 32);
    struct agent_report report = wait_phase(f, WORKER_PHASE_STARTING);
    agent_report_close(&report);
}

static bool has_progress(const struct agent_report *report, void *argument)
{
    return report->progress_count == *(const uint32_t *)argument;
}

static void test_progress_survives_a_server_restart(void **state)
{
    struct fixture *f = *state;
    run_script(f,
               "for s in 1 2 3; do echo '{\"t\":\"progress\",\"step\":'$s',\"loss\":2.5,"
               "\"generation\":1,\"attempt\":1,\"workers\":[{\"worker\":7,\"slots\":\"ff\"}]}' >&3;"
               " done; echo '{\"t\":\"ckpt\",\"step\":2}' >&3; exec sleep 60",
               32);
    start_agent(f, "15000");
    uint32_t three = 3, none = 0;
    struct agent_report report = fake_server_wait(f->server, has_progress, &three);
    assert_int_equal(report.progress[2].step, 3);
    assert_int_equal(report.progress[0].job, JOB);
    agent_report_close(&report);

    uint16_t port = fake_server_port(f->server); /* killed before it stored them */
    fake_server_close(f->server);
    f->server = fake_server_open(port);
    report = fake_server_wait(f->server, has_progress, &three);
    assert_int_equal(report.progress[0].step, 1);
    assert_int_equal(report.ckpt_count, 1);
    assert_int_equal(report.ckpts[0].step, 2);
    agent_report_close(&report);
    const char *const args[] = {"sh", "-c", "exit"};
    struct reply_worker worker = shell_worker(args);
    fake_server_set_reply(f->server, &(struct agent_reply){.lease_ms = 15000,
                                                           .report_ms = 50,
                                                           .progress_after = 3,
                                                           .worker_count = 1,
                                                           .workers = &worker});
    report = fake_server_wait(f->server, has_progress, &none);
    agent_report_close(&report);
}

static void test_server_comes_back_elsewhere(void **state)
{
    struct fixture *f = *state;
    run_script(f, "echo \"pid $$\"; exec sleep 60", 32);
    start_agent(f, "15000");
    pid_t pid = wait_pid(f);
    struct fake_server *other = fake_server_open(0);
    FILE *file = fopen(f->server_file, "w");
    assert_non_null(file);
    fprintf(file, "{\"url\":\"http://127.0.0.1:%u\",\"pid\":1}\n", fake_server_port(other));
    fclose(file);
    fake_server_close(f->server);
    f->server = other;
    run_script(f, "exit 1", 32); /* what it runs does not matter: the worker runs already */
    struct agent_report report = wait_phase(f, WORKER_PHASE_STARTING);
    agent_report_close(&report);
    assert_int_equal(kill(pid, 0), 0);
}

static bool has_logs_after(const struct agent_report *report, void *argument)
{
    return report->logs_after == *(const uint64_t *)argument && report->log_count == 1;
}

static void test_logs_are_acknowledged(void **state)
{
    struct fixture *f = *state;
    const char *const args[] = {"sh", "-c", "echo one; echo two; echo three; exec sleep 60"};
    struct reply_worker worker = shell_worker(args);
    struct agent_reply reply = {
        .lease_ms = 15000, .report_ms = 50, .worker_count = 1, .workers = &worker};
    fake_server_set_reply(f->server, &reply);
    start_agent(f, "15000");
    wait_line(f, "three");
    reply.logs_after = 2;
    fake_server_set_reply(f->server, &reply);
    uint64_t after = 2;
    struct agent_report report = fake_server_wait(f->server, has_logs_after, &after);
    assert_string_equal(report.logs[0].line, "three");
    assert_string_equal(report.logs[0].stream, "out");
    assert_int_equal(report.logs[0].worker, WORKER);
    agent_report_close(&report);
}

static void test_flood_is_bounded_and_said(void **state)
{
    struct fixture *f = *state;
    const char *const args[] = {"sh", "-c",
                                "yes flood | head -n 50000; sleep 0.2; echo after; exec sleep 60"};
    struct reply_worker worker = shell_worker(args);
    fake_server_set_reply(f->server, &(struct agent_reply){.lease_ms = 15000,
                                                           .report_ms = 50,
                                                           .logs_after = 1000000,
                                                           .worker_count = 1,
                                                           .workers = &worker});
    start_agent(f, "15000");
    wait_line(f, "lines dropped");
    assert_true(fake_server_count(f->server) < 2000);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s AGENT\n", argv[0]);
        return 2;
    }
    agent_program = argv[1];
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(reports_what_it_is),
        TEST(worker_joins_and_finishes),
        TEST(worker_sees_only_its_devices),
        TEST(batch_ends),
        TEST(worker_leaves_nobody_behind),
        TEST(failure_is_told),
        TEST(command_that_is_not_there),
        TEST(peers_are_passed_on),
        TEST(stubborn_worker_is_killed_at_the_deadline),
        TEST(unlisted_worker_is_stopped),
        TEST(leave_stops_everything),
        TEST(workers_die_with_a_killed_agent),
        TEST(notice_is_passed_on),
        TEST(notice_does_not_kill_the_unprepared),
        TEST(wrong_token),
        TEST(missing_token_file),
        TEST(lease_ends),
        TEST(nobody_there),
        TEST(garbage_changes_nothing),
        TEST(progress_survives_a_server_restart),
        TEST(server_comes_back_elsewhere),
        TEST(logs_are_acknowledged),
        TEST(flood_is_bounded_and_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
