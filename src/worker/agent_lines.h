/* Lines of text to and from the agent over its socket, never blocking. Used by net.c alone.
 *
 * Bounds     A line is at most AGENT_LINE_MAX_BYTES; a longer one is skipped. What the agent does not
 *            read waits up to 64 times that, then further lines are dropped: progress is repeated.
 */
#ifndef SHOAL_WORKER_AGENT_LINES_H
#define SHOAL_WORKER_AGENT_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { AGENT_LINE_MAX_BYTES = 1 << 20 };

struct agent_lines {
    int fd; /* -1: no agent, or it is gone */
    void *self;
    void (*on_line)(void *self, const char *line); /* without the newline */
    void (*on_gone)(void *self);
    char *in, *out;
    size_t in_count, out_count, out_bytes;
};

/* With fd and hooks set, the rest zero. False: out of memory. */
bool agent_lines_open(struct agent_lines *agent);
void agent_lines_close(struct agent_lines *agent);
void agent_lines_send(struct agent_lines *agent, const char *line); /* without the newline */
void agent_lines_flush(struct agent_lines *agent);
void agent_lines_read(struct agent_lines *agent);
bool agent_lines_all_sent(const struct agent_lines *agent);

#endif
