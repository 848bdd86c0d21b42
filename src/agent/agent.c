#include "agent/agent.h"
#include "agent/agent_state.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOKEN_FILE_BYTES_MAX = 4096, SERVER_FILE_BYTES_MAX = 4096, STRAY_ROUNDS_MAX = 200 };

static uint32_t running_count(const struct agent *agent)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < agent->worker_count; i++)
        count += worker_is_running(agent->workers[i]);
    return count;
}

static void on_closed(uv_handle_t *handle)
{
    (void)handle; /* agent_main() frees the agent after the loop */
}

/* One look at our children, SIGKILL to each. The list may miss some while others are dying. */
static void kill_children(void)
{
    char path[64], word[32];
    (void)snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    FILE *children = fopen(path, "re"); /* absent on kernels without CONFIG_PROC_CHILDREN */
    while (children != NULL && fscanf(children, "%31s", word) == 1) {
        long pid = strtol(word, NULL, 10);
        if (pid > 1) (void)kill((pid_t)pid, SIGKILL); /* it may have ended */
    }
    if (children != NULL) (void)fclose(children); /* read only */
}

/* Orphans of workers that left their group are our children, since we are their subreaper: none
 * may outlive us. */
static void kill_strays(void)
{
    for (int round = 0; round < STRAY_ROUNDS_MAX; round++) {
        kill_children();
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {}
        if (pid < 0) return;    /* ECHILD: none left */
        (void)poll(NULL, 0, 1); /* the kernel is ending them */
    }
}

static void end(struct agent *agent, int exit_status)
{
    if (agent->mode == AGENT_ENDS) return;
    agent->mode = AGENT_ENDS;
    agent->exit_status = exit_status;
    for (uint32_t i = 0; i < agent->worker_count; i++) worker_close(agent->workers[i]);
    agent->worker_count = 0;
    kill_strays();
    link_close(agent->link);
    agent->link = NULL;
    uv_handle_t *const handles[] = {
        (uv_handle_t *)&agent->timer, (uv_handle_t *)&agent->child_signal,
        (uv_handle_t *)&agent->term_signal, (uv_handle_t *)&agent->int_signal};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) uv_close(handles[i], on_closed);
}

void agent_leave(struct agent *agent, const char *reason, int64_t now_us)
{
    if (agent->mode != AGENT_RUNS) return;
    log_line(LOG_INFO, "agent", "leaving", "reason=\"%s\" workers=%u", reason,
             running_count(agent));
    agent->mode = AGENT_LEAVES;
    agent->urgent = true;
    for (uint32_t i = 0; i < agent->worker_count; i++)
        worker_stop(agent->workers[i], reason, now_us + AGENT_LEAVE_MS * 1000, now_us);
}

static void expire(struct agent *agent, int64_t now_us)
{
    log_line(LOG_ERROR, "agent", "the lease has ended, stopping everything",
             "server=%s lease_ms=%" PRId64 " workers=%u", agent->server_url, agent->lease_ms,
             running_count(agent));
    agent->mode = AGENT_EXPIRES;
    for (uint32_t i = 0; i < agent->worker_count; i++) {
        struct worker *worker = agent->workers[i];
        worker_stop(worker, "lease", now_us + AGENT_LEASE_KILL_MS * 1000, now_us);
        worker->terminate_us = now_us;
    }
}

/* ---- the way to the server ---- */

static void on_answer(void *self, long status, const char *body, size_t bytes,
                      const char *sentence);

static bool read_token(const char *file, char *ret_token, size_t bytes, struct error *ret_error)
{
    char *text;
    size_t count;
    if (!io_read_file(file, TOKEN_FILE_BYTES_MAX, &text, &count, ret_error))
        return error_prefix(ret_error, "agent token");
    size_t length = strcspn(text, " \t\r\n");
    bool good = length > 0 && length < bytes;
    if (good) (void)snprintf(ret_token, bytes, "%.*s", (int)length, text);
    memset(text, 0, count);
    mem_free(text);
    return good || error_set(ret_error,
                             "%s: holds no token; copy the file agent-token of the "
                             "server's data folder",
                             file);
}

static bool open_link(struct agent *agent, const char *url, struct error *ret_error)
{
    char token[512];
    size_t length = strlen(url);
    while (length > 0 && url[length - 1] == '/') length--;
    if (length == 0 || length >= sizeof agent->server_url)
        return error_set(ret_error, "--server %.100s: expected http://HOST:PORT", url);
    if (!read_token(agent->options.token_file, token, sizeof token, ret_error)) return false;
    char *address =
        mem_printf("%.*s/v1/agents/%" PRIu64 "/report", (int)length, url, agent->options.node_key);
    if (address == NULL) return error_set(ret_error, "out of memory");
    struct link *link = link_open(agent->loop, address, token, on_answer, agent, ret_error);
    memset(token, 0, sizeof token);
    mem_free(address);
    if (link == NULL) return false;
    link_close(agent->link);
    agent->link = link;
    (void)snprintf(agent->server_url, sizeof agent->server_url, "%.*s", (int)length, url);
    return true;
}

/* A server that was started again may listen elsewhere. */
static void follow_server(struct agent *agent)
{
    char *text;
    size_t bytes;
    if (agent->options.server_file == NULL) return;
    if (!io_read_file(agent->options.server_file, SERVER_FILE_BYTES_MAX, &text, &bytes,
                      /* ret_error */ NULL))
        return; /* being written, or gone: the next try looks again */
    json_t *object = json_loadb(text, bytes, 0, NULL);
    mem_free(text);
    const char *url = json_string_value(json_object_get(object, "url"));
    struct error error;
    if (url != NULL && strcmp(url, agent->server_url) != 0) {
        if (open_link(agent, url, &error)) {
            agent->retry_ms = 0;
            log_line(LOG_INFO, "agent", "the server has moved", "server=%s", agent->server_url);
        } else
            log_line(LOG_WARN, "agent", "cannot follow the server", "%s", error.text);
    }
    json_decref(object);
}

/* ---- answers of the server ---- */

static void note_no_answer(struct agent *agent, const char *sentence, int64_t now_us)
{
    agent->retry_ms = agent->retry_ms == 0 ? agent->report_ms : 2 * agent->retry_ms;
    if (agent->retry_ms > AGENT_RETRY_MS_MAX) agent->retry_ms = AGENT_RETRY_MS_MAX;
    follow_server(agent);
    agent->next_report_us = now_us + agent->retry_ms * 1000;
    if (agent->said_unreachable) return;
    agent->said_unreachable = true;
    log_line(LOG_WARN, "agent", "no answer from the server, trying again until the lease ends",
             "server=%s left_ms=%" PRId64 " why=\"%s\"", agent->server_url,
             (agent->lease_until_us - now_us) / 1000, sentence);
}

static void note_answer(struct agent *agent, int64_t now_us)
{
    if (agent->said_unreachable)
        log_line(LOG_INFO, "agent", "the server answers again", "server=%s", agent->server_url);
    agent->said_unreachable = false;
    agent->retry_ms = 0;
    agent->lease_until_us = now_us + agent->lease_ms * 1000;
}

static void refuse_token(struct agent *agent, long status)
{
    fprintf(stderr,
            "shoal agent: %s: the server refuses the token of %s (HTTP %ld); give --token-file "
            "the file agent-token of the server's data folder\n",
            agent->server_url, agent->options.token_file, status);
    end(agent, 1);
}

static void take_answer(struct agent *agent, long status, const char *body, size_t bytes,
                        const char *sentence)
{
    int64_t now_us = clock_monotonic_us();
    struct error error;
    struct agent_reply reply;
    if (status == 401 || status == 403) {
        refuse_token(agent, status);
        return;
    }
    if (status == 0)
        (void)error_set(&error, "%s", sentence);
    else if (status != 200)
        (void)error_set(&error, "HTTP %ld: %.200s", status, body);
    if (status != 200 || !agent_reply_parse(body, bytes, &reply, &error)) {
        note_no_answer(agent, error.text, now_us);
        return;
    }
    agent_take_reply(agent, &reply, now_us);
    agent_reply_close(&reply);
    note_answer(agent, now_us);
}

static void tick(struct agent *agent);

static void on_answer(void *self, long status, const char *body, size_t bytes, const char *sentence)
{
    struct agent *agent = self;
    if (agent->mode == AGENT_FAREWELL)
        end(agent, 0);
    else
        take_answer(agent, status, body, bytes, sentence);
    if (agent->mode != AGENT_ENDS) tick(agent);
}

/* ---- the loop ---- */

static void say_farewell(struct agent *agent, int64_t now_us)
{
    agent->mode = AGENT_FAREWELL;
    agent->farewell_until_us = now_us + AGENT_FAREWELL_MS * 1000;
    agent->urgent = true;
}

static void move(struct agent *agent, int64_t now_us)
{
    switch (agent->mode) {
    case AGENT_RUNS:
        if (now_us >= agent->lease_until_us) expire(agent, now_us);
        break;
    case AGENT_LEAVES:
        if (running_count(agent) == 0 && !link_is_busy(agent->link)) say_farewell(agent, now_us);
        break;
    case AGENT_FAREWELL:
        if (now_us >= agent->farewell_until_us) end(agent, 0); /* the provider sees it anyway */
        break;
    case AGENT_EXPIRES:
        if (running_count(agent) == 0) end(agent, 1);
        break;
    case AGENT_ENDS: break;
    }
}

static void on_timer(uv_timer_t *timer);

/* Sleeps until the next thing is due. */
static void sleep_until_due(struct agent *agent, int64_t now_us)
{
    int64_t due_us = agent->lease_until_us;
    if (!link_is_busy(agent->link) && agent->next_report_us < due_us)
        due_us = agent->next_report_us;
    if (!link_is_busy(agent->link) && agent->urgent && agent->retry_ms == 0 &&
        agent->urgent_after_us < due_us)
        due_us = agent->urgent_after_us;
    if (agent->mode == AGENT_FAREWELL && agent->farewell_until_us < due_us)
        due_us = agent->farewell_until_us;
    for (uint32_t i = 0; i < agent->worker_count; i++) {
        int64_t worker_us = worker_due_us(agent->workers[i]);
        if (worker_us < due_us) due_us = worker_us;
    }
    int64_t wait_ms = due_us <= now_us ? AGENT_OVERDUE_MS : (due_us - now_us + 999) / 1000;
    (void)uv_timer_start(&agent->timer, on_timer, (uint64_t)wait_ms, 0); /* a callback is given */
}

void agent_wake(struct agent *agent)
{
    agent->urgent = true;
    if (agent->mode == AGENT_ENDS) return;
    (void)uv_timer_start(&agent->timer, on_timer, 0, 0); /* a callback is given */
}

static void tick(struct agent *agent)
{
    int64_t now_us = clock_monotonic_us();
    for (uint32_t i = 0; i < agent->worker_count; i++) worker_tick(agent->workers[i], now_us);
    move(agent, now_us);
    if (agent->mode == AGENT_ENDS) return;
    sleep_until_due(agent, now_us);
    if (agent->mode == AGENT_EXPIRES) return;
    bool retrying = agent->retry_ms > 0 && agent->mode != AGENT_FAREWELL;
    bool urgent = agent->urgent && !retrying && now_us >= agent->urgent_after_us;
    bool due = now_us >= agent->next_report_us || urgent;
    if (!due || link_is_busy(agent->link)) return;
    agent_send(agent, now_us);
    sleep_until_due(agent, now_us);
}

static void on_timer(uv_timer_t *timer)
{
    tick(timer->data);
}

static void note_end(struct agent *agent, pid_t pid, int status)
{
    for (uint32_t i = 0; i < agent->worker_count; i++) {
        struct worker *worker = agent->workers[i];
        if (worker->pid != pid) continue;
        worker_ended(worker, status);
        log_line(LOG_INFO, "agent", "worker ended",
                 "job=%" PRIu64 " worker=%" PRIu64 " exit_code=%d", worker->job, worker->id,
                 worker->exit_code);
        return;
    } /* else: something a worker had started, orphaned and now dead */
}

static void on_child(uv_signal_t *signal, int number)
{
    (void)number;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) note_end(signal->data, pid, status);
    tick(signal->data);
}

static void on_stop_signal(uv_signal_t *signal, int number)
{
    struct agent *agent = signal->data;
    agent_leave(agent, number == SIGINT ? "interrupted" : "terminated", clock_monotonic_us());
    tick(agent);
}

/* ---- start ---- */

static bool make_data_dir(struct agent *agent, struct error *ret_error)
{
    const struct agent_options *options = &agent->options;
    int length = options->data_dir != NULL
                     ? snprintf(agent->data_dir, sizeof agent->data_dir, "%s", options->data_dir)
                     : snprintf(agent->data_dir, sizeof agent->data_dir,
                                "/tmp/shoal-agent-%ld-%" PRIu64, (long)getuid(), options->node_key);
    if (length > 900) return error_set(ret_error, "--data: the path is too long");
    if (!io_make_dirs(agent->data_dir, ret_error)) return false;
    char *real = realpath(agent->data_dir, NULL); /* workers run in the folders of their jobs */
    if (real == NULL || strlen(real) > 900) {
        free(real);
        return error_set(ret_error, "%s: cannot resolve: %s", agent->data_dir, error_errno(errno));
    }
    (void)snprintf(agent->data_dir, sizeof agent->data_dir, "%s", real);
    free(real);
    return true;
}

static void start_loop(struct agent *agent)
{
    int64_t now_us = clock_monotonic_us();
    agent->mode = AGENT_RUNS;
    agent->lease_ms = agent->options.lease_ms;
    agent->report_ms = AGENT_REPORT_MS_DEFAULT;
    agent->lease_until_us = now_us + agent->lease_ms * 1000;
    agent->next_report_us = now_us;
    clock_format(clock_wall_us(), agent->started);
    if (agent->options.emulate_slot_us == 0) /* made-up devices are nowhere */
        layout_read(agent->options.sysfs, /* nvml */ NULL, getenv("CUDA_VISIBLE_DEVICES"),
                    agent->options.device_count, &agent->layout);
    (void)uv_timer_init(agent->loop, &agent->timer);         /* always 0 */
    (void)uv_signal_init(agent->loop, &agent->child_signal); /* 0 once the loop has its pipe */
    (void)uv_signal_init(agent->loop, &agent->term_signal);
    (void)uv_signal_init(agent->loop, &agent->int_signal);
    agent->timer.data = agent->child_signal.data = agent;
    agent->term_signal.data = agent->int_signal.data = agent;
    (void)uv_timer_start(&agent->timer, on_timer, 0, 0);            /* a callback is given */
    (void)uv_signal_start(&agent->child_signal, on_child, SIGCHLD); /* known signals */
    (void)uv_signal_start(&agent->term_signal, on_stop_signal, SIGTERM);
    (void)uv_signal_start(&agent->int_signal, on_stop_signal, SIGINT);
    log_line(LOG_INFO, "agent", "started", "node=%" PRIu64 " server=%s device=\"%s\" devices=%u%s",
             agent->options.node_key, agent->server_url, agent->options.device_model,
             agent->options.device_count,
             agent->options.emulate_slot_us > 0 ? " speed=emulated" : "");
}

static int run(struct agent *agent, uv_loop_t *loop)
{
    struct error error;
    agent->loop = loop;
    if (!make_data_dir(agent, &error) || !open_link(agent, agent->options.server_url, &error)) {
        fprintf(stderr, "shoal agent: %s\n", error.text);
        return 1;
    }
    if (!log_queue_open(&agent->logs) || !progress_queue_open(&agent->progress)) {
        fprintf(stderr, "shoal agent: out of memory\n");
        link_close(agent->link);
        agent->exit_status = 1;
    } else
        start_loop(agent);
    (void)uv_run(loop, UV_RUN_DEFAULT); /* until end() has closed everything */
    log_queue_close(&agent->logs);
    progress_queue_close(&agent->progress);
    stall_board_close(&agent->stalls);
    return agent->exit_status;
}

int agent_main(int argc, char **argv)
{
    struct agent *agent = mem_zalloc(1, sizeof *agent);
    struct error error;
    if (agent == NULL) {
        fprintf(stderr, "shoal agent: out of memory\n");
        return 1;
    }
    int status = 0;
    switch (agent_options_parse(argc, argv, &agent->options, &error)) {
    case AGENT_OPTIONS_HELP: break;
    case AGENT_OPTIONS_WRONG:
        fprintf(stderr, "shoal agent: %s\n", error.text);
        status = 2;
        break;
    case AGENT_OPTIONS_RUN: {
        uv_loop_t loop;
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* known option */
        (void)signal(SIGPIPE, SIG_IGN);         /* a worker that closes its socket is not our end */
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || uv_loop_init(&loop) != 0) {
            fprintf(stderr, "shoal agent: cannot start the event loop\n");
            status = 1;
            break;
        }
        status = run(agent, &loop);
        (void)uv_loop_close(&loop); /* everything was closed by then */
        curl_global_cleanup();
        break;
    }
    }
    mem_free(agent);
    return status;
}
