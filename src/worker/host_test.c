/* What a thread does and where it stands, seen from within the process; and a page that a stopped
 * process left, read from outside. */
#include "base/clock.h"
#include "worker/host.h"
#include "worker/status.h"
#include "worker/symbols.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static _Atomic bool over;
static int pipe_fd[2];

static __attribute__((noinline)) void sleep_deeply(void)
{
    while (!over) (void)nanosleep(&(struct timespec){1, 0}, NULL); /* ended by the signal: again */
}

static __attribute__((noinline)) void read_nothing(void)
{
    char byte;
    ssize_t got = read(pipe_fd[0], &byte, 1);
    (void)got; /* ended by a byte */
}

static __attribute__((noinline)) void spin_around(void)
{
    volatile uint64_t count = 0;
    while (!over) count = count + 1;
}

static void *program(void *work)
{
    host_watch();
    ((void (*)(void))(uintptr_t)work)();
    return NULL;
}

static void pause_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {}
}

static void watch_one(void (*work)(void), enum record_host host, const char *function)
{
    pthread_t thread;
    struct host_view view = {0};
    char text[HOST_TEXT_BYTES] = "";
    over = false;
    assert_int_equal(pthread_create(&thread, NULL, program, (void *)(uintptr_t)work), 0);
    for (int i = 0; i < 400 && view.host != host; i++) { /* until it is there */
        pause_ms(5);
        if (!host_look(&view)) view.host = HOST_UNKNOWN;
    }
    assert_int_equal(view.host, host);
    for (int i = 0; i < 400 && !host_capture(); i++) pause_ms(5);
    for (int i = 0; i < 400 && !host_take_capture(text); i++) pause_ms(5);
    over = true;
    assert_int_equal(write(pipe_fd[1], "x", 1), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (strstr(text, function) == NULL) fail_msg("%s is not in:\n%s", function, text);
}

static void a_thread_is_seen_where_it_stands(void **state)
{
    (void)state;
    assert_int_equal(pipe(pipe_fd), 0);
    watch_one(sleep_deeply, HOST_SLEEPS, "sleep_deeply+");
    char byte;
    assert_int_equal(read(pipe_fd[0], &byte, 1), 1);
    watch_one(read_nothing, HOST_READS, "read_nothing+");
    watch_one(spin_around, HOST_RUNS, "spin_around+");
}

static void static_functions_have_names(void **state)
{
    (void)state;
    char name[SYMBOL_BYTES];
    symbol_name((const void *)((uintptr_t)sleep_deeply + 1), name);
    assert_non_null(strstr(name, "sleep_deeply+0x1 ("));
    symbol_name((const void *)(uintptr_t)16, name);
    assert_string_equal(name, "0x10");
}

/* A child that stops in slot 12 of step 40, after steps of 20 ms: its page tells, /proc tells. */
static void run_child(const char *path)
{
    struct error error;
    struct status_page *page = status_open(path, &error);
    struct worker_status facts = {.job = 1, .worker = 5, .phase = DOING_COMPUTE};
    if (page == NULL) _exit(1);
    status_write(page, &facts);
    int64_t now_us = clock_monotonic_us() - 41 * 20000;
    for (uint64_t step = 0; step <= 40; step++, now_us += 20000) {
        struct record_place place = {
            .step = step, .attempt = 1, .phase = RECORD_COMPUTE, .detail = 12};
        (void)recorder_enter(status_recorder(page), &place, now_us);
        place.phase = RECORD_REDUCE;
        if (step < 40) (void)recorder_enter(status_recorder(page), &place, now_us + 15000);
    }
    (void)raise(SIGSTOP);
    _exit(0);
}

static void a_stopped_process_is_read(void **state)
{
    (void)state;
    char path[64];
    int status;
    struct host_view view;
    struct status_lateness late;
    struct recorder recorder;
    struct error error;
    snprintf(path, sizeof path, "host-test-%ld", (long)getpid());
    pid_t pid = fork();
    if (pid == 0) run_child(path);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_true(host_look_at(pid, pid, &view));
    assert_int_equal(view.host, HOST_STOPPED);
    assert_true(status_read_recorder(path, &recorder, &error));
    assert_int_equal(recorder_last(&recorder, 0)->detail, 12);
    assert_int_equal(recorder_last(&recorder, 1)->phase, RECORD_REDUCE);
    assert_true(status_lateness(path, clock_monotonic_us(), &late));
    assert_false(late.is_late);
    assert_true(status_lateness(path, clock_monotonic_us() + 5000000, &late));
    assert_true(late.is_late);
    assert_int_equal(late.step, 40);
    assert_int_equal(late.slot, 12);
    assert_int_equal(late.usual_us, 15000);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(status_read_recorder(path, &recorder, &error)); /* dead now */
    assert_int_equal(recorder_last(&recorder, 0)->step, 40);
    unlink(path);
    assert_false(status_lateness(path, clock_monotonic_us(), &late));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_process_is_read),
        cmocka_unit_test(a_thread_is_seen_where_it_stands),
        cmocka_unit_test(static_functions_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
