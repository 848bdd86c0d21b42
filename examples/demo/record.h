/* What the demo has gathered when the story is over: the rows of the API and a few facts.
 *
 * Role       Filled by demo.c, read by summary.c and report.c. Rows are as docs/protocol.md gives
 *            them. Times of rows are microseconds since 1970; record_seconds() makes them seconds
 *            since the job was submitted, the x of every chart.
 * Ownership  record_free() drops the rows. Strings of models[] and zones[] belong to `offers`.
 */
#ifndef SHOAL_DEMO_RECORD_H
#define SHOAL_DEMO_RECORD_H

#include "demo/audit.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    RECORD_MODELS_MAX = 8,
    RECORD_ZONES_MAX = 16,
    RECORD_RESTARTS_MAX = 4,
    RECORD_SHA_BYTES = 65
};

struct record_model {
    const char *name;
    int64_t ncu_milli;
};

/* One run of the training. Hashes of the weights: of the memory of the workers after the last step,
 * and of the checkpoint of that step read back; the third is over the optimizer's moments as well,
 * which no worker holds as a whole. */
struct record_state {
    char weights_sha256[RECORD_SHA_BYTES], checkpoint_sha256[RECORD_SHA_BYTES];
    char moments_sha256[RECORD_SHA_BYTES];
    double loss_last;
    int64_t wall_us;
};

struct record {
    json_t *steps, *decisions, *offers, *entries;
    struct audit_options options;
    int64_t slot_us_at_1_ncu; /* emulated time of one slot on one NCU */
    int64_t submitted_us, ended_us;
    int64_t restarts_us[RECORD_RESTARTS_MAX];
    uint32_t restart_count;
    uint64_t losses_during_reduction;
    double price_threshold; /* share of the on-demand price */
    struct record_state swarm, control;

    /* by record_index() */
    struct record_model models[RECORD_MODELS_MAX]; /* fastest first */
    const char *zones[RECORD_ZONES_MAX];           /* in order of name */
    uint32_t model_count, zone_count;
};

/* Fills models and zones from the offers. */
void record_index(struct record *record);
/* Index into models; model_count if unknown. */
uint32_t record_model_of(const struct record *record, const char *name);
double record_seconds(const struct record *record, int64_t wall_us);
const json_t *record_offer(const struct record *record, json_int_t offer); /* NULL: unknown */
/* All four hashes are there and the same. */
bool record_is_same(const struct record *record);
void record_free(struct record *record);

#endif
