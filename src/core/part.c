#include "core/part.h"
#include "core/assert.h"
#include "core/island.h"

struct load {
    uint32_t milli, memory_mib;
};

static struct load load_of(const pool *p, const struct node *n, uint32_t device_index)
{
    struct load load = {0};
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        if (p->leases[l].device_index != device_index) continue;
        load.milli += p->leases[l].device_milli;
        load.memory_mib += p->leases[l].memory_mib;
    }
    return load;
}

uint32_t part_memory_mib(const struct job_terms *terms, uint32_t device_memory_mib)
{
    if (!part_is_share(terms)) return device_memory_mib;
    if (terms->device_memory_mib != 0) return terms->device_memory_mib;
    return (uint32_t)((uint64_t)device_memory_mib * terms->device_milli / 1000);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* For how many devices `have` suffices, `used` of it being taken; have 0: no limit is known. */
static uint32_t enough_for(uint32_t have, uint64_t used, uint32_t each)
{
    if (each == 0 || have == 0) return UINT32_MAX;
    return used >= have ? 0 : (uint32_t)((have - used) / each);
}

uint32_t part_host_gives(const pool *p, const struct node *n, const struct job_terms *terms,
                         const struct part_use *gone)
{
    uint64_t cpu_milli = 0, memory_mib = 0;
    if (terms->host_cpu_milli == 0 && terms->host_memory_mib == 0) return UINT32_MAX;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        cpu_milli += p->leases[l].host_cpu_milli;
        memory_mib += p->leases[l].host_memory_mib;
    }
    cpu_milli -= gone->cpu_milli;
    memory_mib -= gone->memory_mib;
    return smaller(enough_for(n->host_cpu_milli, cpu_milli, terms->host_cpu_milli),
                   enough_for(n->host_memory_mib, memory_mib, terms->host_memory_mib));
}

struct part_mig part_mig_on(const pool *p, const struct job_terms *terms, uint32_t model)
{
    const struct model *m = &p->models[model];
    struct part_mig mig = {0};
    if (terms->mig_profile == 0 || m->mig_slices == 0) return mig;
    const struct mig_geometry *g = mig_geometry_of(m->mig_slices);
    mig.profile = mig_smallest(g, m->vram_mib, terms->mig_profile, terms->device_memory_mib);
    if (mig.profile < g->profile_count) mig.geometry = g;
    return mig;
}

uint32_t part_milli_on(const pool *p, const struct job_terms *terms, uint32_t model)
{
    struct part_mig mig = part_mig_on(p, terms, model);
    if (mig.geometry == NULL) return part_milli(terms);
    return 1000u * mig.geometry->profiles[mig.profile].size / mig.geometry->slices;
}

static uint32_t model_of(const pool *p, const struct node *n)
{
    return p->offers[n->offer].model;
}

static bool is_partitioned(const pool *p, const struct node *n, uint32_t device_index)
{
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        if (p->leases[l].device_index == device_index && p->leases[l].mig != 0) return true;
    return false;
}

/* Kept there for others than whoever asks for this; of a device that is free again nothing is kept. */
static uint32_t slices_kept(const pool *p, const struct node *n, uint32_t device_index,
                            uint64_t asker)
{
    uint32_t kept = 0;
    if (p->mig_keep_count == 0 || !is_partitioned(p, n, device_index)) return 0;
    for (uint32_t i = 0; i < p->mig_keep_count; i++) {
        const struct mig_keep *keep = &p->mig_keeps[i];
        if (keep->node_key == n->node_key && keep->device_index == device_index &&
            keep->ask_hash != asker)
            kept |= keep->slices;
    }
    return kept;
}

/* Slices that are no place for whoever asks, a bit each; all of them when the device is used in another
 * way. */
static uint32_t slices_used(const pool *p, const struct node *n, uint32_t device_index,
                            const struct mig_geometry *g, uint64_t asker)
{
    struct mig_gpu gpu = {0};
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *own = &p->leases[l];
        if (own->device_index != device_index) continue;
        if (own->mig == 0 || gpu.count == MIG_INSTANCES_MAX) return (1u << g->slices) - 1;
        gpu.instances[gpu.count++] = (struct mig_instance){
            .profile = (uint8_t)((own->mig & 0xff) - 1), .start = (uint8_t)(own->mig >> 8)};
    }
    return mig_used(g, &gpu) | slices_kept(p, n, device_index, asker);
}

uint32_t part_mig_start(const pool *p, const struct node *n, uint32_t device_index,
                        struct part_mig mig, uint64_t asker)
{
    return mig_place(mig.geometry, slices_used(p, n, device_index, mig.geometry, asker),
                     mig.profile);
}

enum mig_answer part_mig_ask(const pool *p, const struct job_terms *terms, uint64_t models,
                             uint32_t region, uint64_t asker)
{
    for (uint32_t node = 0; node < p->nodes_end; node++) {
        const struct node *n = &p->nodes[node];
        if (n->state != NODE_READY || n->devices_shared == 0) continue;
        const struct offer *o = &p->offers[n->offer];
        if (region != 0 && p->regions[o->region_index].region != region) continue;
        if ((models >> o->model & 1) == 0) continue;
        struct part_mig mig = part_mig_on(p, terms, o->model);
        for (uint32_t l = n->leases.head; l != SLOT_NONE && mig.geometry != NULL;
             l = p->leases[l].node_link.next) {
            if (p->leases[l].mig == 0) continue;
            uint32_t used = slices_used(p, n, p->leases[l].device_index, mig.geometry, asker);
            if (mig_ask(mig.geometry, used, mig.profile) == MIG_CONFLICT) return MIG_CONFLICT;
        }
    }
    return MIG_FULL;
}

static bool load_takes(const struct node *n, struct load load, const struct job_terms *terms)
{
    uint32_t memory_mib = part_memory_mib(terms, n->device_memory_mib);
    return load.milli + terms->device_milli <= 1000 &&
           (uint64_t)load.memory_mib + memory_mib <= n->device_memory_mib;
}

bool part_takes(const pool *p, const struct node *n, uint32_t device_index,
                const struct job_terms *terms, uint64_t asker)
{
    struct part_mig mig = part_mig_on(p, terms, model_of(p, n));
    if (mig.geometry != NULL)
        return part_mig_start(p, n, device_index, mig, asker) != MIG_SLICES_MAX;
    if (terms->mig_profile != 0 || is_partitioned(p, n, device_index)) return false;
    return load_takes(n, load_of(p, n, device_index), terms);
}

bool part_is_opened(const pool *p, const struct node *n, uint32_t device_index)
{
    return load_of(p, n, device_index).milli > 0;
}

uint32_t part_device(const pool *p, uint32_t node, const struct job_terms *terms, uint64_t asker)
{
    const struct node *n = &p->nodes[node];
    uint32_t best = SLOT_NONE, best_milli = 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        uint32_t index = p->leases[l].device_index;
        if (index == SLOT_NONE || index == best) continue;
        struct load load = load_of(p, n, index);
        if (!part_takes(p, n, index, terms, asker) || load.milli < best_milli ||
            (load.milli == best_milli && index > best))
            continue;
        best = index;
        best_milli = load.milli;
    }
    return best;
}

uint32_t part_node_gives(const pool *p, uint32_t node, const struct job_terms *terms,
                         uint64_t asker)
{
    const struct node *n = &p->nodes[node];
    uint32_t host = part_host_gives(p, n, terms, &(struct part_use){0});
    if (!part_is_share(terms)) return smaller(n->devices_free, host);
    if (host == 0 || n->leases.count >= NODE_LEASES_MAX) return 0;
    if (terms->host_only) return 1;
    if (terms->mig_profile != 0) {
        if (part_mig_on(p, terms, model_of(p, n)).geometry == NULL) return 0;
        return n->devices_free > 0 || part_device(p, node, terms, asker) != SLOT_NONE;
    }
    if (part_memory_mib(terms, n->device_memory_mib) > n->device_memory_mib) return 0;
    return n->devices_free > 0 || part_device(p, node, terms, asker) != SLOT_NONE;
}

uint32_t part_offer_gives(const pool *p, const struct offer *o, const struct job_terms *terms)
{
    uint32_t host = smaller(enough_for(o->host_cpu_milli, 0, terms->host_cpu_milli),
                            enough_for(o->host_memory_mib, 0, terms->host_memory_mib));
    uint32_t memory_mib = p->models[o->model].vram_mib;
    if (!part_is_share(terms)) return smaller(o->device_count, host);
    if (terms->mig_profile != 0)
        return host > 0 && part_mig_on(p, terms, o->model).geometry != NULL;
    return host > 0 && part_memory_mib(terms, memory_mib) <= memory_mib;
}

uint32_t part_free_mask(const pool *p, const struct node *n)
{
    uint32_t used = 0;
    if (n->device_count > DEVICES_NAMED_MAX) return 0;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        used |= p->leases[l].device_mask;
    return ~used & (uint32_t)((UINT64_C(1) << n->device_count) - 1);
}

uint32_t part_free_devices(const pool *p, const struct lease *l, const struct job_terms *terms)
{
    const struct node *n = &p->nodes[l->node];
    if (n->device_count > DEVICES_NAMED_MAX) return 0;
    uint32_t mask = 0, free = part_free_mask(p, n), count = l->device_count;
    if (n->groups.form != 0) return island_take(p, l, free, terms);
    for (; count > 0 && free != 0; count--, free &= free - 1) mask |= free & -free;
    ASSERT(count == 0);
    return mask;
}

uint32_t part_new_index(const pool *p, uint32_t node)
{
    const struct node *n = &p->nodes[node];
    uint32_t index = 0, mask = part_free_mask(p, n);
    if (mask != 0) return (uint32_t)__builtin_ctz(mask);
    while (load_of(p, n, index).milli > 0) index++;
    ASSERT(index < n->device_count);
    return index;
}

bool part_is_alone(const pool *p, uint32_t lease)
{
    const struct lease *own = &p->leases[lease];
    return load_of(p, &p->nodes[own->node], own->device_index).milli == own->device_milli;
}

bool part_has_room(const pool *p, uint32_t node)
{
    const struct node *n = &p->nodes[node];
    if (n->devices_shared == 0) return false;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        uint32_t index = p->leases[l].device_index;
        if (index != SLOT_NONE && load_of(p, n, index).milli < 1000) return true;
    }
    return false;
}

uint32_t part_free_milli(const pool *p, const struct node *n)
{
    uint32_t milli = n->device_count * 1000;
    if (n->devices_shared == 0) return n->devices_free * 1000;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next)
        milli -= part_of_lease(&p->leases[l]);
    return milli;
}

bool part_closes(const pool *p, const struct node *n, uint32_t lease)
{
    uint32_t index = p->leases[lease].device_index, first = SLOT_NONE;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        if (p->leases[l].device_index != index) continue;
        if (p->leases[l].state != LEASE_STOPPING) return false;
        if (first == SLOT_NONE) first = l;
    }
    return first == lease;
}
