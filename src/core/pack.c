#include "core/pack.h"
#include "core/assert.h"
#include "core/list.h"
#include <string.h>

#define SCORE_NONE  INT32_MIN
#define QUANTUM     ((int64_t)PACK_QUANTUM_MILLI << PACK_WEIGHT_SHIFT)
#define LIVED_WHOLE UINT32_C(1000000)

/* The best of a block for a form; node SLOT_NONE: to be looked for. */
struct best {
    int32_t score;
    uint32_t node, rank;
};

/* What is remembered for a form. */
struct memo {
    uint64_t read, asked; /* entries of the ring already read; when it was last asked for */
    uint32_t version;     /* of the measure */
};

/* The most any node of a model has of each. */
struct largest {
    uint32_t devices, cpu_milli, memory_mib;
};

struct pack {
    struct pack_limits limits;
    struct pack_mix mix;
    struct pack_price price;
    struct largest largest[PACK_MODELS_MAX];
    struct pack_forms forms;
    struct memo *memos; /* of each form */
    int32_t *scores;    /* [forms][nodes], prices not in */
    struct best *bests; /* [forms][blocks] */
    struct pack_node *nodes;
    uint32_t *block_model; /* SLOT_NONE = not in use */
    uint32_t *ring;        /* nodes that changed */
    uint64_t changes, questions, arrivals;
    uint32_t places, blocks, blocks_used, ring_mask;
};

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
    p->block_model = carve(c, p->blocks, sizeof *p->block_model);
    p->ring = carve(c, ring_of(limits), sizeof *p->ring);
    p->forms.forms = carve(c, forms, sizeof *p->forms.forms);
    p->forms.cells = carve(c, pack_cells(forms), sizeof *p->forms.cells);
    p->memos = carve(c, forms, sizeof *p->memos);
    p->bests = carve(c, (size_t)forms * p->blocks, sizeof *p->bests);
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
    pack_price_init(&pack->price);
    memset(pack->nodes, 0, pack->places * sizeof *pack->nodes);
    for (uint32_t i = 0; i < pack->blocks; i++) pack->block_model[i] = SLOT_NONE;
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

/* An empty place in a block of the model, or the first of a new block. SLOT_NONE: full. */
static uint32_t place_for(struct pack *pack, uint32_t model)
{
    for (uint32_t block = 0; block < pack->blocks_used; block++) {
        if (pack->block_model[block] != model) continue;
        for (uint32_t i = block * PACK_BLOCK; i < (block + 1) * PACK_BLOCK; i++)
            if (pack->nodes[i].used == 0) return i;
    }
    if (pack->blocks_used == pack->blocks) return SLOT_NONE;
    pack->block_model[pack->blocks_used] = model;
    return pack->blocks_used++ * PACK_BLOCK;
}

static void grow_largest(struct pack *pack, const struct pack_node *node)
{
    struct largest *largest = &pack->largest[node->model];
    if (largest->devices < node->devices) largest->devices = node->devices;
    if (largest->cpu_milli < node->cpu_all_milli) largest->cpu_milli = node->cpu_all_milli;
    if (largest->memory_mib < node->memory_all_mib) largest->memory_mib = node->memory_all_mib;
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
    pack->largest[n->model] = (struct largest){0};
    for (uint32_t i = 0; i < pack->places; i++)
        if (pack->nodes[i].used != 0 && pack->nodes[i].model == n->model)
            grow_largest(pack, &pack->nodes[i]);
    changed(pack, node);
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

void pack_left(struct pack *pack, uint32_t set, const struct pack_form *form, uint32_t lived_ppm)
{
    if (set == SLOT_NONE) return;
    uint64_t milli = pack_form_milli(form);
    ASSERT(set < pack->price.set_count && pack->price.present_milli[set] >= milli);
    pack->price.present_milli[set] -= milli;
    uint32_t lived = lived_ppm < LIVED_WHOLE ? lived_ppm : LIVED_WHOLE;
    pack->price.lived_milli[set] += milli * lived / LIVED_WHOLE;
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

/* The score without the price; SCORE_NONE: does not fit. */
static int32_t plain_score(const struct pack *pack, const struct pack_node *node,
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

/* What the form pays on each model; NULL: nothing anywhere. */
static const uint8_t *prices_of(const struct pack *pack, const struct pack_form *form)
{
    if (form->count == 0) return NULL;
    uint64_t models = confined_to(pack, form);
    for (uint32_t q = 0; q < pack->price.set_count; q++)
        if (pack->price.sets[q] == models) return pack->price.price[q];
    return NULL;
}

static uint32_t price_on(const struct pack *pack, const struct pack_form *form, uint32_t model)
{
    const uint8_t *prices = prices_of(pack, form);
    return prices != NULL ? prices[model] : 0;
}

bool pack_score(const struct pack *pack, uint32_t node, const struct pack_form *form,
                struct pack_place *ret_place)
{
    ASSERT(node < pack->places);
    const struct pack_node *n = &pack->nodes[node];
    int32_t score = plain_score(pack, n, form, &ret_place->devices);
    if (score == SCORE_NONE) return false;
    ret_place->node = node;
    ret_place->score = score - (int32_t)price_on(pack, form, n->model);
    return true;
}

/* ---- what is remembered ---- */

static uint32_t memo_of(struct pack *pack, const struct pack_form *form)
{
    uint32_t slot = pack_forms_find(&pack->forms, form);
    if (slot != SLOT_NONE) return slot;
    if (pack->forms.count < pack->forms.max) {
        slot = pack_forms_add(&pack->forms, form);
    } else {
        slot = 0;
        for (uint32_t i = 1; i < pack->forms.max; i++)
            if (pack->memos[i].asked < pack->memos[slot].asked) slot = i;
        pack_forms_replace(&pack->forms, slot, form);
    }
    pack->memos[slot] = (struct memo){.version = UINT32_MAX};
    return slot;
}

/* Score first, then the smaller rank. */
static bool beats(int32_t score, uint32_t rank, const struct best *best)
{
    if (score != best->score) return score > best->score;
    return score != SCORE_NONE && rank < best->rank;
}

static void remember(struct pack *pack, uint32_t slot, uint32_t at)
{
    uint32_t devices;
    const struct pack_node *node = &pack->nodes[at];
    struct best *best = &pack->bests[(size_t)slot * pack->blocks + at / PACK_BLOCK];
    int32_t score = plain_score(pack, node, &pack->forms.forms[slot], &devices);
    pack->scores[(size_t)slot * pack->places + at] = score;
    if (best->node == SLOT_NONE) return;
    bool better = beats(score, node->rank, best), same = score == best->score;
    if (better)
        *best = (struct best){score, at, node->rank};
    else if (best->node == at && !(same && node->rank == best->rank))
        best->node = SLOT_NONE;
}

static void look_for(const struct pack *pack, uint32_t slot, uint32_t block, struct best *best)
{
    const int32_t *scores = pack->scores + (size_t)slot * pack->places;
    *best = (struct best){SCORE_NONE, block * PACK_BLOCK, 0};
    for (uint32_t i = block * PACK_BLOCK; i < (block + 1) * PACK_BLOCK; i++) {
        if (scores[i] < best->score || scores[i] == SCORE_NONE) continue;
        uint32_t rank = pack->nodes[i].rank;
        if (beats(scores[i], rank, best)) *best = (struct best){scores[i], i, rank};
    }
}

/* Brings what is remembered up to date: all after a new measure, else what the ring says. */
static void catch_up(struct pack *pack, uint32_t slot)
{
    struct memo *memo = &pack->memos[slot];
    struct best *bests = pack->bests + (size_t)slot * pack->blocks;
    if (memo->version != pack->mix.version || pack->changes - memo->read > pack->ring_mask) {
        for (uint32_t block = 0; block < pack->blocks; block++) bests[block].node = SLOT_NONE;
        for (uint32_t i = 0; i < pack->blocks_used * PACK_BLOCK; i++) remember(pack, slot, i);
        for (uint32_t i = pack->blocks_used * PACK_BLOCK; i < pack->places; i++)
            pack->scores[(size_t)slot * pack->places + i] = SCORE_NONE;
    } else {
        for (uint64_t seq = memo->read; seq < pack->changes; seq++) {
            uint32_t node = pack->ring[seq & pack->ring_mask];
            if (pack->nodes[node].changed == seq) remember(pack, slot, node);
        }
    }
    memo->version = pack->mix.version;
    memo->read = pack->changes;
    memo->asked = ++pack->questions;
}

bool pack_best(struct pack *pack, const struct pack_form *form, struct pack_place *ret_place)
{
    ASSERT(pack_form_check(form));
    uint32_t slot = memo_of(pack, form);
    catch_up(pack, slot);
    const uint8_t *prices = prices_of(pack, form);
    struct best top = {SCORE_NONE, SLOT_NONE, 0};
    for (uint32_t block = 0; block < pack->blocks_used; block++) {
        struct best *best = &pack->bests[(size_t)slot * pack->blocks + block];
        if (best->node == SLOT_NONE) look_for(pack, slot, block, best);
        if (best->score == SCORE_NONE) continue;
        int32_t price = prices != NULL ? prices[pack->block_model[block]] : 0;
        if (beats(best->score - price, best->rank, &top))
            top = (struct best){best->score - price, best->node, best->rank};
    }
    if (top.node == SLOT_NONE) return false;
    bool fits = pack_score(pack, top.node, form, ret_place);
    ASSERT(fits && ret_place->score == top.score);
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
