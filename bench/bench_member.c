/* What the loss of a worker costs a group of 64 real processes on this machine, with a small
 * built-in trainer (20,000 gradient elements, one slot of 20 ms a worker, emulated by sleeping).
 *
 *     bench_member [WORKERS [ROUNDS]]      64 and 4 unless given
 *
 * Rows        loss_known_ms.closed.r64    kill -9 until the LAST survivor knows
 *             loss_known_ms.silent.r64    SIGSTOP until the last survivor knows
 *             worker_loss_to_step_ms.r64  last survivor knows until ALL survivors applied a step
 *             control_cpu_ppm.r64         CPU of all workers waiting in long slots, per worker
 * How         This process is the agent of all. Each worker writes the time of every applied step
 *             into a shared page; a survivor's log line says when it knew of the loss.
 */
#include "base/clock.h"
#include "shoal.h"
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MAX = 64, LINE_BYTES = 1 << 16, ELEMENTS = 20000, ROUNDS_MAX = 64 };
#define BOUND_US INT64_C(60000000)

struct page {                                    /* written by the workers */
    _Atomic int64_t step[WORKERS_MAX + 1];       /* last applied */
    _Atomic int64_t applied_us[WORKERS_MAX + 1]; /* when, wall clock */
};

struct worker {
    pid_t pid;
    int fd;
    char addr[64], in[LINE_BYTES];
    size_t count;
};

struct bench {
    struct worker worker[WORKERS_MAX];
    uint32_t count;
    int64_t last_step;
    char log[64];
    struct page *page;
};

static int train(struct page *page)
{
    static float weights[ELEMENTS];
    uint32_t me = (uint32_t)strtoul(getenv("SHOAL_WORKER"), NULL, 10);
    struct shoal_tensor params[1] = {{"w", weights, {ELEMENTS}, 1}};
    struct shoal_options options = {.params = params, .param_count = 1, .samples_per_slot = 1};
    char error[512];
    struct shoal *job = shoal_join(&options, error, sizeof error);
    if (job == NULL) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    struct shoal_work work;
    while (shoal_next(job, &work)) {
        if (work.kind == SHOAL_COMPUTE) {
            for (uint32_t i = 0; i < ELEMENTS; i++)
                work.gradient[i] = weights[i] + (float)((i * 7 + work.slot) % 13);
            shoal_submit(job, 1);
            continue;
        }
        for (uint32_t i = 0; i < ELEMENTS; i++) weights[i] -= 0.01f * work.gradient[i];
        page->applied_us[me] = clock_wall_us();
        page->step[me] = (int64_t)work.step;
    }
    return shoal_close(job);
}

static void set_number(const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    setenv(name, text, 1);
}

static void start_worker(struct bench *b, uint32_t gang, uint64_t slot_us)
{
    struct worker *worker = &b->worker[b->count++];
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        for (uint32_t i = 0; i + 1 < b->count; i++) (void)close(b->worker[i].fd);
        (void)close(pair[0]);
        set_number("SHOAL_AGENT_FD", (uint64_t)pair[1]);
        set_number("SHOAL_WORKER", b->count);
        set_number("SHOAL_GANG", gang);
        set_number("SHOAL_SLOTS", gang);
        set_number("SHOAL_STEPS", 1000000);
        set_number("SHOAL_EMULATE_SLOT_US", slot_us);
        setenv("SHOAL_TOKEN", "bench", 1);
        int log = open(b->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (log >= 0) (void)dup2(log, 2);
        exit(train(b->page));
    }
    (void)close(pair[1]);
    worker->pid = pid;
    worker->fd = pair[0];
}

static void send_peers(struct bench *b)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < b->count; i++)
        if (b->worker[i].addr[0] != '\0')
            json_array_append_new(
                list, json_pack("{s:i,s:s}", "worker", (int)i + 1, "addr", b->worker[i].addr));
    json_t *line = json_pack("{s:s,s:o}", "t", "peers", "workers", list);
    char *text = json_dumps(line, JSON_COMPACT);
    for (uint32_t i = 0; i < b->count; i++) {
        (void)send(b->worker[i].fd, text, strlen(text), MSG_NOSIGNAL);
        (void)send(b->worker[i].fd, "\n", 1, MSG_NOSIGNAL);
    }
    free(text);
    json_decref(line);
}

static void take_line(struct bench *b, struct worker *worker, const char *text, bool *ret_hello)
{
    json_t *line = json_loads(text, 0, NULL);
    const char *kind = json_string_value(json_object_get(line, "t"));
    if (kind != NULL && strcmp(kind, "hello") == 0) {
        const char *addr = json_string_value(json_object_get(line, "addr"));
        snprintf(worker->addr, sizeof worker->addr, "%s", addr == NULL ? "" : addr);
        *ret_hello = true;
    } else if (kind != NULL && strcmp(kind, "progress") == 0) {
        int64_t step = json_integer_value(json_object_get(line, "step"));
        if (step > b->last_step) b->last_step = step;
    }
    json_decref(line);
}

/* Reads what the workers say for `us`. */
static void serve(struct bench *b, int64_t us)
{
    int64_t end_us = clock_monotonic_us() + us;
    for (int64_t left = us; left > 0; left = end_us - clock_monotonic_us()) {
        struct pollfd polls[WORKERS_MAX];
        for (uint32_t i = 0; i < b->count; i++)
            polls[i] = (struct pollfd){.fd = b->worker[i].fd, .events = POLLIN};
        (void)poll(polls, b->count, (int)(left / 1000) + 1);
        bool hello = false;
        for (uint32_t i = 0; i < b->count; i++) {
            struct worker *w = &b->worker[i];
            if (polls[i].revents == 0) continue;
            ssize_t got = recv(w->fd, w->in + w->count, sizeof w->in - w->count - 1, MSG_DONTWAIT);
            if (got <= 0) {
                (void)close(w->fd);
                w->fd = -1;
                continue;
            }
            w->count += (size_t)got;
            w->in[w->count] = '\0';
            char *start = w->in, *newline;
            while ((newline = strchr(start, '\n')) != NULL) {
                *newline = '\0';
                take_line(b, w, start, &hello);
                start = newline + 1;
            }
            w->count = (size_t)(w->in + w->count - start);
            memmove(w->in, start, w->count);
        }
        if (hello) send_peers(b);
    }
}

static bool wait_step(struct bench *b, int64_t step)
{
    int64_t end_us = clock_monotonic_us() + BOUND_US;
    while (b->last_step < step && clock_monotonic_us() < end_us) serve(b, 20000);
    return b->last_step >= step;
}

static bool is_alive(const struct bench *b, uint32_t i)
{
    return b->worker[i].pid != 0;
}

/* "t=2026-11-30T02:45:40.123Z ..." in microseconds; only differences are used. */
static int64_t line_us(const char *line)
{
    struct tm tm = {0};
    int ms = 0;
    if (sscanf(line, "t=%d-%d-%dT%d:%d:%d.%dZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &ms) != 7)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return (int64_t)timegm(&tm) * 1000000 + ms * INT64_C(1000);
}

/* Newest log line of any survivor about the loss of `victim`, and how many lines there are. */
static int64_t known_us(const struct bench *b, uint32_t victim, uint32_t *ret_lines)
{
    char line[2048], field[32];
    int64_t newest = 0;
    *ret_lines = 0;
    snprintf(field, sizeof field, " worker=%u ", victim + 1);
    FILE *log = fopen(b->log, "r");
    if (log == NULL) return 0;
    while (fgets(line, sizeof line, log) != NULL) {
        if (strstr(line, "a peer is lost") == NULL || strstr(line, field) == NULL) continue;
        int64_t at = line_us(line);
        if (at > newest) newest = at;
        ++*ret_lines;
    }
    (void)fclose(log);
    return newest;
}

/* When the last survivor had applied a step after `from_us`; 0: not yet. */
static int64_t all_stepped_us(const struct bench *b, int64_t from_us)
{
    int64_t last = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        if (!is_alive(b, i)) continue;
        int64_t at = b->page->applied_us[i + 1];
        if (at <= from_us) return 0;
        if (at > last) last = at;
    }
    return last;
}

struct result {
    double known_ms, step_ms;
};

static bool lose(struct bench *b, uint32_t victim, int signal, struct result *ret)
{
    uint32_t survivors = 0, lines = 0;
    for (uint32_t i = 0; i < b->count; i++) survivors += is_alive(b, i) && i != victim;
    int64_t lost_us = clock_wall_us(), known = 0, stepped = 0;
    pid_t pid = b->worker[victim].pid;
    if (kill(pid, signal) != 0) return false;
    b->worker[victim].pid = 0;
    for (int i = 0; i < 1000 && lines < survivors; i++) {
        serve(b, 2000);
        known = known_us(b, victim, &lines);
    }
    /* A step that everybody had applied before it knew may be newer than the kill: ask for one
     * applied after the last one knew. */
    for (int i = 0; i < 1000 && stepped == 0; i++) {
        serve(b, 2000);
        stepped = all_stepped_us(b, known);
    }
    if (signal == SIGSTOP) (void)kill(pid, SIGKILL);
    if (lines < survivors || stepped == 0) {
        fprintf(stderr, "bench_member: worker %u: %u of %u survivors knew, %s\n", victim + 1, lines,
                survivors, stepped == 0 ? "no step since" : "stepped");
        return false;
    }
    *ret = (struct result){(double)(known - lost_us) / 1000, (double)(stepped - known) / 1000};
    fprintf(stderr, "%s worker %u: known after %.1f ms, all stepped %.1f ms later\n",
            signal == SIGKILL ? "kill" : "stop", victim + 1, ret->known_ms, ret->step_ms);
    return true;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void row(const char *name, double *values, uint32_t count, const char *unit, double budget)
{
    qsort(values, count, sizeof values[0], compare);
    double value = values[count / 2];
    printf("{\"name\": \"%s\", \"value\": %.2f, \"unit\": \"%s\", \"peer\": \"budget\", "
           "\"peer_value\": %.0f, \"ratio\": %.3f, \"better\": \"lower\", \"runs\": %u, "
           "\"worst\": %.2f}\n",
           name, value, unit, budget, value / budget, count, values[count - 1]);
}

static double cpu_us(pid_t pid)
{
    char path[64];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) return 0;
    int got = fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                     &user, &system);
    (void)fclose(file);
    return got == 2 ? (double)(user + system) * 1e6 / (double)sysconf(_SC_CLK_TCK) : 0;
}

static double all_cpu_us(const struct bench *b)
{
    double sum = 0;
    for (uint32_t i = 0; i < b->count; i++)
        if (is_alive(b, i)) sum += cpu_us(b->worker[i].pid);
    return sum;
}

static bool open_group(struct bench *b, uint32_t workers, uint64_t slot_us)
{
    struct page *page = b->page;
    memset(b, 0, sizeof *b);
    b->page = page;
    memset(page, 0, sizeof *page);
    b->last_step = -1;
    snprintf(b->log, sizeof b->log, "bench_member-%ld.log", (long)getpid());
    (void)remove(b->log); /* of a run before */
    for (uint32_t i = 0; i < workers; i++) start_worker(b, workers, slot_us);
    return true;
}

static void close_group(struct bench *b, bool keep_log)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (b->worker[i].pid != 0) (void)kill(b->worker[i].pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {}
    for (uint32_t i = 0; i < b->count; i++)
        if (b->worker[i].fd >= 0) (void)close(b->worker[i].fd);
    if (!keep_log) (void)remove(b->log);
}

static bool measure_losses(struct bench *b, uint32_t workers, uint32_t rounds)
{
    double closed[ROUNDS_MAX], silent[ROUNDS_MAX], step[2 * ROUNDS_MAX];
    char name[64];
    uint32_t steps = 0;
    bool fine = open_group(b, workers, 20000) && wait_step(b, 10);
    double cpu = all_cpu_us(b);
    int64_t before = b->last_step, from_us = clock_monotonic_us();
    serve(b, 2000000);
    if (b->last_step > before)
        fprintf(stderr, "steps of %.1f ms, %.1f ms of CPU each\n",
                (double)(clock_monotonic_us() - from_us) / 1000 / (double)(b->last_step - before),
                (all_cpu_us(b) - cpu) / 1000 / (double)(b->last_step - before));
    for (uint32_t i = 0; i < rounds && fine; i++) { /* the first victim leads */
        struct result killed, stopped;
        fine = lose(b, 2 * i, SIGKILL, &killed) && wait_step(b, b->last_step + 5) &&
               lose(b, 2 * i + 1, SIGSTOP, &stopped) && wait_step(b, b->last_step + 5);
        if (!fine) break;
        closed[i] = killed.known_ms;
        silent[i] = stopped.known_ms;
        step[steps++] = killed.step_ms;
        step[steps++] = stopped.step_ms;
    }
    close_group(b, !fine);
    if (!fine) return false;
    snprintf(name, sizeof name, "loss_known_ms.closed.r%u", workers);
    row(name, closed, rounds, "ms", 50);
    snprintf(name, sizeof name, "loss_known_ms.silent.r%u", workers);
    row(name, silent, rounds, "ms", 1000);
    snprintf(name, sizeof name, "worker_loss_to_step_ms.r%u", workers);
    row(name, step, steps, "ms", 250);
    return true;
}

/* Slots of 30 s: whatever runs meanwhile is heartbeats. */
static bool measure_idle(struct bench *b, uint32_t workers)
{
    char name[64];
    bool fine = open_group(b, workers, 30000000);
    int64_t ready_us = clock_monotonic_us() + 8000000;
    while (clock_monotonic_us() < ready_us) serve(b, 100000);
    double before = all_cpu_us(b);
    int64_t from_us = clock_monotonic_us();
    serve(b, 4000000);
    double share = (all_cpu_us(b) - before) / (double)(clock_monotonic_us() - from_us);
    close_group(b, false);
    double ppm = share * 1e6 / workers;
    snprintf(name, sizeof name, "control_cpu_ppm.r%u", workers);
    row(name, &ppm, 1, "ppm", 10000);
    return fine;
}

int main(int argc, char **argv)
{
    uint32_t workers = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : WORKERS_MAX;
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 4;
    static struct bench b;
    if (workers > WORKERS_MAX || 2 * rounds >= workers || rounds == 0) {
        fprintf(stderr, "usage: bench_member [WORKERS up to %d [ROUNDS, two workers each]]\n",
                WORKERS_MAX);
        return 2;
    }
    b.page = mmap(NULL, sizeof *b.page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b.page == MAP_FAILED) return 1;
    bool fine = measure_losses(&b, workers, rounds);
    return measure_idle(&b, workers) && fine ? 0 : 1;
}
