/* What a journal knows of a stretch of time, for asking what else could have happened in it.
 *
 * Role       Steps the recorded pool through the stretch once and keeps what did not depend on the
 *            pool's decisions (prices, arrivals, definitions: `events`, in order), and what was seen of
 *            the world's answers: how long nodes lived, booted, workers took to start, jobs ran.
 * Stock      A provider tells how many more nodes could be had beside those held; what another
 *            policy would have found is that and what was held, less what it holds itself. `totals`
 *            has the sum for each OFFER_CHANGED.
 * Work       Of a job with steps: its steps, and how many an NCU-microsecond makes, as recorded or
 *            (less than FACT_STEPS_MIN steps seen) as declared. Of another: the NCU-microseconds it
 *            ran until it ended, but for what losses set back; one that had not ended goes on for good.
 */
#ifndef SHOAL_SERVER_FACTS_H
#define SHOAL_SERVER_FACTS_H

#include "core/view.h"
#include "server/array.h"
#include "server/journal.h"
#include "server/replay_start.h"
#include "server/tally.h"

enum { FACT_STEPS_MIN = 3 };
#define FACT_NONE UINT32_MAX

struct fact_event {
    struct pool_event event;
    uint32_t total; /* OFFER_CHANGED: nodes that can be had in all */
};

struct fact_life { /* of a node that was up */
    uint64_t node_key, offer_id;
    int64_t from_us, to_us; /* to: its end, or that of the record */
    uint32_t is_lost, is_noticed;
    int64_t notice_us; /* between notice and loss */
};

struct fact_boot {
    uint64_t offer_id;
    int64_t up_us, join_us; /* from its order to up, from up to its agent */
};

struct fact_job {
    uint64_t job_id, spec_hash;
    uint32_t is_elastic, checkpoint_every; /* 0: never, or not known */
    uint64_t steps;                        /* 0: it has none */
    double steps_per_ncu_us;               /* of one with steps; 0: not known */
    double ncu_us;   /* of one without: what it has left; INFINITY: no end seen */
    int64_t ckpt_us; /* between two durable checkpoints; 0: not seen */
    int64_t first_ckpt_us, last_ckpt_us; /* while it is read */
    uint32_t ckpts, reserved;
};

struct fact_offer {
    uint32_t is_known, capacity, device_count, model, zone, reserved;
    int64_t usd_micros_per_hour; /* when the stretch begins; 0: it came later */
};

struct facts_options {
    uint64_t from_seq, to_seq; /* 0: the first, the last kept */
    int64_t from_us, to_us;    /* INT64_MIN, INT64_MAX: any */
};

struct facts {
    struct replay_start start; /* config; its pool is used up by facts_read() */
    uint8_t *snapshot;         /* of the pool when the stretch begins */
    size_t snapshot_bytes;
    int64_t from_us, to_us;
    uint64_t first_seq, last_seq;
    struct array events, lives, boots, jobs, offers; /* fact_*; offers by number */
    struct array starts;                             /* int64_t: order of a worker to RUNNING */
    struct array stops;                              /* int64_t: told to stop to stopped */
    struct array releases;                           /* int64_t: a node let go to gone */
    struct tally recorded;
};

bool facts_read(journal *j, const struct facts_options *options, struct facts *ret_facts,
                struct error *ret_error) WARN_UNUSED;
void facts_free(struct facts *f);                                   /* also after a failure */
struct fact_job *facts_job(const struct facts *f, uint64_t job_id); /* or NULL */
const struct fact_offer *facts_offer(const struct facts *f, uint64_t offer_id); /* or NULL */

#endif
