/* After a join: have all the same weights? A flipped bit in a joiner's memory, or in that of a source,
 * would else go into every later gradient.
 *
 * Vote       At the boundary after a member got the state from others (it is `unsure`), the leader
 *            gives a VOTE. All members make a digest of their state and tell it; each sees the
 *            digests of all, and the same result: the one that most have; of equals the one that more
 *            have who were sure; then that of the lowest id. Who has another gives up its state and is
 *            synced like a joiner.
 * Covers     All that is the same everywhere: weights, the program's state, scales. Of sharded moments
 *            owner and mirror are compared in the same turn (member_mirror.c), which also comes without
 *            a join.
 * Cost       One pass over the state in each member at once, per join. */
#include "core/assert.h"
#include "worker/core/member_plan.h"
#include <string.h>

/* The last bit of a digest: its member was unsure when it voted. That stays as it was. */
#define UNSURE UINT64_C(1)

static bool agree(uint64_t a, uint64_t b)
{
    return ((a ^ b) & ~UNSURE) == 0;
}

static bool has_voted(const struct member *m, const struct wire_status *status)
{
    return wire_tag_compare(&status->voted, &m->turn.tag) == 0;
}

void member_vote_begin(struct member *m)
{
    bool here = m->self.has_state && !m->committing && m->self.era == m->turn.era &&
                m->self.position == m->turn.position;
    if (m->me == GROUP_NOBODY) return;
    if (!here) {
        m->self.broken = m->turn.tag;
        return;
    }
    member_mirror_begin(m);
    m->self.voted = m->turn.tag;
    uint64_t digest = m->turn.attempt > 0 ? transfer_digest(&m->config.state) : 0;
    m->self.digest = (digest & ~UNSURE) | m->self.unsure;
}

/* False: not all have voted yet. */
static bool find_majority(const struct member *m, uint64_t *ret_digest)
{
    uint64_t digest[GROUP_MEMBERS_MAX];
    uint32_t best = 0;
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        if (status == NULL || !has_voted(m, status)) return false;
        digest[i] = status->digest;
    }
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        uint32_t votes = 0;
        for (uint32_t k = 0; k < m->turn.member_count; k++)
            if (agree(digest[k], digest[i]))
                votes += GROUP_MEMBERS_MAX + 1 - (uint32_t)(digest[k] & UNSURE);
        if (votes <= best) continue; /* of equals the first */
        best = votes;
        *ret_digest = digest[i];
    }
    return true;
}

void member_vote_advance(struct member *m)
{
    uint64_t digest;
    if (m->turn.kind != TURN_VOTE || m->me == GROUP_NOBODY || !m->self.has_state) return;
    member_mirror_advance(m);
    if (wire_tag_compare(&m->vote_ended, &m->turn.tag) == 0 || !find_majority(m, &digest)) return;
    if (member_mirror_waits(m)) return;
    m->vote_ended = m->turn.tag;
    bool unsure = m->self.unsure;
    m->self.unsure = 0;
    if (member_mirror_ends(
            m, unsure)) { /* who of the two is wrong, and so whose weights, is not known */
        member_tell_all(m);
        return;
    }
    for (uint32_t i = 0; i < m->turn.member_count; i++)
        if (!agree(member_status_of(m, m->turn.member[i])->digest, digest))
            m->outvoted |= UINT64_C(1) << i;
    if (!agree(m->self.digest, digest)) member_drop_state(m); /* it gets it anew */
    member_tell_all(m);
}

bool member_take_outvoted(struct member *m, uint64_t *ret_id)
{
    if (m->outvoted == 0) return false;
    *ret_id = m->turn.member[__builtin_ctzll(m->outvoted)];
    m->outvoted &= m->outvoted - 1;
    return true;
}

/* All have seen the result, or one of them is lost. */
bool member_vote_is_over(const struct member *m)
{
    bool pending = false;
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        const struct wire_status *status = member_status_of(m, m->turn.member[i]);
        if (status == NULL || wire_tag_compare(&status->broken, &m->turn.tag) == 0) return true;
        if (member_is_left_out(m, m->turn.member[i])) return true;
        if (!status->has_state) continue; /* outvoted, or lost: it is behind */
        pending = pending || !has_voted(m, status) || status->unsure;
    }
    return !pending && !member_mirror_waits(m) && !member_mirror_mends(m);
}

bool member_vote_is_due(const struct member *m, const struct seen *seen, bool *ret_state)
{
    uint32_t level = 0;
    bool unsure = false;
    for (uint32_t i = 0; i < seen->count && level < GROUP_MEMBERS_MAX; i++) {
        if (!member_is_level(seen, i) || seen->out[i] || seen->status[i]->leaving) continue;
        level++;
        unsure = unsure || seen->status[i]->unsure;
    }
    *ret_state = unsure;
    return level > 1 && (unsure || member_mirror_is_due(m, seen->best->position));
}
