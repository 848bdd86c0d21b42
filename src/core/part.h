/* Parts of devices, and what a node's host can give: who fits where.
 *
 * Role       Several leases may hold shares of one device, in thousandths with so much of its
 *            memory. A device is whole (free or of one job) or opened for shares; which one a lease
 *            is on is in lease.device_index. Who has whole ones knows which (lease.device_mask): other
 *            jobs work on the rest of the node. All of it follows from the leases of the node, of which
 *            there are at most NODE_LEASES_MAX, so nothing is kept twice.
 * MIG        An instance is a share in whole slices, with a place on its device (mig.h); a device holds
 *            either instances or other shares. What lies where is in lease.mig.
 * Choice     The fullest opened device that still has room, else a free one is opened: shares crowd
 *            together and whole devices stay whole. One job has one share on a node.
 * Host       A job that names processors or memory per device gets no more devices on a node than
 *            its host still has for; 0 of a node = not known, no limit. Both are hard.
 * Invariants on no device do shares exceed 1000 milli or its memory; no node's host is overdrawn.
 */
#ifndef SHOAL_CORE_PART_H
#define SHOAL_CORE_PART_H

#include "core/mig.h"
#include "core/state.h"

/* 1000 = whole devices, 0 = no device, only a part of the host. */
static inline uint32_t part_milli(const struct job_terms *terms)
{
    if (terms->host_only) return 0;
    if (terms->mig_profile != 0) return terms->mig_profile * 125; /* about: part_milli_on() */
    return terms->device_milli == 0 ? 1000 : terms->device_milli;
}
static inline bool part_is_share(const struct job_terms *terms)
{
    return part_milli(terms) < 1000;
}
/* It has needs that a count of free devices does not answer. */
static inline bool part_is_special(const struct job_terms *terms)
{
    return part_is_share(terms) || terms->host_cpu_milli != 0 || terms->host_memory_mib != 0 ||
           terms->affinity > TOPOLOGY_NODE;
}

/* Of a device of that model: as part_milli(), but the slices that an instance really takes. */
uint32_t part_milli_on(const pool *p, const struct job_terms *terms, uint32_t model);
/* The instance it takes on such a device; NULL geometry: it asks for none, or the model has none. */
struct part_mig {
    const struct mig_geometry *geometry;
    uint32_t profile;
};
struct part_mig part_mig_on(const pool *p, const struct job_terms *terms, uint32_t model);
/* Where the instance lies on a device that takes it. */
uint32_t part_mig_start(const pool *p, const struct node *n, uint32_t device_index,
                        struct part_mig mig, uint64_t asker);
/* Whoever asks for the same as this job; 0: nobody in particular. What is kept for others (plan_repack.h)
 * it does not see as free. */
static inline uint64_t part_asker(const pool *p, uint32_t job)
{
    return job == SLOT_NONE || p->jobs[job].shape == SLOT_NONE
               ? 0
               : p->shapes[p->jobs[job].shape].ask_hash;
}
/* How it is with the partitioned devices of the nodes that are up: full, or enough slices are free on
 * one of them, in places that do not do. */
enum mig_answer part_mig_ask(const pool *p, const struct job_terms *terms, uint64_t models,
                             uint32_t region, uint64_t asker);
/* The lease is the first of the shares of its device, and all of them are on their way out. */
bool part_closes(const pool *p, const struct node *n, uint32_t lease);
/* Devices that the node's host still feeds, once leases with so much of it are gone. */
struct part_use {
    uint64_t cpu_milli, memory_mib;
};
uint32_t part_host_gives(const pool *p, const struct node *n, const struct job_terms *terms,
                         const struct part_use *gone);
/* Of a device with so much memory, what a share gets. */
uint32_t part_memory_mib(const struct job_terms *terms, uint32_t device_memory_mib);
/* Devices (shares) that this node can give to one job now; of an offer: an empty node of it. */
uint32_t part_node_gives(const pool *p, uint32_t node, const struct job_terms *terms,
                         uint64_t asker);
uint32_t part_offer_gives(const pool *p, const struct offer *o, const struct job_terms *terms);
/* A share fits on this device, which is opened or free. */
bool part_takes(const pool *p, const struct node *n, uint32_t device_index,
                const struct job_terms *terms, uint64_t asker);
bool part_is_opened(const pool *p, const struct node *n, uint32_t device_index);
/* The opened device a share goes to; SLOT_NONE: a free one has to be opened. */
uint32_t part_device(const pool *p, uint32_t node, const struct job_terms *terms, uint64_t asker);
/* Devices that no lease of the node has anything of, a bit each; 0: too large a node to name them. */
uint32_t part_free_mask(const pool *p, const struct node *n);
/* Those of them that a lease gets whose devices are not named yet. */
uint32_t part_free_devices(const pool *p, const struct lease *l, const struct job_terms *terms);
uint32_t part_new_index(const pool *p, uint32_t node); /* lowest number not opened */
bool part_is_alone(const pool *p, uint32_t lease);     /* nobody else has a share of its device */
bool part_has_room(const pool *p, uint32_t node);      /* an opened device is not full */
uint32_t part_free_milli(const pool *p, const struct node *n); /* of all its devices */
/* Devices that it has something of. */
static inline uint32_t part_devices(const struct lease *l)
{
    return l->device_milli == 0 ? 0 : l->device_count;
}
/* What a lease holds of its node, in thousandths of a device. */
static inline uint32_t part_of_lease(const struct lease *l)
{
    return l->device_count * l->device_milli;
}

#endif
