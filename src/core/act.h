/* What the core says: commands, decisions and entries put into the output, with room kept.
 *
 * Rules      Work is done in pieces that need at most ROOM_* lines; act_has_room() is asked before
 *            each, so a line is never dropped. Ids are seq << 16 | position.
 */
#ifndef SHOAL_CORE_ACT_H
#define SHOAL_CORE_ACT_H

#include "core/state.h"

void act_clear(struct pool_output *out);
bool act_has_room(const struct pool_output *out);

/* The caller fills everything but the id. */
void act_command(const pool *p, struct pool_output *out, struct pool_command command);
/* Also remembered as the newest decision of its job, if that is in the table. */
void act_decision(pool *p, struct pool_output *out, struct pool_decision decision);
void act_entry(const pool *p, struct pool_output *out, struct ledger_entry entry);

#endif
