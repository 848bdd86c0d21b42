#include "codec/json.h"
#include "base/mem.h"
#include "core/assert.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct json_block {
    struct json_block *next;
    _Alignas(16) char data[];
};

enum { PLACE_BYTES = 256 };

/* ---- reader ---- */

struct json_reader *json_reader_open(const char *what, bool strict, const char *text, size_t bytes,
                                     size_t bytes_max, struct error *ret_error)
{
    if (bytes > bytes_max) {
        (void)error_set(ret_error, "%s: %zu bytes is above the limit of %zu; send less at once",
                        what, bytes, bytes_max);
        return NULL;
    }
    struct json_reader *reader = mem_zalloc(1, sizeof *reader);
    if (reader == NULL) {
        (void)error_set(ret_error, "%s: out of memory", what);
        return NULL;
    }
    reader->what = what;
    reader->strict = strict;
    json_error_t error;
    uint64_t failures = mem_failures();
    reader->root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    bool out_of_memory = mem_failures() != failures;
    if (json_is_object(reader->root) && !out_of_memory) return reader;
    if (out_of_memory)
        (void)error_set(ret_error, "%s: out of memory", what);
    else if (reader->root != NULL)
        (void)error_set(ret_error, "%s: expected an object; see docs/protocol.md", what);
    else
        (void)error_set(ret_error, "%s: line %d column %d: %s; see docs/protocol.md", what,
                        error.line, error.column, error.text);
    json_reader_close(reader);
    return NULL;
}

void json_reader_close(struct json_reader *reader)
{
    if (reader == NULL) return;
    for (struct json_block *block = reader->blocks, *next; block != NULL; block = next) {
        next = block->next;
        mem_free(block);
    }
    json_decref(reader->root);
    mem_free(reader);
}

void *json_reader_alloc(struct json_reader *reader, size_t count, size_t bytes)
{
    ASSERT(bytes > 0);
    ASSERT(count <= SIZE_MAX / 2 / bytes);
    struct json_block *block = mem_zalloc(1, sizeof *block + count * bytes);
    if (block == NULL) {
        if (!reader->failed) (void)error_set(&reader->error, "%s: out of memory", reader->what);
        reader->failed = true;
        return NULL;
    }
    block->next = reader->blocks;
    reader->blocks = block;
    return block->data;
}

struct json_map json_top(struct json_reader *reader)
{
    return (struct json_map){.reader = reader, .index = -1, .object = reader->root};
}

/* "workers[3]." in front of what is there; cut on the left if it ever were too long. */
static void place_of(const struct json_map *map, char ret_place[PLACE_BYTES])
{
    ret_place[0] = '\0';
    for (; map != NULL && map->name != NULL; map = map->up) {
        char part[PLACE_BYTES];
        if (map->index >= 0)
            (void)snprintf(part, sizeof part, "%s[%" PRId64 "].%.128s", map->name, map->index,
                           ret_place);
        else
            (void)snprintf(part, sizeof part, "%s.%.128s", map->name, ret_place);
        memcpy(ret_place, part, sizeof part);
    }
}

void json_mistake(const struct json_map *map, const char *key, const char *sentence)
{
    if (map->reader->failed) return;
    char place[PLACE_BYTES];
    place_of(map, place);
    (void)error_set(&map->reader->error, "%s: %s%.64s: %s", map->reader->what, place, key,
                    sentence);
    map->reader->failed = true;
}

void json_known_keys(const struct json_map *map, const char *const *keys)
{
    const char *key;
    json_t *value;
    if (!map->reader->strict || map->object == NULL) return;
    json_object_foreach(map->object, key, value)
    {
        uint32_t i = 0;
        while (keys[i] != NULL && strcmp(keys[i], key) != 0) i++;
        if (keys[i] != NULL) continue;
        /* The member's name is the sender's: keep it short and clean. */
        char shown[32];
        size_t length = 0;
        for (; key[length] != '\0' && length < sizeof shown - 1; length++)
            shown[length] = key[length] > 0x20 && key[length] < 0x7f ? key[length] : '?';
        shown[length] = '\0';
        json_mistake(map, shown, "unknown member; see docs/protocol.md");
    }
}

static json_t *take(const struct json_map *map, const char *key, enum json_need need)
{
    json_t *value = json_object_get(map->object, key); /* NULL object: NULL */
    if (value == NULL && need == JSON_REQUIRED && map->object != NULL)
        json_mistake(map, key, "it is missing");
    return value;
}

int64_t json_take_i64(const struct json_map *map, const char *key, int64_t min, int64_t max,
                      enum json_need need)
{
    json_t *value = take(map, key, need);
    int64_t neutral = min > 0 ? min : 0;
    if (value == NULL) return neutral;
    if (!json_is_integer(value)) {
        json_mistake(map, key, "expected a whole number");
        return neutral;
    }
    int64_t number = json_integer_value(value);
    if (number >= min && number <= max) return number;
    char sentence[96];
    (void)snprintf(sentence, sizeof sentence, "expected %" PRId64 " to %" PRId64, min, max);
    json_mistake(map, key, sentence);
    return neutral;
}

uint64_t json_take_u64(const struct json_map *map, const char *key, uint64_t max,
                       enum json_need need)
{
    return (uint64_t)json_take_i64(map, key, 0, max > INT64_MAX ? INT64_MAX : (int64_t)max, need);
}

double json_take_real(const struct json_map *map, const char *key)
{
    json_t *value = take(map, key, JSON_OPTIONAL);
    if (value == NULL) return 0;
    if (json_is_null(value)) return NAN;
    if (json_is_number(value)) return json_number_value(value);
    json_mistake(map, key, "expected a number");
    return 0;
}

bool json_take_flag(const struct json_map *map, const char *key)
{
    json_t *value = take(map, key, JSON_OPTIONAL);
    if (value != NULL && !json_is_boolean(value)) json_mistake(map, key, "expected true or false");
    return json_is_true(value);
}

static const char *text_of(const struct json_map *map, const char *key, json_t *value, size_t max)
{
    if (!json_is_string(value))
        json_mistake(map, key, "expected a text");
    else if (json_string_length(value) > max)
        json_mistake(map, key, "the text is too long");
    else
        return json_string_value(value);
    return "";
}

const char *json_take_text(const struct json_map *map, const char *key, size_t max,
                           enum json_need need)
{
    json_t *value = take(map, key, need);
    return value == NULL ? "" : text_of(map, key, value, max);
}

struct json_map json_take_map(const struct json_map *map, const char *key, enum json_need need)
{
    json_t *value = take(map, key, need);
    if (value != NULL && !json_is_object(value)) {
        json_mistake(map, key, "expected an object");
        value = NULL;
    }
    return (struct json_map){
        .reader = map->reader, .up = map, .name = key, .index = -1, .object = value};
}

json_t *json_take_list(const struct json_map *map, const char *key, uint32_t max, size_t bytes,
                       void **ret_structs, uint32_t *ret_count)
{
    json_t *list = take(map, key, JSON_OPTIONAL);
    size_t count = json_array_size(list); /* 0 for NULL and for what is no list */
    *ret_structs = NULL;
    *ret_count = 0;
    if (list != NULL && !json_is_array(list)) {
        json_mistake(map, key, "expected a list");
    } else if (count > max) {
        char sentence[64];
        (void)snprintf(sentence, sizeof sentence, "more than %" PRIu32 " elements", max);
        json_mistake(map, key, sentence);
    } else if (count > 0) {
        *ret_structs = json_reader_alloc(map->reader, count, bytes);
        if (*ret_structs != NULL) *ret_count = (uint32_t)count;
    }
    return list;
}

struct json_map json_at(const struct json_map *map, const char *key, json_t *list, uint32_t index)
{
    struct json_map element = {.reader = map->reader, .up = map, .name = key, .index = index};
    json_t *value = json_array_get(list, index);
    if (json_is_object(value))
        element.object = value;
    else
        json_mistake(map, key, "expected a list of objects");
    return element;
}

const char *json_text_at(const struct json_map *map, const char *key, json_t *list, uint32_t index,
                         size_t max)
{
    return text_of(map, key, json_array_get(list, index), max);
}

/* ---- builder ---- */

void json_set(json_t *object, const char *key, json_t *value, bool *failed)
{
    if (json_object_set_new(object, key, value) != 0) *failed = true; /* drops value by itself */
}

void json_set_i64(json_t *object, const char *key, int64_t value, bool *failed)
{
    json_set(object, key, json_integer(value), failed);
}

void json_set_u64(json_t *object, const char *key, uint64_t value, bool *failed)
{
    ASSERT(value <= INT64_MAX); /* ids and counts: JSON readers take no more */
    json_set_i64(object, key, (int64_t)value, failed);
}

void json_set_real(json_t *object, const char *key, double value, bool *failed)
{
    json_set(object, key, isfinite(value) ? json_real(value) : json_null(), failed);
}

/* Bytes of one well-formed UTF-8 character (no surrogates, nothing overlong), or 0. */
static size_t character_bytes(const unsigned char *text)
{
    if (text[0] < 0x80) return 1;
    size_t bytes = text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (text[0] < 0xc2 || text[0] > 0xf4) return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80) return 0; /* the 0 at the end, too */
    if (text[0] == 0xe0 && text[1] < 0xa0) return 0;
    if (text[0] == 0xed && text[1] > 0x9f) return 0;
    if (text[0] == 0xf0 && text[1] < 0x90) return 0;
    if (text[0] == 0xf4 && text[1] > 0x8f) return 0;
    return bytes;
}

json_t *json_clean_string(const char *text)
{
    json_t *string = json_string(text);
    if (string != NULL) return string;
    char *copy = mem_strdup(text);
    if (copy == NULL) return NULL;
    for (size_t i = 0; copy[i] != '\0';) {
        size_t bytes = character_bytes((const unsigned char *)copy + i);
        if (bytes == 0) copy[i] = '?';
        i += bytes == 0 ? 1 : bytes;
    }
    string = json_string(copy);
    mem_free(copy);
    return string;
}

void json_set_text(json_t *object, const char *key, const char *value, bool *failed)
{
    json_set(object, key, json_clean_string(value == NULL ? "" : value), failed);
}

void json_append(json_t *list, json_t *value, bool *failed)
{
    if (json_array_append_new(list, value) != 0) *failed = true;
}

json_t *json_finish(json_t *root, bool failed)
{
    if (!failed) return root;
    json_decref(root);
    return NULL;
}

struct text_buffer {
    char *text;
    size_t used_bytes, bytes;
    bool failed;
};

static int add_text(const char *text, size_t bytes, void *self)
{
    struct text_buffer *buffer = self;
    if (buffer->failed) return -1;
    if (buffer->bytes - buffer->used_bytes <= bytes) {
        size_t wanted = 2 * (buffer->bytes + bytes) + 256;
        char *grown = mem_realloc(buffer->text, wanted);
        if (grown == NULL) {
            buffer->failed = true;
            return -1;
        }
        buffer->text = grown;
        buffer->bytes = wanted;
    }
    memcpy(buffer->text + buffer->used_bytes, text, bytes);
    buffer->used_bytes += bytes;
    buffer->text[buffer->used_bytes] = '\0';
    return 0;
}

/* 15: every decimal of that many digits comes out as it went in (6.6598, not 6.6597999999999997).
 */
enum { REAL_DIGITS = 15 };

char *json_finish_text(json_t *root, bool failed)
{
    struct text_buffer buffer = {.failed = failed};
    size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS);
    if (json_dump_callback(root, add_text, &buffer, flags) != 0) buffer.failed = true;
    json_decref(root);
    if (!buffer.failed) return buffer.text;
    mem_free(buffer.text);
    return NULL;
}
