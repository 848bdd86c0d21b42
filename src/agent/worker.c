#include "agent/worker.h"
#include "agent/worker_spawn.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/event.h"
#include "worker/protocol.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, DEADLINE_SLACK_US = 100000 };

static void free_when_closed(struct worker *worker)
{
    if (worker->handles_open > 0 || !worker->closing) return;
    line_reader_close(&worker->out_reader);
    line_reader_close(&worker->err_reader);
    line_reader_close(&worker->talk_reader);
    worker_stall_close(&worker->stall);
    mem_free(worker->peers_text);
    mem_free(worker);
}

static void on_closed(uv_handle_t *handle)
{
    struct worker *worker = handle->data;
    worker->handles_open--;
    free_when_closed(worker);
}

static void close_stream(uv_pipe_t *pipe)
{
    if (!uv_is_closing((uv_handle_t *)pipe)) uv_close((uv_handle_t *)pipe, on_closed);
}

static void on_out_line(void *self, const char *line, size_t bytes, bool cut)
{
    struct worker *worker = self;
    worker->host.wrote(worker->host.self, worker, "out", line, bytes, cut);
}

static void on_err_line(void *self, const char *line, size_t bytes, bool cut)
{
    struct worker *worker = self;
    worker->host.wrote(worker->host.self, worker, "err", line, bytes, cut);
}

static void take_line(struct worker *worker, struct worker_line *line)
{
    bool changed = false;
    switch ((enum worker_line_kind)line->kind) {
    case WORKER_LINE_HELLO:
        worker->said_hello = true;
        changed = strcmp(worker->addr, line->addr) != 0;
        (void)snprintf(worker->addr, sizeof worker->addr, "%s", line->addr);
        break;
    case WORKER_LINE_JOINED:
        changed = worker->phase == WORKER_PHASE_STARTING;
        if (changed) worker->phase = WORKER_PHASE_RUNNING;
        break;
    case WORKER_LINE_STALL:
    case WORKER_LINE_STACK: return; /* says nothing of the worker's own step */
    case WORKER_LINE_STATS: worker->tokens_per_s = line->tokens_per_s; break;
    case WORKER_LINE_DONE:
    case WORKER_LINE_PROGRESS:
    case WORKER_LINE_CKPT: break;
    }
    uint64_t step = line->kind == WORKER_LINE_PROGRESS ? line->progress.step : line->step;
    if (line->kind != WORKER_LINE_CKPT && step > worker->step) worker->step = step;
    if (changed) worker->host.changed(worker->host.self, worker);
}

/* It would misunderstand us: better a failed worker with a reason than a job that hangs. */
static void refuse_version(struct worker *worker, uint64_t version)
{
    char sentence[256];
    int length = snprintf(sentence, sizeof sentence,
                          "(shoal: this program's libshoal speaks protocol %" PRIu64
                          ", the agent %d: install the same release of shoal on both; stopped)",
                          version, WORKER_PROTOCOL);
    worker->host.wrote(worker->host.self, worker, "err", sentence, (size_t)length, false);
    if (worker->pid > 0) (void)kill(-worker->pid, SIGKILL); /* its group; it may have ended */
}

static void on_talk_line(void *self, const char *text, size_t bytes, bool cut)
{
    struct worker *worker = self;
    struct worker_line line;
    struct error error;
    if (cut) (void)error_set(&error, "a line longer than %d bytes", WORKER_LINE_BYTES_MAX);
    if (cut || !worker_line_parse(text, bytes, &line, &error)) {
        char sentence[ERROR_TEXT_BYTES + 64];
        int length = snprintf(sentence, sizeof sentence, "(shoal: not understood: %s)", error.text);
        worker->host.wrote(worker->host.self, worker, "err", sentence, (size_t)length, false);
        return;
    }
    if (line.kind == WORKER_LINE_HELLO && line.version != WORKER_PROTOCOL)
        refuse_version(worker, line.version);
    take_line(worker, &line);
    worker->host.said(worker->host.self, worker, &line);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    static _Thread_local char buffer[READ_BYTES]; /* used up before the next read begins */
    (void)handle;
    (void)suggested;
    *ret_buffer = uv_buf_init(buffer, sizeof buffer);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct worker *worker = stream->data;
    uv_pipe_t *pipe = (uv_pipe_t *)stream;
    struct line_reader *reader = pipe == &worker->out   ? &worker->out_reader
                                 : pipe == &worker->err ? &worker->err_reader
                                                        : &worker->talk_reader;
    line_reader_fn *fn = pipe == &worker->out   ? on_out_line
                         : pipe == &worker->err ? on_err_line
                                                : on_talk_line;
    if (worker->closing) return;
    if (count > 0) line_reader_feed(reader, buffer->base, (size_t)count, fn, worker);
    if (count >= 0) return;
    line_reader_end(reader, fn, worker);
    close_stream(pipe);
}

static bool attach(struct worker *worker, uv_loop_t *loop, uv_pipe_t *pipe, int fd)
{
    (void)uv_pipe_init(loop, pipe, 0); /* always 0 */
    pipe->data = worker;
    worker->handles_open++;
    if (uv_pipe_open(pipe, fd) != 0) {
        (void)close(fd); /* nothing was written */
        return false;
    }
    return uv_read_start((uv_stream_t *)pipe, give_buffer, on_read) == 0;
}

struct worker *worker_start(uv_loop_t *loop, const struct reply_worker *wanted,
                            const struct worker_place *place, const struct worker_host *host,
                            struct error *ret_error)
{
    struct worker *worker = mem_zalloc(1, sizeof *worker);
    if (worker == NULL) {
        (void)error_set(ret_error, "worker %" PRIu64 ": out of memory", wanted->worker);
        return NULL;
    }
    worker->job = wanted->job;
    worker->id = wanted->worker;
    worker->host = *host;
    worker->phase = wanted->slots == 0 ? WORKER_PHASE_RUNNING : WORKER_PHASE_STARTING;
    worker->out_reader.line_bytes_max = LOG_QUEUE_LINE_BYTES_MAX;
    worker->err_reader.line_bytes_max = LOG_QUEUE_LINE_BYTES_MAX;
    worker->talk_reader.line_bytes_max = WORKER_LINE_BYTES_MAX;
    (void)snprintf(worker->status_file, sizeof worker->status_file,
                   "%s/%" PRIu64 "-%" PRIu64 ".status", place->dir, worker->job, worker->id);
    struct worker_streams streams;
    if (!worker_spawn(wanted, place, worker->status_file, &streams, ret_error)) {
        mem_free(worker);
        return NULL;
    }
    worker->pid = streams.pid;
    bool attached = attach(worker, loop, &worker->out, streams.out_fd);
    attached &= attach(worker, loop, &worker->err, streams.err_fd);
    attached &= attach(worker, loop, &worker->talk, streams.talk_fd);
    if (attached) return worker;
    (void)error_set(ret_error, "worker %" PRIu64 ": cannot watch its output", wanted->worker);
    worker_close(worker);
    return NULL;
}

static void signal_group(const struct worker *worker, int number)
{
    if (worker->pid > 0) (void)kill(-worker->pid, number); /* it may have ended */
}

struct write_request {
    uv_write_t request;
    char *text; /* with its newline */
};

static void on_written(uv_write_t *request, int status)
{
    struct write_request *write = request->data;
    (void)status; /* a worker that does not listen is stopped by signals */
    mem_free(write->text);
    mem_free(write);
}

/* Sends one line; takes `line` over. Lost when memory is short: every line is also a level that
 * comes again (peers), or is followed by a signal (leave, notice). */
static void say(struct worker *worker, char *line)
{
    struct write_request *write = mem_zalloc(1, sizeof *write);
    bool open = !uv_is_closing((uv_handle_t *)&worker->talk);
    char *text = line == NULL ? NULL : mem_printf("%s\n", line);
    mem_free(line);
    if (write == NULL || text == NULL || !open) {
        mem_free(write);
        mem_free(text);
        return;
    }
    write->text = text;
    write->request.data = write;
    uv_buf_t buffer = uv_buf_init(text, (unsigned)strlen(text));
    if (uv_write(&write->request, (uv_stream_t *)&worker->talk, &buffer, 1, on_written) != 0)
        on_written(&write->request, 0);
}

void worker_stop(struct worker *worker, const char *reason, int64_t deadline_us, int64_t now_us)
{
    if (!worker_is_running(worker)) return;
    /* Replies repeat the order with the time that is left: the same deadline, give or take. */
    bool told = worker->told_to_stop;
    if (told && deadline_us >= worker->kill_us - DEADLINE_SLACK_US) return;
    int64_t left_us = deadline_us > now_us ? deadline_us - now_us : 0;
    int64_t terminate_us = worker->said_hello ? now_us + left_us / 5 * 4 : now_us;
    worker->told_to_stop = true;
    worker->kill_us = deadline_us;
    if (!told || terminate_us < worker->terminate_us) worker->terminate_us = terminate_us;
    say(worker, worker_line_write_leave(reason, left_us / 1000));
    worker_tick(worker, now_us);
}

void worker_tick(struct worker *worker, int64_t now_us)
{
    if (!worker_is_running(worker)) return;
    if (worker_stall_look(&worker->stall, worker->pid, worker->status_file, now_us))
        worker->host.changed(worker->host.self, worker);
    if (!worker->told_to_stop) return;
    if (!worker->terminated && now_us >= worker->terminate_us) {
        worker->terminated = true;
        signal_group(worker, SIGTERM);
    }
    if (now_us >= worker->kill_us) signal_group(worker, SIGKILL);
}

int64_t worker_due_us(const struct worker *worker)
{
    if (!worker_is_running(worker) || !worker->told_to_stop) return INT64_MAX;
    return worker->terminated ? worker->kill_us : worker->terminate_us;
}

void worker_ended(struct worker *worker, int status)
{
    signal_group(worker, SIGKILL); /* what it left behind */
    worker->pid = 0;
    worker->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    worker->phase = worker->told_to_stop     ? WORKER_PHASE_STOPPED
                    : worker->exit_code == 0 ? WORKER_PHASE_FINISHED
                                             : WORKER_PHASE_FAILED;
    /* The page of a worker that runs no more must not pass for one that does. */
    char last[sizeof worker->status_file + 8];
    (void)snprintf(last, sizeof last, "%s.last", worker->status_file);
    (void)rename(worker->status_file, last); /* absent for batch programs */
    worker->host.changed(worker->host.self, worker);
}

void worker_tell_peers(struct worker *worker, const struct reply_peers *peers)
{
    if (!worker_is_running(worker)) return;
    char *text = worker_line_write_peers(peers);
    if (text == NULL) return; /* the next reply brings the list again */
    if (worker->peers_text != NULL && strcmp(worker->peers_text, text) == 0) {
        mem_free(text);
        return;
    }
    char *copy = mem_strdup(text);
    if (copy == NULL) {
        mem_free(text);
        return;
    }
    mem_free(worker->peers_text);
    worker->peers_text = copy;
    say(worker, text);
}

void worker_tell_told(struct worker *worker, uint64_t steps)
{
    if (!worker_is_running(worker) || worker->steps_told == steps) return;
    worker->steps_told = steps;
    say(worker, worker_line_write_told(steps));
}

/* The program has a handler for the signal, or ignores it. */
static bool withstands(pid_t pid, int number)
{
    char path[64], line[256];
    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    uint64_t mask = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "SigCgt:", 7) == 0 || strncmp(line, "SigIgn:", 7) == 0)
            mask |= strtoull(line + 7, NULL, 16);
    (void)fclose(file); /* read only */
    return (mask >> (number - 1) & 1) != 0;
}

void worker_tell_notice(struct worker *worker, int64_t in_ms)
{
    if (!worker_is_running(worker) || worker->notice_told) return;
    worker->notice_told = true;
    say(worker, worker_line_write_notice(in_ms));
    if (withstands(worker->pid, SIGUSR1)) (void)kill(worker->pid, SIGUSR1); /* may have ended */
}

void worker_close(struct worker *worker)
{
    if (worker == NULL) return;
    signal_group(worker, SIGKILL);
    if (worker->pid > 0) (void)waitpid(worker->pid, NULL, 0); /* just killed: does not take long */
    worker->pid = 0;
    worker->closing = true;
    uv_pipe_t *const pipes[] = {&worker->out, &worker->err, &worker->talk};
    for (size_t i = 0; i < 3; i++)
        if (pipes[i]->data != NULL) close_stream(pipes[i]);
    free_when_closed(worker);
}
