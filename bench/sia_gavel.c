/* Gavel's largest sum of throughputs for rigid tuned jobs, as the Sia simulator runs it: the rival.
 *
 * Allocation  Each round (360 s) a linear program: shares X of time per job and type, sum of
 *             iterations per second * X largest, sum over types <= 1 for each job, sum of devices *
 *             X <= devices of the type. The published solver is an interior-point one and shares
 *             equally between identical jobs; here identical jobs are one group, its shares split
 *             equally. A vertex per job would hide the rotation that costs Gavel its restarts.
 * Order       Jobs and types by X / (share of the type's time had so far), greedily; each job once.
 * Workers     Per type, most devices first: the last workers again where all are free, else the
 *             first free ones in order. */
#include "base/mem.h"
#include "published.h"
#include "sia_policies.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_MAX = 128, STEPS_MAX = 20000 };

struct workers {
    uint32_t type; /* SIA_NONE: none */
    uint32_t ids[SIA_NODES_MAX];
};

struct entry {
    double priority, share;
    uint32_t order, member, type; /* member: place in sim->active */
};

struct gavel {
    double *job_time[SIA_TYPES], type_time[SIA_TYPES]; /* seconds had */
    bool *seen, *kept;
    struct workers *last, *next; /* of each job */
    double (*shares)[SIA_TYPES]; /* of each active job */
    uint32_t *group_of;
    struct entry *entries;
    bool *taken[SIA_TYPES];
};

static void *open_gavel(struct sia_sim *sim)
{
    struct gavel *self = published_alloc(1, sizeof *self);
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        self->job_time[type] = published_alloc(sim->job_count, sizeof(double));
        self->taken[type] = published_alloc(sim->capacity[type], sizeof(bool));
    }
    self->seen = published_alloc(sim->job_count, sizeof *self->seen);
    self->kept = published_alloc(sim->job_count, sizeof *self->kept);
    self->last = published_alloc(sim->job_count, sizeof *self->last);
    self->next = published_alloc(sim->job_count, sizeof *self->next);
    self->shares = published_alloc(sim->job_count, sizeof *self->shares);
    self->group_of = published_alloc(sim->job_count, sizeof *self->group_of);
    self->entries = published_alloc((size_t)sim->job_count * SIA_TYPES, sizeof *self->entries);
    for (uint32_t j = 0; j < sim->job_count; j++) self->last[j].type = SIA_NONE;
    return self;
}

static void close_gavel(void *memory)
{
    struct gavel *self = memory;
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        mem_free(self->job_time[type]);
        mem_free(self->taken[type]);
    }
    mem_free(self->seen);
    mem_free(self->kept);
    mem_free(self->last);
    mem_free(self->next);
    mem_free(self->shares);
    mem_free(self->group_of);
    mem_free(self->entries);
    mem_free(self);
}

/* ---- the linear program ---- */

struct program { /* maximise the last row, slack basis, Dantzig's rule, then Bland's */
    uint32_t rows, columns;
    double *cells; /* (rows + 1) * (columns + 1), right-hand sides last */
    uint32_t *basis;
};

static double *cell(const struct program *lp, uint32_t row, uint32_t column)
{
    return &lp->cells[(size_t)row * (lp->columns + 1) + column];
}

static void pivot(struct program *lp, uint32_t row, uint32_t column)
{
    double scale = 1 / *cell(lp, row, column);
    for (uint32_t c = 0; c <= lp->columns; c++) *cell(lp, row, c) *= scale;
    for (uint32_t r = 0; r <= lp->rows; r++) {
        double factor = *cell(lp, r, column);
        if (r == row || factor == 0) continue;
        for (uint32_t c = 0; c <= lp->columns; c++) *cell(lp, r, c) -= factor * *cell(lp, row, c);
    }
    lp->basis[row] = column;
}

static bool improve(struct program *lp, bool bland)
{
    uint32_t column = SIA_NONE, row = SIA_NONE;
    double best = -1e-9;
    for (uint32_t c = 0; c < lp->columns && !(bland && column != SIA_NONE); c++) {
        if (*cell(lp, lp->rows, c) >= best) continue;
        if (!bland) best = *cell(lp, lp->rows, c);
        column = c;
    }
    if (column == SIA_NONE) return false;
    double least = INFINITY;
    for (uint32_t r = 0; r < lp->rows; r++) {
        if (*cell(lp, r, column) < 1e-9) continue;
        double ratio = *cell(lp, r, lp->columns) / *cell(lp, r, column);
        bool tie = row != SIA_NONE && ratio == least && lp->basis[r] < lp->basis[row];
        if (ratio >= least && !tie) continue;
        least = ratio;
        row = r;
    }
    if (row == SIA_NONE) published_fail("gavel: the linear program has no bound");
    pivot(lp, row, column);
    return true;
}

struct group {
    uint32_t app, replicas, count;
    double batch, rates[SIA_TYPES], shares[SIA_TYPES];
};

static void solve(const struct sia_sim *sim, struct group *groups, uint32_t count)
{
    struct program lp = {.rows = count + SIA_TYPES,
                         .columns = count * SIA_TYPES + count + SIA_TYPES};
    lp.cells = published_alloc((size_t)(lp.rows + 1) * (lp.columns + 1), sizeof(double));
    lp.basis = published_alloc(lp.rows, sizeof *lp.basis);
    for (uint32_t r = 0; r < lp.rows; r++) {
        lp.basis[r] = count * SIA_TYPES + r;
        *cell(&lp, r, lp.basis[r]) = 1;
        *cell(&lp, r, lp.columns) = r < count ? groups[r].count : sim->capacity[r - count];
    }
    for (uint32_t g = 0; g < count; g++) {
        for (uint32_t type = 0; type < SIA_TYPES; type++) {
            *cell(&lp, g, g * SIA_TYPES + type) = 1;
            *cell(&lp, count + type, g * SIA_TYPES + type) = groups[g].replicas;
            *cell(&lp, lp.rows, g * SIA_TYPES + type) = -groups[g].rates[type];
        }
    }
    uint32_t steps = 0;
    while (improve(&lp, steps > 500)) {
        if (++steps == STEPS_MAX) published_fail("gavel: the linear program does not end");
    }
    for (uint32_t r = 0; r < lp.rows; r++) {
        uint32_t column = lp.basis[r];
        if (column >= count * SIA_TYPES) continue;
        struct group *group = &groups[column / SIA_TYPES];
        double share = *cell(&lp, r, lp.columns) / group->count;
        group->shares[column % SIA_TYPES] = fmin(fmax(round(share * 1e5) / 1e5, 0), 1);
    }
    mem_free(lp.cells);
    mem_free(lp.basis);
}

static uint32_t group_for(struct group *groups, uint32_t *count, struct sia_job *job)
{
    const struct sia_submission *s = job->submission;
    for (uint32_t g = 0; g < *count; g++) {
        if (groups[g].app == s->app && groups[g].replicas == s->replicas &&
            groups[g].batch == s->batch) {
            return g;
        }
    }
    if (*count == GROUPS_MAX) published_fail("gavel: more than %d kinds of jobs", GROUPS_MAX);
    struct group *group = &groups[*count];
    *group = (struct group){.app = s->app, .replicas = s->replicas, .batch = s->batch};
    sia_rigid_rates(job);
    memcpy(group->rates, job->best_rigid, sizeof group->rates);
    return (*count)++;
}

static void allocate(struct sia_sim *sim, struct gavel *self)
{
    struct group groups[GROUPS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->active_count; i++) {
        self->group_of[i] = group_for(groups, &count, &sim->jobs[sim->active[i]]);
        groups[self->group_of[i]].count++;
    }
    solve(sim, groups, count);
    for (uint32_t i = 0; i < sim->active_count; i++) {
        memcpy(self->shares[i], groups[self->group_of[i]].shares, sizeof self->shares[i]);
    }
}

/* ---- who runs ---- */

static int by_priority(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->priority != y->priority) return x->priority > y->priority ? -1 : 1;
    if (x->share != y->share) return x->share > y->share ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void choose(struct sia_sim *sim, struct gavel *self)
{
    uint32_t count = 0, left[SIA_TYPES];
    memcpy(left, sim->capacity, sizeof left);
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        for (uint32_t i = 0; i < sim->active_count; i++) {
            double had = self->job_time[type][sim->active[i]] / self->type_time[type];
            double share = self->shares[i][type];
            self->entries[count] = (struct entry){
                .priority = share / had, .share = share, .order = count, .member = i, .type = type};
            count++;
        }
    }
    qsort(self->entries, count, sizeof *self->entries, by_priority);
    for (uint32_t i = 0; i < sim->active_count; i++) self->next[sim->active[i]].type = SIA_NONE;
    for (uint32_t e = 0; e < count; e++) {
        const struct entry *entry = &self->entries[e];
        uint32_t j = sim->active[entry->member], devices = sim->jobs[j].submission->replicas;
        if (self->next[j].type != SIA_NONE || devices > left[entry->type]) continue;
        if (sim->jobs[j].best_rigid[entry->type] == 0 && entry->share == 0) {
            sia_rigid_rates(&sim->jobs[j]);
            if (sim->jobs[j].best_rigid[entry->type] == 0) continue; /* can never run there */
        }
        left[entry->type] -= devices;
        self->next[j].type = entry->type;
    }
}

static bool keep_workers(struct gavel *self, uint32_t j, uint32_t devices)
{
    struct workers *next = &self->next[j], *last = &self->last[j];
    if (last->type != next->type) return false;
    for (uint32_t i = 0; i < devices; i++) {
        if (self->taken[next->type][last->ids[i]]) return false;
    }
    memcpy(next->ids, last->ids, sizeof next->ids);
    for (uint32_t i = 0; i < devices; i++) self->taken[next->type][next->ids[i]] = true;
    return true;
}

static void assign_size(struct sia_sim *sim, struct gavel *self, uint32_t type, uint32_t devices,
                        uint32_t *from)
{
    for (uint32_t i = 0; i < sim->active_count; i++) {
        uint32_t j = sim->active[i];
        if (self->next[j].type != type || sim->jobs[j].submission->replicas != devices) continue;
        self->kept[i] = keep_workers(self, j, devices);
    }
    for (uint32_t i = 0; i < sim->active_count; i++) {
        uint32_t j = sim->active[i], got = 0;
        if (self->next[j].type != type || sim->jobs[j].submission->replicas != devices) continue;
        for (; !self->kept[i] && got < devices; (*from)++) {
            if (*from == sim->capacity[type]) published_fail("gavel: workers ran out");
            if (self->taken[type][*from]) continue;
            self->taken[type][*from] = true;
            self->next[j].ids[got++] = *from;
        }
    }
}

static void put(struct sia_sim *sim, struct gavel *self, uint32_t j)
{
    const struct workers *workers = &self->next[j];
    struct sia_job *job = &sim->jobs[j];
    struct sia_placement placement = {.replicas = (uint8_t)job->submission->replicas};
    uint32_t nodes[SIA_NODES_MAX];
    if (workers->type == SIA_NONE) {
        sia_place(sim, job, SIA_NONE, NULL, NULL);
        return;
    }
    for (uint32_t i = 0; i < placement.replicas; i++) {
        uint32_t node = workers->ids[i] / sia_types[workers->type].per_node;
        if (placement.node_count == 0 || nodes[placement.node_count - 1] != node) {
            nodes[placement.node_count++] = node;
        }
        placement.on_node[placement.node_count - 1]++;
    }
    sia_place(sim, job, workers->type, &placement, nodes);
}

static void decide(struct sia_sim *sim, void *memory)
{
    struct gavel *self = memory;
    for (uint32_t i = 0; i < sim->active_count; i++) {
        uint32_t j = sim->active[i];
        for (uint32_t type = 0; type < SIA_TYPES && !self->seen[j]; type++) {
            self->job_time[type][j] = sim->round_s / 2;
            self->type_time[type] += sim->round_s / 2;
        }
        self->seen[j] = true;
    }
    allocate(sim, self);
    choose(sim, self);
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        uint32_t from = 0;
        memset(self->taken[type], 0, sim->capacity[type] * sizeof(bool));
        for (uint32_t size = SIA_NODES_MAX; size > 0; size--) {
            assign_size(sim, self, type, size, &from);
        }
    }
    for (uint32_t i = 0; i < sim->active_count; i++) {
        uint32_t j = sim->active[i];
        put(sim, self, j);
        self->last[j] = self->next[j];
        if (self->next[j].type == SIA_NONE) continue;
        self->job_time[self->next[j].type][j] += sim->round_s;
        self->type_time[self->next[j].type] += sim->round_s;
    }
}

const struct sia_policy sia_gavel = {.name = "gavel",
                                     .is_rigid = true,
                                     .round_s = 360,
                                     .open = open_gavel,
                                     .decide = decide,
                                     .close = close_gavel};
