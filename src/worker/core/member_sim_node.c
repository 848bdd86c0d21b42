/* What a worker around its machine does: computes, applies, saves, founds. */
#include "worker/core/member_sim.h"
#include <string.h>

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

static void take_commits(struct world *w, uint32_t index)
{
    struct member_commit commit;
    while (member_take_commit(&w->node[index].member, &commit)) {
        uint64_t step = commit.step;
        if (w->loss_known[step] && !w->spoils && memcmp(&w->loss[step], &commit.loss, 4) != 0)
            w->wrong = "a step was reported with two losses";
        if (!w->loss_known[step]) w->redone += commit.turn.redone_slots;
        if (w->report_us[step][index] == 0) w->report_us[step][index] = w->now_us + 1;
        w->told[step][index] = true;
        w->loss_known[step] = true;
        w->loss[step] = commit.loss;
    }
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
        /* Of any of its members: a leader that leaves is none. */
        const struct node *writer = &w->node[save->turn.member[0] - 1];
        uint32_t k = 0;
        while (k < SHARES_KEPT && wire_tag_compare(&writer->share[k].tag, &tag) != 0) k++;
        assert_true(k < SHARES_KEPT);
        if (save->step >= w->store_position) { /* else a newer one is there already */
            w->store_full = true;
            w->store_position = save->step;
            memcpy(w->store_weights, writer->share[k].weights, sizeof w->store_weights);
            memcpy(w->store_scale, writer->share[k].scale, sizeof w->store_scale);
            for (uint32_t j = 0; w->sharded && j < save->turn.member_count; j++)
                store_moments(w, save, j);
        }
        member_manifest_done(m, &tag);
    }
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
    if (!w->flips || w->spoils || !came || node->flipped || !m->parked || votes) return;
    uint32_t bits;
    float *weight = &node->weights[sim_below(w, WEIGHTS)];
    memcpy(&bits, weight, sizeof bits);
    bits ^= UINT32_C(1) << sim_below(w, 23);
    memcpy(weight, &bits, sizeof bits);
    node->flipped = true;
    w->flipped++;
}

/* In mid-step, so that a checkpoint that is being copied has what was compared. */
static void spoil(struct world *w, struct node *node)
{
    struct member *m = &node->member;
    struct member_dispute dispute;
    while (member_take_dispute(m, &dispute)) {
        w->disputes++;
        if (w->spoiled == 0) w->wrong = "sound moments were disputed";
    }
    bool rests = m->parked && m->self.has_state && m->self.position > 0 &&
                 m->turn.kind == TURN_COMPUTE && m->turn.save == 0 && !m->saves.wanted &&
                 m->saves.copying == 0 && !m->shards.applying && m->self.ready.turn == 0;
    if (!w->spoils || !rests || w->spoiled > w->fallbacks || sim_below(w, 300) != 0) return;
    uint32_t block = sim_below(w, BLOCKS - 1), bits;
    if (!sim_holds_block(m, block)) return;
    const struct member_base *base = &m->shards.base;
    uint32_t unit = shard_unit_of(base->map.unit_count, BLOCKS, block);
    uint8_t mirror = base->map.mirror[unit];
    if (mirror == SHARD_NONE) return;
    float *moment = &node->moment[sim_below(w, MOMENTS)][w->start[block]];
    memcpy(&bits, moment, sizeof bits);
    bits ^= UINT32_C(1) << sim_below(w, 23);
    memcpy(moment, &bits, sizeof bits);
    w->spoiled++;
    w->spoiled_mirrors += base->member[mirror] == m->config.id;
    w->node[base->member[mirror] - 1].flipped = true; /* its weights are no longer those of all */
}

void sim_serve(struct world *w, uint32_t index)
{
    struct node *node = &w->node[index];
    struct member *m = &node->member;
    if (!node->alive) return;
    sim_watch_progress(w, node);
    sim_check_state(w, node);
    w->watched += node->watching && !m->watching && m->turn.kind == TURN_COMPUTE &&
                  m->self.position == m->turn.position;
    node->watching = m->watching;
    flip(w, node);
    spoil(w, node);
    take_commits(w, index);
    take_manifest(w, node);
    release(w, node);
    member_record(m, w->now_us);
    if (m->left_out && m->left_out_moves == (uint32_t)node->recorder.sequence) w->left_out++;
    enum member_want want = member_want(m);
    if (m->parked && (want == MEMBER_WANT_EXIT_DONE || want == MEMBER_WANT_EXIT_LEFT)) {
        sim_quit(w, index, want == MEMBER_WANT_EXIT_DONE);
        return;
    }
    if (m->parked && want != MEMBER_WANT_WAIT) {
        member_unpark(m);
        node->doing = want;
        node->ready_from = BLOCKS;
        node->slot_dropped = false;
        int64_t us = want == MEMBER_WANT_COMPUTE ? node->slot_us / 2 + sim_below(w, node->slot_us)
                                                 : 50 + sim_below(w, 3000);
        bool troubled = !w->calm && w->now_us <= TROUBLE_US; /* a quiet world is never told calm */
        if (w->sticky && troubled && want == MEMBER_WANT_COMPUTE && sim_below(w, 60) == 0) {
            us += 1000000 + sim_below(w, 9000000);
            w->stuck++;
        }
        for (uint32_t i = want == MEMBER_WANT_COMPUTE ? sim_below(w, 4) : 0; i > 0; i--)
            sim_later(w, sim_below(w, (uint32_t)us),
                      (struct occurrence){.kind = ON_READY, .node = index, .epoch = node->work});
        sim_later(w, us, (struct occurrence){.kind = ON_WORK, .node = index, .epoch = node->work});
    }
    sim_pump(w, index, false);
}

static void work_slot(struct world *w, struct node *node)
{
    struct member *m = &node->member;
    bool first;
    uint32_t epoch = 0;
    if (node->ready_from == BLOCKS)
        (void)sim_compute(w, node->weights, m->self.position, m->slot, node->gradient);
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
void sim_hand_in(struct world *w, struct node *node)
{
    struct member *m = &node->member;
    bool first, begun = node->ready_from < BLOCKS;
    uint32_t epoch = 0;
    if (node->slot_dropped || node->ready_from == 0) return;
    bool wanted = member_slot_begin(m, &first, &epoch) && (!begun || epoch == node->slot_epoch);
    node->slot_epoch = epoch;
    node->slot_dropped = !wanted;
    uint32_t from = sim_below(w, node->ready_from);
    if (!wanted) return;
    if (!begun) (void)sim_compute(w, node->weights, m->self.position, m->slot, node->gradient);
    if (first) quant_clear(&m->exchange.own);
    quant_add(&m->exchange.own, node->scale, node->gradient, from, node->ready_from);
    node->slot_dropped = !member_blocks_done(m, epoch, from, node->ready_from);
    node->ready_from = from;
}

static void note_fallback(struct world *w, const struct node *node)
{
    if (!node->member.shards.fell_back || node->member.load.alone) return;
    w->fallbacks++;
    if (!w->store_full) w->wrong = "fell back to nothing";
    if (w->gentle && !node->was_cut_off)
        w->wrong = "moments were lost with one crash and some leaves";
}

static void found(struct world *w, struct node *node)
{
    if (w->store_full && member_may_load_together(&node->member)) {
        note_fallback(w, node);
        member_found_together(&node->member, w->store_position);
        return;
    }
    w->founds++;
    if (w->store_full) {
        memcpy(node->weights, w->store_weights, sizeof node->weights);
        memcpy(node->scale, w->store_scale, sizeof node->scale);
        memcpy(node->moment, w->store_moment, sizeof node->moment);
    }
    note_fallback(w, node);
    member_founded(&node->member, w->store_full ? w->store_position : 0);
}

/* Bytes [first, end) of the stored state into the shadow; the moments that this node is to read. */
static void load_part(struct world *w, struct node *node, uint64_t first, uint64_t end)
{
    const struct member *m = &node->member;
    static uint8_t state[sizeof node->shadow];
    memcpy(state, w->store_weights, sizeof w->store_weights);
    memcpy(state + sizeof w->store_weights, w->store_scale, sizeof w->store_scale);
    memcpy(node->shadow + first, state + first, end - first);
    const struct shard_map *map = &m->shards.cut.held;
    for (uint32_t b = 0; w->sharded && b < BLOCKS - 1; b++) {
        if (map->owner[shard_unit_of(map->unit_count, BLOCKS, b)] != m->me) continue;
        for (int i = 0; i < MOMENTS; i++)
            memcpy(&node->moment[i][w->start[b]], &w->store_moment[i][w->start[b]],
                   (w->start[b + 1] - w->start[b]) * sizeof(float));
    }
}

static void load(struct world *w, struct node *node)
{
    struct member *m = &node->member;
    uint64_t first, end;
    bool ours = m->turn.kind == TURN_LOAD && wire_tag_compare(&m->turn.tag, &m->load.tag) == 0;
    bool can = ours && !node->blind && w->store_position == m->turn.position;
    if (can) {
        member_load_part(m, &first, &end);
        load_part(w, node, first, end);
    }
    w->loads += can;
    w->load_failures += ours && !can;
    member_loaded(m, can || !ours);
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
    int64_t us = sim_below(w, 3000);
    sim_later(w, us, copied);
    sim_later(w, us + 1000 + sim_below(w, 300000), written);
}

static void apply_range(struct node *node)
{
    uint64_t first, count;
    if (node->member.shards.applying) {
        member_range(&node->member, &first, &count);
        memcpy(node->next_weights + first, node->weights + first, count * sizeof(float));
        sim_apply_sharded(node->next_weights, node->moment, node->gradient, first, first + count);
    }
    member_range_applied(&node->member);
}

void sim_work(struct world *w, uint32_t index)
{
    struct node *node = &w->node[index];
    struct member *m = &node->member;
    switch (node->doing) {
    case MEMBER_WANT_FOUND: found(w, node); break;
    case MEMBER_WANT_LOAD: load(w, node); break;
    case MEMBER_WANT_COMPUTE: work_slot(w, node); break;
    case MEMBER_WANT_APPLY:
        if (m->exchange.begun) sim_check_cover(w, node);
        if (w->sharded) {
            apply_range(node);
            break;
        }
        sim_apply(node->weights, node->gradient);
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
