/* The tree of accounts, what defines them, and the door that their limits keep. */
#include "core/ask.h"
#include "core/gate.h"
#include "core/quota.h"
#include "core/quota_algebra.h"

static void clear(struct account *a)
{
    *a = (struct account){.parent = SLOT_NONE, .weight_milli = 1000};
    list_clear(&a->resting);
    list_clear(&a->ask_tenants);
    gate_forget(&a->gate);
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
        a->quota_milli[kind] = a->borrow_milli[kind] = a->lend_milli[kind] = -1;
}

void quota_init(pool *p)
{
    p->accounts_end = 1;
    clear(&p->accounts[ACCOUNT_POOL]);
    table_clear(&p->account_table);
    for (uint32_t i = 0; i < MODELS_MAX; i++) {
        p->quota_kind[i] = 0;
        p->quota_weight_milli[i] = 1000;
    }
}

static uint64_t id_of(uint32_t parent, uint32_t name)
{
    return (uint64_t)parent << 32 | name;
}

uint32_t quota_find_or_make(pool *p, const uint32_t names[ACCOUNT_LEVELS], struct pool_output *out)
{
    uint32_t at = ACCOUNT_POOL;
    for (uint32_t level = 0; level < ACCOUNT_LEVELS; level++) {
        if (names[level] == 0) continue;
        uint32_t child = table_find(&p->account_table, id_of(at, names[level]));
        if (child == SLOT_NONE) {
            if (p->accounts_end == p->accounts_max) {
                MARK(out, CATALOG_LIMIT);
                return at;
            }
            child = p->accounts_end++;
            clear(&p->accounts[child]);
            p->accounts[child].parent = at;
            p->accounts[child].name = names[level];
            p->accounts[child].level = level + 1;
            table_insert(&p->account_table, id_of(at, names[level]), child);
        }
        at = child;
    }
    return at;
}

uint32_t quota_find(const pool *p, const uint32_t names[ACCOUNT_LEVELS])
{
    uint32_t at = ACCOUNT_POOL;
    for (uint32_t level = 0; level < ACCOUNT_LEVELS; level++) {
        if (names[level] == 0) continue;
        uint32_t child = table_find(&p->account_table, id_of(at, names[level]));
        if (child == SLOT_NONE) return at;
        at = child;
    }
    return at;
}

uint32_t quota_find_of(const pool *p, const struct pool_event *submitted)
{
    const uint32_t names[ACCOUNT_LEVELS] = {
        submitted->u.job_submitted.tenant, submitted->u.job_submitted.project,
        submitted->u.job_submitted.team, submitted->u.job_submitted.user};
    return quota_find(p, names);
}

uint32_t quota_account(pool *p, const struct pool_event *submitted, struct pool_output *out)
{
    const uint32_t names[ACCOUNT_LEVELS] = {
        submitted->u.job_submitted.tenant, submitted->u.job_submitted.project,
        submitted->u.job_submitted.team, submitted->u.job_submitted.user};
    return quota_find_or_make(p, names, out);
}

static void retotal_kind(pool *p, uint32_t kind)
{
    for (uint32_t i = 0; i < p->accounts_end; i++) {
        struct account *a = &p->accounts[i];
        a->total_milli[kind] = a->pool_milli[kind] = 0;
        a->used_milli[kind] = a->own_milli[kind];
        a->has_quota[kind] = a->quota_milli[kind] >= 0;
    }
    /* Children have higher slots than their parents: from the leaves to the pool. Until its turn
     * comes, total and pool hold the sums of its children's. */
    for (uint32_t i = p->accounts_end; i-- > 0;) {
        struct account *a = &p->accounts[i];
        int64_t more = positive(a->quota_milli[kind] - a->total_milli[kind]);
        a->total_milli[kind] += more;
        a->pool_milli[kind] += more;
        if (i == ACCOUNT_POOL) continue;
        struct account *parent = &p->accounts[a->parent];
        parent->total_milli[kind] += a->total_milli[kind];
        parent->pool_milli[kind] += a->pool_milli[kind] - kept(a, kind);
        parent->used_milli[kind] += drawn(a, kind);
        parent->has_quota[kind] |= a->has_quota[kind];
    }
}

static void retotal(pool *p)
{
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) retotal_kind(p, kind);
    quota_rebuild(p);
    ask_stir_owners(p);
}

/* The definition of the pool begins them anew: accounts that are defined no more limit nobody. */
static void forget_definitions(pool *p)
{
    ask_forget(p);
    p->accounts_defined = 0;
    for (uint32_t i = 0; i < p->accounts_end; i++) {
        struct account *a = &p->accounts[i];
        for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++)
            a->quota_milli[kind] = a->borrow_milli[kind] = a->lend_milli[kind] = -1;
        a->weight_milli = 1000;
        gate_forget(&a->gate);
        a->usd_micros_per_hour_max = 0;
        for (uint32_t k = 0; k < QUOTA_PERIODS; k++) a->usd_micros_max[k] = 0;
        a->jobs_max = a->workers_max = a->submissions_per_minute_max = 0;
    }
    for (uint32_t i = 0; i < MODELS_MAX; i++) {
        p->quota_kind[i] = 0;
        p->quota_weight_milli[i] = 1000;
    }
}

static bool limits_anything(const struct account *a)
{
    return a->quota_milli[0] >= 0 || a->quota_milli[1] >= 0 || a->usd_micros_per_hour_max > 0 ||
           a->usd_micros_max[0] > 0 || a->usd_micros_max[1] > 0 || a->jobs_max > 0 ||
           a->workers_max > 0 || a->submissions_per_minute_max > 0;
}

void quota_define(pool *p, const struct pool_event *event, struct pool_output *out)
{
    uint32_t slot = quota_find_or_make(p, event->u.account_defined.names, out);
    const uint32_t *names = event->u.account_defined.names;
    uint32_t deepest = 0;
    for (uint32_t level = 0; level < ACCOUNT_LEVELS; level++)
        if (names[level] != 0) deepest = level + 1;
    if (deepest == 0) forget_definitions(p);
    struct account *a = &p->accounts[slot];
    if (a->level != deepest) return; /* no room for it: quota_find_or_make() has marked it */
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) {
        a->quota_milli[kind] = event->u.account_defined.quota_milli[kind];
        a->borrow_milli[kind] = event->u.account_defined.borrow_milli[kind];
        a->lend_milli[kind] = event->u.account_defined.lend_milli[kind];
    }
    a->weight_milli =
        event->u.account_defined.weight_milli != 0 ? event->u.account_defined.weight_milli : 1000;
    a->usd_micros_per_hour_max = event->u.account_defined.usd_micros_per_hour_max;
    for (uint32_t i = 0; i < QUOTA_PERIODS; i++)
        a->usd_micros_max[i] = event->u.account_defined.usd_micros_max[i];
    a->jobs_max = event->u.account_defined.jobs_max;
    a->workers_max = event->u.account_defined.workers_max;
    a->submissions_per_minute_max = event->u.account_defined.submissions_per_minute_max;
    p->accounts_defined |= deepest != 0 || limits_anything(a);
    ask_share_moved(p, slot);
    retotal(p);
    p->quota_freed = 1;
}

void quota_define_model(pool *p, const struct pool_event *event)
{
    uint32_t model = event->u.quota_model_defined.model;
    if (model >= MODELS_MAX) return;
    p->quota_kind[model] = event->u.quota_model_defined.kind;
    p->quota_weight_milli[model] = event->u.quota_model_defined.weight_milli;
}
