/* Following the job over the HTTP API, through restarts of the server.
 *
 * Role       watch_look() fetches what is new (decisions, committed steps, the job's row), appends
 *            it to the record and prints each event on a line of its own above the progress line. A
 *            server that does not answer is no error: what was missed is fetched when it is back.
 *            watch_collect() fetches everything once more at the end, in order, since a step may be
 *            reported after a later one.
 */
#ifndef SHOAL_DEMO_WATCH_H
#define SHOAL_DEMO_WATCH_H

#include "cli/client.h"
#include "cli/follow.h"
#include "demo/show.h"

struct watch {
    struct client *client;
    struct record *record;
    const struct term *term;
    struct live live;
    json_int_t job, last_decision, last_step; /* last_step -1: none */
    json_t *job_row;                          /* newest row of the job; NULL: none yet */
    json_t *seen_workers;                     /* those that took part in a step */
    struct follow follow;
    int64_t shown_us, heard_us;
    bool is_away, tells_orders; /* orders of the first fill are shown as a table instead */
};

bool watch_open(struct watch *watch, struct client *client, struct record *record,
                const struct term *term, struct error *ret_error) WARN_UNUSED;
void watch_close(struct watch *watch);

/* false: the job has failed, was refused, or the server was away for too long. */
bool watch_look(struct watch *watch, struct error *ret_error) WARN_UNUSED;
bool watch_is_done(const struct watch *watch);
json_int_t watch_steps_done(const struct watch *watch);
/* The progress line; on no terminal at most every few seconds. */
void watch_show(struct watch *watch);
/* A line of the demo's own doing: "  0:41  ! the server is killed". */
void watch_tell(struct watch *watch, const char *sentence);

bool watch_collect(struct watch *watch, struct error *ret_error) WARN_UNUSED;

#endif
