#include "core/pack_mix.h"
#include "core/assert.h"
#include "core/list.h"
#include <string.h>

static_assert((uint64_t)PACK_DEVICES_MAX * PACK_MILLI * ((2u << PACK_WEIGHT_SHIFT) - 1) <=
                  UINT32_MAX,
              "weighted milli of a node fit 32 bits, rounding of the weights included");

size_t pack_mix_bytes(uint32_t forms_max, uint32_t models_max)
{
    size_t weights = (size_t)models_max * (PACK_CPUS_MAX + 1) * PACK_DEMANDS_MAX;
    return forms_max * (sizeof(struct pack_form) + sizeof(struct pack_typical) + sizeof(uint64_t) +
                        sizeof(uint32_t)) +
           (pack_cells(forms_max) + weights) * sizeof(uint32_t) + 8;
}

void pack_mix_init(struct pack_mix *mix, void *memory, uint32_t forms_max, uint32_t models_max)
{
    ASSERT(models_max <= PACK_MODELS_MAX);
    memset(mix, 0, sizeof *mix);
    mix->forms.max = forms_max;
    mix->forms.forms = memory;
    mix->typicals = (struct pack_typical *)(mix->forms.forms + forms_max);
    mix->counts = (uint64_t *)(mix->typicals + forms_max);
    mix->order = (uint32_t *)(mix->counts + forms_max);
    mix->forms.cells = mix->order + forms_max;
    mix->weights = mix->forms.cells + pack_cells(forms_max);
    mix->models_max = models_max;
    mix->refresh_at = PACK_REFRESH_FIRST;
    mix->refresh_every = PACK_REFRESH_EVERY;
    mix->feed = (UINT64_C(100) << PACK_WEIGHT_SHIFT) / (PACK_RATIO_PERCENT * PACK_RATIO_FIRST);
    memset(mix->weights, 0, (size_t)models_max * PACK_DEMANDS_MAX * sizeof(uint32_t));
    pack_forms_clear(&mix->forms);
}

/* More frequent first; ties by what is asked, so that the order does not depend on the arrivals'. */
static bool before(const struct pack_mix *mix, uint32_t left, uint32_t right)
{
    const struct pack_form *a = &mix->forms.forms[left], *b = &mix->forms.forms[right];
    if (mix->counts[left] != mix->counts[right]) return mix->counts[left] > mix->counts[right];
    if (a->cpu_milli != b->cpu_milli) return a->cpu_milli > b->cpu_milli;
    if (a->milli != b->milli) return a->milli > b->milli;
    if (a->count != b->count) return a->count > b->count;
    return a->models > b->models;
}

/* Shell sort: the order of last time is nearly right. */
static void sort(struct pack_mix *mix)
{
    uint32_t count = mix->forms.count, gap = 1;
    while (gap < count / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3) {
        for (uint32_t i = gap; i < count; i++) {
            uint32_t form = mix->order[i], at = i;
            for (; at >= gap && before(mix, form, mix->order[at - gap]); at -= gap)
                mix->order[at] = mix->order[at - gap];
            mix->order[at] = form;
        }
    }
}

/* Finds or makes the demand. PACK_DEMANDS_MAX: no room. */
static uint32_t demand_of(struct pack_mix *mix, const struct pack_form *form)
{
    uint32_t at = 0;
    while (at < mix->demands &&
           (mix->demand_milli[at] != form->milli || mix->demand_count[at] != form->count))
        at++;
    if (at < mix->demands || at == PACK_DEMANDS_MAX) return at;
    mix->demand_milli[at] = form->milli;
    mix->demand_count[at] = form->count;
    mix->demand_seen[at] = 0;
    mix->demands++;
    return at;
}

/* Finds or makes the CPU step. False: no room. */
static bool cpu_step(struct pack_mix *mix, uint32_t cpu_milli)
{
    uint32_t at = 0;
    while (at < mix->cpus && mix->cpu_steps[at] < cpu_milli) at++;
    if (at < mix->cpus && mix->cpu_steps[at] == cpu_milli) return true;
    if (mix->cpus == PACK_CPUS_MAX) return false;
    memmove(&mix->cpu_steps[at + 1], &mix->cpu_steps[at], (mix->cpus - at) * sizeof(uint32_t));
    mix->cpu_steps[at] = cpu_milli;
    mix->cpus++;
    return true;
}

/* How many steps the CPU reaches. */
static uint32_t cpu_rank(const struct pack_mix *mix, uint32_t cpu_milli)
{
    uint32_t low = 0, high = mix->cpus;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (mix->cpu_steps[middle] <= cpu_milli)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How many forms are typical: the first of the order that have room; and their number of arrivals. */
static uint32_t choose(struct pack_mix *mix, uint64_t *ret_kept)
{
    uint64_t kept = 0, wanted = mix->counted * PACK_COVER_PERCENT;
    mix->demands = mix->cpus = 0;
    uint32_t i = 0;
    for (; i < mix->forms.count && kept * 100 < wanted; i++) {
        const struct pack_form *form = &mix->forms.forms[mix->order[i]];
        if (form->count > 0 &&
            (demand_of(mix, form) == PACK_DEMANDS_MAX || !cpu_step(mix, form->cpu_milli)))
            break;
        kept += mix->counts[mix->order[i]];
    }
    *ret_kept = kept;
    return i;
}

static uint32_t *row(const struct pack_mix *mix, uint32_t model, uint32_t rank)
{
    return mix->weights + ((size_t)model * (mix->cpus + 1) + rank) * mix->stride;
}

static void add_weight(struct pack_mix *mix, const struct pack_typical *typical, uint32_t weight)
{
    const struct pack_form *form = &typical->form;
    if (form->count == 0) return;
    uint32_t demand = demand_of(mix, form), rank = cpu_rank(mix, form->cpu_milli);
    mix->demand_seen[demand] += typical->count;
    for (uint32_t model = 0; model < mix->models_max; model++)
        if (form->models >> model & 1) row(mix, model, rank)[demand] += weight;
}

static void accumulate(struct pack_mix *mix)
{
    for (uint32_t model = 0; model < mix->models_max; model++) {
        for (uint32_t rank = 1; rank <= mix->cpus; rank++) {
            const uint32_t *below = row(mix, model, rank - 1);
            uint32_t *here = row(mix, model, rank);
            for (uint32_t d = 0; d < mix->stride; d++) here[d] += below[d];
        }
    }
}

static void expect_waste(struct pack_mix *mix)
{
    for (uint32_t milli = 0; milli <= PACK_MILLI; milli++) {
        uint64_t seen = 0, sum = 0;
        for (uint32_t d = 0; d < mix->demands; d++) {
            if (mix->demand_milli[d] > milli) continue;
            seen += mix->demand_seen[d];
            sum += mix->demand_seen[d] * mix->waste[milli - mix->demand_milli[d]];
        }
        mix->waste[milli] = seen > 0 ? (uint32_t)(sum / seen) : milli << PACK_WASTE_SHIFT;
    }
}

static uint32_t weight_of(uint64_t count, uint64_t kept)
{
    return (uint32_t)(((count << PACK_WEIGHT_SHIFT) + kept / 2) / kept);
}

void pack_mix_build(struct pack_mix *mix)
{
    mix->demands = mix->cpus = 0;
    for (uint32_t i = 0; i < mix->typical; i++) {
        const struct pack_form *form = &mix->typicals[i].form;
        if (form->count == 0) continue;
        (void)demand_of(mix, form); /* they were chosen so that there is room */
        (void)cpu_step(mix, form->cpu_milli);
    }
    mix->stride = (mix->demands + 7) / 8 * 8;
    for (uint32_t d = mix->demands; d < mix->stride; d++)
        mix->demand_milli[d] = mix->demand_count[d] = PACK_MILLI;
    size_t rows = (size_t)mix->models_max * (mix->cpus + 1);
    memset(mix->weights, 0, rows * mix->stride * sizeof(uint32_t));
    mix->weight_total = 0;
    for (uint32_t i = 0; i < mix->typical; i++) {
        uint32_t weight = weight_of(mix->typicals[i].count, mix->kept);
        mix->weight_total += weight;
        add_weight(mix, &mix->typicals[i], weight);
    }
    accumulate(mix);
    expect_waste(mix);
    mix->version++;
}

static uint64_t feed_of(const struct pack_mix *mix)
{
    uint64_t appetite = mix->cpu_milli * PACK_RATIO_PERCENT / 100;
    if (mix->device_milli == 0 || appetite == 0) return PACK_FEED_MAX;
    uint64_t feed = (mix->device_milli << PACK_WEIGHT_SHIFT) / appetite;
    return feed < PACK_FEED_MAX ? feed : PACK_FEED_MAX;
}

/* The front of the order is what was typical last time, with the same weights. */
static bool is_as_before(const struct pack_mix *mix, uint32_t typical, uint64_t kept)
{
    if (typical != mix->typical || feed_of(mix) != mix->feed) return false;
    for (uint32_t i = 0; i < typical; i++) {
        const struct pack_typical *old = &mix->typicals[i];
        const struct pack_form *form = &mix->forms.forms[mix->order[i]];
        bool same = form->models == old->form.models && form->cpu_milli == old->form.cpu_milli &&
                    form->milli == old->form.milli && form->count == old->form.count;
        if (!same ||
            weight_of(old->count, mix->kept) != weight_of(mix->counts[mix->order[i]], kept))
            return false;
    }
    return true;
}

bool pack_mix_learn(struct pack_mix *mix)
{
    if (mix->counted == 0) return false;
    uint64_t kept;
    sort(mix);
    uint32_t typical = choose(mix, &kept);
    if (is_as_before(mix, typical, kept)) return false;
    mix->typical = typical;
    mix->kept = kept;
    for (uint32_t i = 0; i < typical; i++)
        mix->typicals[i] =
            (struct pack_typical){mix->forms.forms[mix->order[i]], mix->counts[mix->order[i]]};
    mix->feed = feed_of(mix);
    pack_mix_build(mix);
    return true;
}

static void halve(struct pack_mix *mix)
{
    mix->counted = 0;
    for (uint32_t i = 0; i < mix->forms.count; i++) {
        mix->counts[i] = (mix->counts[i] + 1) / 2;
        mix->counted += mix->counts[i];
    }
    mix->device_milli /= 2;
    mix->cpu_milli /= 2;
}

/* The slot of the form; a full set gives up its rarest (the first of equals). */
static uint32_t slot_of(struct pack_mix *mix, const struct pack_form *form)
{
    uint32_t slot = pack_forms_find(&mix->forms, form), count = mix->forms.count;
    if (slot != SLOT_NONE) return slot;
    if (count < mix->forms.max) {
        slot = pack_forms_add(&mix->forms, form);
        mix->order[slot] = slot;
    } else {
        slot = 0;
        for (uint32_t i = 1; i < count; i++)
            if (mix->counts[i] < mix->counts[slot]) slot = i;
        mix->counted -= mix->counts[slot];
        pack_forms_replace(&mix->forms, slot, form);
    }
    mix->counts[slot] = 0;
    return slot;
}

bool pack_mix_arrived(struct pack_mix *mix, const struct pack_form *arrived)
{
    struct pack_form form = *arrived;
    form.memory_mib = 0;
    mix->counts[slot_of(mix, &form)]++;
    mix->counted++;
    if (form.count > 0) {
        mix->device_milli += pack_form_milli(&form);
        mix->cpu_milli += form.cpu_milli;
    }
    if (++mix->arrived < mix->refresh_at) return false;
    bool changed = pack_mix_learn(mix);
    mix->refresh_at += mix->refresh_at < mix->refresh_every ? mix->refresh_at : mix->refresh_every;
    if (mix->counted >= PACK_COUNTS_MAX) halve(mix);
    return changed;
}

void pack_mix_levels(const struct pack_mix *mix, const uint16_t *free_milli, uint32_t devices,
                     struct pack_levels *ret_levels)
{
    memset(ret_levels, 0, sizeof *ret_levels);
    for (uint32_t i = 0; i < devices; i++) {
        uint32_t milli = free_milli[i];
        ret_levels->total_milli += milli;
        ret_levels->waste += mix->waste[milli];
        for (uint32_t d = 0; d < mix->stride; d++) {
            bool able = milli >= mix->demand_milli[d];
            ret_levels->count[d] = (uint16_t)(ret_levels->count[d] + able);
            ret_levels->sum_milli[d] = (uint16_t)(ret_levels->sum_milli[d] + (able ? milli : 0));
        }
    }
}

uint32_t pack_mix_fragment(const struct pack_mix *mix, uint32_t model, uint32_t cpu_milli,
                           const struct pack_levels *levels, struct pack_change change)
{
    const uint32_t *weights = row(mix, model, cpu_rank(mix, cpu_milli));
    uint32_t from_sum = change.from_milli * change.devices, usable = 0;
    uint32_t to_sum = change.to_milli * change.devices;
    for (uint32_t d = 0; d < mix->stride; d++) {
        uint32_t from = change.from_milli >= mix->demand_milli[d];
        uint32_t to = change.to_milli >= mix->demand_milli[d];
        uint32_t count = levels->count[d] + change.devices * (to - from);
        uint32_t sum = levels->sum_milli[d] + to * to_sum - from * from_sum;
        usable += weights[d] * (count >= mix->demand_count[d] ? sum : 0);
    }
    return (levels->total_milli + to_sum - from_sum) * mix->weight_total - usable;
}

int64_t pack_mix_measure(const struct pack_mix *mix, uint32_t model, uint32_t cpu_milli,
                         const struct pack_levels *levels, struct pack_change change)
{
    uint64_t total =
        levels->total_milli + change.to_milli * change.devices - change.from_milli * change.devices;
    uint64_t fed = cpu_milli * mix->feed >> PACK_WEIGHT_SHIFT;
    uint64_t stranded = fed < total ? total - fed : 0;
    uint64_t waste = levels->waste + change.devices * mix->waste[change.to_milli] -
                     change.devices * mix->waste[change.from_milli];
    uint64_t extra = (stranded * PACK_STRAND_WEIGHT << PACK_WEIGHT_SHIFT) +
                     (waste * PACK_WASTE_WEIGHT << (PACK_WEIGHT_SHIFT - 4 - PACK_WASTE_SHIFT));
    return (int64_t)(pack_mix_fragment(mix, model, cpu_milli, levels, change) + extra);
}
