/* How capacity is bought for a class or a pool: `buying` in shoal.yaml. */
#ifndef SHOAL_CORE_BUYING_H
#define SHOAL_CORE_BUYING_H

#include "core/output.h"
#include "core/state.h"

void buying_define(pool *p, const struct pool_event *event, struct pool_output *out);
/* enum buying_policy: of the first pool of the job that says one, else of its class, else the table. */
uint32_t buying_policy(const pool *p, const struct shape *s);
/* The least that its class or a pool of it allows to be paid for a device-hour; INT64_MAX = no limit. */
int64_t buying_device_max(const pool *p, const struct shape *s);
/* The most that a request for spot offers, per device-hour: at a price above it the provider does not give
 * the node, or takes it. INT64_MAX = any price. */
int64_t buying_bid(const pool *p, const struct shape *s);

#endif
