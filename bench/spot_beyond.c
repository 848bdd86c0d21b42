#include "spot_beyond.h"
#include "base/mem.h"
#include "published.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { DAY_S = 86400, OWNED_FROM_S = 20 * 3600, OWNED_TO_S = 8 * 3600, WARM_PART = 4 };

static const int64_t prices_from_s = 1577836800; /* 2020-01-01 */

const char *const spot_variation_names[SPOT_VARIATIONS] = {
    [SPOT_PLAIN] = "none",       [SPOT_WARM] = "warm",     [SPOT_OWNED] = "owned",
    [SPOT_SEVERAL] = "several",  [SPOT_PRICES] = "prices", [SPOT_PRICES_UNSEEN] = "prices_unseen",
    [SPOT_TOGETHER] = "together"};

uint32_t spot_changeover(uint32_t whole, enum spot_variation variation)
{
    if (variation != SPOT_WARM && variation != SPOT_TOGETHER) return whole;
    return whole < WARM_PART ? 1 : whole / WARM_PART;
}

/* ---- prices ---- */

struct record {
    struct csv csv;
    uint32_t zone, type, time, usd; /* columns */
    double least;                   /* of the type */
};

static void record_open(struct record *record, const char *type)
{
    struct csv *csv = &record->csv;
    csv_open(csv, published_data("prices"), "aws_spot_price_history_2019-12_2020-03.csv", ',');
    record->zone = csv_column(csv, "zone");
    record->type = csv_column(csv, "instance_type");
    record->time = csv_column(csv, "t_utc");
    record->usd = csv_column(csv, "usd_per_hour");
    record->least = 0;
    for (uint32_t row = 0; row < csv->rows; row++) {
        double usd = csv_real(csv, row, record->usd);
        if (!(usd > 0) || usd > 1e4)
            published_fail("%s:%" PRIu32 ": usd_per_hour is %g, not above 0 and at most 10000",
                           csv->name, row + 2, usd);
        if (strcmp(csv_text(csv, row, record->type), type) != 0) continue;
        if (record->least == 0 || usd < record->least) record->least = usd;
    }
}

static int64_t seconds_of(const struct record *record, uint32_t row)
{
    const char *text = csv_text(&record->csv, row, record->time);
    struct tm tm = {0};
    int length = 0;
    int read = sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                      &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &length);
    if (read != 6 || text[length] != 0)
        published_fail("%s:%" PRIu32 ": t_utc is YYYY-MM-DDThh:mm:ssZ, not \"%s\"",
                       record->csv.name, row + 2, text);
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return (int64_t)timegm(&tm);
}

/* prices[ticks]; false: none was recorded. Before the first one it holds as well. */
static bool read_zone(const struct record *record, const struct spot_group *group, uint32_t zone,
                      uint32_t *prices)
{
    int64_t before = INT64_MIN;
    uint32_t next = 0, price = 0;
    for (uint32_t row = 0; row < record->csv.rows; row++) {
        if (strcmp(csv_text(&record->csv, row, record->type), group->type) != 0 ||
            strcmp(csv_text(&record->csv, row, record->zone), group->zones[zone]) != 0)
            continue;
        int64_t at = seconds_of(record, row), tick = (at - prices_from_s) / group->step_s;
        if (at < before)
            published_fail("%s:%" PRIu32 ": t_utc is before that of the zone's last row",
                           record->csv.name, row + 2);
        before = at;
        double usd = csv_real(&record->csv, row, record->usd);
        uint32_t now = (uint32_t)(SPOT_PRICE * usd / record->least + 0.5);
        if (price == 0) price = now;
        while (next < group->ticks && (int64_t)next < tick) prices[next++] = price;
        price = now;
    }
    while (next < group->ticks) prices[next++] = price;
    return price > 0;
}

static bool read_region(const struct record *record, const struct spot_group *group, uint32_t zone,
                        uint32_t *prices)
{
    uint32_t region = spot_region(group, zone);
    if (read_zone(record, group, zone, prices)) return true;
    for (uint32_t z = 0; z < group->zone_count; z++)
        if ((region >> z & 1) != 0 && read_zone(record, group, z, prices)) return true;
    return false;
}

/* Into the prices of the field, whose first `shift` zones are not of the group. */
static bool read_prices(struct spot_field *field, const struct spot_group *group, uint32_t mask,
                        uint32_t shift)
{
    struct record record;
    record_open(&record, group->type);
    uint32_t *prices = published_alloc(group->ticks, sizeof *prices), at = shift;
    bool found = record.least > 0;
    for (uint32_t z = 0; z < group->zone_count && found; z++) {
        if ((mask >> z & 1) == 0) continue;
        found = read_region(&record, group, z, prices);
        for (uint32_t t = 0; t < group->ticks; t++)
            field->price[(size_t)t * field->zone_count + at] = prices[t];
        at++;
    }
    mem_free(prices);
    csv_close(&record.csv);
    return found;
}

/* ---- fields ---- */

static void add_owned(struct spot_field *field, const struct spot_group *group)
{
    for (uint32_t t = 0; t < group->ticks; t++) {
        uint64_t of_day = (uint64_t)t * group->step_s % DAY_S;
        bool is_free = of_day >= OWNED_FROM_S || of_day < OWNED_TO_S;
        field->up[t] = field->up[t] << 1 | is_free;
        for (uint32_t z = 1; z < field->zone_count; z++)
            field->price[(size_t)t * field->zone_count + z] = SPOT_PRICE;
    }
}

bool spot_field_open(struct spot_field *ret, const struct spot_group *group, uint32_t mask,
                     enum spot_variation variation)
{
    bool owned = variation == SPOT_OWNED || variation == SPOT_TOGETHER;
    bool priced = variation >= SPOT_PRICES;
    *ret = (struct spot_field){.zone_count = (uint32_t)__builtin_popcount(mask) + owned};
    if (ret->zone_count > SPOT_ZONES_MAX) return false;
    ret->up = spot_set_up(group, mask);
    if (owned || priced)
        ret->price = published_alloc((size_t)group->ticks * ret->zone_count, sizeof *ret->price);
    if (owned) add_owned(ret, group);
    if (!priced || read_prices(ret, group, mask, owned)) return true;
    spot_field_close(ret);
    return false;
}

void spot_field_close(struct spot_field *field)
{
    mem_free(field->up);
    mem_free(field->price);
}
