/* The core's leases sorted by node and by job, remade when the core has moved.
 *
 * Role       An agent's report asks "which workers belong on this node, and who are their peers";
 *            going through every lease for each report would cost nodes x leases.
 */
#ifndef SHOAL_SERVER_LEASES_H
#define SHOAL_SERVER_LEASES_H

#include "core/view.h"
#include "server/array.h"

struct leases {
    struct array by_node; /* struct lease_view, sorted by (node_key, worker_id) */
    struct array by_job;  /* struct lease_view, sorted by (job_id, worker_id) */
    uint64_t seq;         /* of the pool they show */
    bool is_fresh;
};

struct lease_range {
    const struct lease_view *items;
    uint32_t count;
};

void leases_init(struct leases *leases);
void leases_free(struct leases *leases);

/* false: out of memory; the lists are then empty. */
bool leases_refresh(struct leases *leases, const pool *p);
struct lease_range leases_of_node(const struct leases *leases, uint64_t node_key);
struct lease_range leases_of_job(const struct leases *leases, uint64_t job_id);

#endif
