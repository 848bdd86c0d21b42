#include "core/quote_ncu.h"
#include "core/assert.h"
#include "core/ncu_mix.h"
#include "core/offer.h"
#include "core/prices.h"

struct shelf { /* the offers of one region that fit, cheapest per NCU first */
    struct ncu_type types[NCU_TYPES_MAX];
    uint32_t offers[NCU_TYPES_MAX], count;
};

static bool is_fit(const struct ncu_need *need, const struct model *m)
{
    return m->ncu_milli != 0 && m->vram_mib >= need->vram_min_mib &&
           (m->capability_mask & need->capability_mask) == need->capability_mask;
}

static void put(struct shelf *shelf, const pool *p, uint32_t offer, uint32_t stock)
{
    const struct offer *o = &p->offers[offer];
    uint32_t at = shelf->count;
    while (at > 0 && p->offers[shelf->offers[at - 1]].unit_usd_micros > o->unit_usd_micros) at--;
    if (at == NCU_TYPES_MAX) return;
    if (shelf->count < NCU_TYPES_MAX) shelf->count++;
    for (uint32_t i = shelf->count - 1; i > at; i--) {
        shelf->types[i] = shelf->types[i - 1];
        shelf->offers[i] = shelf->offers[i - 1];
    }
    shelf->offers[at] = offer;
    shelf->types[at] =
        (struct ncu_type){.ncu_milli = p->models[o->model].ncu_milli * o->device_count,
                          .stock = stock,
                          .usd_micros_per_hour = o->usd_micros_per_hour};
}

static void fill_shelf(const pool *p, const struct ncu_need *need, uint32_t region_index,
                       struct shelf *ret_shelf)
{
    ret_shelf->count = 0;
    for (uint64_t rest = p->regions[region_index].model_mask; rest != 0; rest &= rest - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(rest);
        if (!is_fit(need, &p->models[model])) continue;
        const struct market *market = market_of(p, region_index, model);
        for (uint32_t at = prices_first(p, market, KINDS_ALL); at != SLOT_NONE;
             at = prices_next(p, market, at, KINDS_ALL)) {
            uint32_t stock = offer_stock(p, &p->offers[at]);
            if (stock > 0 && !offer_is_above(&p->offers[at], THRESHOLD_PPM_NONE))
                put(ret_shelf, p, at, stock);
        }
    }
}

static void fill_lines(const pool *p, const struct shelf *shelf, const struct ncu_mix *mix,
                       struct ncu_quote *quote)
{
    quote->line_count = 0;
    for (uint32_t i = 0; i < shelf->count; i++) {
        if (mix->counts[i] == 0 || quote->line_count == NCU_QUOTE_LINES_MAX) continue;
        const struct offer *o = &p->offers[shelf->offers[i]];
        quote->lines[quote->line_count++] =
            (struct ncu_line){.offer_id = o->offer_id,
                              .node_count = mix->counts[i],
                              .device_count = mix->counts[i] * o->device_count,
                              .ncu_milli = (uint64_t)mix->counts[i] * shelf->types[i].ncu_milli,
                              .usd_micros_per_hour = mix->counts[i] * o->usd_micros_per_hour};
    }
}

static void fill_single(const pool *p, const struct shelf *shelf, uint64_t ncu_milli,
                        struct ncu_quote *quote)
{
    struct ncu_mix single;
    quote->single_usd_micros_per_hour = 0;
    quote->single_offer_id = 0;
    if (!ncu_mix_single(shelf->types, shelf->count, ncu_milli, &single)) return;
    quote->single_usd_micros_per_hour = single.usd_micros_per_hour;
    for (uint32_t i = 0; i < shelf->count; i++)
        if (single.counts[i] > 0) quote->single_offer_id = p->offers[shelf->offers[i]].offer_id;
}

static void look_in(const pool *p, const struct ncu_need *need, uint32_t region_index,
                    struct ncu_quote *quote, uint64_t *most_milli)
{
    struct shelf shelf;
    struct ncu_mix mix;
    fill_shelf(p, need, region_index, &shelf);
    if (shelf.count == 0) return;
    if (quote->verdict == REASON_NO_OFFER) quote->verdict = REASON_NCU_TOO_MANY;
    if (!ncu_mix_cheapest(shelf.types, shelf.count, need->ncu_milli, &mix)) {
        if (mix.ncu_milli > *most_milli) *most_milli = mix.ncu_milli;
        return;
    }
    if (quote->verdict == REASON_FITS && mix.usd_micros_per_hour >= quote->usd_micros_per_hour)
        return;
    quote->verdict = REASON_FITS;
    quote->region = p->regions[region_index].region;
    quote->is_proven = mix.is_proven;
    quote->ncu_milli = mix.ncu_milli;
    quote->usd_micros_per_hour = mix.usd_micros_per_hour;
    quote->bound_usd_micros_per_hour = mix.bound_usd_micros_per_hour;
    fill_lines(p, &shelf, &mix, quote);
    fill_single(p, &shelf, need->ncu_milli, quote);
}

void pool_quote_ncu(const pool *p, const struct ncu_need *need, struct ncu_quote *ret_quote)
{
    uint64_t most_milli = 0;
    ASSERT(need->ncu_milli <= NCU_WANTED_MAX);
    *ret_quote = (struct ncu_quote){.verdict = REASON_NO_OFFER};
    for (uint32_t i = 0; i < p->regions_end; i++)
        if (need->region == 0 || need->region == p->regions[i].region)
            look_in(p, need, i, ret_quote, &most_milli);
    ret_quote->a = (int64_t)need->ncu_milli;
    ret_quote->b = (int64_t)most_milli;
    if (ret_quote->verdict != REASON_FITS || need->budget_usd_micros_per_hour == 0 ||
        ret_quote->usd_micros_per_hour <= need->budget_usd_micros_per_hour)
        return;
    ret_quote->verdict = REASON_NCU_BUDGET;
    ret_quote->a = ret_quote->usd_micros_per_hour;
    ret_quote->b = need->budget_usd_micros_per_hour;
    ret_quote->c = (int64_t)need->ncu_milli;
}
