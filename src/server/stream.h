/* Server-sent events: what happens, told to everyone who listens on /v1/events.
 *
 * Role       stream_send() appends one event to the buffer of every client; the HTTP side drains
 *            it. A client that is slower than its buffer is told so and let go: it reads the rows
 *            it missed through /v1/decisions, /v1/ledger and progress.
 * Limits     STREAM_CLIENTS_MAX clients, STREAM_BUFFER_BYTES each.
 */
#ifndef SHOAL_SERVER_STREAM_H
#define SHOAL_SERVER_STREAM_H

#include "server/http.h"
#include <uv.h>

enum {
    STREAM_CLIENTS_MAX = 256,
    STREAM_BUFFER_BYTES = 256 * 1024,
    STREAM_PING_MS = 10000, /* a comment, so that a client that is gone is noticed */
};

typedef struct stream stream;

struct stream_stats {
    uint64_t clients, dropped_total;
};

stream *stream_open(uv_loop_t *loop, struct error *ret_error) WARN_UNUSED;
bool stream_has_clients(const stream *s); /* false: do not bother to make the JSON */

/* Answers the request with the stream, or with 503 when there are too many. */
void stream_add(stream *s, request *r);

/* Takes the JSON (NULL is passed over: out of memory loses a live event, never a row). */
void stream_send(stream *s, const char *event, json_t *data);

void stream_stats_read(const stream *s, struct stream_stats *ret_stats);

/* Ends every client's stream; call before http_close(). */
void stream_end_all(stream *s);
/* After http_close(): frees s when its timer is closed, then calls closed. */
void stream_close(stream *s, void (*closed)(void *arg), void *arg);

#endif
