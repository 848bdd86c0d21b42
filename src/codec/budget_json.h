/* A line of `shoal budget` as JSON. */
#ifndef SHOAL_CODEC_BUDGET_JSON_H
#define SHOAL_CODEC_BUDGET_JSON_H

#include "codec/view_json.h"
#include "core/budget.h"

/* NULL: out of memory. */
json_t *budget_json(const struct view_names *names, const struct budget_line *line);

#endif
