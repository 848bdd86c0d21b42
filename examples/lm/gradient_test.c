/* Every operation's backward pass by itself against finite differences of its forward pass, in a
 * random direction of each input: d/dh f(x + h v) must be the gradient times v. pass_test.c does
 * the same for the model as a whole. */
#include "model.h"
#include "ops.h"
#include "test_kit.h"
#include <math.h>
#include <string.h>

enum { INPUT_MAX = 200000, INPUTS_MAX = 3 };

static float inputs[INPUTS_MAX][INPUT_MAX], moved[INPUTS_MAX][INPUT_MAX];
static float gradients[INPUTS_MAX][INPUT_MAX], weights[INPUT_MAX];

/* The loss is the sum of outputs times fixed random numbers, which are its gradient by them. */
static double weighed(size_t count, const float *out)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)out[i] * (double)weights[i];
    return sum;
}

static void fill_all(uint64_t seed)
{
    for (uint64_t k = 0; k < INPUTS_MAX; k++)
        for (size_t i = 0; i < INPUT_MAX; i++) inputs[k][i] = 2 * counter_uniform(seed, k, i) - 1;
    for (size_t i = 0; i < INPUT_MAX; i++) weights[i] = 2 * counter_uniform(seed, 99, i) - 1;
}

/* counts[k]: elements of input k. loss() reads `moved`. */
static void check(const char *name, const size_t *counts, uint32_t input_count,
                  double (*loss)(void))
{
    const double step = 1e-3;
    for (uint32_t k = 0; k < input_count; k++) {
        double sides[2], product = 0, length = 0;
        for (int side = 0; side < 2; side++) {
            memcpy(moved, inputs, sizeof moved);
            for (size_t i = 0; i < counts[k]; i++)
                moved[k][i] +=
                    (float)(side == 0 ? step : -step) * (counter_uniform(5, k, i) - 0.5f);
            sides[side] = loss();
        }
        for (size_t i = 0; i < counts[k]; i++) {
            product += (double)gradients[k][i] * (double)(counter_uniform(5, k, i) - 0.5f);
            length += (double)gradients[k][i] * (double)gradients[k][i];
        }
        double slope = (sides[0] - sides[1]) / (2 * step);
        if (fabs(slope - product) > 0.01 * sqrt(length / 12) + 1e-3)
            fail_msg("%s, input %u: slope %g, gradient %g", name, k, slope, product);
    }
}

enum { ROWS = 7, WIDE_IN = 19, WIDE_OUT = 23 };
static const struct linear_shape linear = {ROWS, WIDE_IN, WIDE_OUT};

static double linear_loss(void)
{
    static float out[ROWS * WIDE_OUT];
    linear_forward(linear, moved[0], moved[1], moved[2], out);
    return weighed(ROWS * WIDE_OUT, out);
}

static void test_linear(void **state)
{
    (void)state;
    const size_t counts[] = {ROWS * WIDE_IN, WIDE_IN * WIDE_OUT, WIDE_OUT};
    fill_all(1);
    linear_backward(linear, weights, inputs[0], inputs[1], gradients[0], gradients[1],
                    gradients[2]);
    check("linear", counts, 3, linear_loss);
}

static double norm_loss(void)
{
    static float out[ROWS * WIDE_IN], means[ROWS], scales[ROWS];
    norm_forward(ROWS, WIDE_IN, moved[0], moved[1], moved[2], out, means, scales);
    return weighed(ROWS * WIDE_IN, out);
}

static void test_norm(void **state)
{
    (void)state;
    const size_t counts[] = {ROWS * WIDE_IN, WIDE_IN, WIDE_IN};
    static float out[ROWS * WIDE_IN], means[ROWS], scales[ROWS];
    fill_all(2);
    memset(gradients[0], 0, sizeof gradients[0]); /* added to */
    norm_forward(ROWS, WIDE_IN, inputs[0], inputs[1], inputs[2], out, means, scales);
    norm_backward(ROWS, WIDE_IN, weights, inputs[0], inputs[1], means, scales, gradients[0],
                  gradients[1], gradients[2]);
    check("norm", counts, 3, norm_loss);
}

static double gelu_loss(void)
{
    static float out[1000];
    gelu_forward(1000, moved[0], out);
    return weighed(1000, out);
}

static void test_gelu(void **state)
{
    (void)state;
    const size_t counts[] = {1000};
    fill_all(3);
    for (size_t i = 0; i < 1000; i++) inputs[0][i] *= 5;
    memcpy(gradients[0], weights, 1000 * sizeof(float));
    gelu_backward(1000, inputs[0], gradients[0]);
    check("gelu", counts, 1, gelu_loss);
}

static const struct dropout drop = {.threshold = 20000, .scale = 65536.0f / 45536.0f};

static double dropout_loss(void)
{
    static float out[1001];
    memcpy(out, moved[0], sizeof out);
    dropout_apply(drop, 11, 1001, out);
    return weighed(1001, out);
}

static void test_dropout(void **state)
{
    (void)state;
    const size_t counts[] = {1001};
    fill_all(4);
    memcpy(gradients[0], weights, 1001 * sizeof(float));
    dropout_apply(drop, 11, 1001, gradients[0]);
    check("dropout", counts, 1, dropout_loss);
}

enum { CLASSES = 37 };
static const uint16_t targets[ROWS] = {0, 36, 5, 5, 17, 1, 30};

static double cross_entropy_loss(void)
{
    static float logits[ROWS * CLASSES], sums[ROWS];
    memcpy(logits, moved[0], sizeof logits);
    return 0.5 * cross_entropy(ROWS, CLASSES, targets, logits, sums);
}

static void test_cross_entropy(void **state)
{
    (void)state;
    const size_t counts[] = {ROWS * CLASSES};
    static float sums[ROWS];
    fill_all(5);
    memcpy(gradients[0], inputs[0], sizeof gradients[0]);
    (void)cross_entropy(ROWS, CLASSES, targets, gradients[0], sums);
    cross_entropy_backward(ROWS, CLASSES, 0.5f, targets, sums, gradients[0]);
    check("cross entropy", counts, 1, cross_entropy_loss);
}

/* Longer than two blocks of rows. */
enum { LENGTH = 2 * HEAD_BLOCK + 5, SIZE = 6, STRIDE = SIZE + 2 };
static struct head_shape head = {LENGTH, SIZE, STRIDE, STRIDE, {0}, 0};
static float probabilities[LENGTH * LENGTH], scratch[2 * LENGTH * LENGTH];

static double head_loss(void)
{
    static float out[LENGTH * STRIDE];
    head_forward(head, moved[0], moved[1], moved[2], probabilities, scratch, out);
    return weighed(LENGTH * STRIDE, out); /* 0 between the rows */
}

static void check_head(struct dropout dropout, const char *name)
{
    const size_t counts[] = {LENGTH * STRIDE, LENGTH * STRIDE, LENGTH * STRIDE};
    static float out[LENGTH * STRIDE];
    head.dropout = dropout;
    head.key = 3;
    fill_all(6);
    for (size_t i = 0; i < (size_t)LENGTH * STRIDE; i++) inputs[0][i] *= 4; /* sharp choices */
    memset(gradients, 0, sizeof gradients); /* what lies between the rows is not set */
    head_forward(head, inputs[0], inputs[1], inputs[2], probabilities, scratch, out);
    head_backward(head, inputs[0], inputs[1], inputs[2], probabilities, weights, scratch,
                  (struct head_gradients){gradients[0], gradients[1], gradients[2]});
    check(name, counts, 3, head_loss);
}

static void test_head(void **state)
{
    (void)state;
    check_head((struct dropout){0}, "attention");
    check_head(drop, "attention with dropout");
}

int main(int argc, char **argv)
{
    (void)argc;
    gemm_pin_kernels(argv);
    gemm_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear), cmocka_unit_test(test_norm),
        cmocka_unit_test(test_gelu),   cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_head),   cmocka_unit_test(test_cross_entropy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
