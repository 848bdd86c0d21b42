#include "codec/csv.h"
#include "codec/utc.h"
#include "codec/utf8_mark.h"
#include "codec/yaml.h"
#include <string.h>

enum { NUMBER_BYTES = 64, DECIMALS = 6 };

void csv_begin(struct csv *csv, const char *text, size_t bytes)
{
    utf8_skip_mark(&text, &bytes);
    *csv = (struct csv){.at = text, .end = text + bytes, .next_line = 1};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* To the quote that ends it; without one, to the end of the text. */
static struct csv_field take_quoted(struct csv *csv)
{
    const char *from = ++csv->at;
    for (; csv->at < csv->end; csv->at++) {
        if (*csv->at == '\n') csv->next_line++;
        if (*csv->at != '"') continue;
        if (csv->at + 1 == csv->end || csv->at[1] != '"') break;
        csv->at++;
    }
    struct csv_field field = {.text = from, .bytes = (uint32_t)(csv->at - from), .quoted = true};
    if (csv->at < csv->end) csv->at++;
    return field;
}

static struct csv_field take(struct csv *csv)
{
    struct csv_field field = {0};
    while (csv->at < csv->end && is_blank(*csv->at)) csv->at++;
    const char *from = csv->at;
    bool quoted = from < csv->end && *from == '"';
    if (quoted) field = take_quoted(csv);
    const char *rest = csv->at;
    while (csv->at < csv->end && *csv->at != ',' && *csv->at != '\n') csv->at++;
    const char *to = csv->at;
    while (to > rest && is_blank(to[-1])) to--;
    if (quoted && to == rest) return field;
    return (struct csv_field){.text = from, .bytes = (uint32_t)(to - from)}; /* as it stands */
}

static void take_row(struct csv *csv)
{
    bool more = true;
    csv->line = csv->next_line;
    csv->field_count = 0;
    while (more) {
        struct csv_field field = take(csv);
        if (csv->field_count < CSV_FIELDS_MAX) csv->fields[csv->field_count] = field;
        csv->field_count++;
        more = csv->at < csv->end && *csv->at == ',';
        if (csv->at < csv->end) csv->at++;
    }
    csv->next_line++;
}

bool csv_next(struct csv *csv)
{
    while (csv->at < csv->end) {
        take_row(csv);
        if (csv->field_count > 1 || csv->fields[0].bytes > 0) return true;
    }
    return false;
}

/* The next byte of a cell; false: it is at its end. */
static bool next_byte(const struct csv_field *field, uint32_t *at, char *ret_byte)
{
    if (*at >= field->bytes) return false;
    *ret_byte = field->text[(*at)++];
    if (field->quoted && *ret_byte == '"' && *at < field->bytes) (*at)++;
    return true;
}

bool csv_is(const struct csv_field *field, const char *word)
{
    uint32_t at = 0;
    char byte;
    for (; next_byte(field, &at, &byte); word++)
        if (*word == '\0' || byte != *word) return false;
    return *word == '\0';
}

bool csv_copy(const struct csv_field *field, char *ret_text, size_t bytes)
{
    uint32_t at = 0;
    size_t used = 0;
    char byte;
    bool fits = true;
    while (fits && next_byte(field, &at, &byte)) {
        fits = used + 1 < bytes;
        if (fits) ret_text[used++] = byte == '\0' ? '?' : byte;
    }
    ret_text[used] = '\0';
    return fits;
}

uint32_t csv_find(const struct csv *csv, const char *name)
{
    uint32_t count = csv->field_count < CSV_FIELDS_MAX ? csv->field_count : CSV_FIELDS_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (csv_is(&csv->fields[i], name)) return i;
    return UINT32_MAX;
}

bool csv_integer(const struct csv_field *field, int64_t *ret_value)
{
    char text[NUMBER_BYTES];
    return csv_copy(field, text, sizeof text) && yaml_parse_integer(text, ret_value);
}

/* Digits finer than a millionth are cut: traces carry them, nothing here depends on them. */
bool csv_micros(const struct csv_field *field, int64_t *ret_micros)
{
    char text[NUMBER_BYTES];
    if (!csv_copy(field, text, sizeof text)) return false;
    char *point = strchr(text, '.');
    if (point != NULL && strlen(point + 1) > DECIMALS &&
        strspn(point + 1, "0123456789") == strlen(point + 1))
        point[1 + DECIMALS] = '\0';
    return yaml_parse_micros(text, ret_micros);
}

bool csv_time_us(const struct csv_field *field, int64_t *ret_us)
{
    char text[NUMBER_BYTES];
    if (!csv_copy(field, text, sizeof text)) return false;
    return utc_parse(text, ret_us) || csv_micros(field, ret_us);
}
