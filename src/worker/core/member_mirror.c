/* Do owner and mirror hold the same moments, and the same weights made from them? Two copies have no majority: a bit that flipped in one of
 * them would stay, and go into the weights of all (the owner's), or come out when the owner is lost.
 *
 * When       With every VOTE: after a join, before the moments are cut anew for it; before each
 *            checkpoint, so that what is written was the same twice; else every MIRROR_STEPS steps.
 * How        A mirror sends the digest of each unit to its owner, who compares and tells in its
 *            status that it has (checked), and the first unit that differs (disputed). All see it.
 * Then       Which of the two is wrong cannot be told, and the weights of all may be spoiled since
 *            the last time they agreed. So the group says which unit of which two workers differs
 *            and goes back to the newest checkpoint, of which owner and mirror agreed. Without
 *            checkpoints the mirror takes the owner's, since the weights of all came from that: it
 *            gives up all its state, for it has made weights of its own, and so do those who got
 *            theirs since the last VOTE, perhaps from it. The VOTE ends when it has.
 * Not seen   The same flip in both; one that is gone from moments and weights again by the next VOTE; a
 *            flip in what is copied to a new holder, its old one being gone, before the next VOTE.
 */
#include "core/assert.h"
#include "worker/core/member_plan.h"
#include <string.h>

enum { MIRROR_STEPS = 100 };

static bool same_tag(const struct wire_tag *a, const struct wire_tag *b)
{
    return wire_tag_compare(a, b) == 0;
}

static bool checks(const struct member *m)
{
    return m->turn.kind == TURN_VOTE && m->me != GROUP_NOBODY && m->turn.base.turn != 0 &&
           same_tag(&m->self.voted, &m->turn.tag);
}

static bool has_compared(const struct member *m)
{
    return same_tag(&m->self.checked, &m->turn.tag);
}

/* Does `owner` own this unit, and `mirror` mirror it? */
static bool shares(const struct member_base *base, uint32_t unit, uint64_t owner, uint64_t mirror)
{
    uint8_t o = base->map.owner[unit], i = base->map.mirror[unit];
    return i != SHARD_NONE && base->member[o] == owner && base->member[i] == mirror;
}

static bool share_any(const struct member_base *base, uint64_t owner, uint64_t mirror)
{
    for (uint32_t u = 0; u < base->map.unit_count; u++)
        if (shares(base, u, owner, mirror)) return true;
    return false;
}

void member_mirror_unit(const struct member *m, uint32_t unit, uint64_t *ret_first,
                        uint64_t *ret_count)
{
    const struct layout *layout = m->config.layout;
    uint32_t blocks = layout->block_count, units = shard_unit_count(blocks);
    uint64_t last = layout->start[blocks - 1]; /* the loss has no moments */
    uint64_t first = layout->start[shard_first_block(units, blocks, unit)];
    uint64_t end = layout->start[shard_first_block(units, blocks, unit + 1)];
    *ret_first = first < last ? first : last;
    *ret_count = (end < last ? end : last) - *ret_first;
}

/* Of its weights too: each of the two makes its own from its moments. A flip that rounding, or a gradient
 * that dwarfs what was there, has taken out of the moments since stays in them. */
static uint64_t digest_of(const struct member *m, uint32_t unit)
{
    struct transfer_segment segment[HANDOVER_ARRAYS_MAX];
    uint64_t first, count;
    member_mirror_unit(m, unit, &first, &count);
    for (uint32_t i = 0; i < m->config.moment_count; i++)
        segment[i] = (struct transfer_segment){(uint8_t *)(m->config.moment[i] + first),
                                               count * sizeof(float)};
    const struct transfer_state state = {segment, m->config.moment_count,
                                         m->config.moment_count * count * sizeof(float)};
    return 3 * transfer_digest(&state) +
           transfer_digest_range(&m->config.state, first * sizeof(float),
                                 (first + count) * sizeof(float)); /* params come first */
}

/* ---- in a VOTE ---- */

static void end_if_all_came(struct member *m)
{
    for (uint64_t left = m->mirror.awaited; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        bool votes = status != NULL && same_tag(&status->voted, &m->turn.tag);
        if (votes && !same_tag(&status->base, &m->turn.base)) /* it has lost what it mirrored */
            m->mirror.awaited &= ~(UINT64_C(1) << i);
    }
    if (m->mirror.awaited != 0 || has_compared(m)) return;
    m->self.checked = m->turn.tag;
    member_tell_all(m);
}

/* Who does not stand on the base of the turn holds nothing by it. */
void member_mirror_begin(struct member *m)
{
    const struct member_base *base = &m->shards.base;
    m->mirror.awaited = 0;
    m->self.disputed = 0;
    if (m->turn.base.turn == 0 || !member_shard_stands(m)) return;
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        struct member_peer *peer = member_find(m, m->turn.member[i]);
        if (peer == NULL) continue;
        if (share_any(base, m->config.id, peer->id)) m->mirror.awaited |= UINT64_C(1) << i;
        peer->digests_due = share_any(base, peer->id, m->config.id);
    }
}

bool member_mirror_owes(const struct member *m, uint64_t owner)
{
    return checks(m) && member_shard_stands(m) && share_any(&m->shards.base, owner, m->config.id);
}

size_t member_mirror_fill(struct member *m, struct member_peer *peer, uint8_t *bytes)
{
    struct wire_cursor cursor = {.at = bytes, .end = bytes + WIRE_PAYLOAD_MAX};
    const struct member_base *base = &m->shards.base;
    peer->digests_due = false;
    if (!checks(m)) return 0;
    wire_write_tag(&cursor, &m->turn.tag);
    for (uint32_t u = 0; u < base->map.unit_count; u++) {
        if (!shares(base, u, peer->id, m->config.id)) continue;
        wire_write_u32(&cursor, u);
        wire_write_u64(&cursor, digest_of(m, u));
    }
    ASSERT(!cursor.failed);
    return (size_t)(cursor.at - bytes);
}

bool member_mirror_take(struct member *m, const struct member_peer *peer, const uint8_t *bytes,
                        size_t count)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    struct wire_tag tag = wire_read_tag(&cursor);
    if (cursor.failed) return false;
    if (!checks(m) || !same_tag(&tag, &m->turn.tag)) return true; /* of another turn */
    uint32_t index = wire_turn_index(&m->turn, peer->id);
    if (index == GROUP_NOBODY || (m->mirror.awaited >> index & 1) == 0) return true;
    while (cursor.at < cursor.end) {
        uint32_t unit = wire_read_u32(&cursor);
        uint64_t digest = wire_read_u64(&cursor);
        if (cursor.failed || unit >= m->shards.base.map.unit_count) return false;
        if (!shares(&m->shards.base, unit, m->config.id, peer->id)) return false;
        if (digest != digest_of(m, unit) && m->self.disputed == 0) m->self.disputed = unit + 1;
    }
    m->mirror.awaited &= ~(UINT64_C(1) << index);
    return true;
}

void member_mirror_advance(struct member *m)
{
    if (checks(m)) end_if_all_came(m);
}

bool member_mirror_waits(const struct member *m)
{
    if (m->turn.base.turn == 0) return false;
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        if (status == NULL || !same_tag(&status->checked, &m->turn.tag)) return true;
    }
    return false;
}

/* Owner and unit of the first dispute, by the turn's members; false: none. */
static bool find_dispute(const struct member *m, uint64_t *ret_owner, uint32_t *ret_unit)
{
    for (uint32_t i = 0; i < m->turn.member_count && m->turn.base.turn != 0; i++) {
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        if (status == NULL || !same_tag(&status->checked, &m->turn.tag)) continue;
        if (status->disputed == 0) continue;
        *ret_owner = m->turn.member[i];
        *ret_unit = status->disputed - 1;
        return true;
    }
    return false;
}

/* To a checkpoint: there are some. */
static bool falls_back(const struct member *m)
{
    return m->config.has_store && m->config.save_every != 0;
}

/* 0: not known here. */
static uint64_t mirror_of(const struct member *m, uint32_t unit)
{
    const struct member_base *base = &m->shards.base;
    if (!member_shard_stands(m) || unit >= base->map.unit_count) return 0;
    uint8_t mirror = base->map.mirror[unit];
    return mirror == SHARD_NONE ? 0 : base->member[mirror];
}

/* Is one still to give up what it has? It may see the end of the vote last. */
bool member_mirror_mends(const struct member *m)
{
    uint64_t owner;
    uint32_t unit;
    if (falls_back(m) || !find_dispute(m, &owner, &unit)) return false;
    const struct wire_status *status = member_status_of(m, mirror_of(m, unit));
    return status != NULL && status->has_state && same_tag(&status->base, &m->turn.base);
}

/* The vote has ended: true: with two that differ. */
bool member_mirror_ends(struct member *m, bool unsure)
{
    struct member_dispute *dispute = &m->mirror.dispute;
    uint64_t owner;
    uint32_t unit;
    m->mirror.position = m->turn.position;
    if (!find_dispute(m, &owner, &unit)) return false;
    *dispute = (struct member_dispute){.known = true,
                                       .unit = unit,
                                       .owner = owner,
                                       .mirror = mirror_of(m, unit),
                                       .falls_back = falls_back(m)};
    bool came = unsure && !member_shard_stands(m); /* from the mirror, it may be */
    if (!dispute->falls_back && (dispute->mirror == m->config.id || came)) member_drop_state(m);
    return true;
}

bool member_take_dispute(struct member *m, struct member_dispute *ret_dispute)
{
    if (!m->mirror.dispute.known) return false;
    *ret_dispute = m->mirror.dispute;
    m->mirror.dispute.known = false;
    return true;
}

/* ---- the leader ---- */

/* The vote is over: do two differ, and is the group to go back? */
bool member_mirror_falls_back(struct member *m)
{
    uint64_t owner;
    uint32_t unit;
    bool here = m->turn.kind == TURN_VOTE && m->turn.position == m->self.position &&
                same_tag(&m->vote_ended, &m->turn.tag);
    if (!here || !falls_back(m) || !find_dispute(m, &owner, &unit)) return false;
    member_shard_fall_back(m);
    m->shards.disputed = true;
    return true;
}

bool member_mirror_is_due(const struct member *m, uint64_t position)
{
    if (!member_is_sharded(m) || position == 0 || m->mirror.position == position) return false;
    if (m->self.leaving)
        return false; /* one that leads takes no part in it, and sees no end of it */
    return position - m->mirror.position >= MIRROR_STEPS || member_save_is_due(m, position) ||
           (position == m->config.steps && m->config.has_store && m->saves.position != position);
}
