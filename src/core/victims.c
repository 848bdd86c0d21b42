#include "core/victims.h"
#include "core/assert.h"
#include "core/lease.h"
#include "core/promise.h"

enum { LIST_NONE, LIST_OPEN, LIST_PROMISED };

void victims_clear(struct market *market)
{
    list_clear(&market->victims);
    list_clear(&market->victims_promised);
}

static struct list *list_of(pool *p, const struct node *n, uint32_t which)
{
    const struct offer *o = &p->offers[n->offer];
    struct market *market = market_of(p, o->region_index, o->model);
    return which == LIST_OPEN ? &market->victims : &market->victims_promised;
}

static void relist(pool *p, uint32_t node)
{
    struct node *n = &p->nodes[node];
    uint32_t wanted = n->victim_count == 0                  ? LIST_NONE
                      : n->promised_count < n->device_count ? LIST_OPEN
                                                            : LIST_PROMISED;
    if (wanted == n->victims_listed) return;
    struct chain chain = CHAIN(p->nodes, victim_link);
    if (n->victims_listed != LIST_NONE) list_remove(list_of(p, n, n->victims_listed), chain, node);
    if (wanted != LIST_NONE) list_append(list_of(p, n, wanted), chain, node);
    n->victims_listed = (uint16_t)wanted;
}

bool victims_counts(const pool *p, const struct lease *l)
{
    if (l->device_milli == 0) return false; /* of its host alone */
    if (l->state == LEASE_STOPPING) return true;
    return lease_holds(l) && p->jobs[l->job].job_class != JOB_CLASS_P0;
}

void victims_count(pool *p, uint32_t lease, bool counts)
{
    uint32_t node = p->leases[lease].node;
    struct node *n = &p->nodes[node];
    ASSERT(counts || n->victim_count > 0);
    n->victim_count = (uint16_t)(counts ? n->victim_count + 1 : n->victim_count - 1);
    relist(p, node);
}

/* The bound only rises until no promise is left: it may skip less than it could, never more. */
void victims_promised(pool *p, uint32_t node)
{
    const struct node *n = &p->nodes[node];
    if (n->promises.tail != SLOT_NONE) {
        uint64_t last = promise_order(p, p->promises[n->promises.tail].job);
        if (last > p->promise_order_max) p->promise_order_max = last;
    }
    relist(p, node);
}

struct victim_walk victims_walk(const pool *p, uint32_t region_index, uint64_t models,
                                uint64_t order, uint32_t job)
{
    bool owns = job != SLOT_NONE && p->jobs[job].promised_count > 0;
    return (struct victim_walk){.p = p,
                                .models = models & p->regions[region_index].model_mask,
                                .region_index = region_index,
                                .node = SLOT_NONE,
                                .skips = !owns && order > p->promise_order_max,
                                .promised = true};
}

bool victims_next(struct victim_walk *w, uint32_t *ret_node)
{
    while (w->node == SLOT_NONE) {
        if (w->models == 0) return false;
        uint32_t model = (uint32_t)__builtin_ctzll(w->models);
        const struct market *market = market_of(w->p, w->region_index, model);
        w->promised = !w->promised;
        w->node = w->promised ? market->victims_promised.head : market->victims.head;
        if (w->promised && w->skips) w->node = SLOT_NONE;
        if (w->promised) w->models &= w->models - 1;
    }
    *ret_node = w->node;
    w->node = w->p->nodes[w->node].victim_link.next;
    return true;
}
