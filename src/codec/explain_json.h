/* What would let a waiting job start (core/explain.h) as rows: `wishes` of /v1/jobs/ID/why.
 *
 * Members    docs/protocol.md, "Rows". `text` ends the sentence "would start now ...".
 * Ownership  A new reference; NULL: out of memory. */
#ifndef SHOAL_CODEC_EXPLAIN_JSON_H
#define SHOAL_CODEC_EXPLAIN_JSON_H

#include "codec/view_json.h"
#include "core/explain.h"

/* When devices come free without any change: `next_free` of /v1/jobs/ID/why; null = not known. */
json_t *next_free_json(const struct view_names *names, const struct next_free *next);
json_t *explanation_json(const struct view_names *names, const struct explanation *explanation);

/* How a live job with a deadline stands at now_us: {"t", "work_left_us", "slack_us", "text"}; null: it has
 * none, or has ended. */
json_t *deadline_json(const struct job_view *view, int64_t now_us);

#endif
