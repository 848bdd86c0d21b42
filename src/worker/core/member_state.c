/* The state to those behind: who asks whom for which stripe of it, and what is then true of them. */
#include "worker/core/member.h"

uint32_t member_stripe(const struct wire_turn *turn, uint32_t index, uint32_t *ret_count)
{
    uint32_t stripe = 0;
    *ret_count = 0;
    for (uint32_t i = 0; i < turn->member_count; i++) {
        if (turn->source[i] != GROUP_NOBODY) continue;
        stripe += i < index;
        ++*ret_count;
    }
    return stripe;
}

void member_drop_state(struct member *m)
{
    member_shard_forget(m);
    m->self.has_state = m->self.unsure = 0;
    m->self.position = 0;
    m->self.weights_hash = 0;
    m->mine = (struct slot_set){0};
    member_void_sums(m);
}

bool member_may_receive(const struct member *m)
{
    return m->parked && !m->committing && m->saves.copying == 0;
}

void member_ask_for_state(struct member *m)
{
    uint32_t count;
    m->fetch_wanted = false;
    (void)member_stripe(&m->turn, 0, &count);
    transfer_receive(&m->in, &m->config.state, count);
    for (uint32_t i = 0; i < m->turn.member_count; i++) {
        struct member_peer *source = member_find(m, m->turn.member[i]);
        /* Who is not there is asked when it comes; if it is gone the leader sees it too. */
        if (m->turn.source[i] == GROUP_NOBODY && source != NULL) source->fetch_due = true;
    }
}

bool member_ask_again(struct member *m, uint32_t index)
{
    uint32_t count, stripe = member_stripe(&m->turn, index, &count);
    return transfer_repeat(&m->in, &m->config.state, stripe, count);
}

bool member_take_fetch(struct member *m, struct member_peer *peer, const uint8_t *bytes,
                       size_t count)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    struct wire_tag tag = wire_read_tag(&cursor);
    if (cursor.failed || cursor.at != cursor.end) return false;
    if (wire_tag_compare(&tag, &m->turn.tag) != 0) return true;
    uint32_t index = wire_turn_index(&m->turn, peer->id), stripes;
    bool lacks = index != GROUP_NOBODY &&
                 (m->turn.kind == TURN_LOAD || m->turn.source[index] != GROUP_NOBODY);
    if (!lacks) return false;
    if (m->me == GROUP_NOBODY || m->turn.source[m->me] != GROUP_NOBODY) return false;
    uint32_t stripe = member_stripe(&m->turn, m->me, &stripes);
    transfer_send(&peer->out, &m->config.state, stripe, stripes);
    member_data_is_due(m, peer);
    member_repeat_log(m, 1); /* perhaps only we saw this step end, and the target outlives us */
    return true;
}

bool member_take_state(struct member *m, const struct member_peer *peer, const struct wire_tag *tag,
                       const uint8_t *header, const uint8_t *payload, size_t count)
{
    if (wire_tag_compare(tag, &m->turn.tag) != 0 || !m->in.active) return true;
    uint32_t from = wire_turn_index(&m->turn, peer->id), stripes;
    if (from == GROUP_NOBODY || m->turn.source[from] != GROUP_NOBODY) return false;
    uint32_t stripe = member_stripe(&m->turn, from, &stripes);
    switch (transfer_take(&m->in, stripe, &m->config.state, header, payload, count)) {
    case TRANSFER_BAD: return false;
    case TRANSFER_MORE: return true;
    case TRANSFER_DONE: break;
    }
    if (m->turn.kind == TURN_LOAD) return true; /* moments may be missing: member_load_advance() */
    quant_check_scales(m->config.scale, m->config.layout->block_count);
    member_shard_forget(m);
    m->self.has_state = m->self.unsure = 1;
    m->self.era = m->turn.era;
    m->self.fell_at = m->turn.fell_at;
    m->self.fell_base = m->turn.fell_base;
    m->self.position = m->turn.position;
    m->self.moved_by = m->watching ? (struct wire_tag){0} : m->turn.tag; /* its step is to come */
    member_void_sums(m);
    if (m->watching) member_shard_adopt(m);
    m->watching = false;
    member_tell_all(m);
    return true;
}
