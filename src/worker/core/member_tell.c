/* The part of member.c that records what this member does, tells it to the others, and works out
 * from what they tell who holds the group up (recorder.h, diagnose.h). */
#include "core/assert.h"
#include "worker/core/member.h"
#include <string.h>

#define LOOK_US      INT64_C(100000)  /* between two looks at the group */
#define SYNC_NS_BYTE 10               /* of state to one who comes back: 100 MB/s, a slow network */
#define UNKNOWN_US   INT64_C(1000000) /* silence of a peer that is connected and told nothing yet */

/* ---- what this member does ---- */

static enum record_phase phase_of(const struct member *m)
{
    bool here = m->turn.kind == TURN_COMPUTE && m->self.position == m->turn.position;
    if (m->turn.kind == TURN_LOAD && m->me != GROUP_NOBODY) return RECORD_SYNC;
    if (m->exit != 0 || !m->self.has_state) return RECORD_OUTSIDE;
    if (!m->parked) {
        switch (m->work) {
        case MEMBER_WANT_COMPUTE: return m->waits_for_data ? RECORD_DATA : RECORD_COMPUTE;
        case MEMBER_WANT_APPLY:
        case MEMBER_WANT_PLACE: return RECORD_APPLY;
        case MEMBER_WANT_SAVE: return RECORD_SAVE;
        case MEMBER_WANT_WAIT:
        case MEMBER_WANT_FOUND:
        case MEMBER_WANT_LOAD:
        case MEMBER_WANT_EXIT_DONE:
        case MEMBER_WANT_EXIT_LEFT: return RECORD_OUTSIDE;
        }
    }
    if (m->turn.kind == TURN_SYNC && m->me != GROUP_NOBODY) return RECORD_SYNC;
    if (here && exchange_is_done(&m->exchange) && member_waits_for_watchers(m)) return RECORD_SYNC;
    if (m->committing) return RECORD_APPLY;
    return here && m->sums_told ? RECORD_REDUCE : RECORD_OUTSIDE;
}

static uint64_t collective_of(const struct member *m)
{
    const struct wire_tag *tag = &m->turn.tag;
    return (tag->turn * UINT64_C(0x9e3779b97f4a7c15)) ^ tag->leader ^
           m->config.layout->element_count << 20;
}

void member_record(struct member *m, int64_t now_us)
{
    if (m->config.recorder == NULL) return;
    enum record_phase phase = phase_of(m);
    bool slot = phase == RECORD_COMPUTE || phase == RECORD_DATA;
    /* Only the program's own moves count while it works, so that one who is stuck stands still. */
    struct record_place place = {.step = m->parked ? member_step(m) : m->work_step,
                                 .collective = collective_of(m),
                                 .attempt = m->parked ? m->last_compute.attempt : m->work_attempt,
                                 .phase = phase,
                                 .detail = slot ? m->slot : 0};
    if (m->recorded_generation != m->last_compute.generation) { /* then members have changed */
        m->recorded_generation = m->last_compute.generation;
        recorder_members(m->config.recorder, m->recorded_generation);
    }
    (void)recorder_enter(m->config.recorder, &place, now_us); /* often nothing has changed */
}

void member_wait_for_data(struct member *m, bool waits, int64_t now_us)
{
    m->waits_for_data = waits;
    member_record(m, now_us);
}

/* ---- telling ---- */

static uint32_t slots_left(const struct member *m)
{
    uint32_t count = 0;
    for (int i = 0; i < GROUP_SLOT_WORDS; i++)
        for (uint64_t word = m->mine.word[i] & ~m->done.word[i]; word != 0; word &= word - 1)
            count++;
    return count;
}

struct record_summary member_summary(const struct member *m)
{
    struct record_summary told = recorder_tell(m->config.recorder, m->now_us);
    const struct wire_turn *turn = &m->last_compute;
    told.slots_left = slots_left(m);
    if (told.phase == RECORD_REDUCE)
        exchange_missing(&m->exchange, &told.await_part, &told.await_mean);
    for (uint32_t i = 0; i < turn->member_count; i++) {
        const struct member_peer *peer = member_peer_of(m, turn->member[i]);
        if (turn->member[i] == m->config.id) continue;
        bool heard =
            peer != NULL && peer->connected &&
            m->now_us - peer->live.heard_us <= LIVENESS_BEAT_US + liveness_margin_us(&peer->live);
        if (!heard) told.unheard |= UINT64_C(1) << i;
    }
    return told;
}

bool member_take_summary(struct member *m, struct member_peer *peer, const uint8_t *bytes,
                         size_t count)
{
    struct record_summary told;
    if (!wire_get_summary(bytes, count, &told)) return false;
    peer->told = told;
    peer->told_us = m->now_us;
    if (peer->left_out && told.moves != peer->left_out_moves) peer->left_out = false;
    return true;
}

/* ---- looking ---- */

/* Members of the newest COMPUTE turn; false: this member is not one of them, or is alone in it. */
static bool fill_input(const struct member *m, struct diagnose_input *ret_input, uint64_t *ret_ids)
{
    const struct wire_turn *turn = &m->last_compute;
    memset(ret_input, 0, sizeof *ret_input);
    ret_input->me = GROUP_NOBODY;
    ret_input->count = turn->member_count;
    for (uint32_t i = 0; i < turn->member_count; i++) {
        struct diagnose_rank *rank = &ret_input->rank[i];
        const struct member_peer *peer = member_peer_of(m, turn->member[i]);
        ret_ids[i] = turn->member[i];
        if (turn->member[i] == m->config.id) {
            ret_input->me = i;
            *rank = (struct diagnose_rank){true, 0, UNKNOWN_US, member_summary(m)};
        } else if (peer != NULL) {
            int64_t silent_us = LIVENESS_BEAT_US + liveness_margin_us(&peer->live);
            int64_t age_us = m->now_us - peer->live.heard_us;
            rank->heard = peer->connected && peer->told_us != 0;
            rank->told = peer->told;
            rank->silent_us = silent_us;
            /* Its last summary may be older than its last sign of life. */
            rank->age_us = age_us > silent_us ? age_us : m->now_us - peer->told_us;
            if (age_us <= silent_us && rank->age_us > silent_us) rank->age_us = silent_us;
        }
    }
    return ret_input->me != GROUP_NOBODY;
}

/* What it costs to go on without one member: its slots once more, shared, and its way back. */
static int64_t drop_cost_us(const struct member *m, const struct diagnose_input *input)
{
    uint64_t slot_us = m->self.slot_us, slots = m->config.slot_count / input->count + 1;
    uint64_t redo_us = input->count < 2 ? 0 : slots * slot_us / (input->count - 1) + slot_us;
    return (int64_t)(redo_us + m->config.state.total_bytes * SYNC_NS_BYTE / 1000);
}

static void leave_out(struct member *m, const struct diagnose_verdict *verdict)
{
    for (uint32_t i = 0; i < verdict->culprit_count; i++) {
        const struct diagnose_culprit *culprit = &verdict->culprit[i];
        uint64_t id = m->judged[culprit->rank];
        if (!culprit->drop) continue;
        if (id == m->config.id && !m->left_out) {
            m->left_out = true;
            m->left_out_moves = (uint32_t)m->config.recorder->sequence;
        }
        for (uint32_t k = 0; k < m->peer_count; k++) {
            struct member_peer *peer = &m->peer[k];
            if (peer->id != id || peer->left_out) continue;
            peer->left_out = true;
            peer->left_out_moves = peer->told.moves;
        }
    }
}

void member_look(struct member *m)
{
    if (m->config.recorder == NULL || m->now_us - m->looked_us < LOOK_US) return;
    m->looked_us = m->now_us;
    if (m->left_out && m->left_out_moves != (uint32_t)m->config.recorder->sequence)
        m->left_out = false;
    bool steps =
        m->turn.kind == TURN_COMPUTE || m->turn.kind == TURN_SYNC || m->turn.kind == TURN_LOAD;
    bool judges = steps && m->exit == 0 && fill_input(m, &m->input, m->judged);
    if (!judges) {
        memset(&m->verdict, 0, sizeof m->verdict);
        m->verdict_key = 0;
        return;
    }
    m->input.drop_cost_us = drop_cost_us(m, &m->input);
    diagnose(&m->input, &m->verdict);
    bool settled = diagnose_settle(&m->memory, &m->verdict, m->now_us);
    m->verdict_key = settled ? diagnose_key(&m->verdict) : 0;
    if (settled) leave_out(m, &m->verdict);
}

/* At work of its own for too long, and no turn counts on it: nobody may wait for it, nor sync it.
 * Whoever did not see why it was left out comes to the same end by this. */
static bool is_stuck_outside(const struct member *m, uint64_t id, const struct record_summary *told,
                             int64_t age_us)
{
    if (!record_is_work(told->phase) ||
        (int64_t)told->in_phase_us + age_us <= diagnose_limit_us(told->usual_us, told->spread_us))
        return false;
    for (uint32_t i = 0; i < m->last_compute.member_count; i++)
        if (m->last_compute.member[i] == id) return false;
    return true;
}

bool member_is_left_out(const struct member *m, uint64_t id)
{
    if (m->config.recorder == NULL) return false;
    if (id == m->config.id) {
        struct record_summary told = recorder_tell(m->config.recorder, m->now_us);
        return m->left_out || is_stuck_outside(m, id, &told, 0);
    }
    const struct member_peer *peer = member_peer_of(m, id);
    if (peer == NULL || peer->told_us == 0) return false;
    return peer->left_out || is_stuck_outside(m, id, &peer->told, m->now_us - peer->told_us);
}

bool member_next_left_out(const struct member *m, uint32_t *at, uint64_t *ret_id,
                          struct diagnose_rank *ret_rank)
{
    for (; *at <= m->peer_count; ++*at) {
        const struct member_peer *peer = *at == 0 ? NULL : &m->peer[*at - 1];
        if (peer != NULL && !peer->connected) continue;
        *ret_id = peer == NULL ? m->config.id : peer->id;
        if (!member_is_left_out(m, *ret_id)) continue;
        *ret_rank = (struct diagnose_rank){
            .heard = true,
            .age_us = peer == NULL ? 0 : m->now_us - peer->told_us,
            .told = peer == NULL ? member_summary(m) : peer->told,
        };
        ++*at;
        return true;
    }
    return false;
}

static bool has_stall(const struct member *m)
{
    uint32_t at = 0;
    uint64_t id;
    struct diagnose_rank rank;
    return m->verdict_key != 0 || member_next_left_out(m, &at, &id, &rank);
}

/* The lowest that is heard and not to blame speaks; if all are to blame, the lowest. */
bool member_speaks_of_stall(const struct member *m)
{
    if (m->me == GROUP_NOBODY || member_is_left_out(m, m->config.id)) return false;
    uint64_t blamed = 0;
    for (uint32_t i = 0; m->verdict_key != 0 && i < m->verdict.culprit_count; i++) {
        blamed |= UINT64_C(1) << m->verdict.culprit[i].rank;
        if (m->verdict.culprit[i].kind == DIAGNOSE_LINK)
            blamed |= UINT64_C(1) << m->verdict.culprit[i].peer;
    }
    uint32_t first = GROUP_NOBODY, any = GROUP_NOBODY;
    for (uint32_t i = 0; i < m->input.count; i++) {
        const struct diagnose_rank *rank = &m->input.rank[i];
        if (!rank->heard || rank->age_us > rank->silent_us) continue;
        if (any == GROUP_NOBODY) any = i;
        if (first == GROUP_NOBODY && (blamed >> i & 1) == 0) first = i;
    }
    return has_stall(m) && (first != GROUP_NOBODY ? first : any) == m->input.me;
}
