#include "core/afford.h"
#include "core/island.h"
#include "core/part.h"
#include "core/plan_buy.h"
#include "core/supply.h"

struct purse {
    int64_t usd_micros;
    uint32_t devices;
    int64_t least[AFFORD_DEVICES_MAX + 1]; /* for so many devices or more; INT64_MAX = no way yet */
    bool within;                           /* found */
};

static uint32_t gives(const pool *p, const struct demand *demand, const struct offer *o,
                      uint32_t devices)
{
    if (!supply_is_kind(p, demand, o) || o->reach_count == 0) return 0;
    uint32_t each = demand->special ? part_offer_gives(p, o, demand->terms) : o->device_count;
    uint32_t group = island_offer_gives(o, demand->near.same);
    if (group < each) each = group;
    return smaller(each, devices);
}

/* So many devices more for so much more, once. */
static void add(struct purse *purse, uint32_t devices, int64_t usd_micros)
{
    for (uint32_t d = purse->devices; d > 0; d--) {
        int64_t before = purse->least[d > devices ? d - devices : 0];
        if (before > purse->usd_micros - usd_micros) continue;
        if (before + usd_micros < purse->least[d]) purse->least[d] = before + usd_micros;
    }
}

/* Up to so many nodes of an offer: as parts of 1, 2, 4 and so on, which make any number of them. */
static void add_nodes(struct purse *purse, uint32_t each, uint32_t nodes, int64_t usd_micros)
{
    for (uint32_t part = 1; nodes > 0; nodes -= part, part *= 2) {
        part = smaller(part, nodes);
        if (usd_micros > 0 && purse->usd_micros / usd_micros < part) return;
        add(purse, smaller(each * part, purse->devices), usd_micros * part);
    }
}

static void look_at(const pool *p, const struct demand *demand, const struct offer *o,
                    struct purse *purse)
{
    int64_t usd_micros = o->usd_micros_per_hour;
    uint32_t each = gives(p, demand, o, purse->devices);
    if (each == 0 || usd_micros > purse->usd_micros) return;
    if (demand->single_node)
        purse->within |= each == purse->devices;
    else if (purse->devices > AFFORD_DEVICES_MAX)
        purse->within |= usd_micros <= money_share_floor(purse->usd_micros, each, purse->devices);
    else
        add_nodes(purse, each, smaller(o->reach_count, (purse->devices + each - 1) / each),
                  usd_micros);
}

bool afford_within(const pool *p, const struct demand *demand, uint32_t region_index,
                   uint32_t devices, int64_t usd_micros_per_hour)
{
    struct purse purse = {.usd_micros = usd_micros_per_hour, .devices = devices};
    uint64_t models = demand->compat_mask & p->regions[region_index].model_mask;
    for (uint32_t d = 1; d <= AFFORD_DEVICES_MAX; d++) purse.least[d] = INT64_MAX;
    for (; models != 0; models &= models - 1) {
        const struct market *market = market_of(p, region_index, (uint32_t)__builtin_ctzll(models));
        for (uint32_t i = 0; i < market->count && !purse.within; i++)
            look_at(p, demand, &p->offers[p->prices[market->first + i].offer], &purse);
    }
    bool some_way = devices <= AFFORD_DEVICES_MAX && purse.least[devices] <= usd_micros_per_hour;
    return purse.within || (!demand->single_node && some_way);
}
