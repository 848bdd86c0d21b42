/* The driver over real links: all messages pass, a wait ends at once when somebody wakes it, the
 * lock comes free while bulk data moves, lost and mad peers are named. */
#include "base/clock.h"
#include "base/mem.h"
#include "worker/link/flow.h"
#include "worker/link/link_testing.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MESSAGES = 200, BYTES = 100000 };

struct end {
    struct flow *flow;
    uint32_t give, given, taken; /* messages */
    bool mad;                    /* takes nothing */
    uint8_t array[BYTES];
};

static bool next(void *self, uint64_t peer, struct exchange_message *ret_message)
{
    struct end *end = self;
    (void)peer; /* there is one */
    if (end->given == end->give) return false;
    memset(ret_message->header, (int)(end->given & 0xff), sizeof ret_message->header);
    ret_message->span_count = 2;
    ret_message->span[0] = (struct span){end->array, end->given};
    ret_message->span[1] = (struct span){end->array + end->given, BYTES - end->given};
    ret_message->payload_bytes = BYTES;
    end->given++;
    return true;
}

static bool take(void *self, uint64_t peer, const struct link_message *message)
{
    struct end *end = self;
    (void)peer; /* there is one */
    if (end->mad) return false;
    assert_int_equal(message->header_bytes, EXCHANGE_HEADER_BYTES);
    assert_int_equal(message->header[5], end->taken & 0xff);
    assert_int_equal(message->payload_bytes, BYTES);
    end->taken++;
    return true;
}

static void open_ends(struct end *end[2], enum link_kind kind, pthread_mutex_t *lock)
{
    struct link *link[2];
    struct error error;
    assert_true(link_pair(kind, kind == LINK_SHM ? 1 : 2, link));
    for (int i = 0; i < 2; i++) {
        end[i] = calloc(1, sizeof *end[i]);
        assert_non_null(end[i]);
        struct flow_source source = {end[i], next, take};
        end[i]->flow = flow_open(&source, i == 0 ? lock : NULL, &error);
        assert_non_null(end[i]->flow);
        assert_true(flow_add(end[i]->flow, (uint64_t)(2 - i), link[i]));
    }
}

static void close_ends(struct end *end[2])
{
    for (int i = 0; i < 2; i++) {
        flow_close(end[i]->flow);
        free(end[i]);
    }
}

static void all_messages_pass_both_ways(void **state)
{
    (void)state;
    for (enum link_kind kind = LINK_SHM; kind <= LINK_TLS; kind++) {
        struct end *end[2];
        open_ends(end, kind, NULL);
        end[0]->give = end[1]->give = MESSAGES;
        for (int i = 0; end[0]->taken < MESSAGES || end[1]->taken < MESSAGES; i++) {
            assert_true(i < 1000000);
            if (!flow_step(end[i % 2]->flow)) flow_wait(end[i % 2]->flow, 1);
        }
        assert_true(flow_is_idle(end[0]->flow));
        close_ends(end);
    }
}

static void lost_and_mad_peers_are_named(void **state)
{
    (void)state;
    for (enum link_kind kind = LINK_SHM; kind <= LINK_TLS; kind++) {
        struct end *end[2];
        uint64_t peer = 0;
        open_ends(end, kind, NULL);
        flow_remove(end[1]->flow, 1);
        for (int i = 0; i < 1000 && !flow_has_lost(end[0]->flow); i++)
            if (!flow_step(end[0]->flow)) flow_wait(end[0]->flow, 10);
        assert_true(flow_take_lost(end[0]->flow, &peer));
        assert_int_equal(peer, 2);
        assert_false(flow_take_lost(end[0]->flow, &peer));
        close_ends(end);
        open_ends(end, kind, NULL);
        end[0]->give = 1;
        end[1]->mad = true;
        for (int i = 0; i < 10000 && !flow_has_lost(end[1]->flow); i++) {
            (void)flow_step(end[0]->flow);
            (void)flow_step(end[1]->flow);
        }
        assert_true(flow_take_lost(end[1]->flow, &peer));
        assert_int_equal(peer, 1);
        close_ends(end);
    }
}

static pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;

struct driver {
    struct end *end;
    _Atomic bool stop;
    int64_t longest_us;
};

/* What shoal_next() does while it has nothing to compute. */
static void *drive(void *self)
{
    struct driver *driver = self;
    struct flow *flow = driver->end->flow;
    (void)pthread_mutex_lock(&big_lock);
    while (!driver->stop) {
        int64_t start_us = clock_monotonic_us();
        if (flow_step(flow))
            flow_make_way(flow);
        else
            flow_wait(flow, 10000);
        int64_t took_us = clock_monotonic_us() - start_us;
        if (took_us > driver->longest_us) driver->longest_us = took_us;
    }
    (void)pthread_mutex_unlock(&big_lock);
    return NULL;
}

/* The wait would last ten seconds. */
static void a_wake_ends_a_wait_at_once(void **state)
{
    (void)state;
    for (enum link_kind kind = LINK_SHM; kind <= LINK_TCP; kind++) {
        struct end *end[2];
        pthread_t thread;
        open_ends(end, kind, &big_lock);
        struct driver driver = {.end = end[0]};
        assert_int_equal(pthread_create(&thread, NULL, drive, &driver), 0);
        for (int i = 0; i < 20; i++) {
            flow_lock(end[0]->flow);
            flow_wake(end[0]->flow);
            (void)pthread_mutex_unlock(&big_lock);
        }
        flow_lock(end[0]->flow);
        driver.stop = true;
        flow_wake(end[0]->flow);
        (void)pthread_mutex_unlock(&big_lock);
        (void)pthread_join(thread, NULL);
        assert_true(driver.longest_us < 5000000);
        close_ends(end);
    }
}

/* What an order sets free goes at once, though its driver sleeps for ten seconds. */
static void what_is_offered_goes_while_the_driver_sleeps(void **state)
{
    (void)state;
    for (enum link_kind kind = LINK_SHM; kind <= LINK_TCP; kind++) {
        struct end *end[2];
        pthread_t thread;
        open_ends(end, kind, &big_lock);
        struct driver driver = {.end = end[0]};
        assert_int_equal(pthread_create(&thread, NULL, drive, &driver), 0);
        int64_t start_us = clock_monotonic_us();
        for (uint32_t i = 1; i <= 20; i++) {
            flow_lock(end[0]->flow);
            end[0]->give = i;
            (void)flow_offer(end[0]->flow, 2);
            (void)pthread_mutex_unlock(&big_lock);
            while (end[1]->taken < i && clock_monotonic_us() - start_us < 5000000)
                if (!flow_step(end[1]->flow)) flow_wait(end[1]->flow, 1);
            assert_int_equal(end[1]->taken, i);
        }
        flow_lock(end[0]->flow);
        driver.stop = true;
        flow_wake(end[0]->flow);
        (void)pthread_mutex_unlock(&big_lock);
        (void)pthread_join(thread, NULL);
        close_ends(end);
    }
}

/* The other side of bulk data gets the lock again and again while it moves. */
static void the_lock_comes_free_under_load(void **state)
{
    (void)state;
    struct end *end[2];
    pthread_t thread;
    open_ends(end, LINK_SHM, &big_lock);
    struct driver driver = {.end = end[0]};
    end[0]->give = 2000;
    assert_int_equal(pthread_create(&thread, NULL, drive, &driver), 0);
    uint32_t got_lock = 0;
    while (end[1]->taken < 2000) {
        (void)flow_step(end[1]->flow);
        flow_lock(end[0]->flow);
        got_lock++;
        (void)pthread_mutex_unlock(&big_lock);
    }
    assert_true(got_lock >= 100);
    flow_lock(end[0]->flow);
    driver.stop = true;
    flow_wake(end[0]->flow);
    (void)pthread_mutex_unlock(&big_lock);
    (void)pthread_join(thread, NULL);
    close_ends(end);
}

static void opening_and_adding_fail_cleanly(void **state)
{
    (void)state;
    struct error error;
    struct flow_source source = {NULL, next, take};
    struct link *link[2];
    mem_fail_at(1);
    assert_null(flow_open(&source, NULL, &error));
    struct flow *flow = flow_open(&source, NULL, &error);
    assert_non_null(flow);
    assert_true(link_pair(LINK_SHM, 1, link));
    mem_fail_at(1);
    assert_false(flow_add(flow, 2, link[0])); /* and the link is closed */
    mem_fail_at(0);
    link_close(link[1]);
    flow_close(flow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_messages_pass_both_ways),
        cmocka_unit_test(lost_and_mad_peers_are_named),
        cmocka_unit_test(a_wake_ends_a_wait_at_once),
        cmocka_unit_test(what_is_offered_goes_while_the_driver_sleeps),
        cmocka_unit_test(the_lock_comes_free_under_load),
        cmocka_unit_test(opening_and_adding_fail_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
