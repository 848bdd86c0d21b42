/* Rates of loss by age, and what follows from them: against what made-up lives were drawn from. */
#include "server/survival.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void near(double is, double wanted, double share)
{
    if (fabs(is - wanted) > share * fabs(wanted)) fail_msg("%g instead of %g", is, wanted);
}

static void with_nothing_seen_the_prior_speaks(void **state)
{
    (void)state;
    const struct survival_seen none = {0};
    struct survival_curve spot, owned;
    survival_curve_of(&none, &none, true, &spot);
    survival_curve_of(&none, &none, false, &owned);
    near(spot.per_hour[0], 0.6 / (2.5 / 60 + 13.0 / 60), 1e-9);
    assert_true(spot.per_hour[10] < spot.per_hour[0] / 100); /* heavy tail */
    near(owned.per_hour[3], 1.0 / 5000, 1e-9);
    assert_true(survival_at(&owned, 24) > 0.99);
    near(survival_at(&spot, 0), 1, 0);
}

static void lives_are_spread_over_their_ages(void **state)
{
    (void)state;
    struct survival_seen seen = {0}, all = {0};
    survival_add(&seen, 0.25, true); /* 15 minutes: 5 + 5 + 5 */
    survival_add(&seen, 1000, false);
    survival_add(&seen, -1, true);
    near(seen.hours[0], 2 * 5 / 60.0, 1e-9);
    near(seen.hours[2], 5 / 60.0 + 10 / 60.0, 1e-9);
    assert_int_equal(seen.lost[2], 1);
    assert_int_equal(seen.losses, 1);
    assert_int_equal(seen.lives, 2);
    near(seen.hours[10], 1000 - 5.0 / 60 * 512, 1e-9);
    survival_join(&all, &seen);
    survival_join(&all, &seen);
    assert_int_equal(all.lost[2], 2);
    near(all.hours[2], 2 * seen.hours[2], 1e-9);
}

/* 5,000 lives of a constant rate, a third of them let go after an hour. */
static void the_rate_behind_many_lives_is_found(void **state)
{
    (void)state;
    struct survival_random random = {7};
    struct survival_seen seen = {0};
    struct survival_curve curve;
    for (int i = 0; i < 5000; i++) {
        double life = -log(survival_uniform(&random)) / 0.5;
        bool is_cut = i % 3 == 0 && life > 1;
        survival_add(&seen, is_cut ? 1 : life, !is_cut);
    }
    survival_curve_of(&seen, &seen, true, &curve);
    near(survival_at(&curve, 2), exp(-1), 0.05);
    near(survival_age_of(&curve, 0.5), log(2) / 0.5, 0.05);
    near(survival_mean(&curve, 24), 2, 0.05);
    near(survival_age_after(&curve, 3, 0.5), 3 + log(2) / 0.5, 0.2);
}

static void few_lives_lean_on_their_kind(void **state)
{
    (void)state;
    struct survival_seen all = {0}, own = {0};
    struct survival_curve kind, curve;
    for (int i = 0; i < 1000; i++) survival_add(&all, 10, i % 10 == 0);
    survival_add(&own, 0.1, true);
    survival_curve_of(&all, &all, true, &kind);
    survival_curve_of(&own, &all, true, &curve);
    double alone = survival_at(&curve, 1), kin = survival_at(&kind, 1);
    assert_true(alone < kin && alone > kin / 2); /* one early loss does not condemn it */
}

static void losses_of_what_was_guaranteed_are_believed(void **state)
{
    (void)state;
    struct survival_seen seen = {0};
    struct survival_curve curve;
    for (int i = 0; i < 8; i++) survival_add(&seen, 0.02, i < 6);
    survival_curve_of(&seen, &seen, false, &curve);
    assert_true(survival_at(&curve, 1) < 0.99);
    survival_curve_of(&(struct survival_seen){0}, &(struct survival_seen){0}, false, &curve);
    assert_true(survival_at(&curve, 24) > 0.99);
}

static void draws_are_about_the_mean_and_repeat(void **state)
{
    (void)state;
    struct survival_seen all = {0};
    struct survival_curve curve, drawn, again;
    struct survival_random random = {3}, same = {3};
    double sum = 0;
    for (int i = 0; i < 40; i++) survival_add(&all, 0.5 + i, i % 2 == 0);
    survival_curve_of(&all, &all, true, &curve);
    for (int i = 0; i < 2000; i++) {
        survival_draw(&curve, &random, &drawn);
        survival_draw(&curve, &same, &again);
        assert_true(drawn.per_hour[4] == again.per_hour[4]);
        sum += drawn.per_hour[4];
    }
    near(sum / 2000, curve.per_hour[4], 0.05);
}

static void a_rate_of_nothing_never_ends(void **state)
{
    (void)state;
    const struct survival_curve none = {{0}, {0}};
    assert_true(isinf(survival_age_of(&none, 0.5)));
    near(survival_mean(&none, 24), 24, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_nothing_seen_the_prior_speaks),
        cmocka_unit_test(lives_are_spread_over_their_ages),
        cmocka_unit_test(the_rate_behind_many_lives_is_found),
        cmocka_unit_test(few_lives_lean_on_their_kind),
        cmocka_unit_test(losses_of_what_was_guaranteed_are_believed),
        cmocka_unit_test(draws_are_about_the_mean_and_repeat),
        cmocka_unit_test(a_rate_of_nothing_never_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
