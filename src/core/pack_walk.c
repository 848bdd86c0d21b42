/* What packing has learnt, in the walk over the state. */
#include "core/pack_state.h"
#include "core/walk.h"

/* Reading: what no pack could hold is refused, so that sums stay within their bounds. */
static void walk_form(struct walk *w, struct pack_form *form)
{
    walk_u64(w, &form->models);
    walk_u32(w, &form->cpu_milli);
    walk_u32(w, &form->milli);
    walk_u32(w, &form->count);
    walk_u32(w, &form->memory_mib);
    if (w->mode != WALK_READ || pack_form_check(form)) return;
    w->bad = true;
    *form = (struct pack_form){.models = 1};
}

static void walk_forms(struct walk *w, struct pack_mix *mix)
{
    uint32_t count = mix->forms.count;
    walk_end(w, &count, mix->forms.max);
    uint64_t counted = 0;
    for (uint32_t i = 0; i < count && !w->bad; i++) {
        struct pack_form form = {0};
        if (w->mode != WALK_READ) form = mix->forms.forms[i];
        walk_form(w, &form);
        if (w->mode == WALK_READ && !w->bad) {
            w->bad = pack_forms_find(&mix->forms, &form) != SLOT_NONE;
            if (!w->bad) mix->order[i] = pack_forms_add(&mix->forms, &form);
        }
        walk_u64(w, &mix->counts[i]);
        counted += mix->counts[i];
    }
    walk_u64(w, &mix->counted);
    if (counted != mix->counted || counted > 2 * PACK_COUNTS_MAX) w->bad = true;
}

static void walk_typicals(struct walk *w, struct pack_mix *mix)
{
    uint64_t kept = 0;
    walk_end(w, &mix->typical, mix->forms.max);
    for (uint32_t i = 0; i < mix->typical; i++) {
        walk_form(w, &mix->typicals[i].form);
        walk_u64(w, &mix->typicals[i].count);
        if (mix->typicals[i].count > 2 * PACK_COUNTS_MAX) w->bad = true;
        kept += mix->typicals[i].count;
    }
    walk_u64(w, &mix->kept);
    if (kept != mix->kept || (mix->typical > 0 && kept == 0)) w->bad = true;
}

static void walk_mix(struct walk *w, struct pack_mix *mix)
{
    walk_forms(w, mix);
    walk_typicals(w, mix);
    walk_u64(w, &mix->arrived);
    walk_u64(w, &mix->refresh_at);
    walk_u64(w, &mix->device_milli);
    walk_u64(w, &mix->cpu_milli);
    walk_u64(w, &mix->feed);
    if (mix->feed > PACK_FEED_MAX) w->bad = true;
    if (w->mode == WALK_READ && !w->bad && mix->typical > 0) pack_mix_build(mix);
}

/* Who is present follows from the jobs. */
static void walk_price(struct walk *w, struct pack_price *price)
{
    walk_end(w, &price->set_count, PACK_SETS_MAX);
    for (uint32_t q = 0; q < price->set_count; q++) {
        walk_u64(w, &price->sets[q]);
        walk_u64(w, &price->lived_milli[q]);
        for (uint32_t model = 0; model < PACK_MODELS_MAX; model++) {
            walk_u8(w, &price->price[q][model]);
            if (price->price[q][model] > PACK_PRICE_MAX) w->bad = true;
            if (price->price[q][model] > 0) price->none = 0;
        }
    }
}

void pack_walk(struct walk *w, struct pack *pack)
{
    walk_u64(w, &pack->arrivals);
    walk_mix(w, &pack->mix);
    walk_price(w, &pack->price);
}
