/* Classes: what each of P0 to P3 is guaranteed, as data.
 *
 * Defaults   P0 production: 100 % reserved, not preemptible, never queues (it starts in the round of
 *            its submission or is refused), may preempt P2 and P3. P1 critical: 70 % reserved + 30 %
 *            burst, not preemptible, may preempt P2 and P3. P2 research, P3 best effort: nothing
 *            reserved, 100 % burst, preemptible.
 * Reserved   A share of the NCU that is up or owned, whichever is more, in the pools a job may use
 *            (without pools: of all); nodes that a job starts itself count as up. Within it a class may
 *            recall devices that preemptible lower classes hold; beyond it, it takes only what is idle
 *            or bought. Idle reserved capacity is lent: nobody waits for it.
 * Burst      What a class may hold beyond its reserved share, of what is up or owned. Together they bound
 *            what it takes of idle devices and of owned and reserved stock; what is bought for it (spot,
 *            on demand) is a matter of cost gates (gate.h). With the defaults the sum is the whole.
 *            A class without burst (P0) is put on the baseline, what is owned and reserved, and recalls
 *            it, before anything is bought for it; the others take of it what is left before they buy.
 * Order      A class may only preempt classes below it, whatever is asked for: so victims of victims
 *            end at P3 and there is no cycle of any length.
 * Unit       Shares in ppm, NCU in milli. Pure functions of the pool.
 */
#ifndef SHOAL_CORE_CLASS_H
#define SHOAL_CORE_CLASS_H

#include "core/state.h"

struct class_share {                          /* of one class in the pools that a shape may use */
    uint64_t total_ncu_milli, held_ncu_milli; /* held: what is promised to its jobs counts too */
    uint64_t reserved_ncu_milli;              /* up to here it may recall what is lent */
    uint64_t most_ncu_milli; /* up to here it takes what is idle; UINT64_MAX: no bound */
};

void class_defaults(pool *p);
/* As the event says, with what it may preempt cut down to the classes below it. */
void class_define(pool *p, const struct pool_event *event);
bool class_may_preempt(const pool *p, uint32_t job_class, uint32_t victim_class);
bool class_queues(const pool *p, uint32_t job_class);
bool class_bursts(const pool *p, uint32_t job_class); /* else: the baseline before any purchase */
/* `more`: of nodes that a start would bring up, counted as if they were there. */
void class_share_of(const pool *p, const struct shape *s, uint64_t more_ncu_milli,
                    struct class_share *ret_share);
/* NCU that its class may yet take of idle and owned devices; UINT64_MAX: no bound. */
uint64_t class_left_milli(const pool *p, const struct shape *s);
/* Devices that a lease or a node begins or ends to stand for: kept by model, so shares cost no walk
 * over nodes. */
void class_hold(pool *p, uint32_t lease, bool holds);
void class_promise(pool *p, uint32_t job, uint32_t node, uint32_t device_count, bool more);
void class_node(pool *p, uint32_t node, bool usable);

#endif
