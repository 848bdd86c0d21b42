/* Victims for a gang, on as many nodes of a region as it takes.
 *
 * Exact      With GROUPS_MAX jobs or fewer, GROUP_LEASES_MAX leases each, and at most 64 devices needed, and
 *            no hosts to heed: the least cost, by dynamic programming over devices. Each job is a group: it
 *            gives single workers down to its minimum, or all it has.
 * Else       Cheapest per device first, then whoever is not needed is taken out, dearest first; or one
 *            victim alone, if that is cheaper. */
#include "core/assert.h"
#include "core/lease.h"
#include "core/preempt.h"
#include "core/victims.h"

enum { GROUPS_MAX = 64, GROUP_LEASES_MAX = 64, NEED_MAX = 64 };

/* ---- few jobs ---- */

struct group { /* what one job can give */
    struct victim whole;
    uint32_t lease_count, spare;
    uint32_t leases[GROUP_LEASES_MAX];
};

struct ways { /* [n]: the least cost of n devices or more */
    uint64_t cost[NEED_MAX + 1];
    uint64_t workers[NEED_MAX + 1]; /* bit = n-th lease of the group; 0: the whole job */
};

static bool fill_group(const struct search *s, uint32_t job, struct group *group)
{
    const pool *p = s->p;
    group->whole = victim_job(s, job);
    group->spare = victim_spare(p, job);
    group->lease_count = 0;
    if (group->spare == 0) return true;
    for (uint32_t l = p->jobs[job].leases.head; l != SLOT_NONE; l = p->leases[l].job_link.next) {
        if (!search_is_victim(s, l) || !search_is_place(s, p->leases[l].node)) continue;
        if (group->lease_count == GROUP_LEASES_MAX) return false;
        group->leases[group->lease_count++] = l;
    }
    return true;
}

/* Single workers, as many as can be spared: cost by exactly so many devices, then by at least so many. */
static void workers_of(const struct search *s, const struct group *group, struct ways *t)
{
    uint64_t cost[2 * NEED_MAX + 1], picked[2 * NEED_MAX + 1];
    uint32_t most = group->spare < 2 * NEED_MAX ? group->spare : 2 * NEED_MAX;
    for (uint32_t i = 0; i <= most; i++) cost[i] = i == 0 ? 0 : UINT64_MAX;
    picked[0] = 0;
    for (uint32_t at = 0; at < group->lease_count; at++) {
        uint32_t count = s->p->leases[group->leases[at]].device_count;
        for (uint32_t i = most; i >= count && i > 0; i--) {
            if (cost[i - count] == UINT64_MAX) continue;
            uint64_t sum = add_capped(cost[i - count], victim_worker_cost(s, group->leases[at]));
            if (sum >= cost[i]) continue;
            cost[i] = sum;
            picked[i] = picked[i - count] | UINT64_C(1) << at;
        }
    }
    uint64_t best = UINT64_MAX, best_picked = 0;
    for (uint32_t i = most; i > 0; i--) {
        if (cost[i] <= best && cost[i] != UINT64_MAX) {
            best = cost[i];
            best_picked = picked[i];
        }
        if (i > s->need) continue;
        t->cost[i] = best;
        t->workers[i] = best_picked;
    }
}

static void table_of(const struct search *s, const struct group *group, struct ways *t)
{
    for (uint32_t i = 0; i <= s->need; i++) t->cost[i] = UINT64_MAX;
    t->cost[0] = 0;
    workers_of(s, group, t);
    for (uint32_t i = 1; i <= s->need && i <= group->whole.device_count; i++)
        if (group->whole.cost < t->cost[i]) {
            t->cost[i] = group->whole.cost;
            t->workers[i] = 0;
        }
}

static void take(const struct search *s, const struct group *group, const struct ways *t,
                 uint32_t count, struct preemption *plan)
{
    if (t->workers[count] == 0) {
        plan_add(plan, &group->whole);
        return;
    }
    for (uint64_t rest = t->workers[count]; rest != 0; rest &= rest - 1) {
        struct victim v;
        (void)victim_worker(s, group->leases[__builtin_ctzll(rest)], 0, &v);
        plan_add(plan, &v);
    }
}

struct few {
    uint32_t count, jobs[GROUPS_MAX];
};

static bool find_exact(const struct search *s, const struct few *few, struct preemption *plan)
{
    uint64_t cost[NEED_MAX + 1];
    uint8_t from[GROUPS_MAX][NEED_MAX + 1];
    struct group group;
    struct ways t;
    for (uint32_t i = 0; i <= s->need; i++) cost[i] = i == 0 ? 0 : UINT64_MAX;
    for (uint32_t g = 0; g < few->count; g++) {
        if (!fill_group(s, few->jobs[g], &group)) return false;
        table_of(s, &group, &t);
        for (uint32_t i = s->need; i > 0; i--) {
            from[g][i] = 0;
            for (uint32_t k = 1; k <= i; k++) {
                if (cost[i - k] == UINT64_MAX || t.cost[k] == UINT64_MAX) continue;
                uint64_t sum = add_capped(cost[i - k], t.cost[k]);
                if (sum >= cost[i]) continue;
                cost[i] = sum;
                from[g][i] = (uint8_t)k;
            }
        }
    }
    plan_clear(plan, s, SLOT_NONE);
    if (cost[s->need] == UINT64_MAX) return false;
    uint32_t left = s->need;
    for (uint32_t g = few->count; g-- > 0 && left > 0;) {
        uint32_t count = from[g][left];
        if (count == 0) continue;
        (void)fill_group(s, few->jobs[g], &group);
        table_of(s, &group, &t);
        take(s, &group, &t, count, plan);
        left -= count;
    }
    ASSERT(left == 0);
    return true;
}

/* The jobs with victims at places; false: too many for an exact choice. */
static bool few_of(const struct search *s, struct few *few)
{
    const pool *p = s->p;
    struct victim_walk walk = search_walk(s);
    uint32_t node;
    few->count = 0;
    while (victims_next(&walk, &node)) {
        if (!search_is_place(s, node)) continue;
        for (uint32_t l = p->nodes[node].leases.head; l != SLOT_NONE;
             l = p->leases[l].node_link.next) {
            if (!search_is_victim(s, l)) continue;
            uint32_t at = few->count;
            while (at > 0 && few->jobs[at - 1] > p->leases[l].job) at--;
            if (at > 0 && few->jobs[at - 1] == p->leases[l].job) continue;
            if (few->count == GROUPS_MAX) return false;
            for (uint32_t i = few->count++; i > at; i--) few->jobs[i] = few->jobs[i - 1];
            few->jobs[at] = p->leases[l].job;
        }
    }
    return s->need <= NEED_MAX && !s->demand->special;
}

/* ---- many ---- */

struct unit {
    uint64_t price; /* per device */
    struct victim victim;
};

struct units { /* a heap with the dearest per device on top, so that it can make room */
    uint32_t count, most;
    bool cut;          /* there are dearer ones */
    struct unit alone; /* the cheapest that would do by itself; its device_count 0: none would */
    struct unit items[UNITS_MAX];
};

/* Dearer per device; of equals the higher class, then the later slot: a total order. */
static bool is_dearer(const pool *p, const struct unit *a, const struct unit *b)
{
    const struct victim *mine = &a->victim, *other = &b->victim;
    if (a->price != b->price) return a->price > b->price;
    uint32_t my_class = p->jobs[mine->job].job_class, other_class = p->jobs[other->job].job_class;
    if (my_class != other_class) return my_class < other_class;
    return mine->job != other->job ? mine->job > other->job : mine->lease > other->lease;
}

static void swap(struct unit *a, struct unit *b)
{
    struct unit kept = *a;
    *a = *b;
    *b = kept;
}

static void sink(const pool *p, struct unit *items, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t top = at, left = 2 * at + 1, right = 2 * at + 2;
        if (left < count && is_dearer(p, &items[left], &items[top])) top = left;
        if (right < count && is_dearer(p, &items[right], &items[top])) top = right;
        if (top == at) return;
        swap(&items[at], &items[top]);
        at = top;
    }
}

static void note_alone(const struct search *s, struct units *units, const struct unit *unit)
{
    const struct victim *best = &units->alone.victim;
    if (unit->victim.device_count < s->need) return;
    if (best->device_count > 0 &&
        (unit->victim.cost > best->cost ||
         (unit->victim.cost == best->cost && is_dearer(s->p, unit, &units->alone))))
        return;
    units->alone = *unit;
}

static void add_unit(const struct search *s, struct units *units, struct victim victim)
{
    if (victim.device_count == 0) return;
    struct unit unit = {.price = victim.cost / victim.device_count, .victim = victim};
    note_alone(s, units, &unit);
    if (units->count == units->most) {
        units->cut = true;
        if (!is_dearer(s->p, &units->items[0], &unit)) return;
        units->items[0] = unit;
        sink(s->p, units->items, units->count, 0);
        return;
    }
    uint32_t at = units->count++;
    units->items[at] = unit;
    while (at > 0 && is_dearer(s->p, &units->items[at], &units->items[(at - 1) / 2])) {
        swap(&units->items[at], &units->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

/* The first of its leases at a place for the demand: a job is offered as a whole there, once. */
static bool is_first(const struct search *s, uint32_t lease)
{
    if (s->p->jobs[s->p->leases[lease].job].leases.count == 1) return true;
    for (uint32_t l = s->p->jobs[s->p->leases[lease].job].leases.head; l != SLOT_NONE;
         l = s->p->leases[l].job_link.next)
        if (lease_holds(&s->p->leases[l]) && search_is_place(s, s->p->leases[l].node))
            return l == lease;
    return false;
}

/* A lease at a place: its worker alone, and its job as a whole. */
static void add_lease(const struct search *s, struct units *units, uint32_t lease)
{
    struct victim v;
    if (victim_worker(s, lease, 0, &v)) add_unit(s, units, v);
    if (is_first(s, lease)) add_unit(s, units, victim_job(s, s->p->leases[lease].job));
}

static void collect(const struct search *s, struct units *units, uint32_t most)
{
    const pool *p = s->p;
    uint32_t node;
    units->count = 0;
    units->most = most;
    units->cut = false;
    units->alone.victim.device_count = 0;
    struct victim_walk walk = search_walk(s);
    while (victims_next(&walk, &node)) {
        if (!search_is_place(s, node)) continue;
        for (uint32_t l = p->nodes[node].leases.head; l != SLOT_NONE;
             l = p->leases[l].node_link.next)
            if (search_is_victim(s, l)) add_lease(s, units, l);
    }
    for (uint32_t end = units->count; end > 1; end--) { /* heap sort: cheapest first */
        swap(&units->items[0], &units->items[end - 1]);
        sink(p, units->items, end - 1, 0);
    }
}

/* A job that is ended as a whole loses its single workers with it. */
static bool make_room_for(const struct search *s, struct preemption *plan,
                          const struct victim *unit)
{
    uint32_t shrunk = 0;
    struct victim v;
    for (uint32_t i = 0; i < plan->victim_count; i++) {
        if (plan->victims[i].job != unit->job) continue;
        if (plan->victims[i].lease == SLOT_NONE) return false;
        shrunk += plan->victims[i].device_count;
    }
    if (unit->lease != SLOT_NONE) return victim_worker(s, unit->lease, shrunk, &v);
    for (uint32_t i = plan->victim_count; i-- > 0;)
        if (plan->victims[i].job == unit->job) plan_leave_out(plan, i);
    return plan->victim_count < VICTIMS_MAX;
}

static bool add_cheapest(const struct search *s, const struct units *units, struct preemption *plan)
{
    plan_clear(plan, s, SLOT_NONE);
    for (uint32_t i = 0; i < units->count && !plan_suffices(s, plan); i++) {
        const struct victim *unit = &units->items[i].victim;
        if (plan->victim_count == VICTIMS_MAX) return false;
        if (make_room_for(s, plan, unit)) plan_add(plan, unit);
    }
    return plan_suffices(s, plan);
}

/* Few devices need few units: the longer list is only made when the short one did not do. */
static bool find_many(const struct search *s, struct preemption *plan)
{
    struct units units;
    collect(s, &units, s->need <= UNITS_FEW / 2 ? UNITS_FEW : UNITS_MAX);
    bool found = add_cheapest(s, &units, plan);
    if (!found && units.cut && units.most < UNITS_MAX) {
        collect(s, &units, UNITS_MAX);
        found = add_cheapest(s, &units, plan);
    }
    if (found) plan_prune(s, plan);
    const struct victim *alone = &units.alone.victim;
    if (alone->device_count == 0 || s->demand->special) return found;
    if (found && plan->cost <= alone->cost) return true;
    plan_clear(plan, s, SLOT_NONE);
    plan_add(plan, alone);
    return true;
}

/* Devices that come free anyway are not taken from anybody. */
static uint32_t coming_of(const struct search *s)
{
    struct victim_walk walk = search_walk(s);
    uint32_t node, count = 0;
    while (victims_next(&walk, &node))
        if (search_is_place(s, node)) count += search_coming(s, node);
    return count;
}

bool search_gang(const struct search *s, struct preemption *plan)
{
    struct search rest = *s;
    struct few few;
    uint32_t coming = coming_of(s);
    rest.need = s->need > coming ? s->need - coming : 0;
    plan_clear(plan, &rest, SLOT_NONE);
    if (rest.need > 0) {
        bool found = few_of(&rest, &few) ? find_exact(&rest, &few, plan) : find_many(&rest, plan);
        if (!found) return false;
    }
    plan->need = s->need;
    return true;
}
