/* Prices in CSV: columns by their heads. */
#include "codec/csv.h"
#include "codec/price_feed_rows.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CELL_BYTES = 256, NAMES = 4 };

/* ORDER: the first ones are needed, the others may be missing. */
enum column {
    COLUMN_TIME,
    COLUMN_ZONE,
    COLUMN_INSTANCE,
    COLUMN_PRICE,
    COLUMNS_NEEDED,
    COLUMN_KIND = COLUMNS_NEEDED,
    COLUMNS
};

static const char *const heads[COLUMNS][NAMES] = {
    [COLUMN_TIME] = {"t_utc", "timestamp", "time", "date"},
    [COLUMN_ZONE] = {"zone", "zone_or_region", "availability_zone", "region"},
    [COLUMN_INSTANCE] = {"instance_type", "instance", "type"},
    [COLUMN_PRICE] = {"usd_per_hour", "spot_price", "price"},
    [COLUMN_KIND] = {"capacity", "kind"},
};

static bool find_columns(const struct csv *csv, uint32_t where[COLUMNS], struct error *ret_error)
{
    for (uint32_t i = 0; i < COLUMNS; i++) {
        where[i] = UINT32_MAX;
        for (uint32_t n = 0; n < NAMES && heads[i][n] != NULL && where[i] == UINT32_MAX; n++)
            where[i] = csv_find(csv, heads[i][n]); /* an earlier name wins */
        if (where[i] != UINT32_MAX || i >= COLUMNS_NEEDED) continue;
        return error_set(ret_error, "no column %s (or %s%s%s) in the first line, nor JSON",
                         heads[i][0], heads[i][1], heads[i][2] == NULL ? "" : ", ",
                         heads[i][2] == NULL ? "" : heads[i][2]);
    }
    return true;
}

enum kind { KIND_SPOT, KIND_ON_DEMAND, KIND_OTHER, KIND_UNKNOWN };

/* What a file without such a column has is spot. */
static enum kind kind_of(const char *cell)
{
    if (cell[0] == '\0' || strcmp(cell, "spot") == 0) return KIND_SPOT;
    if (strcmp(cell, "on_demand") == 0 || strcmp(cell, "on-demand") == 0) return KIND_ON_DEMAND;
    if (strcmp(cell, "owned") == 0 || strcmp(cell, "reserved") == 0) return KIND_OTHER;
    return KIND_UNKNOWN;
}

static void read_line(struct price_feed *feed, const struct csv *csv, const uint32_t *where,
                      uint32_t columns)
{
    char cells[COLUMNS][CELL_BYTES] = {{0}};
    uint32_t count = csv->field_count, line = csv->line;
    bool fits = true;
    for (uint32_t i = 0; i < COLUMNS; i++)
        if (where[i] < count) fits = csv_copy(&csv->fields[where[i]], cells[i], CELL_BYTES) && fits;
    int64_t usd_micros;
    enum kind kind = kind_of(cells[COLUMN_KIND]);
    struct feed_row row = {.number = line,
                           .zone = cells[COLUMN_ZONE],
                           .instance = cells[COLUMN_INSTANCE],
                           .time = cells[COLUMN_TIME],
                           .is_spot = kind == KIND_SPOT};
    if (count == columns && fits && kind == KIND_OTHER) {
        feed_pass(feed);
        return;
    }
    if (count == columns && fits && kind != KIND_UNKNOWN &&
        feed_price(cells[COLUMN_PRICE], &usd_micros)) {
        feed_add(feed, &row, usd_micros);
        return;
    }
    feed->rows++;
    if (count != columns)
        feed_fault(feed, line, "%" PRIu32 " cells under %" PRIu32 " heads", count, columns);
    else if (!fits)
        feed_fault(feed, line, "a cell is longer than %d bytes", CELL_BYTES - 1);
    else if (kind == KIND_UNKNOWN)
        feed_fault(feed, line, "not a kind of capacity: \"%.40s\"", cells[COLUMN_KIND]);
    else
        feed_fault(feed, line, "not a price: \"%.40s\"", cells[COLUMN_PRICE]);
}

bool feed_read_csv(const char *text, size_t bytes, struct price_feed *feed, struct error *ret_error)
{
    struct csv csv;
    uint32_t where[COLUMNS];
    csv_begin(&csv, text, bytes);
    if (!csv_next(&csv)) csv.field_count = 0; /* it has no heads */
    if (!find_columns(&csv, where, ret_error)) return false;
    uint32_t columns = csv.field_count;
    while (feed->rows < FEED_ROWS_MAX && !feed->out_of_memory && csv_next(&csv))
        read_line(feed, &csv, where, columns);
    if (csv.at < csv.end && !feed->out_of_memory)
        return error_set(ret_error, "more than %d rows; split the file", FEED_ROWS_MAX);
    return true;
}
