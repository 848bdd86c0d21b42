/* What a seed turns on: the swarm. Each seed gets its own mixture of faults, about half of them
 * off, because a world with every fault at once hides what a few of them do together (A. Groce et
 * al., "Swarm testing", ISSTA 2012). */
#include "core/assert.h"
#include "sim/world.h"
#include <inttypes.h>
#include <string.h>

#define PPM INT64_C(1000000)

#define HALF_PPM  500000
#define CROWD_PPM 30000 /* large worlds are slow: a few are enough */

struct knob_range {
    const char *name;
    int64_t min, max; /* when it is on */
};

/* Rates per message are kept low, and the rest are means in simulated time: a fault per event would
 * make restart storms, in which each restart causes the next. */
static const struct knob_range ranges[] = {
    {"reply_loss_ppm", 1000, 200000},
    {"reply_copy_ppm", 1000, 200000},
    {"reply_late_ppm", 1000, 100000},
    {"command_loss_ppm", 1000, 200000},
    {"command_copy_ppm", 1000, 300000},
    {"stockout_ppm", 10000, 300000},
    {"stockout_mean_us", 10 * SIM_MINUTE_US, 60 * SIM_MINUTE_US},
    {"quota_nodes", 1, 6},
    {"ghost_start_ppm", 10000, 200000},
    {"meter_missing_ppm", 500000, 1000000},
    {"preempt_mean_us", 3 * SIM_MINUTE_US, 90 * SIM_MINUTE_US},
    {"notice_us_max", SIM_SECOND_US, 120 * SIM_SECOND_US},
    {"machine_crash_mean_us", 10 * SIM_MINUTE_US, 120 * SIM_MINUTE_US},
    {"agent_crash_mean_us", 5 * SIM_MINUTE_US, 60 * SIM_MINUTE_US},
    {"agent_silence_mean_us", 5 * SIM_MINUTE_US, 60 * SIM_MINUTE_US},
    {"agent_drift_ppm", 100, 50000},
    {"agent_dead_ppm", 10000, 200000},
    {"worker_failure_mean_us", 5 * SIM_MINUTE_US, 120 * SIM_MINUTE_US},
    {"server_crash_mean_us", 2 * SIM_MINUTE_US, 30 * SIM_MINUTE_US},
    {"journal_tail_loss_ppm", 500000, 1000000},
    {"list_lag_us_max", SIM_SECOND_US, 60 * SIM_SECOND_US},
    {"release_us_max", SIM_SECOND_US, 60 * SIM_SECOND_US},
    {"price_jump_mean_us", 10 * SIM_MINUTE_US, 60 * SIM_MINUTE_US},
    {"stranger_count", 1, 4},
    {"short_machine_ppm", 10000, 200000},
    {"crowd_count", 70, 120},
    {"cancel_ppm", 50000, 500000},
    {"repeat_ppm", 50000, 700000},
    {"drain_mean_us", 5 * SIM_MINUTE_US, 60 * SIM_MINUTE_US},
    {"impossible_ppm", 50000, 300000},
    {"worker_stall_mean_us", 5 * SIM_MINUTE_US, 60 * SIM_MINUTE_US},
    {"match_round_us", SIM_MINUTE_US, 10 * SIM_MINUTE_US},
    {"overbill_ppm", 50000, 300000},
    {"mig_ppm", 300000, 1000000},
};

int64_t *sim_options_knob(struct sim_options *options, const char *name)
{
#define X(field, what)                                                                             \
    if (strcmp(name, #field) == 0) return &options->field;
    SIM_KNOBS(X)
#undef X
    return strcmp(name, "jobs") == 0 ? &options->jobs_count : NULL;
}

/* One in two is tight: limits of 2 or 3 meet every boundary. */
static void draw_limits(struct sim_random *random, struct pool_limits *limits)
{
    bool tight = sim_random_chance(random, 300000);
    limits->nodes_max = (uint32_t)sim_random_range(random, tight ? 2 : 8, tight ? 4 : 32);
    limits->jobs_max = (uint32_t)sim_random_range(random, tight ? 2 : 8, tight ? 3 : 32);
    limits->offers_max =
        (uint32_t)sim_random_range(random, tight ? 3 : SIM_OFFERS_MAX, SIM_OFFERS_MAX);
    limits->leases_max = (uint32_t)sim_random_range(random, tight ? 2 : 16, tight ? 6 : 64);
    limits->models_max = SIM_MODELS_MAX;
    limits->pools_max = SIM_POOLS_COUNT;
    limits->terms_max = tight ? 2 : 8;
    limits->matched_max = tight ? 2 : 16;
}

static void draw_config(struct sim_random *random, struct sim_options *options)
{
    struct pool_config *config = &options->pool;
    pool_config_default(config);
    draw_limits(random, &config->limits);
    config->incarnation = (uint64_t)sim_random_range(random, 2, 1000);
    config->ask_again_us = sim_random_range(random, 2, 30) * SIM_SECOND_US;
    config->agent_lease_us = sim_random_range(random, 15, 90) * SIM_SECOND_US;
    config->boot_timeout_us =
        options->boot_us_max + sim_random_range(random, 60, 300) * SIM_SECOND_US;
    config->refused_backoff_us = sim_random_range(random, 5, 180) * SIM_SECOND_US;
    config->drain_us = sim_random_range(random, 1, 30) * SIM_SECOND_US;
    config->idle_release_us = sim_random_range(random, 5, 300) * SIM_SECOND_US;
    config->worker_failures_max = (uint32_t)sim_random_range(random, 2, 6);
    options->report_us = config->agent_lease_us / sim_random_range(random, 3, 6);
}

static void draw_patience(uint64_t seed, struct pool_config *config)
{
    struct sim_random random = sim_random_fork(seed, 6500);
    config->replace_stalled_us = sim_random_range(&random, 0, 120) * SIM_SECOND_US;
    config->replace_slow_us = sim_random_range(&random, 0, 600) * SIM_SECOND_US;
}

static void draw_knobs(uint64_t seed, struct sim_options *options)
{
    enum { RANGES_COUNT = sizeof ranges / sizeof ranges[0] };
    for (uint32_t i = 0; i < RANGES_COUNT; i++) {
        struct sim_random random = sim_random_fork(seed, 7000 + i);
        int64_t *knob = sim_options_knob(options, ranges[i].name);
        ASSERT(knob != NULL);
        int64_t share_ppm = knob == &options->crowd_count ? CROWD_PPM : HALF_PPM;
        bool on = sim_random_chance(&random, share_ppm);
        *knob = on ? sim_random_range(&random, ranges[i].min, ranges[i].max) : 0;
    }
}

struct sim_options sim_options_swarm(uint64_t seed)
{
    struct sim_random random = sim_random_fork(seed, 6000);
    struct sim_options options = {.check_every = 16};
    options.jobs_count = sim_random_range(&random, 1, 12);
    options.clouds_count = sim_random_range(&random, 1, 3);
    options.zones_count = sim_random_range(&random, 1, 6);
    options.models_count = sim_random_range(&random, 1, SIM_MODELS_MAX);
    options.offers_count = sim_random_range(&random, 2, SIM_OFFERS_MAX);
    options.delay_us_min = sim_random_range(&random, 1000, 50000);
    options.delay_us_max = options.delay_us_min + sim_random_range(&random, 0, 2 * SIM_SECOND_US);
    options.late_us_max = sim_random_range(&random, 10, 120) * SIM_SECOND_US;
    options.boot_us_max = sim_random_range(&random, 5, 180) * SIM_SECOND_US;
    options.price_us = sim_random_range(&random, 20, 120) * SIM_SECOND_US;
    options.safety_us = sim_random_range(&random, 20, 60) * SIM_MINUTE_US;
    options.liveness_us = 10 * SIM_HOUR_US;
    draw_config(&random, &options);
    draw_knobs(seed, &options);
    draw_patience(seed, &options.pool);
    if (options.crowd_count > 0) {
        options.pool.limits.nodes_max = 200;
        options.pool.limits.leases_max = 300;
        options.quota_nodes = 0; /* a crowd that a cloud keeps refusing only asks again and again */
        options.stockout_ppm = 0;
    }
    return options;
}

void sim_options_print(const struct sim_options *options, FILE *stream)
{
    const struct pool_limits *limits = &options->pool.limits;
    (void)fprintf(stream,
                  "  world: %" PRId64 " jobs, %" PRId64 " clouds, %" PRId64 " zones, %" PRId64
                  " offers; at most %u nodes, %u jobs, %u offers, %u leases\n",
                  options->jobs_count, options->clouds_count, options->zones_count,
                  options->offers_count, limits->nodes_max, limits->jobs_max, limits->offers_max,
                  limits->leases_max);
#define X(field, what)                                                                             \
    if (options->field != 0)                                                                       \
        (void)fprintf(stream, "  %-24s %12" PRId64 "  %s\n", #field, options->field, what);
    SIM_KNOBS(X)
#undef X
}
