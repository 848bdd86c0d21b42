#include "trainer.h"
#include "base/mem.h"
#include "ops.h"
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { CREW_WORTH = 1 << 15 }; /* elements; waking the crew takes as long as applying these */

static const float EVAL_SCALE = 0x1p-40f;

static void add_extra(struct trainer *trainer, const char *name, uint64_t rows, uint64_t columns)
{
    struct model_tensor *extra = &trainer->extras[trainer->extra_count++];
    *extra = (struct model_tensor){.offset = trainer->element_count,
                                   .count = (size_t)(rows * (columns == 0 ? 1 : columns)),
                                   .shape = {rows, columns},
                                   .dims = columns == 0 ? 1 : 2};
    (void)snprintf(extra->name, sizeof extra->name, "%s", name); /* fits */
    trainer->element_count += extra->count;
}

static void lay_out_extras(struct trainer *trainer)
{
    uint32_t merges = trainer->data.tokenizer.vocabulary - TOKENIZER_BYTES;
    trainer->element_count = trainer->model.param_count;
    add_extra(trainer, "eval.loss", 1, 0);
    add_extra(trainer, "lm.config", NOTE_COUNT, 0);
    if (merges > 0) add_extra(trainer, "lm.merges", merges, 2);
}

/* ORDER: trainer_note */
static void set_notes(struct trainer *trainer)
{
    const struct model_config *config = &trainer->model.config;
    const uint32_t notes[NOTE_COUNT] = {NOTE_FORMAT_NOW, config->layers,  config->width,
                                        config->heads,   config->context, config->vocabulary,
                                        config->tied};
    const struct tokenizer *tokenizer = &trainer->data.tokenizer;
    float *to = trainer->params + trainer->model.param_count;
    *to++ = 0; /* no evaluation yet */
    for (uint32_t i = 0; i < NOTE_COUNT; i++) *to++ = (float)notes[i];
    for (uint32_t i = 0; i < tokenizer->vocabulary - TOKENIZER_BYTES; i++) {
        *to++ = (float)tokenizer->merges[i].left;
        *to++ = (float)tokenizer->merges[i].right;
    }
}

static bool allocate(struct trainer *trainer, struct error *ret_error)
{
    size_t count = trainer->element_count, context = trainer->model.config.context;
    trainer->params = mem_alloc(count * sizeof *trainer->params);
    trainer->sequences = mem_alloc(trainer->batch * (context + 1) * sizeof *trainer->sequences);
    if (trainer->params != NULL && trainer->sequences != NULL) return true;
    return error_set(ret_error, "out of memory for %zu parameters: use a smaller --width", count);
}

static bool make_workers(struct trainer *trainer, const struct lm_options *options,
                         struct error *ret_error)
{
    if (options->threads > options->parts)
        return error_set(ret_error, "--threads %u: use 1 to --parts %u", options->threads,
                         options->parts);
    trainer->crew = crew_make(options->threads, ret_error);
    if (trainer->crew == NULL) return false;
    const struct slot_options slot = {
        .batch = options->batch, .parts = options->parts, .dropout = dropout_of(options->dropout)};
    trainer->slot = slot_make(&trainer->model, &slot, trainer->crew, ret_error);
    return trainer->slot != NULL;
}

/* As many windows as the slots have samples, or all there are. */
static uint32_t windows_to_evaluate(const struct trainer *trainer)
{
    uint64_t windows = trainer->data.held_out.window_count;
    uint64_t most = (uint64_t)trainer->slots * trainer->batch;
    return (uint32_t)(windows < most ? windows : most);
}

bool trainer_open(struct trainer *ret_trainer, const struct lm_options *options,
                  struct error *ret_error)
{
    *ret_trainer = (struct trainer){
        .batch = options->batch, .slots = options->slots, .eval_every = options->eval_every};
    struct trainer *trainer = ret_trainer;
    const struct data_options data = {.context = options->model.context,
                                      .vocabulary = options->model.vocabulary,
                                      .held_out_percent = options->held_out_percent,
                                      .seed = options->seed};
    trainer->adamw = adamw_of_job(&options->adamw, options->steps);
    bool opened = model_build(&trainer->model, &options->model, ret_error) &&
                  data_open(&trainer->data, options->data, &data, ret_error);
    if (opened) lay_out_extras(trainer);
    if (!opened || !allocate(trainer, ret_error) || !make_workers(trainer, options, ret_error)) {
        trainer_close(trainer);
        return false;
    }
    trainer->eval_windows = windows_to_evaluate(trainer);
    model_init(&trainer->model, options->seed, trainer->params);
    set_notes(trainer);
    return true;
}

void trainer_close(struct trainer *trainer)
{
    slot_free(trainer->slot);
    crew_free(trainer->crew);
    data_close(&trainer->data);
    mem_free(trainer->sequences);
    mem_free(trainer->params);
    *trainer = (struct trainer){0};
}

uint64_t trainer_identity(const struct trainer *trainer, const struct lm_options *options)
{
    const struct model_config *model = &trainer->model.config;
    const struct adamw_options *adamw = &trainer->adamw;
    const uint64_t counts[] = {model->layers,
                               model->width,
                               model->heads,
                               model->context,
                               model->vocabulary,
                               model->tied,
                               trainer->batch,
                               options->parts,
                               options->seed,
                               adamw->steps,
                               adamw->warmup_steps,
                               dropout_of(options->dropout).threshold,
                               options->held_out_percent,
                               options->eval_every};
    const float factors[] = {adamw->peak_rate, adamw->final_share, adamw->beta1, adamw->beta2,
                             adamw->epsilon,   adamw->decay,       adamw->clip};
    const struct tokenizer *tokenizer = &trainer->data.tokenizer;
    const char *kernels = gemm_kernels();
    uint64_t hash = XXH3_64bits(counts, sizeof counts);
    hash = XXH3_64bits_withSeed(factors, sizeof factors, hash);
    hash = XXH3_64bits_withSeed(kernels, strlen(kernels), hash);
    hash = XXH3_64bits_withSeed(
        tokenizer->merges, (tokenizer->vocabulary - TOKENIZER_BYTES) * sizeof *tokenizer->merges,
        hash);
    hash = XXH3_64bits_withSeed(trainer->data.bytes, trainer->data.count, hash);
    return hash == 0 ? 1 : hash; /* 0 would mean: no identity */
}

uint32_t trainer_tensor_count(const struct trainer *trainer)
{
    return trainer->model.tensor_count + trainer->extra_count;
}

const struct model_tensor *trainer_tensor(const struct trainer *trainer, uint32_t index)
{
    uint32_t count = trainer->model.tensor_count;
    return index < count ? &trainer->model.tensors[index] : &trainer->extras[index - count];
}

bool trainer_evaluates(const struct trainer *trainer, uint64_t step)
{
    return trainer->eval_every > 0 && step % trainer->eval_every == 0;
}

float trainer_evaluation(const struct trainer *trainer)
{
    return trainer->params[trainer->model.param_count];
}

/* Sum of the losses of evaluated windows [first, end). They are spread evenly over the text. */
static double held_out_loss(struct trainer *trainer, uint32_t first, uint32_t end)
{
    size_t length = trainer->model.config.context + 1;
    double sum = 0;
    while (first < end) {
        uint32_t count = end - first < trainer->batch ? end - first : trainer->batch;
        for (uint32_t i = 0; i < count; i++)
            data_held_out(&trainer->data,
                          (first + i) * trainer->data.held_out.window_count / trainer->eval_windows,
                          trainer->sequences + i * length);
        sum += slot_loss(trainer->slot, trainer->params, trainer->sequences, count);
        first += count;
    }
    return sum;
}

double trainer_evaluate(struct trainer *trainer)
{
    double positions = (double)trainer->eval_windows * trainer->model.config.context;
    return held_out_loss(trainer, 0, trainer->eval_windows) / positions;
}

/* A slot's gradient of the evaluation: the mean over slots is the mean loss over all windows. In
 * other steps the old result, so that the scale of its exact sum stays what it was. */
static float evaluation_share(struct trainer *trainer, uint64_t step, uint32_t slot)
{
    if (!trainer_evaluates(trainer, step)) return EVAL_SCALE * trainer_evaluation(trainer);
    uint64_t windows = trainer->eval_windows;
    uint32_t first = (uint32_t)(windows * slot / trainer->slots);
    uint32_t end = (uint32_t)(windows * (slot + 1) / trainer->slots);
    double positions = (double)windows * trainer->model.config.context;
    double mean = held_out_loss(trainer, first, end) / positions;
    return EVAL_SCALE * (float)(mean * trainer->slots);
}

float trainer_compute(struct trainer *trainer, const struct trainer_slot *work, float *gradient,
                      const struct slot_watch *watch)
{
    size_t length = trainer->model.config.context + 1, first = trainer->model.param_count;
    size_t extras = trainer->element_count - first;
    memset(gradient + first, 0, extras * sizeof *gradient);
    gradient[first] = evaluation_share(trainer, work->step, work->slot);
    for (uint32_t i = 0; i < trainer->batch; i++)
        data_sample(&trainer->data, work->samples[i], trainer->sequences + i * length);
    float loss = slot_compute(trainer->slot, trainer->params, trainer->sequences, work->noise_key,
                              gradient, watch);
    if (watch != NULL) watch->ready(watch->context, first, extras);
    return loss;
}

struct apply {
    struct trainer *trainer;
    struct adamw_scales scales;
    const struct trainer_range *range; /* of a tensor of the model */
};

static void apply_run(const struct apply *apply, size_t first, size_t end)
{
    const struct trainer_range *range = apply->range;
    adamw_range(&apply->scales, model_decays(&apply->trainer->model.tensors[range->tensor]),
                end - first, range->gradient + first, range->params + first, range->mean + first,
                range->variance + first);
}

/* A member's share of a range: each element has its bits from its own numbers alone. */
static void apply_share(void *context, uint32_t member)
{
    const struct apply *apply = context;
    size_t count = apply->range->count, members = crew_count(apply->trainer->crew);
    apply_run(apply, count * member / members, count * (member + 1) / members);
}

void trainer_apply(struct trainer *trainer, const struct trainer_range *range)
{
    uint32_t extra = range->tensor - trainer->model.tensor_count; /* wraps for the model's own */
    if (range->tensor < trainer->model.tensor_count) {
        struct apply apply = {trainer, adamw_scales(&trainer->adamw, range->step, range->norm),
                              range};
        if (range->count < CREW_WORTH)
            apply_run(&apply, 0, range->count);
        else
            crew_run(trainer->crew, apply_share, &apply);
    } else if (extra == 0 && range->count == 1 && trainer_evaluates(trainer, range->step)) {
        range->params[0] = range->gradient[0] / EVAL_SCALE;
    } /* notes stay as they are */
}
