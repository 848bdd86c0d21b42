/* Checkpoints, as far as members must agree on them: when one is due, who has written, whether all
 * have. Up to MEMBER_SAVES_MAX are in flight; each is named by the tag of the turn that ordered it.
 */
#include "core/assert.h"
#include "worker/core/member_plan.h"
#include <string.h>

static bool is_tag(const struct wire_tag *a, const struct wire_tag *b)
{
    return wire_tag_compare(a, b) == 0;
}

static uint32_t index_in(const struct wire_turn *turn, uint64_t id)
{
    uint32_t index = 0;
    while (index < turn->member_count && turn->member[index] != id) index++;
    return index;
}

static struct member_save *find_save(struct member *m, const struct wire_tag *tag)
{
    for (uint32_t i = 0; i < MEMBER_SAVES_MAX; i++) {
        struct member_save *save = &m->saves.save[i];
        if (save->active && is_tag(&save->turn.tag, tag)) return save;
    }
    return NULL;
}

bool member_save_is_active(const struct member *m, const struct wire_tag *tag)
{
    for (uint32_t i = 0; i < MEMBER_SAVES_MAX; i++)
        if (m->saves.save[i].active && is_tag(&m->saves.save[i].turn.tag, tag)) return true;
    return false;
}

/* --- when --- */

static uint32_t in_flight(const struct member *m)
{
    const struct member_saves *s = &m->saves;
    uint32_t ours = s->wanted ? 1 : 0, led = 0;
    for (uint32_t i = 0; i < MEMBER_SAVES_MAX; i++) {
        ours += s->writing[i].tag.turn != 0;
        led += s->save[i].active;
    }
    return ours > led ? ours : led;
}

bool member_saves_any(const struct member *m)
{
    return in_flight(m) > 0;
}

static bool is_tried(const struct member *m, uint64_t position)
{
    bool tried = m->saves.position == position;
    for (uint32_t i = 0; i < MEMBER_SAVES_MAX; i++)
        tried = tried || (m->saves.save[i].active && m->saves.save[i].step == position);
    return tried;
}

static bool time_has_come(const struct member *m)
{
    const struct interval_facts facts = {.stall_us = m->saves.stall_us,
                                         .write_us = m->saves.write_us,
                                         .member_us = m->saves.member_us,
                                         .loss_count = m->saves.losses,
                                         .member_count =
                                             m->turn.member_count > 0 ? m->turn.member_count : 1};
    return m->now_us - m->saves.ordered_us >= interval_us(&facts);
}

bool member_save_is_due(const struct member *m, uint64_t position)
{
    uint32_t every = m->config.save_every;
    if (every == 0 || !m->config.has_store || in_flight(m) >= MEMBER_SAVES_MAX) return false;
    if (position == 0 || is_tried(m, position)) return false;
    return every == MEMBER_SAVE_AUTO ? time_has_come(m) : position % every == 0;
}

/* Who is in the turn no more without having said that it leaves, was lost. */
void member_save_count_losses(struct member *m, const struct wire_turn *next)
{
    const struct wire_turn *last = &m->last_compute;
    struct member_saves *s = &m->saves;
    if (s->counted_us != 0)
        s->member_us += (m->now_us - s->counted_us) * (int64_t)last->member_count;
    s->counted_us = m->now_us;
    for (uint32_t i = 0; i < last->member_count && last->tag.turn != 0; i++) {
        if (index_in(next, last->member[i]) < next->member_count) continue;
        bool left = last->member[i] == m->config.id;
        for (uint32_t k = 0; k < m->peer_count; k++)
            left = left || (m->peer[k].id == last->member[i] && m->peer[k].status.leaving != 0);
        s->losses += !left;
    }
}

/* --- orders --- */

static struct member_save *free_save(struct member *m)
{
    for (uint32_t i = 0; i < MEMBER_SAVES_MAX; i++)
        if (!m->saves.save[i].active) return &m->saves.save[i];
    return NULL;
}

void member_save_order(struct member *m, const struct wire_turn *turn)
{
    struct member_saves *s = &m->saves;
    s->ordered_us = m->now_us;
    if (turn->tag.leader == m->config.id) {
        struct member_save *save = free_save(m);
        ASSERT(save != NULL); /* member_save_is_due */
        memset(save, 0, sizeof *save);
        save->active = true;
        save->turn = *turn;
        save->step = turn->position;
        save->ordered_us = m->now_us;
    }
    if (index_in(turn, m->config.id) == turn->member_count) return;
    m->self.save[1] = m->self.save[0];
    m->self.save[0] = turn->tag;
    s->wanted = true;
    member_shard_save_map(m, &s->map);
    s->turn = *turn;
}

/* The writer is told of the last one given up; what it misses, it finds when it removes old ones. */
static void give_up(struct member_saves *s, struct member_save *save)
{
    save->active = false;
    s->given_up = *save;
    s->given_up.failed = true;
}

static void note_shard(struct member_saves *s, struct member_save *save,
                       const struct wire_shard *shard)
{
    ASSERT(shard->index < save->turn.member_count);
    save->shard[shard->index] = (struct member_shard){
        .known = true, .ok = shard->ok, .bytes = shard->bytes, .checksum = shard->checksum};
    bool all_ok = true;
    for (uint32_t i = 0; i < save->turn.member_count; i++) {
        if (!save->shard[i].known) return;
        all_ok = all_ok && save->shard[i].ok;
    }
    if (all_ok) {
        save->manifest_due = true;
        return;
    }
    give_up(s, save);
    s->first_done = true;
    if (s->position < save->step) s->position = save->step; /* tried: a full disk, say */
}

/* This member's result, to the leader that ordered it; if that is gone, to nobody. */
static void tell(struct member *m, const struct wire_turn *turn, bool ok, uint64_t bytes,
                 uint64_t checksum)
{
    struct wire_shard shard = {.tag = turn->tag,
                               .step = turn->position,
                               .bytes = bytes,
                               .checksum = checksum,
                               .index = index_in(turn, m->config.id),
                               .ok = ok};
    struct member_save *save = find_save(m, &turn->tag);
    if (save != NULL) note_shard(&m->saves, save, &shard);
    for (uint32_t i = 0; i < m->peer_count; i++) {
        struct member_peer *peer = &m->peer[i];
        if (peer->id != turn->tag.leader) continue;
        /* Full: the oldest is of a checkpoint that was given up, or it would have been asked for. */
        if (peer->shard_count == MEMBER_SHARDS_MAX) {
            memmove(peer->shard, peer->shard + 1, sizeof peer->shard - sizeof peer->shard[0]);
            peer->shard_count--;
        }
        peer->shard[peer->shard_count++] = shard;
    }
}

/* The state has moved on before the share was asked for (a sync): that checkpoint cannot be. */
void member_save_refuse(struct member *m)
{
    ASSERT(m->saves.wanted);
    m->saves.wanted = false;
    tell(m, &m->saves.turn, false, 0, 0);
}

bool member_save_fits(const struct member *m)
{
    for (uint32_t i = 0; i < MEMBER_SAVES_MAX; i++)
        if (m->saves.writing[i].tag.turn == 0) return true;
    return false;
}

void member_save_taken(struct member *m)
{
    ASSERT(m->saves.wanted);
    ASSERT(member_save_fits(m));
    uint32_t free_index = 0;
    while (m->saves.writing[free_index].tag.turn != 0) free_index++;
    m->saves.writing[free_index] = m->saves.turn;
    m->saves.wanted = false;
    m->saves.copying++;
    member_settle(m);
}

void member_save_copied(struct member *m)
{
    ASSERT(m->saves.copying > 0);
    m->saves.copying--;
    member_settle(m);
}

void member_save_stalled(struct member *m, uint64_t us)
{
    m->saves.stall_us = (int64_t)us;
}

void member_shard_written(struct member *m, const struct wire_tag *tag, bool ok, uint64_t bytes,
                          uint64_t checksum)
{
    for (uint32_t i = 0; i < MEMBER_SAVES_MAX; i++) {
        struct wire_turn *turn = &m->saves.writing[i];
        if (turn->tag.turn == 0 || !is_tag(&turn->tag, tag)) continue;
        tell(m, turn, ok, bytes, checksum);
        if (ok) member_sees(m, turn->position);
        turn->tag.turn = 0;
    }
    member_settle(m);
}

bool member_save_take_shard(struct member *m, uint64_t from, const struct wire_shard *shard)
{
    struct member_save *save = find_save(m, &shard->tag);
    if (save == NULL) return true; /* given up */
    if (shard->index >= save->turn.member_count || save->turn.member[shard->index] != from)
        return false;
    note_shard(&m->saves, save, shard);
    return true;
}

void member_manifest_done(struct member *m, const struct wire_tag *tag)
{
    struct member_save *save = find_save(m, tag);
    ASSERT(save != NULL);
    save->active = false;
    m->saves.first_done = true;
    if (m->saves.position < save->step) m->saves.position = save->step;
    m->saves.write_us = m->now_us - save->ordered_us;
    member_settle(m);
}

/* --- who will not write any more --- */

static bool will_not_write(const struct member *m, const struct wire_turn *turn, uint64_t id)
{
    const struct wire_status *status = member_status_of(m, id);
    if (status == NULL) return true;
    bool saw = is_tag(&status->save[0], &turn->tag) || is_tag(&status->save[1], &turn->tag);
    return !saw && wire_tag_compare(&status->turn, &turn->tag) > 0;
}

/* A member that died, or went on to a later turn without having seen the order, will not save. */
void member_save_watch(struct member *m)
{
    for (uint32_t k = 0; k < MEMBER_SAVES_MAX; k++) {
        struct member_save *save = &m->saves.save[k];
        for (uint32_t i = 0; save->active && i < save->turn.member_count; i++) {
            uint64_t id = save->turn.member[i];
            if (save->shard[i].known || id == m->config.id) continue;
            if (!will_not_write(m, &save->turn, id)) continue;
            give_up(&m->saves, save);
        }
    }
}
