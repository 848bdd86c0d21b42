/* What happened to each job, added up from events and what the core said to them.
 *
 * Role       The same sums for a recorded journal and for a world that is only modelled, so that
 *            the two can be put side by side.
 * Sums       From tally_begin() on. A job runs while one of its workers has reported RUNNING and its
 *            node has not ended; from its submission (or the beginning) to its end it waits for
 *            the rest. Money: ledger entries, and what has run up since at the end of the tally.
 * Memory     Running out sticks (`failed`), and is asked once, at the end.
 */
#ifndef SHOAL_SERVER_TALLY_H
#define SHOAL_SERVER_TALLY_H

#include "core/view.h"
#include "server/array.h"

struct tally_job {
    uint64_t job_id;
    int64_t submitted_us, ended_us; /* ended 0: lives on */
    int64_t running_us, waited_us;
    int64_t usd_micros, base_usd_micros; /* base: spent before the beginning */
    uint32_t state;                      /* enum job_state at the end */
    uint32_t lost, preempted; /* workers whose node was taken or failed; times it gave way */
    int64_t running_since_us; /* 0: it does not run */
    uint32_t running_workers, reserved;
    uint64_t first_step, last_step; /* at the beginning; the highest reported */
    /* NCU of its running workers; times their time, in all; of that what was not lost: without
     * anybody running it goes back to what its last checkpoint kept. */
    double ncu, ncu_us, useful_ncu_us, kept_ncu_us;
    int64_t ncu_at_us;
};

struct tally {
    struct array jobs;    /* struct tally_job, by id */
    struct array workers; /* that run: by id */
    struct array nodes;   /* with money: by key */
    int64_t from_us;
    int64_t usd_micros;
    uint32_t bought, lost; /* nodes */
    bool failed;
};

void tally_begin(struct tally *t, const pool *p, int64_t from_us);
void tally_step(struct tally *t, const pool *p, const struct pool_event *event,
                const struct pool_output *out);
void tally_end(struct tally *t, const pool *p, int64_t to_us);
void tally_free(struct tally *t);
const struct tally_job *tally_find(const struct tally *t, uint64_t job_id); /* or NULL */

#endif
