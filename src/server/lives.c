#include "server/lives.h"
#include "core/output.h"
#include "server/keyed.h"
#include <sqlite3.h>

void lives_init(struct lives *lives)
{
    *lives = (struct lives){0};
    array_init(&lives->all, sizeof(struct life));
}

void lives_free(struct lives *lives)
{
    array_free(&lives->all);
}

const struct life *lives_find(const struct lives *lives, uint64_t node_key)
{
    return keyed_find(&lives->all, node_key);
}

static struct sqlite3_stmt *rows_after(journal *j, const char *sql, uint64_t after,
                                       struct error *ret_error)
{
    struct sqlite3_stmt *query = journal_query(j, sql, ret_error);
    if (query == NULL) return NULL;
    (void)sqlite3_bind_int64(query, 1, (sqlite3_int64)after); /* fails only for a bad position */
    (void)sqlite3_bind_int64(query, 2, LIVES_ROWS_MAX);
    return query;
}

static bool no_memory(struct sqlite3_stmt *query, struct error *ret_error)
{
    journal_reset(query);
    return error_set(ret_error, "out of memory for the lives of nodes");
}

/* Adjustments (kind 4) correct the money of intervals that other entries hold. */
static bool read_entries(struct lives *lives, journal *j, struct error *ret_error)
{
    struct sqlite3_stmt *query =
        rows_after(j,
                   "SELECT id, node, offer, from_us, to_us FROM (SELECT * FROM entries WHERE id > "
                   "?1 ORDER BY id DESC LIMIT ?2) WHERE kind != 4 ORDER BY id",
                   lives->entries_read, ret_error);
    if (query == NULL) return false;
    while (journal_row(query)) {
        struct life *life = keyed_get(&lives->all, (uint64_t)sqlite3_column_int64(query, 1));
        if (life == NULL) return no_memory(query, ret_error);
        life->offer_id = (uint64_t)sqlite3_column_int64(query, 2);
        int64_t from_us = sqlite3_column_int64(query, 3), to_us = sqlite3_column_int64(query, 4);
        if (life->from_us == 0 || from_us < life->from_us) life->from_us = from_us;
        if (to_us > life->to_us) life->to_us = to_us;
        lives->entries_read = (uint64_t)sqlite3_column_int64(query, 0);
    }
    return true;
}

static uint32_t end_of(uint32_t kind, uint32_t reason)
{
    if (kind == DECISION_DRAIN) return reason == REASON_NOTICE ? LIFE_NOTICED : LIFE_GOES_ON;
    if (kind != DECISION_LOST) return LIFE_GOES_ON;
    switch (reason) {
    case REASON_PREEMPTED: return LIFE_TAKEN;
    case REASON_PREEMPTED_NOTICED: return LIFE_NOTICED;
    case REASON_CRASHED:
    case REASON_AGENT_SILENT: return LIFE_FAILED;
    default: return LIFE_GOES_ON; /* it never came up */
    }
}

static bool read_decisions(struct lives *lives, journal *j, struct error *ret_error)
{
    struct sqlite3_stmt *query =
        rows_after(j,
                   "SELECT id, node, offer, kind, reason, t_us, a FROM (SELECT * FROM decisions WHERE "
                   "id > ?1 ORDER BY id DESC LIMIT ?2) ORDER BY id",
                   lives->decisions_read, ret_error);
    if (query == NULL) return false;
    while (journal_row(query)) {
        uint64_t node_key = (uint64_t)sqlite3_column_int64(query, 1);
        uint32_t end = end_of((uint32_t)sqlite3_column_int64(query, 3),
                              (uint32_t)sqlite3_column_int64(query, 4));
        if (end != LIFE_GOES_ON && node_key != 0) {
            struct life *life = keyed_get(&lives->all, node_key);
            if (life == NULL) return no_memory(query, ret_error);
            life->offer_id = (uint64_t)sqlite3_column_int64(query, 2);
            bool is_ahead = (uint32_t)sqlite3_column_int64(query, 3) == DECISION_DRAIN;
            life->end = end;
            life->ended_us = /* a notice says when */
                sqlite3_column_int64(query, 5) + (is_ahead ? sqlite3_column_int64(query, 6) : 0);
        }
        lives->decisions_read = (uint64_t)sqlite3_column_int64(query, 0);
    }
    return true;
}

bool lives_refresh(struct lives *lives, journal *j, struct error *ret_error)
{
    return read_entries(lives, j, ret_error) && read_decisions(lives, j, ret_error);
}

bool life_is_lost(const struct life *life)
{
    return life->end != LIFE_GOES_ON;
}

void life_see(const struct life *life, int64_t until_us, struct survival_seen *seen)
{
    int64_t to_us = life_is_lost(life) ? life->ended_us : life->to_us;
    if (life->from_us == 0) return; /* lost before it was billed: no life */
    if (!life_is_lost(life) && until_us > to_us) to_us = until_us;
    survival_add(seen, (double)(to_us - life->from_us) / 3.6e9, life_is_lost(life));
}
