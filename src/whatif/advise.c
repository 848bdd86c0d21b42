#include "whatif/advise.h"
#include "core/event.h"
#include "core/ncu_mix.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A swarm has to be so much better than what is simpler, by cost times time or, with a deadline, cost. */
#define WORTH_IT          0.75
#define WORTH_IT_DEADLINE 0.9
#define MEMORY_USED       0.9 /* of a device, by weights, gradients and moments; the rest for activations */
#define TURN_MAX          64.0
enum { SIZES = 40, CLUSTER_NODES_MAX = 256, BISECTIONS = 24 };

void advise_defaults(struct advise_job *ret_job)
{
    *ret_job = (struct advise_job){
        .devices_min = 1,
        .devices_max = 4096,
        .state_bytes_per_parameter = 16, /* 16-bit weights and gradients, 32-bit weights and moments */
        .gradient_bytes_per_parameter = 2,
        .overhead = 0.05,
        .setup_h = 0.5,
        .changeover_h = 0.25,
        .checkpoint_h = 0.5,
        .network_gbit = 25,
        .nvlink_gbit = 2400,
        .storage_gbit = 20,
        .hidden = 0.5,
    };
}

/* ---- one way ---- */

static const struct catalog_model *model_of(const struct advise_market *m, uint32_t offer)
{
    return &m->catalog->models[m->offers[offer].model];
}

static double node_ncu(const struct advise_market *m, uint32_t offer)
{
    return model_of(m, offer)->ncu_milli / 1000.0 * m->offers[offer].devices;
}

static double node_bytes(const struct advise_market *m, uint32_t offer)
{
    return model_of(m, offer)->vram_mib * 1048576.0 * m->offers[offer].devices * MEMORY_USED;
}

static bool is_allowed(const struct advise_job *job, const struct advise_market *m, uint32_t offer)
{
    const struct advise_offer *o = &m->offers[offer];
    const struct catalog_model *model = model_of(m, offer);
    return o->usd_per_hour > 0 && o->devices > 0 && o->stock > 0 && model->ncu_milli > 0 &&
           (job->capability_mask & ~model->capability_mask) == 0 &&
           model->vram_mib >= job->vram_min_mib &&
           (job->region[0] == '\0' || strcmp(o->region, job->region) == 0) &&
           (job->model_mask == 0 || (job->model_mask >> o->model & 1) != 0) &&
           (job->capacity_mask == 0 || (job->capacity_mask >> o->capacity & 1) != 0);
}

static double state_bytes(const struct advise_job *job)
{
    return job->parameters * job->state_bytes_per_parameter;
}

/* Gradients go around once and their sum comes back: twice the bytes of one, whatever the number. */
static double exchange_s(const struct advise_job *job, double gbit, uint32_t parts)
{
    if (parts < 2 || gbit <= 0) return 0;
    double bytes = job->parameters * job->gradient_bytes_per_parameter;
    return 2 * bytes * (parts - 1) / parts / (gbit * 1.25e8);
}

static double restore_h(const struct advise_job *job)
{
    return state_bytes(job) / (job->storage_gbit * 1.25e8) / 3600;
}

static void add_line(struct advise_option *option, uint32_t offer, uint32_t nodes)
{
    if (nodes == 0 || option->line_count == ADVISE_LINES_MAX) return;
    option->lines[option->line_count] = offer;
    option->nodes[option->line_count++] = nodes;
}

/* From its lines: size, price, memory; how much of the time losses take. */
struct sum {
    double bytes, lost_share;
    uint32_t nodes;
};

static struct sum add_up(const struct advise_job *job, const struct advise_market *m,
                         struct advise_option *option, bool is_elastic)
{
    struct sum sum = {0, 0, 0};
    for (uint32_t i = 0; i < option->line_count; i++) {
        const struct advise_offer *o = &m->offers[option->lines[i]];
        uint32_t n = option->nodes[i];
        sum.nodes += n;
        sum.bytes += node_bytes(m, option->lines[i]) * n;
        option->devices += o->devices * n;
        option->ncu += node_ncu(m, option->lines[i]) * n;
        option->usd_per_hour += o->usd_per_hour * n;
    }
    for (uint32_t i = 0; i < option->line_count; i++) {
        const struct advise_offer *o = &m->offers[option->lines[i]];
        double losses = o->losses_per_hour * option->nodes[i];
        double share = node_ncu(m, option->lines[i]) / option->ncu;
        double cost_h = is_elastic ? job->changeover_h * share + job->ncu_s_per_step / option->ncu / 3600
                                   : job->changeover_h + job->checkpoint_h / 2 + restore_h(job);
        sum.lost_share += losses * cost_h;
    }
    return sum;
}

/* The limit that it is furthest above says so. */
static void pay(const struct advise_job *job, struct advise_option *option)
{
    double hourly = job->usd_per_hour_max > 0 ? option->usd_per_hour / job->usd_per_hour_max : 0;
    double in_all = job->usd_max > 0 ? option->usd / job->usd_max : 0;
    if (hourly <= 1 && in_all <= 1) return;
    option->is_possible = option->is_late = false;
    option->over = fmax(hourly, in_all);
    if (hourly >= in_all)
        (void)snprintf(option->why, sizeof option->why, "above the budget: $%.2f/h of $%.2f/h",
                       option->usd_per_hour, job->usd_per_hour_max);
    else
        (void)snprintf(option->why, sizeof option->why, "above the budget: $%.2f of $%.2f",
                       option->usd, job->usd_max);
}

static void judge(const struct advise_job *job, struct advise_option *option, double lost_share,
                  double overhead, double setup_h)
{
    double compute_s = job->ncu_s_per_step / option->ncu;
    double open_s = option->exchange_s - job->hidden * compute_s;
    option->step_s = compute_s + (open_s > 0 ? open_s : 0);
    if (lost_share >= 0.9) {
        option->is_possible = false;
        (void)snprintf(option->why, sizeof option->why, "it is lost faster than it comes back");
        return;
    }
    option->hours =
        setup_h + job->steps * option->step_s / 3600 / (1 - overhead) / (1 - lost_share);
    option->usd = option->hours * option->usd_per_hour;
    if (job->deadline_h > 0 && option->hours > job->deadline_h) {
        option->is_late = true;
        (void)snprintf(option->why, sizeof option->why, "too late: %.1f h of %.1f h", option->hours,
                       job->deadline_h);
    }
    pay(job, option);
}

static bool fits(const struct advise_job *job, struct advise_option *option, double bytes)
{
    option->is_possible = bytes >= state_bytes(job);
    if (!option->is_possible)
        (void)snprintf(option->why, sizeof option->why,
                       "does not fit: %.0f GB of weights, gradients and moments, %.0f GB of memory",
                       state_bytes(job) / 1e9, bytes / 1e9);
    return option->is_possible;
}

static bool is_good(const struct advise_option *option)
{
    return option->is_possible && !option->is_late;
}

/* What is paid, in money and in waiting for it; with a deadline, time counts only up to there. */
static double price_of(const struct advise_job *job, const struct advise_option *option)
{
    return job->deadline_h > 0 ? option->usd : option->usd * option->hours;
}

/* The lower price among what is in time; among what is late, the sooner one; among what is too dear,
 * what is nearest to the budget. */
static bool is_better(const struct advise_job *job, const struct advise_option *a,
                      const struct advise_option *b)
{
    if (is_good(a) != is_good(b)) return is_good(a);
    if (is_good(a)) return price_of(job, a) < price_of(job, b);
    if (a->is_possible != b->is_possible) return a->is_possible;
    if (!a->is_possible) return a->over > 0 && (b->over <= 0 || a->over < b->over);
    return a->hours < b->hours;
}

/* ---- the three ways ---- */

static void try_same(const struct advise_job *job, const struct advise_market *m, uint32_t offer,
                     uint32_t nodes, struct advise_option *best)
{
    struct advise_option option = {0};
    add_line(&option, offer, nodes);
    struct sum sum = add_up(job, m, &option, false);
    if (option.devices > job->devices_max && nodes > 1) return;
    option.exchange_s = nodes > 1 ? exchange_s(job, job->network_gbit, nodes)
                                  : exchange_s(job, job->nvlink_gbit, option.devices);
    if (fits(job, &option, sum.bytes))
        judge(job, &option, sum.lost_share, 0, job->changeover_h);
    if (best->line_count == 0 || is_better(job, &option, best)) *best = option;
}

static void one_node(const struct advise_job *job, const struct advise_market *m,
                     struct advise_option *ret)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (is_allowed(job, m, i)) try_same(job, m, i, 1, ret);
}

/* As many equal nodes as are guaranteed to stay. */
static void cluster(const struct advise_job *job, const struct advise_market *m,
                    struct advise_option *ret)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (!is_allowed(job, m, i) || m->offers[i].capacity == CAPACITY_SPOT) continue;
        for (uint32_t nodes = 2; nodes <= m->offers[i].stock && nodes <= CLUSTER_NODES_MAX; nodes++)
            try_same(job, m, i, nodes, ret);
    }
}

struct region {
    uint32_t offers[NCU_TYPES_MAX], count;
    struct ncu_type types[NCU_TYPES_MAX];
    double ncu; /* of all that can be had */
};

static void collect(const struct advise_job *job, const struct advise_market *m, const char *name,
                    struct region *ret)
{
    *ret = (struct region){.count = 0};
    for (uint32_t i = 0; i < m->count && ret->count < NCU_TYPES_MAX; i++) {
        const struct advise_offer *o = &m->offers[i];
        if (strcmp(o->region, name) != 0 || !is_allowed(job, m, i)) continue;
        double risk = fmin(o->losses_per_hour * job->changeover_h, 0.9);
        ret->offers[ret->count] = i;
        ret->types[ret->count++] =
            (struct ncu_type){.ncu_milli = (uint32_t)lround(node_ncu(m, i) * 1000),
                              .stock = o->stock,
                              .usd_micros_per_hour =
                                  (int64_t)llround(o->usd_per_hour / (1 - risk) * 1e6)};
        ret->ncu += node_ncu(m, i) * o->stock;
    }
}

static void try_mix(const struct advise_job *job, const struct advise_market *m,
                    const struct region *region, double ncu, struct advise_option *best)
{
    struct ncu_mix mix;
    struct advise_option option = {0};
    if (!ncu_mix_cheapest(region->types, region->count, (uint64_t)llround(ncu * 1000), &mix))
        return;
    for (uint32_t i = 0; i < region->count; i++) add_line(&option, region->offers[i], mix.counts[i]);
    struct sum sum = add_up(job, m, &option, true);
    if (option.devices > job->devices_max || option.devices < job->devices_min || sum.nodes < 2)
        return;
    option.exchange_s = exchange_s(job, job->network_gbit, sum.nodes);
    if (fits(job, &option, sum.bytes))
        judge(job, &option, sum.lost_share, job->overhead, job->setup_h);
    if (best->line_count == 0 || is_better(job, &option, best)) *best = option;
}

static void swarm(const struct advise_job *job, const struct advise_market *m,
                  struct advise_option *ret)
{
    for (uint32_t first = 0; first < m->count; first++) {
        bool is_known = false;
        for (uint32_t i = 0; i < first; i++)
            is_known = is_known || strcmp(m->offers[i].region, m->offers[first].region) == 0;
        struct region region;
        if (is_known) continue;
        collect(job, m, m->offers[first].region, &region);
        for (int i = 1; i <= SIZES && region.count > 0; i++)
            try_mix(job, m, &region, region.ncu * pow(1.0 * i / SIZES, 2), ret);
    }
}

/* ---- verdict ---- */

/* The swarm against the best of the others; it has to earn what it brings along. */
static enum advise_kind judge_all(const struct advise_job *job,
                                  const struct advise_option options[ADVISE_KINDS])
{
    const struct advise_option *s = &options[ADVISE_SWARM];
    enum advise_kind other = is_better(job, &options[ADVISE_CLUSTER], &options[ADVISE_NODE])
                                 ? ADVISE_CLUSTER
                                 : ADVISE_NODE;
    const struct advise_option *o = &options[other];
    double worth = job->deadline_h > 0 ? WORTH_IT_DEADLINE : WORTH_IT;
    if (!o->is_possible && !s->is_possible) return ADVISE_KINDS;
    if (is_good(s) && is_good(o))
        return price_of(job, s) <= worth * price_of(job, o) ? ADVISE_SWARM : other;
    return is_better(job, s, o) ? ADVISE_SWARM : other;
}

static enum advise_kind decide(const struct advise_job *job, const struct advise_market *m,
                               struct advise_option ret[ADVISE_KINDS])
{
    for (int i = 0; i < ADVISE_KINDS; i++)
        ret[i] = (struct advise_option){.why = "nothing on sale that it may use is of this kind"};
    swarm(job, m, &ret[ADVISE_SWARM]);
    one_node(job, m, &ret[ADVISE_NODE]);
    cluster(job, m, &ret[ADVISE_CLUSTER]);
    return judge_all(job, ret);
}

/* ---- what would change its mind ---- */

enum knob { KNOB_MODEL, KNOB_STEP, KNOB_STEPS, KNOB_OVERHEAD, KNOB_NETWORK, KNOB_SPOT, KNOB_RISK };

/* A larger model computes and exchanges more. */
static void turn(enum knob knob, double by, struct advise_job *job, struct advise_market *m)
{
    switch (knob) {
    case KNOB_MODEL:
        job->parameters *= by;
        job->ncu_s_per_step *= by;
        return;
    case KNOB_STEP: job->ncu_s_per_step *= by; return;
    case KNOB_STEPS: job->steps *= by; return;
    case KNOB_OVERHEAD: job->overhead = fmin(job->overhead * by, 0.95); return;
    case KNOB_NETWORK: job->network_gbit *= by; return;
    case KNOB_SPOT:
    case KNOB_RISK: break;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->offers[i].capacity != CAPACITY_SPOT) continue;
        *(knob == KNOB_SPOT ? &m->offers[i].usd_per_hour : &m->offers[i].losses_per_hour) *= by;
    }
}

static bool is_other(const struct advise_job *job, const struct advise_market *m, enum knob knob,
                     double by, bool was_swarm)
{
    struct advise_job turned = *job;
    struct advise_market market = *m;
    struct advise_option options[ADVISE_KINDS];
    turn(knob, by, &turned, &market);
    return (decide(&turned, &market, options) == ADVISE_SWARM) != was_swarm;
}

/* The factor nearest to 1, on this side, at which the verdict changes; 0: none. */
static double find_turn(const struct advise_job *job, const struct advise_market *m, enum knob knob,
                        bool up, bool was_swarm)
{
    double same = 1, step = up ? 1.5 : 1 / 1.5;
    for (double by = step; by <= TURN_MAX && by >= 1 / TURN_MAX; by *= step) {
        if (!is_other(job, m, knob, by, was_swarm)) {
            same = by;
            continue;
        }
        for (int i = 0; i < BISECTIONS; i++) {
            double middle = sqrt(same * by);
            *(is_other(job, m, knob, middle, was_swarm) ? &by : &same) = middle;
        }
        return by;
    }
    return 0;
}

static double spot_mean(const struct advise_market *m, enum knob knob)
{
    double sum = 0, count = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->offers[i].capacity != CAPACITY_SPOT) continue;
        sum += knob == KNOB_SPOT ? 1 : m->offers[i].losses_per_hour;
        count++;
    }
    return count > 0 ? sum / count : 0;
}

static void find_turns(const struct advise_job *job, const struct advise_market *m,
                       struct advise_answer *answer)
{
    const struct advise_turn knobs[ADVISE_KNOBS] = {
        [KNOB_MODEL] = {"model (work and gradients with it)", "B parameters", job->parameters / 1e9,
                        0, 0},
        [KNOB_STEP] = {"work of a step", "NCU-seconds", job->ncu_s_per_step, 0, 0},
        [KNOB_STEPS] = {"steps", "", job->steps, 0, 0},
        [KNOB_OVERHEAD] = {"orchestration", "% of the time", job->overhead * 100, 0, 0},
        [KNOB_NETWORK] = {"network", "Gbit/s", job->network_gbit, 0, 0},
        [KNOB_SPOT] = {"spot prices", "times those of now", spot_mean(m, KNOB_SPOT), 0, 0},
        [KNOB_RISK] = {"losses", "per node-hour of spot", spot_mean(m, KNOB_RISK), 0, 0},
    };
    bool was_swarm = answer->verdict == ADVISE_SWARM;
    for (int knob = 0; knob < ADVISE_KNOBS; knob++) {
        struct advise_turn *t = &answer->turns[knob];
        *t = knobs[knob];
        if (!(t->value > 0)) continue;
        t->below = t->value * find_turn(job, m, (enum knob)knob, false, was_swarm);
        t->above = t->value * find_turn(job, m, (enum knob)knob, true, was_swarm);
    }
}

void advise(const struct advise_job *job, const struct advise_market *market,
            struct advise_answer *ret_answer)
{
    *ret_answer = (struct advise_answer){.verdict = ADVISE_KINDS};
    ret_answer->verdict = decide(job, market, ret_answer->options);
    if (ret_answer->verdict != ADVISE_KINDS) find_turns(job, market, ret_answer);
}
