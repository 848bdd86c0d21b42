/* How fast a job's work runs on each model (core/rate.h) as rows: `rates` of /v1/jobs/ID/why. */
#ifndef SHOAL_CODEC_RATES_JSON_H
#define SHOAL_CODEC_RATES_JSON_H

#include "codec/view_json.h"

/* A new reference, the caller's; NULL: out of memory. */
json_t *rates_json(const struct view_names *names, const struct rate_view *rates, uint32_t count);

#endif
