/* A small document tree over libyaml for configuration files: typed, with lines, and strict.
 *
 * Role       Every YAML file of Shoal is read through here, so that every mistake is reported the
 *            same way: FILE:LINE: what is wrong; what to do. JSON is read too (it is YAML).
 * Use        yaml_tree *tree = yaml_open("job.yaml", text, bytes, &error);
 *            yaml_item *root = yaml_root(tree);
 *            (void)yaml_require(root, "name");
 *            yaml_copy(root, "name", spec->name, sizeof spec->name, "");
 *            yaml_item *devices = yaml_map(yaml_map(root, "needs"), "devices");
 *            spec->devices_min = (uint32_t)yaml_integer(devices, "min", 1, 4096, 1);
 *            bool good = yaml_finish(tree, &error); // first mistake of the file, unknown keys too
 *            yaml_close(tree);
 * Errors     Sticky: a getter that meets a mistake notes it and returns the `absent` value; nothing
 *            is returned early because of an earlier mistake, so read the whole document and ask
 *            once, at yaml_finish(). It reports the mistake that stands first in the file; a
 *            missing key only if there is none (a misspelt key explains the missing one). Keys that
 *            nobody asked for are unknown, in every map of which at least one key was asked for.
 *            Do not break out of loops early: what was not visited would be reported as unknown.
 * NULL       A NULL item is an absent one: getters return `absent`, counts are 0.
 * Units      Decimals become micro-units without floating point: "0.7" is 700000 (ppm of a share,
 *            usd_micros of dollars). Durations "200ms", "2s", "1.5m", "1h" become microseconds.
 * Limits     YAML_BYTES_MAX, YAML_DEPTH_MAX, YAML_NODES_MAX; one document; no anchors, aliases,
 *            tags or duplicate keys.
 * Ownership  The tree owns items and strings until yaml_close(). `key` arguments must outlive the
 *            tree (string literals do): they are kept to suggest the nearest known key.
 * Memory     base/mem.h, in blocks of the tree; libyaml's own parser allocates by malloc.
 */
#ifndef SHOAL_CODEC_YAML_H
#define SHOAL_CODEC_YAML_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum { YAML_BYTES_MAX = 1 << 20, YAML_DEPTH_MAX = 24, YAML_NODES_MAX = 100000 };

typedef struct yaml_tree yaml_tree;
typedef struct yaml_item yaml_item;

/* NULL and a sentence if the text is not YAML or is above a limit. `file` is for messages. */
yaml_tree *yaml_open(const char *file, const char *text, size_t bytes,
                     struct error *ret_error) WARN_UNUSED;
/* true if nothing was wrong so far and every key is known. */
bool yaml_finish(yaml_tree *tree, struct error *ret_error) WARN_UNUSED;
void yaml_close(yaml_tree *tree); /* NULL is fine */

yaml_item *yaml_root(yaml_tree *tree); /* the top map; notes a mistake if it is something else */

/* By key. `absent` is returned when the key is not there (or its value is a mistake). */
bool yaml_has(yaml_item *map, const char *key);
bool yaml_require(yaml_item *map, const char *key); /* notes "missing" if it is not there */
const char *yaml_string(yaml_item *map, const char *key, const char *absent);
void yaml_copy(yaml_item *map, const char *key, char *ret_text, size_t bytes, const char *absent);
int64_t yaml_integer(yaml_item *map, const char *key, int64_t min, int64_t max, int64_t absent);
int64_t yaml_micros(yaml_item *map, const char *key, int64_t min, int64_t max, int64_t absent);
int64_t yaml_duration_us(yaml_item *map, const char *key, int64_t min, int64_t max, int64_t absent);
/* A time or the given word ("never"), which reads as 0. */
int64_t yaml_duration_or_us(yaml_item *map, const char *key, const char *word, int64_t min,
                            int64_t max, int64_t absent);
bool yaml_flag(yaml_item *map, const char *key, bool absent);
yaml_item *yaml_map(yaml_item *map, const char *key);  /* NULL if absent */
yaml_item *yaml_list(yaml_item *map, const char *key); /* NULL if absent */
yaml_item *yaml_any(yaml_item *map, const char *key);  /* whatever it is; NULL if absent */

/* By position, lists and maps. Asking for a map's keys by position makes all of them known. */
uint32_t yaml_count(const yaml_item *item);
yaml_item *yaml_at(yaml_item *item, uint32_t index);     /* element, or value of a key */
const char *yaml_key_at(yaml_item *map, uint32_t index); /* in the order of the file */
uint32_t yaml_key_line_at(yaml_item *map, uint32_t index);

/* One item. The typed ones note a mistake when the item is something else. */
enum yaml_kind { YAML_SCALAR = 1, YAML_LIST, YAML_MAP };
uint32_t yaml_line(const yaml_item *item);
const char *yaml_item_string(yaml_item *item); /* "" after a mistake */
int64_t yaml_item_integer(yaml_item *item, int64_t min, int64_t max);
yaml_item *yaml_item_map(yaml_item *item); /* itself, or NULL and a mistake */

/* Notes a mistake of the caller's own at the item's line: "FILE:LINE: <sentence>". Does nothing
 * with NULL: something that is not there was noted, or is fine. Control characters become '?'. */
void yaml_mistake(yaml_item *item, const char *format, ...) PRINTF_LIKE(2, 3);

/* A name that may stand in paths, labels and messages: 1 to bytes - 1 of [A-Za-z0-9._/-], no blank.
 * Copies it; otherwise notes a mistake at `item` and gives "". */
bool yaml_copy_name(yaml_item *item, const char *text, char *ret_name, size_t bytes);
/* By key, "" if absent. */
void yaml_name(yaml_item *map, const char *key, char *ret_name, size_t bytes);

/* The candidate nearest to `text` by edit distance; NULL if none is near enough to suggest (more
 * than a third of the longer word differs, and neither begins with the other). */
const char *yaml_nearest(const char *text, const char *const *candidates, uint32_t count);

/* The same parsers for texts from elsewhere (command line). false: not of that form. */
bool yaml_parse_micros(const char *text, int64_t *ret_micros);
bool yaml_parse_duration_us(const char *text, int64_t *ret_us);
bool yaml_parse_integer(const char *text, int64_t *ret_integer);

#endif
