/* The part of member.c that decides who is told at once where this member stands.
 *
 * Few        A step among 64 in which each told each that it has taken the turn, and that it has moved,
 *            would be 8,000 frames, and all a machine does. In a step without watchers or sharded moments whoever
 *            takes parts tells those that send them that it has taken the turn; the parts tell the
 *            same of their senders. The leader alone hears who has moved. All others hear with the next beat.
 *            What the turn itself says of its members is believed meanwhile: the leader saw all of them at
 *            its position.
 * Orphans    When the leader is lost, nobody but it knew who had moved. All tell the lowest of the turn that
 *            is left, and that one waits for their words before it leads, so that it takes nobody for behind
 *            who is not. Who has moved takes itself for the one ahead, rightly or not: it waits as well.
 *            Half a wait later all tell all, and after a whole one everybody acts on what it knows. */
#include "core/assert.h"
#include "worker/core/member_plan.h"

#define WAIT_US INT64_C(600000)

void member_tell_all(struct member *m)
{
    m->self.changes++;
    for (uint32_t i = 0; i < m->peer_count; i++) m->peer[i].status_due = true;
}

static void tell_stale(struct member *m)
{
    for (uint32_t i = 0; i < m->peer_count; i++) {
        struct member_peer *peer = &m->peer[i];
        peer->status_due = peer->status_due || peer->told_self != m->self.changes;
    }
}

static bool is_watched(const struct wire_turn *turn)
{
    for (uint32_t i = 0; i < turn->member_count; i++)
        if (wire_turn_watches(turn, i)) return true;
    return false;
}

/* The lowest that computes, is here and does not leave: it leads next, if all move. 0: none. */
static uint64_t heir_of(const struct member *m)
{
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        if (status == NULL || status->leaving || wire_turn_watches(&m->turn, i)) continue;
        return m->turn.member[i];
    }
    return 0;
}

static void tell(struct member *m, uint64_t id)
{
    struct member_peer *peer = member_find(m, id);
    if (peer != NULL) peer->status_due = true;
}

void member_tell_taken(struct member *m)
{
    m->is_step = m->turn.kind == TURN_COMPUTE && m->me != GROUP_NOBODY && !member_is_sharded(m);
    m->taken_us = m->now_us;
    m->self.orphan = 0;
    bool leads = m->turn.tag.leader == m->config.id;
    if (leads || !m->is_step || is_watched(&m->turn) || !m->exchange.begun) {
        member_tell_all(m);
        return;
    }
    m->self.changes++;
    for (uint32_t i = 0; i < m->peer_count; i++) {
        struct member_peer *peer = &m->peer[i];
        uint32_t index = wire_turn_index(&m->turn, peer->id);
        bool waits = index != GROUP_NOBODY && exchange_takes_from(&m->exchange, index);
        peer->status_due = peer->status_due || waits;
    }
}

void member_heard_data(struct member *m, struct member_peer *peer, const struct wire_tag *tag)
{
    if (!m->is_step || !peer->knows_status || wire_tag_compare(tag, &m->turn.tag) != 0) return;
    if (wire_tag_compare(&peer->status.turn, tag) >= 0) return;
    member_believe_turn(m, peer);
    peer->status.turn = *tag;
    member_data_is_due(m, peer);
}

void member_tell_moved(struct member *m)
{
    if (m->turn.tag.leader == m->config.id) { /* so that nobody takes itself for the one ahead */
        member_tell_all(m);
        return;
    }
    m->self.changes++;
    tell(m, m->turn.tag.leader);
    tell(m, heir_of(m));
}

void member_believe_turn(struct member *m, struct member_peer *peer)
{
    struct wire_status *status = &peer->status;
    uint32_t index = wire_turn_index(&m->turn, peer->id);
    if (!m->is_step || index == GROUP_NOBODY || wire_turn_watches(&m->turn, index)) return;
    bool older = wire_tag_compare(&status->turn, &m->turn.tag) < 0;
    if (older && status->has_state && status->position < m->turn.position)
        status->position = m->turn.position;
}

/* Who gave a turn stood no lower than those who took it, whose word may be faster than its own. */
void member_believe_leader(struct member *m, const struct wire_status *taker)
{
    struct member_peer *leader = member_find(m, taker->turn.leader);
    if (member_is_sharded(m) || leader == NULL || !leader->knows_status) return;
    struct wire_status *status = &leader->status;
    bool moved = wire_tag_compare(&taker->moved_by, &taker->turn) == 0 && taker->position > 0;
    uint64_t position = taker->position - moved;
    bool older = wire_tag_compare(&status->turn, &taker->turn) < 0;
    if (older && status->has_state && status->position < position) status->position = position;
}

bool member_hears_later(const struct member *m)
{
    return m->is_step && !m->self.orphan && m->now_us - m->taken_us < 2 * LIVENESS_BEAT_US;
}

static bool leader_is_here(const struct member *m)
{
    return m->turn.tag.turn == 0 || member_status_of(m, m->turn.tag.leader) != NULL;
}

/* Again whenever one more is lost: it may be the one that all had told. */
void member_note_orphan(struct member *m)
{
    if (leader_is_here(m)) return;
    if (!m->is_step) {
        tell_stale(m); /* whoever leads next must know where all stand */
        return;
    }
    if (!m->self.orphan) {
        m->self.orphan = 1;
        m->self.changes++;
        m->orphan_us = m->now_us;
    }
    tell(m, heir_of(m));
}

void member_watch_orphan(struct member *m)
{
    if (!m->self.orphan) return;
    if (leader_is_here(m)) {
        m->self.orphan = 0; /* it came back */
        m->self.changes++;
    } else if (m->now_us - m->orphan_us > WAIT_US / 2) {
        tell_stale(m);
    }
}

bool member_waits_for_word(const struct member *m)
{
    if (!m->self.orphan || m->now_us - m->orphan_us > WAIT_US) return false;
    for (uint32_t i = 0; i < m->peer_count; i++) {
        const struct member_peer *peer = &m->peer[i];
        bool counts = peer->connected && wire_turn_index(&m->turn, peer->id) != GROUP_NOBODY;
        if (counts && !(peer->knows_status && peer->status.orphan)) return true;
    }
    return false;
}
