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
    double dropout;
};

static struct fixture *fixture_of(void)
{
    static struct fixture fixture;
    const struct model_config config = {
        .layers = 2, .width = 24, .heads = 3, .context = 16, .vocabulary = 50, .tied = true};
    assert_true(model_build(&fixture.model, &config, NULL));
    assert_true(fixture.model.param_count <= PARAMS_MAX);
    fixture.dropout = 0;
    model_init(&fixture.model, 4, fixture.params);
    for (size_t i = 0; i < sizeof fixture.sequences / sizeof fixture.sequences[0]; i++)
        fixture.sequences[i] = (uint16_t)(counter_bits(4, 1, i) % 50);
    return &fixture;
}

struct told {
    size_t elements;
};

static void note_ready(void *context, size_t first, size_t count)
{
    (void)first;
    ((struct told *)context)->elements += count;
}

static float compute(const struct fixture *fixture, uint32_t parts, uint32_t threads,
                     uint32_t rounds, float *ret_gradient)
{
    const struct slot_options options = {
        .batch = BATCH, .parts = parts, .dropout = dropout_of(fixture->dropout)};
    struct crew *crew = crew_make(threads, NULL);
    assert_non_null(crew);
    struct slot *slot = slot_make(&fixture->model, &options, crew, NULL);
    assert_non_null(slot);
    float loss = 0;
    for (uint32_t i = 0; i < rounds; i++) { /* what an earlier slot left behind must not show */
        memset(ret_gradient, 0x5a, PARAMS_MAX * sizeof *ret_gradient);
        struct told told = {0};
        const struct slot_watch watch = {note_ready, &told};
        loss = slot_compute(slot, fixture->params, fixture->sequences, 9, ret_gradient,
                            i % 2 == 0 ? &watch : NULL);
        if (i % 2 == 0) assert_int_equal(told.elements, fixture->model.param_count);
    }
    slot_free(slot);
    crew_free(crew);
    return loss;
}

static void test_threads_change_no_bit(void **state)
{
    (void)state;
    static float one[PARAMS_MAX], many[PARAMS_MAX];
    struct fixture *fixture = fixture_of();
    for (uint32_t parts = 1; parts <= BATCH; parts++) {
        fixture->dropout = parts % 2 == 0 ? 0.1 : 0;
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
    struct fixture *fixture = fixture_of();
    fixture->dropout = 0.1; /* drops the same whatever the parts */
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
    double sum = pass_forward(pass, fixture->params, fixture->sequences, BATCH, NULL);
    pass_free(pass);
    assert_float_equal(compute(fixture, 2, 2, 1, gradient), sum / (BATCH * 16), 1e-6);
}

/* The loss alone, of any number of sequences. */
static void test_loss_of_some(void **state)
{
    (void)state;
    const struct fixture *fixture = fixture_of();
    struct pass *pass = pass_make(&fixture->model, 1, NULL);
    assert_non_null(pass);
    double sum = 0;
    const struct slot_options options = {.batch = BATCH, .parts = 3, .dropout = dropout_of(0.5)};
    struct crew *crew = crew_make(2, NULL);
    struct slot *slot = slot_make(&fixture->model, &options, crew, NULL);
    assert_non_null(slot);
    for (uint32_t count = 1; count <= BATCH; count++) {
        sum += pass_forward(pass, fixture->params, fixture->sequences + (count - 1) * 17, 1, NULL);
        assert_float_equal(slot_loss(slot, fixture->params, fixture->sequences, count), sum, 1e-4);
    }
    slot_free(slot);
    crew_free(crew);
    pass_free(pass);
}

static void test_refusals(void **state)
{
    (void)state;
    const struct fixture *fixture = fixture_of();
    struct error error;
    const struct slot_options parts = {.batch = 2, .parts = 3};
    assert_null(slot_make(&fixture->model, &parts, NULL, &error));
    assert_string_equal(error.text, "--parts 3: use 1 to 64, and at most --batch 2");
}

static void test_out_of_memory(void **state)
{
    (void)state;
    const struct fixture *fixture = fixture_of();
    const struct slot_options options = {.batch = BATCH, .parts = 3};
    uint64_t before = mem_calls();
    struct crew *crew = crew_make(2, NULL);
    struct slot *slot = slot_make(&fixture->model, &options, crew, NULL);
    assert_non_null(slot);
    slot_free(slot);
    crew_free(crew);
    uint64_t calls = mem_calls() - before;
    assert_true(calls > 3);
    for (uint64_t nth = 1; nth <= calls; nth++) {
        struct error error = {0};
        mem_fail_at(nth);
        crew = crew_make(2, &error);
        slot = crew == NULL ? NULL : slot_make(&fixture->model, &options, crew, &error);
        assert_null(slot);
        crew_free(crew);
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
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_mean_over_positions),
        cmocka_unit_test(test_loss_of_some),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
