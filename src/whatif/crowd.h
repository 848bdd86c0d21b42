/* Many worlds on all processors: each case with each seed. Inside src/whatif only.
 *
 * Order      Results lie by case, then seed, whatever thread ran which: the same bytes with any number
 *            of threads.
 */
#ifndef SHOAL_WHATIF_CROWD_H
#define SHOAL_WHATIF_CROWD_H

#include "whatif/world.h"

struct crowd {
    const struct scene *scene;
    const struct scene_case *cases;
    uint32_t case_count, first_seed, seed_count;
    uint32_t threads;         /* 0: one a processor */
    const char *progress;     /* a bar with this before it, on a terminal; NULL: none */
    struct outcome *outcomes; /* [case_count * seed_count], of crowd_run() */
    int64_t wall_us;
};

bool crowd_run(struct crowd *crowd, struct error *ret_error) WARN_UNUSED;
void crowd_free(struct crowd *crowd);
struct estimate crowd_estimate(const struct crowd *crowd, uint32_t c, uint32_t row,
                               enum measure measure);
/* Hours that jobs of a class waited, the mean of the seeds: their mean, or 95th percentile. */
double crowd_class_wait(const struct crowd *crowd, uint32_t c, uint32_t job_class, bool p95);
/* Jobs of the row that did not end though the world ended for them, mean of the seeds. A world that
 * ends with one group leaves the others where they are: those are none. */
double crowd_unfinished(const struct crowd *crowd, uint32_t c, uint32_t row);
/* NULL: all ended, in every seed. */
const struct unfinished *crowd_first_unfinished(const struct crowd *crowd, uint32_t c);
/* Whether less of the measure may mean that less was done: dollars and hours. */
bool crowd_needs_all(enum measure measure);
/* Deadlines missed beyond what the best of the finished cases missed, mean of the seeds. */
double crowd_later(const struct crowd *crowd, uint32_t c);
/* Case with the least cost of those that finished and missed no more deadlines than any other; case_count:
 * none, or the cases have not the same jobs. */
uint32_t crowd_cheapest(const struct crowd *crowd);
/* The claim's figure: the mean of case a, over the mean of case b if there is one. */
struct estimate crowd_claimed(const struct crowd *crowd, const struct scene_claim *claim);
/* False as well if it is about dollars or hours and the case that is to be small did not finish. */
bool crowd_holds(const struct crowd *crowd, const struct scene_claim *claim);

#endif
