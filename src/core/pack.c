#include "core/assert.h"
#include "core/list.h"
#include "core/pack_state.h"
#include <string.h>

#define QUANTUM     ((int64_t)PACK_QUANTUM_MILLI << PACK_WEIGHT_SHIFT)
#define LIVED_WHOLE UINT32_C(1000000)

/* One partly filled block for each model is the most that is lost. */
static uint32_t blocks_of(const struct pack_limits *limits)
{
    return limits->nodes_max / PACK_BLOCK + limits->models_max + 1;
}

static uint32_t ring_of(const struct pack_limits *limits)
{
    uint32_t entries = 64;
    while (entries < 2 * limits->nodes_max) entries *= 2;
    return entries;
}

struct carve {
    uint8_t *at;
    size_t bytes;
};

static void *carve(struct carve *c, size_t count, size_t bytes)
{
    void *part = c->at == NULL ? NULL : c->at + c->bytes;
    c->bytes += (count * bytes + 7) / 8 * 8;
    return part;
}

/* Lays the block out; with at == NULL only counts. */
static struct pack *lay_out(struct carve *c, const struct pack_limits *limits, struct pack *scratch)
{
    struct pack *pack = carve(c, 1, sizeof *pack);
    struct pack *p = pack != NULL ? pack : scratch;
    if (pack != NULL) memset(pack, 0, sizeof *pack);
    uint32_t forms = limits->forms_max;
    p->blocks = blocks_of(limits);
    p->places = p->blocks * PACK_BLOCK;
    p->nodes = carve(c, p->places, sizeof *p->nodes);
    p->ranks = carve(c, p->places, sizeof *p->ranks);
    p->block_model = carve(c, p->blocks, sizeof *p->block_model);
    p->block_next = carve(c, p->blocks, sizeof *p->block_next);
    p->ring = carve(c, ring_of(limits), sizeof *p->ring);
    p->forms.forms = carve(c, forms, sizeof *p->forms.forms);
    p->forms.cells = carve(c, pack_cells(forms), sizeof *p->forms.cells);
    p->memos = carve(c, forms, sizeof *p->memos);
    p->bests = carve(c, (size_t)forms * p->blocks, sizeof *p->bests);
    p->tops = carve(c, (size_t)forms * limits->models_max, sizeof *p->tops);
    p->scores = carve(c, (size_t)forms * p->places, sizeof *p->scores);
    return pack;
}

size_t pack_bytes(const struct pack_limits *limits)
{
    struct carve c = {0};
    struct pack scratch;
    lay_out(&c, limits, &scratch);
    return c.bytes + pack_mix_bytes(limits->forms_max, limits->models_max);
}

struct pack *pack_init(void *memory, const struct pack_limits *limits)
{
    ASSERT(limits->forms_max > 0);
    ASSERT(limits->models_max > 0 && limits->models_max <= PACK_MODELS_MAX);
    struct carve c = {.at = memory};
    struct pack *pack = lay_out(&c, limits, NULL);
    pack->limits = *limits;
    pack->ring_mask = ring_of(limits) - 1;
    pack->forms.max = limits->forms_max;
    pack_forms_clear(&pack->forms);
    pack_mix_init(&pack->mix, c.at + c.bytes, limits->forms_max, limits->models_max);
    while (pack->mix.refresh_every < limits->nodes_max &&
           pack->mix.refresh_every < PACK_REFRESH_MOST)
        pack->mix.refresh_every *= 2;
    pack_price_init(&pack->price);
    memset(pack->nodes, 0, pack->places * sizeof *pack->nodes);
    memset(pack->ranks, 0, pack->places * sizeof *pack->ranks);
    for (uint32_t i = 0; i < pack->blocks; i++) pack->block_model[i] = SLOT_NONE;
    for (uint32_t i = 0; i < PACK_MODELS_MAX; i++) pack->model_block[i] = SLOT_NONE;
    return pack;
}

/* ---- nodes ---- */

static void measure(struct pack *pack, struct pack_node *node)
{
    pack_mix_levels(&pack->mix, node->free_milli, node->devices, &node->levels);
    node->measure = pack_mix_measure(&pack->mix, node->model, node->cpu_milli, &node->levels,
                                     (struct pack_change){0});
}

static void changed(struct pack *pack, uint32_t at)
{
    struct pack_node *node = &pack->nodes[at];
    if (node->used != 0) measure(pack, node);
    node->changed = pack->changes;
    pack->ring[pack->changes++ & pack->ring_mask] = at;
}

static uint64_t free_of(const struct pack_node *node)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < node->devices; i++) sum += node->free_milli[i];
    return sum;
}

static uint32_t empty_block(struct pack *pack)
{
    for (uint32_t block = 0; block < pack->blocks_used; block++)
        if (pack->block_model[block] == SLOT_NONE) return block;
    return pack->blocks_used < pack->blocks ? pack->blocks_used++ : SLOT_NONE;
}

/* An empty place in a block of the model, or the first of an empty block. SLOT_NONE: full. */
static uint32_t place_for(struct pack *pack, uint32_t model)
{
    for (uint32_t block = pack->model_block[model]; block != SLOT_NONE;
         block = pack->block_next[block])
        for (uint32_t i = block * PACK_BLOCK; i < (block + 1) * PACK_BLOCK; i++)
            if (pack->nodes[i].used == 0) return i;
    uint32_t block = empty_block(pack);
    if (block == SLOT_NONE) return SLOT_NONE;
    pack->block_model[block] = model;
    pack->block_next[block] = pack->model_block[model];
    pack->model_block[model] = block;
    return block * PACK_BLOCK;
}

/* A block without nodes may become another model's. */
static void leave_block(struct pack *pack, uint32_t block)
{
    for (uint32_t i = block * PACK_BLOCK; i < (block + 1) * PACK_BLOCK; i++)
        if (pack->nodes[i].used != 0) return;
    uint32_t *at = &pack->model_block[pack->block_model[block]];
    while (*at != block) at = &pack->block_next[*at];
    *at = pack->block_next[block];
    pack->block_model[block] = SLOT_NONE;
}

static void grow_largest(struct pack *pack, const struct pack_node *node)
{
    struct largest *largest = &pack->largest[node->model];
    if (largest->devices < node->devices) largest->devices = node->devices;
    if (largest->cpu_milli < node->cpu_all_milli) largest->cpu_milli = node->cpu_all_milli;
    if (largest->memory_mib < node->memory_all_mib) largest->memory_mib = node->memory_all_mib;
}

/* After a node left. It is no more than before: whoever has as much ends the search. */
static void find_largest(struct pack *pack, uint32_t model)
{
    struct largest before = pack->largest[model], *now = &pack->largest[model];
    *now = (struct largest){0};
    for (uint32_t block = pack->model_block[model]; block != SLOT_NONE;
         block = pack->block_next[block]) {
        for (uint32_t i = block * PACK_BLOCK; i < (block + 1) * PACK_BLOCK; i++) {
            if (pack->nodes[i].used == 0) continue;
            grow_largest(pack, &pack->nodes[i]);
            if (now->devices == before.devices && now->cpu_milli == before.cpu_milli &&
                now->memory_mib == before.memory_mib)
                return;
        }
    }
}

uint32_t pack_node_add(struct pack *pack, uint32_t model, uint32_t devices, uint32_t cpu_milli,
                       uint32_t memory_mib, uint32_t rank)
{
    ASSERT(model < pack->limits.models_max);
    if (devices > PACK_DEVICES_MAX) return SLOT_NONE;
    if (cpu_milli > PACK_CPU_MILLI_MAX || memory_mib > PACK_MEMORY_MIB_MAX) return SLOT_NONE;
    uint32_t at = place_for(pack, model);
    if (at == SLOT_NONE) return at;
    pack->nodes[at] = (struct pack_node){.cpu_milli = cpu_milli,
                                         .memory_mib = memory_mib,
                                         .cpu_all_milli = cpu_milli,
                                         .memory_all_mib = memory_mib,
                                         .model = model,
                                         .devices = devices,
                                         .rank = rank,
                                         .used = 1};
    pack->ranks[at] = rank;
    pack->layout++;
    for (uint32_t i = 0; i < devices; i++) pack->nodes[at].free_milli[i] = PACK_MILLI;
    pack->price.free_milli[model] += (uint64_t)devices * PACK_MILLI;
    pack->price.capacity_milli[model] += (uint64_t)devices * PACK_MILLI;
    grow_largest(pack, &pack->nodes[at]);
    changed(pack, at);
    return at;
}

static struct pack_node *used_node(struct pack *pack, uint32_t node)
{
    ASSERT(node < pack->places && pack->nodes[node].used != 0);
    return &pack->nodes[node];
}

void pack_node_remove(struct pack *pack, uint32_t node)
{
    struct pack_node *n = used_node(pack, node);
    pack->price.free_milli[n->model] -= free_of(n);
    pack->price.capacity_milli[n->model] -= (uint64_t)n->devices * PACK_MILLI;
    n->used = 0;
    pack->layout++;
    find_largest(pack, n->model);
    changed(pack, node);
    leave_block(pack, node / PACK_BLOCK);
}

void pack_node_set(struct pack *pack, uint32_t node, uint32_t cpu_milli, uint32_t memory_mib,
                   const uint16_t *free_milli)
{
    struct pack_node *n = used_node(pack, node);
    ASSERT(cpu_milli <= PACK_CPU_MILLI_MAX && memory_mib <= PACK_MEMORY_MIB_MAX);
    pack->price.free_milli[n->model] -= free_of(n);
    n->cpu_milli = cpu_milli;
    n->memory_mib = memory_mib;
    for (uint32_t i = 0; i < n->devices; i++) {
        ASSERT(free_milli[i] <= PACK_MILLI);
        n->free_milli[i] = free_milli[i];
    }
    pack->price.free_milli[n->model] += free_of(n);
    changed(pack, node);
}

const struct pack_node *pack_node(const struct pack *pack, uint32_t node)
{
    ASSERT(node < pack->places && pack->nodes[node].used != 0);
    return &pack->nodes[node];
}

static void add_worker(struct pack *pack, const struct pack_form *form,
                       const struct pack_place *place, bool takes)
{
    struct pack_node *node = used_node(pack, place->node);
    uint32_t milli = takes ? form->milli : UINT32_C(0) - form->milli;
    for (uint32_t i = 0; i < node->devices; i++) {
        if ((place->devices >> i & 1) == 0) continue;
        node->free_milli[i] = (uint16_t)(node->free_milli[i] - milli);
        ASSERT(node->free_milli[i] <= PACK_MILLI);
        pack->price.free_milli[node->model] -= (uint64_t)(int64_t)(int32_t)milli;
    }
    node->cpu_milli -= takes ? form->cpu_milli : UINT32_C(0) - form->cpu_milli;
    node->memory_mib -= takes ? form->memory_mib : UINT32_C(0) - form->memory_mib;
    ASSERT(node->cpu_milli <= PACK_CPU_MILLI_MAX && node->memory_mib <= PACK_MEMORY_MIB_MAX);
    changed(pack, place->node);
}

void pack_take(struct pack *pack, const struct pack_form *form, const struct pack_place *place)
{
    add_worker(pack, form, place, true);
}

void pack_give(struct pack *pack, const struct pack_form *form, const struct pack_place *place)
{
    add_worker(pack, form, place, false);
}

/* ---- arrivals ---- */

/* The models with a node that could hold it when empty; those it allows, when none could. */
static uint64_t confined_to(const struct pack *pack, const struct pack_form *form)
{
    uint64_t models = 0;
    for (uint32_t model = 0; model < pack->limits.models_max; model++) {
        const struct largest *largest = &pack->largest[model];
        if (largest->devices < form->count || largest->cpu_milli < form->cpu_milli) continue;
        if (largest->memory_mib < form->memory_mib) continue;
        models |= form->models & UINT64_C(1) << model;
    }
    return models != 0 ? models : form->models;
}

uint32_t pack_arrived(struct pack *pack, const struct pack_form *form)
{
    ASSERT(pack_form_check(form));
    uint32_t set = SLOT_NONE;
    if (form->count > 0) set = pack_price_set(&pack->price, confined_to(pack, form));
    if (set != SLOT_NONE) pack->price.present_milli[set] += pack_form_milli(form);
    if (pack_mix_arrived(&pack->mix, form)) {
        for (uint32_t i = 0; i < pack->places; i++)
            if (pack->nodes[i].used != 0) measure(pack, &pack->nodes[i]);
    }
    if (++pack->arrivals % PACK_PRICE_EVERY == 0) pack_price_refresh(&pack->price);
    return set;
}

void pack_left_milli(struct pack *pack, uint32_t set, uint64_t milli, uint32_t lived_ppm)
{
    if (set == SLOT_NONE) return;
    ASSERT(set < pack->price.set_count && pack->price.present_milli[set] >= milli);
    pack->price.present_milli[set] -= milli;
    uint32_t lived = lived_ppm < LIVED_WHOLE ? lived_ppm : LIVED_WHOLE;
    pack->price.lived_milli[set] += milli * lived / LIVED_WHOLE;
}

void pack_left(struct pack *pack, uint32_t set, const struct pack_form *form, uint32_t lived_ppm)
{
    pack_left_milli(pack, set, pack_form_milli(form), lived_ppm);
}

void pack_present(struct pack *pack, uint32_t set, uint64_t milli)
{
    ASSERT(set < pack->price.set_count);
    pack->price.present_milli[set] += milli;
}

uint32_t pack_sets(const struct pack *pack)
{
    return pack->price.set_count;
}

void pack_half_window(struct pack *pack)
{
    for (uint32_t q = 0; q < pack->price.set_count; q++) pack->price.lived_milli[q] /= 2;
}

/* ---- scores ---- */

static int32_t score_of(int64_t before, int64_t after)
{
    int64_t gain = before - after, floor = gain / QUANTUM;
    return (int32_t)(floor - (gain % QUANTUM < 0));
}

/* The lowest `count` devices with exactly `milli` free, as bits; 0 = not so many. */
static uint32_t first_devices(const struct pack_node *node, uint32_t milli, uint32_t count)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < node->devices && count > 0; i++) {
        if (node->free_milli[i] != milli) continue;
        bits |= UINT32_C(1) << i;
        count--;
    }
    return count == 0 ? bits : 0;
}

static int32_t change_score(const struct pack *pack, const struct pack_node *node,
                            const struct pack_form *form, struct pack_change change)
{
    int64_t after = pack_mix_measure(&pack->mix, node->model, node->cpu_milli - form->cpu_milli,
                                     &node->levels, change);
    return score_of(node->measure, after);
}

static int32_t share_score(const struct pack *pack, const struct pack_node *node,
                           const struct pack_form *form, uint32_t *ret_devices)
{
    int32_t best = SCORE_NONE;
    for (uint32_t i = 0; i < node->devices; i++) {
        uint32_t milli = node->free_milli[i];
        if (milli < form->milli) continue;
        uint32_t twin = 0;
        while (node->free_milli[twin] != milli) twin++;
        if (twin < i) continue;
        struct pack_change change = {milli, milli - form->milli, 1};
        int32_t score = change_score(pack, node, form, change);
        if (score <= best) continue;
        best = score;
        *ret_devices = UINT32_C(1) << i;
    }
    return best;
}

int32_t pack_plain_score(const struct pack *pack, const struct pack_node *node,
                         const struct pack_form *form, uint32_t *ret_devices)
{
    *ret_devices = 0;
    if (node->used == 0 || (form->models >> node->model & 1) == 0) return SCORE_NONE;
    if (node->cpu_milli < form->cpu_milli || node->memory_mib < form->memory_mib) return SCORE_NONE;
    if (form->count == 0) return change_score(pack, node, form, (struct pack_change){0});
    if (node->levels.total_milli < pack_form_milli(form)) return SCORE_NONE;
    if (form->count == 1) return share_score(pack, node, form, ret_devices);
    *ret_devices = first_devices(node, PACK_MILLI, form->count);
    if (*ret_devices == 0) return SCORE_NONE;
    return change_score(pack, node, form, (struct pack_change){PACK_MILLI, 0, form->count});
}

const uint8_t *pack_prices_of(const struct pack *pack, const struct pack_form *form)
{
    if (form->count == 0 || pack->price.none) return NULL;
    uint64_t models = confined_to(pack, form);
    for (uint32_t q = 0; q < pack->price.set_count; q++)
        if (pack->price.sets[q] == models) return pack->price.price[q];
    return NULL;
}

static uint32_t price_on(const struct pack *pack, const struct pack_form *form, uint32_t model)
{
    const uint8_t *prices = pack_prices_of(pack, form);
    return prices != NULL ? prices[model] : 0;
}

bool pack_score(const struct pack *pack, uint32_t node, const struct pack_form *form,
                struct pack_place *ret_place)
{
    ASSERT(node < pack->places);
    const struct pack_node *n = &pack->nodes[node];
    int32_t score = pack_plain_score(pack, n, form, &ret_place->devices);
    if (score == SCORE_NONE) return false;
    ret_place->node = node;
    ret_place->score = score - (int32_t)price_on(pack, form, n->model);
    return true;
}

/* ---- reading ---- */

uint64_t pack_free_milli(const struct pack *pack)
{
    uint64_t sum = 0;
    for (uint32_t model = 0; model < PACK_MODELS_MAX; model++) sum += pack->price.free_milli[model];
    return sum;
}

uint64_t pack_capacity_milli(const struct pack *pack)
{
    uint64_t sum = 0;
    for (uint32_t model = 0; model < PACK_MODELS_MAX; model++)
        sum += pack->price.capacity_milli[model];
    return sum;
}

uint32_t pack_devices_max(const struct pack *pack, uint64_t models, uint64_t free_milli)
{
    uint32_t most = 0;
    for (; models != 0; models &= models - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(models);
        uint32_t devices = pack->largest[model].devices;
        if (devices > most && pack->price.free_milli[model] >= free_milli) most = devices;
    }
    return most;
}
