#include "core/ncu_mix.h"
#include "core/assert.h"

enum { MEMO_CELLS = 4096 }; /* a power of two: 96 KiB of the stack */

struct memo_cell {
    uint32_t level; /* + 1; 0 = empty */
    uint32_t rest;
    uint64_t cost;
    uint64_t pieces;
};

struct search {
    const struct ncu_type *types; /* as given */
    uint32_t order[NCU_TYPES_MAX], count;
    uint32_t taken[NCU_TYPES_MAX], best[NCU_TYPES_MAX]; /* by level */
    uint64_t best_cost, best_pieces;
    uint64_t price_unit;          /* all prices are multiples of it */
    uint64_t most[NCU_TYPES_MAX]; /* by level: more of it are never better */
    uint32_t largest_milli;
    uint32_t visits;
    bool cut_short;
    struct memo_cell memo[MEMO_CELLS];
};

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static const struct ncu_type *type_at(const struct search *s, uint32_t level)
{
    return &s->types[s->order[level]];
}

/* Price per NCU; then the larger one, which gets there with fewer; then as given. Prices are at most
 * 10^10 and sizes 10^6, so the products fit. */
static bool goes_first(const struct search *s, uint32_t a, uint32_t b)
{
    const struct ncu_type *x = &s->types[a], *y = &s->types[b];
    uint64_t mine = (uint64_t)x->usd_micros_per_hour * y->ncu_milli;
    uint64_t other = (uint64_t)y->usd_micros_per_hour * x->ncu_milli;
    if (mine != other) return mine < other;
    if (x->ncu_milli != y->ncu_milli) return x->ncu_milli > y->ncu_milli;
    return a < b;
}

static void sort_types(struct search *s, uint32_t type_count)
{
    for (uint32_t i = 0; i < type_count; i++) {
        if (s->types[i].stock == 0) continue;
        ASSERT(s->types[i].ncu_milli > 0);
        ASSERT(s->types[i].usd_micros_per_hour >= 0);
        uint32_t at = s->count++;
        for (; at > 0 && goes_first(s, i, s->order[at - 1]); at--) s->order[at] = s->order[at - 1];
        s->order[at] = i;
        s->price_unit = gcd((uint64_t)s->types[i].usd_micros_per_hour, s->price_unit);
    }
    if (s->price_unit == 0) s->price_unit = 1;
}

/* So many of a type that they make a whole number of a type before it, which is no dearer and can be
 * had without end: the latter are taken instead. */
static void limit_counts(struct search *s)
{
    for (uint32_t level = 0; level < s->count; level++) {
        const struct ncu_type *t = type_at(s, level);
        if (t->ncu_milli > s->largest_milli) s->largest_milli = t->ncu_milli;
        s->most[level] = t->stock;
        for (uint32_t before = 0; before < level; before++) {
            const struct ncu_type *other = type_at(s, before);
            if (other->stock != UINT32_MAX) continue;
            uint64_t whole = other->ncu_milli / gcd(other->ncu_milli, t->ncu_milli);
            if (whole - 1 < s->most[level]) s->most[level] = whole - 1;
        }
    }
}

static uint64_t times_up(uint64_t rest, uint32_t ncu_milli)
{
    return (rest + ncu_milli - 1) / ncu_milli;
}

/* What `rest` costs at least, with parts of devices allowed; UINT64_MAX: not to be had. */
static uint64_t bound(const struct search *s, uint32_t level, uint64_t rest)
{
    uint64_t cost = 0;
    for (; rest > 0 && level < s->count; level++) {
        const struct ncu_type *t = type_at(s, level);
        uint64_t price = (uint64_t)t->usd_micros_per_hour;
        uint64_t all = s->most[level] * t->ncu_milli;
        if (rest <= all) {
            cost += (rest * price + t->ncu_milli - 1) / t->ncu_milli;
            return (cost + s->price_unit - 1) / s->price_unit * s->price_unit;
        }
        cost += s->most[level] * price;
        rest -= all;
    }
    return rest > 0 ? UINT64_MAX : cost;
}

/* true: this rest was met at this level at no higher cost, and searched then. */
static bool was_met(struct search *s, uint32_t level, uint64_t rest, uint64_t cost, uint64_t pieces)
{
    uint64_t hash = (rest * 64 + level) * UINT64_C(0x9e3779b97f4a7c15);
    struct memo_cell *cell = &s->memo[hash >> 52 & (MEMO_CELLS - 1)];
    if (cell->level == level + 1 && cell->rest == rest &&
        (cell->cost < cost || (cell->cost == cost && cell->pieces <= pieces)))
        return true;
    *cell = (struct memo_cell){
        .level = level + 1, .rest = (uint32_t)rest, .cost = cost, .pieces = pieces};
    return false;
}

static void keep_best(struct search *s, uint32_t level, uint64_t cost, uint64_t pieces)
{
    if (cost > s->best_cost || (cost == s->best_cost && pieces >= s->best_pieces)) return;
    s->best_cost = cost;
    s->best_pieces = pieces;
    for (uint32_t i = 0; i < NCU_TYPES_MAX; i++) s->best[i] = i < level ? s->taken[i] : 0;
}

/* No mix with this much spent and this much missing beats the best one known: cost, then pieces. */
static bool is_beaten(const struct search *s, uint32_t level, uint64_t left, uint64_t cost,
                      uint64_t pieces)
{
    uint64_t least = bound(s, level, left);
    if (cost > s->best_cost || least > s->best_cost - cost) return true;
    return least == s->best_cost - cost &&
           pieces + times_up(left, s->largest_milli) >= s->best_pieces;
}

/* More of a type that is cheaper per NCU means a lower bound: the first count that is cut ends it.
 */
static void descend(struct search *s, uint32_t level, uint64_t rest, uint64_t cost, uint64_t pieces)
{
    if (rest == 0) {
        keep_best(s, level, cost, pieces);
        return;
    }
    if (level == s->count) return;
    if (++s->visits > NCU_VISITS_MAX) {
        s->cut_short = true;
        return;
    }
    if (was_met(s, level, rest, cost, pieces)) return;
    const struct ncu_type *t = type_at(s, level);
    uint64_t most = times_up(rest, t->ncu_milli);
    if (most > s->most[level]) most = s->most[level];
    for (uint64_t n = most + 1; n-- > 0 && !s->cut_short;) {
        uint64_t covered = n * t->ncu_milli, left = covered < rest ? rest - covered : 0;
        uint64_t spent = cost + n * (uint64_t)t->usd_micros_per_hour;
        uint64_t weight = n * (1 + (uint64_t)t->extra_weight);
        bool beaten = is_beaten(s, level + 1, left, spent, pieces + weight);
        /* One more than needed may be dear while one less is not: only from there on it grows. */
        if (beaten && left > 0) return;
        if (beaten) continue;
        s->taken[level] = (uint32_t)n;
        descend(s, level + 1, left, spent, pieces + weight);
    }
    s->taken[level] = 0;
}

static void fill(const struct search *s, uint64_t least, struct ncu_mix *ret_mix)
{
    ret_mix->usd_micros_per_hour = (int64_t)s->best_cost;
    ret_mix->is_proven = !s->cut_short || least >= s->best_cost;
    ret_mix->bound_usd_micros_per_hour = (int64_t)(ret_mix->is_proven ? s->best_cost : least);
    for (uint32_t level = 0; level < s->count; level++) {
        ret_mix->counts[s->order[level]] = s->best[level];
        ret_mix->ncu_milli += (uint64_t)s->best[level] * type_at(s, level)->ncu_milli;
    }
}

bool ncu_mix_cheapest(const struct ncu_type *types, uint32_t type_count, uint64_t wanted_milli,
                      struct ncu_mix *ret_mix)
{
    struct search s = {.types = types, .best_cost = UINT64_MAX, .best_pieces = UINT64_MAX};
    ASSERT(type_count <= NCU_TYPES_MAX);
    ASSERT(wanted_milli <= NCU_WANTED_MAX);
    *ret_mix = (struct ncu_mix){0};
    sort_types(&s, type_count);
    limit_counts(&s);
    uint64_t least = bound(&s, 0, wanted_milli);
    if (least == UINT64_MAX) {
        for (uint32_t i = 0; i < type_count; i++)
            ret_mix->ncu_milli += (uint64_t)types[i].stock * types[i].ncu_milli;
        return false;
    }
    descend(&s, 0, wanted_milli, 0, 0);
    ret_mix->visits = s.visits;
    fill(&s, least, ret_mix);
    return true;
}

bool ncu_mix_single(const struct ncu_type *types, uint32_t type_count, uint64_t wanted_milli,
                    struct ncu_mix *ret_mix)
{
    bool found = false;
    *ret_mix = (struct ncu_mix){0};
    for (uint32_t i = 0; i < type_count; i++) {
        uint64_t count = times_up(wanted_milli, types[i].ncu_milli);
        int64_t cost = (int64_t)count * types[i].usd_micros_per_hour;
        if (count > types[i].stock || (found && cost >= ret_mix->usd_micros_per_hour)) continue;
        found = true;
        *ret_mix = (struct ncu_mix){.ncu_milli = count * types[i].ncu_milli,
                                    .usd_micros_per_hour = cost,
                                    .bound_usd_micros_per_hour = cost,
                                    .is_proven = true};
        ret_mix->counts[i] = (uint32_t)count;
    }
    return found;
}
