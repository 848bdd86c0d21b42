/* Driver `local` against the contract of every driver, and what only it does: script, notice,
 * sudden loss, stock, crash, restart in the middle of a notice.
 */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "driver/driver_contract.h"
#include "driver/local_world.h"
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *fake_machine; /* path of the stand-in for the agent, from argv */

static const char scenario_head[] =
    "seed: 7\n"
    "zones:\n"
    "  aurora/east-a: {region: east, notice: 300ms, boot: {min: 10ms, max: 50ms}}\n"
    "  borealis/east-1: {region: east, notice: 0s, boot: {min: 10ms, max: 50ms}}\n"
    "offers:\n"
    "  - {zone: aurora/east-a, model: H100, kind: on_demand, on_demand: 4.50, stock: 3}\n"
    "  - {zone: aurora/east-a, model: A10, kind: spot, on_demand: 1.10, spot: 0.40, stock: 2}\n"
    "  - {zone: borealis/east-1, model: A10, kind: spot, on_demand: 1.10, spot: 0.40, stock: 2}\n"
    "prices: {every: 20ms, volatility: 0.05}\n"
    "preemptions: {mean_life: 0s, mean_outage: 1h}\n";

static const struct driver_model models[] = {{"H100", 2500, 81920}, {"A10", 400, 24576}};

struct world {
    struct contract contract; /* first */
    char dir[64], scenario[128], tag[128];
};

static struct driver *open_local(struct contract *c)
{
    struct world *w = (struct world *)c;
    const struct driver_options options = {
        .provider = "local",
        .scenario_file = w->scenario,
        .data_dir = w->dir,
        .server_url = "http://127.0.0.1:1",
        .agent_token_file = "/nonexistent",
        .program = fake_machine,
        .models = models,
        .model_count = 2,
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
    return contract_processes_with(((const struct world *)c)->tag);
}

static void write_scenario(struct world *w, const char *tail)
{
    FILE *file = fopen(w->scenario, "w");
    assert_non_null(file);
    fputs(scenario_head, file);
    fputs(tail, file);
    fclose(file);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    (void)snprintf(w->dir, sizeof w->dir, "/tmp/shoal-local-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->scenario, sizeof w->scenario, "%s/scenario.yaml", w->dir);
    (void)snprintf(w->tag, sizeof w->tag, "SHOAL_TEST_TAG=%s", w->dir);
    assert_int_equal(setenv("SHOAL_TEST_TAG", w->dir, 1), 0);
    write_scenario(w, "");
    w->contract.open = open_local;
    w->contract.processes_left = count_processes;
    w->contract.wanted = (struct driver_offer_name){
        .provider = "aurora",
        .region = "east",
        .zone = "aurora/east-a",
        .model = "H100",
        .capacity = CAPACITY_ON_DEMAND,
        .device_count = 1,
    };
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    char command[128];
    assert_int_equal(count_processes(&w->contract), 0);
    (void)snprintf(command, sizeof command, "rm -rf %s", w->dir);
    assert_int_equal(system(command), 0);
    free(w);
    return 0;
}

#define CONTRACT_TEST(name)                                                                        \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        contract_case_##name(*state);                                                              \
    }
CONTRACT_TEST(offers)
CONTRACT_TEST(ensure_is_idempotent)
CONTRACT_TEST(release_uses_the_key_up)
CONTRACT_TEST(release_of_unknown)
CONTRACT_TEST(observe)
CONTRACT_TEST(restart_finds_nodes)
CONTRACT_TEST(meter)
CONTRACT_TEST(close_releases)

static const struct driver_offer_name spot_a = {"aurora", "east",        "aurora/east-a",
                                                "A10",    CAPACITY_SPOT, 1};
static const struct driver_offer_name spot_b = {"borealis", "east",        "borealis/east-1",
                                                "A10",      CAPACITY_SPOT, 1};

static void test_stockout_is_refused(void **state)
{
    struct contract *c = *state;
    contract_open(c);
    for (uint64_t key = 1; key <= 3; key++) driver_ensure(c->driver, key, &spot_a, /* bid */ 0);
    contract_wait(c, contract_is_over, 3);
    assert_int_equal(contract_node(c, 3)->last.phase, NODE_PHASE_REFUSED);
    assert_int_equal(contract_node(c, 3)->last.reason, NODE_REASON_STOCKOUT);
    contract_wait(c, contract_is_up, 1);
    contract_wait(c, contract_is_up, 2);
    contract_wait(c, contract_has_offers, 3);
    assert_int_equal(contract_offer(c, "aurora/east-a", "A10", CAPACITY_SPOT)->stock_count, 0);
    contract_close(c, true);
}

static bool has_notice(struct contract *c, uint64_t key);

/* Above its bid a node is refused, or taken with the notice of its zone; at a bid that holds it stays. */
static void test_a_bid_is_honoured(void **state)
{
    struct world *w = *state;
    struct contract *c = *state;
    write_scenario(w,
                   "events:\n  - {at: 200ms, price: {zone: aurora/east-a, model: A10, "
                   "usd_per_hour: 0.90}}\n");
    contract_open(c);
    driver_ensure(c->driver, 1, &spot_a, /* bid */ 800000);
    driver_ensure(c->driver, 2, &spot_a, /* bid */ 950000);
    driver_ensure(c->driver, 3, &spot_b, /* bid */ 100000);
    contract_wait(c, contract_is_over, 3);
    assert_int_equal(contract_node(c, 3)->last.phase, NODE_PHASE_REFUSED);
    assert_int_equal(contract_node(c, 3)->last.reason, NODE_REASON_STOCKOUT);
    contract_wait(c, has_notice, 1);
    contract_wait(c, contract_is_over, 1);
    assert_int_equal(contract_node(c, 1)->last.reason, NODE_REASON_PREEMPTED);
    assert_true(contract_is_up(c, 2));
    contract_close(c, true);
}

static bool has_notice(struct contract *c, uint64_t key)
{
    return contract_node(c, key) != NULL && contract_node(c, key)->notice_seen;
}

static void test_preemption_with_notice(void **state)
{
    struct world *w = *state;
    struct contract *c = *state;
    assert_int_equal(setenv("FAKE_MACHINE_STUBBORN", "1", 1), 0);
    write_scenario(w, "events:\n  - {at: 50ms, preempt: {zone: aurora/east-a, notice: 250ms}}\n");
    contract_open(c);
    driver_ensure(c->driver, 1, &spot_a, /* bid */ 0);
    contract_wait(c, has_notice, 1);
    int64_t notice_us = contract_node(c, 1)->last.notice_us;
    assert_true(contract_is_up(c, 1));
    contract_wait(c, contract_is_over, 1);
    assert_int_equal(contract_node(c, 1)->last.reason, NODE_REASON_PREEMPTED);
    assert_true(clock_wall_us() >= notice_us); /* not before the notice is over */
    assert_int_equal(count_processes(c), 0);
    contract_close(c, true);
    (void)unsetenv("FAKE_MACHINE_STUBBORN");
}

static void test_preemption_without_notice(void **state)
{
    struct world *w = *state;
    struct contract *c = *state;
    write_scenario(w, "events:\n  - {at: 50ms, preempt: {zone: borealis/east-1}}\n");
    contract_open(c);
    driver_ensure(c->driver, 1, &spot_a, /* bid */ 0);
    driver_ensure(c->driver, 2, &spot_b, /* bid */ 0);
    contract_wait(c, contract_is_over, 2);
    assert_int_equal(contract_node(c, 2)->last.reason, NODE_REASON_PREEMPTED);
    assert_false(contract_node(c, 2)->notice_seen);
    assert_true(contract_is_up(c, 1));
    /* Its place is sold to somebody else for an hour. */
    driver_observe_all(c->driver);
    contract_wait(c, contract_is_up, 1);
    assert_int_equal(contract_offer(c, "borealis/east-1", "A10", CAPACITY_SPOT)->stock_count, 1);
    contract_close(c, true);
}

/* The emulated cloud goes on without a server: a notice given before a restart is kept after it. */
static void test_notice_survives_restart(void **state)
{
    struct world *w = *state;
    struct contract *c = *state;
    write_scenario(w, "events:\n  - {at: 10ms, preempt: {zone: aurora/east-a, notice: 4s}}\n");
    contract_open(c);
    driver_ensure(c->driver, 1, &spot_a, /* bid */ 0);
    contract_wait(c, has_notice, 1);
    int64_t notice_us = contract_node(c, 1)->last.notice_us;
    contract_close(c, false);
    c->nodes[0].notice_seen = false;
    contract_open(c);
    contract_wait(c, has_notice, 1);
    assert_true(contract_node(c, 1)->last.notice_us == notice_us);
    contract_wait(c, contract_is_over, 1);
    assert_int_equal(contract_node(c, 1)->last.reason, NODE_REASON_PREEMPTED);
    contract_close(c, true);
}

static int32_t pid_of(const struct world *w, uint64_t key)
{
    char path[160];
    struct local_node node;
    (void)snprintf(path, sizeof path, "%s/local/nodes/%" PRIu64 ".json", w->dir, key);
    assert_true(local_node_read(path, &node, NULL));
    return node.machine.pid;
}

static void test_crash_of_the_agent_ends_the_machine(void **state)
{
    struct contract *c = *state;
    contract_open(c);
    driver_ensure(c->driver, 1, &spot_a, /* bid */ 0);
    contract_wait(c, contract_is_up, 1);
    assert_int_equal(kill(pid_of(*state, 1), SIGKILL), 0);
    contract_wait(c, contract_is_over, 1);
    assert_int_equal(contract_node(c, 1)->last.phase, NODE_PHASE_GONE);
    assert_int_equal(contract_node(c, 1)->last.reason, NODE_REASON_CRASHED);
    assert_int_equal(count_processes(c), 0);
    contract_close(c, true);
}

static void test_machine_that_cannot_start_is_refused(void **state)
{
    struct contract *c = *state;
    const char *kept = fake_machine;
    fake_machine = "/nonexistent/program";
    contract_open(c);
    fake_machine = kept;
    driver_ensure(c->driver, 1, &spot_a, /* bid */ 0);
    contract_wait(c, contract_is_over, 1);
    assert_int_equal(contract_node(c, 1)->last.phase, NODE_PHASE_REFUSED);
    assert_int_equal(contract_node(c, 1)->last.reason, NODE_REASON_ERROR);
    const struct driver_offer_name unknown = {"aurora", "east",        "aurora/east-a",
                                              "H200",   CAPACITY_SPOT, 1};
    driver_ensure(c->driver, 2, &unknown, /* bid */ 0);
    contract_wait(c, contract_is_over, 2);
    assert_int_equal(contract_node(c, 2)->last.reason, NODE_REASON_ERROR);
    contract_close(c, true);
}

static bool is_dear(struct contract *c, uint64_t usd_micros)
{
    const struct contract_offer *offer = contract_offer(c, "borealis/east-1", "A10", CAPACITY_SPOT);
    return offer != NULL && offer->usd_micros_per_hour == (int64_t)usd_micros;
}

static bool is_cheap_again(struct contract *c, uint64_t usd_micros)
{
    return !is_dear(c, usd_micros);
}

static void test_scripted_price_comes_and_goes(void **state)
{
    struct world *w = *state;
    struct contract *c = *state;
    write_scenario(w, "events:\n"
                      "  - {at_step: 5, price: {zone: borealis/east-1, usd_per_hour: 1.03, for: "
                      "200ms}}\n");
    contract_open(c);
    driver_ensure(c->driver, 1, &spot_b, /* bid */ 0);
    contract_wait(c, contract_is_up, 1);
    driver_step_committed(c->driver, 1, 4);
    contract_wait(c, contract_has_offers, 3);
    assert_false(is_dear(c, 1030000));
    driver_step_committed(c->driver, 1, 5);
    contract_wait(c, is_dear, 1030000);
    contract_wait(c, is_cheap_again, 1030000);
    contract_close(c, true);
}

/* A full disk while a node is recorded: not answered, not billed, and a second ask works. */
static void test_full_disk_is_asked_again(void **state)
{
    struct contract *c = *state;
    contract_open(c);
    contract_wait(c, contract_has_offers, 3);
    io_fail_at(1, 28 /* ENOSPC */);
    driver_ensure(c->driver, 1, &spot_a, /* bid */ 0);
    driver_observe(c->driver, 1);
    contract_wait(c, contract_is_over, 1);
    assert_int_equal(contract_node(c, 1)->last.phase, NODE_PHASE_ABSENT);
    driver_ensure(c->driver, 1, &spot_a, /* bid */ 0);
    contract_wait(c, contract_is_up, 1);
    contract_close(c, true);
}

/* A recorded market in which two nodes could be held for a second and a half, then none. */
static void test_recorded_market_takes_nodes(void **state)
{
    struct world *w = *state;
    struct contract *c = *state;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/held.csv", w->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("series_id,start_step,n_steps,value\ns1,0,3,2\ns1,3,100,0\n", file);
    fclose(file);
    file = fopen(w->scenario, "w");
    assert_non_null(file);
    fputs("zones:\n  aurora/east-a: {region: east, notice: 200ms, boot: {min: 10ms, max: 20ms}}\n"
          "offers:\n  - {zone: aurora/east-a, model: A10, kind: spot, on_demand: 1.10, spot: 0.4, "
          "stock: 9, availability_series: s1}\n"
          "replay: {availability: held.csv, step: 1s, speedup: 2}\n",
          file);
    fclose(file);
    contract_open(c);
    contract_wait(c, contract_has_offers, 1);
    assert_int_equal(contract_offer(c, "aurora/east-a", "A10", CAPACITY_SPOT)->stock_count, 2);
    for (uint64_t key = 1; key <= 3; key++) driver_ensure(c->driver, key, &spot_a, /* bid */ 0);
    contract_wait(c, contract_is_up, 2);
    for (uint64_t key = 1; key <= 3; key++) contract_wait(c, contract_is_over, key);
    assert_int_equal(contract_node(c, 1)->last.reason, NODE_REASON_PREEMPTED);
    assert_true(contract_node(c, 1)->notice_seen);
    assert_int_equal(contract_node(c, 2)->last.reason, NODE_REASON_PREEMPTED);
    assert_int_equal(contract_node(c, 3)->last.reason, NODE_REASON_STOCKOUT);
    contract_close(c, true);
}

/* Every allocation of an open that fails is a sentence, and leaves nothing behind. */
static void test_open_without_memory(void **state)
{
    struct world *w = *state;
    struct contract *c = *state;
    assert_int_equal(uv_loop_init(&c->loop), 0);
    const struct driver_options options = {.provider = "local",
                                           .scenario_file = w->scenario,
                                           .data_dir = w->dir,
                                           .server_url = "http://127.0.0.1:1",
                                           .agent_token_file = "/nonexistent",
                                           .models = models,
                                           .model_count = 2,
                                           .loop = &c->loop,
                                           .host = contract_host(c)};
    for (uint64_t nth = 1; c->driver == NULL; nth++) {
        struct error error = {""};
        assert_true(nth < 10000);
        mem_fail_at(nth);
        c->driver = driver_open("local", &options, &error);
        mem_fail_at(0);
        if (c->driver == NULL)
            assert_true(error.text[0] != '\0');
        else
            assert_true(nth > 3);
    }
    contract_close(c, true);
}

static void test_other_scenario_is_refused(void **state)
{
    struct world *w = *state;
    struct contract *c = *state;
    contract_open(c);
    contract_close(c, true);
    write_scenario(w, "emulate: {slot_ms_at_1_ncu: 10}\n");
    assert_int_equal(uv_loop_init(&c->loop), 0);
    const struct driver_options options = {.provider = "local",
                                           .scenario_file = w->scenario,
                                           .data_dir = w->dir,
                                           .models = models,
                                           .model_count = 2,
                                           .loop = &c->loop};
    struct error error;
    assert_null(driver_open("local", &options, &error));
    assert_non_null(strstr(error.text, "another scenario"));
    assert_null(driver_open("lokal", &options, &error));
    assert_non_null(strstr(error.text, "unknown driver \"lokal\""));
    assert_int_equal(uv_loop_close(&c->loop), 0);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FAKE_MACHINE\n", argv[0]);
        return 2;
    }
    fake_machine = argv[1];
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(offers),
        TEST(ensure_is_idempotent),
        TEST(release_uses_the_key_up),
        TEST(release_of_unknown),
        TEST(observe),
        TEST(restart_finds_nodes),
        TEST(meter),
        TEST(close_releases),
        TEST(stockout_is_refused),
        TEST(a_bid_is_honoured),
        TEST(preemption_with_notice),
        TEST(preemption_without_notice),
        TEST(notice_survives_restart),
        TEST(crash_of_the_agent_ends_the_machine),
        TEST(machine_that_cannot_start_is_refused),
        TEST(scripted_price_comes_and_goes),
        TEST(full_disk_is_asked_again),
        TEST(recorded_market_takes_nodes),
        TEST(open_without_memory),
        TEST(other_scenario_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
