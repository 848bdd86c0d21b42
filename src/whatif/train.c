#include "whatif/train.h"
#include "base/io.h"
#include "base/mem.h"
#include "core/assert.h"
#include "whatif/crowd.h"
#include "whatif/source.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TRAIN_LATE 2.0 /* a hundredth more time counts as much as two of dollars */

enum { SIDES_WIDER = 8 };

/* A scenario and what the pool does there without a network. */
struct ground {
    struct scene *scene;
    struct source source;
    struct crowd base; /* cases[0]: the pool as it is; cases[1]: ranked by zeros, what is met */
    struct scene_case cases[2];
    double usd, job_h;
    double unfinished;
};

struct training {
    const struct arguments *arguments;
    struct ground grounds[ARGUMENTS_FILES_MAX];
    struct rank_net nets[TRAIN_CANDIDATES];
    struct scene_case cases[TRAIN_CANDIDATES];
    double losses[TRAIN_CANDIDATES];
    struct train_state state;
    char state_path[ARGUMENTS_PATH_BYTES];
};

/* ---- the ground ---- */

static double sum_of(const struct crowd *c, uint32_t which, enum measure measure)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->seed_count; i++)
        sum += c->outcomes[(size_t)which * c->seed_count + i].values[0][measure];
    return sum;
}

static void seeds_of(const struct arguments *a, const struct scene *scene, struct crowd *crowd)
{
    crowd->first_seed = a->has_seeds ? a->first_seed : scene->first_seed;
    crowd->seed_count = (a->has_seeds ? a->last_seed : scene->last_seed) - crowd->first_seed + 1;
    crowd->threads = a->threads;
}

/* Ranks as built in, whatever it is asked. */
static struct rank_net zero_net(void)
{
    struct rank_net net = {.version = RANK_NET_VERSION};
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++)
        net.ranges[i] = (struct rank_range){-RANK_INPUT_MAX, RANK_INPUT_MAX};
    return net;
}

static bool run_ground(const struct arguments *a, struct ground *g, const struct rank_net *zero,
                       struct error *ret_error)
{
    if (!scene_case_of_policy(g->scene, "shoal", &g->cases[0])) UNREACHABLE();
    if (!scene_case_of_policy(g->scene, "learned", &g->cases[1])) UNREACHABLE();
    g->cases[1].net = zero;
    g->base = (struct crowd){
        .scene = g->scene, .cases = g->cases, .case_count = 2, .progress = g->scene->name};
    seeds_of(a, g->scene, &g->base);
    if (!crowd_run(&g->base, ret_error)) return false;
    g->usd = sum_of(&g->base, 0, MEASURE_COST);
    g->job_h = sum_of(&g->base, 0, MEASURE_JOB_TIME);
    g->unfinished = sum_of(&g->base, 0, MEASURE_UNFINISHED);
    return (g->usd > 0 && g->job_h > 0) ||
           error_set(ret_error,
                     "%s: no job ends or costs anything, so there is nothing to train on",
                     g->scene->name);
}

static bool open_grounds(struct training *t, struct error *ret_error)
{
    const struct arguments *a = t->arguments;
    struct rank_net zero = zero_net();
    for (uint32_t i = 0; i < a->file_count; i++) {
        struct ground *g = &t->grounds[i];
        g->scene = scene_new();
        if (g->scene == NULL) return error_set(ret_error, "out of memory for the scenario");
        if (!source_read(&g->source, a->files[i], a->sets, a->set_count, g->scene, ret_error) ||
            !run_ground(a, g, &zero, ret_error))
            return false;
    }
    return true;
}

static void close_grounds(struct training *t)
{
    for (uint32_t i = 0; i < t->arguments->file_count; i++) {
        crowd_free(&t->grounds[i].base);
        scene_close(t->grounds[i].scene);
        source_free(&t->grounds[i].source);
    }
}

/* Of everything that decides what a generation does, but for their number. */
static uint64_t identity_of(const struct training *t)
{
    uint64_t sum = TRAIN_PAIRS * 1000 + RANK_WEIGHTS;
    for (uint32_t i = 0; i < t->arguments->file_count; i++) {
        const struct crowd *c = &t->grounds[i].base;
        for (uint32_t k = 0; k < 2 * c->seed_count; k++)
            sum = (sum ^ c->outcomes[k].digest ^ sum >> 31) * UINT64_C(0x9e3779b97f4a7c15);
        sum =
            (sum ^ (uint64_t)(c->scene->horizon_us + c->first_seed)) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return sum;
}

/* ---- networks ---- */

static void widen(const struct training *t, uint32_t input, struct rank_range *range)
{
    for (uint32_t i = 0; i < t->arguments->file_count; i++) {
        const struct crowd *c = &t->grounds[i].base;
        for (uint32_t k = c->seed_count; k < 2 * c->seed_count; k++) {
            struct rank_range met = c->outcomes[k].met[input];
            bool first = i == 0 && k == c->seed_count;
            if (first || met.from < range->from) range->from = met.from;
            if (first || met.to > range->to) range->to = met.to;
        }
    }
    int32_t side = (range->to - range->from) / SIDES_WIDER;
    range->from -= side;
    range->to += side;
}

static void put_note(const struct training *t, char *note, size_t bytes)
{
    size_t used = 0;
    for (uint32_t i = 0; i < t->arguments->file_count && used < bytes; i++) {
        const struct crowd *c = &t->grounds[i].base;
        int written = snprintf(note + used, bytes - used, "%s%s, seeds %u..%u", i > 0 ? "; " : "",
                               c->scene->name, c->first_seed, c->first_seed + c->seed_count - 1);
        used += written > 0 ? (size_t)written : 0;
    }
    if (used < bytes)
        (void)snprintf(note + used, bytes - used, "; %" PRIu64 " generations", t->state.generation);
    for (size_t i = 0; i < bytes && note[i] != '\0'; i++)
        if (note[i] == '"' || note[i] == '\\' || (unsigned char)note[i] < ' ') note[i] = '_';
}

static void open_nets(struct training *t)
{
    t->nets[0] = (struct rank_net){.version = RANK_NET_VERSION};
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++) widen(t, i, &t->nets[0].ranges[i]);
    for (uint32_t k = 1; k < TRAIN_CANDIDATES; k++) t->nets[k] = t->nets[0];
}

static bool write_net(const struct training *t, struct error *ret_error)
{
    char text[RANK_NET_BYTES_MAX];
    struct rank_net net = t->nets[0];
    train_round(t->state.best, net.weights);
    put_note(t, net.note, sizeof net.note);
    size_t bytes = rank_net_print(&net, text, sizeof text);
    return io_write_file(t->arguments->out, text, bytes, 0644, ret_error);
}

/* ---- generations ---- */

static double loss_of(const struct ground *g, const struct crowd *c, uint32_t candidate)
{
    double late = sum_of(c, candidate, MEASURE_JOB_TIME) / g->job_h - 1;
    double unfinished = sum_of(c, candidate, MEASURE_UNFINISHED) - g->unfinished;
    return sum_of(c, candidate, MEASURE_COST) / g->usd + (late > 0 ? TRAIN_LATE * late : 0) +
           (unfinished > 0 ? unfinished : 0);
}

static bool run_candidates(struct training *t, struct ground *g, struct error *ret_error)
{
    for (uint32_t k = 0; k < TRAIN_CANDIDATES; k++) {
        if (!scene_case_of_policy(g->scene, "learned", &t->cases[k])) UNREACHABLE();
        t->cases[k].net = &t->nets[k];
    }
    struct crowd crowd = {.scene = g->scene,
                          .cases = t->cases,
                          .case_count = TRAIN_CANDIDATES,
                          .progress = g->scene->name};
    seeds_of(t->arguments, g->scene, &crowd);
    bool good = crowd_run(&crowd, ret_error);
    for (uint32_t k = 0; k < TRAIN_CANDIDATES && good; k++)
        t->losses[k] += loss_of(g, &crowd, k) / t->arguments->file_count;
    crowd_free(&crowd);
    return good;
}

static bool run_generation(struct training *t, struct error *ret_error)
{
    memset(t->losses, 0, sizeof t->losses);
    for (uint32_t k = 0; k < TRAIN_CANDIDATES; k++)
        train_candidate(&t->state, k, t->nets[k].weights);
    for (uint32_t i = 0; i < t->arguments->file_count; i++)
        if (!run_candidates(t, &t->grounds[i], ret_error)) return false;
    train_step(&t->state, t->losses);
    if (!train_state_write(t->state_path, &t->state, ret_error) || !write_net(t, ret_error))
        return false;
    (void)printf("generation %" PRIu64 ": loss %.4f, best %.4f\n", t->state.generation,
                 t->losses[2 * TRAIN_PAIRS], t->state.best_loss);
    (void)fflush(stdout);
    return true;
}

static bool train(struct training *t, struct error *ret_error)
{
    bool found;
    if (!open_grounds(t, ret_error)) return false;
    uint64_t identity = identity_of(t);
    (void)snprintf(t->state_path, sizeof t->state_path, "%s.training", t->arguments->out);
    if (!train_state_read(t->state_path, identity, &t->state, &found, ret_error)) return false;
    if (!found) train_begin(&t->state);
    t->state.identity = identity;
    open_nets(t);
    while (t->state.generation < t->arguments->generations)
        if (!run_generation(t, ret_error)) return false;
    if (!write_net(t, ret_error)) return false;
    (void)printf("wrote %s: dollars and lateness %.4f of the built-in ranking's in training\n",
                 t->arguments->out, t->state.best_loss);
    return true;
}

int train_main(const struct arguments *arguments)
{
    struct error error;
    struct training *t = mem_zalloc(1, sizeof *t);
    bool good = t != NULL || error_set(&error, "out of memory for the training");
    if (t != NULL) {
        t->arguments = arguments;
        good = train(t, &error);
        close_grounds(t);
    }
    mem_free(t);
    if (!good) (void)fprintf(stderr, "shoal sim --train: %s\n", error.text);
    return good ? 0 : 1;
}
