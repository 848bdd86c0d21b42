/* The part of member.c that asks and tells who still lives.
 *
 * A peer that is overdue is asked about; who has heard of it lately says so, and patience grows
 * (only the path to us is slow). Who finds a peer silent tells all: one for whom it is overdue as
 * well gives it up at once, so when the first knows all know. Closed connections need no telling:
 * the kernel of the peer has told everybody. A peer that is heard from is never given up on the word of others. */
#include "core/assert.h"
#include "worker/core/member.h"

enum { ASKED_MAX = 3 }; /* asking all would make a storm of it when the whole group is slow */

static void tell_of(struct member *m, struct member_peer *to, const struct member_peer *subject)
{
    uint32_t index = (uint32_t)(subject - m->peer);
    ASSERT(index < GROUP_PEERS_MAX);
    to->vouch_due[index / 64] |= UINT64_C(1) << index % 64;
}

/* Tells up to `count` others, the next ones in order. */
static void tell_others_of(struct member *m, const struct member_peer *subject, uint32_t count)
{
    uint32_t index = (uint32_t)(subject - m->peer);
    for (uint32_t i = 1; i < m->peer_count && count > 0; i++) {
        struct member_peer *to = &m->peer[(index + i) % m->peer_count];
        if (!to->connected) continue;
        tell_of(m, to, subject);
        count--;
    }
}

void member_tell_lost(struct member *m, const struct member_peer *lost)
{
    ASSERT(!lost->connected);
    tell_others_of(m, lost, GROUP_PEERS_MAX);
}

void member_watch(struct member *m)
{
    for (uint32_t i = 0; i < m->peer_count; i++) {
        struct member_peer *peer = &m->peer[i];
        if (!peer->connected || peer->asked || m->now_us <= liveness_ask_us(&peer->live)) continue;
        peer->asked = true;
        tell_others_of(m, peer, ASKED_MAX);
    }
}

bool member_peer_is_silent(const struct member *m, uint64_t id)
{
    const struct member_peer *peer = member_peer_of(m, id);
    return peer != NULL && peer->connected &&
           (peer->given_up || m->now_us > liveness_end_us(&peer->live));
}

void member_take_vouch(struct member *m, struct member_peer *from, const struct wire_vouch *vouch)
{
    for (uint32_t i = 0; i < m->peer_count; i++) {
        struct member_peer *subject = &m->peer[i];
        if (subject->id != vouch->worker || subject == from) continue;
        int64_t age_us = m->now_us - subject->live.heard_us;
        switch ((enum vouch_kind)vouch->kind) {
        case VOUCH_ASK: /* answer if ours is better news, or the worst */
            if (!subject->connected || age_us + LIVENESS_BEAT_US / 2 < (int64_t)vouch->age_us)
                tell_of(m, from, subject);
            break;
        case VOUCH_HEARD: liveness_vouch(&subject->live, m->now_us - (int64_t)vouch->age_us); break;
        case VOUCH_LOST:
            if (subject->connected && m->now_us > liveness_ask_us(&subject->live))
                subject->given_up = true;
            break;
        }
    }
}

bool member_fill_vouch(struct member *m, struct member_peer *peer, struct wire_vouch *ret_vouch)
{
    for (uint32_t word = 0; word < GROUP_PEERS_MAX / 64; word++) {
        if (peer->vouch_due[word] == 0) continue;
        uint32_t i = 64 * word + (uint32_t)__builtin_ctzll(peer->vouch_due[word]);
        const struct member_peer *subject = &m->peer[i];
        peer->vouch_due[word] &= peer->vouch_due[word] - 1;
        int64_t age_us = m->now_us - subject->live.heard_us;
        if (age_us < 0) age_us = 0;
        *ret_vouch =
            (struct wire_vouch){.worker = subject->id,
                                .kind = !subject->connected ? VOUCH_LOST
                                        : subject->asked    ? VOUCH_ASK
                                                            : VOUCH_HEARD,
                                .age_us = age_us > UINT32_MAX ? UINT32_MAX : (uint32_t)age_us};
        return true;
    }
    return false;
}
