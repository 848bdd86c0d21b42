/* What a job is, as its program described it: tensors, slots, steps, folders, checked and laid out.
 *
 * Role       Shared by every part of libshoal; fixed after job_init().
 * Shapes     Gradient: all params one after another, plus ONE element, the loss of the slot, in a
 *            tensor and block of its own: so the mean loss is reduced by the same exact sum.
 *            Weights: params, then state, in the order given.
 * Ownership  Tensors stay the caller's; everything else here is freed by job_free().
 */
#ifndef SHOAL_WORKER_JOB_H
#define SHOAL_WORKER_JOB_H

#include "base/error.h"
#include "shoal.h"
#include "worker/core/layout.h"
#include "worker/core/wire.h"
#include <stddef.h>

enum { JOB_NAME_BYTES = 128, JOB_TENSORS_MAX = 65536, JOB_TOKEN_BYTES = 128 };

struct job_tensor {
    char name[JOB_NAME_BYTES];
    float *data;
    uint64_t element_count;
    uint64_t shape[SHOAL_DIMS_MAX];
    uint32_t dims;
    bool is_param;
};

struct job {
    struct job_tensor *tensors; /* params, then state */
    uint32_t tensor_count, param_count;
    uint32_t moment_count; /* sharded by the library; 0: none */
    char moment_name[SHOAL_MOMENTS_MAX][JOB_NAME_BYTES];
    float *moment[SHOAL_MOMENTS_MAX]; /* [elements of the layout], see moments.h */
    uint32_t slots, gang, samples_per_slot, tokens_per_sample;
    uint32_t checkpoint_every; /* steps; 0: never; MEMBER_SAVE_AUTO */
    uint64_t steps;
    char *checkpoint_dir; /* NULL: no checkpoints */
    uint64_t job_id, worker_id;
    uint64_t zone; /* hash of SHOAL_ZONE; 0: not set */
    uint64_t emulate_slot_us;
    enum shoal_on_nan on_nan; /* never UNSET */
    uint64_t gradient_count;  /* without the loss */
    uint64_t weight_count;    /* elements of params and state */
    uint64_t identity;        /* given by the program, see shoal.h; 0: none */
    uint64_t model;           /* hash over names and shapes of the tensors */
    uint8_t *marks;           /* [tensors][4] of name and shape, for peers */
    uint64_t plan;            /* model, slots, samples per slot, steps: peers must agree */
    struct layout layout;     /* of the gradient with the loss */
    char token[JOB_TOKEN_BYTES];
};

/* Reads options and the environment. On failure *job holds nothing to free. */
bool job_init(struct job *job, const struct shoal_options *options,
              struct error *ret_error) WARN_UNUSED;
void job_free(struct job *job);

/* A whole number of the environment, 0 .. maximum; not set: *value stays. */
bool job_read_number(const char *name, uint64_t maximum, uint64_t *value,
                     struct error *ret_error) WARN_UNUSED;

/* What a peer's job has that this one has not, as the end of a sentence about it: the first tensor
 * that differs by its name here, or slots, samples or steps. */
void job_difference(const struct job *job, const struct wire_hello *theirs, char *ret_text,
                    size_t text_bytes);

/* SHA-256 over all weights in order as little-endian float32; text[65]. */
void job_weights_sha256(const struct job *job, char text[65]);
/* A quick hash of the same bytes, to see whether two workers start from the same weights. */
uint64_t job_weights_hash(const struct job *job);

#endif
