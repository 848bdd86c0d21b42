#include "server/stream.h"
#include "base/mem.h"
#include "codec/json.h"
#include <stdio.h>
#include <string.h>

struct client {
    stream *s;
    struct client *next, *previous;
    request *r;
    bool is_ending;      /* nothing is added any more; the stream ends after what is buffered */
    size_t start, count; /* ring */
    char buffer[STREAM_BUFFER_BYTES];
};

struct stream {
    struct client *clients;
    struct stream_stats stats;
    uv_timer_t ping;
    void (*closed)(void *arg);
    void *closed_arg;
};

static const char dropped_text[] =
    "event: dropped\ndata: {\"reason\":\"this client reads too slowly; connect again and read what "
    "it missed from /v1/decisions and /v1/ledger\"}\n\n";

static bool put(struct client *c, const char *text, size_t count)
{
    if (count > sizeof c->buffer - c->count) return false;
    size_t at = (c->start + c->count) % sizeof c->buffer;
    size_t first = count < sizeof c->buffer - at ? count : sizeof c->buffer - at;
    memcpy(c->buffer + at, text, first);
    memcpy(c->buffer, text + first, count - first);
    c->count += count;
    return true;
}

static int64_t on_read(void *arg, char *bytes, size_t bytes_max)
{
    struct client *c = arg;
    if (c->count == 0) return c->is_ending ? -1 : 0;
    size_t count = c->count < bytes_max ? c->count : bytes_max;
    size_t first = sizeof c->buffer - c->start;
    if (first > count) first = count;
    memcpy(bytes, c->buffer + c->start, first);
    memcpy(bytes + first, c->buffer, count - first);
    c->start = (c->start + count) % sizeof c->buffer;
    c->count -= count;
    return (int64_t)count;
}

static void on_closed(void *arg)
{
    struct client *c = arg;
    if (c->previous != NULL)
        c->previous->next = c->next;
    else
        c->s->clients = c->next;
    if (c->next != NULL) c->next->previous = c->previous;
    c->s->stats.clients--;
    mem_free(c);
}

/* Keeps room for the goodbye: a client whose next event does not fit gets that instead. */
static void send_text(struct client *c, const char *text, size_t count)
{
    if (c->is_ending) return;
    if (count + sizeof dropped_text > sizeof c->buffer - c->count) {
        c->s->stats.dropped_total++;
        c->is_ending = true;
        (void)put(c, dropped_text, sizeof dropped_text - 1); /* room was kept */
    } else {
        (void)put(c, text, count); /* fits, as just checked */
    }
    request_stream_wake(c->r);
}

static void on_ping(uv_timer_t *timer)
{
    stream *s = timer->data;
    for (struct client *c = s->clients; c != NULL; c = c->next) send_text(c, ":\n\n", 3);
}

stream *stream_open(uv_loop_t *loop, struct error *ret_error)
{
    stream *s = mem_zalloc(1, sizeof *s);
    if (s == NULL) {
        (void)error_set(ret_error, "out of memory for the event stream");
        return NULL;
    }
    (void)uv_timer_init(loop, &s->ping); /* always works */
    s->ping.data = s;
    (void)uv_timer_start(&s->ping, on_ping, STREAM_PING_MS, STREAM_PING_MS);
    return s;
}

bool stream_has_clients(const stream *s)
{
    return s->clients != NULL;
}

void stream_add(stream *s, request *r)
{
    struct client *c = s->stats.clients >= STREAM_CLIENTS_MAX
                           ? NULL
                           : mem_alloc(sizeof *c); /* large: not zeroed */
    if (c == NULL) {
        request_fail(r, 503, "the server already has %llu listeners; close one and try again",
                     (unsigned long long)s->stats.clients);
        return;
    }
    c->s = s;
    c->r = r;
    c->is_ending = false;
    c->start = c->count = 0;
    c->previous = NULL;
    c->next = s->clients;
    if (s->clients != NULL) s->clients->previous = c;
    s->clients = c;
    s->stats.clients++;
    (void)put(c, ": shoal\n\n", 9); /* something at once, so that the client knows it is on */
    request_reply_stream(
        r, &(struct request_stream){
               .type = "text/event-stream", .read = on_read, .closed = on_closed, .arg = c});
}

void stream_send(stream *s, const char *event, json_t *data)
{
    char *text = json_finish_text(data, data == NULL);
    char *whole = text == NULL ? NULL : mem_printf("event: %s\ndata: %s\n\n", event, text);
    mem_free(text);
    if (whole == NULL) return;
    size_t count = strlen(whole);
    for (struct client *c = s->clients; c != NULL; c = c->next) send_text(c, whole, count);
    mem_free(whole);
}

void stream_stats_read(const stream *s, struct stream_stats *ret_stats)
{
    *ret_stats = s->stats;
}

void stream_end_all(stream *s)
{
    for (struct client *c = s->clients; c != NULL; c = c->next) {
        c->is_ending = true;
        request_stream_wake(c->r);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    stream *s = handle->data;
    void (*closed)(void *arg) = s->closed;
    void *arg = s->closed_arg;
    mem_free(s);
    closed(arg);
}

void stream_close(stream *s, void (*closed)(void *arg), void *arg)
{
    s->closed = closed;
    s->closed_arg = arg;
    uv_close((uv_handle_t *)&s->ping, on_handle_closed);
}
