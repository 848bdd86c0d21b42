/* A modelled world around a pool: providers, agents and workers that answer its commands, as far as
 * possible as the journal says that they did.
 *
 * Known      A node of an offer of which the record held a node at the same time shares its fate: it
 *            is taken when that was, and not before. Each recorded life serves one node at a time,
 *            the node of the same key first.
 * Modelled   Where no recorded life runs, a node lives as the lives of the journal let expect of its
 *            age (server/survival.h): the rates of loss are drawn anew for each seed, as wide as
 *            little is known, then the end of each node. Boots, starts and stops of workers are
 *            drawn from those recorded. Which draw a node gets depends on the seed, its offer and
 *            its number there, so that two policies meet the same luck.
 * Work       Goes on in proportion to the NCU that run (facts.h). A lost node costs an elastic job
 *            nothing but its share as long as one worker is left, else the way back to its last
 *            checkpoint; any other job goes back there.
 * Not in it  Crashes and failures of programs, stalls, drains by an operator, networks.
 */
#ifndef SHOAL_SERVER_WORLD_H
#define SHOAL_SERVER_WORLD_H

#include "server/facts.h"
#include "server/survival.h"

typedef struct world world;

struct world_sums {
    int64_t known_us, modelled_us; /* node time whose fate was */
};

/* Survival of each offer; `curves` by offer number. Takes over the nodes of p. NULL: no memory. */
world *world_open(const struct facts *facts, const struct survival_curve *curves, uint64_t seed,
                  const pool *p);
void world_close(world *w);

void world_told(world *w, uint64_t offer_id, uint32_t total); /* that many nodes in all */
uint32_t world_stock(const world *w, uint64_t offer_id);      /* of them not held */
void world_obey(world *w, const pool *p, const struct pool_output *out, int64_t now_us);
int64_t world_next_us(const world *w); /* INT64_MAX: nothing is due */
/* The next event that is due by then; seq and version are left 0. false: none. */
bool world_next(world *w, int64_t now_us, struct pool_event *ret_event);
bool world_failed(const world *w); /* out of memory: the run means nothing */
struct world_sums world_end(world *w, int64_t now_us);

#endif
