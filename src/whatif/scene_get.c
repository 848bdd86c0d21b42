#include "whatif/scene_get.h"
#include "codec/names.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void get_path(yaml_item *item, const char *path, const char *key, char ret_path[SCENE_PATH_BYTES])
{
    int bytes =
        snprintf(ret_path, SCENE_PATH_BYTES, "%s%s%s", path, path[0] == '\0' ? "" : ".", key);
    if (bytes >= SCENE_PATH_BYTES)
        yaml_mistake(item, "its path is longer than %d bytes", SCENE_PATH_BYTES);
}

static bool parse(enum scene_line_kind kind, const char *text, int64_t *ret_value)
{
    switch (kind) {
    case LINE_INTEGER: return yaml_parse_integer(text, ret_value);
    case LINE_MICROS: return yaml_parse_micros(text, ret_value);
    case LINE_DURATION: return yaml_parse_duration_us(text, ret_value);
    }
    return false;
}

static const char *form_of(enum scene_line_kind kind)
{
    return kind == LINE_INTEGER  ? "a whole number"
           : kind == LINE_MICROS ? "a number"
                                 : "a time like 30s or 2h";
}

/* The value of the override of this path, if there is one; a bad one is noted and left out. */
static bool overridden(struct scene_reader *r, struct scene_line *line)
{
    bool found = false;
    for (uint32_t i = 0; i < r->set_count; i++) {
        if (strcmp(r->sets[i].path, line->path) != 0) continue;
        int64_t value;
        r->used[i] = true;
        if (parse((enum scene_line_kind)line->kind, r->sets[i].value, &value) &&
            value >= line->min && value <= line->max) {
            line->value = value;
            found = true;
        } else if (r->set_error.text[0] == '\0') {
            (void)error_set(&r->set_error, "--set %s=%s: the value is not %s in its range",
                            line->path, r->sets[i].value,
                            form_of((enum scene_line_kind)line->kind));
        }
    }
    return found;
}

static int64_t keep(struct scene_reader *r, yaml_item *map, const char *path, const char *key,
                    struct scene_line line)
{
    get_path(map, path, key, line.path);
    yaml_item *item = yaml_any(map, key);
    if (!overridden(r, &line) && item == NULL) return line.value;
    line.line = item == NULL ? 0 : yaml_line(item);
    if (r->scene->line_count < SCENE_LINES_MAX) r->scene->lines[r->scene->line_count++] = line;
    return line.value;
}

int64_t get_integer(struct scene_reader *r, yaml_item *map, const char *path, const char *key,
                    int64_t min, int64_t max, int64_t absent)
{
    int64_t value = yaml_integer(map, key, min, max, absent);
    return keep(r, map, path, key,
                (struct scene_line){.kind = LINE_INTEGER, .value = value, .min = min, .max = max});
}

int64_t get_micros(struct scene_reader *r, yaml_item *map, const char *path, const char *key,
                   int64_t min, int64_t max, int64_t absent)
{
    int64_t value = yaml_micros(map, key, min, max, absent);
    return keep(r, map, path, key,
                (struct scene_line){.kind = LINE_MICROS, .value = value, .min = min, .max = max});
}

int64_t get_us(struct scene_reader *r, yaml_item *map, const char *path, const char *key,
               int64_t min, int64_t max, int64_t absent)
{
    int64_t value = yaml_duration_us(map, key, min, max, absent);
    return keep(r, map, path, key,
                (struct scene_line){.kind = LINE_DURATION, .value = value, .min = min, .max = max});
}

uint32_t get_kind(yaml_item *item, const char *text)
{
    uint32_t kind = CAPACITY_SPOT;
    if (!find_capacity(text, &kind))
        yaml_mistake(item, "a kind is owned, reserved, on_demand or spot, not \"%s\"", text);
    return kind;
}
