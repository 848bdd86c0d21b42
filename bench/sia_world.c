#include "sia_world.h"
#include "base/mem.h"
#include "published.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The published cluster. */
const struct sia_type sia_types[SIA_TYPES] = {
    {"T4", "aws", 6, 4}, {"A100", "dgx-ext", 2, 8}, {"2080Ti", "rtx", 3, 8}};

/* Base and largest batch, restart and slowdown of the published simulator. */
static const struct sia_app known_apps[SIA_APPS] = {
    {.name = "cifar10",
     .base_batch = 128,
     .batch_max = 4096,
     .slowdown = 1.8,
     .restart_s = 50,
     .sia_restart_s = 30},
    {.name = "bert",
     .base_batch = 12,
     .batch_max = 384,
     .slowdown = 1.2,
     .restart_s = 120,
     .sia_restart_s = 120},
    {.name = "deepspeech2",
     .base_batch = 20,
     .batch_max = 640,
     .slowdown = 1.2,
     .restart_s = 25,
     .sia_restart_s = 25},
    {.name = "yolov3",
     .base_batch = 8,
     .batch_max = 512,
     .slowdown = 1.2,
     .restart_s = 80,
     .sia_restart_s = 45},
    {.name = "imagenet",
     .base_batch = 200,
     .batch_max = 12800,
     .slowdown = 1.2,
     .restart_s = 250,
     .sia_restart_s = 250},
    {.name = "ncf",
     .base_batch = 256,
     .batch_max = 32768,
     .slowdown = 1.5,
     .restart_s = 15,
     .sia_restart_s = 15},
};

static uint32_t app_index(const char *name)
{
    for (uint32_t a = 0; a < SIA_APPS; a++) {
        if (strcmp(known_apps[a].name, name) == 0) return a;
    }
    return UINT32_MAX;
}

static uint32_t type_index(const char *cluster)
{
    for (uint32_t t = 0; t < SIA_TYPES; t++) {
        if (strcmp(sia_types[t].cluster, cluster) == 0) return t;
    }
    return UINT32_MAX;
}

/* ---- step times ---- */

/* Of all rotations of the digits the smallest: where a ring of nodes begins does not matter. */
static struct sia_placement canonical(const struct sia_placement *p)
{
    struct sia_placement best = *p;
    for (uint32_t turn = 1; turn < p->node_count; turn++) {
        struct sia_placement other = *p;
        for (uint32_t i = 0; i < p->node_count; i++) {
            other.on_node[i] = p->on_node[(i + turn) % p->node_count];
        }
        if (memcmp(other.on_node, best.on_node, p->node_count) < 0) best = other;
    }
    return best;
}

static bool is_same(const struct sia_placement *a, const struct sia_placement *b)
{
    return a->node_count == b->node_count && memcmp(a->on_node, b->on_node, a->node_count) == 0;
}

static struct sia_placement placement_of(const struct csv *csv, uint32_t row)
{
    struct sia_placement p = {0};
    const char *digits = csv_text(csv, row, csv_column(csv, "placement"));
    p.node_count = (uint8_t)csv_integer(csv, row, csv_column(csv, "num_nodes"));
    p.replicas = (uint8_t)csv_integer(csv, row, csv_column(csv, "num_replicas"));
    if (strcmp(csv_text(csv, row, csv_column(csv, "kind")), "place") != 0) return p;
    if (strlen(digits) != p.node_count || p.node_count > SIA_NODES_MAX) {
        published_fail("%s:%u: placement \"%s\" is not of %u nodes", csv->name, row + 2, digits,
                       p.node_count);
    }
    for (uint32_t i = 0; i < p.node_count; i++) p.on_node[i] = (uint8_t)(digits[i] - '0');
    return canonical(&p);
}

static struct sia_curve *curve_for(struct sia_app *app, uint32_t type, bool placed,
                                   const struct sia_placement *p)
{
    struct sia_curve **curves = placed ? &app->placed[type] : &app->counted[type];
    uint32_t *count = placed ? &app->placed_count[type] : &app->counted_count[type];
    for (uint32_t i = 0; i < *count; i++) {
        struct sia_curve *curve = &(*curves)[i];
        bool same = placed ? is_same(&curve->placement, p)
                           : curve->placement.node_count == p->node_count &&
                                 curve->placement.replicas == p->replicas;
        if (same) return curve;
    }
    *curves = mem_realloc(*curves, (*count + 1) * sizeof **curves);
    if (*curves == NULL) published_fail("no memory for the profiles");
    struct sia_curve *curve = &(*curves)[(*count)++];
    *curve = (struct sia_curve){.placement = *p};
    return curve;
}

/* Points stay sorted; a batch measured twice keeps the mean. */
static void add_point(struct sia_curve *curve, double local, double step_s, double sync_s)
{
    uint32_t at = 0;
    while (at < curve->points && curve->local[at] < local) at++;
    if (at < curve->points && curve->local[at] == local) {
        curve->step_s[at] = (curve->step_s[at] + step_s) / 2;
        curve->sync_s[at] = (curve->sync_s[at] + sync_s) / 2;
        return;
    }
    if (curve->points == SIA_POINTS_MAX) published_fail("profiles.csv: too many local batches");
    for (uint32_t i = curve->points++; i > at; i--) {
        curve->local[i] = curve->local[i - 1];
        curve->step_s[i] = curve->step_s[i - 1];
        curve->sync_s[i] = curve->sync_s[i - 1];
    }
    curve->local[at] = local;
    curve->step_s[at] = step_s;
    curve->sync_s[at] = sync_s;
}

static void read_profiles(struct sia_world *world, const char *folder)
{
    struct csv csv;
    csv_open(&csv, folder, "profiles.csv", ',');
    uint32_t app_at = csv_column(&csv, "app"), cluster_at = csv_column(&csv, "cluster");
    uint32_t kind_at = csv_column(&csv, "kind"), local_at = csv_column(&csv, "local_bsz");
    uint32_t step_at = csv_column(&csv, "step_time_s"), sync_at = csv_column(&csv, "sync_time_s");
    for (uint32_t row = 0; row < csv.rows; row++) {
        uint32_t app = app_index(csv_text(&csv, row, app_at));
        uint32_t type = type_index(csv_text(&csv, row, cluster_at));
        if (app == UINT32_MAX || type == UINT32_MAX) continue;
        bool placed = strcmp(csv_text(&csv, row, kind_at), "place") == 0;
        struct sia_placement p = placement_of(&csv, row);
        add_point(curve_for(&world->apps[app], type, placed, &p), csv_real(&csv, row, local_at),
                  csv_real(&csv, row, step_at), csv_real(&csv, row, sync_at));
    }
    csv_close(&csv);
}

struct step {
    double step_s, sync_s;
};

/* Linear between points and beyond both ends, never below a tenth of the first. */
static struct step on_curve(const struct sia_curve *curve, double local)
{
    if (curve->points == 1) return (struct step){curve->step_s[0], curve->sync_s[0]};
    uint32_t at = 1;
    while (at + 1 < curve->points && curve->local[at] < local) at++;
    double part = (local - curve->local[at - 1]) / (curve->local[at] - curve->local[at - 1]);
    struct step step = {curve->step_s[at - 1] + part * (curve->step_s[at] - curve->step_s[at - 1]),
                        curve->sync_s[at - 1] + part * (curve->sync_s[at] - curve->sync_s[at - 1])};
    step.step_s = fmax(step.step_s, curve->step_s[0] / 10);
    step.sync_s = fmin(fmax(step.sync_s, 0), step.step_s);
    return step;
}

struct found { /* curves whose mean is asked for */
    const struct sia_curve *curves[512];
    uint32_t count;
    double local_max;
};

static void found_add(struct found *found, const struct sia_curve *curve)
{
    if (found->count == 512) return;
    found->curves[found->count++] = curve;
    double most = curve->local[curve->points - 1];
    if (found->count == 1 || most > found->local_max) found->local_max = most;
}

static bool find_counts(const struct sia_app *app, uint32_t type, uint32_t nodes, uint32_t replicas,
                        struct found *found)
{
    for (uint32_t i = 0; i < app->counted_count[type]; i++) {
        const struct sia_curve *curve = &app->counted[type][i];
        if (curve->placement.node_count != nodes || curve->placement.replicas != replicas) continue;
        found_add(found, curve);
        return true;
    }
    for (uint32_t i = 0; i < app->placed_count[type]; i++) {
        const struct sia_curve *curve = &app->placed[type][i];
        if (curve->placement.node_count != nodes || curve->placement.replicas != replicas) continue;
        found_add(found, curve);
    }
    return found->count > 0;
}

static void find_nearest(const struct sia_app *app, uint32_t type, uint32_t nodes, double replicas,
                         struct found *found)
{
    double best = INFINITY;
    const struct sia_curve *nearest = NULL;
    for (uint32_t kind = 0; kind < 2; kind++) {
        const struct sia_curve *curves = kind == 0 ? app->placed[type] : app->counted[type];
        uint32_t count = kind == 0 ? app->placed_count[type] : app->counted_count[type];
        for (uint32_t i = 0; i < count; i++) {
            double apart = fabs(curves[i].placement.node_count - (double)nodes) * 100 +
                           fabs(curves[i].placement.replicas - replicas);
            if (apart >= best) continue;
            best = apart;
            nearest = &curves[i];
        }
    }
    if (nearest == NULL)
        published_fail("profiles.csv: nothing for %s on %s", app->name, sia_types[type].name);
    found_add(found, nearest);
}

static void find_curves(const struct sia_app *app, uint32_t type, const struct sia_placement *p,
                        struct found *found)
{
    *found = (struct found){0};
    struct sia_placement ring = canonical(p);
    for (uint32_t i = 0; i < app->placed_count[type]; i++) {
        if (!is_same(&app->placed[type][i].placement, &ring)) continue;
        found_add(found, &app->placed[type][i]);
        return;
    }
    if (find_counts(app, type, p->node_count, p->replicas, found)) return;
    if (p->node_count == 5 && sia_types[type].per_node == 4) {
        find_nearest(app, type, 4, p->replicas * 4.0 / 5, found);
        find_nearest(app, type, 6, p->replicas * 6.0 / 5, found);
        return;
    }
    find_nearest(app, type, p->node_count, p->replicas, found);
}

struct sia_candidate sia_run(const struct sia_app *app, uint32_t type,
                             const struct sia_placement *placement, double batch)
{
    struct found found;
    find_curves(app, type, placement, &found);
    double replicas = placement->replicas, local = ceil(batch / replicas - 1e-8);
    double more = ceil(batch / replicas / found.local_max - 1e-8) - 1;
    if (placement->replicas == 1 && batch > app->base_batch + 1e-8) more = fmax(more, 1);
    local = ceil(batch / replicas / (more + 1) - 1e-8);
    struct step mean = {0};
    for (uint32_t i = 0; i < found.count; i++) {
        struct step step = on_curve(found.curves[i], local);
        mean.step_s += step.step_s / found.count;
        mean.sync_s += step.sync_s / found.count;
    }
    return (struct sia_candidate){.batch = fmin(local * (more + 1) * replicas, app->batch_max),
                                  .iteration_s = mean.step_s + more * (mean.step_s - mean.sync_s)};
}

static double local_min(const struct sia_app *app, uint32_t type)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < app->placed_count[type]; i++) {
        least = fmin(least, app->placed[type][i].local[0]);
    }
    return isfinite(least) ? least : 1;
}

/* ---- what a batch is worth ---- */

struct sia_noise sia_noise(const struct sia_app *app, double batch, uint32_t epoch)
{
    if (epoch >= app->epochs) epoch = app->epochs - 1;
    uint32_t at = 1;
    if (app->batches == 1 || batch <= app->batch[0]) {
        return (struct sia_noise){app->var[0][epoch], app->sqr[0][epoch]};
    }
    while (at + 1 < app->batches && app->batch[at] < batch) at++;
    double part = (batch - app->batch[at - 1]) / (app->batch[at] - app->batch[at - 1]);
    if (part > 1) part = 1;
    return (struct sia_noise){
        app->var[at - 1][epoch] + part * (app->var[at][epoch] - app->var[at - 1][epoch]),
        app->sqr[at - 1][epoch] + part * (app->sqr[at][epoch] - app->sqr[at - 1][epoch])};
}

double sia_gain(const struct sia_app *app, struct sia_noise noise, double batch)
{
    double scale = batch / app->base_batch;
    return (noise.var + noise.sqr) / (noise.var / scale + noise.sqr);
}

double sia_rate(const struct sia_app *app, struct sia_noise noise, struct sia_candidate run)
{
    return sia_gain(app, noise, run.batch) / run.iteration_s / app->slowdown;
}

struct sia_candidate sia_best(const struct sia_app *app, uint32_t config, struct sia_noise noise)
{
    const struct sia_candidate *all = app->candidates[config], *best = &all[0];
    double best_rate = 0;
    for (uint32_t i = 0; i < SIA_CANDIDATES; i++) {
        double scale = all[i].batch / app->base_batch;
        double rate = 1 / ((noise.var / scale + noise.sqr) * all[i].iteration_s);
        if (rate <= best_rate) continue;
        best_rate = rate;
        best = &all[i];
    }
    return *best;
}

static uint32_t batch_slot(struct sia_app *app, double batch)
{
    for (uint32_t b = 0; b < app->batches; b++) {
        if (app->batch[b] == batch) return b;
    }
    if (app->batches == SIA_BATCHES_MAX)
        published_fail("validation.csv: too many batches of %s", app->name);
    app->batch[app->batches] = batch;
    return app->batches++;
}

static void sort_batches(struct sia_app *app)
{
    for (uint32_t i = 1; i < app->batches; i++) {
        for (uint32_t k = i; k > 0 && app->batch[k] < app->batch[k - 1]; k--) {
            double batch = app->batch[k];
            app->batch[k] = app->batch[k - 1];
            app->batch[k - 1] = batch;
            for (uint32_t e = 0; e < SIA_EPOCHS_MAX; e++) {
                double var = app->var[k][e], sqr = app->sqr[k][e];
                app->var[k][e] = app->var[k - 1][e];
                app->sqr[k][e] = app->sqr[k - 1][e];
                app->var[k - 1][e] = var;
                app->sqr[k - 1][e] = sqr;
            }
        }
    }
}

static void read_validation(struct sia_world *world, const char *folder)
{
    struct csv csv;
    csv_open(&csv, folder, "validation.csv", ',');
    uint32_t app_at = csv_column(&csv, "app"), batch_at = csv_column(&csv, "batch_size");
    uint32_t progress_at = csv_column(&csv, "progress");
    uint32_t sqr_at = csv_column(&csv, "grad_sqr"), var_at = csv_column(&csv, "grad_var");
    uint32_t seen[SIA_APPS][SIA_BATCHES_MAX] = {{0}};
    for (uint32_t row = 0; row < csv.rows; row++) {
        uint32_t a = app_index(csv_text(&csv, row, app_at));
        if (a == UINT32_MAX) continue;
        struct sia_app *app = &world->apps[a];
        uint32_t b = batch_slot(app, csv_real(&csv, row, batch_at)), e = seen[a][b]++;
        if (e >= SIA_EPOCHS_MAX) published_fail("validation.csv: too many epochs of %s", app->name);
        double progress = csv_real(&csv, row, progress_at);
        app->var[b][e] = csv_real(&csv, row, var_at);
        app->sqr[b][e] = csv_real(&csv, row, sqr_at);
        if (app->border[e + 1] == 0 || progress < app->border[e + 1]) app->border[e + 1] = progress;
        if (e + 1 > app->epochs) app->epochs = e + 1;
    }
    csv_close(&csv);
    for (uint32_t a = 0; a < SIA_APPS; a++) {
        sort_batches(&world->apps[a]);
        world->apps[a].work = world->apps[a].border[world->apps[a].epochs];
    }
}

/* ---- configurations, candidates, workloads ---- */

static void add_config(struct sia_world *world, uint32_t type, uint32_t nodes, uint32_t on_node)
{
    struct sia_config *config = &world->configs[world->config_count++];
    *config = (struct sia_config){.type = type, .count = nodes * on_node};
    config->placement.node_count = (uint8_t)nodes;
    config->placement.replicas = (uint8_t)(nodes * on_node);
    memset(config->placement.on_node, (int)on_node, nodes);
}

static void make_configs(struct sia_world *world)
{
    for (uint32_t type = 0; type < SIA_TYPES; type++) {
        for (uint32_t count = 1; count <= sia_types[type].per_node; count *= 2) {
            add_config(world, type, 1, count);
        }
        for (uint32_t nodes = 2; nodes <= sia_types[type].nodes; nodes++) {
            add_config(world, type, nodes, sia_types[type].per_node);
        }
    }
}

static void make_candidates(struct sia_world *world, struct sia_app *app)
{
    for (uint32_t c = 0; c < world->config_count; c++) {
        const struct sia_config *config = &world->configs[c];
        double least = fmax(app->base_batch, local_min(app, config->type) * config->count);
        for (uint32_t i = 0; i < SIA_CANDIDATES; i++) {
            double batch = least * pow(app->batch_max / least, i / (SIA_CANDIDATES - 1.0));
            app->candidates[c][i] = sia_run(app, config->type, &config->placement, batch);
        }
    }
}

static void read_workloads(struct sia_world *world, const char *folder)
{
    struct csv csv;
    csv_open(&csv, folder, "workloads.csv", ',');
    uint32_t set_at = csv_column(&csv, "set"), workload_at = csv_column(&csv, "workload");
    uint32_t submit_at = csv_column(&csv, "submit_s"), app_at = csv_column(&csv, "application");
    uint32_t replicas_at = csv_column(&csv, "num_replicas"),
             batch_at = csv_column(&csv, "batch_size");
    world->submissions = published_alloc(csv.rows, sizeof *world->submissions);
    world->submission_count = csv.rows;
    for (uint32_t row = 0; row < csv.rows; row++) {
        struct sia_submission *s = &world->submissions[row];
        s->set = mem_strdup(csv_text(&csv, row, set_at));
        s->workload = mem_strdup(csv_text(&csv, row, workload_at));
        if (s->set == NULL || s->workload == NULL) published_fail("no memory for the workloads");
        s->submit_s = csv_real(&csv, row, submit_at);
        s->app = app_index(csv_text(&csv, row, app_at));
        int64_t replicas = csv_integer(&csv, row, replicas_at);
        s->batch = csv_real(&csv, row, batch_at);
        if (s->app == UINT32_MAX || world->apps[s->app].work <= 0) {
            published_fail("%s:%u: no profile of application \"%s\"", csv.name, row + 2,
                           csv_text(&csv, row, app_at));
        }
        if (replicas < 1 || replicas > 24 || s->batch < 1) {
            published_fail("%s:%u: a job asks for 1 to 24 devices and a batch of 1 at least",
                           csv.name, row + 2);
        }
        s->replicas = (uint32_t)replicas;
    }
    csv_close(&csv);
}

void sia_world_open(struct sia_world *world, const char *folder)
{
    *world = (struct sia_world){0};
    memcpy(world->apps, known_apps, sizeof known_apps);
    read_profiles(world, folder);
    read_validation(world, folder);
    make_configs(world);
    for (uint32_t a = 0; a < SIA_APPS; a++) {
        if (world->apps[a].work > 0) make_candidates(world, &world->apps[a]);
    }
    read_workloads(world, folder);
}

void sia_world_close(struct sia_world *world)
{
    for (uint32_t a = 0; a < SIA_APPS; a++) {
        for (uint32_t type = 0; type < SIA_TYPES; type++) {
            mem_free(world->apps[a].placed[type]);
            mem_free(world->apps[a].counted[type]);
        }
    }
    for (uint32_t i = 0; i < world->submission_count; i++) {
        mem_free((void *)(uintptr_t)world->submissions[i].set);
        mem_free((void *)(uintptr_t)world->submissions[i].workload);
    }
    mem_free(world->submissions);
    *world = (struct sia_world){0};
}
