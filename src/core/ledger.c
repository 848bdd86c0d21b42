#include "core/ledger.h"
#include "core/act.h"
#include "core/assert.h"
#include "core/node.h"
#include "core/offer.h"
#include "core/part.h"
#include "core/quota.h"

void ledger_open(pool *p, uint32_t node, int64_t up_since_us)
{
    struct node *n = &p->nodes[node];
    ASSERT(!n->billing);
    ASSERT(n->offer != SLOT_NONE);
    if (up_since_us > p->now_us || up_since_us == 0) up_since_us = p->now_us;
    if (up_since_us < n->ordered_us) up_since_us = n->ordered_us; /* clocks differ */
    const struct offer *o = &p->offers[n->offer];
    /* The price since then is not kept; today's stands in, and the final bill corrects it. */
    struct meter before = {0};
    money_meter_add(&before, o->usd_micros_per_hour, p->now_us - up_since_us);
    n->base = money_meter_minus(offer_meter(o, p->now_us), before);
    n->up_since_us = n->settled_us = up_since_us;
    n->billing = 1;
}

static int64_t pending(const pool *p, const struct node *n)
{
    if (!n->billing) return 0;
    struct meter since = money_meter_minus(offer_meter(&p->offers[n->offer], p->now_us), n->base);
    return since.usd_micros - n->entered_usd_micros;
}

int64_t ledger_node_pending(const pool *p, uint32_t node)
{
    return pending(p, &p->nodes[node]);
}

static bool lease_works(const struct lease *l)
{
    return l->state == LEASE_ACTIVE || (l->state == LEASE_STOPPING && l->worker_id != 0);
}

static void enter(pool *p, struct ledger_entry entry, struct pool_output *out)
{
    switch ((enum entry_kind)entry.kind) {
    case ENTRY_JOB: p->usd_micros_jobs = money_add(p->usd_micros_jobs, entry.usd_micros); break;
    case ENTRY_OVERHEAD:
        p->usd_micros_overhead = money_add(p->usd_micros_overhead, entry.usd_micros);
        break;
    case ENTRY_IDLE: p->usd_micros_idle = money_add(p->usd_micros_idle, entry.usd_micros); break;
    case ENTRY_ADJUSTMENT:
        p->usd_micros_adjustment = money_add(p->usd_micros_adjustment, entry.usd_micros);
        break;
    case ENTRY_KIND_END: UNREACHABLE();
    }
    act_entry(p, out, entry);
}

static struct ledger_entry entry_of_node(const pool *p, const struct node *n)
{
    return (struct ledger_entry){
        .node_key = n->node_key,
        .offer_id = n->offer == SLOT_NONE ? 0 : p->offers[n->offer].offer_id,
        .from_us = n->settled_us,
        .to_us = p->now_us,
    };
}

static void enter_lease(pool *p, const struct node *n, const struct lease *l, int64_t amount,
                        struct pool_output *out)
{
    struct job *j = &p->jobs[l->job];
    struct ledger_entry entry = entry_of_node(p, n);
    entry.kind = lease_works(l) ? ENTRY_JOB : ENTRY_OVERHEAD;
    entry.job_id = j->job_id;
    entry.tenant = j->tenant;
    entry.project = j->project;
    entry.team = j->team;
    entry.experiment = j->experiment;
    entry.device_count = part_devices(l);
    entry.usd_micros = amount;
    if (entry.kind == ENTRY_JOB) j->usd_micros = money_add(j->usd_micros, amount);
    quota_spend(p, (uint32_t)(l - p->leases), amount);
    enter(p, entry, out);
}

static void tag_overhead(const struct node *n, struct ledger_entry *entry)
{
    entry->kind = ENTRY_OVERHEAD;
    entry->job_id = n->tag_job_id;
    entry->tenant = n->tenant;
    entry->project = n->project;
    entry->team = n->team;
    entry->experiment = n->experiment;
}

static void enter_free(pool *p, const struct node *n, int64_t amount, struct pool_output *out)
{
    struct ledger_entry entry = entry_of_node(p, n);
    entry.kind = ENTRY_IDLE;
    if (n->state != NODE_READY) tag_overhead(n, &entry);
    entry.device_count = (part_free_milli(p, n) + 999) / 1000;
    entry.usd_micros = amount;
    enter(p, entry, out);
}

/* The share of a holder; the first one also gets what the divisions left over. */
static int64_t share(const struct node *n, int64_t amount, uint32_t milli, int64_t *left_over)
{
    int64_t part = money_share_floor(amount, milli, n->device_count * 1000) + *left_over;
    *left_over = 0;
    return part;
}

static int64_t left_over(const pool *p, const struct node *n, int64_t amount)
{
    int64_t rest =
        amount - money_share_floor(amount, part_free_milli(p, n), n->device_count * 1000);
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        rest -= money_share_floor(amount, part_of_lease(&p->leases[l]), n->device_count * 1000);
    ASSERT(rest >= 0);
    return rest;
}

int64_t ledger_usd_micros(const pool *p, uint32_t node)
{
    const struct node *n = &p->nodes[node];
    return n->entered_usd_micros + (n->billing ? pending(p, n) : 0);
}

void ledger_settle(pool *p, uint32_t node, struct pool_output *out)
{
    struct node *n = &p->nodes[node];
    if (!n->billing) return;
    int64_t amount = pending(p, n);
    ASSERT(amount >= 0);
    if (amount == 0 && n->settled_us == p->now_us) return;
    int64_t rest = left_over(p, n, amount);
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        enter_lease(p, n, &p->leases[l], share(n, amount, part_of_lease(&p->leases[l]), &rest),
                    out);
    uint32_t free_milli = part_free_milli(p, n);
    if (free_milli > 0) enter_free(p, n, share(n, amount, free_milli, &rest), out);
    ASSERT(rest == 0);
    n->entered_usd_micros = money_add(n->entered_usd_micros, amount);
    n->settled_us = p->now_us;
    node_retime(p, node); /* the next settlement is due ENTRY_US_MAX from here */
}

void ledger_close(pool *p, uint32_t node, struct pool_output *out)
{
    ledger_settle(p, node, out);
    p->nodes[node].billing = 0;
}

void ledger_bill(pool *p, uint32_t node, int64_t billed_usd_micros, struct pool_output *out)
{
    struct node *n = &p->nodes[node];
    ASSERT(!n->billing);
    if (billed_usd_micros < 0 || n->bill_closed) return;
    int64_t difference = billed_usd_micros - n->entered_usd_micros;
    if (difference == 0) return;
    MARK(out, BILL_ADJUSTED);
    struct ledger_entry entry = entry_of_node(p, n);
    tag_overhead(n, &entry);
    entry.kind = ENTRY_ADJUSTMENT;
    entry.from_us = n->up_since_us == 0 ? p->now_us : n->up_since_us;
    entry.device_count = n->device_count;
    entry.usd_micros = difference;
    n->entered_usd_micros = billed_usd_micros;
    enter(p, entry, out);
}

int64_t ledger_pending_usd_micros(const pool *p, uint32_t lease)
{
    const struct lease *l = &p->leases[lease];
    const struct node *n = &p->nodes[l->node];
    if (!lease_works(l)) return 0;
    int64_t amount = pending(p, n);
    int64_t part = money_share_floor(amount, part_of_lease(l), n->device_count * 1000);
    return n->leases.head == lease ? part + left_over(p, n, amount) : part;
}

int64_t ledger_lease_rate(const pool *p, uint32_t lease)
{
    const struct lease *l = &p->leases[lease];
    const struct node *n = &p->nodes[l->node];
    if (!lease_works(l) || !n->billing) return 0;
    return money_share_ceil(p->offers[n->offer].usd_micros_per_hour, part_of_lease(l),
                            n->device_count * 1000);
}
