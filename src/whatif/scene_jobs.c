/* Jobs of a scenario: what they ask for, how they compute, when they come. */
#include "base/mem.h"
#include "codec/names.h"
#include "whatif/scene_get.h"
#include <stdio.h>
#include <string.h>

#define WORK_MAX INT64_C(1000000000000000) /* a billion NCU-hours, in micro */

static uint32_t read_group(struct scene_reader *r, yaml_item *map, const char *absent)
{
    char name[SCENE_NAME_BYTES];
    struct scene *s = r->scene;
    yaml_name(map, "group", name, sizeof name);
    if (name[0] == '\0') (void)snprintf(name, sizeof name, "%s", absent);
    for (uint32_t i = 0; i < s->group_count; i++)
        if (strcmp(s->groups[i], name) == 0) return i;
    if (s->group_count == SCENE_GROUPS_MAX) {
        yaml_mistake(map, "more than %d groups of jobs; give several the same group",
                     SCENE_GROUPS_MAX);
        return 0;
    }
    memcpy(s->groups[s->group_count], name, sizeof name);
    return s->group_count++;
}

static uint32_t read_class(yaml_item *map)
{
    uint32_t job_class = JOB_CLASS_P2;
    const char *text = yaml_string(map, "class", "P2");
    if (!find_job_class(text, &job_class))
        yaml_mistake(yaml_any(map, "class"), "class is P0, P1, P2 or P3, not \"%s\"", text);
    return job_class;
}

static void read_devices(struct scene_reader *r, yaml_item *map, const char *path,
                         struct scene_job *j)
{
    char here[SCENE_PATH_BYTES];
    yaml_item *item = yaml_any(map, "devices");
    get_path(item, path, "devices", here);
    if (item != NULL && yaml_count(item) > 0) {
        yaml_item *devices = yaml_item_map(item);
        j->devices_min = (uint32_t)get_integer(r, devices, here, "min", 1, 100000, 1);
        j->devices_max = (uint32_t)get_integer(r, devices, here, "max", 1, 100000, j->devices_min);
    } else {
        j->devices_min = (uint32_t)get_integer(r, map, path, "devices", 1, 100000, 1);
        j->devices_max = j->devices_min;
    }
    if (j->devices_min > j->devices_max) yaml_mistake(item, "devices: min is above max");
    j->gang = (uint32_t)get_integer(r, map, path, "gang", 1, 100000, j->devices_max);
}

static void read_speeds(struct scene_reader *r, yaml_item *map, const char *path,
                        struct scene_job *j)
{
    char here[SCENE_PATH_BYTES];
    yaml_item *speeds = yaml_map(map, "speed");
    get_path(speeds, path, "speed", here);
    for (uint32_t i = 0; i < yaml_count(speeds); i++) {
        uint32_t model;
        const char *name = yaml_key_at(speeds, i);
        if (!catalog_find_model(&r->scene->catalog, name, &model)) {
            yaml_mistake(yaml_at(speeds, i), "no model \"%s\" is known; add it under models", name);
            continue;
        }
        j->speed_milli[model] =
            (uint32_t)(get_micros(r, speeds, here, r->scene->catalog.models[model].name, 1000,
                                  1000 * PPM, PPM) /
                       1000);
    }
}

static void read_kinds(yaml_item *list, struct scene_job *j)
{
    for (uint32_t i = 0; i < yaml_count(list); i++)
        j->capacity_mask |= 1U << get_kind(yaml_at(list, i), yaml_item_string(yaml_at(list, i)));
}

static void read_region(struct scene_reader *r, yaml_item *map, struct scene_job *j)
{
    const char *text = yaml_string(map, "region", "");
    if (text[0] == '\0') return;
    for (uint32_t i = 1; i < r->scene->regions.count; i++)
        if (strcmp(r->scene->regions.names[i], text) == 0) j->region = i;
    if (j->region == 0)
        yaml_mistake(yaml_any(map, "region"), "nothing is offered in a region \"%s\"", text);
}

/* How a step is computed, and what interrupts cost. */
static void read_steps(struct scene_reader *r, yaml_item *map, const char *path,
                       struct scene_job *j)
{
    bool fixed = j->devices_min == j->devices_max;
    const char *split = yaml_string(map, "split", fixed ? "even" : "by_speed");
    j->split = strcmp(split, "even") == 0 ? SPLIT_EVEN : SPLIT_BY_SPEED;
    if (j->split != SPLIT_EVEN && strcmp(split, "by_speed") != 0)
        yaml_mistake(yaml_any(map, "split"), "split is even or by_speed, not \"%s\"", split);
    const char *loss = yaml_string(map, "on_loss", fixed ? "restart" : "continue");
    j->restarts = strcmp(loss, "restart") == 0;
    if (!j->restarts && strcmp(loss, "continue") != 0)
        yaml_mistake(yaml_any(map, "on_loss"), "on_loss is restart or continue, not \"%s\"", loss);
    j->ignores_notice = !yaml_flag(map, "saves_on_notice", true);
    j->jitter_ppm = get_micros(r, map, path, "jitter", 0, PPM, 0);
    j->step_ncu_us = get_us(r, map, path, "step", 1000, DAY_US, 60 * PPM);
    j->exchanges = (uint32_t)get_integer(r, map, path, "exchanges", 0, 1000000, 0);
    j->orchestration_us = get_us(r, map, path, "orchestration", 0, 3600 * PPM, 0);
    j->restart_us = get_us(r, map, path, "restart", 0, DAY_US, 120 * PPM);
    j->join_us = get_us(r, map, path, "join", 0, DAY_US, 0);
    j->loss_us = get_us(r, map, path, "loss", 0, DAY_US, 0);
    j->checkpoint_every_us =
        get_us(r, map, path, "checkpoint_every", 1000000, YEARS_US, 1800 * PPM);
    j->checkpoint_us = get_us(r, map, path, "checkpoint", 0, 3600 * PPM, 0);
}

/* Columns; the absent names are those of Philly's list. */
static void read_columns(yaml_item *map, struct series_query *q)
{
    bool ends = yaml_has(map, "end");
    if (!yaml_has(map, "time")) (void)snprintf(q->time, sizeof q->time, "submit_s");
    yaml_copy(map, "devices", q->devices, sizeof q->devices, "num_gpus");
    yaml_copy(map, "duration", q->duration, sizeof q->duration, ends ? "" : "duration_s");
    yaml_copy(map, "begin", q->begin, sizeof q->begin, "");
    yaml_copy(map, "end", q->end, sizeof q->end, "");
    yaml_copy(map, "share", q->share, sizeof q->share, "");
    yaml_copy(map, "model", q->model, sizeof q->model, "");
    if (ends && yaml_has(map, "duration"))
        yaml_mistake(map, "a run has a duration, or an end (and a begin), not both");
    if (!ends && yaml_has(map, "begin")) yaml_mistake(map, "begin needs end as well");
}

static void read_trace(struct scene_reader *r, yaml_item *map, const char *path,
                       struct scene_job *j)
{
    struct series_query q;
    struct series_words words;
    struct series_tally tally;
    char here[SCENE_PATH_BYTES];
    size_t bytes;
    struct error error;
    get_path(map, path, "trace", here);
    char *text = scene_query(r, map, here, &q, &bytes);
    read_columns(map, &q);
    scene_words(r, map, &words);
    q.words = &words;
    q.devices_max = (uint32_t)get_integer(r, map, here, "devices_max", 1, 100000, 0);
    q.run_max_us = get_us(r, map, here, "duration_max", 1000000, YEARS_US, 0);
    if (text == NULL) return;
    arrivals_free(&j->arrivals);
    if (!arrivals_read(&q, text, bytes, &j->arrivals, &tally, &error))
        yaml_mistake(map, "%s", error.text);
    else
        scene_tell_tally(r, path, &q, &tally, "jobs");
    if (j->arrivals.count == 0 && r->scene->told_count > 0)
        yaml_mistake(map, "no job is left of %s", r->scene->told[r->scene->told_count - 1]);
    mem_free(text);
}

static void read_coming(struct scene_reader *r, yaml_item *map, const char *path,
                        struct scene_job *j)
{
    yaml_item *trace = yaml_map(map, "trace");
    j->at_us = get_us(r, map, path, "at", 0, YEARS_US, 0);
    j->every_us = get_us(r, map, path, "every", 1000, YEARS_US, 0);
    j->count = (uint32_t)get_integer(r, map, path, "count", 1, SCENE_JOBS_COUNT_MAX, 1);
    j->at_once = (uint32_t)get_integer(r, map, path, "at_once", 1, SCENE_JOBS_COUNT_MAX, 1);
    j->random_gaps = yaml_flag(map, "random", false);
    if (j->count > 1 && j->every_us == 0 && yaml_has(map, "every") == false && j->random_gaps)
        yaml_mistake(map, "random times need `every`, the mean time between two jobs");
    if (trace == NULL) {
        (void)yaml_require(map, "work");
        return;
    }
    read_trace(r, trace, path, j);
    j->count = j->arrivals.count;
}

static void read_after(struct scene_reader *r, yaml_item *map, struct scene_job *j, uint32_t index)
{
    const char *text = yaml_string(map, "after", "");
    if (text[0] == '\0') return;
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(r->scene->jobs[i].name, text) == 0) j->after = i + 1;
    if (j->after == 0)
        yaml_mistake(yaml_any(map, "after"), "no job above is called \"%s\"", text);
    else if (r->scene->jobs[j->after - 1].count != j->count)
        yaml_mistake(map, "it comes after \"%s\", so it has as many jobs: %u", text,
                     r->scene->jobs[j->after - 1].count);
}

static void read_job(struct scene_reader *r, yaml_item *map, uint32_t index)
{
    struct scene_job *j = &r->scene->jobs[index];
    char path[SCENE_PATH_BYTES];
    (void)yaml_require(map, "name");
    yaml_name(map, "name", j->name, sizeof j->name);
    get_path(map, "jobs", j->name, path);
    j->group = read_group(r, map, j->name);
    j->job_class = read_class(map);
    j->kind = yaml_flag(map, "one_node", false) ? JOB_KIND_BATCH : JOB_KIND_ELASTIC;
    read_devices(r, map, path, j);
    yaml_item *models = yaml_list(map, "models");
    if (models != NULL) j->model_mask = catalog_read_models(&r->scene->catalog, models);
    read_kinds(yaml_list(map, "kinds"), j);
    read_region(r, map, j);
    read_speeds(r, map, path, j);
    j->work_milli_h = get_micros(r, map, path, "work", 1000, WORK_MAX, PPM) / 1000;
    j->spread_ppm = get_micros(r, map, path, "spread", 0, 4 * PPM, 0);
    read_steps(r, map, path, j);
    j->deadline_us = get_us(r, map, path, "deadline", 0, YEARS_US, 0);
    j->budget_usd_micros = get_micros(r, map, path, "budget", 0, 1000000 * PPM, 0);
    read_coming(r, map, path, j);
    read_after(r, map, j, index);
}

void scene_read_jobs(struct scene_reader *r, yaml_item *list)
{
    struct scene *s = r->scene;
    uint64_t count = 0;
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *map = yaml_item_map(yaml_at(list, i));
        if (s->job_count == SCENE_JOBS_MAX) {
            yaml_mistake(map, "more than %d entries of jobs", SCENE_JOBS_MAX);
            return;
        }
        s->job_count++;
        read_job(r, map, s->job_count - 1);
        for (uint32_t k = 0; k + 1 < s->job_count; k++)
            if (strcmp(s->jobs[k].name, s->jobs[s->job_count - 1].name) == 0)
                yaml_mistake(map, "another job is called \"%s\" already", s->jobs[k].name);
        count += s->jobs[s->job_count - 1].count;
        if (count > SCENE_JOBS_COUNT_MAX) {
            yaml_mistake(map, "more than %d jobs in all", SCENE_JOBS_COUNT_MAX);
            return;
        }
    }
}
