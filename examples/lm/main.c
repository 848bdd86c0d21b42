/* lm: trains a byte-level GPT as a worker of an elastic job, or alone. The example to read for how
 * a program uses libshoal: join() hands over the tensors, run() is the loop. */
#include "base/clock.h"
#include "base/mem.h"
#include "generate.h"
#include "ops.h"
#include "trainer.h"
#include <inttypes.h>
#include <shoal.h>
#include <stdio.h>
#include <stdlib.h>

enum { STATE_NAME_BYTES = MODEL_NAME_BYTES + 16, DEFAULT_STEPS = 200, DEFAULT_SLOTS = 32 };

/* What shoal_join() is told about the tensors; the names of the moments live here. */
struct tensor_list {
    struct shoal_tensor *params, *state;
    char (*names)[STATE_NAME_BYTES];
    uint32_t count; /* of params; state has twice as many */
};

static struct shoal_tensor tensor_of(const struct model_tensor *tensor, const char *name,
                                     float *flat)
{
    return (struct shoal_tensor){.name = name,
                                 .data = flat + tensor->offset,
                                 .shape = {tensor->shape[0], tensor->shape[1]},
                                 .dims = tensor->dims};
}

static void list_free(struct tensor_list *list)
{
    mem_free(list->names);
    mem_free(list->state);
    mem_free(list->params);
}

static bool list_make(struct tensor_list *ret_list, const struct trainer *trainer,
                      struct error *ret_error)
{
    uint32_t count = trainer->model.tensor_count;
    struct tensor_list list = {.count = count};
    list.params = mem_zalloc(count, sizeof *list.params);
    list.state = mem_zalloc(2 * (size_t)count, sizeof *list.state);
    list.names = mem_zalloc(2 * (size_t)count, sizeof *list.names);
    if (list.params == NULL || list.state == NULL || list.names == NULL) {
        list_free(&list);
        return error_set(ret_error, "out of memory");
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct model_tensor *tensor = &trainer->model.tensors[i];
        char *mean = list.names[2 * i], *variance = list.names[2 * i + 1];
        (void)snprintf(mean, STATE_NAME_BYTES, "adamw.mean.%s", tensor->name); /* fits */
        (void)snprintf(variance, STATE_NAME_BYTES, "adamw.variance.%s", tensor->name);
        list.params[i] = tensor_of(tensor, tensor->name, trainer->params);
        list.state[2 * i] = tensor_of(tensor, mean, trainer->mean);
        list.state[2 * i + 1] = tensor_of(tensor, variance, trainer->variance);
    }
    *ret_list = list;
    return true;
}

/* 0 for what is not a number: shoal_join() then looks for itself and says what is wrong. */
static uint64_t environment_number(const char *name, uint64_t max, uint64_t otherwise)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') return otherwise;
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    return *end == '\0' && value <= max ? value : 0;
}

static struct shoal *join(const struct lm_options *options, const struct trainer *trainer,
                          const struct tensor_list *list, struct error *ret_error)
{
    struct shoal_options shoal = {.params = list->params,
                                  .state = list->state,
                                  .param_count = list->count,
                                  .state_count = 2 * list->count,
                                  .slots = options->slots,
                                  .steps = options->steps,
                                  .samples_per_slot = options->slot.batch,
                                  .tokens_per_sample = options->model.context,
                                  .checkpoint_dir = options->checkpoint,
                                  .checkpoint_every = options->checkpoint_every,
                                  .identity = trainer_identity(trainer, options)};
    return shoal_join(&shoal, ret_error->text, sizeof ret_error->text);
}

/* Progress of a worker under an agent goes to the agent through libshoal; alone it is printed. */
static void report(const struct lm_options *options, const struct trainer *trainer,
                   const struct shoal_work *work, int64_t *last_us)
{
    uint64_t done = work->step + 1;
    if (done % options->report_every != 0 && done != 1 && done != options->steps) return;
    int64_t now_us = clock_monotonic_us();
    printf("step %" PRIu64 "/%" PRIu64 "  loss %.4f  rate %.5f  %.1f s\n", done, options->steps,
           (double)work->loss, (double)adamw_rate(&trainer->adamw, work->step),
           (double)(now_us - *last_us) * 1e-6);
    (void)fflush(stdout); /* progress only */
    *last_us = now_us;
}

static void run(struct shoal *job, const struct lm_options *options, struct trainer *trainer)
{
    bool alone = getenv("SHOAL_AGENT_FD") == NULL;
    int64_t last_us = clock_monotonic_us();
    uint64_t samples[1024]; /* --batch is at most 1024 */
    struct shoal_work work;
    while (shoal_next(job, &work)) {
        if (work.kind == SHOAL_COMPUTE) {
            for (uint32_t i = 0; i < trainer->batch; i++)
                samples[i] = shoal_sample(job, work.step, work.slot, i);
            shoal_submit(job, trainer_compute(trainer, samples, work.gradient));
        } else {
            trainer_apply(trainer, work.step, work.gradient);
            if (alone) report(options, trainer, &work, &last_us);
        }
    }
}

static bool write_sample(const struct lm_options *options, const struct trainer *trainer,
                         struct error *ret_error)
{
    char *text = mem_alloc(options->sample_bytes);
    if (text == NULL) return error_set(ret_error, "out of memory for --sample");
    bool written = generate_text(&trainer->model, trainer->params, options->seed,
                                 options->sample_bytes, text, ret_error);
    if (written) printf("%.*s\n", (int)options->sample_bytes, text);
    mem_free(text);
    return written;
}

static bool train(const struct lm_options *options, struct error *ret_error)
{
    struct trainer trainer;
    struct tensor_list list = {0};
    struct shoal *job = NULL;
    if (!trainer_open(&trainer, options, options->steps, ret_error)) return false;
    bool done = list_make(&list, &trainer, ret_error);
    if (done) job = join(options, &trainer, &list, ret_error);
    done = job != NULL;
    if (done) {
        run(job, options, &trainer);
        if (shoal_close(job) != 0) done = error_set(ret_error, "training did not finish");
    }
    if (done && options->sample_bytes > 0) done = write_sample(options, &trainer, ret_error);
    list_free(&list);
    trainer_close(&trainer);
    return done;
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
    if (train(&options, &error)) return 0;
    fprintf(stderr, "lm: %s\n", error.text);
    return 1;
}
