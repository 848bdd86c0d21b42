#include "whatif/csv.h"
#include "codec/utc.h"
#include "codec/yaml.h"
#include <string.h>

enum { FIELD_BYTES = 64, DECIMALS = 6 };

void csv_begin(struct csv *csv, const char *text, size_t bytes)
{
    *csv = (struct csv){.at = text, .end = text + bytes};
}

static struct csv_field trimmed(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t')) from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\r' || to[-1] == '\t')) to--;
    if (to - from >= 2 && *from == '"' && to[-1] == '"') {
        from++;
        to--;
    }
    return (struct csv_field){.text = from, .bytes = (uint32_t)(to - from)};
}

/* Fields beyond the last that there is room for are left out. */
static void split(struct csv *csv, const char *from, const char *to)
{
    bool quoted = false;
    const char *start = from;
    csv->field_count = 0;
    for (const char *at = from; at <= to; at++) {
        if (at < to && *at == '"') quoted = !quoted;
        if (at < to && (*at != ',' || quoted)) continue;
        if (csv->field_count < CSV_FIELDS_MAX) csv->fields[csv->field_count++] = trimmed(start, at);
        start = at + 1;
    }
}

bool csv_next(struct csv *csv)
{
    while (csv->at < csv->end) {
        const char *line = csv->at;
        const char *stop = memchr(line, '\n', (size_t)(csv->end - line));
        if (stop == NULL) stop = csv->end;
        csv->at = stop < csv->end ? stop + 1 : stop;
        csv->line++;
        split(csv, line, stop);
        if (csv->field_count > 1 || csv->fields[0].bytes > 0) return true;
    }
    return false;
}

bool csv_is(const struct csv_field *field, const char *word)
{
    return strlen(word) == field->bytes && memcmp(field->text, word, field->bytes) == 0;
}

uint32_t csv_find(const struct csv *csv, const char *name)
{
    for (uint32_t i = 0; i < csv->field_count; i++)
        if (csv_is(&csv->fields[i], name)) return i;
    return UINT32_MAX;
}

static bool copy(const struct csv_field *field, char *ret_text)
{
    if (field->bytes == 0 || field->bytes >= FIELD_BYTES) return false;
    memcpy(ret_text, field->text, field->bytes);
    ret_text[field->bytes] = '\0';
    return strlen(ret_text) == field->bytes;
}

bool csv_integer(const struct csv_field *field, int64_t *ret_value)
{
    char text[FIELD_BYTES];
    return copy(field, text) && yaml_parse_integer(text, ret_value);
}

/* Digits finer than a millionth are cut: traces carry them, nothing here depends on them. */
bool csv_micros(const struct csv_field *field, int64_t *ret_micros)
{
    char text[FIELD_BYTES];
    if (!copy(field, text)) return false;
    char *point = strchr(text, '.');
    if (point != NULL && strlen(point + 1) > DECIMALS &&
        strspn(point + 1, "0123456789") == strlen(point + 1))
        point[1 + DECIMALS] = '\0';
    return yaml_parse_micros(text, ret_micros);
}

bool csv_time_us(const struct csv_field *field, int64_t *ret_us)
{
    char text[FIELD_BYTES];
    if (!copy(field, text)) return false;
    return utc_parse(text, ret_us) || csv_micros(field, ret_us);
}
