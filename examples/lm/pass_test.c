/* The backward pass against finite differences, for every tensor of a tiny model, with a tied and
 * with an untied head, with dropout and without; and that a position does not see what comes after it. */
#include "base/mem.h"
#include "ops.h"
#include "pass.h"
#include "test_kit.h"
#include <math.h>
#include <string.h>

enum { SEQUENCES = 3, CONTEXT = 5, VOCABULARY = 11, PARAMS_MAX = 4096 };

struct fixture {
    struct model model;
    struct pass *pass;
    float params[PARAMS_MAX], gradient[PARAMS_MAX], moved[PARAMS_MAX];
    uint16_t sequences[SEQUENCES * (CONTEXT + 1)];
    struct pass_noise noise;
};

static void open_fixture(struct fixture *fixture, bool tied, double dropout)
{
    const struct model_config config = {.layers = 2,
                                        .width = 8,
                                        .heads = 2,
                                        .context = CONTEXT,
                                        .vocabulary = VOCABULARY,
                                        .tied = tied};
    assert_true(model_build(&fixture->model, &config, NULL));
    assert_true(fixture->model.param_count <= PARAMS_MAX);
    fixture->pass = pass_make(&fixture->model, SEQUENCES, NULL);
    assert_non_null(fixture->pass);
    model_init(&fixture->model, 3, fixture->params);
    /* Far from the start of training, so that no gradient is close to zero. */
    for (size_t i = 0; i < fixture->model.param_count; i++)
        fixture->params[i] += counter_uniform(3, 1000, i) - 0.5f;
    for (size_t i = 0; i < sizeof fixture->sequences / sizeof fixture->sequences[0]; i++)
        fixture->sequences[i] = (uint16_t)(counter_bits(3, 1001, i) % VOCABULARY);
    fixture->noise = (struct pass_noise){dropout_of(dropout), 77, 4};
    memset(fixture->gradient, 0x5a, sizeof fixture->gradient); /* set, whatever was there */
    (void)pass_forward(fixture->pass, fixture->params, fixture->sequences, SEQUENCES,
                       &fixture->noise);
    pass_backward(fixture->pass, 1.0f, fixture->gradient, NULL);
}

static double loss_at(struct fixture *fixture)
{
    return pass_forward(fixture->pass, fixture->moved, fixture->sequences, SEQUENCES,
                        &fixture->noise);
}

/* Slope of the loss along `direction` (NULL: along element `element` alone) inside one tensor. */
static double slope(struct fixture *fixture, const struct model_tensor *tensor,
                    const float *direction, size_t element)
{
    const double step = 2e-3;
    double loss[2];
    for (int side = 0; side < 2; side++) {
        float move = (float)(side == 0 ? step : -step);
        memcpy(fixture->moved, fixture->params, sizeof fixture->moved);
        float *values = fixture->moved + tensor->offset;
        if (direction == NULL) values[element] += move;
        for (size_t i = 0; direction != NULL && i < tensor->count; i++)
            values[i] += move * direction[i];
        loss[side] = loss_at(fixture);
    }
    return (loss[0] - loss[1]) / (2 * step);
}

/* Moving along the gradient itself, the loss must rise by the gradient's length. */
static void check_tensor(struct fixture *fixture, const struct model_tensor *tensor)
{
    const float *gradient = fixture->gradient + tensor->offset;
    double square = 0, top = 0;
    for (size_t i = 0; i < tensor->count; i++) {
        square += (double)gradient[i] * (double)gradient[i];
        top = fmax(top, fabs((double)gradient[i]));
    }
    double length = sqrt(square);
    assert_true(length > 1e-3);
    static float direction[PARAMS_MAX];
    for (size_t i = 0; i < tensor->count; i++) direction[i] = (float)((double)gradient[i] / length);
    double along = slope(fixture, tensor, direction, 0);
    if (fabs(along - length) > 0.01 * length)
        fail_msg("%s: slope %g along a gradient of length %g", tensor->name, along, length);
    for (uint64_t k = 0; k < 12; k++) {
        size_t i = (size_t)(counter_bits(5, tensor->offset, k) % tensor->count);
        double measured = slope(fixture, tensor, NULL, i);
        if (fabs(measured - (double)gradient[i]) > 0.02 * top + 2e-3)
            fail_msg("%s[%zu]: slope %g, gradient %g", tensor->name, i, measured,
                     (double)gradient[i]);
    }
}

static void check_model(bool tied, double dropout)
{
    static struct fixture fixture;
    open_fixture(&fixture, tied, dropout);
    assert_int_equal(fixture.model.tensor_count, 2 + 2 * LAYER_TENSORS + (tied ? 2 : 3));
    for (uint32_t t = 0; t < fixture.model.tensor_count; t++) {
        const struct model_tensor *tensor = &fixture.model.tensors[t];
        if (strstr(tensor->name, "qkv.bias") != NULL) continue; /* below */
        check_tensor(&fixture, tensor);
    }
    pass_free(fixture.pass);
}

static void test_gradient_tied(void **state)
{
    (void)state;
    check_model(true, 0);
}

static void test_gradient_with_dropout(void **state)
{
    (void)state;
    check_model(true, 0.2);
    check_model(false, 0.4);
}

static void test_gradient_untied(void **state)
{
    (void)state;
    check_model(false, 0);
}

/* The bias of the keys adds the same to all scores of a row, which softmax ignores: its gradient is
 * 0, so the three parts of this tensor are looked at one by one. */
static void test_gradient_of_qkv_bias(void **state)
{
    (void)state;
    static struct fixture fixture;
    open_fixture(&fixture, true, 0);
    for (uint32_t t = 0; t < fixture.model.tensor_count; t++) {
        const struct model_tensor *tensor = &fixture.model.tensors[t];
        if (strstr(tensor->name, "qkv.bias") == NULL) continue;
        size_t width = fixture.model.config.width;
        for (size_t i = 0; i < tensor->count; i++) {
            float gradient = fixture.gradient[tensor->offset + i];
            assert_float_equal(gradient, slope(&fixture, tensor, NULL, i), 0.02);
            if (i / width == 1) assert_float_equal(gradient, 0, 1e-4);
        }
    }
    pass_free(fixture.pass);
}

/* No position looks at what comes after it; also with rows in several blocks. */
static void check_causal(uint32_t context)
{
    static struct model model;
    const struct model_config config = {.layers = 2,
                                        .width = 8,
                                        .heads = 2,
                                        .context = context,
                                        .vocabulary = VOCABULARY,
                                        .tied = true};
    assert_true(model_build(&model, &config, NULL));
    struct pass *pass = pass_make(&model, 2, NULL);
    float *params = mem_alloc(model.param_count * sizeof *params);
    float *before = mem_alloc((size_t)context * VOCABULARY * sizeof *before);
    uint16_t *sequences = mem_alloc(2 * (context + 1) * sizeof *sequences);
    assert_true(pass != NULL && params != NULL && before != NULL && sequences != NULL);
    for (size_t i = 0; i < model.param_count; i++) params[i] = counter_uniform(3, 1000, i) - 0.5f;
    for (size_t i = 0; i < 2 * (context + 1); i++)
        sequences[i] = (uint16_t)(counter_bits(3, 1001, i) % VOCABULARY);
    for (uint32_t cut = 0; cut < context; cut += 1 + context / 7) {
        size_t row = VOCABULARY * sizeof *before;
        pass_logits(pass, params, sequences, 2);
        for (uint32_t t = 0; t < context; t++)
            memcpy(before + t * VOCABULARY, pass_row(pass, 1, t), row);
        for (uint32_t t = cut + 1; t < context; t++) {
            uint16_t *token = &sequences[context + 1 + t];
            *token = (uint16_t)((*token + 1) % VOCABULARY);
        }
        pass_logits(pass, params, sequences, 2);
        for (uint32_t t = 0; t <= cut; t++)
            assert_memory_equal(before + t * VOCABULARY, pass_row(pass, 1, t), row);
        for (uint32_t t = cut + 1; t < context; t++)
            assert_true(memcmp(before + t * VOCABULARY, pass_row(pass, 1, t), row) != 0);
    }
    mem_free(sequences);
    mem_free(before);
    mem_free(params);
    pass_free(pass);
}

static void test_later_tokens_change_nothing_before(void **state)
{
    (void)state;
    check_causal(CONTEXT);
    check_causal(2 * HEAD_BLOCK + 9);
}

/* The choice belongs to the sequence of the slot, not to the pass that computes it. */
static void test_dropout_follows_the_sequence(void **state)
{
    (void)state;
    static struct fixture fixture;
    open_fixture(&fixture, true, 0.3);
    double parts = 0, plain;
    double together =
        pass_forward(fixture.pass, fixture.params, fixture.sequences, SEQUENCES, &fixture.noise);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        struct pass_noise noise = fixture.noise;
        noise.first_sequence += i;
        parts += pass_forward(fixture.pass, fixture.params, fixture.sequences + i * (CONTEXT + 1),
                              1, &noise);
    }
    assert_float_equal(parts, together, 1e-4);
    plain = pass_forward(fixture.pass, fixture.params, fixture.sequences, SEQUENCES, NULL);
    assert_true(fabs(plain - together) > 1e-2);
    fixture.noise.key++;
    assert_true(fabs(pass_forward(fixture.pass, fixture.params, fixture.sequences, SEQUENCES,
                                  &fixture.noise) -
                     together) > 1e-2);
    pass_free(fixture.pass);
}

struct told {
    const struct model *model;
    size_t elements;
    uint32_t stages;
};

static void note_stage(void *context, uint32_t stage)
{
    struct told *told = context;
    size_t first, count;
    assert_int_equal(stage, told->stages);
    model_stage(told->model, stage, &first, &count);
    assert_true(count > 0 && first + count <= told->model->param_count);
    told->elements += count;
    told->stages++;
}

static void test_stages_cover_the_gradient(void **state)
{
    (void)state;
    static struct fixture fixture;
    for (int tied = 0; tied < 2; tied++) {
        open_fixture(&fixture, tied == 1, 0);
        struct told told = {.model = &fixture.model};
        const struct pass_watch watch = {note_stage, &told};
        (void)pass_forward(fixture.pass, fixture.params, fixture.sequences, SEQUENCES, NULL);
        pass_backward(fixture.pass, 1.0f, fixture.gradient, &watch);
        assert_int_equal(told.stages, model_stages(&fixture.model));
        assert_int_equal(told.elements, fixture.model.param_count);
        pass_free(fixture.pass);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct model model;
    const struct model_config config = {
        .layers = 1, .width = 4, .heads = 1, .context = 4, .vocabulary = 4, .tied = true};
    assert_true(model_build(&model, &config, NULL));
    uint64_t before = mem_calls();
    struct pass *pass = pass_make(&model, 1, NULL);
    assert_non_null(pass);
    pass_free(pass);
    uint64_t calls = mem_calls() - before;
    assert_true(calls > 0);
    for (uint64_t nth = 1; nth <= calls; nth++) {
        struct error error = {0};
        mem_fail_at(nth);
        assert_null(pass_make(&model, 1, &error));
        assert_non_null(strstr(error.text, "--batch"));
    }
    mem_fail_at(0);
}

int main(int argc, char **argv)
{
    (void)argc;
    gemm_pin_kernels(argv);
    gemm_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_tied),
        cmocka_unit_test(test_gradient_untied),
        cmocka_unit_test(test_gradient_with_dropout),
        cmocka_unit_test(test_gradient_of_qkv_bias),
        cmocka_unit_test(test_later_tokens_change_nothing_before),
        cmocka_unit_test(test_dropout_follows_the_sequence),
        cmocka_unit_test(test_stages_cover_the_gradient),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
