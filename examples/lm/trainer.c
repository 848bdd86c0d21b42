#include "trainer.h"
#include "base/mem.h"
#include "ops.h"
#include <string.h>
#include <xxhash.h>

static bool allocate(struct trainer *trainer, struct error *ret_error)
{
    size_t count = trainer->model.param_count, context = trainer->model.config.context;
    trainer->params = mem_alloc(count * sizeof *trainer->params);
    trainer->mean = mem_zalloc(count, sizeof *trainer->mean);
    trainer->variance = mem_zalloc(count, sizeof *trainer->variance);
    trainer->sequences = mem_alloc(trainer->batch * (context + 1) * sizeof *trainer->sequences);
    if (trainer->params != NULL && trainer->mean != NULL && trainer->variance != NULL &&
        trainer->sequences != NULL)
        return true;
    return error_set(ret_error, "out of memory for %zu parameters: use a smaller --width", count);
}

bool trainer_open(struct trainer *ret_trainer, const struct lm_options *options, uint64_t steps,
                  struct error *ret_error)
{
    *ret_trainer = (struct trainer){.batch = options->slot.batch};
    struct trainer *trainer = ret_trainer;
    trainer->adamw = adamw_defaults(options->rate, steps);
    if (model_build(&trainer->model, &options->model, ret_error) &&
        data_open(&trainer->data, options->data, options->model.context, options->seed,
                  ret_error) &&
        allocate(trainer, ret_error)) {
        trainer->slot = slot_make(&trainer->model, &options->slot, ret_error);
        if (trainer->slot != NULL) {
            model_init(&trainer->model, options->seed, trainer->params);
            return true;
        }
    }
    trainer_close(trainer);
    return false;
}

void trainer_close(struct trainer *trainer)
{
    slot_free(trainer->slot);
    data_close(&trainer->data);
    mem_free(trainer->sequences);
    mem_free(trainer->variance);
    mem_free(trainer->mean);
    mem_free(trainer->params);
    *trainer = (struct trainer){0};
}

uint64_t trainer_identity(const struct trainer *trainer, const struct lm_options *options)
{
    const struct model_config *model = &trainer->model.config;
    const struct adamw_options *adamw = &trainer->adamw;
    const uint64_t counts[] = {model->layers,  model->width,        model->heads,
                               model->context, model->vocabulary,   model->tied,
                               trainer->batch, options->slot.parts, options->seed,
                               adamw->steps,   adamw->warmup_steps};
    const float factors[] = {adamw->peak_rate, adamw->final_share, adamw->beta1, adamw->beta2,
                             adamw->epsilon,   adamw->decay,       adamw->clip};
    const char *kernels = gemm_kernels();
    uint64_t hash = XXH3_64bits(counts, sizeof counts);
    hash = XXH3_64bits_withSeed(factors, sizeof factors, hash);
    hash = XXH3_64bits_withSeed(kernels, strlen(kernels), hash);
    hash = XXH3_64bits_withSeed(trainer->data.bytes, trainer->data.count, hash);
    return hash == 0 ? 1 : hash; /* 0 would mean: no identity */
}

float trainer_compute(struct trainer *trainer, const uint64_t *samples, float *gradient)
{
    size_t length = trainer->model.config.context + 1;
    for (uint32_t i = 0; i < trainer->batch; i++)
        data_sample(&trainer->data, samples[i], trainer->sequences + i * length);
    return slot_compute(trainer->slot, trainer->params, trainer->sequences, gradient);
}

void trainer_apply(struct trainer *trainer, uint64_t step, const float *gradient)
{
    adamw_apply(&trainer->model, &trainer->adamw, step, gradient, trainer->params, trainer->mean,
                trainer->variance);
}
