/* Doors of two workers in one process: which kind of link comes about, who is not let in, what
 * happens when memory or a way fails. */
#include "base/clock.h"
#include "base/mem.h"
#include "worker/link/link_door.h"
#include "worker/link/link_knock.h"
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define KEY UINT64_C(77)

static struct door *open_door(uint64_t worker, const char *token, const char *zone,
                              const char *link, uint32_t streams)
{
    struct error error;
    struct door_options options = {.listen = "127.0.0.1",
                                   .worker = worker,
                                   .token = token,
                                   .zone = zone,
                                   .link = link,
                                   .streams = streams};
    return door_open(&options, &error);
}

struct outcome {
    struct link *link[2];
    const char *why[2];
};

/* Steps both doors until each has a link or a reason, or `ms` have passed. */
static struct outcome wait_for_links(struct door *door[2], int ms)
{
    struct outcome outcome = {0};
    int64_t end_us = clock_monotonic_us() + ms * INT64_C(1000);
    while (clock_monotonic_us() < end_us) {
        int over = 0;
        for (int i = 0; i < 2; i++) {
            uint64_t peer = 0;
            door_step(door[i], clock_monotonic_us());
            if (outcome.link[i] == NULL) (void)door_take(door[i], &peer, &outcome.link[i]);
            if (outcome.why[i] == NULL) (void)door_take_failed(door[i], &peer, &outcome.why[i]);
            if (peer != 0) assert_int_equal(peer, 2 - i);
            over += outcome.link[i] != NULL || outcome.why[i] != NULL;
        }
        if (over == 2) break;
    }
    return outcome;
}

static void expect_each_other(struct door *door[2], const struct wire_place place[2])
{
    int64_t now_us = clock_monotonic_us();
    assert_true(door_expect(door[1], 1, KEY, &place[0], "127.0.0.1", true, now_us));
    assert_true(door_expect(door[0], 2, KEY, &place[1], "127.0.0.1", false, now_us));
}

static void close_all(struct door *door[2], const struct outcome *outcome)
{
    for (int i = 0; i < 2; i++) {
        link_close(outcome->link[i]);
        door_close(door[i]);
    }
}

struct choice {
    const char *zone[2], *link[2];
    bool other_host, no_way; /* no_way: the Unix socket cannot be reached */
    enum link_kind kind;
};

static void the_kind_follows_from_both_places(void **state)
{
    (void)state;
    static const struct choice choices[] = {
        {{"a", "a"}, {"auto", "auto"}, false, false, LINK_SHM},
        {{"a", "b"}, {"auto", ""}, false, false, LINK_SHM}, /* stays on this host */
        {{"a", "a"}, {NULL, "auto"}, true, false, LINK_TCP},
        {{"a", "b"}, {"auto", "auto"}, true, false, LINK_TLS},
        {{"a", "a"}, {"auto", "auto"}, false, true, LINK_TCP}, /* as between containers */
        {{"a", "a"}, {"tcp", "auto"}, false, false, LINK_TCP},
        {{"a", "a"}, {"shm", "tls"}, false, false, LINK_TLS},
        {{"a", "b"}, {"tcp", "tcp"}, true, false, LINK_TCP}, /* asked for on both sides */
    };
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const struct choice *choice = &choices[i];
        struct door *door[2];
        struct wire_place place[2];
        for (int k = 0; k < 2; k++) {
            door[k] = open_door((uint64_t)k + 1, "token", choice->zone[k], choice->link[k], 2);
            assert_non_null(door[k]);
            place[k] = *door_place(door[k]);
            if (choice->other_host) place[k].host[3] ^= 1;
            if (choice->no_way) place[k].door[3] ^= 1;
        }
        expect_each_other(door, place);
        struct outcome outcome = wait_for_links(door, 5000);
        for (int k = 0; k < 2; k++) {
            assert_non_null(outcome.link[k]);
            assert_int_equal(outcome.link[k]->kind, choice->kind);
            assert_int_equal(outcome.link[k]->streams, choice->kind == LINK_SHM ? 1 : 2);
        }
        struct link_message message;
        struct span span = {"x", 1};
        assert_int_equal(link_send(outcome.link[0], (const uint8_t *)"head", 4, &span, 1),
                         LINK_DONE);
        while (link_receive(outcome.link[1], &message) != LINK_DONE) {}
        assert_int_equal(message.payload[0], 'x');
        link_release(outcome.link[1]);
        close_all(door, &outcome);
    }
}

/* Another token, or another connection's key: the door stays shut, on every kind. */
static void strangers_are_not_let_in(void **state)
{
    (void)state;
    static const char *const links[] = {"shm", "tcp", "tls"};
    for (int i = 0; i < 3; i++) {
        struct door *door[2] = {open_door(1, "token", "", links[i], 1),
                                open_door(2, "other", "", links[i], 1)};
        struct wire_place place[2] = {*door_place(door[0]), *door_place(door[1])};
        expect_each_other(door, place);
        struct outcome outcome = wait_for_links(door, 300);
        assert_null(outcome.link[0]);
        assert_null(outcome.link[1]);
        assert_non_null(outcome.why[1]);
        close_all(door, &outcome);
    }
}

static void a_link_of_an_old_connection_is_not_let_in(void **state)
{
    (void)state;
    struct door *door[2] = {open_door(1, "token", "", "tcp", 1),
                            open_door(2, "token", "", "tcp", 1)};
    int64_t now_us = clock_monotonic_us();
    assert_true(door_expect(door[1], 1, KEY, door_place(door[0]), "127.0.0.1", true, now_us));
    assert_true(door_expect(door[0], 2, KEY + 1, door_place(door[1]), "127.0.0.1", false, now_us));
    struct outcome outcome = wait_for_links(door, 300);
    assert_null(outcome.link[0]);
    assert_null(outcome.link[1]);
    close_all(door, &outcome);
}

/* A peer of another zone, or one with whom TLS was asked for, cannot talk its way down to tcp. */
static void tls_cannot_be_talked_away(void **state)
{
    (void)state;
    struct door *door[2] = {open_door(1, "token", "a", "auto", 1),
                            open_door(2, "token", "b", "tcp", 1)};
    struct wire_place place[2] = {*door_place(door[0]), *door_place(door[1])};
    place[0].host[3] ^= 1;
    place[1].host[3] ^= 1;
    int64_t now_us = clock_monotonic_us();
    place[1].forced = 0; /* what it told worker 1; but it dials by tcp */
    assert_true(door_expect(door[1], 1, KEY, &place[0], "127.0.0.1", true, now_us));
    assert_true(door_expect(door[0], 2, KEY, &place[1], "127.0.0.1", false, now_us));
    struct outcome outcome = wait_for_links(door, 300);
    assert_null(outcome.link[0]);
    assert_null(outcome.link[1]);
    close_all(door, &outcome);
}

static void bad_settings_are_told(void **state)
{
    (void)state;
    struct error error;
    struct door_options options = {
        .listen = "127.0.0.1", .worker = 1, .token = "", .zone = "", .link = "rdma"};
    assert_null(door_open(&options, &error));
    assert_string_equal(error.text, "SHOAL_LINK=rdma: expected auto, shm, tcp or tls");
    options.link = "tls";
    assert_null(door_open(&options, &error));
    assert_non_null(strstr(error.text, "SHOAL_TOKEN is empty"));
    options.link = NULL;
    options.zone = "two words";
    assert_null(door_open(&options, &error));
    assert_non_null(strstr(error.text, "SHOAL_ZONE=two words"));
    options.zone = "";
    options.listen = "nowhere";
    assert_null(door_open(&options, &error));
    assert_non_null(strstr(error.text, "cannot listen for links"));
}

/* Each allocation fails once: a link comes about after all, or both sides are told or left. */
static void failing_memory_leaks_and_hangs_nothing(void **state)
{
    (void)state;
    static const char *const links[] = {"shm", "tcp", "tls"};
    for (int i = 0; i < 3; i++)
        for (uint64_t n = 1; n <= 12; n++) {
            struct door *door[2] = {open_door(1, "token", "", links[i], 1),
                                    open_door(2, "token", "", links[i], 1)};
            struct wire_place place[2] = {*door_place(door[0]), *door_place(door[1])};
            int64_t now_us = clock_monotonic_us();
            mem_fail_at(n);
            bool expected = door_expect(door[1], 1, KEY, &place[0], "127.0.0.1", true, now_us) &&
                            door_expect(door[0], 2, KEY, &place[1], "127.0.0.1", false, now_us);
            struct outcome outcome = {0};
            if (expected) outcome = wait_for_links(door, 30);
            mem_fail_at(0);
            close_all(door, &outcome);
        }
    mem_fail_at(1);
    assert_null(open_door(1, "token", "", "auto", 1));
    mem_fail_at(0);
}

/* Whoever connects and says nothing, or nonsense, costs a descriptor for DOOR_PATIENCE_US. */
static void nonsense_is_turned_away(void **state)
{
    (void)state;
    struct door *door = open_door(1, "token", "", "auto", 1);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)door_place(door)->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char bytes[DOOR_KNOCK_BYTES];
    for (int kind = 0; kind < 3; kind++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
        memset(bytes, kind == 0 ? 0x16 : 'x', sizeof bytes); /* 0x16: as if TLS */
        if (kind < 2) assert_int_equal(send(fd, bytes, sizeof bytes, 0), sizeof bytes);
        for (int i = 0; i < 100; i++) door_step(door, clock_monotonic_us());
        door_step(door, clock_monotonic_us() + 2 * DOOR_PATIENCE_US);
        while (recv(fd, bytes, sizeof bytes, 0) > 0) {} /* perhaps a TLS alert, then the end */
        close(fd);
    }
    door_close(door);
}

static void a_knock_is_read_back_and_only_as_written(void **state)
{
    (void)state;
    const struct knock_words words = {3, 4, 5, LINK_TLS, 1, 2};
    struct knock_words again;
    uint8_t bytes[DOOR_KNOCK_BYTES];
    knock_write(&words, true, "token", bytes);
    assert_true(knock_read(bytes, true, "token", &again));
    assert_int_equal(again.key, 5);
    assert_int_equal(again.kind, LINK_TLS);
    assert_false(knock_read(bytes, false, "token", &again));
    assert_false(knock_read(bytes, true, "tokem", &again));
    for (int i = 0; i < DOOR_KNOCK_BYTES; i++) {
        bytes[i] ^= 1;
        assert_false(knock_read(bytes, true, "token", &again));
        bytes[i] ^= 1;
    }
    const struct knock_words odd[] = {{3, 4, 5, 0, 0, 1},
                                      {3, 4, 5, LINK_TCP, 2, 2},
                                      {3, 4, 5, LINK_TCP, 0, 0},
                                      {3, 4, 5, LINK_TCP, 0, LINK_STREAMS_MAX + 1}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        knock_write(&odd[i], true, "token", bytes);
        assert_false(knock_read(bytes, true, "token", &again));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kind_follows_from_both_places),
        cmocka_unit_test(strangers_are_not_let_in),
        cmocka_unit_test(a_link_of_an_old_connection_is_not_let_in),
        cmocka_unit_test(tls_cannot_be_talked_away),
        cmocka_unit_test(bad_settings_are_told),
        cmocka_unit_test(failing_memory_leaks_and_hangs_nothing),
        cmocka_unit_test(nonsense_is_turned_away),
        cmocka_unit_test(a_knock_is_read_back_and_only_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
