/* Terms: shared, kept while a live job has them, forgotten oldest first, never changed in use. */
#include "core/testing.h"

static const struct pool_limits limits = {.nodes_max = 4,
                                          .jobs_max = 16,
                                          .offers_max = 4,
                                          .models_max = 2,
                                          .pools_max = 1,
                                          .leases_max = 8,
                                          .terms_max = 2};

static void open_pool(struct bench *b)
{
    bench_open(b, &limits);
    bench_model(b, 0, 1000, 40, 1);
    bench_offer(b, (struct test_offer){.id = 1,
                                       .region = 1,
                                       .capacity = CAPACITY_ON_DEMAND,
                                       .devices = 1,
                                       .stock = 1,
                                       .price = USD,
                                       .on_demand = USD});
}

static void submit(struct bench *b, uint64_t job_id, uint64_t terms_id)
{
    if (terms_id != 0)
        bench_terms(b, terms_id, (struct job_terms){.run_us = (int64_t)terms_id * SECOND_US});
    bench_submit(b, (struct test_job){.id = job_id, .min = 1, .max = 1, .terms_id = terms_id});
}

static void terms_in_use_are_kept_and_more_than_fit_are_refused(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b);
    submit(&b, 1, 10);
    submit(&b, 2, 11);
    submit(&b, 3, 11); /* shared */
    submit(&b, 4, 12);
    const struct pool_decision *refused = bench_decision(&b, DECISION_REFUSE, REASON_LIMIT_TERMS);
    assert_non_null(refused);
    assert_int_equal(refused->a, 2);
    submit(&b, 5, 0); /* without any it is welcome */
    assert_int_equal(bench_job_state(&b, 5), JOB_QUEUED);
    bench_cancel(&b, 2);
    submit(&b, 6, 12); /* job 3 still has 11 */
    assert_int_equal(bench_job_state(&b, 6), JOB_REFUSED);
    bench_cancel(&b, 3);
    submit(&b, 7, 12);
    assert_int_equal(bench_job_state(&b, 7), JOB_QUEUED);
    bench_close(&b);
}

static void the_oldest_of_no_job_is_forgotten_first(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b);
    bench_terms(&b, 10, (struct job_terms){.run_us = 1});
    bench_terms(&b, 11, (struct job_terms){.run_us = 2});
    bench_terms(&b, 10, (struct job_terms){.run_us = 3}); /* of no job: defined anew */
    bench_terms(&b, 12, (struct job_terms){.run_us = 4});
    bench_submit(&b, (struct test_job){.id = 1, .min = 1, .max = 1, .terms_id = 11});
    assert_int_equal(bench_job_state(&b, 1), JOB_REFUSED);
    bench_submit(&b, (struct test_job){.id = 2, .min = 1, .max = 1, .terms_id = 10});
    assert_int_equal(bench_job_state(&b, 2), JOB_STARTING);
    bench_close(&b);
}

static void an_id_in_use_keeps_its_content(void **state)
{
    struct bench b;
    (void)state;
    open_pool(&b);
    submit(&b, 1, 10);
    uint64_t before = b.seq;
    bench_terms(&b, 10, (struct job_terms){.run_us = 10 * SECOND_US});
    assert_int_equal(b.out.marks & UINT64_C(1) << POOL_MARK_CATALOG_LIMIT, 0);
    bench_terms(&b, 10, (struct job_terms){.run_us = 11 * SECOND_US});
    assert_true((b.out.marks & UINT64_C(1) << POOL_MARK_CATALOG_LIMIT) != 0);
    assert_true(b.seq == before + 2);
    bench_close(&b);
}

/* The devices follow from the NCU: nothing can be asked of each. */
static void ncu_exclude_what_is_asked_of_devices(void **state)
{
    const struct job_terms contradictions[] = {{.device_milli = 400},
                                               {.host_cpu_milli = 1000},
                                               {.host_only = 1, .host_memory_mib = 8},
                                               {.mig_profile = 1},
                                               {.affinity = TOPOLOGY_RACK},
                                               {.spread = TOPOLOGY_NODE},
                                               {.degrade = 1},
                                               {.run_us = 2, .deadline_us = 1}};
    struct pool_event event = {.kind = POOL_EVENT_TERMS_DEFINED,
                               .version = POOL_CORE_VERSION,
                               .u.terms_defined = {.terms_id = 1}};
    (void)state;
    for (uint32_t i = 0; i < sizeof contradictions / sizeof contradictions[0]; i++) {
        event.u.terms_defined.terms = contradictions[i];
        assert_null(pool_event_check(&event));
        event.u.terms_defined.terms.ncu_milli = 11000;
        assert_non_null(strstr(pool_event_check(&event), "terms: NCU, and "));
    }
    event.u.terms_defined.terms = (struct job_terms){.ncu_milli = 11000};
    assert_null(pool_event_check(&event));
    event.u.terms_defined.terms.ncu_milli = UINT32_MAX;
    assert_non_null(pool_event_check(&event));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms_in_use_are_kept_and_more_than_fit_are_refused),
        cmocka_unit_test(the_oldest_of_no_job_is_forgotten_first),
        cmocka_unit_test(an_id_in_use_keeps_its_content),
        cmocka_unit_test(ncu_exclude_what_is_asked_of_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
