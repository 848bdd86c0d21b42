/* Progress rows of the workers on their way to the server, and the newest checkpoint of each job.
 *
 * Role       Keeps each row until a reply acknowledges it. A row is acknowledged only by the reply
 *            to a report that held it: the step number alone would also cover rows of another job.
 * Full       PROGRESS_QUEUE_MAX rows: the oldest goes, counted in dropped_count, which the agent
 *            logs. At 18 steps a second that is a server away for an hour.
 * Memory     Grows with the rows: an empty queue begins anew at the front of its ring, whose further
 *            pages are never touched while the server answers.
 */
#ifndef SHOAL_AGENT_PROGRESS_QUEUE_H
#define SHOAL_AGENT_PROGRESS_QUEUE_H

#include "codec/worker_line.h"

enum { PROGRESS_QUEUE_MAX = 65536 };

struct progress_queue {
    struct worker_line *rows; /* ring, owned */
    uint64_t first, end;      /* positions: first <= n < end */
    uint64_t sent_end;        /* rows below this are in the report that is under way */
    uint64_t dropped_count;
    struct report_ckpt ckpts[REPORT_CKPTS_MAX]; /* a level per job */
    uint32_t ckpt_count;
};

bool progress_queue_open(struct progress_queue *queue);
void progress_queue_close(struct progress_queue *queue);
void progress_queue_add(struct progress_queue *queue, struct worker_line *row); /* takes it over */
void progress_queue_ckpt(struct progress_queue *queue, uint64_t job, uint64_t step);

/* Oldest rows first, borrowed until the next call; they count as sent. */
uint32_t progress_queue_send(struct progress_queue *queue, struct report_progress *ret_rows,
                             uint32_t rows_max);
/* The reply to that report: rows up to this step are stored. */
void progress_queue_acknowledge(struct progress_queue *queue, uint64_t after);

#endif
