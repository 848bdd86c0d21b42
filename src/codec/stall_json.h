/* The JSON of stall.h. Internal to src/codec and to the agent's and server's answers. */
#ifndef SHOAL_CODEC_STALL_JSON_H
#define SHOAL_CODEC_STALL_JSON_H

#include "codec/json.h"
#include "codec/stall.h"

/* `job` is optional in a worker's line: it speaks for its own. */
void stall_take(struct report_stall *stall, const struct json_map *map, enum json_need job,
                const char *const *more_keys);
json_t *stall_json(const struct report_stall *stall, bool *failed);
void stall_take_stuck(struct report_stuck *stuck, const struct json_map *map);
json_t *stall_stuck_json(const struct report_stuck *stuck, bool *failed);

#endif
