/* The speed of the example trainer against PyTorch and against OpenBLAS itself.
 *
 * A training step of 1,024 tokens (one slot of 8 sequences of 128) of a GPT with 4 layers and 8
 * heads, on 1 and on 2 threads, through libshoal as a program uses it: shoal_next(), a gradient,
 * shoal_submit() with its exact sum, the mean, AdamW with the clip. Beside it, in turn:
 *   vs_pytorch  the same model, batch, clip and optimizer in PyTorch (peer_torch.py), width 256;
 *   vs_gemm     the rate at which OpenBLAS multiplies two large square matrices on as many threads,
 *               in tokens/s: a token takes 6 operations per parameter (2 forward, 4 backward;
 *               attention's own products, the embedding and everything that is not a product are
 *               left out, so 1 cannot be reached). Width 256 and, as .w512, width 512.
 * The medians of the turns are compared.
 *
 *     bench_trainer [PEER_SCRIPT]      without the script no rows against PyTorch
 *
 * SHOAL_TORCH_PYTHON names a Python with another PyTorch than Debian's: both take turns, and the
 * row is against the faster one.
 */
#include "adamw.h"
#include "base/clock.h"
#include "base/mem.h"
#include "median.h"
#include "ops.h"
#include "peer.h"
#include "slot.h"
#include <shoal.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUNS = 5,
    STEPS_PER_RUN = 2,
    SIDE = 1024,
    PRODUCTS_PER_RUN = 12,
    BATCH = 8,
    CONTEXT = 128,
    VOCABULARY = 4096,
    STEPS_MAX = 1000
};

struct bench {
    struct model model;
    struct adamw_options adamw;
    float *params;                 /* [param_count] */
    float *left, *right, *product; /* [SIDE, SIDE] */
    uint16_t sequences[BATCH * (CONTEXT + 1)];
    struct shoal *job;
    struct crew *crew;
    struct slot *slot;
    struct shoal_tensor tensors[MODEL_TENSORS_MAX];
};

static bool bench_open(struct bench *bench, uint32_t width, struct error *ret_error)
{
    const struct model_config config = {.layers = 4,
                                        .width = width,
                                        .heads = 8,
                                        .context = CONTEXT,
                                        .vocabulary = VOCABULARY,
                                        .tied = true};
    if (!model_build(&bench->model, &config, ret_error)) return false;
    size_t count = bench->model.param_count, area = (size_t)SIDE * SIDE;
    const struct adamw_options adamw = adamw_defaults(1e-3f);
    bench->adamw = adamw_of_job(&adamw, STEPS_MAX);
    bench->params = mem_zalloc(count, sizeof(float));
    bench->left = mem_zalloc(area, sizeof(float));
    bench->right = mem_zalloc(area, sizeof(float));
    bench->product = mem_zalloc(area, sizeof(float));
    if (bench->params == NULL || bench->left == NULL || bench->right == NULL ||
        bench->product == NULL)
        return error_set(ret_error, "out of memory");
    model_init(&bench->model, 1, bench->params);
    for (size_t i = 0; i < area; i++) {
        bench->left[i] = counter_uniform(1, 1000, i);
        bench->right[i] = counter_uniform(1, 1001, i);
    }
    for (size_t i = 0; i < BATCH * (CONTEXT + 1); i++)
        bench->sequences[i] = (uint16_t)(counter_bits(1, 1002, i) % VOCABULARY);
    return true;
}

static void bench_close(struct bench *bench)
{
    mem_free(bench->product);
    mem_free(bench->right);
    mem_free(bench->left);
    mem_free(bench->params);
    *bench = (struct bench){0};
}

/* A job of one slot, alone. */
static bool join(struct bench *bench, struct error *ret_error)
{
    const struct model *model = &bench->model;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const struct model_tensor *tensor = &model->tensors[i];
        bench->tensors[i] = (struct shoal_tensor){.name = tensor->name,
                                                  .data = bench->params + tensor->offset,
                                                  .shape = {tensor->shape[0], tensor->shape[1]},
                                                  .dims = tensor->dims};
    }
    static const char *const moments[] = {"mean", "variance"};
    const struct shoal_options options = {.params = bench->tensors,
                                          .param_count = model->tensor_count,
                                          .moment_count = 2,
                                          .moment_names = moments,
                                          .slots = 1,
                                          .steps = STEPS_MAX,
                                          .samples_per_slot = BATCH,
                                          .tokens_per_sample = CONTEXT};
    bench->job = shoal_join(&options, ret_error->text, sizeof ret_error->text);
    return bench->job != NULL;
}

struct apply {
    struct bench *bench;
    struct adamw_scales scales;
    const struct shoal_work *work;
};

static void apply_share(void *context, uint32_t member)
{
    const struct apply *apply = context;
    const struct shoal_work *work = apply->work;
    size_t members = crew_count(apply->bench->crew);
    size_t first = work->count * member / members, end = work->count * (member + 1) / members;
    adamw_range(&apply->scales, model_decays(&apply->bench->model.tensors[work->tensor]),
                end - first, work->gradient + first, work->weights + first, work->moment[0] + first,
                work->moment[1] + first);
}

static void apply(struct bench *bench, const struct shoal_work *work)
{
    struct apply apply = {bench, adamw_scales(&bench->adamw, work->step, work->gradient_norm),
                          work};
    crew_run(bench->crew, apply_share, &apply);
}

static void tell_ready(void *job, size_t first, size_t count)
{
    shoal_ready(job, first, count);
}

static bool step(struct bench *bench)
{
    const struct slot_watch watch = {tell_ready, bench->job};
    struct shoal_work work;
    while (shoal_next(bench->job, &work)) {
        if (work.kind == SHOAL_COMPUTE) {
            shoal_submit(bench->job, slot_compute(bench->slot, bench->params, bench->sequences,
                                                  0 /* no dropout */, work.gradient, &watch));
        } else {
            apply(bench, &work);
            if (work.last) return true;
        }
    }
    return false;
}

/* Steps are counted from one apply to the next: each contains all that a step is. */
static bool measure_trainer(struct bench *bench, double *ret_tokens_per_s)
{
    int64_t start_us = clock_monotonic_us();
    for (int i = 0; i < STEPS_PER_RUN; i++)
        if (!step(bench)) return false;
    double seconds = (double)(clock_monotonic_us() - start_us) * 1e-6;
    *ret_tokens_per_s = (double)STEPS_PER_RUN * BATCH * CONTEXT / seconds;
    return true;
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

static void print_row(const char *name, const char *peer_name, double value, double peer)
{
    printf("{\"name\":\"%s\",\"value\":%.0f,\"unit\":\"tokens/s\",\"peer\":\"%s\","
           "\"peer_value\":%.0f,\"ratio\":%.3f,\"better\":\"higher\",\"runs\":%d}\n",
           name, value, peer_name, peer, value / peer, RUNS);
    (void)fflush(stdout); /* rows only; a reader that is gone notices itself */
}

enum { TORCHES_MAX = 2 };

/* PyTorch of Debian and, if there is one, another: at most TORCHES_MAX peers. */
struct torches {
    struct peer peer[TORCHES_MAX];
    uint32_t count;
    double tokens_per_s[TORCHES_MAX][RUNS];
};

static bool start_torch(struct peer *peer, const char *python, const char *script, uint32_t threads,
                        struct error *ret_error)
{
    static char omp[32]; /* putenv in the child keeps the string */
    char count[16];
    (void)snprintf(omp, sizeof omp, "OMP_NUM_THREADS=%u", threads); /* fits */
    (void)snprintf(count, sizeof count, "%u", threads);
    const char *const argv[] = {python, script, count, NULL};
    const char *const environment[] = {"LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp",
                                       omp, "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", NULL};
    return peer_start(peer, argv, environment, ret_error);
}

static bool start_torches(struct torches *torches, const char *script, uint32_t threads,
                          struct error *ret_error)
{
    const char *pythons[TORCHES_MAX] = {"/usr/bin/python3", getenv("SHOAL_TORCH_PYTHON")};
    *torches = (struct torches){0};
    for (uint32_t i = 0; script != NULL && i < TORCHES_MAX; i++) {
        if (pythons[i] == NULL) continue;
        struct peer *peer = &torches->peer[torches->count];
        if (!start_torch(peer, pythons[i], script, threads, ret_error)) return false;
        torches->count++;
    }
    return true;
}

static void stop_torches(struct torches *torches)
{
    for (uint32_t i = 0; i < torches->count; i++) peer_stop(&torches->peer[i]);
}

static bool measure_torches(struct torches *torches, int run, struct error *ret_error)
{
    char question[16];
    (void)snprintf(question, sizeof question, "%d", STEPS_PER_RUN); /* fits */
    for (uint32_t i = 0; i < torches->count; i++) {
        double seconds = 0;
        if (!peer_ask(&torches->peer[i], question, &seconds, ret_error)) return false;
        torches->tokens_per_s[i][run] = (double)STEPS_PER_RUN * BATCH * CONTEXT / seconds;
    }
    return true;
}

static void print_torch_row(struct torches *torches, uint32_t threads, double value)
{
    char name[48];
    uint32_t best = 0;
    double rate[TORCHES_MAX] = {0};
    if (torches->count == 0) return;
    for (uint32_t i = 0; i < torches->count; i++)
        rate[i] = median_of_doubles(torches->tokens_per_s[i], RUNS);
    if (rate[1] > rate[0]) best = 1;
    (void)snprintf(name, sizeof name, "trainer.t%u.vs_pytorch", threads); /* fits */
    print_row(name, torches->peer[best].name, value, rate[best]);
}

/* The turns of one width and one number of threads. */
static bool take_turns(struct bench *bench, uint32_t threads, struct torches *torches,
                       struct error *ret_error)
{
    double ours[RUNS], limit[RUNS], warm;
    if (!step(bench) || !measure_trainer(bench, &warm))
        return error_set(ret_error, "the job ended early");
    (void)measure_limit(bench, (int)threads); /* warm caches and pages, not counted */
    for (int i = 0; i < RUNS; i++) {
        limit[i] = measure_limit(bench, (int)threads);
        if (!measure_trainer(bench, &ours[i])) return error_set(ret_error, "the job ended early");
        if (!measure_torches(torches, i, ret_error)) return false;
    }
    char name[48], peer_name[96];
    double value = median_of_doubles(ours, RUNS), bound = median_of_doubles(limit, RUNS);
    const char *wide = bench->model.config.width == 512 ? ".w512" : "";
    (void)snprintf(name, sizeof name, "trainer.t%u%s.vs_gemm", threads, wide);
    (void)snprintf(peer_name, sizeof peer_name, "OpenBLAS sgemm %d^3 (%s), %.1f GFLOP/s", SIDE,
                   gemm_kernels(), bound * flops_per_token(bench) * 1e-9);
    print_row(name, peer_name, value, bound);
    print_torch_row(torches, threads, value);
    return true;
}

static bool measure(uint32_t width, uint32_t threads, const char *script, struct error *ret_error)
{
    static struct bench bench;
    /* Two parts whatever the threads: the same arithmetic in both rows. */
    const struct slot_options options = {.batch = BATCH, .parts = 2};
    static struct torches torches;
    bool done = start_torches(&torches, script, threads, ret_error);
    done = done && bench_open(&bench, width, ret_error) && join(&bench, ret_error);
    if (done) bench.crew = crew_make(threads, ret_error);
    if (bench.crew != NULL) bench.slot = slot_make(&bench.model, &options, bench.crew, ret_error);
    done = done && bench.slot != NULL && take_turns(&bench, threads, &torches, ret_error);
    if (bench.job != NULL) (void)shoal_close(bench.job); /* stopped half-way on purpose */
    slot_free(bench.slot);
    crew_free(bench.crew);
    bench_close(&bench);
    stop_torches(&torches);
    return done;
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "usage: bench_trainer [PEER_SCRIPT]\n");
        return 2;
    }
    gemm_pin_kernels(argv);
    const char *script = argc > 1 ? argv[1] : NULL;
    struct error error = {0};
    bool measured = measure(256, 1, script, &error) && measure(256, 2, script, &error) &&
                    measure(512, 1, NULL, &error) && measure(512, 2, NULL, &error);
    if (!measured) fprintf(stderr, "bench_trainer: %s\n", error.text);
    return measured ? 0 : 1;
}
