/* Reading JSON into structs with one-line errors, and building it without checking every call.
 *
 * Role       Shared by the codecs of this folder over jansson.
 * Reading    struct json_map is a place in the document: an object and how it was reached. Getters
 *            are sticky: the first mistake is kept ("report: workers[3].step: expected a whole
 *            number"), later ones are dropped, and a neutral value is returned. Ask failed once.
 * Ownership  json_reader_open() owns the document and every array from json_take_array() until
 *            json_reader_close(); strings point into the document.
 * Building   json_set() takes the value's reference; a NULL value or object (out of memory) sets
 *            *failed, and the end hands out NULL instead of a document with holes.
 */
#ifndef SHOAL_CODEC_JSON_H
#define SHOAL_CODEC_JSON_H

#include "base/error.h"
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct json_block;

struct json_reader {
    const char *what; /* "report" */
    bool strict;      /* unknown members are mistakes */
    bool failed;
    struct error error; /* of the first mistake */
    json_t *root;
    struct json_block *blocks;
};

struct json_map {
    struct json_reader *reader;
    const struct json_map *up; /* NULL at the top */
    const char *name;          /* member of `up` */
    int64_t index;             /* within that member if it is a list, else -1 */
    json_t *object;            /* NULL: absent; getters give neutral values */
};

enum json_need { JSON_OPTIONAL, JSON_REQUIRED };

/* NULL: not JSON, or no memory: the sentence is set. The reader comes from mem_alloc(). */
struct json_reader *json_reader_open(const char *what, bool strict, const char *text, size_t bytes,
                                     size_t bytes_max, struct error *ret_error) WARN_UNUSED;
void json_reader_close(struct json_reader *reader); /* NULL is fine */
struct json_map json_top(struct json_reader *reader);

/* A mistake of the caller's own at a member: "report: workers[3].addr: <sentence>". */
void json_mistake(const struct json_map *map, const char *key, const char *sentence);

/* With a strict reader: every member of the object must be one of the keys (NULL ends them). */
void json_known_keys(const struct json_map *map, const char *const *keys);

uint64_t json_take_u64(const struct json_map *map, const char *key, uint64_t max,
                       enum json_need need);
int64_t json_take_i64(const struct json_map *map, const char *key, int64_t min, int64_t max,
                      enum json_need need);
double json_take_real(const struct json_map *map, const char *key); /* 0 if absent; null: NaN */
bool json_take_flag(const struct json_map *map, const char *key);   /* false if absent */
/* "" if absent; at most max bytes. */
const char *json_take_text(const struct json_map *map, const char *key, size_t max,
                           enum json_need need);
struct json_map json_take_map(const struct json_map *map, const char *key, enum json_need need);

/* A list of at most max elements: their count, and zeroed memory for that many structs of `bytes`
 * (NULL if 0). Then json_at() gives each element. */
json_t *json_take_list(const struct json_map *map, const char *key, uint32_t max, size_t bytes,
                       void **ret_structs, uint32_t *ret_count);
struct json_map json_at(const struct json_map *map, const char *key, json_t *list, uint32_t index);
/* Element of a list of texts. */
const char *json_text_at(const struct json_map *map, const char *key, json_t *list, uint32_t index,
                         size_t max);
/* Zeroed memory that lives as long as the reader; NULL sets the error. */
void *json_reader_alloc(struct json_reader *reader, size_t count, size_t bytes);

void json_set(json_t *object, const char *key, json_t *value, bool *failed);
void json_set_u64(json_t *object, const char *key, uint64_t value, bool *failed);
void json_set_i64(json_t *object, const char *key, int64_t value, bool *failed);
void json_set_real(json_t *object, const char *key, double value, bool *failed); /* NaN: null */
void json_set_text(json_t *object, const char *key, const char *value, bool *failed); /* NULL: "" */
void json_append(json_t *list, json_t *value, bool *failed);
/* A JSON string of any bytes: what is not UTF-8 (log lines are a user's) becomes '?'. */
json_t *json_clean_string(const char *text);
/* Drops the reference; compact text from mem_alloc(), or NULL if it failed. Preferred over
 * json_dumps(), which loses failures while it writes keys, and prints 6.6598 with 17 digits. */
char *json_finish_text(json_t *root, bool failed);
/* Drops the reference and gives NULL if it failed. */
json_t *json_finish(json_t *root, bool failed);

#endif
