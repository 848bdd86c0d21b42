/* Every kind of link: messages of every size arrive whole and in order, a half-sent message stays
 * what it was when the arrays change, a dead or mad peer is noticed, nothing leaks. */
#include "base/mem.h"
#include "worker/link/link_shm.h"
#include "worker/link/link_testing.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { MESSAGES = 400 };

struct kind {
    enum link_kind kind;
    uint32_t streams;
};

static const struct kind KINDS[] = {
    {LINK_SHM, 1}, {LINK_TCP, 1}, {LINK_TCP, 3}, {LINK_TLS, 1}, {LINK_TLS, 2}};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

static uint32_t draw(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*random >> 33);
}

static uint8_t pattern[LINK_PAYLOAD_MAX + 1000];

static void fill_pattern(uint64_t seed)
{
    for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (uint8_t)(draw(&seed) >> 7);
}

struct shape {
    size_t header_bytes, span_bytes[LINK_SPANS_MAX], payload_bytes;
    uint32_t span_count;
};

/* Message number n of a seed: mostly small, some of the largest size, some empty. */
static struct shape shape_of(uint64_t seed, uint32_t n)
{
    uint64_t random = seed * 7919 + n;
    struct shape shape = {.header_bytes = draw(&random) % (LINK_HEADER_MAX + 1)};
    size_t left = draw(&random) % 3 == 0 ? LINK_PAYLOAD_MAX : 5000;
    if (draw(&random) % 16 == 0) left = 0;
    shape.span_count = draw(&random) % (LINK_SPANS_MAX + 1);
    for (uint32_t i = 0; i < shape.span_count; i++) {
        shape.span_bytes[i] = left == 0 ? 0 : draw(&random) % (left + 1);
        if (draw(&random) % 4 == 0) shape.span_bytes[i] = left;
        left -= shape.span_bytes[i];
        shape.payload_bytes += shape.span_bytes[i];
    }
    return shape;
}

static enum link_result send_shape(struct link *link, const struct shape *shape, uint32_t n)
{
    struct span span[LINK_SPANS_MAX];
    size_t at = n;
    for (uint32_t i = 0; i < shape->span_count; i++) {
        span[i] = (struct span){pattern + at, shape->span_bytes[i]};
        at += shape->span_bytes[i];
    }
    return link_send(link, pattern + n, shape->header_bytes, span, shape->span_count);
}

static void expect_shape(const struct link_message *message, const struct shape *shape, uint32_t n)
{
    assert_int_equal(message->header_bytes, shape->header_bytes);
    assert_int_equal(message->payload_bytes, shape->payload_bytes);
    assert_int_equal((uintptr_t)message->payload % 64, 0);
    assert_int_equal((uintptr_t)message->header % 8, 0);
    assert_memory_equal(message->header, pattern + n, shape->header_bytes);
    assert_memory_equal(message->payload, pattern + n, shape->payload_bytes);
}

/* Both directions at once, each side sending and receiving as it can. */
static void converse(struct link *end[2], uint64_t seed)
{
    uint32_t sent[2] = {0}, got[2] = {0};
    uint64_t random = seed;
    for (uint32_t idle = 0; got[0] < MESSAGES || got[1] < MESSAGES; idle++) {
        uint32_t side = draw(&random) % 2;
        assert_true(idle < 1000000);
        if (draw(&random) % 2 == 0 && sent[side] < MESSAGES) {
            struct shape shape = shape_of(seed + side, sent[side]);
            enum link_result result = send_shape(end[side], &shape, sent[side]);
            assert_int_not_equal(result, LINK_LOST);
            sent[side] += result == LINK_DONE;
        }
        assert_int_not_equal(link_flush(end[side]), LINK_LOST);
        struct link_message message;
        enum link_result result = link_receive(end[side], &message);
        assert_int_not_equal(result, LINK_LOST);
        if (result != LINK_DONE) continue;
        struct shape shape = shape_of(seed + 1 - side, got[side]);
        expect_shape(&message, &shape, got[side]++);
        link_release(end[side]);
        idle = 0;
    }
    assert_int_equal(end[0]->sent_bytes, end[1]->received_bytes);
}

static void messages_arrive_whole_and_in_order(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < KIND_COUNT; k++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct link *end[2];
            fill_pattern(seed);
            assert_true(link_pair(KINDS[k].kind, KINDS[k].streams, end));
            converse(end, 10 * seed);
            link_close(end[0]);
            link_close(end[1]);
        }
}

/* Sends until there is no room; returns how many were taken. */
static uint32_t stuff(struct link *link, const struct span *span)
{
    uint32_t count = 0;
    enum link_result result;
    while ((result = link_send(link, pattern, 8, span, 1)) == LINK_DONE) count++;
    assert_int_equal(result, LINK_AGAIN);
    return count;
}

/* The arrays change while messages are half sent: whatever arrives is of one piece. */
static void a_voided_message_never_arrives_half_new(void **state)
{
    (void)state;
    fill_pattern(3);
    for (uint32_t k = 0; k < KIND_COUNT; k++) {
        struct link *end[2];
        struct link_message message;
        uint8_t *array = malloc(LINK_PAYLOAD_MAX);
        struct span span = {array, LINK_PAYLOAD_MAX};
        assert_non_null(array);
        memcpy(array, pattern, LINK_PAYLOAD_MAX);
        assert_true(link_pair(KINDS[k].kind, KINDS[k].streams, end));
        uint32_t count = stuff(end[0], &span), got = 0;
        link_void(end[0]);
        memset(array, 0xee, LINK_PAYLOAD_MAX); /* the next step writes here */
        link_void(end[0]);
        for (enum link_result result = LINK_AGAIN; result == LINK_AGAIN;) {
            while (link_receive(end[1], &message) == LINK_DONE) {
                assert_memory_equal(message.payload, pattern, LINK_PAYLOAD_MAX);
                link_release(end[1]);
                got++;
            }
            result = link_send(end[0], pattern, 8, &span, 1);
            assert_int_not_equal(result, LINK_LOST);
        }
        for (bool is_new = false; !is_new;) { /* old ones may still be there, then the new one */
            assert_int_not_equal(link_flush(end[0]), LINK_LOST);
            if (link_receive(end[1], &message) != LINK_DONE) continue;
            is_new = message.payload[0] == 0xee && message.payload[1] == 0xee;

            assert_memory_equal(message.payload, is_new ? array : pattern, LINK_PAYLOAD_MAX);
            link_release(end[1]);
            got += !is_new;
        }
        assert_true(KINDS[k].kind == LINK_SHM ? got == count : got < count);
        link_close(end[0]);
        link_close(end[1]);
        free(array);
    }
}

/* What a peer wrote before it died is still read, then its loss is told; nothing hangs. */
static void a_dead_peer_is_noticed_after_its_last_message(void **state)
{
    (void)state;
    fill_pattern(4);
    for (uint32_t k = 0; k < KIND_COUNT; k++) {
        struct link *end[2];
        struct link_message message;
        struct span span = {pattern, 1000};
        assert_true(link_pair(KINDS[k].kind, KINDS[k].streams, end));
        assert_int_equal(link_send(end[0], pattern, 8, &span, 1), LINK_DONE);
        link_close(end[0]);
        (void)end[1]->ops->arm(end[1]); /* what a waiter does before it sleeps */
        assert_int_equal(link_receive(end[1], &message), LINK_DONE);
        assert_memory_equal(message.payload, pattern, 1000);
        link_release(end[1]);
        end[1]->rung = true; /* as epoll told */
        (void)end[1]->ops->arm(end[1]);
        assert_int_equal(link_receive(end[1], &message), LINK_LOST);
        enum link_result result = LINK_DONE;
        for (int i = 0; i < 3 && result != LINK_LOST; i++)
            result = link_send(end[1], pattern, 8, &span, 1);
        assert_int_equal(result, LINK_LOST);
        link_close(end[1]);
    }
}

static void garbage_ends_a_stream(void **state)
{
    (void)state;
    for (int flip = 0; flip < 24; flip++) { /* each byte of a good prefix, and of the mark */
        struct link *end[2];
        int fd[LINK_STREAMS_MAX];
        struct link_message message;
        uint8_t bytes[72];
        assert_true(link_pair(LINK_TCP, 1, end));
        assert_int_equal(link_send(end[0], pattern, 8, NULL, 0), LINK_DONE);
        (void)end[1]->ops->descriptors(end[1], fd);
        assert_int_equal(recv(fd[0], bytes, sizeof bytes, 0), sizeof bytes);
        bytes[flip < 16 ? flip : 48 + flip] ^= 0x40;
        (void)end[0]->ops->descriptors(end[0], fd);
        assert_int_equal(send(fd[0], bytes, sizeof bytes, 0), sizeof bytes);
        assert_int_equal(link_receive(end[1], &message), LINK_LOST);
        assert_int_equal(link_receive(end[1], &message), LINK_LOST);
        assert_int_equal(link_flush(end[1]), LINK_LOST);
        link_close(end[0]);
        link_close(end[1]);
    }
}

static void opening_fails_cleanly_without_memory(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < KIND_COUNT; k++)
        for (uint64_t n = 1; n <= 2; n++) {
            struct link *end[2] = {NULL, NULL};
            mem_fail_at(n);
            assert_false(link_pair(KINDS[k].kind, KINDS[k].streams, end));
            mem_fail_at(0);
            link_close(end[0]);
            link_close(end[1]);
        }
}

/* Who does not know the token gets no link, neither as the one who dials nor as the other. */
static void another_token_is_refused(void **state)
{
    (void)state;
    const char *tokens[][2] = {{"right", "wrong"}, {"wrong", "right"}, {"right", ""}, {"", ""}};
    for (int i = 0; i < 4; i++) {
        struct link *end[2] = {NULL, NULL};
        assert_false(link_tls_pair(tokens[i], 1, end));
    }
}

struct board_writer {
    struct link *link;
    _Atomic bool stop;
};

static void *write_boards(void *self)
{
    struct board_writer *writer = self;
    uint8_t bytes[LINK_BOARD_BYTES];
    for (uint32_t n = 1; !writer->stop; n++) {
        memset(bytes, (int)(n % 251), sizeof bytes);
        link_shm_post(writer->link, bytes, 1 + n % LINK_BOARD_BYTES);
        (void)usleep(1); /* else there is hardly a moment in which nothing is written */
    }
    return NULL;
}

/* One text at a time, whole, and the newest; both sides at once. */
static void a_board_shows_the_last_text_once(void **state)
{
    (void)state;
    struct link *end[2];
    uint8_t bytes[LINK_BOARD_BYTES];
    assert_true(link_pair(LINK_SHM, 1, end));
    assert_int_equal(link_shm_look(end[1], bytes), 0);
    link_shm_post(end[0], (const uint8_t *)"first", 6);
    link_shm_post(end[0], (const uint8_t *)"a longer text", 14);
    assert_int_equal(link_shm_look(end[1], bytes), 14);
    assert_string_equal((const char *)bytes, "a longer text");
    assert_int_equal(link_shm_look(end[1], bytes), 0);
    assert_int_equal(link_shm_look(end[0], bytes), 0);
    struct board_writer writer = {.link = end[0]};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_boards, &writer), 0);
    for (uint32_t seen = 0; seen < 2000;) {
        size_t count = link_shm_look(end[1], bytes);
        for (size_t i = 1; i < count; i++) assert_int_equal(bytes[i], bytes[0]);
        seen += count > 0;
    }
    writer.stop = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    link_close(end[0]);
    link_close(end[1]);
}

static void names_of_kinds_are_read_back(void **state)
{
    (void)state;
    for (enum link_kind kind = LINK_SHM; kind <= LINK_TLS; kind++) {
        enum link_kind again;
        assert_true(link_parse_kind(link_kind_name(kind), &again));
        assert_int_equal(again, kind);
    }
    enum link_kind none;
    assert_false(link_parse_kind("rdma", &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_whole_and_in_order),
        cmocka_unit_test(a_voided_message_never_arrives_half_new),
        cmocka_unit_test(a_dead_peer_is_noticed_after_its_last_message),
        cmocka_unit_test(garbage_ends_a_stream),
        cmocka_unit_test(opening_fails_cleanly_without_memory),
        cmocka_unit_test(another_token_is_refused),
        cmocka_unit_test(a_board_shows_the_last_text_once),
        cmocka_unit_test(names_of_kinds_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
