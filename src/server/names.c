#include "server/names.h"
#include "base/mem.h"
#include "core/assert.h"
#include <sqlite3.h>
#include <string.h>
#include <xxhash.h>

struct row {
    uint32_t kind, id;
    char *text;
};

struct names {
    struct array rows;                   /* struct row, in the order they were given out */
    struct array of_kind[NAME_KIND_END]; /* uint32_t: id -> index of row + 1; 0 = unknown */
    uint32_t *slots;                     /* hash table: index of row + 1, open addressing */
    uint32_t slots_count;                /* a power of two, at least twice the rows */
    uint32_t stored_count;               /* rows before this one are in the journal */
};

static uint32_t first_id(uint32_t kind)
{
    return kind == ID_POOL || kind == NAME_MODEL || kind == NAME_CAPABILITY ? 0 : 1;
}

static bool is_full(const names *n, uint32_t kind)
{
    if (n->rows.count >= NAMES_MAX) return true;
    return first_id(kind) == 0 && n->of_kind[kind].count >= NAMES_BITS_MAX;
}

names *names_open(void)
{
    names *n = mem_zalloc(1, sizeof *n);
    if (n == NULL) return NULL;
    array_init(&n->rows, sizeof(struct row));
    for (uint32_t kind = 0; kind < NAME_KIND_END; kind++)
        array_init(&n->of_kind[kind], sizeof(uint32_t));
    return n;
}

void names_close(names *n)
{
    if (n == NULL) return;
    for (uint32_t i = 0; i < n->rows.count; i++) mem_free(((struct row *)n->rows.items)[i].text);
    array_free(&n->rows);
    for (uint32_t kind = 0; kind < NAME_KIND_END; kind++) array_free(&n->of_kind[kind]);
    mem_free(n->slots);
    mem_free(n);
}

static uint32_t *slot_of(const names *n, uint32_t kind, const char *text)
{
    uint64_t at = XXH3_64bits_withSeed(text, strlen(text), kind);
    for (;; at++) {
        uint32_t *slot = &n->slots[at & (n->slots_count - 1)];
        if (*slot == 0) return slot;
        const struct row *row = array_at(&n->rows, *slot - 1);
        if (row->kind == kind && strcmp(row->text, text) == 0) return slot;
    }
}

static bool grow_slots(names *n)
{
    if (n->slots_count >= 2 * (n->rows.count + 1)) return true;
    uint32_t count = n->slots_count == 0 ? 64 : n->slots_count * 2;
    uint32_t *slots = mem_zalloc(count, sizeof *slots);
    if (slots == NULL) return false;
    mem_free(n->slots);
    n->slots = slots;
    n->slots_count = count;
    for (uint32_t i = 0; i < n->rows.count; i++) {
        const struct row *row = array_at(&n->rows, i);
        *slot_of(n, row->kind, row->text) = i + 1;
    }
    return true;
}

/* Adds a name under a number; numbers may come in any order from the journal. */
static bool add(names *n, uint32_t kind, uint32_t id, const char *text)
{
    struct array *ids = &n->of_kind[kind];
    uint32_t missing = id < ids->count ? 0 : id + 1 - ids->count;
    if (!grow_slots(n) || !array_reserve(&n->rows, 1) || !array_reserve(ids, missing)) return false;
    char *copy = mem_strdup(text);
    if (copy == NULL) return false;
    while (ids->count <= id) (void)array_push(ids); /* reserved above */
    uint32_t *slot = slot_of(n, kind, text);
    struct row *row = array_push(&n->rows);
    *row = (struct row){.kind = kind, .id = id, .text = copy};
    *slot = n->rows.count;
    *(uint32_t *)array_at(ids, id) = n->rows.count;
    return true;
}

bool names_load(names *n, journal *j, struct error *ret_error)
{
    struct sqlite3_stmt *s =
        journal_query(j, "SELECT kind, id, name FROM names ORDER BY kind, id", ret_error);
    if (s == NULL) return false;
    while (journal_row(s)) {
        uint32_t kind = (uint32_t)sqlite3_column_int(s, 0), id = (uint32_t)sqlite3_column_int(s, 1);
        const char *text = (const char *)sqlite3_column_text(s, 2);
        bool fits = kind > 0 && kind < NAME_KIND_END && id <= NAMES_MAX && text != NULL;
        if (fits && add(n, kind, id, text)) continue;
        journal_reset(s);
        return error_set(ret_error,
                         fits ? "out of memory for the names of the journal"
                              : "the journal is damaged: a name has kind %u, number %u",
                         kind, id);
    }
    n->stored_count = n->rows.count;
    return true;
}

bool names_find(const names *n, uint32_t kind, const char *name, uint32_t *ret_id)
{
    ASSERT(kind < NAME_KIND_END);
    if (n->slots_count == 0) return false;
    uint32_t slot = *slot_of(n, kind, name);
    if (slot == 0) return false;
    *ret_id = ((const struct row *)array_at(&n->rows, slot - 1))->id;
    return true;
}

bool names_id(names *n, uint32_t kind, const char *name, uint32_t *ret_id)
{
    if (names_find(n, kind, name, ret_id)) return true;
    if (is_full(n, kind)) return false;
    uint32_t end = n->of_kind[kind].count, first = first_id(kind);
    uint32_t id = end < first ? first : end;
    if (!add(n, kind, id, name)) return false;
    *ret_id = id;
    return true;
}

const char *names_text(const names *n, uint32_t kind, uint32_t id)
{
    ASSERT(kind < NAME_KIND_END);
    if (id >= n->of_kind[kind].count) return "";
    uint32_t index = *(const uint32_t *)array_at(&n->of_kind[kind], id);
    return index == 0 ? "" : ((const struct row *)array_at(&n->rows, index - 1))->text;
}

uint32_t names_end(const names *n, uint32_t kind)
{
    ASSERT(kind < NAME_KIND_END);
    return n->of_kind[kind].count;
}

bool names_collect(names *n, struct batch *b)
{
    if (!array_reserve(&b->names, n->rows.count - n->stored_count)) return false;
    for (uint32_t i = n->stored_count; i < n->rows.count; i++) {
        const struct row *row = array_at(&n->rows, i);
        struct batch_name *name = array_push(&b->names);
        *name = (struct batch_name){.kind = row->kind, .id = row->id, .name = row->text};
    }
    return true;
}

void names_stored(names *n, const struct batch *b)
{
    n->stored_count += b->names.count;
    ASSERT(n->stored_count <= n->rows.count);
}

bool names_id_of(void *self, enum id_kind kind, const char *name, uint32_t *ret_id)
{
    return names_id(self, kind, name, ret_id);
}
