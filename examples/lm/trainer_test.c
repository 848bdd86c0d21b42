/* The parts together: a text with an easy pattern is learned, twice with the same bits, and the
 * text written afterwards shows the pattern. A plain loop stands where libshoal is in main.c. */
#include "base/mem.h"
#include "generate.h"
#include "ops.h"
#include "test_kit.h"
#include "trainer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 60, SLOTS = 2 };

static const struct lm_options options = {
    .data = "text",
    .model = {.layers = 1, .width = 32, .heads = 2, .context = 16, .vocabulary = 256, .tied = true},
    .slot = {.batch = 4, .parts = 2, .threads = 2},
    .rate = 1e-2f,
    .seed = 5,
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

static float train(struct trainer *trainer)
{
    size_t count = trainer->model.param_count;
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
            memset(gradient, 0, count * sizeof *gradient);
            loss += trainer_compute(trainer, samples, gradient) / SLOTS;
            for (size_t i = 0; i < count; i++) sum[i] += gradient[i] / SLOTS;
        }
        trainer_apply(trainer, step, sum);
    }
    mem_free(sum);
    mem_free(gradient);
    return loss;
}

static void test_learns_with_the_same_bits(void **state)
{
    (void)state;
    static struct trainer first, second;
    assert_true(trainer_open(&first, &options, STEPS, NULL));
    assert_true(trainer_open(&second, &options, STEPS, NULL));
    float loss = train(&first), again = train(&second);
    assert_true(loss < 0.5f); /* from ln 256 = 5.5 */
    assert_memory_equal(&loss, &again, sizeof loss);
    size_t bytes = first.model.param_count * sizeof *first.params;
    assert_memory_equal(first.params, second.params, bytes);
    assert_memory_equal(first.mean, second.mean, bytes);
    assert_memory_equal(first.variance, second.variance, bytes);

    char text[40], same[40];
    assert_true(generate_text(&first.model, first.params, 1, sizeof text, text, NULL));
    assert_true(generate_text(&second.model, second.params, 1, sizeof same, same, NULL));
    assert_memory_equal(text, same, sizeof text);
    int right = 0;
    for (size_t i = 0; i + 1 < sizeof text; i++)
        right += text[i + 1] == (text[i] == 'h' ? '\n' : text[i] == '\n' ? 'a' : text[i] + 1);
    assert_true(right > 30);
    trainer_close(&second);
    trainer_close(&first);
}

static void test_starts_at_even_odds(void **state)
{
    (void)state;
    static struct trainer trainer;
    assert_true(trainer_open(&trainer, &options, STEPS, NULL));
    float *gradient = mem_zalloc(trainer.model.param_count, sizeof *gradient);
    assert_non_null(gradient);
    const uint64_t samples[4] = {0, 1, 2, 3};
    assert_float_equal(trainer_compute(&trainer, samples, gradient), log(256), 0.1);
    mem_free(gradient);
    trainer_close(&trainer);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static struct trainer trainer;
    uint64_t before = mem_calls();
    assert_true(trainer_open(&trainer, &options, STEPS, NULL));
    uint64_t calls = mem_calls() - before;
    char text[4];
    before = mem_calls();
    assert_true(generate_text(&trainer.model, trainer.params, 1, 4, text, NULL));
    uint64_t generate_calls = mem_calls() - before;
    for (uint64_t nth = 1; nth <= generate_calls; nth++) {
        struct error error = {0};
        mem_fail_at(nth);
        assert_false(generate_text(&trainer.model, trainer.params, 1, 4, text, &error));
        assert_non_null(strstr(error.text, "out of memory"));
    }
    trainer_close(&trainer);
    for (uint64_t nth = 1; nth <= calls; nth++) {
        struct error error = {0};
        mem_fail_at(nth);
        assert_false(trainer_open(&trainer, &options, STEPS, &error));
        assert_non_null(strstr(error.text, "out of memory"));
    }
    mem_fail_at(0);
}

int main(int argc, char **argv)
{
    (void)argc;
    gemm_pin_kernels(argv);
    gemm_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns_with_the_same_bits),
        cmocka_unit_test(test_starts_at_even_odds),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_text, remove_text);
}
