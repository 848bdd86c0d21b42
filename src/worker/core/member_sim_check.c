#include "worker/core/member_sim.h"
#include <string.h>

void sim_check_cover(struct world *w, const struct node *node)
{
    if (!exchange_covers(&node->member.exchange)) w->wrong = "slots not covered once";
    double norm = exchange_norm_squared(&node->member.exchange);
    uint64_t step = node->member.commit.step;
    if (!w->spoils && memcmp(&norm, &w->norm[step], sizeof norm) != 0)
        w->wrong = "the norm's bits differ";
}

void sim_check_state(struct world *w, struct node *node)
{
    const struct member *m = &node->member;
    uint64_t at = m->self.position;
    if (w->flips || !m->parked || !m->self.has_state || m->committing || at >= w->steps) return;
    if (at == node->looked_position && wire_tag_compare(&m->turn.tag, &node->looked_turn) == 0)
        return;
    node->looked_position = at;
    node->looked_turn = m->turn.tag;
    size_t bytes = w->sharded ? (ELEMENTS - 1) * sizeof(float) : sizeof node->weights;
    if (memcmp(node->weights, w->weights[at], bytes) != 0 ||
        memcmp(node->scale, w->scale[at], sizeof node->scale) != 0)
        w->wrong = "the state of a position differs";
}

/* At the end each holder has the moments of the reference run. */
bool sim_holds_block(const struct member *m, uint32_t block)
{
    const struct member_base *base = &m->shards.base;
    if (base->tag.turn == 0) return false;
    uint32_t unit = shard_unit_of(base->map.unit_count, BLOCKS, block);
    for (uint32_t i = 0; i < base->member_count; i++)
        if (base->member[i] == m->config.id)
            return base->map.owner[unit] == i || base->map.mirror[unit] == i;
    return false;
}

void sim_check_moments(struct world *w, const struct node *node)
{
    for (uint32_t b = 0; b < BLOCKS - 1; b++) {
        if (!sim_holds_block(&node->member, b)) continue;
        for (int i = 0; i < MOMENTS; i++)
            if (memcmp(&node->moment[i][w->start[b]], &w->final_moment[i][w->start[b]],
                       (w->start[b + 1] - w->start[b]) * sizeof(float)) != 0)
                w->wrong = "final moments differ";
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
void sim_lose_reports(struct world *w, uint32_t dying)
{
    for (uint32_t step = 0; step < w->steps; step++) {
        if (w->now_us - duty_us(w, step, dying) < REPORT_US) w->commit_us[step][dying] = 0;
        if (w->now_us - w->report_us[step][dying] < REPORT_US) w->report_us[step][dying] = 0;
    }
}

/* The server's answers: what has been on its way for long enough is stored. */
uint64_t sim_first_not_stored(struct world *w)
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
bool sim_is_told(const struct world *w, uint32_t step)
{
    bool seen = false;
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->report_us[step][i] != 0) return true;
        seen = seen || w->commit_us[step][i] != 0;
    }
    return !seen;
}

/* Only one that was cut off may go back. */
void sim_watch_progress(struct world *w, struct node *node)
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
