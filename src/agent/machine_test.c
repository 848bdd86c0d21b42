/* The emulated cloud with real agents: driver `local` starts a machine, its agent dials a scripted
 * server and runs a worker, and the machine ends in each of the ways machines end.
 */
#include "agent/fake_server.h"
#include "base/clock.h"
#include "driver/driver_contract.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *agent_program, *worker_program; /* from argv */

static const char scenario_head[] =
    "emulate: {slot_ms_at_1_ncu: 100}\n"
    "zones:\n  aurora/east-a: {region: east, boot: {min: 10ms, max: 20ms}}\n"
    "offers:\n"
    "  - {zone: aurora/east-a, model: H100, kind: spot, on_demand: 4.50, spot: 1.8, stock: 3}\n"
    "preemptions: {mean_life: 0s}\n";

static const struct driver_offer_name offer = {"aurora", "east",        "aurora/east-a",
                                               "H100",   CAPACITY_SPOT, 1};

struct fixture {
    struct contract contract; /* first */
    struct fake_server *server;
    char dir[64], token[128], scenario[128], url[64];
};

static struct driver *open_local(struct contract *c)
{
    struct fixture *f = (struct fixture *)c;
    static const struct driver_model models[] = {{"H100", 2500, 81920}};
    const struct driver_options options = {
        .provider = "local",
        .scenario_file = f->scenario,
        .data_dir = f->dir,
        .server_url = f->url,
        .agent_token_file = f->token,
        .program = agent_program,
        .models = models,
        .model_count = 1,
        .loop = &c->loop,
        .host = contract_host(c),
    };
    struct error error;
    struct driver *driver = driver_open("local", &options, &error);
    if (driver == NULL) fail_msg("%s", error.text);
    return driver;
}

static int count_processes(struct contract *c)
{
    return contract_processes_with(((const struct fixture *)c)->dir);
}

static void write_text(const char *path, const char *head, const char *tail)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(head, file);
    fputs(tail, file);
    fclose(file);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/shoal-machine-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->token, sizeof f->token, "%s/token", f->dir);
    (void)snprintf(f->scenario, sizeof f->scenario, "%s/scenario.yaml", f->dir);
    assert_int_equal(setenv("SHOAL_TEST_TAG", f->dir, 1), 0);
    write_text(f->token, "secret\n", "");
    write_text(f->scenario, scenario_head, "");
    f->server = fake_server_open(0);
    (void)snprintf(f->url, sizeof f->url, "http://127.0.0.1:%u", fake_server_port(f->server));
    f->contract.open = open_local;
    f->contract.processes_left = count_processes;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[128];
    assert_int_equal(count_processes(&f->contract), 0);
    fake_server_close(f->server);
    (void)snprintf(command, sizeof command, "rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static void run_worker(struct fixture *f, const char *const *args, int64_t lease_ms)
{
    struct reply_worker worker = {.job = 1,
                                  .worker = 5,
                                  .want = REPLY_RUN,
                                  .arg_count = args[1] == NULL ? 1 : 3,
                                  .args = args,
                                  .dir = "",
                                  .token = "t",
                                  .checkpoint_dir = "",
                                  .reason = ""};
    fake_server_set_reply(f->server, &(struct agent_reply){.lease_ms = lease_ms,
                                                           .report_ms = 50,
                                                           .worker_count = 1,
                                                           .workers = &worker});
}

static bool runs(const struct agent_report *report, void *argument)
{
    (void)argument;
    return report->worker_count == 1 && report->workers[0].phase == WORKER_PHASE_RUNNING;
}

static bool works(const struct agent_report *report, void *argument)
{
    (void)argument;
    return report->worker_count == 1 && strcmp(report->workers[0].doing, "reduce") == 0;
}

static void wait_report(struct fixture *f, fake_server_test_fn *test)
{
    struct agent_report report = fake_server_wait(f->server, test, NULL);
    assert_string_equal(report.device_model, "H100");
    assert_int_equal(report.device_vram_mib, 81920);
    agent_report_close(&report);
}

static void test_worker_runs_and_machine_is_let_go(void **state)
{
    struct fixture *f = *state;
    const char *const args[] = {"sh", "-c", "setsid sleep 60 & exec sleep 60"};
    run_worker(f, args, 15000);
    contract_open(&f->contract);
    driver_ensure(f->contract.driver, 1, &offer, /* bid */ 0);
    contract_wait(&f->contract, contract_is_up, 1);
    wait_report(f, runs);
    assert_true(count_processes(&f->contract) >= 2);
    driver_release(f->contract.driver, 1);
    contract_wait(&f->contract, contract_is_over, 1);
    assert_int_equal(contract_node(&f->contract, 1)->last.reason, NODE_REASON_RELEASED);
    assert_int_equal(count_processes(&f->contract), 0);
    contract_close(&f->contract, true);
}

static void read_history(const struct fixture *f, char *ret_text, size_t bytes)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/local/history.jsonl", f->dir);
    int fd = open(path, O_RDONLY);
    ssize_t count = fd < 0 ? -1 : read(fd, ret_text, bytes - 1);
    assert_true(count >= 0);
    (void)close(fd);
    ret_text[count] = '\0';
}

static void test_killed_in_the_middle_of_a_reduction(void **state)
{
    struct fixture *f = *state;
    const char *const args[] = {worker_program, NULL, NULL};
    write_text(f->scenario, scenario_head,
               "events:\n  - {at_step: 1, preempt: {during: reduce}}\n");
    run_worker(f, args, 15000);
    contract_open(&f->contract);
    driver_ensure(f->contract.driver, 1, &offer, /* bid */ 0);
    contract_wait(&f->contract, contract_is_up, 1);
    wait_report(f, works);
    driver_step_committed(f->contract.driver, 1, 1);
    contract_wait(&f->contract, contract_is_over, 1);
    assert_int_equal(contract_node(&f->contract, 1)->last.reason, NODE_REASON_PREEMPTED);
    assert_int_equal(count_processes(&f->contract), 0);
    char history[8192];
    read_history(f, history, sizeof history);
    assert_non_null(strstr(history, "\"what\":\"gone\""));
    assert_non_null(strstr(history, "\"page\":\"reduce\""));
    contract_close(&f->contract, true);
}

static bool no_processes(struct contract *c, uint64_t argument)
{
    (void)argument;
    return count_processes(c) == 0;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer; /* wakes contract_wait() up, so that it looks again */
}

/* The server is killed and nobody comes back: the lease is the bound on the leak. */
static void test_machine_ends_itself_without_a_server(void **state)
{
    struct fixture *f = *state;
    const char *const args[] = {"sh", "-c", "exec sleep 60"};
    run_worker(f, args, 500);
    contract_open(&f->contract);
    driver_ensure(f->contract.driver, 1, &offer, /* bid */ 0);
    contract_wait(&f->contract, contract_is_up, 1);
    wait_report(f, runs);
    contract_close(&f->contract, false);
    fake_server_set_raw(f->server, 500, "{}");
    uv_timer_t timer;
    assert_int_equal(uv_loop_init(&f->contract.loop), 0);
    (void)uv_timer_init(&f->contract.loop, &timer);
    (void)uv_timer_start(&timer, on_tick, 20, 20);
    contract_wait(&f->contract, no_processes, 0);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&f->contract.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->contract.loop), 0);
    /* The next server finds it dead, and billed until then. */
    contract_open(&f->contract);
    driver_observe(f->contract.driver, 1);
    contract_wait(&f->contract, contract_is_over, 1);
    assert_int_equal(contract_node(&f->contract, 1)->last.reason, NODE_REASON_CRASHED);
    contract_close(&f->contract, true);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s AGENT WORKER\n", argv[0]);
        return 2;
    }
    agent_program = argv[1];
    worker_program = argv[2];
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(worker_runs_and_machine_is_let_go),
        TEST(killed_in_the_middle_of_a_reduction),
        TEST(machine_ends_itself_without_a_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
