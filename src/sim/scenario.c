/* A world written by hand: what is on sale, who submits what, what goes wrong when, and which lines
 * the timeline must have. The directives are described in docs/simulation.md.
 *
 * Without faults of its own: what goes wrong is what the author wrote.
 */
#include "base/io.h"
#include "base/mem.h"
#include "core/assert.h"
#include "sim/shadow.h"
#include "sim/world.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ACTIONS_MAX = 64, EXPECTS_MAX = 64, SCENARIO_BYTES_MAX = 65536 };

enum action_kind {
    ACTION_PRICE = 1, /* OFFER CENTS */
    ACTION_STOCK,     /* OFFER COUNT */
    ACTION_DROP,      /* COUNT */
    ACTION_NOTICE,    /* NODE SECONDS */
    ACTION_TAKE,      /* NODE */
    ACTION_CRASH,     /* NODE */
    ACTION_SILENCE,   /* NODE SECONDS */
    ACTION_STALL,     /* NODE SECONDS */
    ACTION_DRAIN,     /* NODE */
    ACTION_CANCEL,    /* JOB */
    ACTION_SUBMIT,    /* JOB, again */
    ACTION_SERVER,    /* crashes the server */
    ACTION_HEAL,
};

static const struct {
    const char *name;
    enum action_kind kind;
} action_names[] = {
    {"price", ACTION_PRICE},     {"stock", ACTION_STOCK},   {"drop-replies", ACTION_DROP},
    {"notice", ACTION_NOTICE},   {"take", ACTION_TAKE},     {"crash", ACTION_CRASH},
    {"silence", ACTION_SILENCE}, {"drain", ACTION_DRAIN},   {"cancel", ACTION_CANCEL},
    {"submit", ACTION_SUBMIT},   {"server", ACTION_SERVER}, {"heal", ACTION_HEAL},
    {"stall", ACTION_STALL},
};

struct action {
    int64_t at_us;
    enum action_kind kind;
    uint64_t subject;
    int64_t value;
};

struct expectation {
    char *text;
    bool never;
};

struct sim_scenario {
    struct sim_options options;
    struct sim_offer offers[SIM_OFFERS_MAX];
    struct sim_job jobs[SIM_JOBS_MAX];
    uint32_t offer_count, job_count, action_count, expect_count;
    struct action actions[ACTIONS_MAX];
    struct expectation expects[EXPECTS_MAX];
    int64_t end_us;
    const char *path;
    uint32_t line, nodes_wanted; /* nodes_wanted + 1; 0: any number */
};

static uint32_t machine_of(const struct sim *s, uint64_t node_number)
{
    uint64_t key = (s->options.pool.incarnation << SIM_KEY_SHIFT) + node_number;
    int64_t found = sim_map_find(&s->machine_map, key);
    return found == SIM_MAP_NONE ? UINT32_MAX : (uint32_t)found;
}

static void act_on_node(struct sim *s, const struct action *action, uint32_t machine)
{
    struct sim_machine *m = &s->machines[machine];
    struct pool_event drain = {.kind = POOL_EVENT_NODE_DRAIN_ASKED};
    if (action->kind == ACTION_NOTICE) {
        sim_cloud_notice(s, machine, action->value * SIM_SECOND_US);
    } else if (action->kind == ACTION_TAKE) {
        sim_cloud_take(s, machine, NODE_REASON_PREEMPTED);
    } else if (action->kind == ACTION_CRASH) {
        sim_cloud_take(s, machine, NODE_REASON_CRASHED);
    } else if (action->kind == ACTION_SILENCE) {
        m->silent_until_us = s->now_us + action->value * SIM_SECOND_US;
    } else if (action->kind == ACTION_STALL) {
        if (m->first_worker != UINT32_MAX)
            sim_stall_begin(s, m->first_worker, STALL_DATA, action->value * SIM_SECOND_US);
    } else {
        drain.u.node_drain_asked.node_key = m->key;
        sim_server_tell(s, &drain);
    }
}

static void act_on_offer(struct sim *s, const struct action *action)
{
    for (uint32_t i = 0; i < s->offer_count; i++) {
        if (s->offers[i].id != action->subject) continue;
        if (action->kind == ACTION_PRICE)
            sim_cloud_set_price(s, i, action->value * 10000);
        else
            s->offers[i].stock = (uint32_t)action->value;
        sim_cloud_tell_offer(s, i);
        return;
    }
    sim_fail(s, "scenario", "there is no offer %" PRIu64, action->subject);
}

void sim_script_on(struct sim *s, const struct sim_occurrence *o)
{
    const struct action *action = &s->scenario->actions[o->value];
    uint32_t job = (uint32_t)action->subject - 1;
    switch (action->kind) {
    case ACTION_PRICE:
    case ACTION_STOCK: act_on_offer(s, action); return;
    case ACTION_DROP: s->drop_replies += (uint32_t)action->subject; return;
    case ACTION_NOTICE:
    case ACTION_TAKE:
    case ACTION_CRASH:
    case ACTION_SILENCE:
    case ACTION_STALL:
    case ACTION_DRAIN: {
        uint32_t machine = machine_of(s, action->subject);
        if (machine == UINT32_MAX)
            sim_fail(s, "scenario", "there is no node %" PRIu64 " yet", action->subject);
        else
            act_on_node(s, action, machine);
        return;
    }
    case ACTION_CANCEL:
        if (job < s->job_count) sim_client_cancel(s, job);
        return;
    case ACTION_SUBMIT:
        if (job < s->job_count) sim_client_submit_again(s, job);
        return;
    case ACTION_SERVER: sim_server_crash(s, SIM_CRASH_IDLE); return;
    case ACTION_HEAL: sim_heal(s); return;
    }
    UNREACHABLE();
}

static bool say_bad(const struct sim_scenario *scenario, const char *what, struct error *ret_error)
{
    return error_set(ret_error, "%s:%u: %s; the directives are in docs/simulation.md",
                     scenario->path, scenario->line, what);
}

static bool parse_option(struct sim_scenario *scenario, const char *rest, struct error *ret_error)
{
    char name[32];
    int64_t value;
    if (sscanf(rest, "%31s %" SCNd64, name, &value) != 2)
        return say_bad(scenario, "an option is: option NAME NUMBER", ret_error);
    struct pool_config *config = &scenario->options.pool;
    const struct {
        const char *name;
        int64_t *target;
    } seconds[] = {
        {"ask_again_s", &config->ask_again_us},
        {"agent_lease_s", &config->agent_lease_us},
        {"drain_s", &config->drain_us},
        {"boot_timeout_s", &config->boot_timeout_us},
        {"backoff_s", &config->refused_backoff_us},
        {"idle_release_s", &config->idle_release_us},
        {"replace_stalled_s", &config->replace_stalled_us},
        {"boot_s", &scenario->options.boot_us_max},
        {"report_s", &scenario->options.report_us},
        {"end_s", &scenario->end_us},
    };
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++)
        if (strcmp(name, seconds[i].name) == 0) {
            *seconds[i].target = value * SIM_SECOND_US;
            return true;
        }
    int64_t *knob = sim_options_knob(&scenario->options, name);
    if (knob == NULL) return say_bad(scenario, "there is no such option", ret_error);
    *knob = value;
    return true;
}

static uint32_t capacity_of(const char *kind)
{
    static const char *const names[CAPACITY_KIND_END] = {"", "owned", "reserved", "on_demand",
                                                         "spot"};
    for (uint32_t i = CAPACITY_OWNED; i < CAPACITY_KIND_END; i++)
        if (strcmp(kind, names[i]) == 0) return i;
    return 0;
}

static bool parse_offer(struct sim_scenario *scenario, const char *rest, struct error *ret_error)
{
    if (scenario->offer_count == SIM_OFFERS_MAX)
        return say_bad(scenario, "too many offers", ret_error);
    struct sim_offer *o = &scenario->offers[scenario->offer_count];
    char kind[16];
    int64_t cents, on_demand_cents;
    uint32_t tier = 1;
    if (sscanf(rest,
               "%" SCNu64 " kind %15s region %u devices %u cents %" SCNd64 " on_demand %" SCNd64
               " stock %u tier %u",
               &o->id, kind, &o->region, &o->device_count, &cents, &on_demand_cents, &o->stock,
               &tier) < 7 ||
        tier < 1 || tier > SIM_POOLS_COUNT)
        return say_bad(scenario,
                       "an offer is: offer ID kind KIND region N devices N cents N on_demand N "
                       "stock N, perhaps tier 1 or 2",
                       ret_error);
    o->model = tier - 1;
    o->capacity = capacity_of(kind);
    if (o->capacity == 0)
        return say_bad(scenario, "a kind is owned, reserved, on_demand or spot", ret_error);
    o->zone = o->region;
    o->base_usd_micros_per_hour = cents * 10000;
    o->usd_micros_per_hour = cents * 10000;
    o->on_demand_usd_micros_per_hour = on_demand_cents * 10000;
    scenario->offer_count++;
    return true;
}

static bool parse_job(struct sim_scenario *scenario, const char *rest, struct error *ret_error)
{
    if (scenario->job_count == SIM_JOBS_MAX) return say_bad(scenario, "too many jobs", ret_error);
    struct sim_job *job = &scenario->jobs[scenario->job_count];
    uint32_t least, most, class, threshold_percent;
    int64_t work_s, at_s, cents = 0;
    if (sscanf(rest,
               "devices %u..%u work_s %" SCNd64 " class %u threshold %u at %" SCNd64
               " budget %" SCNd64,
               &least, &most, &work_s, &class, &threshold_percent, &at_s, &cents) < 6)
        return say_bad(scenario,
                       "a job is: job devices MIN..MAX work_s N class N threshold PERCENT at N, "
                       "perhaps budget CENTS",
                       ret_error);
    job->submit.u.job_submitted.budget_usd_micros_per_hour = cents * 10000;
    job->submit.kind = POOL_EVENT_JOB_SUBMITTED;
    job->submit.u.job_submitted.job_id = ++scenario->job_count;
    job->submit.u.job_submitted.kind = JOB_KIND_ELASTIC;
    job->submit.u.job_submitted.capability_mask = 1;
    job->submit.u.job_submitted.devices_min = least;
    job->submit.u.job_submitted.devices_max = most;
    job->submit.u.job_submitted.job_class = (uint8_t) class;
    job->submit.u.job_submitted.price_threshold_ppm = threshold_percent * 10000;
    job->work_us = work_s * SIM_SECOND_US;
    job->submit_us = at_s * SIM_SECOND_US;
    return true;
}

/* Its pools are the first tier, then the second. */
static bool parse_degrade(struct sim_scenario *scenario, const char *rest, struct error *ret_error)
{
    unsigned long number = strtoul(rest, NULL, 10);
    if (number < 1 || number > scenario->job_count)
        return say_bad(scenario, "it is: degrade JOB, of a job that stands above", ret_error);
    struct sim_job *job = &scenario->jobs[number - 1];
    job->terms.kind = POOL_EVENT_TERMS_DEFINED;
    job->terms.u.terms_defined.terms_id = 1;
    job->terms.u.terms_defined.terms.degrade = SIM_POOLS_COUNT;
    job->submit.u.job_submitted.terms_id = 1;
    job->submit.u.job_submitted.pool_mask = (1 << SIM_POOLS_COUNT) - 1;
    return true;
}

static bool parse_action(struct sim_scenario *scenario, const char *rest, struct error *ret_error)
{
    if (scenario->action_count == ACTIONS_MAX)
        return say_bad(scenario, "too many actions", ret_error);
    struct action *action = &scenario->actions[scenario->action_count];
    char name[16];
    int64_t at_s;
    int count = sscanf(rest, "%" SCNd64 " %15s %" SCNu64 " %" SCNd64, &at_s, name, &action->subject,
                       &action->value);
    if (count < 2) return say_bad(scenario, "an action is: at SECONDS ACTION ...", ret_error);
    action->at_us = at_s * SIM_SECOND_US;
    for (size_t i = 0; i < sizeof action_names / sizeof action_names[0]; i++)
        if (strcmp(name, action_names[i].name) == 0) {
            action->kind = action_names[i].kind;
            scenario->action_count++;
            return true;
        }
    return say_bad(scenario, "there is no such action", ret_error);
}

static bool parse_expect(struct sim_scenario *scenario, const char *text, bool never,
                         struct error *ret_error)
{
    if (scenario->expect_count == EXPECTS_MAX)
        return say_bad(scenario, "too many expected lines", ret_error);
    char *copy = mem_strdup(text);
    if (copy == NULL) return error_set(ret_error, "out of memory");
    scenario->expects[scenario->expect_count++] =
        (struct expectation){.text = copy, .never = never};
    return true;
}

static bool parse_line(struct sim_scenario *scenario, char *line, struct error *ret_error)
{
    if (line[0] == '\0' || line[0] == '#') return true;
    char *rest = strchr(line, ' ');
    if (rest == NULL) return say_bad(scenario, "a directive has arguments", ret_error);
    *rest++ = '\0';
    if (strcmp(line, "option") == 0) return parse_option(scenario, rest, ret_error);
    if (strcmp(line, "offer") == 0) return parse_offer(scenario, rest, ret_error);
    if (strcmp(line, "job") == 0) return parse_job(scenario, rest, ret_error);
    if (strcmp(line, "degrade") == 0) return parse_degrade(scenario, rest, ret_error);
    if (strcmp(line, "at") == 0) return parse_action(scenario, rest, ret_error);
    if (strcmp(line, "expect") == 0)
        return parse_expect(scenario, rest, /* never */ false, ret_error);
    if (strcmp(line, "never") == 0)
        return parse_expect(scenario, rest, /* never */ true, ret_error);
    if (strcmp(line, "nodes") == 0) {
        scenario->nodes_wanted = (uint32_t)strtoul(rest, NULL, 10) + 1;
        return true;
    }
    return say_bad(scenario, "there is no such directive", ret_error);
}

static bool parse(struct sim_scenario *scenario, char *text, struct error *ret_error)
{
    for (char *line = text; line != NULL;) {
        char *next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        scenario->line++;
        if (!parse_line(scenario, line, ret_error)) return false;
        line = next;
    }
    return true;
}

/* The expected texts must appear in the timeline in their order; the "never" ones nowhere. */
static bool compare(const struct sim_scenario *scenario, const char *timeline,
                    struct error *ret_error)
{
    const char *from = timeline;
    for (uint32_t i = 0; i < scenario->expect_count; i++) {
        const struct expectation *expectation = &scenario->expects[i];
        const char *found = strstr(expectation->never ? timeline : from, expectation->text);
        if (expectation->never && found != NULL)
            return error_set(ret_error, "%s: the timeline says \"%s\", which must never be",
                             scenario->path, expectation->text);
        if (expectation->never) continue;
        if (found == NULL)
            return error_set(ret_error,
                             "%s: \"%s\" is missing from the timeline (--trace shows it)",
                             scenario->path, expectation->text);
        from = found + strlen(expectation->text);
    }
    return true;
}

static void fill(struct sim *s, struct sim_scenario *scenario)
{
    s->scenario = scenario;
    s->model_count = s->pool_count = SIM_POOLS_COUNT;
    for (uint32_t i = 0; i < SIM_POOLS_COUNT; i++) { /* a tier is a pool of one model */
        s->models[i].kind = POOL_EVENT_MODEL_DEFINED;
        s->models[i].u.model_defined.model = i;
        s->models[i].u.model_defined.ncu_milli = 1000 >> i;
        s->models[i].u.model_defined.vram_mib = 40960;
        s->models[i].u.model_defined.capability_mask = 1;
        s->pools[i].kind = POOL_EVENT_POOL_DEFINED;
        s->pools[i].u.pool_defined.pool = i;
        s->pools[i].u.pool_defined.capability_mask = 1;
        s->pools[i].u.pool_defined.hardware_mask = UINT64_C(1) << i;
        s->pools[i].u.pool_defined.price_threshold_ppm = 1000000;
    }
    memcpy(s->offers, scenario->offers, sizeof s->offers);
    memcpy(s->jobs, scenario->jobs, sizeof s->jobs);
    s->offer_count = scenario->offer_count;
    s->job_count = scenario->job_count;
    for (uint32_t i = 0; i < scenario->action_count; i++)
        sim_later(s, scenario->actions[i].at_us, SIM_SCRIPT, 0, 0, i);
}

static bool play(struct sim_scenario *scenario, FILE *timeline, struct error *ret_error)
{
    struct sim *s = sim_open_empty(/* seed */ 1, &scenario->options, timeline);
    if (s == NULL) return error_set(ret_error, "out of memory");
    fill(s, scenario);
    sim_begin(s);
    while (sim_now_us(s) < SIM_START_US + scenario->end_us && sim_step(s)) {}
    struct sim_summary summary;
    sim_summarize(s, &summary);
    sim_close(s);
    if (summary.failed)
        return error_set(ret_error, "%s: %s: %s", scenario->path, summary.checker, summary.failure);
    if (scenario->nodes_wanted > 0 && summary.nodes + 1 != scenario->nodes_wanted)
        return error_set(ret_error, "%s: %" PRIu64 " nodes were asked for, expected %u",
                         scenario->path, summary.nodes, scenario->nodes_wanted - 1);
    return true;
}

static struct sim_options calm_options(void)
{
    struct sim_options options = {.delay_us_min = 50000,
                                  .delay_us_max = 50000,
                                  .boot_us_max = 10 * SIM_SECOND_US,
                                  .report_us = 5 * SIM_SECOND_US,
                                  .check_every = 1};
    pool_config_default(&options.pool);
    options.pool.limits = (struct pool_limits){.nodes_max = 32,
                                               .jobs_max = 16,
                                               .offers_max = SIM_OFFERS_MAX,
                                               .models_max = SIM_MODELS_MAX,
                                               .pools_max = SIM_POOLS_COUNT,
                                               .leases_max = 64,
                                               .terms_max = 8,
                                               .matched_max = 16};
    options.pool.incarnation = 1;
    return options;
}

static bool run_file(struct sim_scenario *scenario, char *text, FILE *trace,
                     struct error *ret_error)
{
    char *timeline = NULL;
    size_t timeline_bytes = 0;
    if (!parse(scenario, text, ret_error)) return false;
    FILE *stream = open_memstream(&timeline, &timeline_bytes);
    if (stream == NULL) return error_set(ret_error, "out of memory");
    bool good = play(scenario, stream, ret_error);
    (void)fclose(stream); /* memory only: what could not grow is missing and the comparison tells */
    if (trace != NULL && timeline != NULL) (void)fputs(timeline, trace);
    good = good && timeline != NULL && compare(scenario, timeline, ret_error);
    free(timeline); /* the C library's own block */
    return good;
}

bool sim_scenario(const char *path, FILE *trace, struct error *ret_error)
{
    char *text;
    size_t bytes;
    if (!io_read_file(path, SCENARIO_BYTES_MAX, &text, &bytes, ret_error)) return false;
    struct sim_scenario *scenario = mem_zalloc(1, sizeof *scenario);
    bool good = false;
    if (scenario == NULL) {
        (void)error_set(ret_error, "out of memory");
    } else {
        scenario->options = calm_options();
        scenario->end_us = SIM_HOUR_US;
        scenario->path = path;
        good = run_file(scenario, text, trace, ret_error);
        for (uint32_t i = 0; i < scenario->expect_count; i++) mem_free(scenario->expects[i].text);
    }
    mem_free(scenario);
    mem_free(text);
    return good;
}
