/* Is the advice right? Jobs and markets are drawn, the two ways it compares are run as worlds of the what-if
 * machine with the real pool, and the way it advises has to be the better of these runs: by cost times time
 * without a deadline, a swarm by as much as it has to earn. In nine of ten cases; those in which the runs
 * themselves are within a few percent of the line may fall either way.
 *
 * What the world does not have is left out on both sides: memory, restore times. What the gradients take
 * beyond what hides behind computing is one exchange of the step.
 */
#include "sim/random.h"
#include "whatif/advise.h"
#include "whatif/crowd.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { CASES = 150, SEEDS = 4, TEXT_BYTES = 4096 };
#define WORTH_IT 0.75 /* as advise.h says it */

static struct catalog catalog;
static struct advise_market market;
static struct advise_job job;
static struct advise_answer answer;

/* Evenly over orders of magnitude. */
static double draw(struct sim_random *random, double low, double high)
{
    double share = (double)(sim_random_next(random) >> 11) / 9007199254740992.0, by = high / low;
    double value = low;
    for (int bit = 0; bit < 12; bit++) { /* low * by^share, a bit of the share at a time */
        by = __builtin_sqrt(by);
        share *= 2;
        if (share < 1) continue;
        value *= by;
        share -= 1;
    }
    return value;
}

static void add_offer(const char *model, uint32_t capacity, uint32_t devices, uint32_t stock,
                      double usd, double losses)
{
    struct advise_offer *o = &market.offers[market.count++];
    *o = (struct advise_offer){.region = "east",
                               .capacity = capacity,
                               .devices = devices,
                               .stock = stock,
                               .usd_per_hour = usd * devices,
                               .losses_per_hour = losses};
    (void)snprintf(o->zone, sizeof o->zone, "zone-%u", market.count);
    assert_true(catalog_find_model(&catalog, model, &o->model));
}

/* A node of eight on demand and, half of the time, from spot; smaller spot nodes for a swarm. */
static void draw_case(uint64_t number)
{
    struct sim_random random = sim_random_fork(number, 1);
    market = (struct advise_market){.catalog = &catalog};
    advise_defaults(&job);
    job.ncu_s_per_step = draw(&random, 30, 3000);
    job.steps = draw(&random, 40, 600) * 3600 / job.ncu_s_per_step;
    job.parameters = draw(&random, 1e8, 3e10);
    job.state_bytes_per_parameter = 0;
    job.devices_max = 64;
    add_offer("A100-40GB", CAPACITY_ON_DEMAND, 8, 1, 2.8, 0);
    if (sim_random_range(&random, 0, 1) == 1)
        add_offer("A100-40GB", CAPACITY_SPOT, 8, 1, draw(&random, 0.6, 2), draw(&random, 0.005, 0.1));
    add_offer("A100-40GB", CAPACITY_SPOT, 2, (uint32_t)sim_random_range(&random, 1, 8),
              draw(&random, 1, 2.6), draw(&random, 0.005, 0.2));
    add_offer("A10", CAPACITY_SPOT, 1, (uint32_t)sim_random_range(&random, 4, 16),
              draw(&random, 0.4, 1.1), draw(&random, 0.005, 0.2));
    add_offer("H100", CAPACITY_SPOT, 1, (uint32_t)sim_random_range(&random, 1, 8),
              draw(&random, 2, 5), draw(&random, 0.005, 0.2));
}

static size_t put_offers(const struct advise_option *option, char *text, size_t used)
{
    for (uint32_t i = 0; i < option->line_count; i++) {
        const struct advise_offer *o = &market.offers[option->lines[i]];
        used += (size_t)snprintf(
            text + used, TEXT_BYTES - used,
            "  - {name: o%u, kind: %s, model: %s, place: aws/east/%s, devices: %u, stock: %u, "
            "on_demand: 1000, price: %.4f, boot: {min: 10m, max: 20m}",
            i, o->capacity == CAPACITY_SPOT ? "spot" : "on_demand",
            catalog.models[o->model].name, o->zone, o->devices, option->nodes[i], o->usd_per_hour);
        if (o->losses_per_hour > 0)
            used += (size_t)snprintf(text + used, TEXT_BYTES - used, ", life: %.0fs",
                                     3600 / o->losses_per_hour);
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "}\n");
    }
    return used;
}

/* The option as a scenario: its nodes alone, and the job as such a job is. */
static void put_scenario(const struct advise_option *option, bool swarm, char text[TEXT_BYTES])
{
    double compute_s = job.ncu_s_per_step / option->ncu, open_s = option->step_s - compute_s;
    double orchestration_s = swarm ? option->step_s * job.overhead / (1 - job.overhead) : 0;
    size_t used = (size_t)snprintf(text, TEXT_BYTES,
                                   "name: t\nhorizon: 1000d\npool: {boot_timeout: 30m}\nnetwork: "
                                   "{same_region: {exchange: %.6fs}}\noffers:\n",
                                   open_s);
    used = put_offers(option, text, used);
    used += (size_t)snprintf(text + used, TEXT_BYTES - used,
                             "jobs:\n  - {name: j, work: %.3f, step: %.3fs, exchanges: 1, "
                             "checkpoint_every: %.0fs, orchestration: %.6fs, ",
                             job.steps * job.ncu_s_per_step / 3600, job.ncu_s_per_step,
                             job.checkpoint_h * 3600, orchestration_s);
    if (swarm)
        used += (size_t)snprintf(text + used, TEXT_BYTES - used,
                                 "devices: {min: 1, max: %u}, restart: 15m, loss: %.3fs, join: 1s}\n",
                                 option->devices, option->step_s);
    else
        used += (size_t)snprintf(text + used, TEXT_BYTES - used,
                                 "devices: %u, one_node: true, restart: 0s}\n", option->devices);
    assert_true(used < TEXT_BYTES);
}

/* Dollars times hours, as it came out. */
static double simulated(const struct advise_option *option, bool swarm)
{
    char text[TEXT_BYTES];
    struct error error = {""};
    double sum = 0;
    struct scene *scene = scene_new();
    struct scene_case c;
    assert_non_null(scene);
    put_scenario(option, swarm, text);
    if (!scene_read(scene, "t.yaml", ".", text, strlen(text), NULL, 0, &error))
        fail_msg("%s\n%s", error.text, text);
    assert_true(scene_case_of_policy(scene, "shoal", &c));
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct outcome o;
        assert_true(world_run(scene, &c, seed, NULL, &o));
        assert_true(o.values[0][MEASURE_UNFINISHED] == 0);
        sum += o.values[0][MEASURE_COST] * o.values[0][MEASURE_TIME] / SEEDS;
    }
    scene_close(scene);
    return sum;
}

static void the_verdict_is_the_better_of_two_simulated_runs(void **state)
{
    (void)state;
    struct error error;
    uint32_t right = 0, compared = 0, swarms = 0;
    assert_true(catalog_parse_shipped(&catalog, &error));
    for (uint64_t number = 1; number <= CASES; number++) {
        draw_case(number);
        advise(&job, &market, &answer);
        const struct advise_option *s = &answer.options[ADVISE_SWARM];
        const struct advise_option *n = &answer.options[ADVISE_NODE];
        if (!s->is_possible || !n->is_possible) continue;
        double ratio = simulated(s, true) / simulated(n, false);
        bool swarm = answer.verdict == ADVISE_SWARM, wanted = ratio <= WORTH_IT;
        compared++;
        swarms += swarm;
        right += swarm == wanted;
        if (swarm != wanted)
            print_message("case %u: reckoned %.3f, simulated %.3f\n", (unsigned)number,
                          s->usd * s->hours / (n->usd * n->hours), ratio);
    }
    print_message("%u of %u right, %u swarms\n", right, compared, swarms);
    assert_true(compared >= CASES * 3 / 4);
    assert_true(swarms >= compared / 5 && swarms <= compared * 4 / 5); /* both are advised */
    assert_true(right * 10 >= compared * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verdict_is_the_better_of_two_simulated_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
