/* Numbers of a scenario file by key: as yaml.h reads them, changed by `--set`, and kept as lines of the
 * scene. Inside src/whatif only. */
#ifndef SHOAL_WHATIF_SCENE_GET_H
#define SHOAL_WHATIF_SCENE_GET_H

#include "codec/yaml.h"
#include "whatif/scene.h"

enum { SCENE_SETS_MAX = 256 };

#define PPM      INT64_C(1000000) /* also microseconds of a second, micro-dollars of a dollar */
#define DAY_US   INT64_C(86400000000)
#define YEARS_US (4000 * DAY_US) /* longest duration of a file */

struct scene_reader {
    struct scene *scene;
    const char *file, *folder;
    const struct scene_set *sets;
    uint32_t set_count;
    bool used[SCENE_SETS_MAX]; /* overrides that some key took */
    struct error set_error;    /* the first that is no such number; "" : none */
    yaml_tree *tree;
};

/* `path` of the map ("" at the top), then as in yaml.h. */
int64_t get_integer(struct scene_reader *r, yaml_item *map, const char *path, const char *key,
                    int64_t min, int64_t max, int64_t absent);
int64_t get_micros(struct scene_reader *r, yaml_item *map, const char *path, const char *key,
                   int64_t min, int64_t max, int64_t absent);
int64_t get_us(struct scene_reader *r, yaml_item *map, const char *path, const char *key,
               int64_t min, int64_t max, int64_t absent);
/* "spot", as enum capacity_kind; another word is a mistake at the item, and spot. */
uint32_t get_kind(yaml_item *item, const char *text);
/* "path.key"; cut when it does not fit, which is noted as a mistake at the item. */
void get_path(yaml_item *item, const char *path, const char *key, char ret_path[SCENE_PATH_BYTES]);

/* scene_market.c, scene_jobs.c, scene_cases.c: their part of the file. */
void scene_read_offers(struct scene_reader *r, yaml_item *list);
void scene_read_jobs(struct scene_reader *r, yaml_item *list);
void scene_read_cases(struct scene_reader *r, yaml_item *list);
void scene_read_claims(struct scene_reader *r, yaml_item *list);
/* scene_demand.c: a demand that can never be met is a sentence: which job, and why. */
bool scene_check_demand(const struct scene *scene, struct error *ret_error) WARN_UNUSED;
/* scene_trace.c */
/* `{csv: FILE, pick: {...}, ...}` into a query; NULL or the text of the file. */
char *scene_query(struct scene_reader *r, yaml_item *map, const char *path,
                  struct series_query *query, size_t *ret_bytes);
/* Words of a file that are models. */
void scene_words(struct scene_reader *r, yaml_item *map, struct series_words *ret_words);
/* Kept as a line for the reader; things: "jobs". */
void scene_tell_tally(struct scene_reader *r, const char *path, const struct series_query *query,
                      const struct series_tally *tally, const char *things);

#endif
