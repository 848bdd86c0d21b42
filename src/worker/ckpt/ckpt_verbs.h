/* The verbs of `shoal ckpt`, for ckpt_main.c. Each prints its answer and returns the exit status: 0
 * fine, 1 refused, damaged or different (one sentence on stderr unless it is the answer).
 */
#ifndef SHOAL_WORKER_CKPT_CKPT_VERBS_H
#define SHOAL_WORKER_CKPT_CKPT_VERBS_H

#include "worker/ckpt/ckpt_store.h"
#include <jansson.h>

struct ckpt_arguments {
    const char *verb, *address, *other, *out;
    bool json, help, has_step, has_other_step, dry_run, all, with_state;
    uint64_t step, other_step, shards, max_bytes;
    struct store *store; /* of `address` */
};

int ckpt_verb_ls(const struct ckpt_arguments *arguments);
int ckpt_verb_verify(const struct ckpt_arguments *arguments);
int ckpt_verb_digest(const struct ckpt_arguments *arguments);
int ckpt_verb_gc(const struct ckpt_arguments *arguments);
int ckpt_verb_diff(const struct ckpt_arguments *arguments);
int ckpt_verb_merge(const struct ckpt_arguments *arguments);
int ckpt_verb_reshard(const struct ckpt_arguments *arguments);

/* What they share. */
void ckpt_print_json(json_t *value);        /* takes the reference; NULL: out of memory, nothing */
int ckpt_refuse(const struct error *error); /* prints it; 1 */
/* The manifest of the step asked for, or of the newest. */
bool ckpt_pick(struct store *store, bool has_step, uint64_t step,
               struct ckpt_manifest *ret_manifest, struct error *ret_error) WARN_UNUSED;

#endif
