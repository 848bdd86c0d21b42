/* A flipped bit in what travels is found, wherever it is: frames of orders, moments and new weights that
 * are handed over. Parts and means: exchange_test.c; state and boards: member_test.c. */
#include "worker/core/handover.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void flip(uint8_t *bytes, size_t bit)
{
    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static bool frame_is_sound(const uint8_t *frame, enum wire_kind kind, uint32_t count)
{
    enum wire_kind got;
    uint32_t bytes;
    return wire_get_header(frame, &got, &bytes) && got == kind && bytes == count &&
           wire_payload_is_sound(frame);
}

static void any_bit_of_a_frame(void **state)
{
    (void)state;
    enum { COUNT = 43 };
    static uint8_t frame[WIRE_HEADER_BYTES + WIRE_PAYLOAD_MAX];
    for (uint32_t i = 0; i < COUNT; i++) frame[WIRE_HEADER_BYTES + i] = (uint8_t)(37 * i);
    for (int kind = WIRE_HELLO; kind < WIRE_KIND_END; kind++) {
        wire_put_header(frame, (enum wire_kind)kind, COUNT);
        assert_true(frame_is_sound(frame, (enum wire_kind)kind, COUNT));
        bool covered = kind != WIRE_HELLO; /* whose proof does that */
        for (size_t bit = 0; bit < 8 * (WIRE_HEADER_BYTES + (covered ? COUNT : 0)); bit++) {
            flip(frame, bit);
            assert_false(frame_is_sound(frame, (enum wire_kind)kind, COUNT));
            flip(frame, bit);
        }
    }
}

enum { ELEMENTS = 300, BLOCKS = 3, ARRAYS = 2 };

/* Of two members, the first owns all, or gives all of it to the second. */
static struct handover side(enum handover_kind kind, uint32_t me, const struct layout *layout,
                            const struct shard_map *map, const struct shard_moves *moves,
                            float array[ARRAYS][ELEMENTS])
{
    struct handover h = {.kind = kind,
                         .tag = {7, 1},
                         .layout = layout,
                         .map = map,
                         .moves = moves,
                         .member_count = 2,
                         .me = me,
                         .array_count = kind == HANDOVER_WEIGHTS ? 1 : ARRAYS,
                         .array = {array[0], array[1]},
                         .isa = QUANT_ISA_PORTABLE};
    handover_begin(&h);
    return h;
}

static void check_handover(enum handover_kind kind)
{
    static float from[ARRAYS][ELEMENTS], to[ARRAYS][ELEMENTS];
    static struct exchange_message message;
    static _Alignas(16) uint8_t bytes[EXCHANGE_HEADER_BYTES + sizeof from];
    const uint64_t counts[2] = {ELEMENTS - 1, 1};
    uint64_t start[BLOCKS + 1];
    uint32_t tensor_block[3];
    struct layout layout;
    layout_init(&layout, counts, 2, start, tensor_block);
    struct shard_map map = {.unit_count = shard_unit_count(layout.block_count)};
    struct shard_moves moves = {0};
    memset(map.owner, kind == HANDOVER_MOMENTS, sizeof map.owner);
    memset(map.mirror, SHARD_NONE, sizeof map.mirror);
    memset(moves.to_mirror, SHARD_NONE, sizeof moves.to_mirror);
    for (int i = 0; i < ARRAYS * ELEMENTS; i++) from[i / ELEMENTS][i % ELEMENTS] = (float)i;
    struct handover giver = side(kind, 0, &layout, &map, &moves, from);
    struct handover taker = side(kind, 1, &layout, &map, &moves, to);
    handover_may_leave(&giver);
    while (handover_next(&giver, 1, &message)) {
        size_t count = exchange_copy(&message, bytes) - EXCHANGE_HEADER_BYTES;
        for (size_t bit = 0; bit < 8 * (EXCHANGE_HEADER_BYTES + count); bit++) {
            flip(bytes, bit);
            assert_false(handover_take(&taker, 0, bytes, bytes + EXCHANGE_HEADER_BYTES, count));
            flip(bytes, bit);
        }
        assert_true(handover_take(&taker, 0, bytes, bytes + EXCHANGE_HEADER_BYTES, count));
    }
    assert_true(handover_is_done(&taker));
    for (uint32_t i = 0; i < taker.array_count; i++)
        assert_memory_equal(to[i], from[i], (ELEMENTS - 1) * sizeof(float));
}

static void any_bit_of_new_weights(void **state)
{
    (void)state;
    check_handover(HANDOVER_WEIGHTS);
}

static void any_bit_of_moments(void **state)
{
    (void)state;
    check_handover(HANDOVER_MOMENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_bit_of_a_frame),
                                       cmocka_unit_test(any_bit_of_new_weights),
                                       cmocka_unit_test(any_bit_of_moments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
