/* Terms: what jobs ask for beyond their submission, one row for all shapes with the same.
 *
 * Life       Defined (again) by an event before each job that has them; used by shapes; of no live
 *            job they are kept until another definition needs the room, oldest first. So a job
 *            submitted right after its terms always finds them, unless all rows are in use.
 * Invariants user_count = shapes in use with it; exactly those with none are in terms_unused; terms
 *            in use never change.
 */
#ifndef SHOAL_CORE_TERMS_H
#define SHOAL_CORE_TERMS_H

#include "core/state.h"

void terms_define(pool *p, const struct pool_event *event, struct pool_output *out);
uint32_t terms_find(const pool *p, uint64_t terms_id); /* 0: TERMS_NONE; unknown: SLOT_NONE */
void terms_use(pool *p, uint32_t slot);
void terms_leave(pool *p, uint32_t slot);

#endif
