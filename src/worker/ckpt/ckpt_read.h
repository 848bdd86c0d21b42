/* Reading a checkpoint: pieces in parallel, each checked before it is believed.
 *
 * Sinks      Where elements of tensors are to go; any ranges, of any number of readers: this is all
 *            there is to resharding. They must not overlap. Only pieces that a sink needs are read.
 * Check      ckpt_verify() reads everything, the files' headers too.
 * Errors     The sentence names file, tensor and offset of the first piece that is wrong; sinks then
 *            hold rubbish.
 */
#ifndef SHOAL_WORKER_CKPT_CKPT_READ_H
#define SHOAL_WORKER_CKPT_CKPT_READ_H

#include "worker/ckpt/ckpt_manifest.h"
#include "worker/store/store.h"

enum { CKPT_READ_THREADS = 4 };

struct ckpt_sink {
    uint32_t tensor;
    uint64_t first, count;
    void *bytes; /* of element `first` */
};

bool ckpt_read(struct store *store, const struct ckpt_manifest *manifest,
               const struct ckpt_sink *sink, uint32_t sink_count, uint32_t threads,
               struct error *ret_error) WARN_UNUSED;
bool ckpt_verify(struct store *store, const struct ckpt_manifest *manifest, uint32_t threads,
                 struct error *ret_error) WARN_UNUSED;

#endif
