#include "server/jobs.h"
#include "base/mem.h"
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

void jobs_init(struct jobs *jobs, const struct catalog *catalog, journal *j)
{
    memset(jobs, 0, sizeof *jobs);
    array_init(&jobs->infos, sizeof(struct job_info));
    array_init(&jobs->keys, sizeof(uint32_t));
    jobs->catalog = catalog;
    jobs->journal = j;
}

void jobs_free(struct jobs *jobs)
{
    for (uint32_t i = 0; i < jobs->infos.count; i++) {
        struct job_info *info = array_at(&jobs->infos, i);
        mem_free(info->name);
        mem_free(info->key);
        mem_free(info->told);
    }
    array_free(&jobs->infos);
    array_free(&jobs->keys);
    for (int i = 0; i < JOBS_SPEC_CACHE; i++) mem_free(jobs->cache[i].spec);
}

/* Keys: open addressing; rows that were given up stay in the table and match nothing. */

static uint32_t *key_slot(const struct jobs *jobs, const char *key)
{
    uint32_t *slots = jobs->keys.items;
    uint64_t at = XXH3_64bits(key, strlen(key));
    for (;; at++) {
        uint32_t *slot = &slots[at & (jobs->keys.count - 1)];
        if (*slot == 0) return slot;
        const struct job_info *info = array_at(&jobs->infos, *slot - 1);
        if (info->job_id != 0 && info->key != NULL && strcmp(info->key, key) == 0) return slot;
    }
}

static bool grow_keys(struct jobs *jobs)
{
    if (jobs->keys.count >= 2 * (jobs->keys_used + 1)) return true;
    uint32_t count = jobs->keys.count == 0 ? 64 : jobs->keys.count * 2;
    struct array larger;
    array_init(&larger, sizeof(uint32_t));
    if (!array_reserve(&larger, count)) return false;
    while (larger.count < count) (void)array_push(&larger); /* reserved; zeroed */
    array_free(&jobs->keys);
    jobs->keys = larger;
    jobs->keys_used = 0;
    for (uint32_t i = 0; i < jobs->infos.count; i++) {
        const struct job_info *info = array_at(&jobs->infos, i);
        if (info->job_id == 0 || info->key == NULL) continue;
        *key_slot(jobs, info->key) = i + 1;
        jobs->keys_used++;
    }
    return true;
}

static bool remember_key(struct jobs *jobs, uint32_t index, const char *key)
{
    if (key == NULL) return true;
    if (!grow_keys(jobs)) return false;
    uint32_t *slot = key_slot(jobs, key);
    *slot = index + 1;
    jobs->keys_used++;
    return true;
}

struct job_info *jobs_find_key(const struct jobs *jobs, const char *key)
{
    if (jobs->keys.count == 0) return NULL;
    uint32_t slot = *key_slot(jobs, key);
    return slot == 0 ? NULL : array_at(&jobs->infos, slot - 1);
}

struct job_info *jobs_find(const struct jobs *jobs, uint64_t job_id)
{
    if (job_id == 0 || job_id > jobs->infos.count) return NULL;
    struct job_info *info = array_at(&jobs->infos, (uint32_t)(job_id - 1));
    return info->job_id == 0 ? NULL : info;
}

/* Ids that were given up leave holes in the journal, so rows may skip numbers. */
static bool load_row(struct jobs *jobs, struct sqlite3_stmt *s)
{
    uint64_t id = (uint64_t)sqlite3_column_int64(s, 0);
    const char *name = (const char *)sqlite3_column_text(s, 1);
    const char *secret = (const char *)sqlite3_column_text(s, 3);
    const char *key = (const char *)sqlite3_column_text(s, 4);
    if (id == 0 || id > UINT32_MAX / 8 || name == NULL || secret == NULL) return false;
    uint32_t index = (uint32_t)(id - 1);
    if (index < jobs->infos.count) return false;
    if (!array_reserve(&jobs->infos, index + 1 - jobs->infos.count)) return false;
    while (jobs->infos.count <= index) (void)array_push(&jobs->infos); /* reserved */
    struct job_info *info = array_at(&jobs->infos, index);
    info->job_id = id;
    info->spec_hash = (uint64_t)sqlite3_column_int64(s, 2);
    (void)snprintf(info->secret, sizeof info->secret, "%s", secret);
    info->name = mem_strdup(name);
    if (key != NULL) info->key = mem_strdup(key);
    return info->name != NULL && (key == NULL || info->key != NULL) &&
           remember_key(jobs, index, info->key);
}

static bool load_progress(struct jobs *jobs, struct error *ret_error)
{
    struct sqlite3_stmt *s = journal_query(
        jobs->journal, "SELECT job, max(step), loss FROM progress GROUP BY job", ret_error);
    if (s == NULL) return false;
    while (journal_row(s)) {
        struct job_info *info = jobs_find(jobs, (uint64_t)sqlite3_column_int64(s, 0));
        if (info == NULL) continue;
        info->has_progress = true;
        info->progress_step = (uint64_t)sqlite3_column_int64(s, 1);
        info->loss = journal_column_real(s, 2);
    }
    return true;
}

void jobs_note_step(struct job_info *info, uint64_t step)
{
    if (info->told != NULL) told_note(info->told, step);
}

uint64_t jobs_told(struct jobs *jobs, struct job_info *info)
{
    if (info->told != NULL) return info->told->first;
    char query[96];
    struct error ignored;
    (void)snprintf(query, sizeof query, "SELECT step FROM progress WHERE job = %llu ORDER BY step",
                   (unsigned long long)info->job_id);
    struct told *told = mem_zalloc(1, sizeof *told);
    struct sqlite3_stmt *s = told == NULL ? NULL : journal_query(jobs->journal, query, &ignored);
    if (s == NULL) {
        mem_free(told);
        return 0;
    }
    while (journal_row(s)) told_note(told, (uint64_t)sqlite3_column_int64(s, 0));
    info->told = told;
    return told->first;
}

bool jobs_load(struct jobs *jobs, struct error *ret_error)
{
    struct sqlite3_stmt *s = journal_query(
        jobs->journal,
        "SELECT job, name, spec_hash, secret, idempotency_key FROM jobs ORDER BY job", ret_error);
    if (s == NULL) return false;
    while (journal_row(s)) {
        if (load_row(jobs, s)) continue;
        journal_reset(s);
        return error_set(ret_error, "the jobs of the journal cannot be read (row %u)",
                         jobs->infos.count);
    }
    return load_progress(jobs, ret_error);
}

struct job_info *jobs_add(struct jobs *jobs, const char *name, uint64_t spec_hash, const char *key,
                          struct error *ret_error)
{
    struct job_info row = {.spec_hash = spec_hash, .is_pending = true};
    if (!auth_make_token(row.secret, ret_error)) return NULL;
    row.name = mem_strdup(name);
    row.key = key == NULL ? NULL : mem_strdup(key);
    bool have = row.name != NULL && (key == NULL || row.key != NULL);
    struct job_info *info =
        have && array_reserve(&jobs->infos, 1) ? array_push(&jobs->infos) : NULL;
    if (info == NULL) {
        (void)error_set(ret_error, "out of memory; try again");
        mem_free(row.name);
        mem_free(row.key);
        return NULL;
    }
    row.job_id = jobs->infos.count;
    *info = row;
    if (remember_key(jobs, jobs->infos.count - 1, info->key)) return info;
    (void)error_set(ret_error, "out of memory; try again");
    jobs_give_up(jobs, row.job_id);
    return NULL;
}

void jobs_give_up(struct jobs *jobs, uint64_t job_id)
{
    struct job_info *info = jobs_find(jobs, job_id);
    if (info == NULL) return;
    mem_free(info->name);
    mem_free(info->key);
    *info = (struct job_info){0};
}

static struct job_spec *read_spec(struct jobs *jobs, uint64_t spec_hash)
{
    struct sqlite3_stmt *s =
        journal_query(jobs->journal, "SELECT text FROM specs WHERE hash = ?1", NULL);
    if (s == NULL) return NULL;
    (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)spec_hash); /* fails only for a bad position */
    struct job_spec *spec = NULL;
    if (journal_row(s)) {
        const char *text = (const char *)sqlite3_column_text(s, 0);
        spec = text == NULL ? NULL : mem_alloc(sizeof *spec);
        if (spec != NULL && !job_spec_parse(jobs->catalog, NULL /* pools: checked before */, "spec",
                                            text, strlen(text), spec, NULL)) {
            mem_free(spec);
            spec = NULL;
        }
    }
    journal_reset(s);
    return spec;
}

const struct job_spec *jobs_spec(struct jobs *jobs, uint64_t spec_hash)
{
    uint32_t at = (uint32_t)(spec_hash % JOBS_SPEC_CACHE);
    if (spec_hash != 0 && jobs->cache[at].hash == spec_hash) return jobs->cache[at].spec;
    struct job_spec *spec = read_spec(jobs, spec_hash);
    if (spec == NULL) return NULL;
    mem_free(jobs->cache[at].spec);
    jobs->cache[at].spec = spec;
    jobs->cache[at].hash = spec_hash;
    return spec;
}
