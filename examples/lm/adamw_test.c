/* Against the formulas of the paper, written out in double, one value at a time. */
#include "adamw.h"
#include "model.h"
#include "test_kit.h"
#include <math.h>
#include <string.h>

enum { PARAMS_MAX = 1024, STEPS = 30 };

static struct model tiny_model(void)
{
    struct model model;
    const struct model_config config = {
        .layers = 1, .width = 4, .heads = 1, .context = 3, .vocabulary = 5, .tied = false};
    assert_true(model_build(&model, &config, NULL));
    assert_true(model.param_count <= PARAMS_MAX);
    return model;
}

static struct adamw_options options_of(float rate, uint64_t steps)
{
    const struct adamw_options options = adamw_defaults(rate);
    return adamw_of_job(&options, steps);
}

static double slow_rate(const struct adamw_options *options, double step)
{
    double warmup = (double)options->warmup_steps, peak = (double)options->peak_rate;
    if (step < warmup) return peak * (step + 1) / warmup;
    double low = peak * (double)options->final_share;
    double turn = acos(-1.0) * (step - warmup) / ((double)options->steps - warmup);
    return low + (peak - low) * (1 + cos(turn)) / 2;
}

static void test_rate(void **state)
{
    (void)state;
    struct adamw_options options = options_of(3e-3f, 200);
    assert_int_equal(options.warmup_steps, 40);
    for (uint64_t step = 0; step < 200; step++)
        assert_float_equal(adamw_rate(&options, step), slow_rate(&options, (double)step), 1e-9);
    assert_float_equal(adamw_rate(&options, 200), 3e-4, 1e-9);
    assert_float_equal(adamw_rate(&options, 999), 3e-4, 1e-9);
}

static void test_short_jobs(void **state)
{
    (void)state;
    for (uint64_t steps = 1; steps < 12; steps++) {
        struct adamw_options options = options_of(1e-2f, steps);
        for (uint64_t step = 0; step < steps + 2; step++) {
            float rate = adamw_rate(&options, step);
            assert_true(rate > 0);
            assert_true(rate <= 1.0001e-2f);
        }
    }
}

struct slow {
    double param, mean, variance;
};

static void slow_step(const struct adamw_options *options, uint64_t step, double gradient,
                      bool decays, struct slow *slow)
{
    double t = (double)step + 1, beta1 = (double)options->beta1, beta2 = (double)options->beta2;
    double rate = slow_rate(options, (double)step);
    slow->mean = beta1 * slow->mean + (1 - beta1) * gradient;
    slow->variance = beta2 * slow->variance + (1 - beta2) * gradient * gradient;
    double mean = slow->mean / (1 - pow(beta1, t));
    double variance = slow->variance / (1 - pow(beta2, t));
    slow->param -= rate * (mean / (sqrt(variance) + (double)options->epsilon) +
                           (decays ? (double)options->decay * slow->param : 0));
}

/* The elements [first, first + count) of the flat buffers of a model. */
static void apply(const struct model *model, const struct adamw_scales *scales, size_t first,
                  size_t count, const float *gradient, float *params, float *mean, float *variance)
{
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const struct model_tensor *tensor = &model->tensors[t];
        size_t from = tensor->offset > first ? tensor->offset : first;
        size_t end = tensor->offset + tensor->count;
        if (end > first + count) end = first + count;
        if (from >= end) continue;
        adamw_range(scales, model_decays(tensor), end - from, gradient + from, params + from,
                    mean + from, variance + from);
    }
}

static void check_steps(float gradient_reach)
{
    static float params[PARAMS_MAX], mean[PARAMS_MAX], variance[PARAMS_MAX], gradient[PARAMS_MAX];
    static struct slow slow[PARAMS_MAX];
    struct model model = tiny_model();
    struct adamw_options options = options_of(1e-2f, STEPS);
    memset(mean, 0, sizeof mean);
    memset(variance, 0, sizeof variance);
    for (size_t i = 0; i < model.param_count; i++) {
        params[i] = counter_uniform(1, 1, i) - 0.5f;
        slow[i] = (struct slow){.param = (double)params[i]};
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        double square = 0;
        for (size_t i = 0; i < model.param_count; i++) {
            gradient[i] = gradient_reach * (counter_uniform(2, step, i) - 0.4f);
            square += (double)gradient[i] * (double)gradient[i];
        }
        double clip = sqrt(square) > (double)options.clip ? (double)options.clip / sqrt(square) : 1;
        struct adamw_scales scales = adamw_scales(&options, step, sqrt(square));
        apply(&model, &scales, 0, model.param_count, gradient, params, mean, variance);
        for (uint32_t t = 0; t < model.tensor_count; t++) {
            size_t end = model.tensors[t].offset + model.tensors[t].count;
            for (size_t i = model.tensors[t].offset; i < end; i++) {
                slow_step(&options, step, (double)gradient[i] * clip, model.tensors[t].dims == 2,
                          &slow[i]);
                assert_float_equal(params[i], slow[i].param, 2e-5);
            }
        }
    }
}

static void test_against_the_formulas(void **state)
{
    (void)state;
    check_steps(0.001f); /* below the clip */
    check_steps(100.0f); /* far above it */
}

/* However the elements are cut into runs, and whoever applies which: the same bits. */
static void test_cuts_change_no_bit(void **state)
{
    (void)state;
    static float start[3][PARAMS_MAX], whole[3][PARAMS_MAX], cut[3][PARAMS_MAX];
    float gradient[PARAMS_MAX];
    struct model model = tiny_model();
    const struct adamw_options options = options_of(1e-2f, STEPS);
    const struct adamw_scales scales = adamw_scales(&options, 3, 2.5);
    for (size_t i = 0; i < model.param_count; i++) {
        gradient[i] = counter_uniform(1, 2, i) - 0.5f;
        start[0][i] = counter_uniform(1, 3, i) - 0.5f;
        start[1][i] = counter_uniform(1, 4, i) - 0.5f;
        start[2][i] = counter_uniform(1, 5, i);
    }
    memcpy(whole, start, sizeof whole);
    apply(&model, &scales, 0, model.param_count, gradient, whole[0], whole[1], whole[2]);
    for (size_t step = 1; step < 40; step++) {
        memcpy(cut, start, sizeof cut);
        for (size_t at = 0; at < model.param_count; at += step)
            apply(&model, &scales, at,
                  model.param_count - at < step ? model.param_count - at : step, gradient, cut[0],
                  cut[1], cut[2]);
        assert_memory_equal(cut, whole, sizeof cut);
    }
    assert_true(memcmp(whole, start, sizeof whole) != 0);
}

static void test_no_clip(void **state)
{
    (void)state;
    struct adamw_options options = options_of(1e-2f, STEPS);
    options.clip = 0;
    assert_true(adamw_scales(&options, 1, 1e9).clip == 1);
    options.clip = 2;
    assert_true(adamw_scales(&options, 1, 8).clip == 0.25f);
    assert_true(adamw_scales(&options, 1, 2).clip == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_short_jobs),
        cmocka_unit_test(test_against_the_formulas),
        cmocka_unit_test(test_cuts_change_no_bit),
        cmocka_unit_test(test_no_clip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
