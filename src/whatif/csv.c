#include "whatif/csv.h"
#include "codec/yaml.h"
#include <string.h>

enum { FIELD_BYTES = 64, DECIMALS = 6 };

#define DAY_US INT64_C(86400000000)

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

static bool digits(const char *text, uint32_t count, int64_t *ret_value)
{
    *ret_value = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        *ret_value = *ret_value * 10 + (text[i] - '0');
    }
    return true;
}

/* Days since 1970 of a date of the Gregorian calendar: years begin in March, so that the leap day is
 * the last. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = year / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool date_us(const char *text, int64_t *ret_us)
{
    int64_t year, month, day, hour = 0, minute = 0, second = 0;
    size_t bytes = strlen(text);
    if (bytes < 10 || text[4] != '-' || text[7] != '-') return false;
    if (!digits(text, 4, &year) || !digits(text + 5, 2, &month) || !digits(text + 8, 2, &day))
        return false;
    bool timed = bytes == 19 || (bytes == 20 && text[19] == 'Z');
    if (bytes != 10 && !timed) return false;
    if (timed && ((text[10] != 'T' && text[10] != ' ') || text[13] != ':' || text[16] != ':' ||
                  !digits(text + 11, 2, &hour) || !digits(text + 14, 2, &minute) ||
                  !digits(text + 17, 2, &second)))
        return false;
    if (year < 1970 || year > 2099 || month < 1 || month > 12 || day < 1 || day > 31) return false;
    if (hour > 23 || minute > 59 || second > 60) return false;
    *ret_us = days_of(year, month, day) * DAY_US + (hour * 3600 + minute * 60 + second) * 1000000;
    return true;
}

bool csv_time_us(const struct csv_field *field, int64_t *ret_us)
{
    char text[FIELD_BYTES];
    if (!copy(field, text)) return false;
    return date_us(text, ret_us) || csv_micros(field, ret_us);
}
