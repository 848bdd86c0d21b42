#include "core/ranking.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/offer.h"

static void rank(pool *p, uint32_t slot, uint32_t factor_ppm, uint32_t beside)
{
    struct offer *o = &p->offers[slot];
    if (o->rank_ppm == factor_ppm && o->rank_beside == beside) return;
    o->rank_ppm = factor_ppm;
    o->rank_beside = (uint8_t)beside;
    offer_reprice(p, slot);
    offer_improve(p, slot); /* it may come before others now */
}

static uint32_t why_not(uint32_t state)
{
    switch ((enum ranking_state)state) {
    case RANKING_LATE: return REASON_RANKING_LATE;
    case RANKING_FAILED: return REASON_RANKING_FAILED;
    case RANKING_NONSENSE: return REASON_RANKING_NONSENSE;
    case RANKING_OWN:
    case RANKING_BUILT_IN:
    case RANKING_STATE_END: break;
    }
    return REASON_NONE;
}

void ranking_told(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t state = event->u.offers_ranked.state, why = why_not(state);
    if (why != REASON_NONE && state != p->ranking_state)
        act_decision(p, out, (struct pool_decision){.kind = DECISION_DISTRUST, .reason = why});
    p->ranking_state = state;
    for (uint32_t slot = 0; slot < p->offers_end && state != RANKING_OWN; slot++)
        rank(p, slot, 0, 0);
    for (uint32_t i = 0; i < event->u.offers_ranked.count; i++) {
        const struct told_rank *told = &event->u.offers_ranked.ranks[i];
        uint32_t slot = table_find(&p->offer_table, told->offer_id);
        if (slot != SLOT_NONE) rank(p, slot, told->factor_ppm, told->beside);
    }
}

uint32_t ranking_reason(const pool *p, uint32_t offer)
{
    if (p->offers[offer].rank_ppm > RANK_OUTSIDE) return REASON_RANKED;
    if (p->offers[offer].rank_ppm == RANK_OUTSIDE) return REASON_RANK_OUTSIDE;
    return why_not(p->ranking_state) != REASON_NONE ? REASON_UNRANKED : REASON_CHEAPEST;
}
