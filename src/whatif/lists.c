/* Lists of jobs and of nodes, as clusters wrote them: what cannot be used is left out and counted. */
#include "base/mem.h"
#include "whatif/rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list {
    struct rows rows;
    struct series_tally *tally;
    uint32_t time, duration, begin, end, devices, share, model, nodes;
};

/* A cell of a column that is there; NULL: the query has no such column, or the row is too short. */
static const struct csv_field *cell(const struct list *l, uint32_t column)
{
    return column < l->rows.csv.field_count ? &l->rows.csv.fields[column] : NULL;
}

static bool malformed(struct list *l, const char *what, const struct csv_field *field)
{
    char text[SERIES_WORD_BYTES] = "";
    if (field != NULL) (void)csv_copy(field, text, sizeof text);
    for (char *at = text; *at != '\0'; at++) /* nothing of a file steers a terminal */
        if ((unsigned char)*at < ' ' || *at == 127) *at = '?';
    if (l->tally->malformed++ == 0)
        (void)snprintf(l->tally->first, sizeof l->tally->first, "line %u, %s, not \"%.40s\"",
                       l->rows.csv.line, what, text);
    return false;
}

/* What counts a row that is not kept; true: it is. */
static bool leave_out(uint32_t *count)
{
    (*count)++;
    return false;
}

/* The word from `at` on, up to "|"; false: no more. */
static bool next_word(const char **at, char ret_word[SERIES_MODEL_BYTES])
{
    size_t bytes = strcspn(*at, "|");
    size_t kept = bytes < SERIES_MODEL_BYTES ? bytes : SERIES_MODEL_BYTES - 1;
    if (**at == '\0') return false;
    memcpy(ret_word, *at, kept);
    ret_word[kept] = '\0';
    *at += bytes + ((*at)[bytes] == '|');
    return true;
}

/* Models of a cell; 0: none of them is known. */
static uint64_t models_of(const struct series_words *words, const char *text)
{
    char word[SERIES_MODEL_BYTES];
    uint64_t mask = 0;
    while (next_word(&text, word)) {
        uint32_t i = 0;
        while (i < words->count && strcmp(words->words[i], word) != 0) i++;
        if (i < words->count) mask |= UINT64_C(1) << words->models[i];
    }
    return mask;
}

static bool read_models(struct list *l, uint64_t *ret_mask)
{
    char text[SERIES_WORD_BYTES];
    const struct csv_field *field = cell(l, l->model);
    if (field == NULL || field->bytes == 0) return true; /* any */
    (void)csv_copy(field, text, sizeof text);
    *ret_mask = models_of(l->rows.q->words, text);
    return *ret_mask != 0 || leave_out(&l->tally->unknown_model);
}

static bool read_devices(struct list *l, uint32_t *ret_devices)
{
    int64_t devices = 1;
    if (l->devices == UINT32_MAX) return true;
    const struct csv_field *field = cell(l, l->devices);
    if (field == NULL || !csv_integer(field, &devices) || devices < 0 || devices > ROWS_NODES_MAX)
        return malformed(l, "devices are a number from 0", field);
    *ret_devices = (uint32_t)devices;
    return devices > 0 || leave_out(&l->tally->without_devices);
}

/* ---- jobs ---- */

static bool read_run(struct list *l, int64_t at_us, int64_t *ret_us)
{
    int64_t begin_us = at_us, end_us;
    const struct csv_field *field = cell(l, l->end == UINT32_MAX ? l->duration : l->end);
    if (l->end == UINT32_MAX) {
        if (field == NULL || !csv_micros(field, ret_us))
            return malformed(l, "a run time is seconds", field);
    } else {
        if (field == NULL || !csv_time_us(field, &end_us))
            return malformed(l, "an end is a date or seconds", field);
        field = cell(l, l->begin);
        if (l->begin != UINT32_MAX && (field == NULL || !csv_time_us(field, &begin_us)))
            return malformed(l, "a begin is a date or seconds", field);
        if (begin_us < 0 || begin_us > ROWS_TIME_MAX_US || end_us > ROWS_TIME_MAX_US)
            return malformed(l, "it runs between 1970 and 2100", field);
        *ret_us = end_us < begin_us ? 0 : end_us - begin_us;
    }
    if (*ret_us > ROWS_TIME_MAX_US) return malformed(l, "a run time is below a century", field);
    return *ret_us > 0 || leave_out(&l->tally->without_time);
}

static bool asks_for_share(const struct list *l)
{
    int64_t milli;
    const struct csv_field *field = cell(l, l->share);
    return field != NULL && csv_integer(field, &milli) && milli > 0 && milli < 1000;
}

static bool read_job(struct list *l, struct arrival *ret)
{
    const struct series_query *q = l->rows.q;
    const struct csv_field *field = cell(l, l->time);
    *ret = (struct arrival){.devices = 1, .line = l->rows.csv.line};
    if (field == NULL || !csv_time_us(field, &ret->at_us))
        return malformed(l, "a time is a date, a date and a time, or seconds", field);
    if (ret->at_us < 0) return leave_out(&l->tally->negative);
    if (ret->at_us > ROWS_TIME_MAX_US) return malformed(l, "a time is before 2100", field);
    if (!read_run(l, ret->at_us, &ret->run_us) || !read_devices(l, &ret->devices) ||
        !read_models(l, &ret->model_mask))
        return false;
    if (ret->at_us < q->from_us || (q->until_us > 0 && ret->at_us >= q->until_us))
        return leave_out(&l->tally->outside);
    if (q->devices_max > 0 && ret->devices > q->devices_max) return leave_out(&l->tally->wide);
    if (q->run_max_us > 0 && ret->run_us > q->run_max_us) return leave_out(&l->tally->lasting);
    ret->at_us -= q->from_us;
    l->tally->shares += asks_for_share(l);
    return true;
}

static int by_time(const void *a, const void *b)
{
    const struct arrival *x = a, *y = b;
    if (x->at_us != y->at_us) return x->at_us < y->at_us ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static bool read_jobs(struct list *l, struct arrivals *a)
{
    uint32_t room = 0;
    int64_t latest_us = 0;
    while (rows_next(&l->rows)) {
        struct arrival row;
        l->tally->rows++;
        if (!read_job(l, &row)) continue;
        void *rows = a->rows;
        bool fits = rows_grow(&rows, a->count, &room, sizeof row, l->rows.error);
        a->rows = rows;
        if (!fits) return false;
        a->rows[a->count++] = row;
        l->tally->unsorted += row.at_us < latest_us;
        if (row.at_us > latest_us) latest_us = row.at_us;
    }
    l->tally->kept = a->count;
    if (l->tally->unsorted > 0) qsort(a->rows, a->count, sizeof *a->rows, by_time);
    return true;
}

static bool begin(struct list *l, const char *text, size_t bytes)
{
    const struct series_query *q = l->rows.q;
    struct rows *r = &l->rows;
    return rows_begin(r, text, bytes) && rows_column(r, q->time, &l->time) &&
           rows_column(r, q->duration, &l->duration) && rows_column(r, q->begin, &l->begin) &&
           rows_column(r, q->end, &l->end) && rows_column(r, q->devices, &l->devices) &&
           rows_column(r, q->share, &l->share) && rows_column(r, q->model, &l->model) &&
           rows_column(r, q->nodes, &l->nodes);
}

bool arrivals_read(const struct series_query *query, const char *text, size_t bytes,
                   struct arrivals *ret_arrivals, struct series_tally *ret_tally,
                   struct error *ret_error)
{
    struct list l = {.rows = {.q = query, .error = ret_error}, .tally = ret_tally};
    *ret_arrivals = (struct arrivals){0};
    *ret_tally = (struct series_tally){0};
    if (begin(&l, text, bytes) && read_jobs(&l, ret_arrivals)) return true;
    arrivals_free(ret_arrivals);
    return false;
}

void arrivals_free(struct arrivals *arrivals)
{
    mem_free(arrivals->rows);
    *arrivals = (struct arrivals){0};
}

/* ---- nodes ---- */

static bool read_node(struct list *l, struct shape_row *ret)
{
    uint64_t mask = 0;
    int64_t count = 1;
    const struct csv_field *field = cell(l, l->nodes);
    *ret = (struct shape_row){.devices = 1};
    if (!read_devices(l, &ret->devices) || !read_models(l, &mask)) return false;
    if (mask == 0 || (mask & (mask - 1)) != 0)
        return malformed(l, "a node has devices of one model", cell(l, l->model));
    if (l->nodes != UINT32_MAX &&
        (field == NULL || !csv_integer(field, &count) || count <= 0 || count > ROWS_NODES_MAX))
        return malformed(l, "so many nodes are a number above 0", field);
    ret->model = (uint32_t)__builtin_ctzll(mask);
    ret->count = (uint32_t)count;
    return true;
}

static bool add_shape(struct list *l, struct shapes *shapes, const struct shape_row *row)
{
    uint32_t i = 0;
    while (i < shapes->count &&
           (shapes->rows[i].model != row->model || shapes->rows[i].devices != row->devices))
        i++;
    if (i == SERIES_SHAPES_MAX)
        return error_set(l->rows.error, "%s: more than %d kinds of nodes; pick fewer",
                         l->rows.q->file, SERIES_SHAPES_MAX);
    if (i == shapes->count) shapes->rows[shapes->count++] = (struct shape_row){row->model, row->devices, 0};
    if (shapes->rows[i].count > ROWS_NODES_MAX - row->count)
        return error_set(l->rows.error, "%s:%u: more than %d nodes of a kind", l->rows.q->file,
                         l->rows.csv.line, ROWS_NODES_MAX);
    shapes->rows[i].count += row->count;
    return true;
}

bool shapes_read(const struct series_query *query, const char *text, size_t bytes,
                 struct shapes *ret_shapes, struct series_tally *ret_tally,
                 struct error *ret_error)
{
    struct list l = {.rows = {.q = query, .error = ret_error}, .tally = ret_tally};
    *ret_shapes = (struct shapes){0};
    *ret_tally = (struct series_tally){0};
    if (!begin(&l, text, bytes)) return false;
    while (rows_next(&l.rows)) {
        struct shape_row row;
        ret_tally->rows++;
        if (!read_node(&l, &row)) continue;
        ret_tally->kept++;
        if (!add_shape(&l, ret_shapes, &row)) return false;
    }
    return true;
}
