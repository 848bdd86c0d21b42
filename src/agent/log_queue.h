/* Log lines of the workers on their way to the server.
 *
 * Role       Keeps lines, numbered from 1 in order of arrival, until the server has stored them.
 * Flood      A worker that writes more than LOG_QUEUE_BURST lines at once and LOG_QUEUE_PER_S after
 *            that loses the rest; a line in its place says how many. The same when the queue is
 *            full: the oldest go, and a line says so. Nothing is dropped without a word.
 * Text       Must be UTF-8 on the wire: bytes that are not are replaced by '?'. Control characters
 *            but tab likewise, so that a line cannot move a terminal's cursor.
 * Errors     Out of memory drops the line and counts it.
 */
#ifndef SHOAL_AGENT_LOG_QUEUE_H
#define SHOAL_AGENT_LOG_QUEUE_H

#include "codec/agent_report.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOG_QUEUE_LINES_MAX = 8192,
    LOG_QUEUE_LINE_BYTES_MAX = REPORT_LINE_MAX - 64, /* room for the remark that it was cut */
    LOG_QUEUE_BURST = 2000,
    LOG_QUEUE_PER_S = 500,
    LOG_QUEUE_REPORT_BYTES = 1 << 20, /* of lines in one report */
};

struct log_source {    /* one per worker, from zero */
    int64_t tokens_us; /* lines it may still write, each 1000000 / LOG_QUEUE_PER_S */
    int64_t seen_us;
    uint64_t dropped_count;
};

struct log_queue {
    struct report_log *lines; /* ring of LOG_QUEUE_LINES_MAX */
    char (*times)[25];
    uint64_t first, end;    /* numbers of the lines kept: first <= n < end */
    uint64_t sent_end;      /* lines below this were in a report */
    uint64_t dropped_count; /* of the oldest, not told yet */
};

bool log_queue_open(struct log_queue *queue);
void log_queue_close(struct log_queue *queue);

void log_queue_add(struct log_queue *queue, struct log_source *source, uint64_t job,
                   uint64_t worker, const char *stream, const char *line, size_t bytes, bool cut,
                   int64_t wall_us);

/* Lines not acknowledged yet, oldest first: at most lines_max, borrowed until the next call. They
 * count as sent. */
uint32_t log_queue_send(struct log_queue *queue, struct report_log *ret_lines, uint32_t lines_max);
/* The server has the lines up to and with this one; what was never sent stays, whatever it says. */
void log_queue_acknowledge(struct log_queue *queue, uint64_t after);

#endif
