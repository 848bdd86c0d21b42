/* HTTP for the server: libmicrohttpd driven by our libuv loop, one thread.
 *
 * Role       Reads a whole request within its limits, finds its route, checks the token, and calls
 *            the host's handler once. The handler answers at once, or keeps the request and answers
 *            later: until then the connection is suspended and costs nothing.
 * Answers    Exactly one request_reply*() or request_fail() per request; the request may be freed
 *            any time after it. Until it is answered it stays, even if the client is gone.
 * Limits     Below; beyond one the client gets 4xx and a sentence.
 * Errors     Every error body is {"error":"one sentence: what, where, what to do"}.
 */
#ifndef SHOAL_SERVER_HTTP_H
#define SHOAL_SERVER_HTTP_H

#include "base/error.h"
#include "server/auth.h"
#include "server/router.h"
#include <jansson.h>
#include <uv.h>

enum {
    HTTP_CONNECTIONS_MAX = 8192,
    HTTP_HEADER_BYTES_MAX = 32 * 1024, /* of one request, with the answer's headers */
    HTTP_IDLE_SECONDS_MAX = 60,        /* a connection on which nothing moves is closed */
    HTTP_LATENCY_BUCKETS = 10,
    HTTP_URL_BYTES = 128,
};

typedef struct http http;
typedef struct request request;
struct MHD_Response;

typedef void http_handler_fn(void *host, request *r);

struct http_options {
    uv_loop_t *loop;
    const char *listen; /* "127.0.0.1:7070", "[::1]:0"; port 0: the system chooses */
    bool allow_remote;  /* may listen beyond loopback */
    const struct auth *auth;
    http_handler_fn *handle;
    void *host;
};

struct http_stats {
    uint64_t requests_total, connections;
    uint64_t by_class[6];                          /* [2] = 2xx ... */
    uint64_t latency_counts[HTTP_LATENCY_BUCKETS]; /* see http_latency_bounds_us, last = beyond */
    uint64_t latency_sum_us;
};
extern const int64_t http_latency_bounds_us[HTTP_LATENCY_BUCKETS - 1];

http *http_open(const struct http_options *options, struct error *ret_error) WARN_UNUSED;
const char *http_url(const http *h); /* with the real port */
void http_stats_read(const http *h, struct http_stats *ret_stats);

/* Answers everything still open with 503, sends what can be sent without waiting, stops. `closed`
 * comes from the loop; after it h is freed. */
void http_close(http *h, void (*closed)(void *arg), void *arg);

void *request_host(const request *r); /* of http_options */
const struct route *request_route(const request *r);
uint64_t request_id(const request *r);                          /* the {id} of the path */
const char *request_body(const request *r, size_t *ret_bytes);  /* 0-terminated */
const char *request_query(const request *r, const char *name);  /* NULL: not given */
const char *request_header(const request *r, const char *name); /* NULL: not given */
/* A number of the query. false: it is none, and the request has been answered with 400. */
bool request_query_u64(request *r, const char *name, uint64_t absent, uint64_t max,
                       uint64_t *ret_value) WARN_UNUSED;

void request_reply(request *r, unsigned status, const char *type, char *text, size_t bytes);
void request_reply_static(request *r, const char *type, const void *bytes, size_t count);
void request_reply_json(request *r, unsigned status, json_t *body); /* takes body; NULL: 500 */
void request_fail(request *r, unsigned status, const char *format, ...) PRINTF_LIKE(3, 4);

/* An endless answer. `read` fills up to `bytes_max` and returns the count, 0 = nothing now (then
 * request_stream_wake() when there is more), -1 = end. `closed` comes once, when the client is gone
 * or the stream has ended; the request must not be used after it. */
struct request_stream {
    const char *type;
    int64_t (*read)(void *arg, char *ret_bytes, size_t bytes_max);
    void (*closed)(void *arg);
    void *arg;
};
void request_reply_stream(request *r, const struct request_stream *stream);
void request_stream_wake(request *r);

#endif
