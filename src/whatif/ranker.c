#include "whatif/ranker.h"

#define RANK_EVERY_US INT64_C(600000000)

static void send(struct world *w, struct pool_event *event)
{
    if (event->u.offers_ranked.count > 0) feed_tell(w, event);
    *event = feed_event(POOL_EVENT_OFFERS_RANKED);
    event->u.offers_ranked.state = RANKING_OWN;
}

static void add(struct world *w, struct pool_event *event, uint32_t offer, uint32_t factor_ppm)
{
    bool beside = w->c->policy == POLICY_LEARNED;
    if (factor_ppm == w->offers[offer].factor_ppm) return;
    w->offers[offer].factor_ppm = factor_ppm;
    event->u.offers_ranked.ranks[event->u.offers_ranked.count++] =
        (struct told_rank){.offer_id = offer + 1, .factor_ppm = factor_ppm, .beside = beside};
    if (event->u.offers_ranked.count == RANKED_MAX) send(w, event);
}

void ranker_before(struct world *w, uint32_t offer)
{
    struct pool_event event = {0};
    w->rank_due = true;
    if (w->c->policy != POLICY_FORESIGHT || w->now_us == START_US) return; /* none is known yet */
    send(w, &event);
    add(w, &event, offer, foresight_factor_ppm(w, offer));
    send(w, &event);
}

static bool fields_at(const struct world *w, uint32_t index, uint32_t *ret_offer,
                      int64_t ret_fields[RANK_FIELD_COUNT])
{
    struct offer_view view;
    if (!pool_offer_at(w->pool, index, &view)) return false;
    *ret_offer = (uint32_t)view.offer_id - 1;
    rank_fields_of(&view, pool_model_ncu_milli(w->pool, view.model), ret_fields);
    return true;
}

static void meet(struct world *w, const int64_t *fields, const struct rank_around *around)
{
    int32_t inputs[RANK_INPUT_COUNT];
    rank_inputs_of(fields, around, inputs);
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++) {
        struct rank_range *met = &w->met[i];
        if (!w->has_met || inputs[i] < met->from) met->from = inputs[i];
        if (!w->has_met || inputs[i] > met->to) met->to = inputs[i];
    }
    w->has_met = true;
}

static void tell_learned(struct world *w, struct pool_event *event)
{
    struct rank_around around = {0};
    int64_t fields[RANK_FIELD_COUNT];
    uint32_t offer, end = pool_offers_end(w->pool);
    for (uint32_t i = 0; i < end; i++)
        if (fields_at(w, i, &offer, fields)) rank_around_add(&around, fields);
    for (uint32_t i = 0; i < end; i++) {
        if (!fields_at(w, i, &offer, fields)) continue;
        meet(w, fields, &around);
        add(w, event, offer, rank_net_factor_ppm(w->c->net, fields, &around));
    }
}

void ranker_tell(struct world *w)
{
    struct pool_event event = {0};
    w->rank_due = false;
    send(w, &event);
    if (w->c->policy == POLICY_LEARNED && w->c->net != NULL) tell_learned(w, &event);
    for (uint32_t i = 0; i < w->scene->offer_count && w->c->policy == POLICY_FORESIGHT; i++)
        if (market_told(w, i)) add(w, &event, i, foresight_factor_ppm(w, i));
    send(w, &event);
}

void ranker_on(struct world *w)
{
    w->rank_due = true;
    if (w->c->policy == POLICY_LEARNED || w->c->policy == POLICY_FORESIGHT)
        world_later(w, w->now_us + RANK_EVERY_US, ON_RANK, 0, 0);
}
