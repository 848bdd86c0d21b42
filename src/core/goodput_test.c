/* Values of configurations against the formula of goodput.h in reals. */
#include "core/goodput.h"
#include "core/testing.h"

static uint64_t state_of_random;

static uint64_t draw(uint64_t end)
{
    state_of_random =
        state_of_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state_of_random >> 20) % end;
}

static const struct goodput_rule rule = {
    .weight_s = 7200, .horizon_s = 600, .unknown_s = 7200, .move_ppm = 1000000};

static double root_of(double x) /* Newton; the tests have no libm */
{
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 60; i++) r = (r + x / r) / 2;
    return r;
}

static void assert_near(double a, double b, double share)
{
    double apart = a > b ? a - b : b - a;
    if (apart > share * b + 1.5) fail_msg("%f is not near %f", a, b);
}

static void root_is_the_root(void **state)
{
    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t least = 1 + draw(UINT64_C(1) << (1 + draw(40)));
        uint64_t rate = 1 + draw(least * 900);
        double real = root_of((double)rate / (double)least) * GOODPUT_ROOT_ONE;
        assert_near(goodput_root(rate, least), real, 0.0001);
    }
    assert_int_equal(goodput_root(7, 7), GOODPUT_ROOT_ONE);
    assert_int_equal(goodput_root(0, 7), 0);
    assert_int_equal(goodput_root(7, 0), 0);
    assert_int_equal(goodput_root(UINT64_MAX, 1), 32 * GOODPUT_ROOT_ONE);
    assert_int_equal(goodput_root(UINT64_MAX, UINT64_MAX), GOODPUT_ROOT_ONE);
}

static double real_value(const struct goodput_job *job, uint64_t least, uint64_t rate,
                         bool is_current)
{
    double left = (double)job->work / (double)job->rate_best;
    double finish = (double)job->work / (double)rate;
    double horizon = job->since_change_s > 600 ? (double)job->since_change_s : 600;
    if (finish < horizon) horizon = finish;
    double keep = is_current ? 1 : horizon / (horizon + (double)job->restart_s);
    return GOODPUT_ONE * 7200 / (left + 7200) * root_of((double)rate / (double)least) * keep;
}

static void value_is_the_formula(void **state)
{
    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t least = 1000 + draw(1000000);
        struct goodput_job job = {.restart_s = (int64_t)draw(300),
                                  .since_change_s = (int64_t)draw(20000)};
        job.rate_best = least * (1 + draw(40));
        uint64_t rate = least + draw(job.rate_best - least + 1);
        job.work = job.rate_best * (20 + draw(100000)); /* whole seconds cost little from 20 s on */
        bool current = draw(2) == 0;
        uint32_t root = goodput_root(rate, least);
        uint32_t value = goodput_value(&rule, &job, rate, root, current);
        assert_near(value, real_value(&job, least, rate, current), 0.02);
        struct goodput_job later = job;
        later.work *= 2;
        assert_true(goodput_value(&rule, &later, rate, root, true) <=
                    goodput_value(&rule, &job, rate, root, true));
        assert_true(value <= goodput_value(&rule, &job, rate, root, true));
    }
}

static void limits_hold(void **state)
{
    (void)state;
    struct goodput_job job = {.work = UINT64_MAX,

                              .rate_best = 1,
                              .restart_s = INT64_MAX,
                              .since_change_s = INT64_MAX};
    assert_int_equal(goodput_value(&rule, &job, 0, 1, true), 0);
    assert_int_equal(goodput_value(&rule, &job, 1, 1, false), 1); /* worth little, not nothing */
    job = (struct goodput_job){.rate_best = 1};
    assert_int_equal(goodput_value(&rule, &job, 1, UINT32_MAX, true), GOODPUT_VALUE_MAX);
    job.since_change_s = INT64_MIN; /* a clock that went back */
    job.restart_s = -1;
    assert_true(goodput_value(&rule, &job, 1, GOODPUT_ROOT_ONE, false) > 0);
    assert_int_equal(goodput_value_unknown(&rule), GOODPUT_ONE / 2);
    assert_int_equal(goodput_time_s(0, 0), 0);
    assert_int_equal(goodput_time_s(1, 0), GOODPUT_TIME_S_MAX);
}

int main(void)
{
    state_of_random = 3;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_is_the_root),
        cmocka_unit_test(value_is_the_formula),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
