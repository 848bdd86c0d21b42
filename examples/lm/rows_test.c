/* exp() and log() against the C library, the sums and the softmax, and dropout's choices. */
#include "model.h"
#include "rows.h"
#include "test_kit.h"
#include <math.h>
#include <string.h>

static void fill(float *values, size_t count, uint64_t stream)
{
    for (size_t i = 0; i < count; i++) values[i] = counter_uniform(7, stream, i) - 0.5f;
}

static void test_exp(void **state)
{
    (void)state;
    for (int i = -8700; i <= 8800; i++) {
        float x = (float)i / 100.0f, value = x;
        exp_values(1, &value);
        double wanted = exp((double)x);
        assert_true(fabs((double)value - wanted) <= 3e-7 * wanted);
    }
    float ends[] = {-1e30f, 1e30f, -88.0f, 89.0f};
    exp_values(4, ends);
    assert_true(ends[0] == ends[2] && ends[0] > 0);
    assert_true(ends[1] == ends[3] && isfinite(ends[1]));
}

static void test_log(void **state)
{
    (void)state;
    assert_true(log_value(1) == 0);
    for (double x = 1e-38; x < 1e38; x *= 1.0173) {
        double wanted = log(x);
        assert_true(fabs(log_value(x) - wanted) <= 1e-13 * fabs(wanted) + 1e-15);
    }
}

/* Vector registers or not, whole blocks or the rest of one: an element has the same bits. */
static void test_elements_do_not_depend_on_their_place(void **state)
{
    (void)state;
    float in[1100], together[1100], alone, d_together[1100], d_alone;
    fill(in, 1100, 4);
    gelu_forward(1100, in, together);
    for (size_t i = 0; i < 1100; i++) d_together[i] = 1;
    gelu_backward(1100, in, d_together);
    for (size_t i = 0; i < 1100; i++) {
        gelu_forward(1, &in[i], &alone);
        d_alone = 1;
        gelu_backward(1, &in[i], &d_alone);
        assert_memory_equal(&alone, &together[i], sizeof alone);
        assert_memory_equal(&d_alone, &d_together[i], sizeof d_alone);
    }
}

static void test_softmax(void **state)
{
    (void)state;
    float row[77], sums[77];
    for (size_t count = 1; count <= 77; count++) {
        fill(row, count, count);
        double total = 0, top = -1;
        for (size_t i = 0; i < count; i++) total += exp(40.0 * (double)row[i]);
        for (size_t i = 0; i < count; i++) sums[i] = (float)(exp(40.0 * (double)row[i]) / total);
        scale_row(count, 40, row);
        softmax_row(count, row);
        for (size_t i = 0; i < count; i++) {
            assert_float_equal(row[i], sums[i], 1e-5);
            top = fmax(top, (double)row[i]);
        }
        assert_true(top <= 1.000001);
    }
    float huge[] = {1000, 0};
    softmax_row(2, huge);
    assert_float_equal(huge[0], 1, 1e-6);
}

static void test_dropout(void **state)
{
    (void)state;
    enum { COUNT = 100003 };
    static float values[COUNT], again[COUNT], other[COUNT];
    const double share = 0.25;
    const struct dropout dropout = dropout_of(share);
    size_t dropped = 0, same = 0;
    for (size_t i = 0; i < COUNT; i++) values[i] = again[i] = other[i] = 3;
    dropout_apply(dropout, 1, COUNT, values);
    dropout_apply(dropout, 1, COUNT, again);
    dropout_apply(dropout, 2, COUNT, other);
    assert_memory_equal(values, again, sizeof values);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(values[i] == 0 || fabs((double)values[i] - 4) < 1e-6);
        dropped += values[i] == 0;
        same += (values[i] == 0) == (other[i] == 0);
    }
    /* Binomial: 5 standard deviations. */
    assert_true(fabs((double)dropped - COUNT * share) < 5 * sqrt(COUNT * share * (1 - share)));
    double even = share * share + (1 - share) * (1 - share);
    assert_true(fabs((double)same - COUNT * even) < 5 * sqrt(COUNT * even * (1 - even)));
    float one = 5; /* an element's fate does not depend on how many there are */
    dropout_apply(dropout, 1, 1, &one);
    assert_true((one == 0) == (values[0] == 0));
    assert_int_equal(dropout_of(0).threshold, 0);
    assert_true(dropout_of(0).scale == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_elements_do_not_depend_on_their_place),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
