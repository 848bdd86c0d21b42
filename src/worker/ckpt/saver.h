/* Writes checkpoints in the background, so that training pays only for what is not copied when the
 * weights are about to change.
 *
 * Snapshot   saver_order() at a step boundary only notes what is to be copied. Threads copy it into
 *            an image of the shard's file (ckpt_image.h) while the program computes; the weights
 *            change only in SHOAL_APPLY, before which saver_barrier() copies the rest, if any.
 * Writing    Other threads write the image's parts straight from memory as they are copied, the
 *            first part, with the header, last. Then on_shard. The leader, told by all, orders the
 *            manifest; then on_manifest. Hooks run on the saver's threads without locks held.
 * In flight  Up to SAVER_FLIGHTS shards at once, each with an image of its own: 1/W of the state in
 *            a group of W. The memory stays for the next one.
 * Errors     Training goes on, older checkpoints stay, leftovers are removed. The sentence is
 *            printed once until a write succeeds again.
 */
#ifndef SHOAL_WORKER_CKPT_SAVER_H
#define SHOAL_WORKER_CKPT_SAVER_H

#include "worker/ckpt/ckpt_image.h"
#include "worker/core/member.h"
#include "worker/job.h"

enum { SAVER_FLIGHTS = MEMBER_SAVES_MAX, SAVER_THREADS = 3 };

struct saver;

struct saver_hooks {
    void *self;
    void (*on_copied)(void *self); /* the state may change again, as far as this shard goes */
    void (*on_shard)(void *self, const struct wire_tag *tag, bool ok, uint64_t bytes,
                     uint64_t checksum);
    void (*on_manifest)(void *self, const struct wire_tag *tag, bool ok, uint64_t step);
};

struct saver *saver_start(const struct job *job, const struct saver_hooks *hooks,
                          struct error *ret_error);
struct store *saver_store(struct saver *saver);
/* The equal share of member `index` of `count`: what is saved of a job whose optimizer is not
 * sharded. Room for tensor_count + 1 ranges. */
uint32_t saver_share(const struct saver *saver, const int16_t *scale, uint32_t index,
                     uint32_t count, struct ckpt_range *ret_range);
/* Snapshot of these ranges for the checkpoint that `turn` orders of member `index`. Ranges of
 * tensors of kind "scales" are copied at once. Ends in on_copied and on_shard, whatever happens. No
 * more than SAVER_FLIGHTS between order and on_shard. */
void saver_order(struct saver *saver, const struct wire_turn *turn, uint32_t index,
                 const struct ckpt_range *range, uint32_t range_count);
/* Call before the state changes. Returns the microseconds that it waited, 0 if all was copied. */
uint64_t saver_barrier(struct saver *saver);
/* Leader: all shards of `save` are written. Ends in on_manifest. */
void saver_manifest(struct saver *saver, const struct member_save *save);
/* Leader: this checkpoint will not be. */
void saver_abandon(struct saver *saver, const struct member_save *save);
void saver_trust(struct saver *saver, uint64_t step); /* loaded, so verified */
void saver_stop(struct saver *saver);                 /* finishes what is queued; NULL is fine */

#endif
