/* How close the example trainer comes to the speed of OpenBLAS itself.
 *
 * A training step of 1,024 tokens (forward, backward, AdamW) of a GPT with 4 layers, width 256, 8
 * heads, context 128 and batch 8, on 1 and on 2 threads, against the rate at which OpenBLAS
 * multiplies two large square matrices on as many threads. That rate in tokens/s: a token takes
 * 6 operations per parameter (2 forward, 4 backward; attention's own products, the embedding and
 * everything that is not a product are left out, so 1 cannot be reached). The two are measured in
 * turn in one process and the medians compared.
 *
 *     bench_trainer [VOCABULARY]      4096 by default
 */
#include "adamw.h"
#include "base/clock.h"
#include "base/mem.h"
#include "ops.h"
#include "slot.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 5, STEPS_PER_RUN = 2, SIDE = 1024, PRODUCTS_PER_RUN = 12, BATCH = 8, CONTEXT = 128 };

struct bench {
    struct model model;
    struct adamw_options adamw;
    float *params, *mean, *variance, *gradient; /* [param_count] */
    float *left, *right, *product;              /* [SIDE, SIDE] */
    uint16_t sequences[BATCH * (CONTEXT + 1)];
    uint64_t step;
};

static bool bench_open(struct bench *bench, uint32_t vocabulary, struct error *ret_error)
{
    const struct model_config config = {.layers = 4,
                                        .width = 256,
                                        .heads = 8,
                                        .context = CONTEXT,
                                        .vocabulary = vocabulary,
                                        .tied = true};
    if (!model_build(&bench->model, &config, ret_error)) return false;
    size_t count = bench->model.param_count, area = (size_t)SIDE * SIDE;
    bench->adamw = adamw_defaults(1e-3f, 1000);
    bench->params = mem_zalloc(count, sizeof(float));
    bench->mean = mem_zalloc(count, sizeof(float));
    bench->variance = mem_zalloc(count, sizeof(float));
    bench->gradient = mem_zalloc(count, sizeof(float));
    bench->left = mem_zalloc(area, sizeof(float));
    bench->right = mem_zalloc(area, sizeof(float));
    bench->product = mem_zalloc(area, sizeof(float));
    if (bench->params == NULL || bench->mean == NULL || bench->variance == NULL ||
        bench->gradient == NULL || bench->left == NULL || bench->right == NULL ||
        bench->product == NULL)
        return error_set(ret_error, "out of memory: use a smaller vocabulary");
    model_init(&bench->model, 1, bench->params);
    for (size_t i = 0; i < area; i++) {
        bench->left[i] = counter_uniform(1, 1000, i);
        bench->right[i] = counter_uniform(1, 1001, i);
    }
    for (size_t i = 0; i < BATCH * (CONTEXT + 1); i++)
        bench->sequences[i] = (uint16_t)(counter_bits(1, 1002, i) % vocabulary);
    return true;
}

static void bench_close(struct bench *bench)
{
    mem_free(bench->product);
    mem_free(bench->right);
    mem_free(bench->left);
    mem_free(bench->gradient);
    mem_free(bench->variance);
    mem_free(bench->mean);
    mem_free(bench->params);
}

static double flops_per_token(const struct bench *bench)
{
    return 6.0 * (double)bench->model.param_count;
}

/* Tokens/s if nothing but large products were computed. */
static double measure_limit(struct bench *bench, int threads)
{
    gemm_set_threads(threads);
    int64_t start_us = clock_monotonic_us();
    for (int i = 0; i < PRODUCTS_PER_RUN; i++)
        gemm((struct gemm_shape){SIDE, SIDE, SIDE}, 1.0f,
             (struct gemm_operand){bench->left, SIDE, 0},
             (struct gemm_operand){bench->right, SIDE, 1}, 0.0f, bench->product, SIDE);
    double seconds = (double)(clock_monotonic_us() - start_us) * 1e-6;
    gemm_set_threads(1);
    return 2.0 * SIDE * SIDE * SIDE * PRODUCTS_PER_RUN / seconds / flops_per_token(bench);
}

static double measure_trainer(struct bench *bench, struct slot *slot)
{
    int64_t start_us = clock_monotonic_us();
    for (int i = 0; i < STEPS_PER_RUN; i++) {
        memset(bench->gradient, 0, bench->model.param_count * sizeof *bench->gradient);
        (void)slot_compute(slot, bench->params, bench->sequences, bench->gradient);
        adamw_apply(&bench->model, &bench->adamw, bench->step++, bench->gradient, bench->params,
                    bench->mean, bench->variance);
    }
    double seconds = (double)(clock_monotonic_us() - start_us) * 1e-6;
    return (double)STEPS_PER_RUN * BATCH * CONTEXT / seconds;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double values[RUNS])
{
    qsort(values, RUNS, sizeof *values, compare_doubles);
    return values[RUNS / 2];
}

static bool measure_row(struct bench *bench, uint32_t threads, struct error *ret_error)
{
    /* Two parts whatever the threads: the same arithmetic in both rows. */
    const struct slot_options options = {.batch = BATCH, .parts = 2, .threads = threads};
    struct slot *slot = slot_make(&bench->model, &options, ret_error);
    if (slot == NULL) return false;
    double ours[RUNS], limit[RUNS];
    (void)measure_trainer(bench, slot); /* warm caches and pages, not counted */
    (void)measure_limit(bench, (int)threads);
    for (int i = 0; i < RUNS; i++) {
        limit[i] = measure_limit(bench, (int)threads);
        ours[i] = measure_trainer(bench, slot);
    }
    slot_free(slot);
    double value = median(ours), peer = median(limit);
    printf("{\"name\":\"trainer.t%u.vs_gemm\",\"value\":%.0f,\"unit\":\"tokens/s\","
           "\"peer\":\"OpenBLAS sgemm %d^3 (%s), %.1f GFLOP/s\",\"peer_value\":%.0f,"
           "\"ratio\":%.3f,\"better\":\"higher\",\"runs\":%d}\n",
           threads, value, SIDE, gemm_kernels(), peer * flops_per_token(bench) * 1e-9, peer,
           value / peer, RUNS);
    return true;
}

int main(int argc, char **argv)
{
    uint64_t vocabulary = argc > 1 ? strtoull(argv[1], NULL, 10) : 4096;
    if (argc > 2 || vocabulary < 2 || vocabulary > MODEL_VOCABULARY_MAX) {
        fprintf(stderr, "usage: bench_trainer [VOCABULARY], 2 to %d\n", MODEL_VOCABULARY_MAX);
        return 2;
    }
    gemm_pin_kernels(argv);
    static struct bench bench;
    struct error error = {0};
    bool measured = bench_open(&bench, (uint32_t)vocabulary, &error) &&
                    measure_row(&bench, 1, &error) && measure_row(&bench, 2, &error);
    bench_close(&bench);
    if (!measured) fprintf(stderr, "bench_trainer: %s\n", error.text);
    return measured ? 0 : 1;
}
