/* One slot has the same bits for any number of threads, and is the sum of its parts. */
#include "base/mem.h"
#include "ops.h"
#include "pass.h"
#include "slot.h"
#include "test_kit.h"
#include <string.h>

enum { BATCH = 5, PARAMS_MAX = 20000 };

struct fixture {
    struct model model;
    float params[PARAMS_MAX];
    uint16_t sequences[BATCH * 17];
};

static struct fixture *fixture_of(void)
{
    static struct fixture fixture;
    const struct model_config config = {
        .layers = 2, .width = 24, .heads = 3, .context = 16, .vocabulary = 50, .tied = true};
    assert_true(model_build(&fixture.model, &config, NULL));
    assert_true(fixture.model.param_count <= PARAMS_MAX);
    model_init(&fixture.model, 4, fixture.params);
    for (size_t i = 0; i < sizeof fixture.sequences / sizeof fixture.sequences[0]; i++)
        fixture.sequences[i] = (uint16_t)(counter_bits(4, 1, i) % 50);
    return &fixture;
}

static float compute(const struct fixture *fixture, uint32_t parts, uint32_t threads,
                     uint32_t rounds, float *ret_gradient)
{
    const struct slot_options options = {.batch = BATCH, .parts = parts, .threads = threads};
    struct slot *slot = slot_make(&fixture->model, &options, NULL);
    assert_non_null(slot);
    float loss = 0;
    for (uint32_t i = 0; i < rounds; i++) { /* what an earlier slot left behind must not show */
        memset(ret_gradient, 0, PARAMS_MAX * sizeof *ret_gradient);
        loss = slot_compute(slot, fixture->params, fixture->sequences, ret_gradient);
    }
    slot_free(slot);
    return loss;
}

static void test_threads_change_no_bit(void **state)
{
    (void)state;
    static float one[PARAMS_MAX], many[PARAMS_MAX];
    const struct fixture *fixture = fixture_of();
    for (uint32_t parts = 1; parts <= BATCH; parts++) {
        float loss = compute(fixture, parts, 1, 1, one);
        for (uint32_t threads = 1; threads <= parts; threads++) {
            float again = compute(fixture, parts, threads, 20, many);
            assert_memory_equal(&loss, &again, sizeof loss);
            assert_memory_equal(one, many, sizeof one);
        }
    }
}

static void test_parts_add_up(void **state)
{
    (void)state;
    static float whole[PARAMS_MAX], cut[PARAMS_MAX];
    const struct fixture *fixture = fixture_of();
    float loss = compute(fixture, 1, 1, 1, whole);
    for (uint32_t parts = 2; parts <= BATCH; parts++) { /* equal but for the last bits */
        assert_float_equal(compute(fixture, parts, 1, 1, cut), loss, 1e-6);
        for (size_t i = 0; i < fixture->model.param_count; i++)
            assert_float_equal(cut[i], whole[i], 1e-6);
    }
}

static void test_mean_over_positions(void **state)
{
    (void)state;
    static float gradient[PARAMS_MAX];
    const struct fixture *fixture = fixture_of();
    struct pass *pass = pass_make(&fixture->model, BATCH, NULL);
    assert_non_null(pass);
    double sum = pass_forward(pass, fixture->params, fixture->sequences, BATCH);
    pass_free(pass);
    assert_float_equal(compute(fixture, 2, 2, 1, gradient), sum / (BATCH * 16), 1e-6);
}

static void test_refusals(void **state)
{
    (void)state;
    const struct fixture *fixture = fixture_of();
    struct error error;
    const struct slot_options parts = {.batch = 2, .parts = 3, .threads = 1};
    assert_null(slot_make(&fixture->model, &parts, &error));
    assert_string_equal(error.text, "--parts 3: use 1 to 8, and at most --batch 2");
    const struct slot_options threads = {.batch = 4, .parts = 2, .threads = 3};
    assert_null(slot_make(&fixture->model, &threads, &error));
    assert_string_equal(error.text, "--threads 3: use 1 to --parts 2");
}

static void test_out_of_memory(void **state)
{
    (void)state;
    const struct fixture *fixture = fixture_of();
    const struct slot_options options = {.batch = BATCH, .parts = 3, .threads = 2};
    uint64_t before = mem_calls();
    struct slot *slot = slot_make(&fixture->model, &options, NULL);
    assert_non_null(slot);
    slot_free(slot);
    uint64_t calls = mem_calls() - before;
    assert_true(calls > 3);
    for (uint64_t nth = 1; nth <= calls; nth++) {
        struct error error = {0};
        mem_fail_at(nth);
        assert_null(slot_make(&fixture->model, &options, &error));
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
        cmocka_unit_test(test_threads_change_no_bit), cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_mean_over_positions),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
