/* Groups of 1 to 12 members exchange one step's sums in process, over random schedules: same bits as
 * one worker for one zone and for several, with own blocks becoming ready in any order while parts
 * are already travelling, with members that hold nothing, with a map of shards. And what must be
 * refused: damaged words, slots twice or missing, messages that break the rules. */
#include "base/splitmix.h"
#include "worker/core/exchange.h"
#include "worker/core/exchange_merge.h"
#include "worker/core/quant_isa.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    TENSORS = 4,
    ELEMENTS = 256 * 150 + 7 + 300 * 256 + 1,
    BLOCKS = 150 + 1 + 300 + 1,
    SLOTS = 16,
    MEMBERS_MAX = 12,
    MESSAGE_MAX = EXCHANGE_HEADER_BYTES + EXCHANGE_PAYLOAD_MAX,
    QUEUE_MAX = 64,
};

struct packet {
    size_t count;
    uint8_t *bytes;
};

struct queue { /* one direction of one pair */
    struct packet packet[QUEUE_MAX];
    uint32_t first, end;
};

struct world {
    struct layout layout;
    uint64_t start[BLOCKS + 1];
    uint32_t tensor_block[TENSORS + 1];
    int16_t scale[BLOCKS];
    float slot[SLOTS][ELEMENTS];
    uint32_t slots, members;
    uint8_t owner[SLOTS], zone[MEMBERS_MAX];
    struct shard_map map;
    bool has_map, is_plain;
    uint64_t watchers;

    struct exchange x[MEMBERS_MAX];
    void *memory[MEMBERS_MAX];
    float *mean[MEMBERS_MAX];
    struct queue queue[MEMBERS_MAX][MEMBERS_MAX];
    uint64_t crossed_bytes; /* between zones */

    float expected[ELEMENTS]; /* of one worker */
    int16_t next[BLOCKS];
    double norm;
};

static struct world w;
static struct exchange_message message;
static uint64_t random_state;

static uint32_t below(uint32_t end)
{
    return (uint32_t)(splitmix_next(&random_state) % end);
}

static void *memory_of(uint32_t member)
{
    if (w.memory[member] != NULL) return w.memory[member];
    assert_int_equal(posix_memalign(&w.memory[member], 64, exchange_size(&w.layout)), 0);
    w.mean[member] = malloc(sizeof w.expected);
    assert_non_null(w.mean[member]);
    return w.memory[member];
}

static void init_member(uint32_t member)
{
    struct exchange_setup setup = {.layout = &w.layout,
                                   .scale = w.scale,
                                   .slot_count = w.slots,
                                   .norm_end = BLOCKS - 1,
                                   .isa =
                                       (enum quant_isa)(member % ((uint32_t)quant_isa_best() + 1)),
                                   .is_plain = w.is_plain,
                                   .memory = memory_of(member)};
    setup.mean = w.mean[member];
    memset(setup.mean, 0x5a, sizeof w.expected);
    exchange_init(&w.x[member], &setup);
    w.x[member].zone = w.zone;
    w.x[member].map = w.has_map ? &w.map : NULL;
    w.x[member].watchers = w.watchers;
}

/* Sizes over many magnitudes; some blocks zero; now and then NaN, Inf and giants. */
static void draw_gradients(bool wild)
{
    for (uint32_t s = 0; s < w.slots; s++)
        for (uint32_t b = 0; b < BLOCKS; b++) {
            float size = b % 11 == 0 ? 0 : b % 7 == 0 ? 1e-9f : b % 5 == 0 ? 1e6f : 1;
            for (uint64_t i = w.start[b]; i < w.start[b + 1]; i++) {
                float noise = (float)(splitmix_next(&random_state) >> 40) * 0x1p-23f - 1;
                w.slot[s][i] = noise * size;
                if (wild && below(40000) == 0)
                    w.slot[s][i] = (float[]){__builtin_nanf(""), __builtin_inff(), 3e38f}[below(3)];
            }
        }
    for (uint32_t b = 0; b < BLOCKS; b++) {
        w.scale[b] = (int16_t)(b % 7 == 0 ? -20 : b % 5 == 0 ? 26 : 6);
        if (wild && below(3) == 0) w.scale[b] = (int16_t)((int)below(120) - 60);
        if (below(9) == 0) w.scale[b] = QUANT_SCALE_UNSET;
    }
}

static void begin(struct exchange *x, uint32_t members, uint32_t me)
{
    struct wire_tag tag = {x->tag.turn + 1, 1};
    exchange_begin(x, &tag, members, me);
}

static struct slot_set slots_of(uint32_t member)
{
    return slots_owned(w.owner, w.slots, member);
}

static void add_own(uint32_t member)
{
    quant_clear(&w.x[member].own);
    for (uint32_t s = 0; s < w.slots; s++)
        if (w.owner[s] == member) quant_add(&w.x[member].own, w.scale, w.slot[s], 0, BLOCKS);
}

/* What one worker gets. */
static void expect(void)
{
    struct shard_map *no_map = NULL;
    uint64_t watchers = w.watchers;
    uint8_t owner[SLOTS];
    w.watchers = 0;
    memcpy(owner, w.owner, sizeof owner);
    memset(w.owner, 0, sizeof w.owner);
    init_member(0);
    w.x[0].map = no_map;
    add_own(0);
    begin(&w.x[0], 1, 0);
    struct slot_set slots = slots_of(0);
    exchange_ready(&w.x[0], &slots);
    assert_true(exchange_is_done(&w.x[0]));
    memcpy(w.expected, w.mean[0], sizeof w.expected);
    memcpy(w.next, w.x[0].next_scale, sizeof w.next);
    w.norm = exchange_norm_squared(&w.x[0]);
    memcpy(w.owner, owner, sizeof owner);
    w.watchers = watchers;
}

static void set_up(uint64_t seed, uint32_t members, uint32_t zones, bool wild)
{
    const uint64_t counts[TENSORS] = {256 * 150, 7, 300 * 256, 1};
    random_state = seed;
    layout_init(&w.layout, counts, TENSORS, w.start, w.tensor_block);
    assert_int_equal(w.layout.block_count, BLOCKS);
    w.slots = seed % 3 == 0 ? 12 : SLOTS;
    w.members = members;
    w.crossed_bytes = 0;
    for (uint32_t i = 0; i < members; i++) w.zone[i] = (uint8_t)below(zones);
    for (uint32_t s = 0; s < w.slots; s++) w.owner[s] = (uint8_t)below(members);
    if (seed % 4 == 0) memset(w.owner, (int)(members - 1), sizeof w.owner); /* others hold none */
    for (uint32_t s = 0; s < w.slots; s++)
        while ((w.watchers >> w.owner[s] & 1) != 0) w.owner[s] = (uint8_t)below(members);
    draw_gradients(wild);
    expect();
    for (uint32_t i = 0; i < members; i++) {
        init_member(i);
        add_own(i);
    }
    for (uint32_t i = 0; i < members; i++) begin(&w.x[i], members, i);
}

static void draw_map(uint32_t members)
{
    w.map.unit_count = shard_unit_count(BLOCKS);
    for (uint32_t u = 0; u < w.map.unit_count; u++) {
        w.map.owner[u] = (uint8_t)below(members);
        uint32_t mirror = SHARD_NONE;
        if (members > 1) mirror = (w.map.owner[u] + 1 + below(members - 1)) % members;
        w.map.mirror[u] = (uint8_t)mirror;
    }
}

static void send_some(uint32_t from, uint32_t to)
{
    struct queue *queue = &w.queue[from][to];
    static uint8_t bytes[MESSAGE_MAX];
    while (queue->end - queue->first < 3 && exchange_next(&w.x[from], to, &message)) {
        size_t count = exchange_copy(&message, bytes);
        struct packet *packet = &queue->packet[queue->end++ % QUEUE_MAX];
        *packet = (struct packet){count, aligned_alloc(64, (count + 63) / 64 * 64)};
        assert_non_null(packet->bytes);
        memcpy(packet->bytes, bytes, count);
        if (w.zone[from] != w.zone[to]) w.crossed_bytes += count;
    }
}

static bool deliver(uint32_t from, uint32_t to)
{
    struct queue *queue = &w.queue[from][to];
    if (queue->first == queue->end) return false;
    struct packet packet = queue->packet[queue->first++ % QUEUE_MAX];
    bool fine = exchange_take(&w.x[to], from, packet.bytes, packet.bytes + EXCHANGE_HEADER_BYTES,
                              packet.count - EXCHANGE_HEADER_BYTES);
    free(packet.bytes);
    assert_true(fine);
    return true;
}

/* Own blocks of a random member become final, from the end as backward passes do, or anywhere. */
static void advance_own(uint32_t member, uint32_t *ready_from)
{
    struct exchange *x = &w.x[member];
    struct slot_set slots = slots_of(member);
    if (!x->ready) exchange_own(x, &slots);
    uint32_t some = below(5) == 0 ? ready_from[member] : below(ready_from[member] + 1);
    if (below(4) == 0) exchange_blocks_ready(x, below(BLOCKS), BLOCKS); /* some twice */
    ready_from[member] -= some;
    exchange_blocks_ready(x, ready_from[member], BLOCKS);
}

static bool all_done(void)
{
    for (uint32_t i = 0; i < w.members; i++)
        if (!exchange_is_done(&w.x[i])) return false;
    return true;
}

static void run(void)
{
    uint32_t ready_from[MEMBERS_MAX];
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) ready_from[i] = BLOCKS;
    for (uint32_t turn = 0; !all_done(); turn++) {
        assert_true(turn < 400000);
        uint32_t from = below(w.members), to = below(w.members);
        if (below(3) == 0 && (turn > 50 || below(4) == 0)) advance_own(from, ready_from);
        if (from == to) continue;
        send_some(from, to);
        if (below(3) != 0) (void)deliver(from, to);
    }
    for (uint32_t a = 0; a < w.members; a++)
        for (uint32_t b = 0; b < w.members; b++) assert_false(deliver(a, b)); /* none too many */
}

static bool has_means(uint32_t member, uint32_t block)
{
    if (!w.has_map || block == BLOCKS - 1) return true;
    uint32_t unit = shard_unit_of(w.map.unit_count, BLOCKS, block);
    return w.map.owner[unit] == member || w.map.mirror[unit] == member;
}

static void check_results(void)
{
    for (uint32_t i = 0; i < w.members; i++) {
        assert_true(exchange_covers(&w.x[i]));
        assert_int_equal(w.x[i].corrupt, GROUP_NOBODY);
        assert_memory_equal(w.x[i].next_scale, w.next, sizeof w.next);
        double norm = exchange_norm_squared(&w.x[i]);
        assert_memory_equal(&norm, &w.norm, sizeof norm);
        uint64_t parts, means;
        exchange_missing(&w.x[i], &parts, &means);
        assert_int_equal(parts | means, 0);
        for (uint32_t b = 0; b < BLOCKS; b++)
            if (has_means(i, b))
                assert_memory_equal(w.mean[i] + w.start[b], w.expected + w.start[b],
                                    (w.start[b + 1] - w.start[b]) * sizeof(float));
    }
}

static void any_schedule_gives_the_bits_of_one_worker(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint32_t members = 1 + (uint32_t)(seed * 5 % MEMBERS_MAX), zones = 1 + (uint32_t)(seed % 4);
        random_state = seed;
        w.has_map = seed % 5 == 0;
        if (w.has_map) draw_map(members);
        set_up(seed, members, zones, seed % 2 == 0);
        run();
        check_results();
    }
    w.has_map = false;
}

/* As a joiner is while the state comes in: it has slots of nobody, owns nothing, and merges nothing. */
static void watchers_get_the_means_and_give_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint32_t members = 2 + (uint32_t)(seed * 5 % (MEMBERS_MAX - 1));
        random_state = seed;
        for (uint32_t i = 0; i + 1 < members; i++) /* the last one works */
            if (below(3) == 0) w.watchers |= UINT64_C(1) << i;
        set_up(seed, members, 1 + (uint32_t)(seed % 4), seed % 2 == 0);
        run();
        check_results();
        for (uint32_t i = 0; i < members; i++)
            assert_false(exchange_watches(&w.x[i], i) && exchange_owns(&w.x[i], i));
        w.watchers = 0;
    }
}

/* Two zones of four: direct, each part and each mean would cross four times as often. */
static void a_chunk_crosses_between_zones_once_each_way(void **state)
{
    (void)state;
    uint64_t crossed[2];
    for (uint32_t tree = 0; tree < 2; tree++) {
        set_up(7, 8, 1, false);
        for (uint32_t i = 0; i < 8; i++) {
            w.owner[i] = (uint8_t)i;
            w.owner[(i + 8) % w.slots] = (uint8_t)i;
            w.zone[i] = i % 2;
        }
        for (uint32_t i = 0; i < 8; i++) {
            w.x[i].zone = tree == 1 ? w.zone : NULL;
            add_own(i);
            begin(&w.x[i], 8, i);
        }
        w.crossed_bytes = 0;
        run();
        check_results();
        crossed[tree] = w.crossed_bytes;
    }
    uint64_t once = 2 * (uint64_t)ELEMENTS * 4; /* all words one way, all means the other */
    assert_true(crossed[1] < once + once / 8);  /* some blocks have a second word */
    assert_true(crossed[0] > 3 * crossed[1]);
}

static void drain(void)
{
    for (uint32_t a = 0; a < MEMBERS_MAX; a++)
        for (uint32_t b = 0; b < MEMBERS_MAX; b++)
            while (w.queue[a][b].first != w.queue[a][b].end)
                free(w.queue[a][b].packet[w.queue[a][b].first++ % QUEUE_MAX].bytes);
}

static void ready_all(void)
{
    for (uint32_t i = 0; i < w.members; i++) {
        struct slot_set slots = slots_of(i);
        exchange_ready(&w.x[i], &slots);
    }
}

static void a_damaged_part_names_its_sender(void **state)
{
    (void)state;
    static _Alignas(16) uint8_t bytes[MESSAGE_MAX];
    for (uint64_t seed = 1; seed <= 30; seed++) {
        set_up(seed * 3 + 1, 3, 1, false);
        ready_all();
        bool mean = seed % 3 == 0;
        if (mean) { /* parts arrive whole; then a mean of member 0 is damaged on its way to 2 */
            for (uint32_t from = 1; from < 3; from++)
                for (uint32_t i = 0; i < 20; i++) {
                    send_some(from, 0);
                    (void)deliver(from, 0);
                }
        }
        uint32_t from = mean ? 0 : 1 + below(2), to = mean ? 2 : 0;
        bool found = exchange_next(&w.x[from], to, &message);
        while (mean && found && message.header[16] == 1)
            found = exchange_next(&w.x[from], to, &message);
        if (!found || message.payload_bytes == 0) continue; /* holds no slot */
        size_t count = exchange_copy(&message, bytes);
        size_t at = below((uint32_t)count);
        bytes[at] ^= (uint8_t)(1u << below(8));
        assert_false(exchange_take(&w.x[to], from, bytes, bytes + EXCHANGE_HEADER_BYTES,
                                   count - EXCHANGE_HEADER_BYTES));
        if (w.x[to].corrupt != GROUP_NOBODY) {
            assert_int_equal(w.x[to].corrupt, from);
            assert_true(w.x[to].broken);
        } /* else its header or its lengths were wrong */
        drain();
    }
}

static void slots_twice_or_missing_break_the_exchange(void **state)
{
    (void)state;
    for (uint32_t wrong = 0; wrong < 3; wrong++) {
        set_up(5, 4, 2, false);
        for (uint32_t i = 0; i < 4; i++) {
            struct slot_set slots = slots_of(i);
            if (wrong == 1 && i == 2) slot_set_add(&slots, slots_of(3).word[0] & 1 ? 0 : 1);
            if (wrong == 1) slot_set_add(&slots, 4);          /* in all */
            if (wrong == 2) slots.word[0] &= ~UINT64_C(0x10); /* in none */
            exchange_ready(&w.x[i], &slots);
        }
        for (uint32_t i = 0; i < 20000; i++) {
            uint32_t from = below(4), to = below(4);
            if (from == to) continue;
            send_some(from, to);
            (void)deliver(from, to);
        }
        for (uint32_t i = 0; i < 4; i++) assert_int_equal(exchange_is_done(&w.x[i]), wrong == 0);
        bool broken = false;
        for (uint32_t i = 0; i < 4; i++) broken = broken || w.x[i].broken;
        assert_int_equal(broken, wrong != 0);
        drain();
    }
}

/* A member is lost in the middle; the others begin again from sums they have kept, its slots added
 * by another. */
static void own_sums_outlive_a_broken_exchange(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        set_up(seed, 5, 1 + (uint32_t)(seed % 3), seed % 2 == 0);
        ready_all();
        for (uint32_t i = 0; i < 30; i++) {
            uint32_t from = below(5), to = below(5);
            if (from == to) continue;
            send_some(from, to);
            if (below(2) == 0) (void)deliver(from, to);
        }
        drain();
        for (uint32_t i = 0; i < 4; i++) exchange_abort(&w.x[i]);
        for (uint32_t s = 0; s < w.slots; s++) {
            if (w.owner[s] != 4) continue;
            w.owner[s] = (uint8_t)below(4);
            struct quant_sum *own = &w.x[w.owner[s]].own;
            quant_add(own, w.scale, w.slot[s], 0, BLOCKS);
        }
        w.members = 4;
        for (uint32_t i = 0; i < 4; i++) begin(&w.x[i], 4, i);
        run();
        check_results();
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static _Alignas(16) uint8_t bytes[MESSAGE_MAX];
    set_up(7, 3, 1, false);
    ready_all();
    assert_true(exchange_next(&w.x[1], 0, &message));
    size_t count = exchange_copy(&message, bytes) - EXCHANGE_HEADER_BYTES;
    uint8_t *payload = bytes + EXCHANGE_HEADER_BYTES;
    static const struct {
        uint32_t at, value;
    } cases[] = {{16, 0},      {16, 7}, {20, 1},    {20, 99}, {24, 1},
                 {24, 100000}, {28, 0}, {28, 5000}, {32, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t kept;
        memcpy(&kept, bytes + cases[i].at, sizeof kept);
        memcpy(bytes + cases[i].at, &cases[i].value, sizeof cases[i].value);
        assert_false(exchange_take(&w.x[0], 1, bytes, payload, count)); /* not sealed */
        exchange_seal(bytes);
        assert_false(exchange_take(&w.x[0], 1, bytes, payload, count));
        memcpy(bytes + cases[i].at, &kept, sizeof kept);
        exchange_seal(bytes);
    }
    assert_false(exchange_take(&w.x[0], 1, bytes, payload, count - 1));
    drain();
}

static void the_plain_form_sums_floats(void **state)
{
    (void)state;
    w.is_plain = true;
    set_up(7, 4, 2, false);
    run();
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < ELEMENTS; k += 13) {
            double sum = 0, size = 0;
            for (uint32_t s = 0; s < w.slots; s++) {
                sum += (double)w.slot[s][k];
                size += w.slot[s][k] < 0 ? -(double)w.slot[s][k] : (double)w.slot[s][k];
            }
            double off = (double)w.mean[i][k] - sum / w.slots;
            assert_true((off < 0 ? -off : off) <= size * 1e-6 / w.slots);
        }
    w.is_plain = false;
}

static void the_norm_has_one_tree_for_any_cut(void **state)
{
    (void)state;
    static double square[1000], cut_up[1000];
    for (uint64_t seed = 1; seed <= 100; seed++) {
        random_state = seed;
        uint32_t count = 1 + below(1000);
        struct exchange whole = {.square = square, .norm_end = count}, pieces = whole;
        pieces.square = cut_up;
        for (uint32_t i = 0; i < count; i++)
            square[i] =
                (double)(splitmix_next(&random_state) >> 11) * (below(2) == 0 ? 0x1p-80 : 1);
        for (uint32_t first = 0, end; first < count; first = end) {
            double node[EXCHANGE_NODES_MAX];
            end = first + 1 + below(count - first);
            uint32_t nodes = exchange_norm_write(square, first, end, node);
            assert_int_equal(nodes, exchange_norm_nodes(first, end));
            exchange_norm_read(cut_up, first, end, (const uint8_t *)node);
        }
        assert_true(exchange_norm_squared(&whole) == exchange_norm_squared(&pieces));
    }
}

static int free_all(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        free(w.memory[i]);
        free(w.mean[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_schedule_gives_the_bits_of_one_worker),
        cmocka_unit_test(watchers_get_the_means_and_give_nothing),
        cmocka_unit_test(a_chunk_crosses_between_zones_once_each_way),
        cmocka_unit_test(a_damaged_part_names_its_sender),
        cmocka_unit_test(slots_twice_or_missing_break_the_exchange),
        cmocka_unit_test(own_sums_outlive_a_broken_exchange),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(the_plain_form_sums_floats),
        cmocka_unit_test(the_norm_has_one_tree_for_any_cut),
    };
    return cmocka_run_group_tests(tests, NULL, free_all);
}
