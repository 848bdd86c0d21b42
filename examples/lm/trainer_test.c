/* The parts together: a text with an easy pattern is learned, twice with the same bits although the
 * optimizer is applied in other runs, and the
 * text written afterwards shows the pattern. A plain loop stands where libshoal is in main.c. */
#include "base/mem.h"
#include "generate.h"
#include "ops.h"
#include "test_kit.h"
#include "trainer.h"
#include <cblas.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { STEPS = 60, SLOTS = 2 };
#define GOLDEN UINT64_C(0xeb102ad771de724c)

static const struct lm_options options = {
    .data = "text",
    .model = {.layers = 1, .width = 32, .heads = 2, .context = 16, .vocabulary = 256, .tied = true},
    .batch = 4,
    .parts = 2,
    .threads = 2,
    .adamw = {.peak_rate = 1e-2f,
              .final_share = 0.1f,
              .warmup_steps = 12,
              .beta1 = 0.9f,
              .beta2 = 0.95f,
              .epsilon = 1e-8f,
              .decay = 0.1f,
              .clip = 1},
    .dropout = 0.05,
    .held_out_percent = 10,
    .eval_every = 10,
    .seed = 5,
    .steps = STEPS,
    .slots = SLOTS,
};

static int make_text(void **state)
{
    static char folder[] = "/tmp/lm_trainer_XXXXXX";
    *state = mkdtemp(folder);
    if (*state == NULL || chdir(folder) != 0) return -1;
    FILE *file = fopen("text", "w");
    if (file == NULL) return -1;
    for (int i = 0; i < 1000; i++) (void)fputs("abcdefgh\n", file);
    return fclose(file);
}

static int remove_text(void **state)
{
    (void)unlink("text"); /* rmdir tells */
    return rmdir(*state);
}

static double norm_of(const struct trainer *trainer, const float *gradient)
{
    double sum = 0;
    for (size_t i = 0; i < trainer->element_count; i++)
        sum += (double)gradient[i] * (double)gradient[i];
    return sqrt(sum);
}

/* The moments of a job, which are libshoal's in main.c. */
struct moments {
    float *mean, *variance;
};

static struct moments moments_of(const struct trainer *trainer)
{
    struct moments moments = {mem_zalloc(trainer->element_count, sizeof(float)),
                              mem_zalloc(trainer->element_count, sizeof(float))};
    assert_true(moments.mean != NULL && moments.variance != NULL);
    return moments;
}

static void moments_free(struct moments moments)
{
    mem_free(moments.mean);
    mem_free(moments.variance);
}

/* All tensors, in runs of at most `run` elements. */
static void apply(struct trainer *trainer, struct moments moments, uint64_t step, double norm,
                  const float *gradient, size_t run)
{
    for (uint32_t i = 0; i < trainer_tensor_count(trainer); i++) {
        const struct model_tensor *tensor = trainer_tensor(trainer, i);
        for (size_t first = 0; first < tensor->count; first += run) {
            size_t at = tensor->offset + first, left = tensor->count - first;
            const struct trainer_range range = {.step = step,
                                                .norm = norm,
                                                .tensor = i,
                                                .count = left < run ? left : run,
                                                .gradient = gradient + at,
                                                .params = trainer->params + at,
                                                .mean = moments.mean + at,
                                                .variance = moments.variance + at};
            trainer_apply(trainer, &range);
        }
    }
}

static float train(struct trainer *trainer, struct moments moments, size_t run)
{
    size_t count = trainer->element_count;
    float *gradient = mem_alloc(count * sizeof *gradient);
    float *sum = mem_alloc(count * sizeof *sum);
    assert_non_null(gradient);
    assert_non_null(sum);
    float loss = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        memset(sum, 0, count * sizeof *sum);
        loss = 0;
        for (uint64_t slot = 0; slot < SLOTS; slot++) {
            uint64_t samples[4];
            for (uint64_t i = 0; i < 4; i++) samples[i] = (step * SLOTS + slot) * 4 + i;
            const struct trainer_slot work = {step, (uint32_t)slot, step * 100 + slot, samples};
            loss += trainer_compute(trainer, &work, gradient, NULL) / SLOTS;
            for (size_t i = 0; i < count; i++) sum[i] += gradient[i] / SLOTS;
        }
        apply(trainer, moments, step, norm_of(trainer, sum), sum, run);
    }
    mem_free(sum);
    mem_free(gradient);
    return loss;
}

static void test_learns_with_the_same_bits(void **state)
{
    (void)state;
    static struct trainer first, second;
    assert_true(trainer_open(&first, &options, NULL));
    assert_true(trainer_open(&second, &options, NULL));
    struct moments one = moments_of(&first), two = moments_of(&second);
    float loss = train(&first, one, SIZE_MAX), again = train(&second, two, 1001);
    assert_true(loss < 0.5f); /* from ln 256 = 5.5 */
    assert_memory_equal(&loss, &again, sizeof loss);
    size_t bytes = first.element_count * sizeof *first.params;
    assert_memory_equal(first.params, second.params, bytes);
    assert_memory_equal(one.mean, two.mean, bytes);
    assert_memory_equal(one.variance, two.variance, bytes);
    moments_free(two);
    moments_free(one);

    assert_true(trainer_evaluation(&first) > 0);
    assert_true(trainer_evaluation(&first) < 1); /* the held-out text has the same pattern */
    assert_true(trainer_evaluation(&first) == trainer_evaluation(&second));

    const struct generate_options sample = {.count = 40, .temperature = 0.8f, .seed = 1};
    char text[41];
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    assert_true(
        generate_text(&first.model, first.params, &first.data.tokenizer, &sample, out, NULL));
    assert_int_equal(fclose(out), 0);
    int right = 0;
    for (size_t i = 0; i + 1 < 40; i++)
        right += text[i + 1] == (text[i] == 'h' ? '\n' : text[i] == '\n' ? 'a' : text[i] + 1);
    assert_true(right > 30);
    trainer_close(&second);
    trainer_close(&first);
}

/* The same bits from every compiler, with wide vector registers and without (gcc's build has both
 * forms of the loops in rows.c and takes the wide one where the CPU can; clang's and the sanitizers'
 * have the narrow one). The kernels of another OpenBLAS may add in another order. A change of the
 * arithmetic changes the number: then it is to be set anew, on purpose. */
static void test_golden_bits(void **state)
{
    (void)state;
    static struct trainer trainer;
    struct lm_options golden = options;
    golden.model.vocabulary = 260;
    golden.model.tied = false;
    golden.steps = 3;
    if (strcmp(gemm_kernels(), "Haswell") != 0 ||
        strstr(openblas_get_config(), "OpenBLAS 0.3.21 ") == NULL) {
        print_message("skipped: %s, not the kernels Haswell of OpenBLAS 0.3.21\n",
                      openblas_get_config());
        skip();
    }
    assert_true(trainer_open(&trainer, &golden, NULL));
    struct moments moments = moments_of(&trainer);
    (void)train(&trainer, moments, SIZE_MAX);
    moments_free(moments);
    uint64_t hash = XXH3_64bits(trainer.params, trainer.model.param_count * sizeof(float));
    trainer_close(&trainer);
    if (hash != GOLDEN) fail_msg("weights hash 0x%016" PRIx64, hash);
}

static void test_starts_at_even_odds(void **state)
{
    (void)state;
    static struct trainer trainer;
    assert_true(trainer_open(&trainer, &options, NULL));
    float *gradient = mem_zalloc(trainer.element_count, sizeof *gradient);
    assert_non_null(gradient);
    const uint64_t samples[4] = {0, 1, 2, 3};
    const struct trainer_slot work = {.samples = samples};
    assert_float_equal(trainer_compute(&trainer, &work, gradient, NULL), log(256), 0.1);
    mem_free(gradient);
    trainer_close(&trainer);
}

/* The slots' shares add up to the loss on all windows, and only in the steps meant for it. */
static void test_evaluation_is_shared(void **state)
{
    (void)state;
    static struct trainer trainer;
    struct lm_options more = options;
    more.slots = 7;
    assert_true(trainer_open(&trainer, &more, NULL));
    assert_int_equal(trainer.eval_windows, 28);
    size_t last = trainer.model.param_count;
    float *gradient = mem_zalloc(trainer.element_count, sizeof *gradient);
    assert_non_null(gradient);
    double whole = trainer_evaluate(&trainer), sum = 0;
    const uint64_t samples[4] = {0, 1, 2, 3};
    for (uint32_t slot = 0; slot < 7; slot++) {
        const struct trainer_slot work = {.step = 20, .slot = slot, .samples = samples};
        (void)trainer_compute(&trainer, &work, gradient, NULL);
        sum += (double)gradient[last] / 7;
    }
    gradient[last] = (float)sum;
    struct moments moments = moments_of(&trainer);
    apply(&trainer, moments, 20, 1, gradient, SIZE_MAX);
    assert_float_equal(trainer_evaluation(&trainer), whole, 1e-5);
    gradient[last] = 12;
    apply(&trainer, moments, 21, 1, gradient, SIZE_MAX); /* does not evaluate */
    assert_float_equal(trainer_evaluation(&trainer), whole, 1e-5);
    moments_free(moments);
    mem_free(gradient);
    trainer_close(&trainer);
}

static void test_identity(void **state)
{
    (void)state;
    static struct trainer trainer;
    assert_true(trainer_open(&trainer, &options, NULL));
    uint64_t identity = trainer_identity(&trainer, &options);
    assert_true(identity == trainer_identity(&trainer, &options));
    trainer_close(&trainer);
    struct lm_options others[7];
    for (int i = 0; i < 7; i++) others[i] = options;
    others[0].seed++;
    others[1].dropout = 0.1;
    others[2].eval_every++;
    others[3].held_out_percent++;
    others[4].adamw.decay = 0.2f;
    others[5].model.vocabulary = 257;
    others[6].parts = 4;
    for (int i = 0; i < 7; i++) {
        assert_true(trainer_open(&trainer, &others[i], NULL));
        assert_true(identity != trainer_identity(&trainer, &others[i]));
        trainer_close(&trainer);
    }
    others[0] = options;
    others[0].threads = 1;
    assert_true(trainer_open(&trainer, &others[0], NULL));
    assert_true(identity == trainer_identity(&trainer, &others[0]));
    trainer_close(&trainer);
}

static void test_refusals(void **state)
{
    (void)state;
    static struct trainer trainer;
    struct error error;
    struct lm_options wrong = options;
    wrong.threads = 3;
    assert_false(trainer_open(&trainer, &wrong, &error));
    assert_string_equal(error.text, "--threads 3: use 1 to --parts 2");
    for (uint64_t nth = 1; nth <= 200; nth++) {
        mem_fail_at(nth);
        bool opened = trainer_open(&trainer, &options, &error);
        mem_fail_at(0);
        if (opened) {
            assert_true(nth > 10);
            trainer_close(&trainer);
            return;
        }
        assert_non_null(strstr(error.text, "out of memory"));
    }
    fail_msg("200 allocations were not all");
}

int main(int argc, char **argv)
{
    (void)argc;
    gemm_pin_kernels(argv);
    gemm_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns_with_the_same_bits),
        cmocka_unit_test(test_golden_bits),
        cmocka_unit_test(test_starts_at_even_odds),
        cmocka_unit_test(test_evaluation_is_shared),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, make_text, remove_text);
}
