#include "demo/record.h"
#include "cli/client.h"
#include <stdlib.h>
#include <string.h>

static int by_speed(const void *left, const void *right)
{
    const struct record_model *a = left, *b = right;
    if (a->ncu_milli != b->ncu_milli) return a->ncu_milli > b->ncu_milli ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void add_model(struct record *record, const json_t *offer)
{
    const char *name = row_text(offer, "model");
    if (record->model_count == RECORD_MODELS_MAX) return;
    if (record_model_of(record, name) < record->model_count) return;
    record->models[record->model_count++] =
        (struct record_model){name, row_int(offer, "ncu_milli")};
}

static void add_zone(struct record *record, const char *zone)
{
    for (uint32_t i = 0; i < record->zone_count; i++)
        if (strcmp(record->zones[i], zone) == 0) return;
    if (record->zone_count < RECORD_ZONES_MAX) record->zones[record->zone_count++] = zone;
}

void record_index(struct record *record)
{
    size_t i;
    json_t *offer;
    record->model_count = record->zone_count = 0;
    json_array_foreach(record->offers, i, offer)
    {
        add_model(record, offer);
        add_zone(record, row_text(offer, "zone"));
    }
    qsort(record->models, record->model_count, sizeof record->models[0], by_speed);
    qsort(record->zones, record->zone_count, sizeof record->zones[0], by_name);
}

uint32_t record_model_of(const struct record *record, const char *name)
{
    for (uint32_t i = 0; i < record->model_count; i++)
        if (strcmp(record->models[i].name, name) == 0) return i;
    return record->model_count;
}

double record_seconds(const struct record *record, int64_t wall_us)
{
    return (double)(wall_us - record->submitted_us) / 1e6;
}

const json_t *record_offer(const struct record *record, json_int_t offer)
{
    size_t i;
    json_t *row;
    json_array_foreach(record->offers, i, row) if (row_int(row, "offer") == offer) return row;
    return NULL;
}

bool record_is_same(const struct record *record)
{
    const char *hash = record->swarm.weights_sha256;
    return hash[0] != '\0' && strcmp(hash, record->swarm.checkpoint_sha256) == 0 &&
           strcmp(hash, record->control.weights_sha256) == 0 &&
           strcmp(hash, record->control.checkpoint_sha256) == 0 &&
           record->swarm.moments_sha256[0] != '\0' &&
           strcmp(record->swarm.moments_sha256, record->control.moments_sha256) == 0;
}

void record_free(struct record *record)
{
    json_decref(record->steps);
    json_decref(record->decisions);
    json_decref(record->offers);
    json_decref(record->entries);
    *record = (struct record){0};
}
