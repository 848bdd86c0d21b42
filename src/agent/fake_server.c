#include "agent/fake_server.h"
#include "base/mem.h"
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { REPORTS_KEPT = 4096 };

struct fake_server {
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    char *reports[REPORTS_KEPT]; /* in order; [first, end) */
    uint64_t first, end;
    unsigned status;
    char *body;
};

struct upload {
    char *text;
    size_t bytes;
};

static void keep(struct fake_server *server, char *text)
{
    (void)pthread_mutex_lock(&server->lock);
    if (server->end - server->first == REPORTS_KEPT)
        free(server->reports[server->first++ % REPORTS_KEPT]);
    server->reports[server->end++ % REPORTS_KEPT] = text;
    (void)pthread_cond_broadcast(&server->arrived);
    (void)pthread_mutex_unlock(&server->lock);
}

static enum MHD_Result on_request(void *self, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_bytes, void **memory)
{
    struct fake_server *server = self;
    struct upload *upload = *memory;
    (void)url;
    (void)method;
    (void)version;
    if (upload == NULL) {
        *memory = calloc(1, sizeof *upload);
        return *memory == NULL ? MHD_NO : MHD_YES;
    }
    if (*data_bytes > 0) {
        char *text = realloc(upload->text, upload->bytes + *data_bytes + 1);
        if (text == NULL) return MHD_NO;
        memcpy(text + upload->bytes, data, *data_bytes);
        upload->text = text;
        upload->bytes += *data_bytes;
        text[upload->bytes] = '\0';
        *data_bytes = 0;
        return MHD_YES;
    }
    if (upload->text != NULL) keep(server, upload->text);
    free(upload);
    *memory = NULL;
    (void)pthread_mutex_lock(&server->lock);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(server->body), server->body, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result = MHD_queue_response(connection, server->status, response);
    (void)pthread_mutex_unlock(&server->lock);
    MHD_destroy_response(response);
    return result;
}

struct fake_server *fake_server_open(uint16_t port)
{
    struct fake_server *server = calloc(1, sizeof *server);
    assert_non_null(server);
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&server->arrived, &attributes);
    (void)pthread_mutex_init(&server->lock, NULL);
    fake_server_set_reply(server, &(struct agent_reply){.lease_ms = 15000, .report_ms = 50});
    server->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, port, NULL,
                                      NULL, on_request, server, MHD_OPTION_LISTENING_ADDRESS_REUSE,
                                      1u, MHD_OPTION_END);
    assert_non_null(server->daemon);
    return server;
}

uint16_t fake_server_port(const struct fake_server *server)
{
    return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void fake_server_close(struct fake_server *server)
{
    MHD_stop_daemon(server->daemon);
    while (server->first < server->end) free(server->reports[server->first++ % REPORTS_KEPT]);
    free(server->body);
    (void)pthread_cond_destroy(&server->arrived);
    (void)pthread_mutex_destroy(&server->lock);
    free(server);
}

void fake_server_set_raw(struct fake_server *server, unsigned status, const char *body)
{
    (void)pthread_mutex_lock(&server->lock);
    free(server->body);
    server->body = strdup(body);
    server->status = status;
    (void)pthread_mutex_unlock(&server->lock);
}

void fake_server_set_reply(struct fake_server *server, const struct agent_reply *reply)
{
    char *text = agent_reply_write(reply);
    assert_non_null(text);
    fake_server_set_raw(server, 200, text);
    mem_free(text);
}

/* The next report not looked at yet; NULL when none comes in time. The caller frees it. */
static char *take(struct fake_server *server, const struct timespec *deadline)
{
    char *text = NULL;
    (void)pthread_mutex_lock(&server->lock);
    int status = 0;
    while (server->first == server->end && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&server->arrived, &server->lock, deadline);
    if (server->first < server->end) text = server->reports[server->first++ % REPORTS_KEPT];
    (void)pthread_mutex_unlock(&server->lock);
    return text;
}

struct agent_report fake_server_wait(struct fake_server *server, fake_server_test_fn *test,
                                     void *argument)
{
    struct timespec deadline;
    (void)clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += FAKE_SERVER_WAIT_MS / 1000;
    char last[2000] = "none";
    for (;;) {
        char *text = take(server, &deadline);
        if (text == NULL)
            fail_msg("no such report within %d ms; last: %s", FAKE_SERVER_WAIT_MS, last);
        struct agent_report report;
        struct error error;
        if (!agent_report_parse(text, strlen(text), &report, &error))
            fail_msg("the agent sent a report that is wrong: %s: %s", error.text, text);
        strncpy(last, text, sizeof last - 1);
        free(text);
        if (test(&report, argument)) return report;
        agent_report_close(&report);
    }
}

void fake_server_forget(struct fake_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    while (server->first < server->end) free(server->reports[server->first++ % REPORTS_KEPT]);
    (void)pthread_mutex_unlock(&server->lock);
}

uint64_t fake_server_count(struct fake_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    uint64_t count = server->end;
    (void)pthread_mutex_unlock(&server->lock);
    return count;
}
