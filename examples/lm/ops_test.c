/* The products against three plain loops, and small cases by hand. Gradients: gradient_test.c. */
#include "model.h"
#include "ops.h"
#include "test_kit.h"
#include <math.h>

enum { SIDE_MAX = 40, AREA_MAX = SIDE_MAX * (SIDE_MAX + 3) };

static void fill(float *values, size_t count, uint64_t stream)
{
    for (size_t i = 0; i < count; i++) values[i] = counter_uniform(7, stream, i) - 0.5f;
}

static float at(struct gemm_operand operand, size_t row, size_t column)
{
    return operand.transposed ? operand.data[column * operand.stride + row]
                              : operand.data[row * operand.stride + column];
}

static void check_product(struct gemm_shape shape, int a_transposed, int b_transposed)
{
    static float a[AREA_MAX], b[AREA_MAX], c[AREA_MAX], old[AREA_MAX];
    fill(a, AREA_MAX, 1);
    fill(b, AREA_MAX, 2);
    fill(c, AREA_MAX, 3);
    fill(old, AREA_MAX, 3);
    struct gemm_operand left = {a, (a_transposed ? shape.m : shape.k) + 3, a_transposed};
    struct gemm_operand right = {b, (b_transposed ? shape.k : shape.n) + 3, b_transposed};
    size_t stride = shape.n + 3;
    gemm(shape, 0.5f, left, right, 2.0f, c, stride);
    for (size_t row = 0; row < shape.m; row++) {
        for (size_t column = 0; column < shape.n; column++) {
            double sum = 0;
            for (size_t k = 0; k < shape.k; k++)
                sum += (double)at(left, row, k) * (double)at(right, k, column);
            double wanted = 0.5 * sum + 2.0 * (double)old[row * stride + column];
            assert_float_equal(c[row * stride + column], wanted, 1e-4);
        }
        for (size_t column = shape.n; column < stride; column++) /* what lies between rows stays */
            assert_true(c[row * stride + column] == old[row * stride + column]);
    }
}

static void test_products(void **state)
{
    (void)state;
    const size_t sides[] = {1, 2, 5, 16, SIDE_MAX};
    enum { SIDES = sizeof sides / sizeof sides[0] };
    for (size_t i = 0; i < SIDES * SIDES * SIDES; i++) {
        struct gemm_shape shape = {sides[i % SIDES], sides[i / SIDES % SIDES],
                                   sides[i / SIDES / SIDES]};
        for (int flags = 0; flags < 4; flags++) check_product(shape, flags & 1, flags >> 1);
    }
}

static void test_linear(void **state)
{
    (void)state;
    /* x = [1 2], W = [[1 0] [0 1] [1 1]], b = [10 20 30] */
    const float x[] = {1, 2}, weight[] = {1, 0, 0, 1, 1, 1}, bias[] = {10, 20, 30};
    const struct linear_shape shape = {.rows = 1, .inputs = 2, .outputs = 3};
    float y[3];
    linear_forward(shape, x, weight, bias, y);
    assert_true(y[0] == 11 && y[1] == 22 && y[2] == 33);
    linear_forward(shape, x, weight, NULL, y);
    assert_true(y[0] == 1 && y[1] == 2 && y[2] == 3);

    const float d_y[] = {1, 1, 2};
    float d_x[2] = {99, 99}, d_weight[6] = {5, 5, 5, 5, 5, 5}, d_bias[3] = {7, 7, 7}; /* all set */
    linear_backward(shape, d_y, x, weight, d_x, d_weight, d_bias);
    assert_true(d_x[0] == 3 && d_x[1] == 3);
    const float wanted[6] = {1, 2, 1, 2, 2, 4};
    for (int i = 0; i < 6; i++) assert_true(d_weight[i] == wanted[i]);
    assert_true(d_bias[0] == 1 && d_bias[1] == 1 && d_bias[2] == 2);
}

static void test_loss(void **state)
{
    (void)state;
    float rows[] = {0, 0, 0, 0, 1000, 0, 0, 0}; /* even; one that would overflow exp() */
    float sums[2];
    const uint16_t targets[] = {2, 0};
    assert_float_equal(cross_entropy(2, 4, targets, rows, sums), log(4), 1e-6);
    cross_entropy_backward(2, 4, 0.5f, targets, sums, rows);
    assert_float_equal(rows[0], 0.125, 1e-6);
    assert_float_equal(rows[2], -0.375, 1e-6);
    assert_float_equal(rows[4], 0, 1e-6);
    float unlikely[] = {1000, 0};
    const uint16_t second[] = {1};
    assert_float_equal(cross_entropy(1, 2, second, unlikely, sums), 87, 0.01);
}

int main(int argc, char **argv)
{
    (void)argc;
    gemm_pin_kernels(argv);
    gemm_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
