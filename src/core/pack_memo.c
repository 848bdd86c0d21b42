/* What packing remembers per form, and the best node by it. */
#include "core/assert.h"
#include "core/list.h"
#include "core/pack_state.h"

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

/* The node has this score now. */
static void renew(struct best *best, int32_t score, uint32_t at, uint32_t rank)
{
    if (best->node == SLOT_NONE) return;
    if (beats(score, rank, best))
        *best = (struct best){score, at, rank};
    else if (best->node == at && (score != best->score || rank != best->rank))
        best->node = SLOT_NONE;
}

static struct best *tops_of(const struct pack *pack, uint32_t slot)
{
    return pack->tops + (size_t)slot * pack->limits.models_max;
}

static void forget_tops(const struct pack *pack, uint32_t slot)
{
    struct best *tops = tops_of(pack, slot);
    for (uint32_t model = 0; model < pack->limits.models_max; model++) tops[model].node = SLOT_NONE;
}

static void remember(struct pack *pack, uint32_t slot, uint32_t at)
{
    uint32_t devices;
    const struct pack_node *node = &pack->nodes[at];
    struct best *best = &pack->bests[(size_t)slot * pack->blocks + at / PACK_BLOCK];
    int32_t score = pack_plain_score(pack, node, &pack->forms.forms[slot], &devices);
    pack->scores[(size_t)slot * pack->places + at] = score;
    renew(best, score, at, node->rank);
    if (node->used != 0) renew(&tops_of(pack, slot)[node->model], score, at, node->rank);
}

static void look_for(const struct pack *pack, uint32_t slot, uint32_t block, struct best *best)
{
    const int32_t *scores = pack->scores + (size_t)slot * pack->places;
    *best = (struct best){SCORE_NONE, block * PACK_BLOCK, 0};
    for (uint32_t i = block * PACK_BLOCK; i < (block + 1) * PACK_BLOCK; i++) {
        if (scores[i] < best->score || scores[i] == SCORE_NONE) continue;
        uint32_t rank = pack->ranks[i];
        if (beats(scores[i], rank, best)) *best = (struct best){scores[i], i, rank};
    }
}

/* Brings what is remembered up to date: all after a new measure, else what the ring says. */
static void catch_up(struct pack *pack, uint32_t slot)
{
    struct memo *memo = &pack->memos[slot];
    struct best *bests = pack->bests + (size_t)slot * pack->blocks;
    bool stale = memo->version != pack->mix.version || pack->changes - memo->read > pack->ring_mask;
    if (stale || memo->layout != pack->layout) forget_tops(pack, slot);
    if (stale) {
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
    memo->layout = pack->layout;
    memo->asked = ++pack->questions;
}

/* The best node of the block that is better than `top` and that the caller allows. */
static void look_further(const struct pack *pack, uint32_t slot, uint32_t block, int32_t price,
                         const struct pack_question *question, struct best *top)
{
    const int32_t *scores = pack->scores + (size_t)slot * pack->places;
    for (uint32_t i = block * PACK_BLOCK; i < (block + 1) * PACK_BLOCK; i++) {
        if (scores[i] == SCORE_NONE) continue;
        uint32_t rank = pack->ranks[i];
        if (!beats(scores[i] - price, rank, top)) continue;
        if (question->allows(question->context, rank))
            *top = (struct best){scores[i] - price, i, rank};
    }
}

static struct best *best_in(const struct pack *pack, uint32_t slot, uint32_t block)
{
    struct best *best = &pack->bests[(size_t)slot * pack->blocks + block];
    if (best->node == SLOT_NONE) look_for(pack, slot, block, best);
    return best;
}

static const struct best *best_on(const struct pack *pack, uint32_t slot, uint32_t model)
{
    struct best *top = &tops_of(pack, slot)[model];
    if (top->node != SLOT_NONE) return top;
    *top = (struct best){SCORE_NONE, 0, 0};
    for (uint32_t block = pack->model_block[model]; block != SLOT_NONE;
         block = pack->block_next[block]) {
        const struct best *best = best_in(pack, slot, block);
        if (beats(best->score, best->rank, top)) *top = *best;
    }
    return top;
}

static int32_t price_on(const uint8_t *prices, uint32_t model)
{
    return prices != NULL ? prices[model] : 0;
}

/* Whatever the caller allows. */
static struct best best_of(const struct pack *pack, uint32_t slot, uint64_t models,
                           const uint8_t *prices)
{
    struct best top = {SCORE_NONE, SLOT_NONE, 0};
    for (; models != 0; models &= models - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(models);
        struct best best = *best_on(pack, slot, model);
        if (best.score == SCORE_NONE) continue;
        best.score -= price_on(prices, model);
        if (beats(best.score, best.rank, &top)) top = best;
    }
    return top;
}

static struct best best_allowed(const struct pack *pack, uint32_t slot, uint64_t models,
                                const uint8_t *prices, const struct pack_question *question)
{
    struct best top = {SCORE_NONE, SLOT_NONE, 0};
    for (; models != 0; models &= models - 1) {
        uint32_t model = (uint32_t)__builtin_ctzll(models);
        int32_t price = price_on(prices, model);
        for (uint32_t block = pack->model_block[model]; block != SLOT_NONE;
             block = pack->block_next[block]) {
            const struct best *best = best_in(pack, slot, block);
            if (best->score == SCORE_NONE || !beats(best->score - price, best->rank, &top))
                continue;
            if (question->allows(question->context, best->rank))
                top = (struct best){best->score - price, best->node, best->rank};
            else
                look_further(pack, slot, block, price, question, &top);
        }
    }
    return top;
}

bool pack_ask(struct pack *pack, const struct pack_form *form, const struct pack_question *question,
              struct pack_place *ret_place)
{
    ASSERT(pack_form_check(form));
    uint32_t slot = memo_of(pack, form);
    catch_up(pack, slot);
    const uint8_t *prices = pack_prices_of(pack, form);
    uint64_t models = question->models & form->models;
    if (pack->limits.models_max < PACK_MODELS_MAX)
        models &= (UINT64_C(1) << pack->limits.models_max) - 1;
    struct best top = best_of(pack, slot, models, prices);
    if (top.node != SLOT_NONE && question->allows != NULL &&
        !question->allows(question->context, top.rank))
        top = best_allowed(pack, slot, models, prices, question);
    if (top.node == SLOT_NONE) return false;
    const struct pack_node *node = &pack->nodes[top.node];
    int32_t score = pack_plain_score(pack, node, form, &ret_place->devices);
    ASSERT(score - price_on(prices, node->model) == top.score);
    ret_place->node = top.node;
    ret_place->score = top.score;
    return true;
}

bool pack_best(struct pack *pack, const struct pack_form *form, struct pack_place *ret_place)
{
    return pack_ask(pack, form, &(struct pack_question){.models = UINT64_MAX}, ret_place);
}
