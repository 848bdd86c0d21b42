/* Pieces of agent messages that more than one message holds. Internal to src/codec. */
#ifndef SHOAL_CODEC_AGENT_PARTS_H
#define SHOAL_CODEC_AGENT_PARTS_H

#include "codec/agent_report.h"
#include "codec/json.h"

void agent_take_progress(struct report_progress *progress, const struct json_map *map,
                         enum json_need job);
json_t *agent_peers_json(const struct reply_peers *peers, bool *failed); /* the list of peers */

#endif
