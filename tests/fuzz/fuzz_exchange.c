/* A member of the group sends messages with anything in them: the first byte picks the member, then
 * come flags, block range and payload. With a bit set the sums of the words are right, so that what
 * is behind them is reached. It may be refused, never crash. */
#include "worker/core/exchange.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { ELEMENTS = 700, BLOCKS = 3, SLOTS = 6, MEMBERS = 4 };

static _Alignas(64) uint8_t memory[1 << 20];
static _Alignas(16) uint8_t payload[EXCHANGE_PAYLOAD_MAX];
static struct exchange x;
static struct exchange_message message;
static float mean[ELEMENTS], gradient[ELEMENTS];

static void set_up(const struct layout *layout, const int16_t *scale, uint8_t how)
{
    static const uint8_t zone[MEMBERS] = {0, 1, 1, 0};
    struct exchange_setup setup = {.layout = layout,
                                   .scale = scale,
                                   .mean = mean,
                                   .slot_count = SLOTS,
                                   .norm_end = BLOCKS,
                                   .is_plain = how == 255,
                                   .memory = memory};
    struct slot_set own = {.word = {3}};
    struct wire_tag tag = {1, 1};
    if (exchange_size(layout) > sizeof memory) abort();
    exchange_init(&x, &setup);
    x.zone = (how & 1) != 0 ? zone : NULL;
    exchange_begin(&x, &tag, MEMBERS, how / 2 % MEMBERS);
    quant_add(&x.own, scale, gradient, 0, BLOCKS);
    if ((how & 8) != 0) exchange_ready(&x, &own);
}

static uint32_t side_check(const uint8_t *bytes, size_t count)
{
    uint32_t check = 0;
    for (size_t i = 0; i < count; i++) check = (check ^ bytes[i]) * UINT32_C(0x01000193);
    return check;
}

/* kind, chunk, first, count, flags, slots, then payload: all that the header says, from 6 bytes. */
static void put_header(uint8_t *header, const struct layout *layout, const uint8_t *bytes,
                       size_t payload_bytes, bool right)
{
    struct wire_cursor cursor = {.at = header, .end = header + EXCHANGE_HEADER_BYTES};
    struct wire_tag tag = {1, 1};
    struct slot_set slots = {.word = {bytes[5]}};
    uint32_t first = bytes[2] % 8, blocks = bytes[3] % 8, check = 0, side = 0;
    if (right && first < BLOCKS && blocks <= BLOCKS - first) {
        size_t words = (size_t)(layout->start[first + blocks] - layout->start[first]);
        if (bytes[0] % 4 == 2 && (bytes[4] & 4) == 0) words = 0; /* means that are not there */
        for (size_t i = 0; i < words && 4 * i + 4 <= payload_bytes; i++) {
            uint32_t word;
            memcpy(&word, payload + 4 * i, sizeof word);
            check += word;
        }
        if (4 * words <= payload_bytes)
            side = side_check(payload + 4 * words, payload_bytes - 4 * words);
    }
    memset(header, 0, EXCHANGE_HEADER_BYTES);
    wire_write_tag(&cursor, &tag);
    wire_write_u32(&cursor, bytes[0] % 4);
    wire_write_u32(&cursor, bytes[1] % (MEMBERS + 1));
    wire_write_u32(&cursor, first);
    wire_write_u32(&cursor, blocks);
    wire_write_u32(&cursor, bytes[4] & 7);
    wire_write_u32(&cursor, check);
    wire_write_u32(&cursor, side);
    wire_write(&cursor, &slots, sizeof slots);
    exchange_seal(header);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const uint64_t counts[1] = {ELEMENTS};
    static const int16_t scale[BLOCKS] = {2, -40, 100};
    uint64_t start[BLOCKS + 1];
    uint32_t tensor_block[2];
    struct layout layout;
    if (count < 1) return 0;
    layout_init(&layout, counts, 1, start, tensor_block);
    set_up(&layout, scale, bytes[0]);
    for (bytes++, count--; count >= 9;) {
        size_t length = (size_t)bytes[7] | (size_t)bytes[8] << 8, left = count - 9;
        uint8_t header[EXCHANGE_HEADER_BYTES];
        if (length > left) length = left;
        memcpy(payload, bytes + 9, length);
        put_header(header, &layout, bytes, length, (bytes[6] & 16) != 0);
        if (!exchange_take(&x, bytes[6] % (MEMBERS + 1), header, payload, length)) return 0;
        for (uint32_t to = 0; to < MEMBERS; to++)
            while (to != x.me && exchange_next(&x, to, &message))
                (void)exchange_copy(&message, payload);
        uint64_t parts, means;
        exchange_missing(&x, &parts, &means);
        (void)exchange_is_done(&x);
        bytes += 9 + length;
        count -= 9 + length;
    }
    return 0;
}
