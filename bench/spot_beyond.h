/* What jobs with deadlines could have besides: the variations of `bench/spot --beyond`.
 *
 * Variations warm           every start takes a quarter of the changeover (at least a tick): image and
 *                           weights are there. What keeping them costs is not counted.
 *            owned          one more zone, the first: a node of one's own, free from 20:00 to 08:00 of the
 *                           trace's clock (its first tick is midnight), paid for anyway: price 0. When
 *                           its owners come it is lost like any other. Nobody is told the hours.
 *            several        ours, as an elastic job, holds a second zone while it is on spot: it costs as
 *                           much and brings 9 ticks of 10 (the exchange between zones). Who loses the
 *                           first goes on with the second. Rows of ours alone.
 *            prices         what AWS recorded of the zone and type from 2020-01-01 on, laid on the trace
 *                           from its first tick on: availability and price are of different years, so
 *                           how they depend on each other is not in it. The least price recorded of a
 *                           type counts as SPOT_PRICE (0.3 of on-demand, as it was). A zone without
 *                           record has the prices of the first of its region that has one.
 *            prices_unseen  the same, and ours does not look at them
 *            together       warm, owned and prices
 * Cost       In percent of the job on demand alone with the whole changeover, in all of them.
 */
#ifndef SHOAL_BENCH_SPOT_BEYOND_H
#define SHOAL_BENCH_SPOT_BEYOND_H

#include "spot_replay.h"
#include "spot_world.h"

enum spot_variation {
    SPOT_PLAIN,
    SPOT_WARM,
    SPOT_OWNED,
    SPOT_SEVERAL,
    SPOT_PRICES,
    SPOT_PRICES_UNSEEN,
    SPOT_TOGETHER,
    SPOT_VARIATIONS
};

extern const char *const spot_variation_names[SPOT_VARIATIONS];

struct spot_field { /* where the jobs of a set of zones run */
    uint32_t zone_count;
    uint32_t *up, *price; /* as in struct spot_task */
};

/* False: there is no room for one more zone, or no price was recorded. */
bool spot_field_open(struct spot_field *ret, const struct spot_group *group, uint32_t mask,
                     enum spot_variation variation);
void spot_field_close(struct spot_field *field);
/* Of one start, in ticks. */
uint32_t spot_changeover(uint32_t whole, enum spot_variation variation);

#endif
