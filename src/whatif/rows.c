#include "whatif/rows.h"
#include "base/mem.h"

bool rows_wrong(struct rows *r, const char *what, const struct csv_field *field)
{
    return error_set(r->error, "%s:%u: %s, not \"%.*s\"", r->q->file, r->csv.line, what,
                     (int)(field->bytes < 40 ? field->bytes : 40), field->text);
}

bool rows_column(struct rows *r, const char *name, uint32_t *ret_column)
{
    *ret_column = UINT32_MAX;
    if (name[0] == '\0') return true;
    *ret_column = csv_find(&r->csv, name);
    return *ret_column != UINT32_MAX ||
           error_set(r->error, "%s:1: there is no column \"%s\"", r->q->file, name);
}

bool rows_begin(struct rows *r, const char *text, size_t bytes)
{
    csv_begin(&r->csv, text, bytes);
    if (!csv_next(&r->csv))
        return error_set(r->error, "%s: is empty; a line of column names is needed", r->q->file);
    for (uint32_t i = 0; i < r->q->pick_count; i++)
        if (!rows_column(r, r->q->picks[i].column, &r->picks[i])) return false;
    return true;
}

bool rows_next(struct rows *r)
{
    while (csv_next(&r->csv)) {
        bool picked = true;
        for (uint32_t i = 0; i < r->q->pick_count && picked; i++)
            picked = r->picks[i] < r->csv.field_count &&
                     csv_is(&r->csv.fields[r->picks[i]], r->q->picks[i].word);
        if (picked) return true;
    }
    return false;
}

bool rows_grow(void **rows, uint32_t count, uint32_t *room, size_t bytes, struct error *error)
{
    if (count < *room) return true;
    if (count >= SERIES_ROWS_MAX)
        return error_set(error, "more than %d rows; pick fewer", SERIES_ROWS_MAX);
    uint32_t wanted = *room == 0 ? 256 : *room * 2;
    void *more = mem_realloc(*rows, wanted * bytes);
    if (more == NULL) return error_set(error, "out of memory for a trace");
    *rows = more;
    *room = wanted;
    return true;
}
