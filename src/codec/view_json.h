/* Core views, decisions, entries and quotes -> JSON rows of the HTTP API.
 *
 * Role       Keeps the server thin and every consumer (cli, page, demo) on the same member names.
 * Numbers    Ids and keys are JSON integers. A page in a browser reads them exactly up to 2^53, so
 *            whoever chooses the incarnation (high bits of node keys) keeps it small. Money stays
 *            _usd_micros, shares _ppm, NCU _milli: integers.
 * Times      _us, microseconds since 1970 as the journal has them; 0 = not yet.
 * Members    docs/protocol.md, "Rows": this file and that table say the same.
 * Ownership  New references, the caller's to json_decref(); NULL: out of memory.
 */
#ifndef SHOAL_CODEC_VIEW_JSON_H
#define SHOAL_CODEC_VIEW_JSON_H

#include "codec/catalog.h"
#include "codec/ids.h"
#include "codec/job_spec.h"
#include "core/quote.h"
#include "core/view.h"
#include <jansson.h>

/* The row of an offer, for the zone and model of what refers to it; false: not known. */
typedef bool offer_of_fn(void *self, uint64_t offer_id, struct offer_view *ret_offer);

struct view_names {
    name_of_id_fn *name_of;
    offer_of_fn *offer_of;         /* NULL: zones and models of decisions and entries stay "" */
    void *self;                    /* of both */
    const struct catalog *catalog; /* names of models */
};

/* spec may be NULL: then name and kind are "", slots and steps 0. The server adds loss and
 * tokens_per_s, which come from agents. */
json_t *job_view_json(const struct view_names *names, const struct job_view *view,
                      const struct job_spec *spec);
/* The server adds `leases`. */
json_t *node_view_json(const struct view_names *names, const struct node_view *view);
json_t *lease_view_json(const struct lease_view *view);
/* The server adds `history`. */
json_t *offer_view_json(const struct view_names *names, const struct offer_view *view);
/* name, capabilities, hardware, use_cases, price_threshold; the server adds the counts. */
json_t *pool_json(const struct catalog *catalog, const struct config_pool *entry);
/* at_us: when the event that caused it happened (the decision itself holds no time). */
json_t *decision_json(const struct view_names *names, const struct pool_decision *decision,
                      int64_t at_us);
json_t *entry_json(const struct view_names *names, const struct ledger_entry *entry);
/* The answer of /v1/plan. hours and usd are there if spec (may be NULL) knows its work. */
json_t *quote_json(const struct view_names *names, const struct quote *quote,
                   const struct job_spec *spec);

#endif
