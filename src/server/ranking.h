/* The site's own ranking of offers (`ranking` in shoal.yaml): an expression, or a program.
 *
 * Role       Every `every` what each offer counts as is found out anew, and what has changed is pushed as
 *            OFFERS_RANKED (core/ranking.h): so a replay needs neither.
 * Program    Started in the folder of shoal.yaml, asked by a line of JSON on its standard input and
 *            answering by one on its standard output (codec/rank_answer.h); its standard error is ours.
 * Fallback   No answer within `timeout`, an end, or nonsense: it is killed, the built-in ranking counts,
 *            and log, metrics and a decision say so, once each time that it begins. It is started again
 *            after 200 ms, later after up to 5 min, until it answers.
 * Threads    All on the loop.
 */
#ifndef SHOAL_SERVER_RANKING_H
#define SHOAL_SERVER_RANKING_H

#include "core/event.h"
#include <stdbool.h>
#include <uv.h>

struct server;
struct ranking_child; /* a program that runs, or is being buried */

struct ranking {
    struct server *server;
    uv_timer_t timer;
    struct ranking_child *child; /* NULL: none runs */
    uint64_t round;
    int64_t next_us, retry_us, backoff_us; /* monotonic */
    uint32_t state;                        /* enum ranking_state, as pushed last */
    uint64_t rounds, failures[RANKING_STATE_END]; /* since the start */
    bool is_open;
};

/* Before the first definition is pushed: whose ranking counts from now on. */
const char *ranking_begin(struct ranking *r, struct server *s);
void ranking_open(struct ranking *r); /* offers may come now */
void ranking_close(struct ranking *r); /* its handles close on the loop */

#endif
