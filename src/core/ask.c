#include "core/ask.h"
#include "core/assert.h"
#include "core/plan.h"
#include "core/plan_match.h"
#include "core/quota.h"
#include "core/share.h"

#define AGE_BITS   38 /* as in plan_key() */
#define SHARE_BITS 9

void ask_init(pool *p)
{
    list_clear(&p->asks_free);
    list_clear(&p->asks_used);
    p->asks_end = p->ask_tenants_end = 0;
    p->ask_tenants_free = SLOT_NONE;
    table_clear(&p->ask_table);
    table_clear(&p->ask_tenant_table);
    heap_clear(&p->ask_shares);
}

/* ---- asks ---- */

static void open_ask(pool *p, uint32_t slot, const struct shape *s)
{
    p->asks[slot].of = *s;
    p->asks[slot].root = SLOT_NONE;
    p->asks[slot].user_count = 0;
    list_append(&p->asks_used, CHAIN(p->asks, link), slot);
    table_insert(&p->ask_table, s->ask_hash, slot);
}

void ask_enter(pool *p, uint32_t shape)
{
    struct shape *s = &p->shapes[shape];
    s->ask = SLOT_NONE;
    s->rests = 0;
    if (s->account == ACCOUNT_POOL || s->only_job_id != 0) return;
    uint32_t slot = table_find(&p->ask_table, s->ask_hash);
    if (slot == SLOT_NONE) {
        slot = p->asks_free.head;
        if (slot != SLOT_NONE)
            list_remove(&p->asks_free, CHAIN(p->asks, link), slot);
        else if (p->asks_end < p->asks_max)
            slot = p->asks_end++;
        else
            return;
        open_ask(p, slot, s);
    } else if (!ask_is_same(&p->asks[slot].of, s)) {
        return; /* two asks, one hash */
    }
    s->ask = slot;
    p->asks[slot].user_count++;
}

void ask_leave(pool *p, uint32_t shape)
{
    struct shape *s = &p->shapes[shape];
    ask_stir(p, shape);
    if (s->ask == SLOT_NONE) return;
    struct ask *ask = &p->asks[s->ask];
    ASSERT(ask->user_count > 0);
    if (--ask->user_count == 0) {
        ASSERT(ask->root == SLOT_NONE);
        table_remove(&p->ask_table, ask->of.ask_hash);
        list_remove(&p->asks_used, CHAIN(p->asks, link), s->ask);
        list_append(&p->asks_free, CHAIN(p->asks, link), s->ask);
    }
    s->ask = SLOT_NONE;
}

/* ---- turns ---- */

static uint32_t tenant_of(const pool *p, uint32_t account)
{
    while (p->accounts[account].parent != ACCOUNT_POOL) account = p->accounts[account].parent;
    return account;
}

/* The step its share is on, and how long it surely is: it moves one way only, to what is held, so what
 * is equal at both ends is equal between them. */
static void look_at_share(pool *p, uint32_t account)
{
    struct account *a = &p->accounts[account];
    int64_t span_us = SHARE_HALF_LIFE_US / 8;
    a->share_step = (uint32_t)share_coarse(quota_share(p, account));
    while (span_us > 1 &&
           a->share_step != (uint32_t)share_coarse(quota_share_at(p, account, p->now_us + span_us)))
        span_us /= 4;
    heap_set(&p->ask_shares, account, p->now_us + (span_us > 1 ? span_us : 1));
}

static int64_t turn_of_shape(const pool *p, const struct shape *s)
{
    const int64_t age_max = (INT64_C(1) << AGE_BITS) - 1;
    int64_t age = (int64_t)(p->jobs[s->queue.head].order & ((UINT64_C(1) << 56) - 1));
    return (int64_t)p->accounts[s->account].share_step << AGE_BITS |
           (age < age_max ? age : age_max);
}

static int64_t turn_of_tenant(const pool *p, const struct ask_tenant *t)
{
    return (int64_t)p->accounts[t->tenant].share_step << (AGE_BITS + SHARE_BITS) |
           p->shapes[t->root].turn.key;
}

static uint64_t tenant_id(uint32_t ask, uint32_t tenant)
{
    return (uint64_t)ask << 32 | tenant;
}

/* Back to where it belongs in its ask; without shapes it goes. */
static void settle_tenant(pool *p, uint32_t slot)
{
    struct ask_tenant *t = &p->ask_tenants[slot];
    struct ask *ask = &p->asks[t->ask];
    const struct tree_chain chain = TREE_CHAIN(p->ask_tenants, turn);
    if (t->root != SLOT_NONE) {
        int64_t key = turn_of_tenant(p, t);
        if (t->placed && key == t->turn.key) return;
        if (t->placed) tree_remove(&ask->root, chain, slot);
        t->turn.key = key;
        t->placed = 1;
        tree_insert(&ask->root, chain, slot);
        return;
    }
    if (t->placed) tree_remove(&ask->root, chain, slot);
    table_remove(&p->ask_tenant_table, tenant_id(t->ask, t->tenant));
    list_remove(&p->accounts[t->tenant].ask_tenants, CHAIN(p->ask_tenants, link), slot);
    t->turn.next = p->ask_tenants_free;
    p->ask_tenants_free = slot;
}

static uint32_t find_tenant(pool *p, uint32_t ask, uint32_t tenant)
{
    uint32_t slot = table_find(&p->ask_tenant_table, tenant_id(ask, tenant));
    if (slot != SLOT_NONE) return slot;
    slot = p->ask_tenants_free;
    if (slot != SLOT_NONE)
        p->ask_tenants_free = p->ask_tenants[slot].turn.next;
    else if (p->ask_tenants_end < p->ask_tenants_max)
        slot = p->ask_tenants_end++;
    else
        return SLOT_NONE;
    p->ask_tenants[slot] = (struct ask_tenant){.ask = ask, .tenant = tenant, .root = SLOT_NONE};
    list_append(&p->accounts[tenant].ask_tenants, CHAIN(p->ask_tenants, link), slot);
    table_insert(&p->ask_tenant_table, tenant_id(ask, tenant), slot);
    return slot;
}

static bool is_watched(const struct account *a)
{
    return a->resting.count > 0 || a->ask_tenants.count > 0;
}

static void watch(pool *p, uint32_t account)
{
    if (heap_key(&p->ask_shares, account) == HEAP_KEY_NEVER) look_at_share(p, account);
}

static void unwatch(pool *p, uint32_t account)
{
    if (!is_watched(&p->accounts[account])) heap_set(&p->ask_shares, account, HEAP_KEY_NEVER);
}

/* False: no room, it cannot rest. */
static bool lie_down(pool *p, uint32_t shape)
{
    struct shape *s = &p->shapes[shape];
    uint32_t tenant = tenant_of(p, s->account), slot = find_tenant(p, s->ask, tenant);
    if (slot == SLOT_NONE) return false;
    watch(p, s->account);
    watch(p, tenant);
    s->rests = 1;
    s->turn.key = turn_of_shape(p, s);
    list_append(&p->accounts[s->account].resting, CHAIN(p->shapes, rest_link), shape);
    tree_insert(&p->ask_tenants[slot].root, TREE_CHAIN(p->shapes, turn), shape);
    settle_tenant(p, slot);
    return true;
}

void ask_rest(pool *p, uint32_t shape)
{
    struct shape *s = &p->shapes[shape];
    if (s->rests || s->ask == SLOT_NONE || s->quota_waits || !p->accounts_defined) return;
    if (s->queue.head == SLOT_NONE || plan_match_owns(p, s)) return;
    if (p->jobs[s->queue.head].account != s->account) return;
    if (p->quota_borrowers > 0 && quota_is_owner(p, s->account)) return;
    if (!lie_down(p, shape)) return;
    list_remove(&p->shapes_used, CHAIN(p->shapes, shapes_link), shape);
    list_append(&p->shapes_resting, CHAIN(p->shapes, shapes_link), shape);
}

void ask_stir(pool *p, uint32_t shape)
{
    struct shape *s = &p->shapes[shape];
    if (!s->rests) return;
    uint32_t tenant = tenant_of(p, s->account);
    uint32_t slot = table_find(&p->ask_tenant_table, tenant_id(s->ask, tenant));
    ASSERT(slot != SLOT_NONE);
    s->rests = 0;
    tree_remove(&p->ask_tenants[slot].root, TREE_CHAIN(p->shapes, turn), shape);
    list_remove(&p->accounts[s->account].resting, CHAIN(p->shapes, rest_link), shape);
    settle_tenant(p, slot);
    unwatch(p, s->account);
    unwatch(p, tenant);
    list_remove(&p->shapes_resting, CHAIN(p->shapes, shapes_link), shape);
    list_append(&p->shapes_used, CHAIN(p->shapes, shapes_link), shape);
    if (p->asks[s->ask].root == SLOT_NONE)
        heap_set(&p->plans, plan_of_ask(p, s->ask), HEAP_KEY_NEVER);
}

void ask_share_moved(pool *p, uint32_t account)
{
    if (is_watched(&p->accounts[account])) heap_set(&p->ask_shares, account, 0);
}

static void move_account(pool *p, uint32_t account)
{
    const struct account *a = &p->accounts[account];
    uint32_t step = a->share_step;
    look_at_share(p, account);
    if (a->share_step == step) return;
    for (uint32_t at = a->resting.head; at != SLOT_NONE; at = p->shapes[at].rest_link.next) {
        struct shape *s = &p->shapes[at];
        uint32_t slot = table_find(&p->ask_tenant_table, tenant_id(s->ask, tenant_of(p, account)));
        uint32_t *root = &p->ask_tenants[slot].root;
        tree_remove(root, TREE_CHAIN(p->shapes, turn), at);
        s->turn.key = turn_of_shape(p, s);
        tree_insert(root, TREE_CHAIN(p->shapes, turn), at);
        settle_tenant(p, slot);
    }
    for (uint32_t at = a->ask_tenants.head; at != SLOT_NONE; at = p->ask_tenants[at].link.next)
        settle_tenant(p, at);
}

static void put_right(pool *p)
{
    while (heap_first_key(&p->ask_shares) <= p->now_us) move_account(p, heap_first(&p->ask_shares));
}

/* ---- waking ---- */

static int64_t key_of(const pool *p, const struct ask *ask)
{
    if (ask->root == SLOT_NONE) return HEAP_KEY_NEVER;
    return (int64_t)ask->of.job_class << 56 | p->ask_tenants[ask->root].turn.key;
}

static const struct shape *first_of(const pool *p, const struct ask *ask)
{
    return &p->shapes[p->ask_tenants[ask->root].root];
}

void ask_wake(pool *p, const struct region *region, uint64_t models)
{
    put_right(p);
    for (uint32_t i = p->asks_used.head; i != SLOT_NONE; i = p->asks[i].link.next) {
        const struct ask *ask = &p->asks[i];
        if (ask->root == SLOT_NONE) continue;
        if ((first_of(p, ask)->compat_mask & models) == 0) continue;
        if (ask->of.region != 0 && ask->of.region != region->region) continue;
        heap_set(&p->plans, plan_of_ask(p, i), key_of(p, ask));
    }
}

uint32_t ask_next(pool *p, uint32_t slot)
{
    const struct ask *ask = &p->asks[slot];
    uint32_t id = plan_of_ask(p, slot);
    ASSERT(ask->root != SLOT_NONE);
    if (plan_has_failed(p, first_of(p, ask))) { /* all that rest were told so */
        heap_set(&p->plans, id, HEAP_KEY_NEVER);
        return SLOT_NONE;
    }
    put_right(p);
    int64_t key = key_of(p, ask);
    if (key > heap_key(&p->plans, id)) {
        heap_set(&p->plans, id, key);
        if (heap_first(&p->plans) != id) return SLOT_NONE;
    }
    return p->ask_tenants[ask->root].root;
}

static void stir_all(pool *p, bool owners_only)
{
    uint32_t next;
    for (uint32_t shape = p->shapes_resting.head; shape != SLOT_NONE; shape = next) {
        const struct shape *s = &p->shapes[shape];
        next = s->shapes_link.next;
        if (owners_only && !quota_is_owner(p, s->account)) continue;
        bool awake = heap_key(&p->plans, plan_of_ask(p, s->ask)) != HEAP_KEY_NEVER;
        ask_stir(p, shape);
        if (awake) shape_wake(p, shape);
    }
}

void ask_stir_owners(pool *p)
{
    if (p->quota_borrowers > 0) stir_all(p, /* owners_only */ true);
}

void ask_forget(pool *p)
{
    stir_all(p, /* owners_only */ false);
}

/* ---- whole ---- */

void ask_rebuild(pool *p)
{
    for (uint32_t i = p->asks_used.head; i != SLOT_NONE; i = p->asks[i].link.next) {
        p->asks[i].root = SLOT_NONE;
        p->asks[i].user_count = 0;
    }
    for (uint32_t i = 0; i < p->accounts_end; i++) {
        list_clear(&p->accounts[i].resting);
        list_clear(&p->accounts[i].ask_tenants);
    }
    const uint32_t heads[] = {p->shapes_idle.head, p->shapes_used.head, p->shapes_resting.head};
    for (uint32_t list = 0; list < 3; list++)
        for (uint32_t s = heads[list]; s != SLOT_NONE; s = p->shapes[s].shapes_link.next) {
            struct shape *shape = &p->shapes[s];
            shape->rests = 0;
            if (shape->ask == SLOT_NONE) continue;
            struct ask *ask = &p->asks[shape->ask];
            if (ask->user_count++ > 0) continue;
            ask->of = *shape;
            table_insert(&p->ask_table, shape->ask_hash, shape->ask);
        }
    for (uint32_t s = p->shapes_resting.head; s != SLOT_NONE; s = p->shapes[s].shapes_link.next) {
        bool lies = lie_down(p, s);
        ASSERT(lies);
    }
}

static void check_ask(const pool *p, uint32_t slot)
{
    const struct ask *ask = &p->asks[slot];
    bool awake = heap_key(&p->plans, plan_of_ask(p, slot)) != HEAP_KEY_NEVER;
    ASSERT(ask->user_count > 0);
    if (ask->root == SLOT_NONE) {
        ASSERT(!awake);
        return;
    }
    ASSERT(p->ask_tenants[ask->root].ask == slot);
    if (heap_first_key(&p->ask_shares) <= p->now_us) return; /* put right before it counts */
    uint32_t first = p->ask_tenants[ask->root].root;
    ASSERT(key_of(p, ask) == plan_key(p, p->shapes[first].queue.head));
}

void ask_check(const pool *p)
{
    uint32_t users = 0, resting = 0;
    heap_check(&p->ask_shares);
    for (uint32_t i = p->asks_used.head; i != SLOT_NONE; i = p->asks[i].link.next) {
        check_ask(p, i);
        users += p->asks[i].user_count;
    }
    const uint32_t heads[] = {p->shapes_idle.head, p->shapes_used.head};
    for (uint32_t list = 0; list < 2; list++)
        for (uint32_t s = heads[list]; s != SLOT_NONE; s = p->shapes[s].shapes_link.next) {
            users -= p->shapes[s].ask != SLOT_NONE;
            ASSERT(!p->shapes[s].rests);
        }
    bool current = heap_first_key(&p->ask_shares) > p->now_us;
    for (uint32_t s = p->shapes_resting.head; s != SLOT_NONE; s = p->shapes[s].shapes_link.next) {
        const struct shape *shape = &p->shapes[s];
        users--;
        ASSERT(shape->rests && shape->ask != SLOT_NONE);
        ASSERT(heap_key(&p->plans, plan_of_shape(p, s)) == HEAP_KEY_NEVER);
        int64_t key = plan_key(p, shape->queue.head);
        if (current) ASSERT(key_of(p, &p->asks[shape->ask]) <= key);
    }
    for (uint32_t i = 0; i < p->accounts_end; i++) {
        resting += p->accounts[i].resting.count;
        ASSERT(is_watched(&p->accounts[i]) == (heap_key(&p->ask_shares, i) != HEAP_KEY_NEVER));
    }
    ASSERT(users == 0);
    ASSERT(resting == p->shapes_resting.count);
    ASSERT(p->asks_used.count + p->asks_free.count == p->asks_end);
}
