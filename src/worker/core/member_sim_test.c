/* Groups of 1 to 64 workers through random joins, leaves, crashes (closed or silent), broken links,
 * delays and leader deaths, on a virtual clock, with the real machine and the real reduction.
 *
 * Sharded     In half of the worlds the momentum is two moments that the group shards and mirrors;
 *             what a node does not hold is NaN there. Owner and mirror often die together: then the
 *             store, which also holds the first step, is fallen back to.
 * Gentle      In some sharded worlds never more than one node crashes at a time, whoever leaves and
 *             joins in the same moment: then no moments may ever be lost.
 * Split       In others one node at a time is cut off from all for up to nine seconds, and nothing else
 *             happens: it may fall back, the others may never lose a step by it.
 * Looking     Whoever moves data looks for it after work of its own, after data that came, and when
 *             member_take_data_due() says so; never for another reason.
 * Properties  Final weights have the bits of the one-worker run. Every mean holds each slot exactly
 *             once. Every step is reported, always with the same loss, unless those who saw it end
 *             all died before they could tell (lose_reports()). Everybody ends, in bounded virtual
 *             time, after the trouble stops.
 * Not modelled  Torn frames (transport tests and the fuzzer), partial partitions that never heal.
 * Reproduce   worker_member_sim_test SEED
 */
#include "worker/core/member.h"
#include "worker/core/quant_isa.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    NODES = 100, /* ever alive in one run */
    ALIVE_MAX = 64,
    SMALL_NODES = 40, /* of most runs: more happens to each */
    SMALL_ALIVE = 16,
    TENSORS = 4, /* three params and the loss */
    ELEMENTS = 300 + 5 + 600 + 1,
    WEIGHTS = 2 * (ELEMENTS - 1), /* params, momentum */
    BLOCKS = 7,
    MOMENTS = 2,
    SHARES_KEPT = 8,
    IN_FLIGHT = 4,
    STEPS_MAX = 64,
    SHORT_SEEDS = 1000,
    GENTLE_SEEDS = 1000000, /* from here on all are gentle */
    SPLIT_SEEDS = 2000000,  /* from here on all are split */
    FRAME_MAX = 40000,
    HEAP_MAX = 65536,
};
#define TROUBLE_US  INT64_C(40000000)
#define REPORT_US   INT64_C(300000)
#define DEADLINE_US INT64_C(400000000)

enum occurrence_kind {
    ON_TICK,
    ON_FRAME,
    ON_WORK,
    ON_READY, /* a part of the slot being computed is final */
    ON_LINK_UP,
    ON_LINK_DOWN,
    ON_TROUBLE,
    ON_CRASH, /* both: of this node, soon after the trouble that chose it */
    ON_LEAVE,
    ON_HEAL,
    ON_COPIED,
    ON_WRITTEN
};

struct occurrence {
    int64_t at_us;
    uint64_t order;
    enum occurrence_kind kind;
    uint32_t node, peer, epoch; /* epoch: of the link, or of the node's work */
    enum wire_kind frame;
    struct wire_tag saved;
    size_t count;
    uint8_t *bytes;
};

struct node {
    bool alive, was;
    bool cut_off, was_cut_off;      /* now; since it was level with the others last */
    bool watching, unsure, flipped; /* as looked at last; a bit of its state was changed */
    uint64_t reached;
    struct member member;
    struct member_commit log[STEPS_MAX];
    float weights[WEIGHTS], initial[WEIGHTS], gradient[ELEMENTS];
    float moment[MOMENTS][ELEMENTS], next_weights[ELEMENTS];
    int16_t scale[BLOCKS];
    struct transfer_segment segment[2];
    uint8_t shadow[sizeof(float) * WEIGHTS + sizeof(int16_t) * BLOCKS];
    uint32_t slot_us, work, ready_from, slot_epoch;
    bool slot_dropped;
    struct recorder recorder;
    enum member_want doing;
    struct { /* copies of checkpoints in flight */
        struct wire_tag tag;
        float weights[WEIGHTS], moment[MOMENTS][ELEMENTS];
        struct shard_map map;
        int16_t scale[BLOCKS];
    } share[SHARES_KEPT]; /* a ring: what a dead node wrote may still count */
    uint32_t share_next;
};

struct link { /* one direction of one connection */
    bool up;
    bool looks; /* the sender has not yet seen that there is no data to send */
    uint32_t epoch, in_flight;
    int64_t last_us; /* arrival of the frame before: order is kept */
    int64_t down_us; /* when this end saw it lost last */
};

struct world {
    uint64_t random;
    int64_t now_us;
    uint64_t order;
    uint32_t slots, steps, gang, node_count, save_every, heap_count;
    uint32_t nodes_max, alive_max;
    bool calm, spiky, noisy, sharded, gentle, split;
    bool lonely, taken; /* see lonely_trouble() */
    bool flips;  /* nothing happens but joins, and in what comes to a joiner a bit flips, once */
    bool sticky; /* now and then a program is stuck in its slot for seconds */
    struct layout layout;
    uint64_t start[BLOCKS + 1];
    uint32_t tensor_block[TENSORS + 1];
    struct node node[NODES];
    struct link link[NODES][NODES];
    struct occurrence heap[HEAP_MAX];
    bool loss_known[64], store_full;
    int64_t report_us[64][NODES], commit_us[64][NODES]; /* when a node told of, applied a step */
    bool told[64][NODES]; /* it told of the step, whether that came through or not */
    uint64_t stored;      /* all steps below are with the server for good */
    float loss[64], final[WEIGHTS], final_moment[MOMENTS][ELEMENTS];
    double norm[64]; /* squared, of each step's mean gradient */
    uint64_t store_position;
    float store_weights[WEIGHTS], store_moment[MOMENTS][ELEMENTS];
    uint32_t fallbacks, recuts, seals;
    int16_t store_scale[BLOCKS];
    uint32_t done_count, crashes, joins, leaves, glitches, damages, redone, stuck, left_out;
    uint32_t watched; /* states that came while the others computed */
    uint32_t outvoted, flipped, founds;
    uint64_t left_at;
    const char *wrong;
};

static _Alignas(64) uint8_t exchange_memory[NODES][1 << 19];

static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(struct world *w, uint32_t end)
{
    w->random = mix(w->random);
    return (uint32_t)(w->random % end);
}

static bool earlier(const struct occurrence *a, const struct occurrence *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void later(struct world *w, int64_t delay_us, struct occurrence o)
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

/* The tiny model: a gradient that depends on weights, step and slot, over many magnitudes. */
static float compute(const struct world *w, const float *weights, uint64_t step, uint32_t slot,
                     float *gradient)
{
    float loss = 0;
    for (uint32_t i = 0; i < ELEMENTS - 1; i++) {
        uint64_t bits = mix(mix(step * 1024 + slot) ^ i);
        float noise = (float)(bits >> 40) * 0x1p-24f - 0.5f;
        float size = i < 300 ? 1.0f : i < 305 ? 1e-9f : 1e4f;
        if (w->spiky && step % 5 == 3 && i % 97 == 0) size *= 1e15f;
        if (i % 64 == 0 && slot % 2 == 0) noise = 0;
        gradient[i] = (noise + weights[i] * 0.1f) * size;
        loss += weights[i] * weights[i];
    }
    gradient[ELEMENTS - 1] = loss;
    return loss;
}

static void apply(float *weights, const float *mean)
{
    for (uint32_t i = 0; i < ELEMENTS - 1; i++) {
        float *momentum = &weights[ELEMENTS - 1 + i];
        *momentum = 0.9f * *momentum + mean[i];
        weights[i] -= 0.01f * *momentum;
    }
}

/* Two moments, for elements [first, end). */
static void apply_sharded(float *weights, float (*moment)[ELEMENTS], const float *mean,
                          uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++) {
        moment[0][i] = 0.9f * moment[0][i] + 0.1f * mean[i];
        moment[1][i] = 0.99f * moment[1][i] + 0.01f * (mean[i] < 0 ? -mean[i] : mean[i]);
        weights[i] -= 0.01f * moment[0][i] / (moment[1][i] + 1e-6f);
    }
}

static uint64_t id_of(uint32_t index)
{
    return index + 1;
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
        o.count = member_fill(member_of(w, from), id_of(to), bytes, &o.frame);
        if (o.count == 0 && link->looks) {
            link->looks = member_next(member_of(w, from), id_of(to), &message);
            o.frame = WIRE_DATA;
            if (link->looks) o.count = exchange_copy(&message, bytes);
        }
        if (o.count == 0) break;
        assert_true(o.count < FRAME_MAX);
        o.bytes = malloc(o.count);
        memcpy(o.bytes, bytes, o.count);
        int64_t arrives = w->now_us + 20 + below(w, below(w, 8) == 0 ? 60000 : 400);
        if (arrives <= link->last_us) arrives = link->last_us + 1;
        link->last_us = arrives;
        link->in_flight++;
        later(w, arrives - w->now_us, o);
    }
}

static void pump(struct world *w, uint32_t from, bool flush)
{
    uint64_t id;
    while (member_take_data_due(member_of(w, from), &id)) w->link[from][id - 1].looks = true;
    for (uint32_t to = 0; to < w->node_count; to++) pump_link(w, from, to, flush);
}

static void look_for_data(struct world *w, uint32_t from)
{
    for (uint32_t to = 0; to < w->node_count; to++) w->link[from][to].looks = true;
}

static void check_cover(struct world *w, const struct node *node)
{
    if (!exchange_covers(&node->member.exchange)) w->wrong = "slots not covered once";
    double norm = exchange_norm_squared(&node->member.exchange);
    uint64_t step = node->member.commit.step;
    if (memcmp(&norm, &w->norm[step], sizeof norm) != 0) w->wrong = "the norm's bits differ";
}

/* At the end each holder has the moments of the reference run. */
static bool holds_block(const struct member *m, uint32_t block)
{
    const struct member_base *base = &m->shards.base;
    if (base->tag.turn == 0) return false;
    uint32_t unit = shard_unit_of(base->map.unit_count, BLOCKS, block);
    for (uint32_t i = 0; i < base->member_count; i++)
        if (base->member[i] == m->config.id)
            return base->map.owner[unit] == i || base->map.mirror[unit] == i;
    return false;
}

static void check_moments(struct world *w, const struct node *node)
{
    for (uint32_t b = 0; b < BLOCKS - 1; b++) {
        if (!holds_block(&node->member, b)) continue;
        for (int i = 0; i < MOMENTS; i++)
            if (memcmp(&node->moment[i][w->start[b]], &w->final_moment[i][w->start[b]],
                       (w->start[b + 1] - w->start[b]) * sizeof(float)) != 0)
                w->wrong = "final moments differ";
    }
}

/* What nobody needs any more is given back: here it turns into NaN. */
static void release(struct world *w, struct node *node)
{
    struct member *m = &node->member;
    if (!m->shards.release_due || m->saves.wanted || m->saves.copying > 0) return;
    m->shards.release_due = false;
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (int i = 0; i < MOMENTS && !member_needs_block(m, b); i++)
            for (uint64_t e = w->start[b]; e < w->start[b + 1]; e++)
                node->moment[i][e] = __builtin_nanf("");
}

static void close_link(struct world *w, uint32_t a, uint32_t b)
{
    w->link[a][b].up = false;
    w->link[a][b].down_us = w->now_us;
    w->link[a][b].epoch++;
}

static void quit(struct world *w, uint32_t index, bool done)
{
    struct node *node = &w->node[index];
    pump(w, index, true);
    node->alive = false;
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (!w->link[i][index].up) continue;
        int64_t after = w->link[index][i].last_us - w->now_us;
        later(
            w, (after < 0 ? 0 : after) + 1,
            (struct occurrence){
                .kind = ON_LINK_DOWN, .node = i, .peer = index, .epoch = w->link[i][index].epoch});
    }
    if (!done) return;
    w->done_count++;
    size_t bytes = w->sharded ? (ELEMENTS - 1) * sizeof(float) : sizeof w->final;
    if (memcmp(node->weights, w->final, bytes) != 0) w->wrong = "final bits differ";
    if (w->sharded) check_moments(w, node);
}

static void take_commits(struct world *w, uint32_t index)
{
    struct member_commit commit;
    while (member_take_commit(&w->node[index].member, &commit)) {
        uint64_t step = commit.step;
        if (w->loss_known[step] && memcmp(&w->loss[step], &commit.loss, 4) != 0)
            w->wrong = "a step was reported with two losses";
        if (!w->loss_known[step]) w->redone += commit.turn.redone_slots;
        if (w->report_us[step][index] == 0) w->report_us[step][index] = w->now_us + 1;
        w->told[step][index] = true;
        w->loss_known[step] = true;
        w->loss[step] = commit.loss;
    }
}

/* Since when it has been this node's to tell of a step: it saw it end, and lost the last of the others
 * that had told of it. Before that it may rely on them. */
static int64_t duty_us(const struct world *w, uint32_t step, uint32_t index)
{
    int64_t since_us = w->commit_us[step][index];
    for (uint32_t i = 0; i < w->node_count; i++) {
        const struct link *link = &w->link[index][i];
        int64_t lost_us = link->up ? w->now_us : link->down_us;
        if (i != index && w->told[step][i] && lost_us > since_us) since_us = lost_us;
    }
    return since_us;
}

/* Reports of the last REPORT_US are lost with a node that crashes, as its agent's are; and what it knew,
 * if it had no longer than that to tell it. Those synced past a step never knew it, so it may go untold
 * when those who saw it end die in turn, each before its own report came through. */
static void lose_reports(struct world *w, uint32_t dying)
{
    for (uint32_t step = 0; step < w->steps; step++) {
        if (w->now_us - duty_us(w, step, dying) < REPORT_US) w->commit_us[step][dying] = 0;
        if (w->now_us - w->report_us[step][dying] < REPORT_US) w->report_us[step][dying] = 0;
    }
}

/* The server's answers: what has been on its way for long enough is stored. */
static uint64_t first_not_stored(struct world *w)
{
    for (; w->stored < w->steps; w->stored++) {
        bool is_stored = false;
        for (uint32_t i = 0; i < w->node_count; i++) {
            int64_t at_us = w->report_us[w->stored][i];
            is_stored = is_stored || (at_us != 0 && w->now_us - at_us >= REPORT_US);
        }
        if (!is_stored) break;
    }
    return w->stored;
}

/* A step that only nodes saw that crashed before they could tell may go untold; no other. */
static bool is_told(const struct world *w, uint32_t step)
{
    bool seen = false;
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->report_us[step][i] != 0) return true;
        seen = seen || w->commit_us[step][i] != 0;
    }
    return !seen;
}

/* The share of a member of the checkpoint: it may have died since it wrote it. */
static void store_moments(struct world *w, const struct member_save *save, uint32_t index)
{
    const struct node *writer = &w->node[save->turn.member[index] - 1];
    uint32_t k = 0;
    while (k < SHARES_KEPT && wire_tag_compare(&writer->share[k].tag, &save->turn.tag) != 0) k++;
    assert_true(k < SHARES_KEPT);
    const struct shard_map *map = &writer->share[k].map;
    for (uint32_t b = 0; b < BLOCKS - 1; b++) {
        uint32_t unit = shard_unit_of(map->unit_count, BLOCKS, b);
        for (int i = 0; i < MOMENTS && map->owner[unit] == index; i++)
            memcpy(&w->store_moment[i][w->start[b]], &writer->share[k].moment[i][w->start[b]],
                   (w->start[b + 1] - w->start[b]) * sizeof(float));
    }
}

static void take_manifest(struct world *w, struct node *node)
{
    struct member *m = &node->member;
    for (uint32_t i = 0; i < MEMBER_SAVES_MAX; i++) {
        struct member_save *save = &m->saves.save[i];
        if (!save->active || !save->manifest_due) continue;
        struct wire_tag tag = save->turn.tag;
        uint32_t k = 0;
        while (k < SHARES_KEPT && wire_tag_compare(&node->share[k].tag, &tag) != 0) k++;
        assert_true(k < SHARES_KEPT);
        if (save->step >= w->store_position) { /* else a newer one is there already */
            w->store_full = true;
            w->store_position = save->step;
            memcpy(w->store_weights, node->share[k].weights, sizeof w->store_weights);
            memcpy(w->store_scale, node->share[k].scale, sizeof w->store_scale);
            for (uint32_t j = 0; w->sharded && j < save->turn.member_count; j++)
                store_moments(w, save, j);
        }
        member_manifest_done(m, &tag);
    }
}

/* Only one that was cut off may go back. */
static void watch_progress(struct world *w, struct node *node)
{
    const struct member *m = &node->member;
    uint64_t position = m->self.position;
    bool connected = false;
    for (uint32_t i = 0; i < m->peer_count; i++) connected = connected || m->peer[i].connected;
    if (w->split && !node->was_cut_off && position < node->reached)
        w->wrong = "the group went back for one that was cut off";
    bool level = connected && position >= node->reached;
    /* With all others, also with those that have ended meanwhile: without them it begins anew. */
    for (uint32_t i = 0; i < w->node_count; i++) {
        const struct node *other = &w->node[i];
        if (!other->cut_off && other->member.self.position > position) level = false;
    }
    if (!node->cut_off && level) node->was_cut_off = false;
    if (!node->was_cut_off) node->reached = position;
}

/* The state has just come, and is whole as far as its hashes tell. */
static void flip(struct world *w, struct node *node)
{
    struct member *m = &node->member;
    bool came = m->self.unsure && !node->unsure;
    node->unsure = m->self.unsure != 0;
    uint64_t id;
    while (member_take_outvoted(m, &id)) {
        w->outvoted += id == m->config.id;
        if (!w->node[id - 1].flipped) w->wrong = "a sound member was outvoted";
    }
    bool votes = m->turn.kind == TURN_VOTE; /* at once: the digest is made */
    if (!w->flips || !came || node->flipped || !m->parked || votes) return;
    uint32_t bits;
    float *weight = &node->weights[below(w, WEIGHTS)];
    memcpy(&bits, weight, sizeof bits);
    bits ^= UINT32_C(1) << below(w, 23);
    memcpy(weight, &bits, sizeof bits);
    node->flipped = true;
    w->flipped++;
}

/* What the shell does after every event. */
static void serve(struct world *w, uint32_t index)
{
    struct node *node = &w->node[index];
    struct member *m = &node->member;
    if (!node->alive) return;
    watch_progress(w, node);
    w->watched += node->watching && !m->watching && m->turn.kind == TURN_COMPUTE &&
                  m->self.position == m->turn.position;
    node->watching = m->watching;
    flip(w, node);
    take_commits(w, index);
    take_manifest(w, node);
    release(w, node);
    member_record(m, w->now_us);
    if (m->left_out && m->left_out_moves == (uint32_t)node->recorder.sequence) w->left_out++;
    enum member_want want = member_want(m);
    if (m->parked && (want == MEMBER_WANT_EXIT_DONE || want == MEMBER_WANT_EXIT_LEFT)) {
        quit(w, index, want == MEMBER_WANT_EXIT_DONE);
        return;
    }
    if (m->parked && want != MEMBER_WANT_WAIT) {
        member_unpark(m);
        node->doing = want;
        node->ready_from = BLOCKS;
        node->slot_dropped = false;
        int64_t us = want == MEMBER_WANT_COMPUTE ? node->slot_us / 2 + below(w, node->slot_us)
                                                 : 50 + below(w, 3000);
        bool troubled = !w->calm && w->now_us <= TROUBLE_US; /* a quiet world is never told calm */
        if (w->sticky && troubled && want == MEMBER_WANT_COMPUTE && below(w, 60) == 0) {
            us += 1000000 + below(w, 9000000);
            w->stuck++;
        }
        for (uint32_t i = want == MEMBER_WANT_COMPUTE ? below(w, 4) : 0; i > 0; i--)
            later(w, below(w, (uint32_t)us),
                  (struct occurrence){.kind = ON_READY, .node = index, .epoch = node->work});
        later(w, us, (struct occurrence){.kind = ON_WORK, .node = index, .epoch = node->work});
    }
    pump(w, index, false);
}

static void work_slot(struct world *w, struct node *node)
{
    struct member *m = &node->member;
    bool first;
    uint32_t epoch = 0;
    if (node->ready_from == BLOCKS)
        (void)compute(w, node->weights, m->self.position, m->slot, node->gradient);
    if (node->slot_dropped) { /* some of it was handed in, and is void */
        member_slot_done(m, false, 0, node->slot_us);
        return;
    }
    bool add = member_slot_begin(m, &first, &epoch);
    if (node->ready_from < BLOCKS && epoch != node->slot_epoch) add = false;
    if (add && first) quant_clear(&m->exchange.own);
    if (add) quant_add(&m->exchange.own, node->scale, node->gradient, 0, node->ready_from);
    member_slot_done(m, add, epoch, node->slot_us);
}

/* The last blocks of the slot are final while the others are still being computed. */
static void hand_in(struct world *w, struct node *node)
{
    struct member *m = &node->member;
    bool first, begun = node->ready_from < BLOCKS;
    uint32_t epoch = 0;
    if (node->slot_dropped || node->ready_from == 0) return;
    bool wanted = member_slot_begin(m, &first, &epoch) && (!begun || epoch == node->slot_epoch);
    node->slot_epoch = epoch;
    node->slot_dropped = !wanted;
    uint32_t from = below(w, node->ready_from);
    if (!wanted) return;
    if (!begun) (void)compute(w, node->weights, m->self.position, m->slot, node->gradient);
    if (first) quant_clear(&m->exchange.own);
    quant_add(&m->exchange.own, node->scale, node->gradient, from, node->ready_from);
    node->slot_dropped = !member_blocks_done(m, epoch, from, node->ready_from);
    node->ready_from = from;
}

static void found(struct world *w, struct node *node)
{
    w->founds++;
    if (w->store_full) {
        memcpy(node->weights, w->store_weights, sizeof node->weights);
        memcpy(node->scale, w->store_scale, sizeof node->scale);
        memcpy(node->moment, w->store_moment, sizeof node->moment);
    }
    if (node->member.shards.fell_back) {
        w->fallbacks++;
        if (!w->store_full) w->wrong = "fell back to nothing";
        if (w->gentle && !node->was_cut_off)
            w->wrong = "moments were lost with one crash and some leaves";
    }
    member_founded(&node->member, w->store_full ? w->store_position : 0);
}

/* The copy may take a while; meanwhile the node computes, but no state may come over it. */
static void save(struct world *w, uint32_t index)
{
    struct node *node = &w->node[index];
    struct member *m = &node->member;
    if (!m->saves.wanted) return; /* withdrawn since */
    uint32_t k = node->share_next++ % SHARES_KEPT;
    node->share[k].tag = m->saves.turn.tag;
    memcpy(node->share[k].weights, node->weights, sizeof node->weights);
    memcpy(node->share[k].scale, node->scale, sizeof node->scale);
    memcpy(node->share[k].moment, node->moment, sizeof node->moment);
    node->share[k].map = m->saves.map;
    member_save_taken(m);
    struct occurrence copied = {.kind = ON_COPIED, .node = index};
    struct occurrence written = {.kind = ON_WRITTEN, .node = index, .saved = node->share[k].tag};
    int64_t us = below(w, 3000);
    later(w, us, copied);
    later(w, us + 1000 + below(w, 300000), written);
}

static void apply_range(struct node *node)
{
    uint64_t first, count;
    if (node->member.shards.applying) {
        member_range(&node->member, &first, &count);
        memcpy(node->next_weights + first, node->weights + first, count * sizeof(float));
        apply_sharded(node->next_weights, node->moment, node->gradient, first, first + count);
    }
    member_range_applied(&node->member);
}

static void work(struct world *w, uint32_t index)
{
    struct node *node = &w->node[index];
    struct member *m = &node->member;
    switch (node->doing) {
    case MEMBER_WANT_FOUND: found(w, node); break;
    case MEMBER_WANT_COMPUTE: work_slot(w, node); break;
    case MEMBER_WANT_APPLY:
        if (m->exchange.begun) check_cover(w, node);
        if (w->sharded) {
            apply_range(node);
            break;
        }
        apply(node->weights, node->gradient);
        w->commit_us[m->commit.step][index] = w->now_us + 1;
        member_applied(m);
        break;
    case MEMBER_WANT_SAVE: save(w, index); break;
    case MEMBER_WANT_PLACE:
        memcpy(node->weights, node->next_weights, (ELEMENTS - 1) * sizeof(float));
        w->commit_us[m->commit.step][index] = w->now_us + 1;
        member_applied(m);
        break;
    case MEMBER_WANT_WAIT:
    case MEMBER_WANT_EXIT_DONE:
    case MEMBER_WANT_EXIT_LEFT: break;
    }
    (void)member_park(m);
}

static uint32_t alive_count(const struct world *w)
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
    later(w, delay_us + below(w, 500),
          (struct occurrence){.kind = ON_LINK_UP, .node = a, .peer = b, .epoch = epoch});
    later(w, delay_us + below(w, 500),
          (struct occurrence){.kind = ON_LINK_UP, .node = b, .peer = a, .epoch = epoch});
}

static void join(struct world *w)
{
    if (w->node_count == w->nodes_max || alive_count(w) == w->alive_max) return;
    uint32_t index = w->node_count++;
    struct node *node = &w->node[index];
    memset(node, 0, sizeof *node);
    node->alive = node->was = true;
    node->slot_us = 2000 + below(w, 60000);
    for (uint32_t i = 0; i < ELEMENTS - 1; i++) node->weights[i] = (float)(i % 17) * 0.1f;
    for (uint32_t b = 0; b < BLOCKS; b++) node->scale[b] = QUANT_SCALE_UNSET;
    node->segment[0] = (struct transfer_segment){(uint8_t *)node->weights, sizeof node->weights};
    node->segment[1] = (struct transfer_segment){(uint8_t *)node->scale, sizeof node->scale};
    struct member_config config = {
        .id = id_of(index),
        .steps = w->steps,
        .weights_hash = 7,
        .zone = below(w, 3),
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
        .log = node->log,
        .log_max = STEPS_MAX,
        .moment_count = w->sharded ? MOMENTS : 0,
        .moment = {node->moment[0], node->moment[1]},
        .next_weights = node->next_weights,
        .memory = 1 + below(w, 8),
        .host = below(w, 4),
    };
    recorder_init(&node->recorder);
    member_init(&node->member, &config);
    member_start(&node->member, w->now_us);
    /* Some load their data between shoal_join() and the first shoal_next(). */
    int64_t loads_us = mix(w->random) % 4 == 0 ? (int64_t)(mix(w->random + 1) % 3000000) : 0;
    node->doing = MEMBER_WANT_WAIT;
    if (loads_us > 0)
        later(w, loads_us, (struct occurrence){.kind = ON_WORK, .node = index});
    else
        (void)member_park(&node->member);
    for (uint32_t i = 0; i < index; i++)
        if (w->node[i].alive) connect_nodes(w, index, i, 1000 + below(w, 30000));
    later(w, below(w, 250000), (struct occurrence){.kind = ON_TICK, .node = index});
    w->joins++;
}

/* closed: the kernel tells the peers; otherwise they must notice the silence. */
static void crash(struct world *w, uint32_t index, bool closed)
{
    lose_reports(w, index);
    w->node[index].alive = false;
    w->crashes++;
    for (uint32_t i = 0; i < w->node_count; i++)
        if (closed && w->link[i][index].up)
            later(w, below(w, 50000),
                  (struct occurrence){.kind = ON_LINK_DOWN,
                                      .node = i,
                                      .peer = index,
                                      .epoch = w->link[i][index].epoch});
}

/* One crash at most, and leaves of others, all within a moment; somebody stays. Then peace for long
 * enough that all is mirrored again. */
static void gentle_trouble(struct world *w)
{
    uint32_t spread_us = (uint32_t[]){1, 2000, 60000, 400000}[below(w, 4)];
    uint32_t victims[NODES], count = 0, leaves = below(w, 4), crashes = below(w, 4) != 0;
    for (uint32_t i = 0; i < w->node_count; i++)
        if (w->node[i].alive && !w->node[i].member.self.leaving) victims[count++] = i;
    for (uint32_t i = 0; i < count; i++) /* a group that has just begun again has no mirrors yet */
        if (w->node[victims[i]].member.self.base.turn == 0) count = 0;
    for (; count > 1 && leaves + crashes > 0; count--) {
        uint32_t at = below(w, count), what = crashes > 0 ? ON_CRASH : ON_LEAVE;
        later(w, below(w, spread_us),
              (struct occurrence){.kind = (enum occurrence_kind)what, .node = victims[at]});
        victims[at] = victims[count - 1];
        if (crashes > 0)
            crashes = 0;
        else
            leaves--;
    }
    for (uint32_t joins = below(w, 4); joins > 0; joins--) join(w);
}

static void lose_link(struct world *w, uint32_t a, uint32_t b)
{
    uint32_t epoch = w->link[a][b].epoch;
    later(w, 0, (struct occurrence){.kind = ON_LINK_DOWN, .node = a, .peer = b, .epoch = epoch});
    later(w, below(w, 3000),
          (struct occurrence){.kind = ON_LINK_DOWN, .node = b, .peer = a, .epoch = epoch});
}

/* Of four at least, so that all moments stay with the others. */
static void cut_off(struct world *w)
{
    uint32_t victim = below(w, w->node_count);
    struct node *node = &w->node[victim];
    if (!node->alive || alive_count(w) < 4 || node->member.self.base.turn == 0) return;
    node->cut_off = node->was_cut_off = true;
    for (uint32_t i = 0; i < w->node_count; i++)
        if (i != victim && w->link[victim][i].up) lose_link(w, victim, i);
    w->glitches++;
    if (below(w, 4) == 0)
        later(w, below(w, 3000000), (struct occurrence){.kind = ON_LEAVE, .node = victim});
    later(w, 500000 + below(w, 9000000), (struct occurrence){.kind = ON_HEAL, .node = victim});
}

/* Of two that hold everything between them one dies, and the other is told to leave in the same moment:
 * with `taken` somebody has just come that can take what it holds, else others come later. */
static void lonely_trouble(struct world *w)
{
    const struct member *m = &w->node[1].member;
    bool both = m->self.base.turn != 0 && m->shards.base.member_count == 2;
    bool settled = both && m->self.position > 2; /* else it may stand on it and hold nothing yet */
    int64_t again_us = 20000 + below(w, 50000);
    if (w->node[0].alive && settled && w->taken && w->node_count == 2) {
        join(w);
        again_us = 32000 + below(w, 40000);
    } else if (w->node[0].alive && settled) {
        crash(w, 0, true);
        w->founds = 0; /* both may have, before they met */
        member_leave(&w->node[1].member);
        serve(w, 1);
        again_us = 3000000;
    } else if (!w->node[0].alive) {
        w->left_at = m->self.position;
        if (!w->taken) join(w);
        return;
    }
    later(w, again_us, (struct occurrence){.kind = ON_TROUBLE});
}

static void trouble(struct world *w)
{
    if (w->lonely) {
        lonely_trouble(w);
        return;
    }
    if (w->done_count > 0) return; /* nobody is started for a job that is done */
    uint32_t what = below(w, 10), victim = below(w, w->node_count);
    struct node *node = &w->node[victim];
    if (alive_count(w) < w->gang) what = 0;
    if (w->flips) {
        for (uint32_t joins = 1 + below(w, 2); joins > 0; joins--) join(w);
        later(w, 500000 + below(w, 1000000), (struct occurrence){.kind = ON_TROUBLE});
        return;
    }
    if (w->now_us > TROUBLE_US) {
        w->calm = true;
        while (alive_count(w) < w->gang && w->node_count < w->nodes_max) join(w);
        return;
    }
    if (w->split) {
        cut_off(w);
        later(w, 14000000, (struct occurrence){.kind = ON_TROUBLE});
        return;
    }
    if (w->gentle) {
        gentle_trouble(w);
        later(w, 4000000, (struct occurrence){.kind = ON_TROUBLE});
        return;
    }
    if (what < 3)
        join(w);
    else if (what < 6 && node->alive && alive_count(w) > 1) {
        crash(w, victim, below(w, 3) != 0);
        for (uint32_t more = w->sharded ? below(w, 3) : 0; more > 0; more--) { /* at once */
            uint32_t other = below(w, w->node_count);
            if (w->node[other].alive && alive_count(w) > 1) crash(w, other, true);
        }
    } else if (what < 7 && node->alive && w->node_count < w->nodes_max - 4) {
        member_leave(&node->member);
        w->leaves++;
        serve(w, victim);
    } else if (what < 9) {
        uint32_t other = below(w, w->node_count);
        if (other != victim && w->link[victim][other].up && w->link[other][victim].up) {
            uint32_t epoch = w->link[victim][other].epoch;
            later(w, 0,
                  (struct occurrence){
                      .kind = ON_LINK_DOWN, .node = victim, .peer = other, .epoch = epoch});
            later(w, below(w, 3000),
                  (struct occurrence){
                      .kind = ON_LINK_DOWN, .node = other, .peer = victim, .epoch = epoch});
            w->glitches++;
        }
    }
    if (w->node_count > w->nodes_max - 4)
        w->now_us = TROUBLE_US + 1; /* nobody left to join: stop */
    later(w, 20000 + below(w, 1500000), (struct occurrence){.kind = ON_TROUBLE});
}

static void tick(struct world *w, uint32_t index)
{
    struct node *node = &w->node[index];
    member_tick(&node->member, w->now_us);
    /* It came when the others were going: the server stops workers of a job that is done. */
    if (w->done_count > 0 && !w->node[index].member.self.has_state)
        member_leave(&w->node[index].member);
    member_told(&node->member, first_not_stored(w));
    member_peers_settled(&node->member, true);
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->link[index][i].up && member_peer_is_silent(&node->member, id_of(i))) {
            close_link(w, index, i);
            member_peer_down(&node->member, id_of(i));
        }
        bool apart = i < index && !w->link[index][i].up && !w->link[i][index].up &&
                     !node->cut_off && !w->node[i].cut_off;
        if (apart && w->node[i].alive && below(w, 2) == 0) connect_nodes(w, index, i, 1000);
    }
    later(w, 250000, (struct occurrence){.kind = ON_TICK, .node = index});
}

/* A bit of a message of the exchange flips on its way. */
static bool damage(struct world *w, const struct occurrence *o)
{
    if (!w->noisy || w->calm || o->frame != WIRE_DATA || below(w, 300) != 0) return false;
    if (handover_is_ours(o->bytes)) return false; /* has no sum of its own */
    o->bytes[below(w, (uint32_t)o->count)] ^= (uint8_t)(1u << below(w, 8));
    return true;
}

static void frame(struct world *w, const struct occurrence *o)
{
    w->link[o->peer][o->node].in_flight -= w->link[o->peer][o->node].epoch == o->epoch;
    if (!w->link[o->node][o->peer].up || w->link[o->node][o->peer].epoch != o->epoch) return;
    bool damaged = damage(w, o);
    bool sound = member_frame(member_of(w, o->node), id_of(o->peer), o->frame, o->bytes, o->count,
                              w->now_us);
    if (!sound && !damaged) w->wrong = "a correct peer was called unsound";
    if (!sound) { /* else it was of a turn that is over; the bits at the end tell */
        w->damages++;
        lose_link(w, o->node, o->peer);
        return;
    }
    if (w->node[o->peer].alive) pump_link(w, o->peer, o->node, false); /* room on the link */
}

static void happen(struct world *w, const struct occurrence *o)
{
    struct node *node = &w->node[o->node];
    if (o->kind == ON_TROUBLE) {
        trouble(w);
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
    case ON_WORK: work(w, o->node); break;
    case ON_READY: hand_in(w, node); break;
    case ON_LINK_UP:
        if (link->up || link->epoch != o->epoch) break;
        *link = (struct link){.up = true, .epoch = o->epoch, .last_us = w->now_us};
        assert_true(member_peer_up(&node->member, id_of(o->peer), w->now_us));
        break;
    case ON_LINK_DOWN:
        if (!link->up || link->epoch != o->epoch) break;
        link->up = false;
        link->down_us = w->now_us;
        member_peer_down(&node->member, id_of(o->peer));
        break;
    case ON_COPIED: member_save_copied(&node->member); break;
    case ON_WRITTEN: {
        bool fine = below(w, 10) != 0 || !w->store_full;
        member_shard_written(&node->member, &o->saved, fine, 1, 1);
        break;
    }
    case ON_CRASH: crash(w, o->node, below(w, 3) != 0); break;
    case ON_LEAVE:
        member_leave(&node->member);
        w->leaves++;
        break;
    case ON_HEAL: node->cut_off = false; break;
    case ON_TROUBLE: break;
    }
    serve(w, o->node);
}

static void world_init(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->random = seed;
    const uint64_t counts[TENSORS] = {300, 5, 600, 1};
    layout_init(&w->layout, counts, TENSORS, w->start, w->tensor_block);
    assert_int_equal(w->layout.block_count, BLOCKS);
    assert_true(exchange_size(&w->layout) <= sizeof exchange_memory[0]);
    w->layout.part_blocks_min = 1 + below(w, 3);
    bool large = seed % (seed <= SHORT_SEEDS ? 64 : 8) == 0; /* costly: few in the short form */
    w->nodes_max = large ? NODES : SMALL_NODES;
    w->alive_max = large ? ALIVE_MAX : SMALL_ALIVE;
    w->slots = (uint32_t[]){1, 4, 8, 13, 32, 64, 150}[below(w, large ? 7 : 5)];
    w->steps = 10 + below(w, 30);
    w->spiky = below(w, 3) == 0;
    w->noisy = seed % 7 == 0;
    w->sticky = mix(w->random) % 2 == 0; /* not drawn: the other schedules stay as they were */
    w->save_every = below(w, 2) * (2 + below(w, 6));
    w->sharded = below(w, 2) == 0;
    if (w->sharded && w->save_every == 0) w->save_every = 2 + below(w, 6);
    if (w->save_every == 7) w->save_every = MEMBER_SAVE_AUTO;
    w->gentle = seed % 10 == 1 || seed >= GENTLE_SEEDS;
    if (w->gentle) w->sharded = true, w->noisy = w->sticky = false, w->steps = 40;
    if (w->gentle && w->save_every == 0) w->save_every = 5;
    w->split = seed >= SPLIT_SEEDS; /* long slots, so that there are steps left to lose */
    if (w->split) w->slots = 64, w->steps = 60;
}

/* The run everything is compared with: no group, plain arithmetic of quant.h. */
static void reference(struct world *w)
{
    static struct node n;
    memset(&n, 0, sizeof n);
    struct quant_sum own;
    double square[BLOCKS];
    quant_init(&own, &w->layout, w->slots, QUANT_ISA_PORTABLE, exchange_memory[0]);
    for (uint32_t i = 0; i < ELEMENTS - 1; i++) n.weights[i] = (float)(i % 17) * 0.1f;
    for (uint32_t b = 0; b < BLOCKS; b++) n.scale[b] = QUANT_SCALE_UNSET;
    for (uint64_t step = 0; step < w->steps; step++) {
        quant_clear(&own);
        for (uint32_t slot = w->slots; slot-- > 0;) {
            (void)compute(w, n.weights, step, slot, n.gradient);
            quant_add(&own, n.scale, n.gradient, 0, BLOCKS);
        }
        for (uint32_t b = 0; b < BLOCKS; b++) {
            struct quant_part part = quant_part_of(&own, b);
            float *mean = n.gradient + w->start[b];
            n.scale[b] = quant_finish(&own, b, n.scale[b], &part, NULL, mean).scale;
            square[b] =
                quant_kernel_squares(QUANT_ISA_PORTABLE, mean, w->start[b + 1] - w->start[b]);
        }
        w->norm[step] = ((square[0] + square[1]) + (square[2] + square[3])) +
                        (square[4] + square[5]); /* not the loss */
        if (w->sharded)
            apply_sharded(n.weights, n.moment, n.gradient, 0, ELEMENTS - 1);
        else
            apply(n.weights, n.gradient);
    }
    memcpy(w->final_moment, n.moment, sizeof w->final_moment);
    memcpy(w->final, n.weights, sizeof w->final);
}

static const char *run_world(struct world *w, bool quiet)
{
    reference(w);
    uint32_t first = 1 + below(w, w->alive_max);
    w->gang = 1 + below(w, first < 4 ? first : 4);
    if (w->split && first < 4) first = 4;
    if (w->lonely) first = 2, w->gang = 1;
    for (uint32_t i = 0; i < first; i++) join(w);
    if (!quiet) later(w, below(w, 2000000), (struct occurrence){.kind = ON_TROUBLE});
    bool ever = true;
    while (ever && w->wrong == NULL && w->heap_count > 0 && w->now_us < DEADLINE_US) {
        struct occurrence o = take(w);
        if (o.at_us > w->now_us) w->now_us = o.at_us;
        happen(w, &o);
        free(o.bytes);
        ever = w->done_count == 0 || alive_count(w) > 0;
    }
    while (w->heap_count > 0) free(take(w).bytes);
    if (w->wrong != NULL) return w->wrong;
    if (w->done_count == 0) return "nobody finished";
    if (alive_count(w) > 0) return "somebody did not end";
    for (uint32_t step = 0; step < w->steps; step++)
        if (!is_told(w, step)) return "a step was never reported";
    return NULL;
}

static const char *run(struct world *w, uint64_t seed, bool quiet)
{
    world_init(w, seed);
    return run_world(w, quiet);
}

static uint64_t first_seed = 1, seed_count = 300;
static struct world w;

/* Found beyond the short form; the sentence is what was wrong. */
static const uint64_t remembered[] = {
    1855,    /* a joiner whose copy came damaged waited for ever: the sync was not given up */
    3751,    /* a new leader with old news of a level member synced it, and its moments were gone */
    2152,    /* a share was asked for, withdrawn, and saved all the same */
    2000039, /* (of this check) one that is connected again is not level again for that alone */
    2000220, /* (of this check) nor one that finds the others at their end */
    8683,    /* two who alone saw a step end died in turn, each before its report came through */
};

static void schedules_that_went_wrong_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof remembered / sizeof *remembered; i++)
        assert_null(run(&w, remembered[i], false));
}

static void any_schedule_gives_the_same_bits(void **state)
{
    (void)state;
    uint64_t fallbacks = 0, crashes = 0, leaves = 0, glitches = 0, redone = 0, joins = 0,
             damages = 0;
    uint64_t stuck = 0, left_out = 0, watched = 0;
    for (uint64_t seed = first_seed; seed < first_seed + seed_count; seed++) {
        const char *wrong = run(&w, seed, seed % 10 == 0 && seed < SPLIT_SEEDS);
        if (wrong != NULL)
            print_error("seed %llu: %s (at %lld us, %u slots, %u steps, %u joins, %u crashes)\n",
                        (unsigned long long)seed, wrong, (long long)w.now_us, w.slots, w.steps,
                        w.joins, w.crashes);
        assert_null(wrong);
        stuck += w.stuck, left_out += w.left_out > 0;
        crashes += w.crashes, leaves += w.leaves, damages += w.damages, glitches += w.glitches,
            redone += w.redone;
        joins += w.joins;
        watched += w.watched;
        fallbacks += w.fallbacks;
    }
    assert_true(seed_count < 10 || watched > 0);
    print_message(
        "%llu schedules: %llu joins, %llu states sent while others computed, %llu crashes, %llu "
        "leaves, %llu broken links, %llu "
        "damaged messages, "
        "%llu slots redone, %llu times back to a checkpoint, %llu programs stuck, in "
        "%llu schedules some were left out\n",
        (unsigned long long)seed_count, (unsigned long long)joins, (unsigned long long)watched,
        (unsigned long long)crashes, (unsigned long long)leaves, (unsigned long long)glitches,
        (unsigned long long)damages, (unsigned long long)redone, (unsigned long long)fallbacks,
        (unsigned long long)stuck, (unsigned long long)left_out);
}

static void one_cut_off_costs_the_others_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = SPLIT_SEEDS + 1; seed <= SPLIT_SEEDS + 6; seed++)
        assert_null(run(&w, seed, false));
}

/* Most have it right; of two, the one that was there first. Sharded weights come with the step itself,
 * so that only bits outlive there which no gradient depends on. */
static void a_state_that_came_wrong_is_outvoted(void **state)
{
    (void)state;
    uint32_t flipped = 0, outvoted = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        world_init(&w, seed);
        w.flips = true;
        w.gentle = w.noisy = w.sticky = false;
        w.slots = 32, w.steps = 50;
        w.nodes_max = SMALL_NODES, w.alive_max = 12;
        w.sharded = seed % 3 == 0;
        if (w.sharded) w.save_every = 7;
        const char *wrong = run_world(&w, false);
        if (wrong != NULL) print_error("flips of seed %llu: %s\n", (unsigned long long)seed, wrong);
        assert_null(wrong);
        if (w.sharded) continue;
        assert_true(w.outvoted <= w.flipped); /* a sync that broke off may have mended one */
        flipped += w.flipped;
        outvoted += w.outvoted;
    }
    assert_true(outvoted > 20);
    assert_true(outvoted * 10 > flipped * 8);
}

static void a_leaver_with_the_only_copy_loses_nothing(void **state)
{
    (void)state;
    uint32_t handed_over = 0, written = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        world_init(&w, seed);
        w.lonely = true;
        w.taken = seed % 2 == 0;
        w.sharded = true;
        w.gentle = w.noisy = w.sticky = false;
        w.slots = 16, w.steps = 60, w.save_every = 1000; /* none but the first and what it writes */
        w.nodes_max = SMALL_NODES, w.alive_max = SMALL_ALIVE;
        const char *wrong = run_world(&w, false);
        if (wrong != NULL) print_error("seed %llu: %s\n", (unsigned long long)seed, wrong);
        assert_null(wrong);
        assert_false(w.node[1].alive);
        assert_int_equal(w.fallbacks, 0);
        handed_over += w.taken && w.founds == 0;
        if (w.taken) continue; /* it may have founded by itself before it met the other */
        written++;
        assert_int_equal(w.founds, 1);
        assert_true(w.left_at > 2);
        assert_true(w.node[w.node_count - 1].member.log_end + w.left_at == w.steps);
    }
    assert_true(handed_over > 10);
    assert_true(written > 10);
}

int main(int argc, char **argv)
{
    if (argc > 1) first_seed = strtoull(argv[1], NULL, 10), seed_count = 1;
    if (argc > 2) seed_count = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules_that_went_wrong_once),
                                       cmocka_unit_test(one_cut_off_costs_the_others_nothing),
                                       cmocka_unit_test(a_state_that_came_wrong_is_outvoted),
                                       cmocka_unit_test(a_leaver_with_the_only_copy_loses_nothing),
                                       cmocka_unit_test(any_schedule_gives_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
