#include "worker/core/member_sim.h"
#include "worker/core/quant_isa.h"
#include <stdlib.h>
#include <string.h>

static _Alignas(64) uint8_t exchange_memory[NODES][1 << 19];

uint64_t sim_mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t sim_below(struct world *w, uint32_t end)
{
    w->random = sim_mix(w->random);
    return (uint32_t)(w->random % end);
}

static bool earlier(const struct occurrence *a, const struct occurrence *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void sim_later(struct world *w, int64_t delay_us, struct occurrence o)
{
    assert_true(w->heap_count < HEAP_MAX);
    o.at_us = w->now_us + delay_us;
    o.order = w->order++;
    uint32_t at = w->heap_count++;
    for (; at > 0 && earlier(&o, &w->heap[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = o;
}

static struct occurrence take(struct world *w)
{
    struct occurrence first = w->heap[0], last = w->heap[--w->heap_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= w->heap_count) break;
        if (child + 1 < w->heap_count && earlier(&w->heap[child + 1], &w->heap[child])) child++;
        if (!earlier(&w->heap[child], &last)) break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return first;
}

static struct member *member_of(struct world *w, uint32_t index)
{
    return &w->node[index].member;
}

static void pump_link(struct world *w, uint32_t from, uint32_t to, bool flush)
{
    static _Alignas(16) uint8_t bytes[WIRE_PAYLOAD_MAX];
    static struct exchange_message message;
    struct link *link = &w->link[from][to];
    while (link->up && (flush || link->in_flight < IN_FLIGHT)) {
        struct occurrence o = {.kind = ON_FRAME, .node = to, .peer = from, .epoch = link->epoch};
        o.count = member_fill(member_of(w, from), sim_id_of(to), bytes, &o.frame);
        if (o.count == 0 && link->looks) {
            link->looks = member_next(member_of(w, from), sim_id_of(to), &message);
            o.frame = WIRE_DATA;
            if (link->looks) o.count = exchange_copy(&message, bytes);
        }
        if (o.count == 0) break;
        assert_true(o.count < FRAME_MAX);
        o.bytes = malloc(o.count);
        memcpy(o.bytes, bytes, o.count);
        int64_t arrives = w->now_us + 20 + sim_below(w, sim_below(w, 8) == 0 ? 60000 : 400);
        if (arrives <= link->last_us) arrives = link->last_us + 1;
        link->last_us = arrives;
        link->in_flight++;
        sim_later(w, arrives - w->now_us, o);
    }
}

void sim_pump(struct world *w, uint32_t from, bool flush)
{
    uint64_t id;
    while (member_take_data_due(member_of(w, from), &id)) w->link[from][id - 1].looks = true;
    for (uint32_t to = 0; to < w->node_count; to++) pump_link(w, from, to, flush);
}

static void look_for_data(struct world *w, uint32_t from)
{
    for (uint32_t to = 0; to < w->node_count; to++) w->link[from][to].looks = true;
}

static void close_link(struct world *w, uint32_t a, uint32_t b)
{
    w->link[a][b].up = false;
    w->link[a][b].down_us = w->now_us;
    w->link[a][b].epoch++;
}

void sim_quit(struct world *w, uint32_t index, bool done)
{
    struct node *node = &w->node[index];
    sim_pump(w, index, true);
    node->alive = false;
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (!w->link[i][index].up) continue;
        int64_t after = w->link[index][i].last_us - w->now_us;
        sim_later(
            w, (after < 0 ? 0 : after) + 1,
            (struct occurrence){
                .kind = ON_LINK_DOWN, .node = i, .peer = index, .epoch = w->link[i][index].epoch});
    }
    if (!done) return;
    bool mends =
        w->spoils && w->save_every == 0; /* what was done meanwhile stays: all have the same */
    if (w->done_count++ == 0 && mends) memcpy(w->final, node->weights, sizeof w->final);
    size_t bytes = w->sharded ? (ELEMENTS - 1) * sizeof(float) : sizeof w->final;
    bool same = memcmp(node->weights, w->final, bytes) == 0;
    if (!same && !(mends && w->disputes == 0)) w->wrong = "final bits differ";
    if (w->sharded && !mends) sim_check_moments(w, node);
}

uint32_t sim_alive_count(const struct world *w)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->node_count; i++) count += w->node[i].alive;
    return count;
}

static void connect_nodes(struct world *w, uint32_t a, uint32_t b, int64_t delay_us)
{
    uint32_t epoch = ++w->link[a][b].epoch;
    if (w->link[b][a].epoch > epoch) epoch = w->link[b][a].epoch;
    w->link[a][b].epoch = w->link[b][a].epoch = epoch;
    sim_later(w, delay_us + sim_below(w, 500),
              (struct occurrence){.kind = ON_LINK_UP, .node = a, .peer = b, .epoch = epoch});
    sim_later(w, delay_us + sim_below(w, 500),
              (struct occurrence){.kind = ON_LINK_UP, .node = b, .peer = a, .epoch = epoch});
}

void sim_join(struct world *w)
{
    if (w->node_count == w->nodes_max || sim_alive_count(w) == w->alive_max) return;
    uint32_t index = w->node_count++;
    struct node *node = &w->node[index];
    memset(node, 0, sizeof *node);
    node->alive = node->was = true;
    node->slot_us = 2000 + sim_below(w, 60000);
    for (uint32_t i = 0; i < ELEMENTS - 1; i++) node->weights[i] = (float)(i % 17) * 0.1f;
    for (uint32_t b = 0; b < BLOCKS; b++) node->scale[b] = QUANT_SCALE_UNSET;
    node->segment[0] = (struct transfer_segment){(uint8_t *)node->weights, sizeof node->weights};
    node->segment[1] = (struct transfer_segment){(uint8_t *)node->scale, sizeof node->scale};
    struct member_config config = {
        .id = sim_id_of(index),
        .steps = w->steps,
        .weights_hash = 7,
        .zone = sim_below(w, 3),
        .slot_count = w->slots,
        .gang = w->gang,
        .save_every = w->save_every,
        .has_store = w->save_every != 0,
        .layout = &w->layout,
        .scale = node->scale,
        .exchange_memory = exchange_memory[index],
        .isa = (enum quant_isa)(index % ((uint32_t)quant_isa_best() + 1)),
        .norm_end = BLOCKS - 1,
        .mean = node->gradient,
        .state = {node->segment, 2, sizeof node->weights + sizeof node->scale},
        .shadow = node->shadow,
        .recorder = &node->recorder,
        .log = {.step = node->log_step,
                .turn = node->log_turn,
                .step_max = STEPS_MAX,
                .turn_max = STEPS_MAX},
        .moment_count = w->sharded ? MOMENTS : 0,
        .moment = {node->moment[0], node->moment[1]},
        .next_weights = node->next_weights,
        .memory = 1 + sim_below(w, 8),
        .host = sim_below(w, 4),
    };
    recorder_init(&node->recorder);
    member_init(&node->member, &config);
    node->blind = sim_mix(w->random + 2) % 6 == 0;
    if (w->store_full && !node->blind) member_sees(&node->member, w->store_position);
    member_start(&node->member, w->now_us);
    /* Some load their data between shoal_join() and the first shoal_next(). */
    int64_t loads_us =
        sim_mix(w->random) % 4 == 0 ? (int64_t)(sim_mix(w->random + 1) % 3000000) : 0;
    node->doing = MEMBER_WANT_WAIT;
    if (loads_us > 0)
        sim_later(w, loads_us, (struct occurrence){.kind = ON_WORK, .node = index});
    else
        (void)member_park(&node->member);
    for (uint32_t i = 0; i < index; i++)
        if (w->node[i].alive) connect_nodes(w, index, i, 1000 + sim_below(w, 30000));
    sim_later(w, sim_below(w, 250000), (struct occurrence){.kind = ON_TICK, .node = index});
    w->joins++;
}

void sim_lose_link(struct world *w, uint32_t a, uint32_t b)
{
    uint32_t epoch = w->link[a][b].epoch;
    sim_later(w, 0,
              (struct occurrence){.kind = ON_LINK_DOWN, .node = a, .peer = b, .epoch = epoch});
    sim_later(w, sim_below(w, 3000),
              (struct occurrence){.kind = ON_LINK_DOWN, .node = b, .peer = a, .epoch = epoch});
}

/* Of those on one host: even ids, and odd ones. */
static void look_at_boards(struct world *w, uint32_t index)
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        struct link *link = &w->link[index][i];
        struct node *peer = &w->node[i];
        if (!link->up || !link->board || link->posts_seen == peer->posts) continue;
        link->posts_seen = peer->posts;
        if (!member_take_board(member_of(w, index), sim_id_of(i), peer->board, peer->board_bytes,
                               w->now_us))
            w->wrong = "a correct peer's board was called unsound";
    }
}

static void post(struct node *node)
{
    size_t bytes = member_fill_board(&node->member, node->board);
    if (bytes == 0) return;
    node->board_bytes = bytes;
    node->posts++;
}

static void tick(struct world *w, uint32_t index)
{
    struct node *node = &w->node[index];
    if (!node->cut_off) look_at_boards(w, index);
    member_tick(&node->member, w->now_us);
    post(node);
    /* It came when the others were going: the server stops workers of a job that is done. */
    if (w->done_count > 0 && !w->node[index].member.self.has_state)
        member_leave(&w->node[index].member);
    member_told(&node->member, sim_first_not_stored(w));
    member_peers_settled(&node->member, true);
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->link[index][i].up && member_peer_is_silent(&node->member, sim_id_of(i))) {
            close_link(w, index, i);
            member_peer_down(&node->member, sim_id_of(i));
        }
        bool apart = i < index && !w->link[index][i].up && !w->link[i][index].up &&
                     !node->cut_off && !w->node[i].cut_off;
        if (apart && w->node[i].alive && sim_below(w, 2) == 0) connect_nodes(w, index, i, 1000);
    }
    sim_later(w, 250000, (struct occurrence){.kind = ON_TICK, .node = index});
}

/* A bit of a message flips on its way. *ret_seen: what carries orders has found it; that of data is for
 * the member to find. */
static bool damage(struct world *w, const struct occurrence *o, bool *ret_seen)
{
    *ret_seen = false;
    if (!w->noisy || w->calm) return false;
    if (o->frame != WIRE_DATA) { /* not drawn: the other schedules stay as they were */
        uint64_t chance = sim_mix(w->random ^ o->order);
        if (chance % 30000 != 0 || w->now_us > TROUBLE_US) return false; /* some are large */
        uint32_t check = wire_check(o->frame, o->bytes, o->count);
        o->bytes[(chance >> 32) % o->count] ^= (uint8_t)(1u << (chance >> 16) % 8);
        *ret_seen = wire_check(o->frame, o->bytes, o->count) != check;
        return true;
    }
    if (sim_below(w, 300) != 0) return false;
    uint8_t bit = (uint8_t)(1u << sim_below(w, 8)); /* drawn first, whatever the compiler */
    o->bytes[sim_below(w, (uint32_t)o->count)] ^= bit;
    return true;
}

static void frame(struct world *w, const struct occurrence *o)
{
    w->link[o->peer][o->node].in_flight -= w->link[o->peer][o->node].epoch == o->epoch;
    if (!w->link[o->node][o->peer].up || w->link[o->node][o->peer].epoch != o->epoch) return;
    bool seen, damaged = damage(w, o, &seen);
    bool sound = !seen && member_frame(member_of(w, o->node), sim_id_of(o->peer), o->frame,
                                       o->bytes, o->count, w->now_us);
    if (!sound && !damaged) w->wrong = "a correct peer was called unsound";
    if (!sound) { /* else it was of a turn that is over; the bits at the end tell */
        w->damages++;
        sim_lose_link(w, o->node, o->peer);
        return;
    }
    if (w->node[o->peer].alive) pump_link(w, o->peer, o->node, false); /* room on the link */
}

static void happen(struct world *w, const struct occurrence *o)
{
    struct node *node = &w->node[o->node];
    if (o->kind == ON_TROUBLE) {
        sim_trouble(w);
        return;
    }
    if (!node->alive) return;
    struct link *link = &w->link[o->node][o->peer];
    bool data = o->kind == ON_FRAME && o->frame == WIRE_DATA;
    if (data || o->kind == ON_WORK || o->kind == ON_READY || o->kind == ON_LINK_UP)
        look_for_data(w, o->node);
    switch (o->kind) {
    case ON_TICK: tick(w, o->node); break;
    case ON_FRAME: frame(w, o); break;
    case ON_WORK: sim_work(w, o->node); break;
    case ON_READY: sim_hand_in(w, node); break;
    case ON_LINK_UP:
        if (link->up || link->epoch != o->epoch) break;
        *link = (struct link){.up = true,
                              .epoch = o->epoch,
                              .last_us = w->now_us,
                              .board = w->boards && (o->node + o->peer) % 2 == 0,
                              .posts_seen = w->node[o->peer].posts};
        assert_true(member_peer_up(&node->member, sim_id_of(o->peer), w->now_us));
        if (link->board) member_peer_board(&node->member, sim_id_of(o->peer));
        break;
    case ON_LINK_DOWN:
        if (!link->up || link->epoch != o->epoch) break;
        link->up = false;
        link->down_us = w->now_us;
        member_peer_down(&node->member, sim_id_of(o->peer));
        break;
    case ON_COPIED: member_save_copied(&node->member); break;
    case ON_WRITTEN: {
        bool fine = sim_below(w, 10) != 0 || !w->store_full || w->lonely;
        member_shard_written(&node->member, &o->saved, fine, 1, 1);
        break;
    }
    case ON_CRASH: sim_crash(w, o->node, sim_below(w, 3) != 0); break;
    case ON_LEAVE:
        member_leave(&node->member);
        w->leaves++;
        break;
    case ON_HEAL: node->cut_off = false; break;
    case ON_TROUBLE: break;
    }
    sim_serve(w, o->node);
}

void sim_init(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->random = seed;
    const uint64_t counts[TENSORS] = {300, 5, 600, 1};
    layout_init(&w->layout, counts, TENSORS, w->start, w->tensor_block);
    assert_int_equal(w->layout.block_count, BLOCKS);
    assert_true(exchange_size(&w->layout) <= sizeof exchange_memory[0]);
    w->layout.part_blocks_min = 1 + sim_below(w, 3);
    bool large = seed % (seed <= SHORT_SEEDS ? 64 : 8) == 0; /* costly: few in the short form */
    w->nodes_max = large ? NODES : SMALL_NODES;
    w->alive_max = large ? ALIVE_MAX : SMALL_ALIVE;
    w->slots = (uint32_t[]){1, 4, 8, 13, 32, 64, 150}[sim_below(w, large ? 7 : 5)];
    w->steps = 10 + sim_below(w, 30);
    w->spiky = sim_below(w, 3) == 0;
    w->noisy = seed % 7 == 0;
    w->sticky = sim_mix(w->random) % 2 == 0; /* not drawn: the other schedules stay as they were */
    w->save_every = sim_below(w, 2) * (2 + sim_below(w, 6));
    w->sharded = sim_below(w, 2) == 0;
    if (w->sharded && w->save_every == 0) w->save_every = 2 + sim_below(w, 6);
    if (w->save_every == 7) w->save_every = MEMBER_SAVE_AUTO;
    w->gentle = seed % 10 == 1 || seed >= GENTLE_SEEDS;
    if (w->gentle) w->sharded = true, w->noisy = w->sticky = false, w->steps = 40;
    if (w->gentle && w->save_every == 0) w->save_every = 5;
    w->split = seed >= SPLIT_SEEDS; /* long slots, so that there are steps left to lose */
    w->boards = seed / 2 % 2 == 0;
    if (w->split) w->slots = 64, w->steps = 60;
}

const char *sim_run(struct world *w, bool quiet)
{
    sim_reference(w);
    uint32_t first = 1 + sim_below(w, w->alive_max);
    w->gang = 1 + sim_below(w, first < 4 ? first : 4);
    if (w->split && first < 4) first = 4;
    if (w->lonely) first = 2, w->gang = 1;
    for (uint32_t i = 0; i < first; i++) sim_join(w);
    if (!quiet) sim_later(w, sim_below(w, 2000000), (struct occurrence){.kind = ON_TROUBLE});
    bool ever = true;
    while (ever && w->wrong == NULL && w->heap_count > 0 && w->now_us < DEADLINE_US) {
        struct occurrence o = take(w);
        if (o.at_us > w->now_us) w->now_us = o.at_us;
        happen(w, &o);
        free(o.bytes);
        ever = w->done_count == 0 || sim_alive_count(w) > 0;
    }
    while (w->heap_count > 0) free(take(w).bytes);
    if (w->wrong != NULL) return w->wrong;
    if (w->done_count == 0) return "nobody finished";
    if (sim_alive_count(w) > 0) return "somebody did not end";
    for (uint32_t step = 0; step < w->steps; step++)
        if (!sim_is_told(w, step)) return "a step was never reported";
    return NULL;
}
