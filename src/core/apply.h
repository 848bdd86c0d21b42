/* Beliefs: what an event changes, before anything is planned. Total: any checked event, any state.
 */
#ifndef SHOAL_CORE_APPLY_H
#define SHOAL_CORE_APPLY_H

#include "core/state.h"

void apply_event(pool *p, const struct pool_event *event, struct pool_output *out);

#endif
