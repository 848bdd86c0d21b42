/* The getters of the tree, and the numbers they read. */
#include "codec/yaml.h"
#include "codec/yaml_tree.h"
#include "core/assert.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct yaml_named {
    char text[96];
};

struct yaml_shown yaml_show(const char *text)
{
    struct yaml_shown shown = {{0}};
    size_t length = strlen(text), room = sizeof shown.text - 1;
    if (length > room) { /* not in the middle of a UTF-8 character: messages travel as JSON */
        length = room;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        shown.text[i] = c < 0x20 || c == 0x7f ? '?' : text[i];
    }
    return shown;
}

/* Keeps the note that stands first in the file. */
static void note(yaml_tree *tree, struct yaml_note *kept, uint32_t line, const char *format,
                 va_list args)
{
    if (kept->line != 0 && kept->line <= line) return;
    kept->line = line;
    struct error where, what;
    (void)error_set(&where, "%s:%u: ", tree->file, line);
    (void)vsnprintf(what.text, sizeof what.text, format, args); /* cut is fine */
    (void)snprintf(kept->text, sizeof kept->text, "%.200s%.300s", where.text, what.text);
    for (char *at = kept->text; *at != '\0'; at++) /* a message is one line, whatever was quoted */
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
}

void yaml_mistake(yaml_item *item, const char *format, ...)
{
    if (item == NULL) return;
    va_list args;
    va_start(args, format);
    note(item->tree, &item->tree->mistake, item->line, format, args);
    va_end(args);
}

PRINTF_LIKE(2, 3) static void note_missing(yaml_item *map, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    note(map->tree, &map->tree->missing, map->line, format, args);
    va_end(args);
}

/* "devices", or: an element of "devices" */
static struct yaml_named name_item(const yaml_item *item)
{
    struct yaml_named named;
    (void)snprintf(named.text, sizeof named.text, "%s\"%s\"", item->element ? "an element of " : "",
                   yaml_show(item->label).text);
    return named;
}

static bool is_nothing(const yaml_item *item)
{
    return item->kind == YAML_SCALAR && item->plain &&
           (item->text[0] == '\0' || strcmp(item->text, "~") == 0 ||
            strcmp(item->text, "null") == 0);
}

/* The text of a scalar that says something, or NULL and a mistake. */
static const char *text_of(yaml_item *item, const char *expected)
{
    if (item->kind != YAML_SCALAR)
        yaml_mistake(item, "%s is a %s; give %s", name_item(item).text,
                     item->kind == YAML_MAP ? "map" : "list", expected);
    else if (is_nothing(item))
        yaml_mistake(item, "%s is empty; give %s or leave it out", name_item(item).text, expected);
    else
        return item->text;
    return NULL;
}

yaml_item *yaml_root(yaml_tree *tree)
{
    if (tree->root->kind == YAML_MAP) return tree->root;
    yaml_mistake(tree->root, "the file is not a map; write \"key: value\" lines");
    return NULL;
}

/* ---- unknown keys and the end ---- */

/* Of all maps that were looked into: the entry nobody knows that stands first in the file. */
static void find_unknown(yaml_item *item, yaml_item **ret_map, const struct yaml_entry **ret_entry)
{
    for (uint32_t i = 0; i < item->count; i++) {
        const struct yaml_entry *entry = &item->entries[i];
        bool unknown = item->kind == YAML_MAP && item->touched && !entry->known;
        if (unknown && (*ret_entry == NULL || entry->line < (*ret_entry)->line)) {
            *ret_map = item;
            *ret_entry = entry;
        }
        if (!unknown) find_unknown(entry->value, ret_map, ret_entry);
    }
}

static bool report_unknown(const yaml_item *map, const struct yaml_entry *entry,
                           struct error *ret_error)
{
    const char *known[64];
    char list[256] = "";
    uint32_t count = 0;
    for (const struct yaml_asked *asked = map->asked; asked != NULL && count < 64;
         asked = asked->next)
        known[count++] = asked->key;
    size_t used = 0;
    for (uint32_t i = count; i > 0 && used < sizeof list; i--) /* first asked first */
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used == 0 ? "" : ", ",
                                 known[i - 1]);
    const char *nearest = yaml_nearest(entry->key, known, count);
    bool top = map->label[0] == '\0';
    return error_set(
        ret_error, "%.200s:%u: unknown key \"%s\"%s%s; %s%.250s%s", map->tree->file, entry->line,
        yaml_show(entry->key).text, top ? "" : " in ", yaml_show(map->label).text,
        nearest != NULL ? "did you mean \"" : "known here: ", nearest != NULL ? nearest : list,
        nearest != NULL ? "\"?" : "");
}

bool yaml_finish(yaml_tree *tree, struct error *ret_error)
{
    if (tree->out_of_memory)
        return error_set(ret_error, "%s: out of memory while reading it", tree->file);
    yaml_item *map = NULL;
    const struct yaml_entry *unknown = NULL;
    find_unknown(tree->root, &map, &unknown);
    if (tree->mistake.line != 0 && (unknown == NULL || tree->mistake.line < unknown->line))
        return error_set(ret_error, "%s", tree->mistake.text);
    if (unknown != NULL) return report_unknown(map, unknown, ret_error);
    if (tree->missing.line != 0) return error_set(ret_error, "%s", tree->missing.text);
    return true;
}

/* ---- by key ---- */

static void remember_asked(yaml_item *map, const char *key)
{
    map->touched = true;
    for (const struct yaml_asked *asked = map->asked; asked != NULL; asked = asked->next)
        if (strcmp(asked->key, key) == 0) return;
    struct yaml_asked *asked = yaml_tree_alloc(map->tree, sizeof *asked);
    if (asked == NULL) return; /* yaml_finish() tells */
    *asked = (struct yaml_asked){.key = key, .next = map->asked};
    map->asked = asked;
}

yaml_item *yaml_any(yaml_item *map, const char *key)
{
    map = map == NULL ? NULL : yaml_item_map(map);
    if (map == NULL) return NULL;
    remember_asked(map, key);
    for (uint32_t i = 0; i < map->count; i++) {
        if (strcmp(map->entries[i].key, key) != 0) continue;
        map->entries[i].known = true;
        return map->entries[i].value;
    }
    return NULL;
}

bool yaml_has(yaml_item *map, const char *key)
{
    return yaml_any(map, key) != NULL;
}

bool yaml_require(yaml_item *map, const char *key)
{
    if (map == NULL || yaml_has(map, key)) return map != NULL;
    if (map->label == NULL || map->label[0] == '\0')
        note_missing(map, "\"%s\" is missing; add it", key);
    else
        note_missing(map, "\"%s\" is missing in %s; add it", key, yaml_show(map->label).text);
    return false;
}

const char *yaml_string(yaml_item *map, const char *key, const char *absent)
{
    yaml_item *item = yaml_any(map, key);
    const char *text = item == NULL ? NULL : text_of(item, "a text");
    return text == NULL ? absent : text;
}

void yaml_copy(yaml_item *map, const char *key, char *ret_text, size_t bytes, const char *absent)
{
    const char *text = yaml_string(map, key, absent);
    size_t length = strlen(text);
    if (length >= bytes) {
        yaml_mistake(yaml_any(map, key), "\"%s\" is longer than %zu bytes; shorten it", key,
                     bytes - 1);
        length = 0;
    }
    memcpy(ret_text, text, length);
    memset(ret_text + length, 0, bytes - length); /* no old bytes: callers may compare structs */
}

bool yaml_copy_name(yaml_item *item, const char *text, char *ret_name, size_t bytes)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-";
    size_t length = strlen(text);
    memset(ret_name, 0, bytes);
    if (length == 0 || strspn(text, allowed) != length)
        yaml_mistake(item, "\"%s\" is no name; use letters, digits and . _ / -",
                     yaml_show(text).text);
    else if (length >= bytes)
        yaml_mistake(item, "the name \"%s\" is longer than %zu bytes; shorten it",
                     yaml_show(text).text, bytes - 1);
    else
        memcpy(ret_name, text, length);
    return ret_name[0] != '\0';
}

void yaml_name(yaml_item *map, const char *key, char *ret_name, size_t bytes)
{
    yaml_item *item = yaml_any(map, key);
    const char *text = item == NULL ? NULL : text_of(item, "a name");
    memset(ret_name, 0, bytes);
    if (text != NULL) (void)yaml_copy_name(item, text, ret_name, bytes); /* noted */
}

/* ---- numbers ---- */

typedef bool parse_fn(const char *text, int64_t *ret_value);

struct number {
    parse_fn *parse;
    const char *form; /* what to write, when it could not be read at all */
    const char *noun; /* and when it is out of range */
    int64_t unit;     /* of one in what is shown: 1 for integers, 1000000 for micros */
    bool is_time;     /* shown in the largest unit of which it is a whole number */
    const char *word; /* what may stand in its place; NULL: nothing */
};

static const struct number integers = {
    yaml_parse_integer, "a whole number", "a whole number", 1, false, NULL};
static const struct number micros = {
    yaml_parse_micros, "a number with at most 6 decimals", "a number", 1000000, false, NULL};
static const struct number durations = {
    yaml_parse_duration_us, "a time like 200ms, 2s, 1.5m or 1h", "a time", 1000000, true, NULL};

static void show_time(int64_t us, char ret_text[40])
{
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"d", 86400000000}, {"h", 3600000000}, {"m", 60000000},
                 {"s", 1000000},     {"ms", 1000},      {"us", 1}};
    uint32_t i = us == 0 ? 3 : 0; /* 0s */
    while (us % units[i].us != 0) i++;
    (void)snprintf(ret_text, 40, "%" PRId64 "%s", us / units[i].us, units[i].name);
}

/* "0.7", "12", "-1.5" from units; enough for messages. */
static void show_number(int64_t value, const struct number *number, char ret_text[40])
{
    if (number->is_time) {
        show_time(value, ret_text);
        return;
    }
    int length = snprintf(ret_text, 40, "%" PRId64, value / number->unit);
    int64_t rest = value % number->unit;
    if (rest != 0) {
        length = snprintf(ret_text, 40, "%s%" PRId64 ".%06" PRId64, value < 0 ? "-" : "",
                          value < 0 ? -(value / number->unit) : value / number->unit,
                          rest < 0 ? -rest : rest);
        while (ret_text[length - 1] == '0') length--;
    }
    ret_text[length] = '\0';
}

/* ", or never" */
static const char *or_word(const struct number *number, char ret_text[40])
{
    ret_text[0] = '\0';
    if (number->word != NULL) (void)snprintf(ret_text, 40, ", or %s", number->word);
    return ret_text;
}

static void note_out_of_range(yaml_item *item, const struct number *number, int64_t min,
                              int64_t max)
{
    char low[40], high[40], word[40];
    show_number(min, number, low);
    show_number(max, number, high);
    if (max >= INT64_MAX / 2) /* nobody means such a bound */
        yaml_mistake(item, "%s is \"%s\"; give %s of %s or more%s", name_item(item).text,
                     yaml_show(item->text).text, number->noun, low, or_word(number, word));
    else
        yaml_mistake(item, "%s is \"%s\"; give %s from %s to %s%s", name_item(item).text,
                     yaml_show(item->text).text, number->noun, low, high, or_word(number, word));
}

static bool read_number(yaml_item *item, const struct number *number, int64_t min, int64_t max,
                        int64_t *ret_value)
{
    ASSERT(min <= max);
    const char *text = text_of(item, number->form);
    char word[40];
    int64_t value;
    if (text == NULL) return false;
    if (number->word != NULL && strcmp(text, number->word) == 0) {
        *ret_value = 0;
        return true;
    }
    if (!number->parse(text, &value)) {
        yaml_mistake(item, "%s is \"%s\"; give %s%s", name_item(item).text, yaml_show(text).text,
                     number->form, or_word(number, word));
        return false;
    }
    if (value < min || value > max) {
        note_out_of_range(item, number, min, max);
        return false;
    }
    *ret_value = value;
    return true;
}

static int64_t number_by_key(yaml_item *map, const char *key, const struct number *number,
                             int64_t min, int64_t max, int64_t absent)
{
    yaml_item *item = yaml_any(map, key);
    int64_t value = absent;
    if (item != NULL && !read_number(item, number, min, max, &value)) return absent;
    return value;
}

int64_t yaml_integer(yaml_item *map, const char *key, int64_t min, int64_t max, int64_t absent)
{
    return number_by_key(map, key, &integers, min, max, absent);
}

int64_t yaml_micros(yaml_item *map, const char *key, int64_t min, int64_t max, int64_t absent)
{
    return number_by_key(map, key, &micros, min, max, absent);
}

int64_t yaml_duration_us(yaml_item *map, const char *key, int64_t min, int64_t max, int64_t absent)
{
    return number_by_key(map, key, &durations, min, max, absent);
}

int64_t yaml_duration_or_us(yaml_item *map, const char *key, const char *word, int64_t min,
                            int64_t max, int64_t absent)
{
    struct number number = durations;
    number.word = word;
    return number_by_key(map, key, &number, min, max, absent);
}

int64_t yaml_item_integer(yaml_item *item, int64_t min, int64_t max)
{
    int64_t value = min;
    (void)read_number(item, &integers, min, max, &value); /* noted */
    return value;
}

bool yaml_flag(yaml_item *map, const char *key, bool absent)
{
    yaml_item *item = yaml_any(map, key);
    const char *text = item == NULL ? NULL : text_of(item, "true or false");
    if (text == NULL) return absent;
    if (strcmp(text, "true") == 0) return true;
    if (strcmp(text, "false") == 0) return false;
    yaml_mistake(item, "\"%s\" is \"%s\"; give true or false", key, yaml_show(text).text);
    return absent;
}

/* ---- kinds, positions ---- */

yaml_item *yaml_item_map(yaml_item *item)
{
    if (item->kind == YAML_MAP) return item;
    yaml_mistake(item, "%s is no map; write it as key: value lines or as {key: value}",
                 name_item(item).text);
    return NULL;
}

static yaml_item *item_list(yaml_item *item)
{
    if (item->kind == YAML_LIST) return item;
    yaml_mistake(item, "%s is no list; write it as [a, b] or as lines that begin with \"- \"",
                 name_item(item).text);
    return NULL;
}

const char *yaml_item_string(yaml_item *item)
{
    const char *text = text_of(item, "a text");
    return text == NULL ? "" : text;
}

yaml_item *yaml_map(yaml_item *map, const char *key)
{
    yaml_item *item = yaml_any(map, key);
    return item == NULL ? NULL : yaml_item_map(item);
}

yaml_item *yaml_list(yaml_item *map, const char *key)
{
    yaml_item *item = yaml_any(map, key);
    return item == NULL ? NULL : item_list(item);
}

uint32_t yaml_line(const yaml_item *item)
{
    return item->line;
}

uint32_t yaml_count(const yaml_item *item)
{
    return item == NULL ? 0 : item->count;
}

yaml_item *yaml_at(yaml_item *item, uint32_t index)
{
    ASSERT(index < item->count);
    item->entries[index].known = true;
    return item->entries[index].value;
}

const char *yaml_key_at(yaml_item *map, uint32_t index)
{
    ASSERT(map->kind == YAML_MAP);
    ASSERT(index < map->count);
    map->entries[index].known = true;
    return map->entries[index].key;
}

uint32_t yaml_key_line_at(yaml_item *map, uint32_t index)
{
    ASSERT(map->kind == YAML_MAP);
    ASSERT(index < map->count);
    return map->entries[index].line;
}
