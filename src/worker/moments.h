/* The memory of the optimizer's moments: address space for all of them, pages only for what this
 * worker holds.
 *
 * Why        A range lies at the same place on every worker and for good: a re-cut copies into
 *            place, nothing is ever shifted, and memory cannot fragment. What is not held costs
 *            address space alone; giving it back is one call to the kernel, and reads as zero.
 * Threads    moments_release() under the machine's lock; the program's thread touches only what it
 *            holds.
 */
#ifndef SHOAL_WORKER_MOMENTS_H
#define SHOAL_WORKER_MOMENTS_H

#include "worker/ckpt/ckpt_image.h"
#include "worker/core/member.h"
#include "worker/job.h"

/* job->moment[] of job->moment_count arrays over the gradient's elements; zero. */
bool moments_reserve(struct job *job, struct error *ret_error) WARN_UNUSED;
void moments_free(struct job *job);

/* Gives back what the machine does not need any more, once nobody copies from it. */
void moments_release(const struct job *job, struct member *m);
void moments_clear(const struct job *job); /* all zero again */
uint64_t moments_resident_bytes(const struct job *job);

/* What is free for shares to follow from: SHOAL_MEMORY_MIB, else what the system says. */
bool moments_memory(uint64_t *ret_bytes, struct error *ret_error) WARN_UNUSED;

/* Ranges of the moments that `member` owns, for a shard of a checkpoint. first_tensor: index of the
 * first moment among the tensors of the checkpoint. Room: moments_ranges_max(). */
uint32_t moments_ranges(const struct job *job, const struct shard_map *map, uint32_t member,
                        struct ckpt_range *ret_range);
uint32_t moments_ranges_max(const struct job *job);

#endif
