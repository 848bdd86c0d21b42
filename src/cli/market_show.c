#include "cli/market_show.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/table.h"
#include <stdlib.h>
#include <string.h>

enum { TREND_WIDTH = 24, TREND_NARROW = 12, LOSSES_SHOWN = 5, MODELS_MAX = 64 };

enum column {
    COLUMN_ZONE,
    COLUMN_REGION,
    COLUMN_MODEL,
    COLUMN_KIND,
    COLUMN_PRICE,
    COLUMN_SHARE,
    COLUMN_STOCK,
    COLUMN_HELD,
    COLUMN_LOST,
    COLUMN_HOUR,
    COLUMN_HALF,
    COLUMN_TREND,
    COLUMNS
};

static const struct table_column headings[COLUMNS] = {
    [COLUMN_ZONE] = {"zone", TABLE_LEFT},     [COLUMN_REGION] = {"region", TABLE_LEFT},
    [COLUMN_MODEL] = {"model", TABLE_LEFT},   [COLUMN_KIND] = {"kind", TABLE_LEFT},
    [COLUMN_PRICE] = {"$/h", TABLE_RIGHT},    [COLUMN_SHARE] = {"of on-demand", TABLE_RIGHT},
    [COLUMN_STOCK] = {"stock", TABLE_RIGHT},  [COLUMN_HELD] = {"held", TABLE_RIGHT},
    [COLUMN_LOST] = {"lost", TABLE_RIGHT},    [COLUMN_HOUR] = {"up 1 h", TABLE_RIGHT},
    [COLUMN_HALF] = {"half up", TABLE_RIGHT}, [COLUMN_TREND] = {"price of late", TABLE_LEFT},
};

/* Left out in this order where the terminal is narrow. */
static const enum column dropped_first[] = {COLUMN_REGION, COLUMN_HELD,  COLUMN_STOCK, COLUMN_LOST,
                                            COLUMN_HOUR,   COLUMN_SHARE, COLUMN_HALF};
enum { DROPS = sizeof dropped_first / sizeof dropped_first[0] };

/* ---- rows of offers ---- */

struct list {
    const json_t **rows;
    size_t count;
};

static int by_model_and_price(const void *left, const void *right)
{
    const json_t *a = *(const json_t *const *)left, *b = *(const json_t *const *)right;
    int order = strcmp(row_text(a, "model"), row_text(b, "model"));
    json_int_t pa = row_int(a, "usd_micros_per_hour"), pb = row_int(b, "usd_micros_per_hour");
    if (order == 0) order = (pa > pb) - (pa < pb);
    return order != 0 ? order : strcmp(row_text(a, "zone"), row_text(b, "zone"));
}

static bool list_open(const json_t *offers, struct list *ret, struct error *ret_error)
{
    size_t i;
    json_t *row;
    *ret = (struct list){.rows = mem_zalloc(json_array_size(offers) + 1, sizeof(json_t *))};
    if (ret->rows == NULL) return error_set(ret_error, "out of memory for the table");
    json_array_foreach(offers, i, row) ret->rows[ret->count++] = row;
    if (ret->count > 1) qsort(ret->rows, ret->count, sizeof(json_t *), by_model_and_price);
    return true;
}

/* The price at `width` instants, evenly from the first of the history to now. */
static const char *trend(char *bars, size_t bytes, const json_t *history, int64_t now_us,
                         uint32_t width)
{
    int64_t values[TREND_WIDTH];
    size_t count = json_array_size(history), at = 0;
    if (count == 0) width = 0;
    int64_t begin = json_integer_value(json_array_get(json_array_get(history, 0), 0));
    for (uint32_t i = 0; i < width; i++) {
        int64_t when = begin + (now_us - begin) / (width - 1) * i;
        if (i + 1 == width) when = INT64_MAX;
        while (at + 1 < count &&
               json_integer_value(json_array_get(json_array_get(history, at + 1), 0)) <= when)
            at++;
        values[i] = json_integer_value(json_array_get(json_array_get(history, at), 1));
    }
    return format_spark(bars, bytes, values, width, width);
}

static void add_survival(struct table *table, enum column column, const json_t *row)
{
    char text[FORMAT_BYTES];
    const json_t *survival = json_object_get(row, "survival");
    json_int_t nodes = row_int(survival, "nodes");
    bool is_spot = strcmp(row_text(row, "capacity"), "spot") == 0;
    if (column == COLUMN_LOST)
        table_cell(table, nodes == 0 ? "-" : "%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT,
                   row_int(survival, "lost"), nodes);
    else if (!is_spot && row_int(survival, "lost") == 0)
        table_cell(table, "-");     /* nobody takes it away */
    else if (column == COLUMN_HOUR) /* ~: nothing seen of it yet, what is usual for spot */
        table_cell(table, "%s%s", nodes == 0 ? "~" : "",
                   format_share(text, row_int(survival, "hour_ppm")));
    else if (!json_is_integer(json_object_get(survival, "median_us")))
        table_cell(table, "years");
    else
        table_cell(table, "%s%s", nodes == 0 ? "~" : "",
                   format_duration(text, row_int(survival, "median_us")));
}

static void add_cell(struct table *table, enum column column, const json_t *row, int64_t now_us,
                     uint32_t trend_width)
{
    char text[FORMAT_BYTES], bars[TREND_WIDTH * 3 + 1];
    json_int_t price = row_int(row, "usd_micros_per_hour");
    json_int_t on_demand = row_int(row, "on_demand_usd_micros_per_hour");
    switch (column) {
    case COLUMN_ZONE: table_cell(table, "%s", row_text(row, "zone")); break;
    case COLUMN_REGION: table_cell(table, "%s", row_text(row, "region")); break;
    case COLUMN_MODEL:
        table_cell(table, row_int(row, "devices") > 1 ? "%s ×%" JSON_INTEGER_FORMAT : "%s",
                   row_text(row, "model"), row_int(row, "devices"));
        break;
    case COLUMN_KIND: table_cell(table, "%s", row_text(row, "capacity")); break;
    case COLUMN_PRICE: table_cell(table, "%s", format_usd(text, price, 2)); break;
    case COLUMN_SHARE:
        table_cell(table, "%s",
                   on_demand <= 0 ? "-" : format_share(text, price * 1000000 / on_demand));
        break;
    case COLUMN_STOCK: table_cell(table, "%" JSON_INTEGER_FORMAT, row_int(row, "stock")); break;
    case COLUMN_HELD: table_cell(table, "%" JSON_INTEGER_FORMAT, row_int(row, "nodes_held")); break;
    case COLUMN_TREND:
        table_cell(table, "%s",
                   trend(bars, sizeof bars, row_list(row, "history"), now_us, trend_width));
        break;
    case COLUMN_LOST:
    case COLUMN_HOUR:
    case COLUMN_HALF: add_survival(table, column, row); break;
    case COLUMNS: break;
    }
}

/* Without the columns of these bits. NULL: no memory. */
static char *offers_text(const struct list *list, int64_t now_us, const struct term *term,
                         uint32_t left_out, uint32_t trend_width)
{
    struct table_column columns[COLUMNS];
    enum column which[COLUMNS];
    uint32_t count = 0;
    for (enum column c = 0; c < COLUMNS; c++) {
        if ((left_out >> c & 1) != 0) continue;
        which[count] = c;
        columns[count++] = headings[c];
    }
    struct table *table = table_open(columns, count);
    for (size_t i = 0; i < list->count; i++) {
        if (row_int(list->rows[i], "nodes_held") > 0) table_row_style(table, TERM_GREEN);
        for (uint32_t c = 0; c < count; c++)
            add_cell(table, which[c], list->rows[i], now_us, trend_width);
    }
    char *text = table_text(table, term);
    table_close(table);
    return text;
}

char *market_text(const json_t *offers, int64_t now_us, const struct term *term)
{
    struct list list;
    struct error error; /* of memory, which NULL says */
    if (!list_open(offers, &list, &error)) return NULL;
    uint32_t of_survival = 1U << COLUMN_LOST | 1U << COLUMN_HOUR | 1U << COLUMN_HALF;
    char *text = offers_text(&list, now_us, term, of_survival, TREND_NARROW);
    mem_free(list.rows);
    return text;
}

static uint32_t widest_line(const char *text)
{
    uint32_t widest = 0;
    for (const char *at = text; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        uint32_t columns = term_columns(at) - term_columns(at + length);
        if (columns > widest) widest = columns;
        at += length + (at[length] != '\0');
    }
    return widest;
}

static bool show_offers(const struct list *list, int64_t now_us, const struct term *term,
                        struct error *ret_error)
{
    struct term unbound = *term;
    unbound.width = 0;
    char *text = NULL;
    uint32_t left_out = 0;
    for (uint32_t drops = 0; drops <= DROPS; drops++) {
        if (drops > 0) left_out |= 1U << dropped_first[drops - 1];
        mem_free(text);
        /* the last try is cut to the terminal, whatever it holds */
        text = offers_text(list, now_us, drops == DROPS ? term : &unbound, left_out,
                           drops + 2 >= DROPS ? TREND_NARROW : TREND_WIDTH);
        if (text == NULL) return error_set(ret_error, "no memory for the table");
        if (term->width == 0 || widest_line(text) <= term->width) break;
    }
    fputs(text, term->stream);
    mem_free(text);
    return true;
}

/* ---- spot against on-demand, a row a model ---- */

static json_int_t per_device(const json_t *row)
{
    json_int_t devices = row_int(row, "devices");
    return row_int(row, "usd_micros_per_hour") / (devices > 0 ? devices : 1);
}

/* By the device: the rows are sorted by the price of a whole node. */
static const json_t *cheapest(const struct list *list, size_t first, size_t end, bool spot)
{
    const json_t *best = NULL;
    for (size_t i = first; i < end; i++) {
        const char *kind = row_text(list->rows[i], "capacity");
        if (strcmp(kind, spot ? "spot" : "on_demand") != 0) continue;
        if (best == NULL || per_device(list->rows[i]) < per_device(best)) best = list->rows[i];
    }
    return best;
}

static void add_price_of(struct table *table, const json_t *row)
{
    char text[FORMAT_BYTES];
    table_cell(table, "%s", row == NULL ? "-" : format_usd(text, per_device(row), 2));
}

static void add_model(struct table *table, const struct list *list, size_t first, size_t end)
{
    char text[FORMAT_BYTES];
    const json_t *spot = cheapest(list, first, end, true);
    const json_t *guaranteed = cheapest(list, first, end, false);
    const json_t *best = spot == NULL ? guaranteed : spot;
    json_int_t ncu = best == NULL ? 0 : row_int(best, "ncu_milli");
    table_cell(table, "%s", row_text(list->rows[first], "model"));
    add_price_of(table, spot);
    add_price_of(table, guaranteed);
    table_cell(table, "%s",
               spot == NULL || guaranteed == NULL || per_device(guaranteed) == 0
                   ? "-"
                   : format_share(text, per_device(spot) * 1000000 / per_device(guaranteed)));
    table_cell(table, "%s", ncu <= 0 ? "-" : format_usd(text, per_device(best) * 1000 / ncu, 2));
    table_cell(table, "%s", best == NULL ? "-" : row_text(best, "zone"));
}

static bool show_models(const struct list *list, const struct term *term, struct error *ret_error)
{
    static const struct table_column columns[] = {
        {"a device of", TABLE_LEFT},   {"spot", TABLE_RIGHT},    {"on-demand", TABLE_RIGHT},
        {"of on-demand", TABLE_RIGHT}, {"$/NCU-h", TABLE_RIGHT}, {"cheapest in", TABLE_LEFT},
    };
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    for (size_t first = 0, end; first < list->count; first = end) {
        for (end = first + 1; end < list->count; end++)
            if (strcmp(row_text(list->rows[end], "model"), row_text(list->rows[first], "model")))
                break;
        add_model(table, list, first, end);
    }
    fputc('\n', term->stream);
    return table_finish(table, term, "", ret_error);
}

/* ---- the last losses ---- */

struct loss {
    const json_t *offer, *loss;
};

static void note_loss(struct loss *newest, uint32_t *count, struct loss one)
{
    uint32_t at = *count < LOSSES_SHOWN ? (*count)++ : LOSSES_SHOWN;
    for (; at > 0 && row_int(newest[at - 1].loss, "t") < row_int(one.loss, "t"); at--)
        if (at < LOSSES_SHOWN) newest[at] = newest[at - 1];
    if (at < LOSSES_SHOWN) newest[at] = one;
}

static const char *end_text(const char *end)
{
    if (strcmp(end, "taken") == 0) return "taken without notice";
    return strcmp(end, "failed") == 0 ? "failed" : "taken after a notice";
}

static bool show_losses(const struct list *list, const struct term *term, struct error *ret_error)
{
    static const struct table_column columns[] = {{"lost at", TABLE_LEFT}, {"node", TABLE_RIGHT},
                                                  {"model", TABLE_LEFT},   {"kind", TABLE_LEFT},
                                                  {"zone", TABLE_LEFT},    {"was up", TABLE_RIGHT},
                                                  {"how", TABLE_LEFT}};
    struct loss newest[LOSSES_SHOWN];
    uint32_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        size_t at;
        json_t *loss;
        json_array_foreach(row_list(json_object_get(list->rows[i], "survival"), "losses"), at, loss)
            note_loss(newest, &count, (struct loss){list->rows[i], loss});
    }
    if (count == 0) return true;
    char text[FORMAT_BYTES];
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    for (uint32_t i = 0; i < count; i++) {
        table_cell(table, "%s", format_clock(text, row_int(newest[i].loss, "t")));
        table_cell(table, "%" JSON_INTEGER_FORMAT, row_short(newest[i].loss, "node"));
        table_cell(table, "%s", row_text(newest[i].offer, "model"));
        table_cell(table, "%s", row_text(newest[i].offer, "capacity"));
        table_cell(table, "%s", row_text(newest[i].offer, "zone"));
        table_cell(table, "%s", format_duration(text, row_int(newest[i].loss, "up_us")));
        table_cell(table, "%s", end_text(row_text(newest[i].loss, "end")));
    }
    fputc('\n', term->stream);
    return table_finish(table, term, "", ret_error);
}

bool market_show(const json_t *answer, const struct term *term, struct error *ret_error)
{
    struct list list;
    if (!list_open(json_object_get(answer, "offers"), &list, ret_error)) return false;
    bool ok = true;
    if (list.count == 0)
        fprintf(term->stream, "no offers: name a provider under \"providers:\" in shoal.yaml\n");
    else
        ok = show_offers(&list, row_int(answer, "t"), term, ret_error) &&
             show_models(&list, term, ret_error) && show_losses(&list, term, ret_error);
    mem_free(list.rows);
    return ok;
}
