/* lm: trains a GPT as a worker of an elastic job, or alone; writes text by a checkpoint. The example
 * to read for how a program uses libshoal: join() hands over the tensors, run() is the loop. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "ops.h"
#include "saved.h"
#include "trainer.h"
#include <errno.h>
#include <inttypes.h>
#include <shoal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_STEPS = 200, DEFAULT_SLOTS = 32, BATCH_MAX = 1024 /* of --batch */ };

/* 0 for what is not a number: shoal_join() then looks for itself and says what is wrong. */
static uint64_t environment_number(const char *name, uint64_t max, uint64_t otherwise)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') return otherwise;
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    return *end == '\0' && value <= max ? value : 0;
}

/* params: one per tensor of the trainer; they hold its memory, not their own. */
static bool name_tensors(const struct trainer *trainer, struct shoal_tensor **ret_params,
                         struct error *ret_error)
{
    uint32_t count = trainer_tensor_count(trainer);
    *ret_params = mem_zalloc(count, sizeof **ret_params);
    if (*ret_params == NULL) return error_set(ret_error, "out of memory");
    for (uint32_t i = 0; i < count; i++) {
        const struct model_tensor *tensor = trainer_tensor(trainer, i);
        (*ret_params)[i] = (struct shoal_tensor){.name = tensor->name,
                                                 .data = trainer->params + tensor->offset,
                                                 .shape = {tensor->shape[0], tensor->shape[1]},
                                                 .dims = tensor->dims};
    }
    return true;
}

/* The library keeps Adam's two moments, in shards over the workers. */
static struct shoal *join(const struct lm_options *options, const struct trainer *trainer,
                          const struct shoal_tensor *params, struct error *ret_error)
{
    static const char *const moments[] = {"adamw.mean", "adamw.variance"};
    struct shoal_options shoal = {.params = params,
                                  .param_count = trainer_tensor_count(trainer),
                                  .moment_count = 2,
                                  .moment_names = moments,
                                  .slots = options->slots,
                                  .steps = options->steps,
                                  .samples_per_slot = options->batch,
                                  .tokens_per_sample = options->model.context,
                                  .checkpoint_dir = options->checkpoint,
                                  .checkpoint_every = options->checkpoint_every,
                                  .identity = trainer_identity(trainer, options)};
    return shoal_join(&shoal, ret_error->text, sizeof ret_error->text);
}

/* Better now than after hours: a local folder that cannot be made or written in is refused. */
static bool check_checkpoint_folder(const struct lm_options *options, struct error *ret_error)
{
    const char *dir = options->checkpoint, *set = getenv("SHOAL_CHECKPOINT_DIR");
    if (dir == NULL) {
        if (options->checkpoint_every == 0 || (set != NULL && set[0] != '\0')) return true;
        return error_set(ret_error, "--checkpoint-every needs --checkpoint DIR");
    }
    if (strstr(dir, "://") != NULL) return true; /* the library knows what that is */
    if (!io_make_dirs(dir, ret_error)) return error_prefix(ret_error, "--checkpoint");
    if (access(dir, W_OK) == 0) return true;
    return error_set(ret_error, "--checkpoint %s: cannot write there: %s; give a folder of yours",
                     dir, error_errno(errno));
}

struct run {
    struct shoal *job;
    const struct lm_options *options;
    struct trainer *trainer;
    bool alone;       /* no agent: progress is printed, not reported by libshoal */
    int64_t last_us;  /* of the last progress line */
    bool eval_to_say; /* this worker computed slot 0 of the step that evaluated: it says so */
    uint64_t eval_step;
};

static void print_progress(struct run *run, const struct shoal_work *work)
{
    uint64_t done = work->step + 1, steps = run->options->steps;
    if (done % run->options->report_every != 0 && done != 1 && done != steps) return;
    int64_t now_us = clock_monotonic_us();
    printf("step %" PRIu64 "/%" PRIu64 "  loss %.4f  rate %.5f  %.1f s\n", done, steps,
           (double)work->loss, (double)adamw_rate(&run->trainer->adamw, work->step),
           (double)(now_us - run->last_us) * 1e-6);
    (void)fflush(stdout); /* progress only */
    run->last_us = now_us;
}

/* Once the step that evaluated is over, here and everywhere. */
static void print_evaluation(struct run *run)
{
    if (!run->eval_to_say) return;
    run->eval_to_say = false;
    printf("eval after step %" PRIu64 ": loss %.4f on %u held-out windows\n", run->eval_step,
           (double)trainer_evaluation(run->trainer), run->trainer->eval_windows);
    (void)fflush(stdout); /* progress only */
}

/* Layers that the backward pass is done with are added, and travel, while it goes on. */
static void tell_ready(void *job, size_t first, size_t count)
{
    shoal_ready(job, first, count);
}

static void compute(struct run *run, const struct shoal_work *work)
{
    const struct slot_watch watch = {tell_ready, run->job};
    uint64_t samples[BATCH_MAX];
    for (uint32_t i = 0; i < run->trainer->batch; i++)
        samples[i] = shoal_sample(run->job, work->step, work->slot, i);
    const struct trainer_slot slot = {
        .step = work->step,
        .slot = work->slot,
        .noise_key = shoal_random(run->options->seed, work->step, work->slot, 0 /* dropout */),
        .samples = samples};
    shoal_submit(run->job, trainer_compute(run->trainer, &slot, work->gradient, &watch));
    if (work->slot != 0 || !trainer_evaluates(run->trainer, work->step)) return;
    run->eval_to_say = true;
    run->eval_step = work->step;
}

static void apply(struct run *run, const struct shoal_work *work)
{
    const struct trainer_range range = {.step = work->step,
                                        .norm = work->gradient_norm,
                                        .tensor = work->tensor,
                                        .count = work->count,
                                        .gradient = work->gradient,
                                        .params = work->weights,
                                        .mean = work->moment[0],
                                        .variance = work->moment[1]};
    trainer_apply(run->trainer, &range);
    if (run->alone && work->last) print_progress(run, work);
}

static void loop(struct run *run)
{
    struct shoal_work work;
    while (shoal_next(run->job, &work)) {
        if (work.step > run->eval_step) print_evaluation(run);
        if (work.kind == SHOAL_COMPUTE)
            compute(run, &work);
        else if (work.kind == SHOAL_APPLY)
            apply(run, &work);
    }
}

static bool write_sample(const struct lm_options *options, const struct trainer *trainer,
                         struct error *ret_error)
{
    struct generate_options sample = options->generate;
    sample.count = options->sample_count;
    bool written = generate_text(&trainer->model, trainer->params, &trainer->data.tokenizer,
                                 &sample, stdout, ret_error);
    if (written) printf("\n");
    return written;
}

static bool finish(struct run *run, struct error *ret_error)
{
    const char *reason;
    bool all_done = shoal_ended(run->job, &reason) == SHOAL_DONE;
    if (all_done) print_evaluation(run);
    if (shoal_close(run->job) != 0) return error_set(ret_error, "training did not finish");
    if (!all_done) return true; /* left as told */
    if (run->alone && run->options->eval_every > 0)
        printf("eval at the end: loss %.4f on %u held-out windows\n",
               trainer_evaluate(run->trainer), run->trainer->eval_windows);
    return run->options->sample_count == 0 || write_sample(run->options, run->trainer, ret_error);
}

static bool train(const struct lm_options *options, struct error *ret_error)
{
    struct trainer trainer;
    struct shoal_tensor *params = NULL;
    struct run run = {.options = options,
                      .trainer = &trainer,
                      .alone = getenv("SHOAL_AGENT_FD") == NULL,
                      .last_us = clock_monotonic_us()};
    if (!check_checkpoint_folder(options, ret_error)) return false;
    if (!trainer_open(&trainer, options, ret_error)) return false;
    bool done = name_tensors(&trainer, &params, ret_error);
    if (done) run.job = join(options, &trainer, params, ret_error);
    done = run.job != NULL;
    if (done) {
        loop(&run);
        done = finish(&run, ret_error);
    }
    mem_free(params);
    trainer_close(&trainer);
    return done;
}

static bool generate(const struct lm_options *options, struct error *ret_error)
{
    struct saved saved;
    if (!saved_open(&saved, options->checkpoint, ret_error)) return false;
    bool written = generate_text(&saved.model, saved.params, &saved.tokenizer, &options->generate,
                                 stdout, ret_error);
    if (written) printf("\n");
    saved_close(&saved);
    return written;
}

int main(int argc, char **argv)
{
    struct lm_options options;
    struct error error = {0};
    switch (options_parse(argc, argv, &options, &error)) {
    case OPTIONS_HELP: (void)fputs(options_help, stdout); return 0;
    case OPTIONS_WRONG: fprintf(stderr, "lm: %s\n", error.text); return 2;
    case OPTIONS_RUN: break;
    }
    gemm_pin_kernels(argv);
    gemm_set_threads(1);
    if (options.steps == 0)
        options.steps = environment_number("SHOAL_STEPS", INT64_MAX, DEFAULT_STEPS);
    if (options.slots == 0)
        options.slots = (uint32_t)environment_number("SHOAL_SLOTS", SHOAL_SLOTS_MAX, DEFAULT_SLOTS);
    if (options.generate.count > 0 ? generate(&options, &error) : train(&options, &error)) return 0;
    fprintf(stderr, "lm: %s\n", error.text);
    return 1;
}
