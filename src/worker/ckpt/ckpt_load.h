/* The state of a job out of a checkpoint: all of it by one worker, or a part by each.
 *
 * State      Weights, then scales, as one run of bytes: what transfer.h cuts into stripes. Moments go
 *            to where they belong, see moments.h.
 * Errors     What is passed over is named on stderr, where the caller is not told of it.
 */
#ifndef SHOAL_WORKER_CKPT_CKPT_LOAD_H
#define SHOAL_WORKER_CKPT_CKPT_LOAD_H

#include "worker/ckpt/ckpt_read.h"
#include "worker/ckpt/ckpt_store.h"

enum ckpt_load_result { CKPT_LOADED = 1, CKPT_NONE, CKPT_REFUSED };
/* Loads the newest checkpoint of this job that verifies into `state` (weights, then scales, as one
 * run of bytes) and job->moment[]. Damaged ones are named on stderr and the next older one is tried; of those of
 * another run one line tells. REFUSED: the store cannot be read: the sentence says so. */
enum ckpt_load_result ckpt_load(struct store *store, const struct job *job, uint8_t *state,
                                uint64_t *ret_step, struct error *ret_error);

/* The newest checkpoint of this job that has a sound manifest. quiet: nothing is said. */
bool ckpt_newest(struct store *store, const struct job *job, bool quiet, uint64_t *ret_step);

struct ckpt_part {
    uint64_t step, first, end;      /* bytes of the state, at boundaries of elements */
    const struct ckpt_sink *moment; /* of moments */
    uint32_t moment_count;
};
/* Reads these bytes to the same place in `state`, and the moments. */
bool ckpt_load_part(struct store *store, const struct job *job, const struct ckpt_part *part,
                    uint8_t *state, struct error *ret_error) WARN_UNUSED;

#endif
