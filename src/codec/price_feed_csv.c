/* Prices in CSV: columns by their heads, cells may be quoted, lines end in \n or \r\n. */
#include "base/mem.h"
#include "codec/price_feed_rows.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CELL_BYTES = 256, NAMES = 4, COLUMNS_MAX = 256 };

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

struct cursor {
    const char *at, *end;
    bool cut; /* a cell was longer than CELL_BYTES - 1 */
};

/* Copies one cell. Returns what ended it: ',', '\n' or 0. */
static char take(struct cursor *c, char cell[CELL_BYTES])
{
    size_t length = 0;
    bool quoted = c->at < c->end && *c->at == '"';
    if (quoted) c->at++;
    for (; c->at < c->end; c->at++) {
        char next = *c->at;
        if (quoted && next == '"') {
            if (c->at + 1 == c->end || c->at[1] != '"') {
                quoted = false;
                continue;
            }
            c->at++;
        } else if (!quoted && (next == ',' || next == '\n')) {
            break;
        }
        if (length + 1 < CELL_BYTES)
            cell[length++] = next == '\0' ? '?' : next;
        else
            c->cut = true;
    }
    if (length > 0 && cell[length - 1] == '\r') length--;
    cell[length] = '\0';
    return c->at < c->end ? *c->at++ : '\0';
}

static bool find_columns(struct cursor *c, uint32_t *where, uint32_t *ret_count,
                         struct error *ret_error)
{
    uint32_t names[COLUMNS], count = 0;
    char cell[CELL_BYTES], ended = ',';
    for (uint32_t i = 0; i < COLUMNS; i++) names[i] = NAMES;
    while (ended == ',' && count < COLUMNS_MAX) {
        ended = take(c, cell);
        for (uint32_t i = 0; i < COLUMNS; i++) {
            for (uint32_t n = 0; n < names[i] && heads[i][n] != NULL; n++) {
                if (strcmp(cell, heads[i][n]) != 0) continue;
                where[i] = count;
                names[i] = n; /* an earlier name wins */
            }
        }
        count++;
    }
    *ret_count = count;
    if (names[COLUMN_KIND] == NAMES) where[COLUMN_KIND] = UINT32_MAX;
    for (uint32_t i = 0; i < COLUMNS_NEEDED; i++) {
        if (names[i] < NAMES) continue;
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

static void read_line(struct price_feed *feed, struct cursor *c, const uint32_t *where,
                      uint32_t columns, uint32_t line)
{
    char cells[COLUMNS][CELL_BYTES] = {{0}}, cell[CELL_BYTES], ended = ',';
    uint32_t count = 0;
    c->cut = false;
    for (; ended == ','; count++) {
        ended = take(c, cell);
        for (uint32_t i = 0; i < COLUMNS; i++)
            if (where[i] == count) memcpy(cells[i], cell, sizeof cell);
    }
    if (count == 1 && cell[0] == '\0') return; /* an empty line */
    int64_t usd_micros;
    enum kind kind = kind_of(cells[COLUMN_KIND]);
    struct feed_row row = {.number = line,
                           .zone = cells[COLUMN_ZONE],
                           .instance = cells[COLUMN_INSTANCE],
                           .time = cells[COLUMN_TIME],
                           .is_spot = kind == KIND_SPOT};
    if (count == columns && !c->cut && kind == KIND_OTHER) {
        feed_pass(feed);
        return;
    }
    if (count == columns && !c->cut && kind != KIND_UNKNOWN &&
        feed_price(cells[COLUMN_PRICE], &usd_micros)) {
        feed_add(feed, &row, usd_micros);
        return;
    }
    feed->rows++;
    if (count != columns)
        feed_fault(feed, line, "%" PRIu32 " cells under %" PRIu32 " heads", count, columns);
    else if (c->cut)
        feed_fault(feed, line, "a cell is longer than %d bytes", CELL_BYTES - 1);
    else if (kind == KIND_UNKNOWN)
        feed_fault(feed, line, "not a kind of capacity: \"%.40s\"", cells[COLUMN_KIND]);
    else
        feed_fault(feed, line, "not a price: \"%.40s\"", cells[COLUMN_PRICE]);
}

bool feed_read_csv(const char *text, size_t bytes, struct price_feed *feed, struct error *ret_error)
{
    struct cursor c = {.at = text, .end = text + bytes};
    uint32_t where[COLUMNS] = {0}, columns;
    if (!find_columns(&c, where, &columns, ret_error)) return false;
    uint32_t line = 2;
    while (c.at < c.end && feed->rows < FEED_ROWS_MAX && !feed->out_of_memory) {
        const char *begin = c.at;
        read_line(feed, &c, where, columns, line);
        for (const char *at = begin; at < c.at; at++) line += *at == '\n';
    }
    if (c.at < c.end && !feed->out_of_memory)
        return error_set(ret_error, "more than %d rows; split the file", FEED_ROWS_MAX);
    return true;
}
