/* The invariants of nodes: whose devices, instances and shares lie where. */
#include "core/assert.h"
#include "core/check_parts.h"
#include "core/island.h"
#include "core/node.h"
#include "core/part.h"

/* By hand: the builtin may be a call outside. */
static uint32_t count_bits(uint32_t mask)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < DEVICES_NAMED_MAX; i++) count += mask >> i & 1;
    return count;
}

/* Whole devices are of one lease each, shares lie on others. */
static void check_devices(const pool *p, const struct node *n)
{
    uint32_t whole = 0, shared = 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *own = &p->leases[l];
        uint32_t named = n->device_count > DEVICES_NAMED_MAX ? 0 : part_devices(own);
        ASSERT(count_bits(own->device_mask) == named);
        if (named == 0) continue;
        ASSERT(n->device_count == DEVICES_NAMED_MAX || own->device_mask >> n->device_count == 0);
        ASSERT((whole & own->device_mask) == 0);
        if (own->device_index == SLOT_NONE) {
            ASSERT((shared & own->device_mask) == 0);
            whole |= own->device_mask;
        } else {
            ASSERT(own->device_mask == UINT32_C(1) << own->device_index);
            shared |= own->device_mask;
        }
    }
}

/* Who asked for devices of one group runs on such; an unknown group is one device. */
static void check_groups(const pool *p, const struct node *n)
{
    if (n->groups.form == 0) return;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *own = &p->leases[l];
        if (own->state != LEASE_ACTIVE || own->device_index != SLOT_NONE) continue;
        uint32_t same = terms_of(p, &p->shapes[p->jobs[own->job].shape])->affinity;
        if (!island_is_asked(same) || own->device_mask == 0) continue;
        uint32_t rest = own->device_mask;
        island_next(&n->groups, same, &rest);
        ASSERT(rest == 0);
    }
}

/* Instances lie at legal places, apart from each other and from shares of another kind. */
static void check_instances(const pool *p, const struct node *n)
{
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *own = &p->leases[l];
        if (own->mig == 0) continue;
        const struct mig_geometry *g =
            mig_geometry_of(p->models[p->offers[n->offer].model].mig_slices);
        ASSERT(g != NULL && (own->mig & 0xff) <= g->profile_count);
        const struct mig_profile *profile = &g->profiles[(own->mig & 0xff) - 1];
        ASSERT((profile->starts >> (own->mig >> 8) & 1) != 0);
        ASSERT(own->device_milli == 1000u * profile->size / g->slices);
        for (uint32_t m = own->node_link.next; m != SLOT_NONE; m = p->leases[m].node_link.next) {
            const struct lease *other = &p->leases[m];
            if (other->device_index != own->device_index) continue;
            ASSERT(other->mig != 0);
            uint32_t start = own->mig >> 8, at = other->mig >> 8;
            uint32_t size = g->profiles[(other->mig & 0xff) - 1].size;
            ASSERT(start + profile->size <= at || at + size <= start);
        }
    }
}

/* What is kept is kept for somebody who waits, and for nobody twice. */
void check_keeps(const pool *p)
{
    ASSERT(p->mig_keep_count <= MIG_KEEPS_MAX);
    for (uint32_t i = 0; i < p->mig_keep_count; i++) {
        const struct mig_keep *keep = &p->mig_keeps[i];
        uint64_t waiting = 0;
        ASSERT(keep->slices != 0);
        for (uint32_t s = 0; s < p->shapes_end; s++)
            if (p->shapes[s].ask_hash == keep->ask_hash) waiting += p->shapes[s].queue.count;
        ASSERT(waiting > 0);
        for (uint32_t other = 0; other < i; other++)
            if (p->mig_keeps[other].node_key == keep->node_key &&
                p->mig_keeps[other].device_index == keep->device_index)
                ASSERT((p->mig_keeps[other].slices & keep->slices) == 0);
    }
}

/* No device is given out more than once over, no host more than it has. */
static void check_shares(const pool *p, const struct node *n)
{
    uint64_t cpu_milli = 0, memory_mib = 0;
    uint32_t opened = 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *own = &p->leases[l];
        cpu_milli += own->host_cpu_milli;
        memory_mib += own->host_memory_mib;
        if (own->device_index == SLOT_NONE) continue;
        ASSERT(own->device_index < n->device_count);
        ASSERT(own->device_milli < 1000 || own->mig != 0);
        uint32_t milli = 0, earlier = 0;
        uint64_t device_memory_mib = 0;
        bool before = true;
        for (uint32_t m = n->leases.head; m != SLOT_NONE; m = p->leases[m].node_link.next) {
            before = before && m != l;
            if (p->leases[m].device_index != own->device_index) continue;
            milli += p->leases[m].device_milli;
            device_memory_mib += p->leases[m].memory_mib;
            earlier += before;
        }
        ASSERT(milli <= 1000);
        ASSERT(device_memory_mib <= n->device_memory_mib);
        opened += earlier == 0;
    }
    ASSERT(opened == n->devices_shared);
    if (n->host_cpu_milli != 0) ASSERT(cpu_milli <= n->host_cpu_milli);
    if (n->host_memory_mib != 0) ASSERT(memory_mib <= n->host_memory_mib);
    if (n->shared_listed) ASSERT(n->state == NODE_READY);
    if (n->shared_listed) ASSERT(n->devices_shared > 0);
}

static void check_node(const pool *p, uint32_t slot)
{
    const struct node *n = &p->nodes[slot];
    ASSERT(table_find(&p->node_table, n->node_key) == slot);
    ASSERT(heap_key(&p->timers, timer_of_node(slot)) == node_due_us(p, slot));
    check_list(&n->leases, CHAIN(p->leases, node_link));
    if (n->state == 0) {
        ASSERT(!n->billing);
        ASSERT(n->leases.count == 0);
        return;
    }
    ASSERT(n->leases.count <= NODE_LEASES_MAX);
    uint32_t leased = 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        ASSERT(p->leases[l].node == slot);
        if (p->leases[l].device_index == SLOT_NONE) leased += part_devices(&p->leases[l]);
        if (n->state == NODE_RELEASING) ASSERT(p->leases[l].state == LEASE_OVER);
    }
    ASSERT(leased + n->devices_shared + n->devices_free == n->device_count);
    check_devices(p, n);
    check_groups(p, n);
    check_instances(p, n);
    check_shares(p, n);
    ASSERT((n->state >= NODE_BOOTING && n->state <= NODE_DRAINING) <= (n->offer != SLOT_NONE));
    if (n->state == NODE_BOOTING || n->state == NODE_READY) ASSERT(n->billing);
    if (n->state == NODE_ORDERED) ASSERT(!n->billing);
    if (n->idle_listed) ASSERT(n->state == NODE_READY);
    if (n->idle_listed) ASSERT(n->devices_free > 0);
    if (n->billing) ASSERT(n->settled_us <= p->now_us);
}

void check_nodes(const pool *p)
{
    uint32_t live = 0;
    for (uint32_t slot = 0; slot < p->nodes_end; slot++) {
        check_node(p, slot);
        live += p->nodes[slot].state != 0;
    }
    ASSERT(live == p->node_count);
    ASSERT(live + p->nodes_free.count == p->nodes_end);
    ASSERT(p->node_table.count == p->nodes_end);
    check_list(&p->nodes_free, CHAIN(p->nodes, offer_link));
}
