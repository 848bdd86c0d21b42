#include "worker/core/member_sim.h"
#include "worker/core/quant_isa.h"
#include <string.h>

/* The tiny model: a gradient that depends on weights, step and slot, over many magnitudes. */
float sim_compute(const struct world *w, const float *weights, uint64_t step, uint32_t slot,
                  float *gradient)
{
    float loss = 0;
    for (uint32_t i = 0; i < ELEMENTS - 1; i++) {
        uint64_t bits = sim_mix(sim_mix(step * 1024 + slot) ^ i);
        float noise = (float)(bits >> 40) * 0x1p-24f - 0.5f;
        float size = i < 300 ? 1.0f : i < 305 ? 1e-9f : 1e4f;
        if (w->spiky && step % 5 == 3 && i % 97 == 0) size *= 1e15f;
        if (i % 64 == 0 && slot % 2 == 0) noise = 0;
        gradient[i] = (noise + weights[i] * 0.1f) * size;
        loss += weights[i] * weights[i];
    }
    gradient[ELEMENTS - 1] = loss;
    return loss;
}

void sim_apply(float *weights, const float *mean)
{
    for (uint32_t i = 0; i < ELEMENTS - 1; i++) {
        float *momentum = &weights[ELEMENTS - 1 + i];
        *momentum = 0.9f * *momentum + mean[i];
        weights[i] -= 0.01f * *momentum;
    }
}

void sim_apply_sharded(float *weights, float (*moment)[ELEMENTS], const float *mean, uint64_t first,
                       uint64_t end)
{
    for (uint64_t i = first; i < end; i++) {
        moment[0][i] = 0.9f * moment[0][i] + 0.1f * mean[i];
        moment[1][i] = 0.99f * moment[1][i] + 0.01f * (mean[i] < 0 ? -mean[i] : mean[i]);
        weights[i] -= 0.01f * moment[0][i] / (moment[1][i] + 1e-6f);
    }
}

/* The run everything is compared with: no group, plain arithmetic of quant.h. */
void sim_reference(struct world *w)
{
    static struct node n;
    static _Alignas(64) uint8_t sums[1 << 19];
    memset(&n, 0, sizeof n);
    struct quant_sum own;
    double square[BLOCKS];
    quant_init(&own, &w->layout, w->slots, QUANT_ISA_PORTABLE, sums);
    for (uint32_t i = 0; i < ELEMENTS - 1; i++) n.weights[i] = (float)(i % 17) * 0.1f;
    for (uint32_t b = 0; b < BLOCKS; b++) n.scale[b] = QUANT_SCALE_UNSET;
    for (uint64_t step = 0; step < w->steps; step++) {
        memcpy(w->weights[step], n.weights, sizeof n.weights);
        memcpy(w->scale[step], n.scale, sizeof n.scale);
        quant_clear(&own);
        for (uint32_t slot = w->slots; slot-- > 0;) {
            (void)sim_compute(w, n.weights, step, slot, n.gradient);
            quant_add(&own, n.scale, n.gradient, 0, BLOCKS);
        }
        for (uint32_t b = 0; b < BLOCKS; b++) {
            struct quant_part part = quant_part_of(&own, b);
            float *mean = n.gradient + w->start[b];
            n.scale[b] = quant_finish(&own, b, n.scale[b], &part, NULL, mean).scale;
            square[b] =
                quant_kernel_squares(QUANT_ISA_PORTABLE, mean, w->start[b + 1] - w->start[b]);
        }
        w->norm[step] = ((square[0] + square[1]) + (square[2] + square[3])) +
                        (square[4] + square[5]); /* not the loss */
        if (w->sharded)
            sim_apply_sharded(n.weights, n.moment, n.gradient, 0, ELEMENTS - 1);
        else
            sim_apply(n.weights, n.gradient);
    }
    memcpy(w->final_moment, n.moment, sizeof w->final_moment);
    memcpy(w->final, n.weights, sizeof w->final);
}
