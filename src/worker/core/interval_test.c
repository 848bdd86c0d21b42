/* The formula against itself in floating point, its monotony, and the limits. */
#include "worker/core/interval.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void follows_the_formula(void **state)
{
    (void)state;
    static const struct interval_facts table[] = {
        {1000000, 0, 0, 0, 1},
        {50000, 20000000, 3600000000, 4, 8},
        {0, 60000000, INT64_C(86400000000) * 64, 100, 64},
        {2000000, 120000000, INT64_C(86400000000), 0, 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct interval_facts *f = &table[i];
        double cost = (double)f->stall_us + (double)f->write_us / INTERVAL_WRITE_SHARE;
        double mean = ((double)f->member_us + (double)INTERVAL_PRIOR_US) /
                      ((double)f->loss_count + 1) / f->member_count;
        double wanted = sqrt(2 * cost * mean);
        if (wanted < (double)f->write_us) wanted = (double)f->write_us;
        if (wanted < (double)INTERVAL_MIN_US) wanted = (double)INTERVAL_MIN_US;
        if (wanted > (double)INTERVAL_MAX_US) wanted = (double)INTERVAL_MAX_US;
        assert_true(fabs((double)interval_us(f) - wanted) <= wanted * 1e-3);
    }
}

static void dearer_means_rarer_and_danger_means_oftener(void **state)
{
    (void)state;
    int64_t last_us = 0;
    for (int64_t stall_us = 1; stall_us < 1000000000; stall_us *= 3) {
        int64_t us = interval_us(&(struct interval_facts){stall_us, 0, 0, 0, 4});
        assert_true(us >= last_us);
        last_us = us;
    }
    last_us = INT64_MAX;
    for (int64_t losses = 0; losses < 1000; losses = 2 * losses + 1) {
        int64_t us = interval_us(&(struct interval_facts){500000, 0, 3600000000, losses, 4});
        assert_true(us <= last_us);
        last_us = us;
    }
}

static void limits(void **state)
{
    (void)state;
    struct interval_facts none = {0, 0, 0, 0, 1};
    assert_int_equal(interval_us(&none), INTERVAL_MIN_US);
    struct interval_facts huge = {INT64_MAX / 4, INT64_MAX / 4, INT64_MAX / 4, 0, 1};
    assert_int_equal(interval_us(&huge), INTERVAL_MAX_US);
    struct interval_facts small = {1, 1, 0, 1000000, 1024};
    assert_int_equal(interval_us(&small), INTERVAL_MIN_US);
    struct interval_facts slow = {1, 600000000, 0, 1000000, 1024}; /* ten minutes to write */
    assert_int_equal(interval_us(&slow), 600000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_formula),
        cmocka_unit_test(dearer_means_rarer_and_danger_means_oftener),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
