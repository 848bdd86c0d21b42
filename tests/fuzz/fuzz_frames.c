/* A peer that knows the token but sends anything: frames of one byte kind, two bytes length,
 * payload, into a member that leads a group of two and sums a step. An odd number of bytes: with
 * sharded moments. Headers of data are sealed here, as no search would. It may be refused, never
 * crash. */
#include "worker/core/member.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { ELEMENTS = 600, BLOCKS = 3 };

struct victim {
    struct member member;
    struct member_step log_step[2];
    struct wire_turn log_turn[2];
    struct layout layout;
    uint64_t start[BLOCKS + 1];
    uint32_t tensor_block[2];
    int16_t scale[BLOCKS];
    float mean[ELEMENTS];
    struct transfer_segment segment;
    uint8_t shadow[sizeof(float) * ELEMENTS];
    float weights[ELEMENTS], next_weights[ELEMENTS], moment[2][ELEMENTS];
    struct recorder recorder;
};

static _Alignas(64) uint8_t exchange_memory[1 << 20];

static void set_up(struct victim *v, bool sharded)
{
    const uint64_t counts[1] = {ELEMENTS};
    memset(v, 0, sizeof *v);
    layout_init(&v->layout, counts, 1, v->start, v->tensor_block);
    v->segment = (struct transfer_segment){(uint8_t *)v->weights, sizeof v->weights};
    struct member_config config = {
        .id = 5,
        .steps = 100,
        .slot_count = 4,
        .gang = 1,
        .layout = &v->layout,
        .scale = v->scale,
        .exchange_memory = exchange_memory,
        .mean = v->mean,
        .state = {&v->segment, 1, sizeof v->weights},
        .shadow = v->shadow,
        .recorder = &v->recorder,
        .log = {.step = v->log_step, .turn = v->log_turn, .step_max = 2, .turn_max = 2},
        .moment_count = sharded ? 2 : 0,
        .moment = {v->moment[0], v->moment[1]},
        .next_weights = v->next_weights,
        .memory = 1,
    };
    recorder_init(&v->recorder);
    member_init(&v->member, &config);
    member_start(&v->member, 0);
    member_peers_settled(&v->member, true);
    (void)member_park(&v->member);
    (void)member_peer_up(&v->member, 3, 0);
}

/* Does what the member asks of its program, without sums that mean anything. */
static void work(struct victim *v)
{
    enum member_want want = member_want(&v->member);
    bool exits = want == MEMBER_WANT_EXIT_DONE || want == MEMBER_WANT_EXIT_LEFT;
    if (!v->member.parked || want == MEMBER_WANT_WAIT || exits) return;
    member_unpark(&v->member);
    if (want == MEMBER_WANT_FOUND && member_may_load_together(&v->member))
        member_found_together(&v->member, 1);
    else if (want == MEMBER_WANT_FOUND)
        member_founded(&v->member, 0);
    if (want == MEMBER_WANT_LOAD) member_loaded(&v->member, true);
    bool sharded = v->member.config.moment_count > 0;
    if (want == MEMBER_WANT_APPLY && sharded) member_range_applied(&v->member);
    if ((want == MEMBER_WANT_APPLY && !sharded) || want == MEMBER_WANT_PLACE)
        member_applied(&v->member);
    if (want == MEMBER_WANT_SAVE) {
        struct wire_tag tag = v->member.saves.turn.tag;
        member_save_taken(&v->member);
        member_save_copied(&v->member);
        member_shard_written(&v->member, &tag, true, 1, 1);
    }
    if (want == MEMBER_WANT_COMPUTE) {
        bool first;
        uint32_t epoch = 0;
        bool add = member_slot_begin(&v->member, &first, &epoch);
        if (add && first) quant_clear(&v->member.exchange.own);
        if (add) quant_add(&v->member.exchange.own, v->scale, v->weights, 0, BLOCKS);
        member_slot_done(&v->member, add, epoch, 10);
    }
    (void)member_park(&v->member);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct victim v;
    static struct exchange_message message;
    static _Alignas(16) uint8_t payload[WIRE_PAYLOAD_MAX];
    set_up(&v, count % 2 == 1);
    for (int64_t now_us = 1; count >= 3; now_us += 100000) {
        uint32_t kind = bytes[0] % (WIRE_KIND_END + 1);
        size_t length = (size_t)bytes[1] | (size_t)bytes[2] << 8, left = count - 3;
        if (length > left) length = left;
        memcpy(payload, bytes + 3, length);
        if (kind == WIRE_DATA && length >= EXCHANGE_HEADER_BYTES) exchange_seal(payload);
        if (kind != 0 && kind < WIRE_KIND_END &&
            !member_frame(&v.member, 3, (enum wire_kind)kind, payload, length, now_us))
            return 0;
        if (kind == 0) member_tick(&v.member, now_us);
        member_record(&v.member, now_us);
        for (int i = 0; i < 8; i++) work(&v);
        enum wire_kind ignored;
        while (member_fill(&v.member, 3, payload, &ignored) > 0) {}
        while (member_next(&v.member, 3, &message)) (void)exchange_copy(&message, payload);
        bytes += 3 + length;
        count -= 3 + length;
    }
    return 0;
}
