/* What the server keeps beside the core: jobs with their keys, offers with their prices, agents. */
#include "base/mem.h"
#include "server/agents.h"
#include "server/jobs.h"
#include "server/offers.h"
#include "server/test_dir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Jobs. */

static struct job_info *add_job(struct jobs *jobs, const char *key)
{
    struct error error = {""};
    struct job_info *info = jobs_add(jobs, "job", 7, key, &error);
    if (info == NULL) fail_msg("%s", error.text);
    return info;
}

static void a_key_finds_its_job_until_that_is_given_up(void **state)
{
    (void)state;
    struct jobs jobs;
    char key[32];
    jobs_init(&jobs, NULL, NULL);
    assert_null(jobs_find_key(&jobs, "key-1"));
    for (uint64_t id = 1; id <= 500; id++) {
        (void)snprintf(key, sizeof key, "key-%u", (unsigned)id);
        assert_int_equal(add_job(&jobs, key)->job_id, id);
    }
    assert_int_equal(jobs_find_key(&jobs, "key-77")->job_id, 77);
    jobs_give_up(&jobs, 77);
    assert_null(jobs_find_key(&jobs, "key-77"));
    assert_null(jobs_find(&jobs, 77));
    assert_int_equal(jobs_find_key(&jobs, "key-78")->job_id, 78);
    assert_int_equal(add_job(&jobs, "key-77")->job_id, 501); /* the number is not used again */
    assert_int_equal(jobs_find_key(&jobs, "key-77")->job_id, 501);
    assert_null(jobs_find(&jobs, 0));
    assert_null(jobs_find(&jobs, 502));
    jobs_free(&jobs);
}

static void every_job_has_a_secret_of_its_own(void **state)
{
    (void)state;
    struct jobs jobs;
    jobs_init(&jobs, NULL, NULL);
    (void)add_job(&jobs, NULL);
    (void)add_job(&jobs, NULL);
    assert_int_equal(strlen(jobs_find(&jobs, 1)->secret), AUTH_TOKEN_DIGITS);
    assert_string_not_equal(jobs_find(&jobs, 1)->secret, jobs_find(&jobs, 2)->secret);
    jobs_free(&jobs);
}

static void stored_steps_are_told_by_one_number(void **state)
{
    (void)state;
    struct told told = {0};
    told_note(&told, 0);
    told_note(&told, 2);
    assert_int_equal(told.first, 1); /* 1 is missing */
    told_note(&told, 2);
    told_note(&told, 1);
    assert_int_equal(told.first, 3);
    told_note(&told, 1);
    assert_int_equal(told.first, 3);
    for (uint64_t step = 4; step < 3 + TOLD_WINDOW; step++) told_note(&told, step);
    assert_int_equal(told.first, 3);
    told_note(&told, 3 + TOLD_WINDOW); /* 3 is given up */
    assert_int_equal(told.first, 4 + TOLD_WINDOW);
    told_note(&told, 1000000);
    assert_int_equal(told.first, 1000000 - TOLD_WINDOW + 1);
    for (uint64_t step = told.first; step < 1000000; step++) told_note(&told, step);
    assert_int_equal(told.first, 1000001);
}

static void jobs_come_back_from_the_journal(void **state)
{
    (void)state;
    char dir[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    struct jobs jobs;
    struct batch b;
    test_dir_make(dir);
    journal *j = journal_open(
        &(struct journal_options){.path = test_dir_path(dir, "journal.db", path)}, NULL);
    assert_non_null(j);
    batch_init(&b);
    for (uint64_t id = 1; id <= 5; id += 2) { /* 2 and 4 were given up */
        struct batch_job *row = array_push(&b.jobs);
        *row = (struct batch_job){.job_id = id, .spec_hash = 9};
        row->name = mem_printf("job-%d", (int)id);
        row->secret = mem_strdup("secret");
        row->idempotency_key = id == 3 ? mem_strdup("three") : NULL;
    }
    assert_true(journal_commit(j, &b, NULL));
    batch_free(&b);
    jobs_init(&jobs, NULL, j);
    assert_true(jobs_load(&jobs, NULL));
    assert_string_equal(jobs_find(&jobs, 5)->name, "job-5");
    assert_null(jobs_find(&jobs, 4));
    assert_int_equal(jobs_find_key(&jobs, "three")->job_id, 3);
    assert_false(jobs_find(&jobs, 3)->is_pending);
    assert_int_equal(add_job(&jobs, NULL)->job_id, 6);
    jobs_free(&jobs);
    journal_close(j);
    test_dir_remove(dir);
}

/* Whatever allocation fails: no job, or a whole one; never a key that leads nowhere. */
static void a_failed_allocation_adds_no_job(void **state)
{
    (void)state;
    uint32_t failures = 0;
    for (uint64_t nth = 1; nth <= 8; nth++) {
        struct jobs jobs;
        jobs_init(&jobs, NULL, NULL);
        mem_fail_at(nth);
        bool added = jobs_add(&jobs, "job", 7, "key", NULL) != NULL;
        mem_fail_at(0);
        failures += !added;
        assert_int_equal(jobs_find_key(&jobs, "key") != NULL, added);
        jobs_free(&jobs);
    }
    assert_true(failures >= 3);
}

/* Offers. */

static struct catalog catalog_of_one(void)
{
    struct catalog catalog = {.model_count = 1};
    (void)snprintf(catalog.models[0].name, CATALOG_NAME_BYTES, "A10");
    catalog.models[0].ncu_milli = 400;
    return catalog;
}

static struct driver_offer offer_in(const char *zone)
{
    return (struct driver_offer){.name = {.provider = "aurora",
                                          .region = "east",
                                          .zone = zone,
                                          .model = "A10",
                                          .capacity = CAPACITY_SPOT,
                                          .device_count = 2},
                                 .usd_micros_per_hour = 1000000,
                                 .stock_count = 3};
}

static void an_offer_keeps_its_number_and_leads_back_to_its_names(void **state)
{
    (void)state;
    struct offers offers, loaded;
    struct pool_event first, again, other, racked;
    struct catalog catalog = catalog_of_one();
    struct driver_offer a = offer_in("aurora/a"), b = offer_in("aurora/b");
    names *n = names_open();
    offers_init(&offers);
    assert_true(offers_event(&offers, n, &catalog, "local", &a, &first, NULL));
    assert_true(offers_event(&offers, n, &catalog, "local", &b, &other, NULL));
    assert_true(offers_event(&offers, n, &catalog, "local", &a, &again, NULL));
    assert_int_equal(first.u.offer_changed.offer_id, again.u.offer_changed.offer_id);
    assert_int_not_equal(first.u.offer_changed.offer_id, other.u.offer_changed.offer_id);
    a.name.rack = "r7"; /* the same nodes in a rack are another offer */
    assert_true(offers_event(&offers, n, &catalog, "local", &a, &racked, NULL));
    assert_int_not_equal(first.u.offer_changed.offer_id, racked.u.offer_changed.offer_id);
    assert_int_equal(first.u.offer_changed.rack, 0);
    assert_int_not_equal(racked.u.offer_changed.rack, 0);
    offers_init(&loaded);
    assert_true(offers_load(&loaded, n)); /* as after a restart */
    const struct offer_info *info = offers_find(&loaded, other.u.offer_changed.offer_id);
    assert_string_equal(info->entry, "local");
    assert_string_equal(info->name.zone, "aurora/b");
    assert_string_equal(info->name.rack, "");
    assert_int_equal(info->name.capacity, CAPACITY_SPOT);
    assert_int_equal(info->name.device_count, 2);
    info = offers_find(&loaded, racked.u.offer_changed.offer_id);
    assert_string_equal(info->name.rack, "r7");
    assert_null(offers_find(&loaded, 0));
    assert_null(offers_find(&loaded, 99));
    offers_free(&offers);
    offers_free(&loaded);
    names_close(n);
}

/* A price alone is told with others; but never while something else of the offer is on its way, or its
 * commit failed: then the core does not know the rest. */
static void only_a_price_that_alone_is_new_is_told_alone(void **state)
{
    (void)state;
    struct offers offers;
    struct pool_event event;
    struct catalog catalog = catalog_of_one();
    struct driver_offer a = offer_in("aurora/a");
    names *n = names_open();
    offers_init(&offers);
    assert_true(offers_event(&offers, n, &catalog, "local", &a, &event, NULL));
    assert_false(offers_is_price_only(&offers, &event)); /* never told */
    offers_note_pushed(&offers, &event);
    assert_false(offers_is_price_only(&offers, &event));
    offers_note(&offers, &event);
    a.usd_micros_per_hour += 1000;
    assert_true(offers_event(&offers, n, &catalog, "local", &a, &event, NULL));
    assert_true(offers_is_price_only(&offers, &event));
    struct pool_event priced = {.kind = POOL_EVENT_OFFERS_PRICED,
                                .now_us = 5000000,
                                .u.offers_priced = {.count = 1, .prices = {{1, 77}}}};
    offers_note(&offers, &priced);
    const struct array *prices = &offers_find(&offers, 1)->prices;
    const struct offer_price *last = array_at(prices, prices->count - 1);
    assert_int_equal(last->usd_micros_per_hour, 77);
    a.stock_count++;
    assert_true(offers_event(&offers, n, &catalog, "local", &a, &event, NULL));
    assert_false(offers_is_price_only(&offers, &event));
    offers_note_pushed(&offers, &event); /* and its commit fails */
    a.stock_count--;
    assert_true(offers_event(&offers, n, &catalog, "local", &a, &event, NULL));
    assert_false(offers_is_price_only(&offers, &event));
    offers_free(&offers);
    names_close(n);
}

static void offers_with_strange_names_are_passed_over(void **state)
{
    (void)state;
    struct offers offers;
    struct pool_event event;
    struct error error = {""};
    struct catalog catalog = catalog_of_one();
    struct driver_offer unknown = offer_in("z"), tab = offer_in("a\tb"), empty = offer_in("");
    names *n = names_open();
    offers_init(&offers);
    unknown.name.model = "Z9";
    assert_false(offers_event(&offers, n, &catalog, "local", &unknown, &event, &error));
    assert_non_null(strstr(error.text, "Z9"));
    assert_false(offers_event(&offers, n, &catalog, "local", &tab, &event, &error));
    assert_false(offers_event(&offers, n, &catalog, "local", &empty, &event, &error));
    assert_int_equal(names_end(n, NAME_OFFER), 0);
    offers_free(&offers);
    names_close(n);
}

/* However long and fast prices move, memory is bounded and the newest points stay whole. */
static void prices_are_thinned_not_forgotten(void **state)
{
    (void)state;
    struct offers offers;
    struct pool_event event;
    struct catalog catalog = catalog_of_one();
    struct driver_offer offer = offer_in("aurora/a");
    names *n = names_open();
    offers_init(&offers);
    assert_true(offers_event(&offers, n, &catalog, "local", &offer, &event, NULL));
    for (int i = 0; i < 20000; i++) {
        event.now_us = INT64_C(1000000) * i / 4; /* four changes a second */
        event.u.offer_changed.usd_micros_per_hour = 1000000 + i;
        offers_note(&offers, &event);
    }
    const struct offer_info *info = offers_find(&offers, event.u.offer_changed.offer_id);
    assert_in_range(info->prices.count, OFFER_PRICES_MAX / 4, OFFER_PRICES_MAX);
    for (uint32_t i = 1; i < info->prices.count; i++) {
        const struct offer_price *a = array_at(&info->prices, i - 1),
                                 *b = array_at(&info->prices, i);
        assert_true(a->at_us < b->at_us);
    }
    const struct offer_price *last = array_at(&info->prices, info->prices.count - 1);
    assert_int_equal(last->usd_micros_per_hour, 1000000 + 19999);
    offers_free(&offers);
    names_close(n);
}

/* Agents. */

static void rows_of_silent_agents_are_used_again(void **state)
{
    (void)state;
    struct agents agents;
    agents_init(&agents);
    for (uint64_t key = 1; key <= 3; key++) agents_get(&agents, key)->heard_us = (int64_t)key * 100;
    agents_sweep(&agents, 250);
    assert_null(agents_find(&agents, 1));
    assert_null(agents_find(&agents, 2));
    assert_non_null(agents_find(&agents, 3));
    assert_int_equal(agents_get(&agents, 4)->logs_after, 0);
    assert_int_equal(agents.infos.count, 3);
    agents_free(&agents);
}

static void another_run_of_an_agent_is_told_apart(void **state)
{
    (void)state;
    struct agent_report a = {.pid = 10, .started = "2026-01-01T00:00:00.000Z"};
    struct agent_report b = {.pid = 11, .started = "2026-01-01T00:00:00.000Z"};
    struct agent_report c = {.pid = 10, .started = "2026-01-01T00:00:00.001Z"};
    assert_int_not_equal(agent_boot_of(&a), agent_boot_of(&b));
    assert_int_not_equal(agent_boot_of(&a), agent_boot_of(&c));
    assert_true(agent_boot_of(&a) <= INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_finds_its_job_until_that_is_given_up),
        cmocka_unit_test(every_job_has_a_secret_of_its_own),
        cmocka_unit_test(jobs_come_back_from_the_journal),
        cmocka_unit_test(stored_steps_are_told_by_one_number),
        cmocka_unit_test(a_failed_allocation_adds_no_job),
        cmocka_unit_test(an_offer_keeps_its_number_and_leads_back_to_its_names),
        cmocka_unit_test(only_a_price_that_alone_is_new_is_told_alone),
        cmocka_unit_test(offers_with_strange_names_are_passed_over),
        cmocka_unit_test(prices_are_thinned_not_forgotten),
        cmocka_unit_test(rows_of_silent_agents_are_used_again),
        cmocka_unit_test(another_run_of_an_agent_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
