/* What the server knows of each job beyond the core: its name, spec, secret, latest progress.
 *
 * Role       Job ids are given out here, 1, 2, 3 ...; a row is pending until the commit that holds
 *            it, and then stays for good (names of ended jobs are asked for later).
 * Specs      The canonical text is in the journal under its hash; parsed specs are large and kept
 *            in a small cache. A pointer from jobs_spec() is valid until the next call.
 * Keys       The same Idempotency-Key gives the same job: jobs_find_key().
 */
#ifndef SHOAL_SERVER_JOBS_H
#define SHOAL_SERVER_JOBS_H

#include "codec/job_spec.h"
#include "server/auth.h"
#include "server/journal.h"
#include "server/told.h"

enum { JOBS_SPEC_CACHE = 64, JOB_KEY_BYTES_MAX = 128 };

struct job_info {
    uint64_t job_id, spec_hash; /* job_id 0: given up, no such job */
    char *name, *key;           /* key: NULL = none */
    char secret[AUTH_TOKEN_DIGITS + 1];
    bool is_pending; /* its commit has not succeeded yet */
    bool is_refused; /* then the reason and its numbers */
    uint32_t refused_reason;
    int64_t refused_numbers[3];
    bool has_progress;
    uint64_t progress_step; /* newest step that was committed */
    double loss;            /* of that step */
    struct told *told;      /* steps stored; NULL until asked for */
};

struct jobs {
    struct array infos; /* struct job_info; index = job_id - 1 */
    const struct catalog *catalog;
    journal *journal;
    struct {
        uint64_t hash; /* 0: empty */
        struct job_spec *spec;
    } cache[JOBS_SPEC_CACHE];
    struct array keys; /* uint32_t: index of infos + 1, open addressing by hash of key */
    uint32_t keys_used;
};

void jobs_init(struct jobs *jobs, const struct catalog *catalog, journal *j);
void jobs_free(struct jobs *jobs);
bool jobs_load(struct jobs *jobs, struct error *ret_error) WARN_UNUSED;

/* A new pending row with a fresh secret. NULL and a sentence: out of memory or random numbers.
 * The pointer is valid until the next jobs_add(). */
struct job_info *jobs_add(struct jobs *jobs, const char *name, uint64_t spec_hash, const char *key,
                          struct error *ret_error) WARN_UNUSED;
void jobs_give_up(struct jobs *jobs,
                  uint64_t job_id); /* its commit failed: the number is skipped */

struct job_info *jobs_find(const struct jobs *jobs, uint64_t job_id);     /* NULL: none */
struct job_info *jobs_find_key(const struct jobs *jobs, const char *key); /* NULL: none */

/* A step was stored. */
void jobs_note_step(struct job_info *info, uint64_t step);
/* First step of the job that is not stored, all below are. 0 also when memory is short: then
 * nothing is acknowledged. Reads the journal when first asked about a job. */
uint64_t jobs_told(struct jobs *jobs, struct job_info *info);

/* NULL if it cannot be read (the text is kept for good, so: out of memory). */
const struct job_spec *jobs_spec(struct jobs *jobs, uint64_t spec_hash);

#endif
