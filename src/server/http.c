#include "server/http.h"
#include "base/clock.h"
#include "base/mem.h"
#include "codec/json.h"
#include "core/assert.h"
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/http_listen.h"

enum {
    RUNS_PER_WAKE_MAX = 64,
    CLOSE_RUNS_MAX = 256,
    STREAM_BLOCK_BYTES = 16 * 1024,
    STREAM_SEND_BYTES = 64 * 1024
};

const int64_t http_latency_bounds_us[HTTP_LATENCY_BUCKETS - 1] = {
    500, 1000, 2500, 5000, 10000, 25000, 100000, 500000, 2500000};

struct http {
    struct http_options options;
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t timer;
    uint32_t handles_open;
    request *requests; /* all that are alive */
    struct http_stats stats;
    char url[HTTP_URL_BYTES];
    void (*closed)(void *arg);
    void *closed_arg;
};

struct request {
    http *h;
    request *next, *previous;
    struct MHD_Connection *connection;
    const struct route *route;
    uint64_t id;
    char *body;
    size_t body_bytes, body_capacity;
    bool body_is_endless; /* declared far too large: not even read to the end */
    int64_t started_us;
    struct MHD_Response *response; /* the answer, until it is queued */
    unsigned status;
    bool is_handled, is_suspended, is_queued;
    struct request_stream stream;
};

/* Answers. */

static void on_timer(uv_timer_t *timer);

/* The daemon notices a resumed connection only when it runs; from outside it must be told to. */
static void resume(request *r)
{
    r->is_suspended = false;
    MHD_resume_connection(r->connection);
    (void)uv_timer_start(&r->h->timer, on_timer, 0 /* ms */, 0 /* once */);
}

static void set_response(request *r, unsigned status, struct MHD_Response *response,
                         const char *type)
{
    ASSERT(r->response == NULL);
    ASSERT(!r->is_queued);
    if (response != NULL) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
        (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    } /* a header that finds no memory is left out: the answer still says what it says */
    r->status = status;
    r->response = response;
    if (r->is_suspended) resume(r);
}

void request_reply(request *r, unsigned status, const char *type, char *text, size_t bytes)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(bytes, text, mem_free);
    if (response == NULL) mem_free(text);
    set_response(r, status, response, type);
}

void request_reply_static(request *r, const char *type, const void *bytes, size_t count)
{
    /* The cast drops const for a call that only reads (persistent memory). */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(count, (void *)(uintptr_t)bytes, MHD_RESPMEM_PERSISTENT);
    set_response(r, MHD_HTTP_OK, response, type);
}

void request_reply_json(request *r, unsigned status, json_t *body)
{
    static const char no_memory[] = "{\"error\":\"out of memory for this answer; try again\"}";
    char *text = json_finish_text(body, body == NULL);
    if (text != NULL) {
        request_reply(r, status, "application/json", text, strlen(text));
        return;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof no_memory - 1, (void *)(uintptr_t)no_memory, MHD_RESPMEM_PERSISTENT);
    set_response(r, MHD_HTTP_INTERNAL_SERVER_ERROR, response, "application/json");
}

/* Outside text may hold anything; JSON wants UTF-8, a person wants one line. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f) *text = '?';
}

void request_fail(request *r, unsigned status, const char *format, ...)
{
    struct error error;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error.text, sizeof error.text, format, args); /* cut is fine */
    va_end(args);
    json_t *body = json_pack("{s:s}", "error", error.text);
    if (body == NULL) {
        make_printable(error.text);
        body = json_pack("{s:s}", "error", error.text);
    }
    request_reply_json(r, status, body);
}

/* Streams. */

static ssize_t stream_read(void *cls, uint64_t position, char *bytes, size_t bytes_max)
{
    request *r = cls;
    (void)position; /* streams are read in order */
    int64_t count = r->stream.read(r->stream.arg, bytes, bytes_max);
    if (count < 0) return MHD_CONTENT_READER_END_OF_STREAM;
    if (count == 0) {
        MHD_suspend_connection(r->connection);
        r->is_suspended = true;
    }
    return (ssize_t)count;
}

/* What a client has not read should wait in the stream's own bounded buffer, not in the kernel's,
 * which grows to megabytes for each. */
static void limit_send_buffer(const request *r)
{
    int bytes = STREAM_SEND_BYTES;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != NULL) /* without it: a larger buffer */
        (void)setsockopt(info->connect_fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void request_reply_stream(request *r, const struct request_stream *stream)
{
    r->stream = *stream;
    limit_send_buffer(r);
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, stream_read, r, NULL /* nothing to free */);
    set_response(r, MHD_HTTP_OK, response, stream->type);
}

void request_stream_wake(request *r)
{
    if (r->is_queued && r->is_suspended) resume(r);
}

/* Requests. */

void *request_host(const request *r)
{
    return r->h->options.host;
}

const struct route *request_route(const request *r)
{
    return r->route;
}

uint64_t request_id(const request *r)
{
    return r->id;
}

const char *request_body(const request *r, size_t *ret_bytes)
{
    *ret_bytes = r->body_bytes;
    return r->body == NULL ? "" : r->body;
}

const char *request_query(const request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *request_header(const request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

bool request_query_u64(request *r, const char *name, uint64_t absent, uint64_t max,
                       uint64_t *ret_value)
{
    const char *text = request_query(r, name);
    uint64_t value = 0;
    *ret_value = absent;
    if (text == NULL) return true;
    size_t digits = strspn(text, "0123456789");
    bool good = digits > 0 && digits <= 19 && text[digits] == '\0';
    for (size_t i = 0; good && i < digits; i++) value = value * 10 + (uint64_t)(text[i] - '0');
    if (good && value <= max) {
        *ret_value = value;
        return true;
    }
    request_fail(r, MHD_HTTP_BAD_REQUEST, "query %s=%.40s: expected a number of at most %llu", name,
                 text, (unsigned long long)max);
    return false;
}

static enum MHD_Result check_query(void *cls, enum MHD_ValueKind kind, const char *key,
                                   const char *value)
{
    request *r = cls;
    (void)kind; /* only arguments are visited */
    (void)value;
    if (route_takes_query(r->route, key)) return MHD_YES;
    request_fail(r, MHD_HTTP_BAD_REQUEST, "query argument \"%.60s\" is not known; %s takes %s", key,
                 r->route->path, r->route->query[0] == '\0' ? "none" : r->route->query);
    return MHD_NO;
}

/* Method, path and token, before any of the body is kept. An answer here ends it. */
static void check_route(request *r, const char *method, const char *url)
{
    struct route_match match;
    switch (route_match(method, url, &match)) {
    case ROUTE_FOUND: break;
    case ROUTE_NO_PATH:
        request_fail(r, MHD_HTTP_NOT_FOUND, "no such path: %.200s; see GET /openapi.json", url);
        return;
    case ROUTE_BAD_ID:
        request_fail(r, MHD_HTTP_BAD_REQUEST, "%.200s: the id must be a number", url);
        return;
    case ROUTE_NO_METHOD:
        request_fail(r, MHD_HTTP_METHOD_NOT_ALLOWED, "%.20s is not possible on %.200s; use %s",
                     method, url, match.methods);
        if (r->response != NULL)
            (void)MHD_add_response_header(r->response, MHD_HTTP_HEADER_ALLOW, match.methods);
        return;
    }
    r->route = match.route;
    r->id = match.id;
}

static void check_token(request *r)
{
    if (r->route->access == ROUTE_OPEN) return;
    enum auth_role role =
        auth_role_of(r->h->options.auth, request_header(r, MHD_HTTP_HEADER_AUTHORIZATION));
    enum auth_role wanted = r->route->access == ROUTE_AGENTS ? AUTH_AGENT : AUTH_PERSON;
    if (role == wanted) return;
    const char *file = wanted == AUTH_AGENT ? "agent-token" : "token";
    if (role == AUTH_NOBODY)
        request_fail(r, MHD_HTTP_UNAUTHORIZED,
                     "no valid token; send \"Authorization: Bearer TOKEN\" with the content of "
                     "the file %s in the server's data folder",
                     file);
    else
        request_fail(r, MHD_HTTP_FORBIDDEN, "this token may not call %s; use the one in %s",
                     r->route->path, file);
    if (r->response != NULL && role == AUTH_NOBODY)
        (void)MHD_add_response_header(r->response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
}

/* A body somewhat too large is read and forgotten, so that the client gets to see the answer. */
static size_t body_read_max(const request *r)
{
    size_t max = r->route == NULL ? 0 : r->route->body_bytes_max;
    return 2 * max + HTTP_HEADER_BYTES_MAX;
}

static void check_body_limit(request *r)
{
    const char *text = request_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    size_t max = r->route->body_bytes_max;
    if (text == NULL) return; /* chunked: counted as it comes */
    unsigned long long bytes = strlen(text) > 18 ? ~0ull : strtoull(text, NULL, 10);
    r->body_is_endless = bytes > body_read_max(r);
    if (bytes > max && max == 0)
        request_fail(r, MHD_HTTP_CONTENT_TOO_LARGE, "%s %s takes no body", r->route->method,
                     r->route->path);
    else if (bytes > max)
        request_fail(r, MHD_HTTP_CONTENT_TOO_LARGE,
                     "the body has %llu bytes, %s takes at most %zu; make it smaller", bytes,
                     r->route->path, max);
}

static request *request_begin(http *h, struct MHD_Connection *connection, const char *method,
                              const char *url)
{
    request *r = mem_zalloc(1, sizeof *r);
    if (r == NULL) return NULL;
    r->h = h;
    r->connection = connection;
    r->started_us = clock_monotonic_us();
    r->next = h->requests;
    if (h->requests != NULL) h->requests->previous = r;
    h->requests = r;
    h->stats.requests_total++;
    check_route(r, method, url);
    if (r->response == NULL) check_token(r);
    if (r->response == NULL)
        (void)MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, check_query, r);
    if (r->response == NULL) check_body_limit(r);
    return r;
}

/* Keeps a piece of the body. What is too much is answered when the client has sent it all, since
 * an answer in the middle is not possible; a client that never stops is cut off. */
static enum MHD_Result keep_body(request *r, const char *data, size_t *bytes)
{
    size_t count = *bytes, max = r->route == NULL ? 0 : r->route->body_bytes_max;
    *bytes = 0;
    r->body_bytes += count;
    if (r->body_bytes > body_read_max(r)) return MHD_NO;
    if (r->response != NULL) return MHD_YES; /* already refused: read on and forget */
    if (r->body_bytes > max) {
        request_fail(r, MHD_HTTP_CONTENT_TOO_LARGE,
                     "the body is larger than the %zu bytes %s takes", max, r->route->path);
        return MHD_YES;
    }
    if (r->body_bytes + 1 > r->body_capacity) {
        size_t capacity = r->body_bytes + 1 < 4096 ? 4096 : 2 * (r->body_bytes + 1);
        char *body = mem_realloc(r->body, capacity);
        if (body == NULL) return MHD_NO; /* no memory for the body: none for an answer either */
        r->body = body;
        r->body_capacity = capacity;
    }
    memcpy(r->body + r->body_bytes - count, data, count);
    r->body[r->body_bytes] = '\0';
    return MHD_YES;
}

static enum MHD_Result queue_answer(request *r)
{
    if (r->status == 0 || r->response == NULL) return MHD_NO; /* out of memory: hang up */
    enum MHD_Result result = MHD_queue_response(r->connection, r->status, r->response);
    MHD_destroy_response(r->response); /* the queue holds its own reference */
    r->response = NULL;
    r->is_queued = true;
    return result;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *bytes, void **req_cls)
{
    http *h = cls;
    request *r = *req_cls;
    (void)version; /* libmicrohttpd speaks 1.0 and 1.1 */
    if (r == NULL) {
        r = request_begin(h, connection, method, url);
        *req_cls = r;
        if (r == NULL) return MHD_NO;
        return r->body_is_endless && r->status != 0 ? queue_answer(r) : MHD_YES;
    }
    if (*bytes > 0) return keep_body(r, data, bytes);
    if (r->status == 0 && !r->is_handled) {
        r->is_handled = true;
        h->options.handle(h->options.host, r);
    }
    if (r->status != 0) return queue_answer(r);
    MHD_suspend_connection(connection);
    r->is_suspended = true;
    return MHD_YES;
}

static void count_answer(http *h, const request *r)
{
    if (r->stream.read != NULL || r->status / 100 > 5) return; /* a stream has no latency */
    h->stats.by_class[r->status / 100]++;
    int64_t latency_us = clock_monotonic_us() - r->started_us;
    uint32_t bucket = 0;
    while (bucket < HTTP_LATENCY_BUCKETS - 1 && latency_us > http_latency_bounds_us[bucket])
        bucket++;
    h->stats.latency_counts[bucket]++;
    h->stats.latency_sum_us += (uint64_t)latency_us;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **req_cls,
                         enum MHD_RequestTerminationCode code)
{
    http *h = cls;
    request *r = *req_cls;
    (void)connection;
    (void)code; /* sent or hung up: either way it is over */
    if (r == NULL) return;
    count_answer(h, r);
    if (r->stream.closed != NULL) r->stream.closed(r->stream.arg);
    if (r->previous != NULL)
        r->previous->next = r->next;
    else
        h->requests = r->next;
    if (r->next != NULL) r->next->previous = r->previous;
    if (r->response != NULL) MHD_destroy_response(r->response);
    mem_free(r->body);
    mem_free(r);
    *req_cls = NULL;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    http *h = cls;
    (void)connection;
    (void)socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        h->stats.connections++;
    else
        h->stats.connections--;
}

/* The loop. */

static void run_daemon(http *h);

static void on_timer(uv_timer_t *timer)
{
    run_daemon(timer->data);
}

/* All that is ready now, so that requests that came together share one commit. */
static void run_daemon(http *h)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    enum MHD_Result waits = MHD_NO;
    for (int i = 0; i < RUNS_PER_WAKE_MAX; i++) {
        (void)MHD_run(h->daemon); /* fails only if it was not started this way */
        waits = MHD_get_timeout(h->daemon, &timeout_ms);
        if (waits != MHD_YES || timeout_ms > 0) break;
    }
    if (waits == MHD_YES)
        (void)uv_timer_start(&h->timer, on_timer, timeout_ms, 0 /* once */);
    else
        (void)uv_timer_stop(&h->timer);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status; /* trouble of the descriptor shows in MHD_run too */
    (void)events;
    run_daemon(poll->data);
}

static bool start_daemon(http *h, int listen_fd, struct error *ret_error)
{
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0 /* port: by the socket */, NULL, NULL,
        on_access, h, MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)HTTP_IDLE_SECONDS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HTTP_HEADER_BYTES_MAX, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_END);
    if (h->daemon == NULL) {
        (void)close(listen_fd); /* nothing came in yet */
        return error_set(ret_error, "cannot start the HTTP server on %s", h->url);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    (void)uv_timer_init(h->options.loop, &h->timer); /* always works */
    h->timer.data = h->poll.data = h;
    int failed = uv_poll_init(h->options.loop, &h->poll, info->epoll_fd);
    if (failed == 0) failed = uv_poll_start(&h->poll, UV_READABLE, on_poll);
    return failed == 0 ||
           error_set(ret_error, "cannot watch the HTTP server's sockets: %s", uv_strerror(failed));
}

http *http_open(const struct http_options *options, struct error *ret_error)
{
    http *h = mem_zalloc(1, sizeof *h);
    if (h == NULL) {
        (void)error_set(ret_error, "out of memory for the HTTP server");
        return NULL;
    }
    h->options = *options;
    int fd = http_listen(options->listen, options->allow_remote, h->url, ret_error);
    if (fd >= 0 && start_daemon(h, fd, ret_error)) return h;
    mem_free(h); /* a loop that lacks memory for a poll ends with the process */
    return NULL;
}

const char *http_url(const http *h)
{
    return h->url;
}

void http_stats_read(const http *h, struct http_stats *ret_stats)
{
    *ret_stats = h->stats;
}

static void on_handle_closed(uv_handle_t *handle)
{
    http *h = handle->data;
    if (--h->handles_open > 0) return;
    void (*closed)(void *arg) = h->closed;
    void *arg = h->closed_arg;
    mem_free(h);
    closed(arg);
}

void http_close(http *h, void (*closed)(void *arg), void *arg)
{
    for (request *r = h->requests; r != NULL; r = r->next) {
        if (!r->is_suspended) continue;
        if (r->is_queued)
            request_stream_wake(r);
        else
            request_fail(r, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping; try again");
    }
    for (int i = 0; i < CLOSE_RUNS_MAX && h->requests != NULL; i++) (void)MHD_run(h->daemon);
    (void)uv_poll_stop(&h->poll);
    MHD_stop_daemon(h->daemon);
    h->closed = closed;
    h->closed_arg = arg;
    h->handles_open = 2;
    uv_close((uv_handle_t *)&h->poll, on_handle_closed);
    uv_close((uv_handle_t *)&h->timer, on_handle_closed);
}
