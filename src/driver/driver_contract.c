#include "driver/driver_contract.h"
#include "base/clock.h"
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { KEY_A = 101, KEY_B = 102, KEY_UNKNOWN = 999 };

int contract_processes_with(const char *text)
{
    static char environment[1 << 18];
    int count = 0;
    DIR *proc = opendir("/proc");
    assert_non_null(proc);
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        char path[300];
        if (atoi(entry->d_name) <= 0 || atoi(entry->d_name) == getpid()) continue;
        (void)snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        int fd = open(path, O_RDONLY);
        ssize_t bytes = fd < 0 ? -1 : read(fd, environment, sizeof environment);
        if (fd >= 0) (void)close(fd);
        if (bytes > 0 && memmem(environment, (size_t)bytes, text, strlen(text)) != NULL) count++;
    }
    (void)closedir(proc);
    return count;
}

static void on_offer(void *self, const struct driver_offer *offer)
{
    struct contract *c = self;
    struct contract_offer seen = {
        .capacity = offer->name.capacity,
        .device_count = offer->name.device_count,
        .stock_count = offer->stock_count,
        .usd_micros_per_hour = offer->usd_micros_per_hour,
        .on_demand_usd_micros_per_hour = offer->on_demand_usd_micros_per_hour,
    };
    (void)snprintf(seen.provider, sizeof seen.provider, "%s", offer->name.provider);
    (void)snprintf(seen.region, sizeof seen.region, "%s", offer->name.region);
    (void)snprintf(seen.zone, sizeof seen.zone, "%s", offer->name.zone);
    (void)snprintf(seen.model, sizeof seen.model, "%s", offer->name.model);
    c->offers_told++;
    uint32_t i = 0;
    while (i < c->offer_count &&
           (strcmp(c->offers[i].zone, seen.zone) != 0 ||
            strcmp(c->offers[i].model, seen.model) != 0 || c->offers[i].capacity != seen.capacity))
        i++;
    assert_true(i < CONTRACT_OFFERS_MAX);
    if (i == c->offer_count) c->offer_count++;
    c->offers[i] = seen;
}

static void on_node(void *self, const struct driver_node *node)
{
    struct contract *c = self;
    uint32_t i = 0;
    while (i < c->node_count && c->nodes[i].last.node_key != node->node_key) i++;
    assert_true(i < CONTRACT_NODES_MAX);
    if (i == c->node_count) c->node_count++;
    /* What holds of every answer: meters never run backwards, what is over stays over. */
    if (c->nodes[i].answers_count > 0) {
        const struct driver_node *last = &c->nodes[i].last;
        assert_true(node->billed_usd_micros >= last->billed_usd_micros);
        if (last->phase == NODE_PHASE_GONE || last->phase == NODE_PHASE_REFUSED)
            assert_int_equal(node->phase, last->phase);
        if (last->up_since_us != 0) assert_true(node->up_since_us == last->up_since_us);
    }
    c->nodes[i].last = *node;
    c->nodes[i].answers_count++;
    c->nodes[i].phases_seen |= 1u << node->phase;
    if (node->notice_us != 0) c->nodes[i].notice_seen = true;
}

struct driver_host contract_host(struct contract *c)
{
    return (struct driver_host){.self = c, .offer_changed = on_offer, .node_observed = on_node};
}

static void on_closed(void *self)
{
    ((struct contract *)self)->closed = true;
}

void contract_open(struct contract *c)
{
    assert_int_equal(uv_loop_init(&c->loop), 0);
    c->closed = false;
    c->driver = c->open(c);
    assert_non_null(c->driver);
}

static bool is_closed(struct contract *c, uint64_t argument)
{
    (void)argument;
    return c->closed;
}

void contract_close(struct contract *c, bool release_nodes)
{
    driver_close(c->driver, release_nodes, on_closed, c);
    assert_false(c->closed); /* never from inside the call */
    contract_wait(c, is_closed, 0);
    (void)uv_run(&c->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&c->loop), 0); /* no handle was forgotten */
}

const struct contract_node *contract_node(const struct contract *c, uint64_t key)
{
    for (uint32_t i = 0; i < c->node_count; i++)
        if (c->nodes[i].last.node_key == key) return &c->nodes[i];
    return NULL;
}

const struct contract_offer *contract_offer(const struct contract *c, const char *zone,
                                            const char *model, uint32_t capacity)
{
    for (uint32_t i = 0; i < c->offer_count; i++)
        if (strcmp(c->offers[i].zone, zone) == 0 && strcmp(c->offers[i].model, model) == 0 &&
            c->offers[i].capacity == capacity)
            return &c->offers[i];
    return NULL;
}

static void on_deadline(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

void contract_wait(struct contract *c, contract_test_fn *test, uint64_t argument)
{
    bool late = false;
    uv_timer_t deadline;
    (void)uv_timer_init(&c->loop, &deadline);
    deadline.data = &late;
    (void)uv_timer_start(&deadline, on_deadline, CONTRACT_WAIT_MS, 0);
    while (!late && !test(c, argument)) (void)uv_run(&c->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&deadline, NULL);
    (void)uv_run(&c->loop, UV_RUN_NOWAIT); /* lets the timer close */
    if (late) fail_msg("nothing happened within %d ms", CONTRACT_WAIT_MS);
}

static uint32_t phase_of(const struct contract *c, uint64_t key)
{
    const struct contract_node *node = contract_node(c, key);
    return node == NULL ? 0 : node->last.phase;
}

bool contract_is_up(struct contract *c, uint64_t key)
{
    return phase_of(c, key) == NODE_PHASE_UP;
}

bool contract_is_over(struct contract *c, uint64_t key)
{
    uint32_t phase = phase_of(c, key);
    return phase == NODE_PHASE_GONE || phase == NODE_PHASE_ABSENT || phase == NODE_PHASE_REFUSED;
}

bool contract_has_offers(struct contract *c, uint64_t count)
{
    return c->offer_count >= count;
}

struct answers_wanted {
    uint64_t key;
    uint32_t count;
};

static bool has_answers(struct contract *c, uint64_t argument)
{
    const struct answers_wanted *wanted = (const void *)(uintptr_t)argument;
    const struct contract_node *node = contract_node(c, wanted->key);
    return node != NULL && node->answers_count >= wanted->count;
}

/* One more answer about the key than there are now. */
static void wait_for_answer(struct contract *c, uint64_t key)
{
    const struct contract_node *node = contract_node(c, key);
    struct answers_wanted wanted = {key, node == NULL ? 1 : node->answers_count + 1};
    contract_wait(c, has_answers, (uint64_t)(uintptr_t)&wanted);
}

void contract_case_offers(struct contract *c)
{
    contract_open(c);
    assert_int_equal(c->offers_told, 0); /* never from inside open() */
    contract_wait(c, contract_has_offers, 1);
    const struct contract_offer *offer =
        contract_offer(c, c->wanted.zone, c->wanted.model, c->wanted.capacity);
    assert_non_null(offer);
    assert_string_equal(offer->provider, c->wanted.provider);
    assert_string_equal(offer->region, c->wanted.region);
    assert_int_equal(offer->device_count, c->wanted.device_count);
    assert_true(offer->usd_micros_per_hour > 0);
    assert_true(offer->on_demand_usd_micros_per_hour >= offer->usd_micros_per_hour);
    assert_true(offer->stock_count >= 2);
    contract_close(c, true);
}

void contract_case_ensure_is_idempotent(struct contract *c)
{
    contract_open(c);
    contract_wait(c, contract_has_offers, 1);
    uint32_t stock =
        contract_offer(c, c->wanted.zone, c->wanted.model, c->wanted.capacity)->stock_count;
    driver_ensure(c->driver, KEY_A, &c->wanted, /* bid */ 0);
    assert_null(contract_node(c, KEY_A)); /* never from inside the call */
    driver_ensure(c->driver, KEY_A, &c->wanted, /* bid */ 0);
    contract_wait(c, contract_is_up, KEY_A);
    assert_true(contract_node(c, KEY_A)->last.up_since_us > 0);
    driver_ensure(c->driver, KEY_A, &c->wanted, /* bid */ 0);
    wait_for_answer(c, KEY_A);
    assert_true(contract_is_up(c, KEY_A));
    driver_observe_all(c->driver);
    wait_for_answer(c, KEY_A);
    assert_int_equal(
        contract_offer(c, c->wanted.zone, c->wanted.model, c->wanted.capacity)->stock_count,
        stock - 1);
    contract_close(c, true);
    assert_int_equal(c->processes_left(c), 0);
}

void contract_case_release_uses_the_key_up(struct contract *c)
{
    contract_open(c);
    driver_ensure(c->driver, KEY_A, &c->wanted, /* bid */ 0);
    contract_wait(c, contract_is_up, KEY_A);
    driver_release(c->driver, KEY_A);
    driver_release(c->driver, KEY_A);
    contract_wait(c, contract_is_over, KEY_A);
    assert_int_equal(contract_node(c, KEY_A)->last.phase, NODE_PHASE_GONE);
    assert_int_equal(contract_node(c, KEY_A)->last.reason, NODE_REASON_RELEASED);
    assert_int_equal(c->processes_left(c), 0);
    driver_ensure(c->driver, KEY_A, &c->wanted, /* bid */ 0); /* a late one */
    wait_for_answer(c, KEY_A);
    assert_int_equal(contract_node(c, KEY_A)->last.phase, NODE_PHASE_GONE);
    contract_close(c, true);
}

void contract_case_release_of_unknown(struct contract *c)
{
    contract_open(c);
    driver_release(c->driver, KEY_UNKNOWN);
    wait_for_answer(c, KEY_UNKNOWN);
    assert_int_equal(contract_node(c, KEY_UNKNOWN)->last.phase, NODE_PHASE_ABSENT);
    driver_ensure(c->driver, KEY_UNKNOWN, &c->wanted,
                  /* bid */ 0); /* overtaken by its own release */
    wait_for_answer(c, KEY_UNKNOWN);
    assert_int_equal(contract_node(c, KEY_UNKNOWN)->last.phase, NODE_PHASE_ABSENT);
    contract_close(c, true);
    assert_int_equal(c->processes_left(c), 0);
}

void contract_case_observe(struct contract *c)
{
    contract_open(c);
    driver_observe(c->driver, KEY_UNKNOWN);
    wait_for_answer(c, KEY_UNKNOWN);
    assert_int_equal(contract_node(c, KEY_UNKNOWN)->last.phase, NODE_PHASE_ABSENT);
    driver_ensure(c->driver, KEY_A, &c->wanted, /* bid */ 0);
    driver_observe(c->driver, KEY_A);
    wait_for_answer(c, KEY_A);
    contract_wait(c, contract_is_up, KEY_A);
    driver_observe(c->driver, KEY_A);
    wait_for_answer(c, KEY_A);
    assert_true(contract_is_up(c, KEY_A));
    contract_close(c, true);
}

void contract_case_restart_finds_nodes(struct contract *c)
{
    contract_open(c);
    driver_ensure(c->driver, KEY_A, &c->wanted, /* bid */ 0);
    driver_ensure(c->driver, KEY_B, &c->wanted, /* bid */ 0);
    contract_wait(c, contract_is_up, KEY_A);
    contract_wait(c, contract_is_up, KEY_B);
    driver_release(c->driver, KEY_B);
    contract_wait(c, contract_is_over, KEY_B);
    int64_t up_since_us = contract_node(c, KEY_A)->last.up_since_us;
    contract_close(c, false);

    int before = c->processes_left(c);
    assert_true(before > 0);
    c->offer_count = 0;
    contract_open(c);
    contract_wait(c, contract_has_offers, 1);
    driver_observe_all(c->driver);
    wait_for_answer(c, KEY_A);
    assert_true(contract_is_up(c, KEY_A));
    assert_true(contract_node(c, KEY_A)->last.up_since_us == up_since_us);
    assert_int_equal(c->processes_left(c), before);           /* nothing was started anew */
    driver_ensure(c->driver, KEY_B, &c->wanted, /* bid */ 0); /* used up before the restart */
    wait_for_answer(c, KEY_B);
    assert_int_equal(contract_node(c, KEY_B)->last.phase, NODE_PHASE_GONE);
    contract_close(c, true);
    assert_int_equal(c->processes_left(c), 0);
}

static bool is_billed(struct contract *c, uint64_t key)
{
    driver_observe(c->driver, key);
    const struct contract_node *node = contract_node(c, key);
    return node != NULL && node->last.billed_usd_micros > 50; /* monotone: checked in on_node() */
}

/* The wanted offer has a constant price of less than $10 an hour (2.8 micro-dollars a ms). */
void contract_case_meter(struct contract *c)
{
    contract_open(c);
    contract_wait(c, contract_has_offers, 1);
    int64_t price =
        contract_offer(c, c->wanted.zone, c->wanted.model, c->wanted.capacity)->usd_micros_per_hour;
    driver_ensure(c->driver, KEY_A, &c->wanted, /* bid */ 0);
    contract_wait(c, contract_is_up, KEY_A);
    contract_wait(c, is_billed, KEY_A);
    driver_release(c->driver, KEY_A);
    contract_wait(c, contract_is_over, KEY_A);
    const struct driver_node last = contract_node(c, KEY_A)->last;
    int64_t longest_us = clock_wall_us() - last.up_since_us;
    assert_true(last.billed_usd_micros <= price * longest_us / INT64_C(3600000000));
    driver_observe(c->driver, KEY_A);
    wait_for_answer(c, KEY_A);
    assert_true(contract_node(c, KEY_A)->last.billed_usd_micros == last.billed_usd_micros);
    contract_close(c, true);
}

void contract_case_close_releases(struct contract *c)
{
    contract_open(c);
    driver_ensure(c->driver, KEY_A, &c->wanted, /* bid */ 0);
    contract_wait(c, contract_is_up, KEY_A);
    assert_true(c->processes_left(c) > 0);
    driver_ensure(c->driver, KEY_B, &c->wanted, /* bid */ 0); /* on its way when the server ends */
    contract_close(c, true);
    assert_int_equal(c->processes_left(c), 0);
    contract_open(c);
    driver_observe(c->driver, KEY_A);
    wait_for_answer(c, KEY_A);
    assert_int_equal(contract_node(c, KEY_A)->last.phase, NODE_PHASE_GONE);
    contract_close(c, true);
}
