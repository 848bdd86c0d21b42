/* Swarm or not: on markets small enough to reckon by hand, and whether a turning point is one. */
#include "whatif/advise.h"
#include "core/event.h"
#include "whatif/advise_main.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct catalog catalog;
static struct advise_market market;
static struct advise_job job;
static struct advise_answer answer;

static struct advise_offer offer(uint32_t model, uint32_t capacity, uint32_t devices, uint32_t stock,
                                 double usd)
{
    return (struct advise_offer){.region = "r",
                                 .zone = "z",
                                 .model = model,
                                 .capacity = capacity,
                                 .devices = devices,
                                 .stock = stock,
                                 .usd_per_hour = usd};
}

/* Model 0: 1 NCU, 80 GB; model 1: 2.5 NCU. A node of eight on demand, a node of eight spot. */
static int set_up(void **state)
{
    (void)state;
    catalog = (struct catalog){.model_count = 2};
    catalog.models[0] = (struct catalog_model){.ncu_milli = 1000, .vram_mib = 80 * 1024};
    catalog.models[1] = (struct catalog_model){.ncu_milli = 2500, .vram_mib = 80 * 1024};
    market = (struct advise_market){.catalog = &catalog, .count = 2};
    market.offers[0] = offer(0, CAPACITY_ON_DEMAND, 8, 1, 24);
    market.offers[1] = offer(0, CAPACITY_SPOT, 8, 4, 8);
    advise_defaults(&job);
    job.steps = 1000;
    job.ncu_s_per_step = 800;
    return 0;
}

static void near(double is, double wanted)
{
    if (fabs(is - wanted) > 1e-6 * fabs(wanted)) fail_msg("%.9g instead of %.9g", is, wanted);
}

static void a_node_is_reckoned_by_hand(void **state)
{
    (void)state;
    market.count = 1;
    advise(&job, &market, &answer);
    const struct advise_option *node = &answer.options[ADVISE_NODE];
    near(node->hours, 0.25 + 1000 * 100.0 / 3600);
    near(node->usd, 24 * node->hours);
    assert_int_equal(answer.verdict, ADVISE_NODE);
    assert_false(answer.options[ADVISE_SWARM].is_possible);
    assert_false(answer.options[ADVISE_CLUSTER].is_possible); /* there is one such node */
}

static void a_swarm_pays_its_setup_orchestration_and_exchange(void **state)
{
    (void)state;
    job.parameters = 1e9;
    job.devices_min = job.devices_max = 32; /* all four spot nodes */
    market.offers[1].losses_per_hour = 0.2;
    advise(&job, &market, &answer);
    const struct advise_option *swarm = &answer.options[ADVISE_SWARM];
    near(swarm->exchange_s, 2 * 2e9 * 3 / 4 / (25 * 1.25e8));
    near(swarm->step_s, 25); /* the exchange hides */
    double lost = 4 * 0.2 * (0.25 / 4 + 25.0 / 3600);
    near(swarm->hours, 0.5 + 1000 * 25.0 / 3600 / 0.95 / (1 - lost));
    assert_int_equal(swarm->devices, 32);
    job.parameters = 100e9; /* 300 GB each way: 96 s, of which 12.5 hide; and 1.6 TB do not fit */
    job.state_bytes_per_parameter = 1;
    advise(&job, &market, &answer);
    near(answer.options[ADVISE_SWARM].step_s, 25 + 96 - 12.5);
}

static void spot_for_one_node_pays_with_its_checkpoints(void **state)
{
    (void)state;
    market.offers[0] = market.offers[1];
    market.offers[0].stock = 1;
    market.offers[0].losses_per_hour = 0.4;
    market.count = 1;
    advise(&job, &market, &answer);
    double lost = 0.4 * (0.25 + 0.5 / 2);
    near(answer.options[ADVISE_NODE].hours, 0.25 + 1000 * 100.0 / 3600 / (1 - lost));
    market.offers[0].losses_per_hour = 4;
    advise(&job, &market, &answer);
    assert_int_equal(answer.verdict, ADVISE_KINDS);
    assert_non_null(strstr(answer.options[ADVISE_NODE].why, "faster than it comes back"));
}

static void what_does_not_fit_or_is_late_is_out(void **state)
{
    (void)state;
    job.parameters = 70e9; /* 1120 GB; a node has 8 * 80 GiB * 0.9 = 618 GB */
    advise(&job, &market, &answer);
    assert_false(answer.options[ADVISE_NODE].is_possible);
    assert_non_null(strstr(answer.options[ADVISE_NODE].why, "1120 GB"));
    assert_int_equal(answer.verdict, ADVISE_SWARM);
    job.parameters = 0;
    job.deadline_h = 20; /* one node needs 28 h */
    advise(&job, &market, &answer);
    assert_true(answer.options[ADVISE_NODE].is_late);
    assert_false(answer.options[ADVISE_SWARM].is_late);
    assert_int_equal(answer.verdict, ADVISE_SWARM);
    job.deadline_h = 1; /* nothing makes it: the soonest, said to be late */
    advise(&job, &market, &answer);
    assert_true(answer.verdict == ADVISE_SWARM && answer.options[ADVISE_SWARM].is_late);
}

static void models_and_kinds_are_asked_for(void **state)
{
    (void)state;
    job.model_mask = 2;
    advise(&job, &market, &answer);
    assert_int_equal(answer.verdict, ADVISE_KINDS);
    job.model_mask = 0;
    job.capacity_mask = 1U << CAPACITY_ON_DEMAND;
    advise(&job, &market, &answer);
    assert_int_equal(answer.verdict, ADVISE_NODE);
    assert_int_equal(market.offers[answer.options[ADVISE_NODE].lines[0]].capacity,
                     CAPACITY_ON_DEMAND);
}

static void a_swarm_keeps_to_one_region(void **state)
{
    (void)state;
    market.offers[2] = offer(1, CAPACITY_SPOT, 8, 4, 9);
    strcpy(market.offers[2].region, "elsewhere");
    market.count = 3;
    advise(&job, &market, &answer);
    const struct advise_option *swarm = &answer.options[ADVISE_SWARM];
    for (uint32_t i = 1; i < swarm->line_count; i++)
        assert_string_equal(market.offers[swarm->lines[i]].region,
                            market.offers[swarm->lines[0]].region);
    assert_true(swarm->is_possible);
}

/* On its one side the verdict is as it was, on the other it is not. */
static void turning_points_are_where_the_verdict_turns(void **state)
{
    (void)state;
    job.parameters = 7e9;
    advise(&job, &market, &answer);
    struct advise_answer was = answer;
    uint32_t turns = 0;
    for (int i = 0; i < ADVISE_KNOBS; i++) turns += was.turns[i].below > 0 || was.turns[i].above > 0;
    assert_true(turns >= 2);
    static const double sides[] = {0.999, 1.001};
    for (int side = 0; side < 2 && was.turns[1].below > 0; side++) { /* the work of a step */
        job.ncu_s_per_step = was.turns[1].below * sides[side];
        advise(&job, &market, &answer);
        assert_int_equal((answer.verdict == ADVISE_SWARM) == (was.verdict == ADVISE_SWARM), side);
    }
    assert_true(was.turns[1].below > 0);
}

/* What is above the budget is out, in dollars an hour or in all, and says the figures; a smaller swarm
 * that is within it is taken instead. */
static void a_budget_is_kept(void **state)
{
    (void)state;
    job.usd_per_hour_max = 20; /* the node costs 24 an hour on demand, 8 on spot; four of spot 32 */
    advise(&job, &market, &answer);
    assert_true(answer.options[ADVISE_SWARM].is_possible);
    near(answer.options[ADVISE_SWARM].usd_per_hour, 16);
    assert_int_equal(market.offers[answer.options[ADVISE_NODE].lines[0]].capacity, CAPACITY_SPOT);
    job.capacity_mask = 1U << CAPACITY_ON_DEMAND;
    advise(&job, &market, &answer);
    assert_int_equal(answer.verdict, ADVISE_KINDS);
    assert_string_equal(answer.options[ADVISE_NODE].why, "above the budget: $24.00/h of $20.00/h");
    job.usd_per_hour_max = 0;
    job.usd_max = 100;
    job.steps = 360; /* ten hours and a quarter */
    advise(&job, &market, &answer);
    assert_string_equal(answer.options[ADVISE_NODE].why, "above the budget: $246.00 of $100.00");
    job.usd_max = 246;
    advise(&job, &market, &answer);
    assert_int_equal(answer.verdict, ADVISE_NODE);
}

static void what_is_nearest_to_the_budget_is_told(void **state)
{
    (void)state;
    job.usd_per_hour_max = 4;
    advise(&job, &market, &answer);
    assert_int_equal(answer.verdict, ADVISE_KINDS);
    assert_string_equal(answer.options[ADVISE_NODE].why, "above the budget: $8.00/h of $4.00/h");
    assert_string_equal(answer.options[ADVISE_SWARM].why, "above the budget: $16.00/h of $4.00/h");
}

static void a_region_is_kept(void **state)
{
    (void)state;
    strcpy(market.offers[1].region, "west");
    strcpy(job.region, "r");
    advise(&job, &market, &answer);
    assert_int_equal(answer.verdict, ADVISE_NODE);
    assert_string_equal(market.offers[answer.options[ADVISE_NODE].lines[0]].region, "r");
    strcpy(job.region, "nowhere");
    advise(&job, &market, &answer);
    assert_int_equal(answer.verdict, ADVISE_KINDS);
}

static const char *measured_rates; /* an answer of the server; NULL: none */

/* `shoal advise --json` of a job with these lines more, on a market of two regions or the list prices;
 * what it printed. */
static const char *advised(const char *lines, const char *market_json, int exit_code)
{
    static char text[64 * 1024];
    char file[] = "/tmp/shoal-advise-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    assert_true(dprintf(fd,
                        "name: a\nrun: {command: [a]}\nneeds: {devices: {min: 1, max: 64}}\n"
                        "elastic: {slots: 1, steps: 1000, work_per_slot: 800s}\n%s",
                        lines) > 0);
    FILE *kept = tmpfile();
    assert_non_null(kept);
    int out = dup(1), err = dup(2);
    (void)fflush(stdout);
    assert_true(dup2(fileno(kept), 1) == 1 && dup2(fileno(kept), 2) == 2);
    int code = advise_main(
        &(struct advise_words){.job_file = file,
                               .market_json = market_json,
                               .rates_json = measured_rates,
                               .json = true});
    (void)fflush(stdout);
    assert_true(dup2(out, 1) == 1 && dup2(err, 2) == 2);
    (void)close(out);
    (void)close(err);
    rewind(kept);
    text[fread(text, 1, sizeof text - 1, kept)] = '\0';
    (void)fclose(kept);
    (void)close(fd);
    (void)unlink(file);
    assert_int_equal(code, exit_code);
    return text;
}

static void says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("\"%s\" is not in: %s", part, text);
}

static void the_limits_of_the_file_are_looked_at(void **state)
{
    (void)state;
    static const char two[] =
        "{\"offers\":[{\"model\":\"A100-80GB\",\"capacity\":\"on_demand\",\"zone\":\"a/e\",\"region\":"
        "\"east\",\"devices\":8,\"stock\":1,\"usd_micros_per_hour\":20000000},"
        "{\"model\":\"A100-80GB\",\"capacity\":\"on_demand\",\"zone\":\"a/w\",\"region\":\"west\","
        "\"devices\":8,\"stock\":1,\"usd_micros_per_hour\":30000000}]}";
    char soon[64];
    time_t at = time(NULL) + 3600; /* it takes 17 hours */
    struct tm utc;
    assert_non_null(gmtime_r(&at, &utc));
    assert_true(strftime(soon, sizeof soon, "deadline: %Y-%m-%dT%H:%M:%SZ\n", &utc) > 0);
    says(advised(soon, two, 0), "\"late\":true");
    says(advised("deadline: 2001-01-01T00:00:00Z\n", two, 1), "the deadline is over");
    says(advised("market: {region: west}\n", two, 0), "\"zone\":\"a/w\"");
    says(advised("market: {region: west}\n", two, 0), "\"region_looked_at\":true");
    says(advised("market: {region: west}\n", NULL, 0), "\"region_looked_at\":false");
    says(advised("budget: {usd_per_hour: 12}\n", two, 1), "above the budget: $20.00/h of $12.00/h");
    says(advised("budget: {usd: 12}\n", two, 1), " of $12.00\"");
}

/* Work that runs elsewhere faster than NCU say goes elsewhere: as declared, or as measured, which counts
 * for more. */
static void speeds_of_the_work_are_looked_at(void **state)
{
    (void)state;
    static const char two[] =
        "{\"offers\":[{\"model\":\"A100-80GB\",\"capacity\":\"on_demand\",\"zone\":\"a/e\",\"region\":"
        "\"east\",\"devices\":8,\"stock\":1,\"usd_micros_per_hour\":20000000},"
        "{\"model\":\"H100\",\"capacity\":\"on_demand\",\"zone\":\"a/e\",\"region\":\"east\","
        "\"devices\":8,\"stock\":1,\"usd_micros_per_hour\":40000000}]}";
    static const char even[] = "{\"rates\":[{\"model\":\"H100\",\"measured_milli\":1000},"
                               "{\"model\":\"A100-80GB\",\"measured_milli\":1100}]}";
    static const char declared[] = "work: {name: w, rates: {H100: 10, A100-80GB: 1}}\n";
    says(advised(declared, two, 0), "\"model\":\"H100\"");
    measured_rates = even; /* the dear one is no faster */
    const char *text = advised(declared, two, 0);
    measured_rates = NULL;
    const char *node = strstr(text, "\"kind\":\"node\"");
    assert_non_null(node);
    says(node, "\"model\":\"A100-80GB\"");
}

static void an_empty_market_has_no_answer(void **state)
{
    (void)state;
    market.count = 0;
    advise(&job, &market, &answer);
    assert_int_equal(answer.verdict, ADVISE_KINDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_node_is_reckoned_by_hand, set_up),
        cmocka_unit_test_setup(a_swarm_pays_its_setup_orchestration_and_exchange, set_up),
        cmocka_unit_test_setup(spot_for_one_node_pays_with_its_checkpoints, set_up),
        cmocka_unit_test_setup(what_does_not_fit_or_is_late_is_out, set_up),
        cmocka_unit_test_setup(models_and_kinds_are_asked_for, set_up),
        cmocka_unit_test_setup(a_swarm_keeps_to_one_region, set_up),
        cmocka_unit_test_setup(turning_points_are_where_the_verdict_turns, set_up),
        cmocka_unit_test_setup(a_budget_is_kept, set_up),
        cmocka_unit_test_setup(what_is_nearest_to_the_budget_is_told, set_up),
        cmocka_unit_test_setup(a_region_is_kept, set_up),
        cmocka_unit_test_setup(the_limits_of_the_file_are_looked_at, set_up),
        cmocka_unit_test_setup(speeds_of_the_work_are_looked_at, set_up),
        cmocka_unit_test_setup(an_empty_market_has_no_answer, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
