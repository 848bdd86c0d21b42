#include "core/pack_price.h"
#include "core/assert.h"
#include "core/list.h"
#include <string.h>

void pack_price_init(struct pack_price *price)
{
    memset(price, 0, sizeof *price);
    price->none = 1;
}

uint32_t pack_price_set(struct pack_price *price, uint64_t models)
{
    for (uint32_t q = 0; q < price->set_count; q++)
        if (price->sets[q] == models) return q;
    if (price->set_count == PACK_SETS_MAX) return SLOT_NONE;
    price->sets[price->set_count] = models;
    return price->set_count++;
}

static uint64_t sum_over(const uint64_t *milli, uint64_t models)
{
    uint64_t sum = 0;
    for (; models != 0; models &= models - 1) sum += milli[__builtin_ctzll(models)];
    return sum;
}

/* a * b / c without overflow: milli of a pool may take more than 32 bits. c > 0. */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
    while (a >> 32 != 0 || b >> 31 != 0) { /* relative error below 2^-30 */
        if (a > b)
            a >>= 1;
        else
            b >>= 1;
        c >>= 1;
    }
    return c > 0 ? a * b / c : 0;
}

void pack_price_forecast(const struct pack_price *price, uint64_t ret_future[PACK_SETS_MAX])
{
    uint64_t capacity = sum_over(price->capacity_milli, UINT64_MAX), all = 0;
    for (uint32_t q = 0; q < price->set_count; q++)
        all += price->present_milli[q] + price->lived_milli[q];
    for (uint32_t q = 0; q < price->set_count; q++) {
        uint64_t load = price->present_milli[q] + price->lived_milli[q];
        uint64_t planned = all > 0 ? scale(load, capacity, all) : 0;
        uint64_t present = price->present_milli[q];
        ret_future[q] = planned > present ? planned - present : 0;
    }
}

static void add_union(struct pack_price *price, uint64_t models)
{
    for (uint32_t i = 0; i < price->union_count; i++)
        if (price->unions[i] == models) return;
    if (price->union_count < PACK_UNIONS_MAX) price->unions[price->union_count++] = models;
}

/* Closure under union: each new set joined with all unions so far. */
static void make_unions(struct pack_price *price, uint64_t pool)
{
    if (price->unions_pool == pool && price->unions_of == price->set_count) return;
    price->union_count = 0;
    for (uint32_t q = 0; q < price->set_count; q++) {
        uint64_t models = price->sets[q] & pool;
        if (models == 0 || models == pool) continue;
        uint32_t before = price->union_count;
        add_union(price, models);
        for (uint32_t i = 0; i < before; i++)
            if ((price->unions[i] | models) != pool) add_union(price, price->unions[i] | models);
    }
    price->unions_pool = pool;
    price->unions_of = price->set_count;
}

static uint32_t price_of(const struct pack_price *price, uint64_t pool, uint64_t models,
                         const uint64_t *future)
{
    uint64_t claim = 0;
    for (uint32_t q = 0; q < price->set_count; q++) {
        uint64_t set = price->sets[q] & pool;
        if (set != 0 && (set & ~models) == 0) claim += future[q];
    }
    if (claim == 0) return 0;
    uint64_t free = sum_over(price->free_milli, models);
    uint64_t ramp = sum_over(price->capacity_milli, models) * PACK_RAMP_PERCENT / 100;
    if (free <= claim) return PACK_PRICE_MAX;
    if (free - claim >= ramp) return 0;
    return (uint32_t)(PACK_PRICE_MAX - (PACK_PRICE_MAX * (free - claim) + ramp - 1) / ramp);
}

void pack_price_refresh(struct pack_price *price)
{
    uint64_t future[PACK_SETS_MAX], pool = 0;
    for (uint32_t model = 0; model < PACK_MODELS_MAX; model++)
        if (price->capacity_milli[model] > 0) pool |= UINT64_C(1) << model;
    pack_price_forecast(price, future);
    make_unions(price, pool);
    memset(price->price, 0, sizeof price->price);
    price->none = 1;
    for (uint32_t i = 0; i < price->union_count; i++) {
        uint64_t models = price->unions[i];
        uint32_t asked = price_of(price, pool, models, future);
        for (uint32_t q = 0; asked > 0 && q < price->set_count; q++) {
            if ((price->sets[q] & pool & ~models) == 0) continue;
            for (uint64_t left = models; left != 0; left &= left - 1) {
                uint8_t *entry = &price->price[q][__builtin_ctzll(left)];
                if (*entry < asked) *entry = (uint8_t)asked;
                price->none = 0;
            }
        }
    }
}
