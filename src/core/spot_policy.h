/* Where a job with a deadline runs next: on spot, on guaranteed capacity, or not at all.
 *
 * Role       Pure. Once a tick, from the table (spot_table.h) and what is up (spot_life.h).
 * Guarantee  If the job was begun with time left >= work + changeover, and on-demand capacity is to
 *            be had, it ends by its deadline, whatever the market does and whatever the table says:
 *            not on spot and slack <= 2 changeover + 1 (and what is left of a start under way on
 *            demand): on-demand, and never left. Spot is begun or changed only with slack >= 2
 *            changeover + 2; a start burns at most a changeover of it, progress keeps it, so at a
 *            loss an on-demand start still fits.
 * Guard      While something is up, waiting is not an answer.
 * Choice     Of the zones of the best class the one up longest; with a job on a zone, a move only to a higher class.
 */
#ifndef SHOAL_CORE_SPOT_POLICY_H
#define SHOAL_CORE_SPOT_POLICY_H

#include "core/spot_table.h"

enum spot_place { SPOT_IDLE, SPOT_ON_ZONE, SPOT_ON_DEMAND };

struct spot_job {
    uint32_t work_left, time_left; /* ticks; time_left of this one and later ones */
    enum spot_place place;
    uint32_t zone;          /* with SPOT_ON_ZONE */
    uint32_t starting_left; /* ticks of its changeover still to come */
};

struct spot_choice {
    enum spot_place place;
    uint32_t zone;
    bool forced;                        /* by the guarantee, not by the table */
    int64_t wait, on_demand, spot_cost; /* expected cost of each, 0 = not weighed; SPOT_NEVER: not
                                           to be had */
};

/* On spot whose zone is down: as idle. */
struct spot_choice spot_choose(const struct spot_table *table, const struct spot_classes *classes,
                               const uint32_t *age, uint32_t down_ticks,
                               const struct spot_job *job);

#endif
