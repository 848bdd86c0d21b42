/* Who ranks the offers of a world in place of the pool: told to it as a server tells the ranking of its site
 * (core/ranking.h). Inside src/whatif only.
 *
 * Learned    A network (codec/rank_net.h), every RANK_EVERY_US and whenever the market has moved; in a
 *            server it is every few seconds.
 * Foresight  What one would say who knows the future, before each change is heard: a bound for what a
 *            ranking could save (foresight.c).
 */
#ifndef SHOAL_WHATIF_RANKER_H
#define SHOAL_WHATIF_RANKER_H

#include "whatif/world.h"

void ranker_before(struct world *w, uint32_t offer); /* the pool will hear of a change of it next */
void ranker_tell(struct world *w);                   /* what has changed */
void ranker_on(struct world *w);                     /* the time has come */

/* foresight.c */
uint32_t foresight_factor_ppm(const struct world *w, uint32_t offer);

#endif
