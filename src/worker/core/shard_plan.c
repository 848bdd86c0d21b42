/* The plan of shard.h: copies flow from members with too many to members with too few. */
#include "core/assert.h"
#include "worker/core/shard.h"
#include <string.h>

enum { DEAD = GROUP_MEMBERS_MAX, NODES = GROUP_MEMBERS_MAX + 1 }; /* DEAD holds the lost copies */

struct plan {
    uint32_t member_count, unit_count, copies; /* copies of a unit: 2, or 1 for a member alone */
    uint8_t domain[NODES];
    bool leaves[NODES]; /* keeps nothing; so does DEAD */
    uint32_t target[NODES], hold[NODES];
    uint8_t copy[SHARD_UNITS_MAX][2], held[SHARD_UNITS_MAX][2];
    uint16_t pairs[NODES][NODES]; /* units that two nodes share; both ways round */
};

/* Deals `total` in proportion to weight[], by largest remainder; ties go to the lowest index. */
static void apportion(uint32_t total, const uint64_t *weight, uint32_t count, uint32_t *ret_share)
{
    uint64_t sum = 0, rest[GROUP_MEMBERS_MAX];
    uint32_t left = total;
    for (uint32_t i = 0; i < count; i++) sum += weight[i];
    ASSERT(sum > 0);
    for (uint32_t i = 0; i < count; i++) {
        ret_share[i] = (uint32_t)(total * weight[i] / sum);
        rest[i] = total * weight[i] % sum;
        left -= ret_share[i];
    }
    for (; left > 0; left--) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < count; i++)
            if (rest[i] > rest[best]) best = i;
        ret_share[best]++;
        rest[best] = 0;
    }
}

/* Memory cut down to weights whose products with unit counts fit 64 bits; all leaving: all alike. */
static uint32_t weigh(const struct shard_member *member, uint32_t count, uint64_t *ret_weight)
{
    uint64_t largest = 0;
    uint32_t shift = 0, willing = 0;
    for (uint32_t i = 0; i < count; i++)
        if (member[i].memory > largest) largest = member[i].memory;
    while (largest >> shift > UINT32_MAX) shift++;
    for (uint32_t i = 0; i < count; i++) {
        ret_weight[i] = largest == 0 ? 1 : member[i].memory >> shift;
        if (member[i].memory > 0 && ret_weight[i] == 0) ret_weight[i] = 1;
        willing += ret_weight[i] > 0;
    }
    return willing;
}

static bool differ(const struct shard_member *member, const uint64_t *weight, uint32_t count,
                   bool by_zone)
{
    const struct shard_member *first = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (weight[i] == 0) continue;
        if (first == NULL) first = &member[i];
        if (by_zone ? member[i].zone != first->zone : member[i].host != first->host) return true;
    }
    return false;
}

/* Numbers the domains: zones if two are there, else hosts, else members. */
static void find_domains(const struct shard_member *member, const uint64_t *weight, uint32_t count,
                         uint8_t *ret_domain)
{
    bool zones = differ(member, weight, count, true), hosts = differ(member, weight, count, false);
    for (uint32_t i = 0; i < count; i++) {
        ret_domain[i] = (uint8_t)i;
        for (uint32_t j = 0; j < i && (zones || hosts); j++) {
            bool same = zones ? member[j].zone == member[i].zone : member[j].host == member[i].host;
            if (!same) continue;
            ret_domain[i] = ret_domain[j];
            break;
        }
    }
}

/* Copies per domain: in proportion, but no domain more than one of each unit. */
static void deal_to_domains(const uint64_t *weight, const uint8_t *domain, uint32_t count,
                            uint32_t unit_count, uint32_t *ret_share)
{
    uint64_t sum[GROUP_MEMBERS_MAX] = {0}, all = 0;
    uint32_t largest = 0, total = 2 * unit_count;
    for (uint32_t i = 0; i < count; i++) sum[domain[i]] += weight[i], all += weight[i];
    for (uint32_t d = 1; d < count; d++)
        if (sum[d] > sum[largest]) largest = d;
    bool capped = sum[largest] > all - sum[largest];
    if (capped) sum[largest] = 0, total = unit_count;
    apportion(total, sum, count, ret_share);
    if (capped) ret_share[largest] = unit_count;
}

static uint32_t deal(const struct shard_member *member, uint32_t count, uint32_t unit_count,
                     uint8_t *ret_domain, uint32_t *ret_target)
{
    uint64_t weight[GROUP_MEMBERS_MAX], inside[GROUP_MEMBERS_MAX];
    uint32_t share[GROUP_MEMBERS_MAX], part[GROUP_MEMBERS_MAX];
    ASSERT(count > 0);
    ASSERT(count <= GROUP_MEMBERS_MAX);
    uint32_t willing = weigh(member, count, weight);
    find_domains(member, weight, count, ret_domain);
    if (willing == 1) {
        apportion(unit_count, weight, count, ret_target);
        return 1;
    }
    deal_to_domains(weight, ret_domain, count, unit_count, share);
    for (uint32_t d = 0; d < count; d++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            inside[i] = ret_domain[i] == d ? weight[i] : 0;
            sum += inside[i];
        }
        if (sum == 0) part[0] = 0;
        if (sum > 0) apportion(share[d], inside, count, part);
        for (uint32_t i = 0; i < count; i++)
            if (ret_domain[i] == d) ret_target[i] = sum > 0 ? part[i] : 0;
    }
    return 2;
}

void shard_targets(const struct shard_member *member, uint32_t member_count, uint32_t unit_count,
                   uint32_t *ret_target)
{
    uint8_t domain[GROUP_MEMBERS_MAX];
    (void)deal(member, member_count, unit_count, domain, ret_target);
}

/* May `to` hold a unit whose other copy is with `other`? */
static bool is_apart(const struct plan *p, uint8_t other, uint32_t to)
{
    return other >= DEAD || p->domain[other] != p->domain[to];
}

static void put(struct plan *p, uint32_t unit, uint32_t slot, uint32_t to)
{
    uint32_t from = p->copy[unit][slot], other = p->copy[unit][1 - slot];
    p->hold[from]--;
    p->hold[to]++;
    p->pairs[from][other]--;
    p->pairs[to][other]++;
    p->pairs[other][from]--;
    p->pairs[other][to]++;
    p->copy[unit][slot] = (uint8_t)to;
}

static bool was_there(const struct plan *p, uint32_t unit, uint32_t member)
{
    return p->held[unit][0] == member || p->held[unit][1] == member;
}

/* How much two members share, against what they would if all pairs were equally likely, in eighths.
 * Copies of one member are to be mirrored all over the others: then what it leaves behind can go to
 * anybody, straight. */
static int32_t crowding(const struct plan *p, uint32_t a, uint32_t b)
{
    if (a == DEAD || b == DEAD) return 0;
    uint32_t fair = p->target[a] * p->target[b] / (2 * p->unit_count) + 1;
    uint32_t eighths = 8 * p->pairs[a][b] / fair;
    return eighths > 32 ? 32 : (int32_t)eighths;
}

/* Copies still to be dealt to the members of each domain, and to the fullest member of each. */
struct dealing {
    uint32_t left[GROUP_MEMBERS_MAX], first, first_domain;
};

static void look_at_rest(const struct plan *p, struct dealing *d)
{
    memset(d->left, 0, sizeof d->left);
    d->first_domain = 0;
    d->first = DEAD;
    for (uint32_t i = 0; i < p->member_count; i++)
        d->left[p->domain[i]] += p->target[i] - p->hold[i];
    for (uint32_t i = 1; i < p->member_count; i++)
        if (d->left[i] > d->left[d->first_domain]) d->first_domain = i;
    for (uint32_t i = 0; i < p->member_count; i++) {
        if (p->domain[i] != d->first_domain) continue;
        if (d->first == DEAD || p->target[i] - p->hold[i] > p->target[d->first] - p->hold[d->first])
            d->first = i;
    }
}

/* The partner: of another domain, of one that must be in every unit from now on if there is one. */
static uint32_t choose_second(const struct plan *p, const struct dealing *d, uint32_t units_left)
{
    uint32_t best = DEAD;
    bool best_must = false;
    for (uint32_t i = 0; i < p->member_count; i++) {
        if (p->domain[i] == d->first_domain || p->hold[i] == p->target[i]) continue;
        bool must = d->left[p->domain[i]] >= units_left;
        bool better = best == DEAD || (must && !best_must);
        if (!better && must == best_must)
            better = crowding(p, d->first, i) < crowding(p, d->first, best);
        if (better) best = i, best_must = must;
    }
    return best;
}

/* The first plan: stripes of units to pairs, from the fullest domain and one of the others. */
static void lay_out(struct plan *p)
{
    uint32_t stripe = p->unit_count / (p->member_count * p->member_count) + 1;
    for (uint32_t unit = 0; unit < p->unit_count; unit++) {
        struct dealing d;
        uint32_t left = p->unit_count - unit;
        look_at_rest(p, &d);
        bool goes_on = unit % stripe != 0 && left > 4 * stripe;
        uint32_t a = goes_on ? p->copy[unit - 1][0] : d.first, b = DEAD;
        if (goes_on) {
            b = p->copy[unit - 1][1];
            goes_on = p->hold[a] < p->target[a] && (b == DEAD || p->hold[b] < p->target[b]) &&
                      (p->copies == 1 || p->domain[a] == d.first_domain ||
                       d.left[d.first_domain] + 4 * stripe < left);
        }
        if (!goes_on) {
            a = d.first;
            b = p->copies == 1 ? DEAD : choose_second(p, &d, left);
        }
        ASSERT(a != DEAD);
        put(p, unit, 0, a);
        if (b != DEAD) put(p, unit, 1, b);
    }
}

/* Copies that may not stay: a second one for a member alone, two in one domain. The one that goes
 * is that of the member with more above its target. */
static void drop_misplaced(struct plan *p)
{
    for (uint32_t u = 0; u < p->unit_count; u++) {
        uint8_t a = p->copy[u][0], b = p->copy[u][1];
        if (p->copies == 1 && b != DEAD && (a == DEAD || p->target[a] == 0)) {
            put(p, u, 0, b); /* the one that stays goes first */
            put(p, u, 1, a);
            a = p->copy[u][0], b = p->copy[u][1];
        }
        if (a == DEAD || b == DEAD) continue;
        if (p->copies == 2 && is_apart(p, a, b)) continue;
        int64_t over_a = (int64_t)p->hold[a] - p->target[a];
        int64_t over_b = (int64_t)p->hold[b] - p->target[b];
        put(p, u, p->copies == 2 && over_a > over_b ? 0 : 1, DEAD);
    }
}

static bool pair_is(const struct plan *p, uint32_t unit, uint32_t a, uint32_t b)
{
    if (unit >= p->unit_count) return false;
    return (p->copy[unit][0] == a && p->copy[unit][1] == b) ||
           (p->copy[unit][0] == b && p->copy[unit][1] == a);
}

/* Does moving this copy join runs of one pair, and not cut one? Between -2 and 2. */
static int32_t joins(const struct plan *p, uint32_t unit, uint32_t from, uint32_t to,
                     uint32_t other)
{
    uint32_t before = unit == 0 ? p->unit_count : unit - 1;
    return pair_is(p, before, to, other) + pair_is(p, unit + 1, to, other) -
           pair_is(p, before, from, other) - pair_is(p, unit + 1, from, other);
}

/* Moves the copy that is best to move: above all one that travels in this plan anyway, or returns
 * to who had it; then one that spreads pairs; then one that joins runs. False: none may move. */
static bool move_best(struct plan *p, uint32_t from, uint32_t to)
{
    int32_t spreads[NODES], best_merit = INT32_MIN;
    uint32_t best = p->unit_count, best_slot = 0;
    for (uint32_t other = 0; other <= DEAD; other++) {
        spreads[other] = INT32_MIN;
        if ((other < p->member_count || other == DEAD) && is_apart(p, (uint8_t)other, to))
            spreads[other] = 8 * (crowding(p, from, other) - crowding(p, to, other));
    }
    for (uint32_t u = 0; u < p->unit_count; u++)
        for (uint32_t slot = 0; slot < p->copies; slot++) {
            uint32_t other = p->copy[u][1 - slot];
            if (p->copy[u][slot] != from || spreads[other] == INT32_MIN) continue;
            int32_t here = spreads[other] + (was_there(p, u, to) ? 2000 : 0);
            if (from != DEAD && !was_there(p, u, from)) here += 1000;
            if (here + 2 <= best_merit) continue;
            here += joins(p, u, from, to, other);
            if (here > best_merit) best = u, best_slot = slot, best_merit = here;
        }
    if (best == p->unit_count) return false;
    put(p, best, best_slot, to);
    return true;
}

/* From a node with too many straight to a member with too few: a good part of it at once. */
static void move_some(struct plan *p, uint32_t from, uint32_t to)
{
    uint32_t over = p->hold[from] - p->target[from], under = p->target[to] - p->hold[to];
    uint32_t some = (over < under ? over : under) / 4 + 1;
    while (some-- > 0 && move_best(p, from, to)) {}
}

/* Members that could take some copy of node i, as bits: of any copy, or only of those that came to
 * it in this plan, which may go on for nothing. */
struct reach {
    uint64_t any[NODES], free[NODES];
};

static void find_reach(const struct plan *p, struct reach *ret_reach)
{
    uint64_t apart[NODES] = {0};
    for (uint32_t other = 0; other <= DEAD; other++)
        for (uint32_t to = 0; to < p->member_count; to++)
            if ((other < p->member_count || other == DEAD) && is_apart(p, (uint8_t)other, to))
                apart[other] |= UINT64_C(1) << to;
    memset(ret_reach, 0, sizeof *ret_reach);
    for (uint32_t u = 0; u < p->unit_count; u++)
        for (uint32_t slot = 0; slot < p->copies; slot++) {
            uint32_t from = p->copy[u][slot];
            ret_reach->any[from] |= apart[p->copy[u][1 - slot]];
            if (!was_there(p, u, from)) ret_reach->free[from] |= apart[p->copy[u][1 - slot]];
        }
}

/* Shares this near to the target are left alone rather than moving a copy through a third. */
static uint32_t slack(const struct plan *p, uint32_t node)
{
    return p->leaves[node] ? 0 : p->target[node] / SHARD_SLACK_PART + 1;
}

/* STRAIGHT: only one link of a chain may cost anything. The others: whatever it costs, but only for
 * those who give or take when they are off by more than the slack. */
enum pass { STRAIGHT, GIVE, TAKE };

/* Moves one copy nearer to the targets along a shortest chain from a node with too many to a member
 * with too few. False: none is left. */
static bool relieve(struct plan *p, enum pass pass)
{
    struct reach reach;
    uint8_t from[NODES], queue[NODES];
    uint32_t head = 0, tail = 0;
    find_reach(p, &reach);
    memset(from, SHARD_NONE, sizeof from);
    for (uint32_t i = 0; i <= DEAD; i++) {
        if (p->hold[i] <= p->target[i] + (pass == GIVE ? slack(p, i) : 0)) continue;
        from[i] = (uint8_t)i;
        queue[tail++] = (uint8_t)i;
    }
    for (; head < tail; head++) {
        uint32_t at = queue[head];
        uint64_t may = pass == STRAIGHT && from[at] != at ? reach.free[at] : reach.any[at];
        for (uint32_t to = 0; to < p->member_count; to++) {
            if (from[to] != SHARD_NONE || (may >> to & 1) == 0) continue;
            from[to] = (uint8_t)at;
            queue[tail++] = (uint8_t)to;
            if (p->hold[to] + (pass == TAKE ? slack(p, to) : 0) >= p->target[to]) continue;
            if (from[at] == at) move_some(p, at, to);
            for (uint32_t end = to; from[at] != at && from[end] != end; end = from[end])
                (void)move_best(p, from[end], end);
            return true;
        }
    }
    return false;
}

/* Copies of the dead and of leavers that no member with room may take: somebody takes more than its
 * share. */
static void fill_the_rest(struct plan *p)
{
    for (uint32_t u = 0; u < p->unit_count; u++)
        for (uint32_t slot = 0; slot < p->copies; slot++) {
            if (!p->leaves[p->copy[u][slot]]) continue;
            uint32_t best = DEAD;
            for (uint32_t i = 0; i < p->member_count; i++) {
                if (p->leaves[i] || !is_apart(p, p->copy[u][1 - slot], i)) continue;
                if (best == DEAD ||
                    (int64_t)p->hold[i] - p->target[i] < (int64_t)p->hold[best] - p->target[best])
                    best = i;
            }
            ASSERT(best != DEAD);
            put(p, u, slot, best);
        }
}

/* Swaps roles until nobody could even out what it owns and mirrors with a partner. */
static void even_roles(struct shard_map *map, int64_t *wants)
{
    for (bool again = true; again;) {
        again = false;
        for (uint32_t u = 0; u < map->unit_count; u++) {
            uint8_t a = map->owner[u], b = map->mirror[u];
            if (wants[b] - wants[a] <= 2) continue; /* the sum of squares falls: this ends */
            map->owner[u] = b;
            map->mirror[u] = a;
            wants[a] += 2;
            wants[b] -= 2;
            again = true;
        }
    }
}

/* Who of the two owns: the first half of each pair's units and the second, in order. */
static void give_roles(const struct plan *p, struct shard_map *map)
{
    uint16_t seen[GROUP_MEMBERS_MAX][GROUP_MEMBERS_MAX] = {0};
    int64_t wants[GROUP_MEMBERS_MAX]; /* copies less twice the units owned */
    for (uint32_t i = 0; i < p->member_count; i++) wants[i] = p->hold[i];
    for (uint32_t u = 0; u < p->unit_count; u++) {
        uint32_t a = p->copy[u][0], b = p->copy[u][1];
        bool first = seen[a < b ? a : b][a < b ? b : a]++ < p->pairs[a][b] / 2;
        map->owner[u] = (uint8_t)(first == (a < b) ? a : b);
        map->mirror[u] = (uint8_t)(first == (a < b) ? b : a);
        wants[map->owner[u]] -= 2;
    }
    even_roles(map, wants);
}

static void find_leavers(struct plan *p, const struct shard_member *member)
{
    bool stayers = false;
    for (uint32_t i = 0; i < p->member_count; i++) stayers = stayers || member[i].memory > 0;
    for (uint32_t i = 0; i < p->member_count; i++) p->leaves[i] = stayers && member[i].memory == 0;
    p->leaves[DEAD] = true;
}

static void begin(struct plan *p, const struct shard_map *held)
{
    memset(p->hold, 0, sizeof p->hold);
    memset(p->pairs, 0, sizeof p->pairs);
    p->target[DEAD] = 0;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        p->copy[u][0] = held->owner[u] == SHARD_NONE ? DEAD : held->owner[u];
        p->copy[u][1] = held->mirror[u] == SHARD_NONE ? DEAD : held->mirror[u];
        memcpy(p->held[u], p->copy[u], sizeof p->held[u]);
        uint32_t a = p->copy[u][0], b = p->copy[u][1];
        p->hold[a]++;
        p->hold[b]++;
        p->pairs[a][b]++;
        p->pairs[b][a]++;
    }
}

void shard_plan(const struct shard_member *member, uint32_t member_count,
                const struct shard_map *held, struct shard_map *ret_map)
{
    struct plan p = {.member_count = member_count, .unit_count = held->unit_count};
    ASSERT(held->unit_count > 0);
    ASSERT(held->unit_count <= SHARD_UNITS_MAX);
    p.copies = deal(member, member_count, p.unit_count, p.domain, p.target);
    find_leavers(&p, member);
    begin(&p, held);
    bool fresh = p.hold[DEAD] == 2 * p.unit_count;
    if (fresh)
        lay_out(&p);
    else
        drop_misplaced(&p);
    p.target[DEAD] = (2 - p.copies) * p.unit_count;
    while (relieve(&p, STRAIGHT)) {}
    fill_the_rest(&p);
    while (relieve(&p, GIVE)) {}
    while (relieve(&p, TAKE)) {}
    *ret_map = (struct shard_map){.unit_count = p.unit_count};
    if (p.copies == 2) {
        give_roles(&p, ret_map);
    } else {
        memset(ret_map->mirror, SHARD_NONE, p.unit_count);
        for (uint32_t u = 0; u < p.unit_count; u++) ret_map->owner[u] = p.copy[u][0];
    }
    ASSERT(shard_map_is_sound(ret_map, member_count));
}
