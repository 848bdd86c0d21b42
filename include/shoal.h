/* libshoal: elastic, exact, data-parallel training for programs that bring their own maths.
 *
 * A job has V slots, fixed for its life. A step computes one gradient per slot; the library decides
 * which worker computes which slots, adds all V gradients exactly (the result has the same bits
 * whoever computed what, in any order), and hands every worker the mean. Workers may join, leave
 * and die at any moment; the final weights are bit-identical to a run on one worker, provided that
 * computing (step, slot) gives the same bits everywhere: the data and random numbers must depend on
 * (seed, step, slot) alone, see shoal_sample() and shoal_random().
 *
 *     struct shoal *job = shoal_join(&options, error, sizeof error);
 *     struct shoal_work work;
 *     while (shoal_next(job, &work)) {
 *         if (work.kind == SHOAL_COMPUTE) {
 *             float loss = my_backward(work.step, work.slot, work.gradient); // fills gradient
 *             shoal_submit(job, loss);
 *         } else if (work.kind == SHOAL_APPLY) {
 *             my_optimizer(work.step, work.gradient); // the mean over slots, read only
 *         }
 *     }
 *     int status = shoal_close(job); // 0: all steps done, or left as told
 *
 * Threads    Call from one thread. The library runs one more, for the network.
 * Ownership  Tensors stay the caller's and must outlive the job; the library reads and writes them
 *            only inside shoal_join(), shoal_next() and shoal_close(); but while a checkpoint is
 *            copied it reads params and state at other times too, so change them only for
 *            SHOAL_APPLY. work.gradient is the library's, valid until the next call.
 * Shapes     gradient: all params concatenated in the order given, row-major, float32.
 * Errors     shoal_join() returns NULL and a sentence. Later faults end the loop; shoal_close()
 *            tells.
 * Moments    Optimizer state with the shape of the params (two for Adam) can be left to the library:
 *            moment_count > 0. It is then sharded over the workers in proportion to their memory,
 *            each shard with a mirror elsewhere, and SHOAL_APPLY comes for ranges of one tensor, a
 *            few times a step, on some workers for a range and not on others:
 *                for (uint64_t i = 0; i < work.count; i++) // new weights in place
 *                    adam(&work.weights[i], work.gradient[i], &work.moment[0][i], ...);
 *            The result must depend on element, step and arguments alone: not on where a range
 *            begins or ends, or on other elements. All is zero before the first step. The params
 *            themselves change inside shoal_next(), once all workers have all new weights.
 * Identity   A checkpoint is resumed only by the run it belongs to, and peers must be of one run:
 *            tensors, slots, samples_per_slot and options.identity must agree. Give as identity a
 *            hash of everything else that decides the bits: seed, learning rate, steps if the
 *            schedule looks at them, the data's bytes, the kernels. Without it a resume with
 *            another seed goes on from weights that are not its own, and nobody notices.
 * Standalone Without an agent (no SHOAL_AGENT_FD) the program trains alone: one worker, all slots,
 *            same bits.
 */
#ifndef SHOAL_H
#define SHOAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SHOAL_SLOTS_MAX = 1024, SHOAL_DIMS_MAX = 4, SHOAL_MOMENTS_MAX = 4 };
enum { SHOAL_VERSION_MAJOR = 0, SHOAL_VERSION_MINOR = 1, SHOAL_VERSION_PATCH = 0 };

struct shoal_tensor {
    const char *name; /* unique among params and state; goes into checkpoints */
    float *data;      /* product(shape) values */
    uint64_t shape[SHOAL_DIMS_MAX];
    uint32_t dims; /* 0: a scalar */
};

/* When the mean gradient of a step holds NaN or Inf, which all workers see alike: go on with it, let
 * the step count without applying it (weights and moments stay), or end the job with a sentence
 * before it is applied. Steps so met are told in the log and in the record of progress. */
enum shoal_on_nan {
    SHOAL_NAN_UNSET, /* SHOAL_ON_NAN (continue, skip, stop); unset: continue */
    SHOAL_NAN_CONTINUE,
    SHOAL_NAN_SKIP,
    SHOAL_NAN_STOP
};

struct shoal_options {
    const struct shoal_tensor *params; /* have gradients */
    const struct shoal_tensor
        *state; /* optimizer moments and the like: streamed to joiners, in checkpoints */
    uint32_t param_count, state_count;
    uint32_t slots;             /* V, 1 .. SHOAL_SLOTS_MAX; 0: SHOAL_SLOTS of the environment */
    uint64_t steps;             /* 0: SHOAL_STEPS */
    uint32_t samples_per_slot;  /* how many samples shoal_sample() counts to a slot */
    uint32_t tokens_per_sample; /* for the tokens/s that progress shows; 0: 1 */
    const char *checkpoint_dir; /* NULL: SHOAL_CHECKPOINT_DIR; unset: no checkpoints */
    /* Steps, or SHOAL_CHECKPOINT_AUTO, or _NEVER (then only at the end, and when all leave). 0:
     * SHOAL_CHECKPOINT_EVERY (a number, auto, never; 0 is never); unset: auto. */
    uint32_t checkpoint_every;
    uint64_t identity;     /* hash of what decides the bits besides (step, slot); 0: none */
    uint32_t moment_count; /* 0 .. SHOAL_MOMENTS_MAX; not together with state */
    const char *const *moment_names; /* for checkpoints: "exp_avg" */
    uint32_t on_nan;                 /* enum shoal_on_nan */
};

/* AUTO: as often as pays, from what checkpoints cost and how often workers are lost, both measured
 * (Young's formula). */
#define SHOAL_CHECKPOINT_NEVER UINT32_MAX
#define SHOAL_CHECKPOINT_AUTO  (UINT32_MAX - 1)

enum shoal_work_kind { SHOAL_COMPUTE = 1, SHOAL_APPLY };

struct shoal_work {
    enum shoal_work_kind kind;
    uint64_t step;   /* 0-based step being computed or applied */
    uint32_t slot;   /* SHOAL_COMPUTE: 0 .. slots-1 */
    float *gradient; /* COMPUTE: write here, zeroed before. APPLY: mean over slots, read only */
    float loss;      /* APPLY: mean loss over slots */
    double gradient_norm; /* APPLY: L2 norm of the mean gradient, the same bits everywhere */
    /* APPLY with moments: elements [first, first + count) of params[tensor]; the pointers are to
     * element `first`. */
    uint32_t tensor;
    uint64_t first, count;
    float *weights; /* the old ones; the new ones are to be written here */
    float *moment[SHOAL_MOMENTS_MAX];
    uint8_t last; /* no more ranges in this step, on this worker */
};

struct shoal *shoal_join(const struct shoal_options *options, char *ret_error, size_t error_bytes);
bool shoal_next(struct shoal *job,
                struct shoal_work *ret_work);     /* false: over, see shoal_close() */
void shoal_submit(struct shoal *job, float loss); /* the gradient asked for is complete */
/* Optional, inside of a slot: elements [first, first + count) of work.gradient are final, for each
 * element at most once; the program neither reads nor writes them any more. They are added while
 * others are still being computed, and in a worker's last slot of a step they leave at once: call
 * it as the backward pass ends a layer. The result does not depend on it. */
void shoal_ready(struct shoal *job, uint64_t first, uint64_t count);
/* Optional, inside of a slot: from now on this thread waits for data, or computes again. A stall is
 * then told as what it is (shoal why); without it the kernel's view of the thread has to do. Taking
 * the slot counts as computing; submitting it ends whatever was said. */
enum shoal_phase { SHOAL_PHASE_COMPUTE, SHOAL_PHASE_DATA };
void shoal_phase(struct shoal *job, enum shoal_phase phase);
int shoal_close(
    struct shoal *job); /* 0 done or left as told; 1 failed (the sentence went to stderr) */

/* How the loop went, for programs that want more than the status of shoal_close(); ask once
 * shoal_next() has returned false and before shoal_close(). *ret_reason: the sentence that also went
 * to stderr when it failed, else ""; valid until shoal_close(). */
enum shoal_end { SHOAL_RUNNING, SHOAL_DONE, SHOAL_LEFT, SHOAL_FAILED };
enum shoal_end shoal_ended(const struct shoal *job, const char **ret_reason);

/* Position in the endless stream of samples of sample i of (step, slot): every sample is used
 * exactly once. */
uint64_t shoal_sample(const struct shoal *job, uint64_t step, uint32_t slot, uint32_t i);
/* Counter-based random bits: the same for the same arguments on every machine (SplitMix64 over the
 * words). */
uint64_t shoal_random(uint64_t seed, uint64_t step, uint32_t slot, uint64_t counter);

/* For programs that load libshoal.so at run time, such as the Python package: the version of the
 * library in use, major << 16 | minor << 8 | patch, and where the fields of the structs above lie.
 * A row without a name gives the size of its owner. A field added later lies anywhere, and zero
 * means that it is not used: so whoever sets fields by this table fits older and newer libraries. */
struct shoal_field {
    const char *owner, *name; /* "shoal_options", "slots"; name NULL: the struct itself */
    uint32_t offset, bytes;
};
uint32_t shoal_version(void);
const struct shoal_field *shoal_fields(uint32_t *ret_count);

#ifdef __cplusplus
}
#endif
#endif
