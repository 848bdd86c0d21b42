/* The learned ranking: its arithmetic against a slow one in reals, its range, and its file with what can be
 * wrong in it. */
#include "codec/rank_net.h"
#include "core/limits.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka needs the four above first. */
#include <cmocka.h>

#define ONE INT64_C(1000000)

/* A spot node of four devices, 10 NCU in all, $1.50 of $4. */
static const int64_t offer[RANK_FIELD_COUNT] = {
    [RANK_PRICE] = 3 * ONE / 2, [RANK_ON_DEMAND] = 4 * ONE, [RANK_HAZARD] = ONE / 4,
    [RANK_DISTRUST] = ONE / 10, [RANK_AGE] = 5 * ONE,       [RANK_CHANGEOVER] = ONE / 20,
    [RANK_NCU] = 10 * ONE,      [RANK_DEVICES] = 4 * ONE,   [RANK_STOCK] = 3 * ONE,
    [RANK_HELD] = 2 * ONE,      [RANK_SPOT] = ONE};

static uint32_t noise(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static struct rank_net any_net(uint32_t seed)
{
    struct rank_net net = {.version = RANK_NET_VERSION, .note = "made up, seeds 1..2"};
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++) {
        net.ranges[i].from = -(int32_t)(noise(&seed) % 3000);
        net.ranges[i].to = (int32_t)(noise(&seed) % 6000);
    }
    for (uint32_t i = 0; i < RANK_WEIGHTS; i++)
        net.weights[i] = (int8_t)((int32_t)(noise(&seed) % 255) - RANK_WEIGHT_MAX);
    return net;
}

static double cut_at_1(double x)
{
    return fmax(-1, fmin(1, x));
}

static double score_in_reals(const struct rank_net *net, const int32_t *inputs)
{
    const int8_t *out = net->weights + RANK_HIDDEN * RANK_ROW;
    double score = out[0] / 64.0;
    for (uint32_t j = 0; j < RANK_HIDDEN; j++) {
        double sum = net->weights[j * RANK_ROW] / 64.0;
        for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++) {
            double width = net->ranges[i].to - net->ranges[i].from;
            double x = width > 0 ? 2 * (inputs[i] - net->ranges[i].from) / width - 1 : 0;
            sum += net->weights[j * RANK_ROW + 1 + i] / 64.0 * cut_at_1(x);
        }
        score += out[1 + j] / 64.0 * cut_at_1(sum);
    }
    return fmax(-2, fmin(2, score));
}

/* Each of the roundings, 12 * 8 of the inputs and 8 of the hidden units, is of one 256th at most. */
static void its_score_is_that_of_reals(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (uint32_t round = 0; round < 2000; round++) {
        struct rank_net net = any_net(round);
        int32_t inputs[RANK_INPUT_COUNT];
        for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++)
            inputs[i] =
                net.ranges[i].from +
                (int32_t)(noise(&seed) % (uint32_t)(net.ranges[i].to - net.ranges[i].from + 1));
        assert_true(rank_net_knows(&net, inputs));
        double score = rank_net_score(&net, inputs) / 256.0;
        if (fabs(score - score_in_reals(&net, inputs)) > 0.5)
            fail_msg("round %u: %f instead of %f", round, score, score_in_reals(&net, inputs));
        assert_int_equal(rank_net_score(&net, inputs), rank_net_score(&net, inputs));
    }
}

static void inputs_are_logarithms_of_the_fields(void **state)
{
    (void)state;
    int64_t other[RANK_FIELD_COUNT];
    int32_t inputs[RANK_INPUT_COUNT];
    struct rank_around around = {0};
    memcpy(other, offer, sizeof other);
    other[RANK_PRICE] = offer[RANK_PRICE] / 2;
    other[RANK_HELD] = 6 * ONE;
    rank_around_add(&around, offer);
    rank_around_add(&around, other);
    rank_inputs_of(offer, &around, inputs);
    const double expected[RANK_INPUT_COUNT] = {
        [RANK_INPUT_PRICE] = log2(1.5 / 4), [RANK_INPUT_DEARER] = 1,
        [RANK_INPUT_HAZARD] = log2(251),    [RANK_INPUT_DISTRUST] = log2(1.1),
        [RANK_INPUT_AGE] = log2(101),       [RANK_INPUT_CHANGEOVER] = log2(51),
        [RANK_INPUT_STOCK] = log2(13),      [RANK_INPUT_HELD] = log2(9),
        [RANK_INPUT_SHARE] = 0.25,          [RANK_INPUT_DEVICES] = 2,
        [RANK_INPUT_SPEED] = log2(41),      [RANK_INPUT_SPOT] = 1};
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++)
        if (fabs(inputs[i] / 256.0 - expected[i]) > 0.01)
            fail_msg("%s is %f instead of %f", rank_input_names[i], inputs[i] / 256.0, expected[i]);
    assert_true(inputs[RANK_INPUT_SHARE] == 64);
}

static void fit(struct rank_net *net, const int32_t *inputs)
{
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++)
        net->ranges[i] = (struct rank_range){inputs[i] - 100, inputs[i] + 100};
}

/* With weights of 0 an offer counts as built in. The output's bias doubles. */
static void a_score_is_a_factor_beside_the_built_in(void **state)
{
    (void)state;
    struct rank_net net = {.version = RANK_NET_VERSION};
    struct rank_around around = {0};
    int32_t inputs[RANK_INPUT_COUNT];
    rank_around_add(&around, offer);
    rank_inputs_of(offer, &around, inputs);
    fit(&net, inputs);
    double zero = rank_net_factor_ppm(&net, offer, &around);
    assert_true(zero <= 1000000 && zero > 996000); /* as quantised */
    net.weights[RANK_HIDDEN * RANK_ROW] = 64;
    double twice = rank_net_factor_ppm(&net, offer, &around);
    assert_true(fabs(twice / zero - 2) < 0.01);
    net.weights[RANK_HIDDEN * RANK_ROW] = -127;
    double less = rank_net_factor_ppm(&net, offer, &around);
    assert_true(fabs(less / zero - exp2(-127 / 64.0)) < 0.005);
}

static void what_is_outside_is_not_ranked(void **state)
{
    (void)state;
    struct rank_around around = {0};
    int32_t inputs[RANK_INPUT_COUNT];
    int64_t free_of_charge[RANK_FIELD_COUNT] = {0};
    rank_around_add(&around, offer);
    rank_inputs_of(offer, &around, inputs);
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++) {
        struct rank_net net = any_net(3);
        fit(&net, inputs);
        assert_true(rank_net_factor_ppm(&net, offer, &around) >= RANK_PPM_MIN);
        net.ranges[i] = (struct rank_range){inputs[i], inputs[i]};
        assert_true(rank_net_factor_ppm(&net, offer, &around) >= RANK_PPM_MIN);
        net.ranges[i] = (struct rank_range){inputs[i] + 1, inputs[i] + 9};
        assert_int_equal(rank_net_factor_ppm(&net, offer, &around), RANK_OUTSIDE);
        net.ranges[i] = (struct rank_range){inputs[i] - 9, inputs[i] - 1};
        assert_int_equal(rank_net_factor_ppm(&net, offer, &around), RANK_OUTSIDE);
        assert_int_equal(rank_net_factor_ppm(&net, free_of_charge, &around), 0);
    }
}

static void a_network_is_read_as_it_was_written(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 50; seed++) {
        struct rank_net net = any_net(seed), read;
        struct error error;
        char text[RANK_NET_BYTES_MAX], again[RANK_NET_BYTES_MAX];
        size_t bytes = rank_net_print(&net, text, sizeof text);
        if (!rank_net_parse("n.yaml", text, bytes, &read, &error)) fail_msg("%s", error.text);
        assert_memory_equal(read.weights, net.weights, sizeof net.weights);
        assert_memory_equal(read.ranges, net.ranges, sizeof net.ranges);
        assert_string_equal(read.note, net.note);
        assert_int_equal(rank_net_print(&read, again, sizeof again), bytes);
        assert_string_equal(text, again);
    }
}

static void the_shipped_one_is_good(void **state)
{
    (void)state;
    struct rank_net net = {0};
    struct error error;
    if (!rank_net_shipped(&net, &error)) fail_msg("%s", error.text);
    assert_int_equal(net.version, RANK_NET_VERSION);
}

/* One place of a good file is changed; no network is given out. */
static void mistakes_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *mistake;
    } cases[] = {
        {"version: 1", "version: 2",
         "n.yaml:3: a ranking of version 2, this program reads version 1"},
        {"version: 1\n", "", "n.yaml:3: \"version\" is missing"},
        {"  spot:", "  spott:", "n.yaml:17: unknown key \"spott\""},
        {"  price: {from: ", "  price: {from: 16384, to: 5} # ",
         "n.yaml:6: price: from is above to"},
        {"output: [", "output: [1, ", "a row of 9 numbers, a bias and the weights, not of 10"},
        {"output: [", "output: [1", "n.yaml:"},
        {"hidden:\n", "hidden:\n  - [1]\n", "8 rows, one for each hidden unit, not 9"},
        {"checksum: ", "checksum: 1", "n.yaml:28: "},
        {"trained: \"", "trained: \"\x01", "n.yaml"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rank_net net = any_net(5), read = {0};
        struct error error = {""};
        char text[RANK_NET_BYTES_MAX], bad[RANK_NET_BYTES_MAX];
        (void)rank_net_print(&net, text, sizeof text);
        const char *at = strstr(text, cases[i].from);
        assert_non_null(at);
        (void)snprintf(bad, sizeof bad, "%.*s%s%s", (int)(at - text), text, cases[i].to,
                       at + strlen(cases[i].from));
        assert_false(rank_net_parse("n.yaml", bad, strlen(bad), &read, &error));
        if (strstr(error.text, cases[i].mistake) == NULL)
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, error.text, cases[i].mistake);
        assert_int_equal(read.version, 0);
    }
}

/* A weight changed by hand, or a file cut off at any byte. */
static void damage_is_found(void **state)
{
    (void)state;
    struct rank_net net = any_net(9), read = {0};
    struct error error;
    char text[RANK_NET_BYTES_MAX];
    net.weights[20] = 55;
    size_t bytes = rank_net_print(&net, text, sizeof text);
    for (size_t cut = 0; cut + 2 < bytes; cut++) {
        if (rank_net_parse("n.yaml", text, cut, &read, &error)) fail_msg("cut at %zu", cut);
        assert_true(error.text[0] != '\0');
    }
    char *weight = strstr(text, " 55,");
    assert_non_null(weight);
    weight[2] = '6';
    assert_false(rank_net_parse("n.yaml", text, bytes, &read, &error));
    assert_non_null(strstr(error.text, "the checksum is not that of the numbers"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_score_is_that_of_reals),
        cmocka_unit_test(inputs_are_logarithms_of_the_fields),
        cmocka_unit_test(a_score_is_a_factor_beside_the_built_in),
        cmocka_unit_test(what_is_outside_is_not_ranked),
        cmocka_unit_test(a_network_is_read_as_it_was_written),
        cmocka_unit_test(the_shipped_one_is_good),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(damage_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
