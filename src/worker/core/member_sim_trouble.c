#include "worker/core/member_sim.h"

void sim_crash(struct world *w, uint32_t index, bool closed)
{
    sim_lose_reports(w, index);
    w->node[index].alive = false;
    w->crashes++;
    for (uint32_t i = 0; i < w->node_count; i++)
        if (closed && w->link[i][index].up)
            sim_later(w, sim_below(w, 50000),
                      (struct occurrence){.kind = ON_LINK_DOWN,
                                          .node = i,
                                          .peer = index,
                                          .epoch = w->link[i][index].epoch});
}

static bool is_mirrored(const struct member_base *base)
{
    for (uint32_t u = 0; u < base->map.unit_count; u++)
        if (base->map.mirror[u] == SHARD_NONE) return false;
    return base->tag.turn != 0;
}

/* One crash at most, and leaves of others, all within a moment; somebody stays. Then peace for long
 * enough that all is mirrored again. */
static void gentle_trouble(struct world *w)
{
    uint32_t spread_us = (uint32_t[]){1, 2000, 60000, 400000}[sim_below(w, 4)];
    uint32_t victims[NODES], count = 0, leaves = sim_below(w, 4), crashes = sim_below(w, 4) != 0;
    for (uint32_t i = 0; i < w->node_count; i++)
        if (w->node[i].alive && !w->node[i].member.self.leaving) victims[count++] = i;
    for (uint32_t i = 0; i < count; i++) /* a group that has just begun again has no mirrors yet */
        if (!is_mirrored(&w->node[victims[i]].member.shards.base)) count = 0;
    for (; count > 1 && leaves + crashes > 0; count--) {
        uint32_t at = sim_below(w, count), what = crashes > 0 ? ON_CRASH : ON_LEAVE;
        sim_later(w, sim_below(w, spread_us),
                  (struct occurrence){.kind = (enum occurrence_kind)what, .node = victims[at]});
        victims[at] = victims[count - 1];
        if (crashes > 0)
            crashes = 0;
        else
            leaves--;
    }
    for (uint32_t joins = sim_below(w, 4); joins > 0; joins--) sim_join(w);
}

/* Of four at least, so that all moments stay with the others. */
static void cut_off(struct world *w)
{
    uint32_t victim = sim_below(w, w->node_count);
    struct node *node = &w->node[victim];
    if (!node->alive || sim_alive_count(w) < 4 || node->member.self.base.turn == 0) return;
    node->cut_off = node->was_cut_off = true;
    for (uint32_t i = 0; i < w->node_count; i++)
        if (i != victim && w->link[victim][i].up) sim_lose_link(w, victim, i);
    w->glitches++;
    if (sim_below(w, 4) == 0)
        sim_later(w, sim_below(w, 3000000), (struct occurrence){.kind = ON_LEAVE, .node = victim});
    sim_later(w, 500000 + sim_below(w, 9000000),
              (struct occurrence){.kind = ON_HEAL, .node = victim});
}

/* Of two that hold everything between them one dies, and the other is told to leave in the same moment:
 * with `taken` somebody has just come that can take what it holds, else others come later. */
static void lonely_trouble(struct world *w)
{
    const struct member *m = &w->node[1].member;
    bool both = m->self.base.turn != 0 && m->shards.base.member_count == 2;
    bool settled = both && m->self.position > 2; /* else it may stand on it and hold nothing yet */
    int64_t again_us = 20000 + sim_below(w, 50000);
    if (w->node[0].alive && settled && w->taken && w->node_count == 2) {
        sim_join(w);
        again_us = 32000 + sim_below(w, 40000);
    } else if (w->node[0].alive && settled) {
        sim_crash(w, 0, true);
        w->founds = 0; /* both may have, before they met */
        member_leave(&w->node[1].member);
        sim_serve(w, 1);
        again_us = 3000000;
    } else if (!w->node[0].alive) {
        w->left_at = m->self.position;
        if (!w->taken) sim_join(w);
        return;
    }
    sim_later(w, again_us, (struct occurrence){.kind = ON_TROUBLE});
}

static bool anybody_stays(const struct world *w)
{
    for (uint32_t i = 0; i < w->node_count; i++)
        if (w->node[i].alive && !w->node[i].member.self.leaving) return true;
    return false;
}

void sim_trouble(struct world *w)
{
    if (w->lonely) {
        lonely_trouble(w);
        return;
    }
    if (w->done_count > 0) return; /* nobody is started for a job that is done */
    uint32_t what = sim_below(w, 10), victim = sim_below(w, w->node_count);
    struct node *node = &w->node[victim];
    if (sim_alive_count(w) < w->gang) what = 0;
    if (w->flips) {
        for (uint32_t joins = 1 + sim_below(w, 2); joins > 0; joins--) sim_join(w);
        sim_later(w, 500000 + sim_below(w, 1000000), (struct occurrence){.kind = ON_TROUBLE});
        return;
    }
    if (w->now_us > TROUBLE_US) {
        w->calm = true;
        while ((sim_alive_count(w) < w->gang || !anybody_stays(w)) && w->node_count < w->nodes_max)
            sim_join(w);
        return;
    }
    if (w->split) {
        cut_off(w);
        sim_later(w, 14000000, (struct occurrence){.kind = ON_TROUBLE});
        return;
    }
    if (w->gentle) {
        gentle_trouble(w);
        sim_later(w, 4000000, (struct occurrence){.kind = ON_TROUBLE});
        return;
    }
    if (what < 3)
        sim_join(w);
    else if (what < 6 && node->alive && sim_alive_count(w) > 1) {
        sim_crash(w, victim, sim_below(w, 3) != 0);
        for (uint32_t more = w->sharded ? sim_below(w, 3) : 0; more > 0; more--) { /* at once */
            uint32_t other = sim_below(w, w->node_count);
            if (w->node[other].alive && sim_alive_count(w) > 1) sim_crash(w, other, true);
        }
    } else if (what < 7 && node->alive && w->node_count < w->nodes_max - 4) {
        member_leave(&node->member);
        w->leaves++;
        sim_serve(w, victim);
    } else if (what < 9) {
        uint32_t other = sim_below(w, w->node_count);
        if (other != victim && w->link[victim][other].up && w->link[other][victim].up) {
            uint32_t epoch = w->link[victim][other].epoch;
            sim_later(w, 0,
                      (struct occurrence){
                          .kind = ON_LINK_DOWN, .node = victim, .peer = other, .epoch = epoch});
            sim_later(w, sim_below(w, 3000),
                      (struct occurrence){
                          .kind = ON_LINK_DOWN, .node = other, .peer = victim, .epoch = epoch});
            w->glitches++;
        }
    }
    if (w->node_count > w->nodes_max - 4)
        w->now_us = TROUBLE_US + 1; /* nobody left to join: stop */
    sim_later(w, 20000 + sim_below(w, 1500000), (struct occurrence){.kind = ON_TROUBLE});
}
