#include "server/server.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/codec.h"
#include "server/lock.h"
#include "server/open.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { SWEEP_MS = 60000 };
#define SWEEP_SILENT_US INT64_C(600000000) /* rows of agents silent for 10 min are dropped */

/* Everything below runs on the loop, one part after the other: no new requests; those that wait for
 * a commit get their answer; then HTTP, the drivers, the last commit. */

static void on_loop_part_closed(void *arg)
{
    (void)arg; /* the loop ends by itself when its last handle is closed */
}

static void close_small_handles(struct server *s)
{
    if (!s->has_small_handles) return; /* the start failed before them */
    uv_close((uv_handle_t *)&s->signals[0], NULL);
    uv_close((uv_handle_t *)&s->signals[1], NULL);
    uv_close((uv_handle_t *)&s->sweep, NULL);
}

static void on_pump_closed(void *arg)
{
    struct server *s = arg;
    s->pump = NULL;
    stream_close(s->stream, on_loop_part_closed, s);
    close_small_handles(s);
}

static void on_providers_closed(void *arg)
{
    struct server *s = arg;
    pump_close(s->pump, on_pump_closed, s);
}

static void on_http_closed(void *arg)
{
    struct server *s = arg;
    ranking_close(&s->ranking);
    s->http = NULL;
    providers_close(&s->providers, !s->keep_nodes, on_providers_closed, s);
}

/* Every request that waited has been answered: the waiters of a batch are told in their order, and
 * since is_stopping api.c lets nobody wait any more. */
static void on_answered(void *arg, const char *error)
{
    struct server *s = arg;
    (void)error; /* a full disk does not keep us from stopping */
    stream_end_all(s->stream);
    http_close(s->http, on_http_closed, s);
}

static void on_signal(uv_signal_t *signal_handle, int number)
{
    struct server *s = signal_handle->data;
    if (s->is_stopping) return;
    s->is_stopping = true;
    log_line(LOG_INFO, "server", "stopping", "signal=%d nodes=%s", number,
             s->keep_nodes ? "kept" : "released");
    if (pump_wait(s->pump, on_answered, s)) return;
    log_line(LOG_ERROR, "server", "out of memory; stopping at once", "%s", "");
    exit(1); /* what was acknowledged is on disk */
}

static void on_sweep(uv_timer_t *timer)
{
    struct server *s = timer->data;
    agents_sweep(&s->agents, clock_monotonic_us() - SWEEP_SILENT_US);
    stalls_expire(&s->stalls, clock_monotonic_us(), server_stall_changed, s);
    pool_check(s->pool); /* a broken invariant stops here, before it is journaled on */
}

static bool start_small_handles(struct server *s, struct error *ret_error)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    (void)uv_timer_init(&s->loop, &s->sweep); /* these inits always work */
    (void)uv_signal_init(&s->loop, &s->signals[0]);
    (void)uv_signal_init(&s->loop, &s->signals[1]);
    s->has_small_handles = true;
    for (int i = 0; i < 2; i++) {
        s->signals[i].data = s;
        int failed = uv_signal_start(&s->signals[i], on_signal, numbers[i]);
        if (failed != 0)
            return error_set(ret_error, "cannot watch for signals: %s", uv_strerror(failed));
    }
    s->sweep.data = s;
    (void)uv_timer_start(&s->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    return true;
}

/* A start that failed half way: closes what was opened, in the same order as a stop. */
static void abandon(struct server *s)
{
    s->is_stopping = s->keep_nodes = true;
    if (s->http != NULL)
        http_close(s->http, on_http_closed, s);
    else if (s->stream != NULL)
        on_providers_closed(s);
    (void)uv_run(&s->loop, UV_RUN_DEFAULT);
    server_free(s);
    (void)uv_loop_close(&s->loop); /* what it holds itself; all handles are closed */
}

static int run(struct server *s, const struct server_options *options)
{
    struct error error;
    s->keep_nodes = options->keep_nodes;
    if (!server_open(s, options, &error) || !start_small_handles(s, &error)) {
        fprintf(stderr, "shoal server: %s\n", error.text);
        abandon(s);
        return 1;
    }
    printf("shoal server: %s data=%s seq=%" PRIu64 " replayed=%" PRIu64 " restart_ms=%" PRId64 "\n",
           http_url(s->http), s->dir, pool_last_seq(s->pool), s->events_replayed,
           s->restart_us / 1000);
    (void)fflush(stdout); /* a closed pipe is no reason to stop */
    (void)uv_run(&s->loop, UV_RUN_DEFAULT);
    lock_remove_server(s->dir);
    server_free(s);
    (void)uv_loop_close(&s->loop); /* all handles are closed */
    return 0;
}

int server_main(int argc, char **argv)
{
    struct error error;
    struct server_options options;
    if (!server_options_read(argc, argv, &options, &error)) {
        fprintf(stderr, "shoal %s\nsee: shoal server --help\n", error.text);
        return 2;
    }
    if (options.help) {
        fputs(server_usage, stdout);
        return 0;
    }
    codec_init();
    (void)signal(SIGPIPE, SIG_IGN); /* a client that is gone is an error of one call */
    struct server *s = mem_zalloc(1, sizeof *s);
    if (s == NULL || uv_loop_init(&s->loop) != 0) {
        fprintf(stderr, "shoal server: out of memory\n");
        mem_free(s);
        return 1;
    }
    int status = run(s, &options);
    mem_free(s);
    return status;
}
