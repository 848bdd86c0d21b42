/* Whether a budget is enough for a job at all, by what could ever be had.
 *
 * Role       Admission refuses a job for its budget only if there is no way to run it within. Buying takes
 *            what looks best first, by risk and ranking too, and may miss a way that is dearer by these; a
 *            refusal must not.
 * Exact      For up to AFFORD_DEVICES_MAX devices: every mix of nodes counts. For more no mix is known to
 *            be within: only what is surely too little is refused.
 * Cost       The offers of a region, times the devices. Asked only when buying found no way.
 */
#ifndef SHOAL_CORE_AFFORD_H
#define SHOAL_CORE_AFFORD_H

#include "core/state.h"

enum { AFFORD_DEVICES_MAX = 64 };

struct demand;
/* Nodes of this region that give so many devices may cost as little as this an hour. `demand` says which
 * offers and whether one node has to do. */
bool afford_within(const pool *p, const struct demand *demand, uint32_t region_index,
                   uint32_t devices, int64_t usd_micros_per_hour);

#endif
