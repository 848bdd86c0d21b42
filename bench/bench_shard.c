/* Bytes that travel when sharded moments are cut anew, against the least possible.
 *
 *     bench_shard [CHANGES]      200 unless given
 *
 * Row         reshard_bytes.vs_least   payload bytes of all cuts; peer: sum over members and cuts of
 *                                      max(0, what it is to hold - what it holds)
 * How         Up to 16 members in 3 zones, memories 1 to 8, two moments of a million elements. At
 *             each change somebody joins, leaves with notice (a source of the cut) or dies. Messages
 *             are those of handover.h, handed from member to member and checked for content.
 */
#include "core/assert.h"
#include "worker/core/handover.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 16, MOMENTS = 2, ELEMENTS = 1 << 20, ZONES = 3 };

struct world {
    uint64_t random, next_id, sent_bytes, least_units;
    struct layout layout;
    uint32_t count;
    uint64_t id[GROUP_MEMBERS_MAX];
    struct shard_member member[GROUP_MEMBERS_MAX];
    float *moment[GROUP_MEMBERS_MAX][MOMENTS];
    struct shard_map map, held;
    struct shard_moves moves;
    struct handover handover[GROUP_MEMBERS_MAX];
};

static uint32_t below(struct world *w, uint32_t end)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(w->random >> 33) % end;
}

static float truth(uint32_t moment, uint64_t element)
{
    return (float)(element * 3 + moment);
}

static void add_member(struct world *w)
{
    uint32_t at = w->count++;
    w->id[at] = w->next_id++;
    w->member[at] = (struct shard_member){below(w, ZONES), at, 1 + below(w, 8)};
    for (uint32_t i = 0; i < MOMENTS; i++) {
        w->moment[at][i] = calloc(ELEMENTS + 1, sizeof(float));
        ASSERT(w->moment[at][i] != NULL);
    }
}

static void remove_member(struct world *w, uint32_t at)
{
    for (uint32_t i = 0; i < MOMENTS; i++) free(w->moment[at][i]);
    for (uint32_t i = at + 1; i < w->count; i++) {
        w->id[i - 1] = w->id[i];
        w->member[i - 1] = w->member[i];
        memcpy(w->moment[i - 1], w->moment[i], sizeof w->moment[i]);
    }
    w->count--;
}

/* All messages of the cut, round and round until none is left. */
static void carry(struct world *w)
{
    static struct exchange_message message;
    static _Alignas(16) uint8_t payload[EXCHANGE_PAYLOAD_MAX];
    for (bool any = true; any;) {
        any = false;
        for (uint32_t from = 0; from < w->count; from++)
            for (uint32_t to = 0; to < w->count; to++) {
                if (!handover_next(&w->handover[from], to, &message)) continue;
                size_t at = 0;
                for (uint32_t i = 0; i < message.span_count; i++) {
                    memcpy(payload + at, message.span[i].bytes, message.span[i].count);
                    at += message.span[i].count;
                }
                ASSERT(handover_take(&w->handover[to], from, message.header, payload, at));
                any = true;
            }
    }
}

static void check(const struct world *w, uint32_t m)
{
    ASSERT(handover_is_done(&w->handover[m]));
    uint32_t units = w->map.unit_count, blocks = w->layout.block_count;
    for (uint32_t u = 0; u < units; u++) {
        if (w->map.owner[u] != m && w->map.mirror[u] != m) continue;
        uint64_t end = w->layout.start[shard_first_block(units, blocks, u + 1)];
        for (uint64_t e = w->layout.start[shard_first_block(units, blocks, u)]; e < end; e += 97)
            for (uint32_t i = 0; i < MOMENTS && e < ELEMENTS; i++)
                ASSERT(w->moment[m][i][e] == truth(i, e));
    }
}

static void cut(struct world *w)
{
    uint32_t hold[256] = {0};
    shard_plan(w->member, w->count, &w->held, &w->map);
    shard_moves(&w->held, &w->map, w->count, &w->moves);
    for (uint32_t u = 0; u < w->map.unit_count; u++)
        hold[w->map.owner[u]]++, hold[w->map.mirror[u]]++;
    w->least_units += shard_least_moves(&w->held, hold, w->count);
    for (uint32_t m = 0; m < w->count; m++) {
        struct handover *h = &w->handover[m];
        *h = (struct handover){.kind = HANDOVER_MOMENTS,
                               .tag = {1, 1},
                               .layout = &w->layout,
                               .map = &w->map,
                               .moves = &w->moves,
                               .member_count = w->count,
                               .me = m,
                               .array_count = MOMENTS,
                               .array = {w->moment[m][0], w->moment[m][1]}};
        handover_begin(h);
    }
    carry(w);
    for (uint32_t m = 0; m < w->count; m++) {
        w->sent_bytes += w->handover[m].sent_bytes;
        if (w->member[m].memory > 0) check(w, m);
    }
}

static void change(struct world *w)
{
    uint64_t old[GROUP_MEMBERS_MAX];
    uint32_t old_count = w->count, victim = below(w, w->count), what = below(w, 3);
    memcpy(old, w->id, sizeof old);
    if (w->count < 3 || (what == 0 && w->count < MEMBERS))
        add_member(w);
    else if (what == 1)
        w->member[victim].memory = 0;
    else
        remove_member(w, victim);
    shard_translate(&w->map, old, old_count, w->id, w->count, &w->held);
    ASSERT(shard_lost_units(&w->held) == 0);
    cut(w);
    for (uint32_t i = w->count; i-- > 0;) {
        if (w->member[i].memory > 0) continue;
        memcpy(old, w->id, sizeof old);
        old_count = w->count;
        remove_member(w, i);
        w->held = w->map;
        shard_translate(&w->held, old, old_count, w->id, w->count, &w->map);
    }
}

int main(int argc, char **argv)
{
    static struct world w = {.random = 7, .next_id = 1};
    static uint64_t start[ELEMENTS / LAYOUT_BLOCK_ELEMENTS + 2];
    static uint32_t tensor_block[3];
    const uint64_t counts[2] = {ELEMENTS, 1};
    uint32_t changes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 200;
    layout_init(&w.layout, counts, 2, start, tensor_block);
    while (w.count < MEMBERS / 2) add_member(&w);
    w.held.unit_count = shard_unit_count(w.layout.block_count);
    memset(w.held.owner, SHARD_NONE, sizeof w.held.owner);
    memset(w.held.mirror, SHARD_NONE, sizeof w.held.mirror);
    for (uint32_t m = 0; m < w.count; m++)
        for (uint32_t i = 0; i < MOMENTS; i++)
            for (uint64_t e = 0; e < ELEMENTS; e++) w.moment[m][i][e] = truth(i, e);
    cut(&w);
    w.sent_bytes = w.least_units = 0; /* a first cut moves nothing */
    for (uint32_t i = 0; i < changes; i++) change(&w);
    double least = (double)w.least_units / w.map.unit_count * ELEMENTS * MOMENTS * sizeof(float);
    printf(
        "{\"name\":\"reshard_bytes.vs_least\",\"value\":%.0f,\"unit\":\"bytes\",\"peer\":\"least "
        "possible\",\"peer_value\":%.0f,\"ratio\":%.4f,\"better\":\"lower\",\"runs\":%u}\n",
        (double)w.sent_bytes, least, (double)w.sent_bytes / least, changes);
    return 0;
}
