/* Leases: one job on one node, from the moment the node is ordered or taken.
 *
 * States     RESERVED (the node is coming, or waits for the gang) → ACTIVE (a worker is wanted) →
 *            STOPPING (it is told to stop) → gone; or → OVER on a node that is on its way out,
 *            which keeps counting against the job's budget until the provider says the node is
 *            gone.
 * Invariants whole devices of a node's leases + devices_shared + devices_free = device_count; node.leases.count <=
 *            NODE_LEASES_MAX; worker_id = 0 exactly while never ACTIVE.
 */
#ifndef SHOAL_CORE_LEASE_H
#define SHOAL_CORE_LEASE_H

#include "core/state.h"

bool lease_can_make(const pool *p);
uint32_t lease_room(const pool *p); /* how many more can be made */
/* Of a job that has shares: one of them, on the device where it fits best. */
uint32_t lease_make(pool *p, uint32_t job, uint32_t node, uint32_t device_count,
                    uint32_t paid_milli);
void lease_stop(pool *p, uint32_t slot, uint32_t reason, int64_t deadline_us);
void lease_over(pool *p, uint32_t slot); /* its worker is no more, the node is going */
/* Its worker is no more, the node stays: devices are free again. */
void lease_end(pool *p, uint32_t slot, struct pool_output *out);
void lease_drop(pool *p, uint32_t slot);      /* the node is gone */
void lease_restart(pool *p, uint32_t slot);   /* a new worker on the same devices */
uint64_t lease_next_worker_id(const pool *p); /* above those of all workers so far */
void lease_ask_now(pool *p, uint32_t slot);   /* after a restart of the server */
bool lease_holds(const struct lease *l);      /* it counts for the gang: not on its way out */
/* What the job pays for it in its hourly budget. */
int64_t lease_usd_micros_per_hour(const pool *p, uint32_t slot);
int64_t lease_due_us(const pool *p, uint32_t slot);
void lease_retime(pool *p, uint32_t slot);
void lease_run(pool *p, uint32_t slot, struct pool_output *out);

#endif
