#include "shoal.h"
#include "base/mem.h"
#include "worker/core/quant.h"
#include "worker/job.h"
#include <stdio.h>
#include <string.h>

struct shoal {
    struct job job;
    int16_t *scale;
    float *gradient;
    struct quant_sum sum;
    uint64_t step;
    uint32_t next_slot;
    bool applying;
};

static void release(struct shoal *shoal)
{
    if (shoal == NULL) return;
    mem_free(shoal->scale);
    mem_free(shoal->gradient);
    mem_free(shoal->sum.sum);
    mem_free(shoal->sum.peak);
    mem_free(shoal->sum.odd);
    mem_free(shoal->sum.special);
    job_free(&shoal->job);
    mem_free(shoal);
}

static bool allocate(struct shoal *shoal)
{
    const struct layout *layout = &shoal->job.layout;
    shoal->scale = mem_zalloc(layout->block_count, sizeof *shoal->scale);
    shoal->gradient = mem_zalloc(layout->element_count, sizeof *shoal->gradient);
    shoal->sum.sum = mem_zalloc(layout->element_count, sizeof *shoal->sum.sum);
    shoal->sum.peak = mem_zalloc(layout->block_count, sizeof *shoal->sum.peak);
    shoal->sum.odd = mem_zalloc(layout->block_count, 1);
    shoal->sum.special = mem_zalloc(layout->element_count, 1);
    if (shoal->scale == NULL || shoal->gradient == NULL || shoal->sum.sum == NULL ||
        shoal->sum.peak == NULL || shoal->sum.odd == NULL || shoal->sum.special == NULL)
        return false;
    for (uint32_t i = 0; i < layout->block_count; i++) shoal->scale[i] = QUANT_SCALE_UNSET;
    return true;
}

struct shoal *shoal_join(const struct shoal_options *options, char *ret_error, size_t error_bytes)
{
    struct error error = {0};
    struct shoal *shoal = mem_zalloc(1, sizeof *shoal);
    if (shoal == NULL || !job_init(&shoal->job, options, &error) || !allocate(shoal)) {
        if (error.text[0] == '\0') (void)error_set(&error, "out of memory for the gradients");
        if (error_bytes > 0) snprintf(ret_error, error_bytes, "%s", error.text);
        release(shoal);
        return NULL;
    }
    return shoal;
}

static bool finish_step(struct shoal *shoal)
{
    const struct layout *layout = &shoal->job.layout;
    struct quant_sum *sum = &shoal->sum;
    for (uint32_t b = 0; b < layout->block_count; b++) {
        uint64_t start = layout->start[b];
        quant_mean(sum->sum + start, sum->odd[b] ? sum->special + start : NULL,
                   layout->start[b + 1] - start, shoal->scale[b], shoal->job.slots,
                   shoal->gradient + start);
    }
    shoal->next_slot = 0;
    return quant_rescale(layout, sum->peak, shoal->scale);
}

bool shoal_next(struct shoal *shoal, struct shoal_work *ret_work)
{
    if (shoal->applying) {
        shoal->applying = false;
        shoal->step++;
    }
    if (shoal->step == shoal->job.steps) return false;
    if (shoal->next_slot == shoal->job.slots && finish_step(shoal)) {
        shoal->applying = true;
        *ret_work = (struct shoal_work){.kind = SHOAL_APPLY,
                                        .step = shoal->step,
                                        .gradient = shoal->gradient,
                                        .loss = shoal->gradient[shoal->job.gradient_count]};
        return true;
    }
    memset(shoal->gradient, 0, shoal->job.layout.element_count * sizeof *shoal->gradient);
    *ret_work = (struct shoal_work){.kind = SHOAL_COMPUTE,
                                    .step = shoal->step,
                                    .slot = shoal->next_slot,
                                    .gradient = shoal->gradient};
    return true;
}

void shoal_submit(struct shoal *shoal, float loss)
{
    shoal->gradient[shoal->job.gradient_count] = loss;
    quant_add(&shoal->job.layout, shoal->scale, shoal->gradient, shoal->next_slot == 0,
              &shoal->sum);
    shoal->next_slot++;
}

int shoal_close(struct shoal *shoal)
{
    char text[65];
    job_weights_sha256(&shoal->job, text);
    printf("weights sha256 %s\n", text);
    release(shoal);
    return 0;
}

uint64_t shoal_sample(const struct shoal *shoal, uint64_t step, uint32_t slot, uint32_t i)
{
    return (step * shoal->job.slots + slot) * shoal->job.samples_per_slot + i;
}

static uint64_t mix(uint64_t word)
{
    word += UINT64_C(0x9e3779b97f4a7c15);
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

uint64_t shoal_random(uint64_t seed, uint64_t step, uint32_t slot, uint64_t counter)
{
    return mix(mix(mix(mix(seed) ^ step) ^ slot) ^ counter);
}
