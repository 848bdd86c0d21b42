/* A few threads that do the same task on different shares, and sleep in between.
 *
 * Role       slot.c computes parts of a batch with it, trainer.c applies the optimizer.
 * Threads    Member 0 is the caller's thread. Not re-entrant: one task at a time, from one thread.
 */
#ifndef SHOAL_EXAMPLES_LM_CREW_H
#define SHOAL_EXAMPLES_LM_CREW_H

#include "base/error.h"
#include <stdint.h>

enum { CREW_MAX = 64 };

struct crew;
typedef void crew_task(void *context, uint32_t member);

struct crew *crew_make(uint32_t count, struct error *ret_error); /* 1 .. CREW_MAX members */
void crew_free(struct crew *crew);
uint32_t crew_count(const struct crew *crew);
/* Runs task(context, member) once on each member and returns when all are done. */
void crew_run(struct crew *crew, crew_task *task, void *context);

#endif
