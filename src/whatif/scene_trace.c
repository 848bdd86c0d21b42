/* CSV files that a scenario names: which rows and columns, which of its words are models; what was left out
 * of them is told. */
#include "base/io.h"
#include "base/mem.h"
#include "codec/csv.h"
#include "whatif/scene_get.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_BYTES_MAX = 256 << 20 };

#define GAP_DEFAULT (2 * DAY_US)

/* "$SHOAL_DATA/prices/x.csv": the variable must be set. */
static bool expand(yaml_item *item, const char *folder, const char *path, char *ret_path,
                   size_t bytes)
{
    char name[64];
    const char *slash = strchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    int written;
    if (path[0] == '$' && length > 1 && length < sizeof name) {
        memcpy(name, path + 1, length - 1);
        name[length - 1] = '\0';
        const char *value = getenv(name);
        if (value == NULL || value[0] == '\0') {
            yaml_mistake(item, "the variable %s is not set; export it, or write the folder", name);
            return false;
        }
        written = snprintf(ret_path, bytes, "%s%s", value, slash);
    } else if (path[0] == '/') {
        written = snprintf(ret_path, bytes, "%s", path);
    } else {
        written = snprintf(ret_path, bytes, "%s/%s", folder, path);
    }
    if (written >= 0 && (size_t)written < bytes) return true;
    yaml_mistake(item, "the path of the file is too long");
    return false;
}

/* Text of a CSV file that the scenario names; NULL after a mistake was noted at the item. */
static char *load(struct scene_reader *r, yaml_item *item, const char *path, size_t *ret_bytes)
{
    char where[4096];
    char *text;
    struct error error;
    if (!expand(item, r->folder, path, where, sizeof where)) return NULL;
    if (io_read_file(where, TRACE_BYTES_MAX, &text, ret_bytes, &error)) return text;
    yaml_mistake(item, "%s", error.text);
    return NULL;
}

static void read_picks(yaml_item *map, struct series_query *q)
{
    uint32_t count = yaml_count(map);
    if (count > SERIES_PICKS_MAX)
        yaml_mistake(map, "at most %d columns are picked by", SERIES_PICKS_MAX);
    for (uint32_t i = 0; i < count && i < SERIES_PICKS_MAX; i++) {
        struct series_pick *pick = &q->picks[q->pick_count++];
        (void)snprintf(pick->column, sizeof pick->column, "%s", yaml_key_at(map, i));
        (void)snprintf(pick->word, sizeof pick->word, "%s", yaml_item_string(yaml_at(map, i)));
    }
}

/* A moment: a date, or seconds. */
static int64_t read_moment(yaml_item *map, const char *key)
{
    int64_t us = 0;
    const char *text = yaml_string(map, key, "0");
    struct csv_field field = {.text = text, .bytes = (uint32_t)strlen(text)};
    if (!csv_time_us(&field, &us) || us < 0)
        yaml_mistake(yaml_any(map, key),
                     "%s is a date like 2020-01-06, a date and a time, or seconds", key);
    return us;
}

char *scene_query(struct scene_reader *r, yaml_item *map, const char *path, struct series_query *q,
                  size_t *ret_bytes)
{
    *q = (struct series_query){.file = yaml_string(map, "csv", "")};
    read_picks(yaml_map(map, "pick"), q);
    yaml_copy(map, "time", q->time, sizeof q->time, "t_utc");
    q->from_us = read_moment(map, "from");
    q->until_us = read_moment(map, "until");
    q->step_us = get_us(r, map, path, "step", 1, DAY_US, 1);
    q->gap_max_us = get_us(r, map, path, "gap_max", 0, YEARS_US, GAP_DEFAULT);
    q->scale_ppm = get_micros(r, map, path, "scale", 1000, 1000 * PPM, PPM);
    return load(r, yaml_any(map, "csv"), q->file, ret_bytes);
}

static void add_word(struct series_words *words, const char *word, uint32_t model)
{
    if (words->count == SERIES_MODELS_MAX) return; /* as many as models, and as said */
    (void)snprintf(words->words[words->count], sizeof words->words[0], "%s", word);
    words->models[words->count++] = model;
}

/* `as: {V100M16: V100}` first, then the catalog's own names. */
void scene_words(struct scene_reader *r, yaml_item *map, struct series_words *words)
{
    const struct catalog *catalog = &r->scene->catalog;
    yaml_item *as = yaml_map(map, "as");
    *words = (struct series_words){0};
    if (yaml_count(as) > SERIES_MODELS_MAX - CATALOG_MODELS_MAX)
        yaml_mistake(as, "more than %d other names of models", SERIES_MODELS_MAX - CATALOG_MODELS_MAX);
    for (uint32_t i = 0; i < yaml_count(as); i++) {
        uint32_t model;
        const char *name = yaml_item_string(yaml_at(as, i));
        if (catalog_find_model(catalog, name, &model))
            add_word(words, yaml_key_at(as, i), model);
        else
            yaml_mistake(yaml_at(as, i), "no model \"%s\" is known; add it under models", name);
    }
    for (uint32_t i = 0; i < catalog->model_count; i++)
        if (catalog->models[i].ncu_milli > 0) add_word(words, catalog->models[i].name, i);
}

static void add_count(char *text, size_t bytes, uint32_t count, const char *what)
{
    size_t used = strlen(text);
    if (count > 0)
        (void)snprintf(text + used, bytes - used, "%s%u %s", used == 0 ? "" : ", ", count, what);
}

/* "jobs.philly: philly.csv: 11386 rows, 11301 jobs; left out: 85 that took no time" */
void scene_tell_tally(struct scene_reader *r, const char *path, const struct series_query *q,
                      const struct series_tally *t, const char *things)
{
    char out[SCENE_TOLD_BYTES / 2] = "", in[SCENE_TOLD_BYTES / 4] = "";
    struct scene *s = r->scene;
    add_count(out, sizeof out, t->outside, "outside of from and until");
    add_count(out, sizeof out, t->without_devices, "without devices");
    add_count(out, sizeof out, t->without_time, "that take no time");
    add_count(out, sizeof out, t->negative, "before the beginning");
    add_count(out, sizeof out, t->unknown_model, "of a model that is not known");
    add_count(out, sizeof out, t->wide, "with more devices than devices_max");
    add_count(out, sizeof out, t->lasting, "that run longer than duration_max");
    add_count(out, sizeof out, t->malformed, "malformed");
    add_count(in, sizeof in, t->unsorted, "out of order, sorted");
    add_count(in, sizeof in, t->shares, "asking for a share of a device, given a whole one");
    if (s->told_count == SCENE_TOLD_MAX) return;
    (void)snprintf(s->told[s->told_count++], SCENE_TOLD_BYTES,
                   "%s: %s: %u row%s, %u %.*s%s%s%s%s%s%s%s", path, q->file, t->rows,
                   t->rows == 1 ? "" : "s", t->kept,
                   (int)strlen(things) - (t->kept == 1), things, in[0] == '\0' ? "" : " (", in,
                   in[0] == '\0' ? "" : ")", out[0] == '\0' ? "" : "; left out: ", out,
                   t->first[0] == '\0' ? "" : "; the first: ", t->first);
}
