/* The tables and streams of the Gavel data: see gavel_sim.h. */
#include "base/mem.h"
#include "core/match_weight.h"
#include "gavel_sim.h"
#include "published.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t type_of(struct gavel_world *world, const char *name)
{
    for (uint32_t i = 0; i < world->types; i++)
        if (strcmp(world->type_names[i], name) == 0) return i;
    if (world->types == TYPES_MAX) published_fail("gavel: more than %d device types", TYPES_MAX);
    snprintf(world->type_names[world->types], sizeof world->type_names[0], "%s", name);
    return world->types++;
}

static uint32_t find_profile(const struct gavel_world *world, const char *model, uint32_t batch,
                             uint32_t width)
{
    for (uint32_t i = 0; i < world->profiles; i++) {
        const struct profile *p = &world->profile[i];
        if (p->batch == batch && p->width == width && strcmp(p->model, model) == 0) return i;
    }
    return NOWHERE;
}

static uint32_t profile_of(struct gavel_world *world, const char *model, uint32_t batch,
                           uint32_t width)
{
    uint32_t found = find_profile(world, model, batch, width);
    if (found != NOWHERE) return found;
    if (world->profiles == PROFILES_MAX)
        published_fail("gavel: more than %d kinds of jobs", PROFILES_MAX);
    struct profile *p = &world->profile[world->profiles];
    snprintf(p->model, sizeof p->model, "%s", model);
    p->batch = batch;
    p->width = width;
    return world->profiles++;
}

static void read_alone(struct gavel_world *world, const char *folder)
{
    struct csv csv;
    csv_open(&csv, folder, "throughputs_isolated.csv", ',');
    uint32_t gpu = csv_column(&csv, "gpu");
    uint32_t consolidated = csv_column(&csv, "consolidated");
    uint32_t model = csv_column(&csv, "model");
    uint32_t batch = csv_column(&csv, "batch_size");
    uint32_t width = csv_column(&csv, "scale_factor");
    uint32_t rate = csv_column(&csv, "steps_per_s_simulation");
    for (uint32_t row = 0; row < csv.rows; row++) {
        if (csv_integer(&csv, row, consolidated) != 1) continue;
        uint32_t type = type_of(world, csv_text(&csv, row, gpu));
        uint32_t profile =
            profile_of(world, csv_text(&csv, row, model), (uint32_t)csv_integer(&csv, row, batch),
                       (uint32_t)csv_integer(&csv, row, width));
        world->profile[profile].rate[type] = csv_real(&csv, row, rate);
    }
    csv_close(&csv);
}

/* Millionths of a step a second: what the core gets to see of a rate. */
static int64_t micro(double rate)
{
    return (int64_t)llround(rate * 1e6);
}

static void normalise(struct gavel_world *world, struct profile *p)
{
    int64_t rates[TYPES_MAX];
    p->mean = 0;
    for (uint32_t type = 0; type < world->types; type++) {
        rates[type] = micro(p->rate[type]);
        p->mean += p->rate[type] / world->types;
    }
    int64_t norm = match_norm(rates, world->types);
    p->norm = (double)norm / 1e6;
    for (uint32_t type = 0; type < world->types; type++)
        p->value[type] = match_rate(rates[type], norm);
}

static void set_beside(struct gavel_world *world, uint32_t type, uint32_t a, uint32_t b,
                       double rate)
{
    size_t cell = ((size_t)type * world->profiles + a) * world->profiles + b;
    world->beside[cell] = rate;
    world->beside_value[cell] = match_rate(micro(rate), micro(world->profile[a].norm));
}

static void read_beside(struct gavel_world *world, const char *folder)
{
    struct csv csv;
    size_t count = (size_t)world->types * world->profiles * world->profiles;
    world->beside = published_alloc(count, sizeof *world->beside);
    world->beside_value = published_alloc(count, sizeof *world->beside_value);
    csv_open(&csv, folder, "throughputs_colocated.csv", ',');
    uint32_t gpu = csv_column(&csv, "gpu");
    uint32_t width = csv_column(&csv, "scale_factor");
    uint32_t model[2] = {csv_column(&csv, "model_a"), csv_column(&csv, "model_b")};
    uint32_t batch[2] = {csv_column(&csv, "batch_a"), csv_column(&csv, "batch_b")};
    uint32_t rate[2] = {csv_column(&csv, "steps_per_s_a"), csv_column(&csv, "steps_per_s_b")};
    for (uint32_t row = 0; row < csv.rows; row++) {
        uint32_t type = type_of(world, csv_text(&csv, row, gpu));
        uint32_t profile[2];
        for (int i = 0; i < 2; i++)
            profile[i] = find_profile(world, csv_text(&csv, row, model[i]),
                                      (uint32_t)csv_integer(&csv, row, batch[i]),
                                      (uint32_t)csv_integer(&csv, row, width));
        double rates[2] = {csv_real(&csv, row, rate[0]), csv_real(&csv, row, rate[1])};
        if (profile[0] == NOWHERE || profile[1] == NOWHERE) continue;
        if (rates[0] <= 0 || rates[1] <= 0) continue; /* does not fit */
        set_beside(world, type, profile[0], profile[1], rates[0]);
        set_beside(world, type, profile[1], profile[0], rates[1]);
    }
    csv_close(&csv);
}

void gavel_world_read(struct gavel_world *world, const char *folder)
{
    memset(world, 0, sizeof *world);
    read_alone(world, folder);
    for (uint32_t i = 0; i < world->profiles; i++) normalise(world, &world->profile[i]);
    read_beside(world, folder);
}

void gavel_world_close(struct gavel_world *world)
{
    mem_free(world->beside);
    mem_free(world->beside_value);
}

/* "single_seed0" -> "single", 0 */
static void name_stream(struct gavel_stream *stream, const char *name)
{
    const char *seed = strstr(name, "_seed");
    size_t length = seed == NULL ? strlen(name) : (size_t)(seed - name);
    snprintf(stream->name, sizeof stream->name, "%.*s", (int)length, name);
    stream->seed = seed == NULL ? 0 : strtoull(seed + strlen("_seed"), NULL, 10);
}

void gavel_stream_read(struct gavel_stream *stream, const struct gavel_world *world,
                       const char *folder, const char *name)
{
    struct csv csv;
    char file[160];
    snprintf(file, sizeof file, "continuous_%s.csv", name);
    csv_open(&csv, folder, file, ',');
    uint32_t model = csv_column(&csv, "model");
    uint32_t batch = csv_column(&csv, "batch_size");
    uint32_t width = csv_column(&csv, "scale_factor");
    uint32_t steps = csv_column(&csv, "total_steps");
    uint32_t gap = csv_column(&csv, "unit_interarrival");
    name_stream(stream, name);
    stream->count = csv.rows;
    stream->rows = published_alloc(csv.rows, sizeof *stream->rows);
    for (uint32_t row = 0; row < csv.rows; row++) {
        uint32_t profile =
            find_profile(world, csv_text(&csv, row, model), (uint32_t)csv_integer(&csv, row, batch),
                         (uint32_t)csv_integer(&csv, row, width));
        if (profile == NOWHERE || world->profile[profile].mean <= 0)
            published_fail("%s: row %u: no rates for this kind of job", file, row + 1);
        stream->rows[row] = (struct stream_row){.profile = profile,
                                                .steps = csv_real(&csv, row, steps),
                                                .gap = csv_real(&csv, row, gap)};
    }
    if (csv.rows == 0) published_fail("%s: no jobs", file);
    csv_close(&csv);
}

void gavel_stream_close(struct gavel_stream *stream)
{
    mem_free(stream->rows);
}
