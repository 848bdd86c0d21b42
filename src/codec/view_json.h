/* Core views, decisions, entries and quotes -> JSON rows of the HTTP API.
 *
 * Role       Keeps the server thin and every consumer (cli, page, demo) on the same member names.
 * Numbers    Node keys and worker ids are 64 bit and JSON readers often are not: ids of nodes,
 *            workers, offers, decisions and entries are texts of decimal digits
 * ("node":"4294967297") in views; job ids are small and stay numbers. Money stays *_usd_micros
 * (integers). Times      *_us, microseconds since 1970 as the journal has them; 0 = not yet.
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

struct view_names {
    name_of_id_fn *name_of;
    void *self;
    const struct catalog *catalog; /* names of models */
};

/* spec may be NULL; with it, name, kind, slots, steps, budget and work are there too. */
json_t *job_view_json(const struct view_names *names, const struct job_view *view,
                      const struct job_spec *spec);
json_t *node_view_json(const struct view_names *names, const struct node_view *view);
json_t *lease_view_json(const struct lease_view *view);
json_t *offer_view_json(const struct view_names *names, const struct offer_view *view);
json_t *totals_json(const struct pool_totals *totals);
/* at_us: when the event that caused it happened (the decision itself holds no time). */
json_t *decision_json(const struct pool_decision *decision, int64_t at_us);
json_t *entry_json(const struct view_names *names, const struct ledger_entry *entry);

/* {"verdict","possible","text","options":[...]}; hours and usd appear if spec knows its work.
 * offer_of finds the row of an offer id for the lines; false: unknown by now. */
typedef bool offer_of_fn(void *self, uint64_t offer_id, struct offer_view *ret_offer);
json_t *quote_json(const struct view_names *names, const struct quote *quote,
                   const struct job_spec *spec, offer_of_fn *offer_of, void *offer_self);

#endif
