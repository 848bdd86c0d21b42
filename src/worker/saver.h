/* Writes checkpoints in the background: a thread of its own, so that training only pays for the
 * copy of this worker's share of the state.
 *
 * Order      saver_copy() on the program's thread at the step boundary; the thread writes the shard
 *            (temporary file, fsync, rename), then `on_shard`; the leader, told by all, orders the
 *            manifest, then `on_manifest`. Hooks run on the saver's thread without locks held.
 * Memory     The shard's copy stays for the next checkpoint: 1/W of the state in a group of W.
 * Errors     Training goes on, older checkpoints stay, leftovers are removed. The sentence is
 *            printed once until a write succeeds again.
 */
#ifndef SHOAL_WORKER_SAVER_H
#define SHOAL_WORKER_SAVER_H

#include "worker/core/member.h"
#include "worker/job.h"

struct saver;

struct saver_hooks {
    void *self;
    void (*on_shard)(void *self, bool ok, uint64_t bytes, uint64_t checksum);
    void (*on_manifest)(void *self, bool ok, uint64_t step);
};

struct saver *saver_start(const struct job *job, const int16_t *scale,
                          const struct saver_hooks *hooks, struct error *ret_error);
/* Copies the share that `order` asks of member `index`. Ends in on_shard, whatever happens. */
void saver_copy(struct saver *saver, const struct wire_turn *order, uint32_t index);
/* Leader: all shards of `save` are written. Ends in on_manifest. */
void saver_manifest(struct saver *saver, const struct member_save *save);
/* Leader: this checkpoint will not be. */
void saver_abandon(struct saver *saver, const struct member_save *save);
void saver_trust(struct saver *saver, uint64_t step); /* loaded, so verified */
void saver_stop(struct saver *saver);                 /* finishes what is queued; NULL is fine */

#endif
