#include "worker_group.h"
#include "base/clock.h"
#include "base/mem.h"
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
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void compute(const float *weights, uint32_t count, const struct shoal_work *work)
{
    for (uint32_t i = 0; i < count; i++) {
        float noise = (float)(shoal_random(7, work->step, work->slot, i) >> 40) * 0x1p-24f - 0.5f;
        work->gradient[i] = noise + 0.1f * weights[i];
    }
}

static void compute_slot(struct shoal *job, const struct group_options *group, const float *weights,
                         const struct shoal_work *work, struct group_page *page, uint32_t me)
{
    int64_t from_us = clock_monotonic_us();
    compute(weights, group->elements, work);
    if (page != NULL && page->pad_us[me] > 0) (void)usleep((useconds_t)page->pad_us[me]);
    shoal_submit(job, (float)(work->slot + 1));
    if (page == NULL) return;
    page->slots[me]++;
    page->slots_us[me] += clock_monotonic_us() - from_us;
    if (work->step < GROUP_STEPS_KEPT) page->owned[me][work->step]++;
}

static int train(const struct group_options *group, struct group_page *page, uint32_t me)
{
    float *weights = calloc(2, group->elements * sizeof *weights);
    float *momentum = weights == NULL ? NULL : weights + group->elements;
    if (weights == NULL) return 1;
    for (uint32_t i = 0; i < group->elements; i++) weights[i] = (float)(i % 17) * 0.1f;
    struct shoal_tensor params[1] = {{"w", weights, {group->elements}, 1}};
    struct shoal_tensor state[1] = {{"m", momentum, {group->elements}, 1}};
    struct shoal_options options = {.params = params,
                                    .param_count = 1,
                                    .state = state,
                                    .state_count = 1,
                                    .slots = group->slots,
                                    .steps = group->steps,
                                    .samples_per_slot = 1};
    char error[512];
    struct shoal *job = shoal_join(&options, error, sizeof error);
    if (job == NULL) {
        fprintf(stderr, "%s\n", error);
        free(weights);
        return 1;
    }
    struct shoal_work work;
    while (shoal_next(job, &work)) {
        if (work.kind == SHOAL_COMPUTE) {
            compute_slot(job, group, weights, &work, page, me);
            continue;
        }
        for (uint32_t i = 0; i < group->elements; i++) {
            momentum[i] = 0.9f * momentum[i] + work.gradient[i];
            weights[i] -= 0.01f * momentum[i];
        }
        if (page == NULL) continue;
        page->applied_us[me] = clock_wall_us();
        page->step[me] = (int64_t)work.step;
    }
    int status = shoal_close(job);
    free(weights);
    return status;
}

static void set_number(const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    setenv(name, text, 1);
}

bool group_open(struct worker_group *g, const struct group_options *options)
{
    static uint32_t number;
    memset(g, 0, sizeof *g);
    g->options = *options;
    g->last_step = -1;
    g->random = options->seed;
    g->seen = mem_zalloc(options->steps, 1);
    g->page =
        mmap(NULL, sizeof *g->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(g->log, sizeof g->log, "worker_group-%ld-%u.log", (long)getpid(), number++);
    return g->seen != NULL && g->page != MAP_FAILED;
}

enum { LAST_FD = 900 }; /* above all that a worker opens */

/* Two pipes whose writing ends the child alone holds: one among the first descriptors it has, one
 * behind all others. The kernel closes a dying process's descriptors one after another. */
static bool open_lives(int read_end[2], int write_end[2])
{
    for (int i = 0; i < 2; i++) {
        int ends[2];
        if (pipe(ends) != 0) return false;
        read_end[i] = ends[0];
        write_end[i] = ends[1];
    }
    int last = fcntl(write_end[1], F_DUPFD, LAST_FD);
    (void)close(write_end[1]);
    write_end[1] = last;
    return last >= 0;
}

static _Noreturn void run_child(struct worker_group *g, uint32_t index, int fd)
{
    for (uint32_t i = 0; i < index; i++)
        if (g->worker[i].fd >= 0) (void)close(g->worker[i].fd);
    set_number("SHOAL_AGENT_FD", (uint64_t)fd);
    set_number("SHOAL_WORKER", index + 1);
    set_number("SHOAL_GANG", g->options.gang);
    set_number("SHOAL_EMULATE_SLOT_US", g->worker[index].slot_us);
    setenv("SHOAL_TOKEN", "group", 1);
    int log = open(g->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (log >= 0) (void)dup2(log, 2);
    if (null >= 0) (void)dup2(null, 1);
    exit(train(&g->options, g->page, index + 1));
}

uint32_t group_start(struct worker_group *g, uint64_t slot_us)
{
    uint32_t index = g->count;
    int pair[2];
    if (index == GROUP_WORKERS_MAX || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        fprintf(stderr, "worker_group: cannot start worker %u\n", index + 1);
        exit(1);
    }
    struct group_worker *worker = &g->worker[g->count++];
    *worker = (struct group_worker){.slot_us = slot_us, .fd = pair[0], .life = {-1, -1}};
    int life[2] = {-1, -1};
    if (g->options.watch_exit && !open_lives(worker->life, life)) exit(1);
    worker->in = mem_alloc(GROUP_LINE_BYTES);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0 || worker->in == NULL) exit(1);
    if (pid == 0) {
        (void)close(pair[0]);
        run_child(g, index, pair[1]);
    }
    (void)close(pair[1]);
    for (int i = 0; i < 2 && life[i] >= 0; i++) (void)close(life[i]);
    worker->pid = pid;
    return index;
}

static void send_peers(struct worker_group *g)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < g->count; i++)
        if (group_is_alive(g, i) && g->worker[i].addr[0] != '\0')
            json_array_append_new(
                list, json_pack("{s:i,s:s}", "worker", (int)i + 1, "addr", g->worker[i].addr));
    json_t *line = json_pack("{s:s,s:o}", "t", "peers", "workers", list);
    char *text = json_dumps(line, JSON_COMPACT);
    for (uint32_t i = 0; i < g->count; i++) {
        if (!group_is_alive(g, i)) continue;
        (void)send(g->worker[i].fd, text, strlen(text), MSG_NOSIGNAL); /* it may just have ended */
        (void)send(g->worker[i].fd, "\n", 1, MSG_NOSIGNAL);
    }
    free(text);
    json_decref(line);
}

static void take_progress(struct worker_group *g, const json_t *line)
{
    int64_t step = json_integer_value(json_object_get(line, "step"));
    const char *hash = json_string_value(json_object_get(line, "weights_sha256"));
    if (hash != NULL) snprintf(g->hash, sizeof g->hash, "%s", hash);
    if (step < 0 || (uint64_t)step >= g->options.steps) return;
    g->reported += g->seen[step] == 0;
    g->seen[step] = 1;
    if (step > g->last_step) g->last_step = step;
}

static void take_line(struct worker_group *g, struct group_worker *worker, const char *text,
                      bool *ret_hello)
{
    json_t *line = json_loads(text, 0, NULL);
    const char *kind = json_string_value(json_object_get(line, "t"));
    if (kind != NULL && strcmp(kind, "hello") == 0) {
        const char *addr = json_string_value(json_object_get(line, "addr"));
        snprintf(worker->addr, sizeof worker->addr, "%s", addr == NULL ? "" : addr);
        *ret_hello = true;
    } else if (kind != NULL && strcmp(kind, "progress") == 0) {
        take_progress(g, line);
    }
    json_decref(line);
}

static void lose(struct worker_group *g, struct group_worker *worker, bool *ret_changed)
{
    int status = 0;
    (void)close(worker->fd);
    worker->fd = -1;
    *ret_changed = true;
    if (worker->pid == 0) return; /* killed by us, and waited for */
    if (waitpid(worker->pid, &status, 0) == worker->pid) {
        bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        g->done_count += done;
        g->failed_count += !done;
    }
    worker->pid = 0;
}

static void read_worker(struct worker_group *g, struct group_worker *w, bool *ret_changed)
{
    ssize_t got = recv(w->fd, w->in + w->count, GROUP_LINE_BYTES - w->count - 1, MSG_DONTWAIT);
    if (got <= 0) {
        lose(g, w, ret_changed);
        return;
    }
    w->count += (uint32_t)got;
    w->in[w->count] = '\0';
    char *start = w->in, *newline;
    while ((newline = strchr(start, '\n')) != NULL) {
        *newline = '\0';
        take_line(g, w, start, ret_changed);
        start = newline + 1;
    }
    w->count = (uint32_t)(w->in + w->count - start);
    memmove(w->in, start, w->count);
}

void group_serve(struct worker_group *g, int64_t us)
{
    int64_t end_us = clock_monotonic_us() + us;
    for (int64_t left = us; left > 0; left = end_us - clock_monotonic_us()) {
        struct pollfd polls[GROUP_WORKERS_MAX];
        uint32_t index[GROUP_WORKERS_MAX], count = 0;
        for (uint32_t i = 0; i < g->count; i++) {
            if (g->worker[i].fd < 0) continue;
            polls[count] = (struct pollfd){.fd = g->worker[i].fd, .events = POLLIN};
            index[count++] = i;
        }
        (void)poll(polls, count, (int)(left / 1000) + 1);
        bool changed = false;
        for (uint32_t i = 0; i < count; i++)
            if (polls[i].revents != 0) read_worker(g, &g->worker[index[i]], &changed);
        if (changed) send_peers(g);
    }
}

bool group_wait_step(struct worker_group *g, int64_t step)
{
    int64_t end_us = clock_monotonic_us() + GROUP_BOUND_US;
    while (g->last_step < step && clock_monotonic_us() < end_us) group_serve(g, 20000);
    return g->last_step >= step;
}

void group_signal(struct worker_group *g, uint32_t index, int number)
{
    struct group_worker *worker = &g->worker[index];
    if (worker->pid == 0) return;
    (void)kill(worker->pid, number);
    if (number != SIGKILL) return;
    (void)waitpid(worker->pid, NULL, 0);
    worker->pid = 0;
}

uint32_t group_alive(const struct worker_group *g)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->count; i++) count += group_is_alive(g, i);
    return count;
}

uint32_t group_below(struct worker_group *g, uint32_t end)
{
    g->random = g->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(g->random >> 33) % end;
}

uint32_t group_pick(struct worker_group *g)
{
    uint32_t index = group_below(g, g->count);
    while (!group_is_alive(g, index)) index = group_below(g, g->count);
    return index;
}

void group_slow(struct worker_group *g, uint32_t index, uint64_t pad_us)
{
    g->page->pad_us[index + 1] = (int64_t)pad_us;
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

double group_cpu_us(const struct worker_group *g)
{
    double sum = 0;
    for (uint32_t i = 0; i < g->count; i++)
        if (group_is_alive(g, i)) sum += cpu_us(g->worker[i].pid);
    return sum;
}

void group_close(struct worker_group *g, bool keep_log)
{
    for (uint32_t i = 0; i < g->count; i++) {
        group_signal(g, i, SIGKILL);
        if (g->worker[i].fd >= 0) (void)close(g->worker[i].fd);
        for (int k = 0; k < 2 && g->worker[i].life[k] >= 0; k++) (void)close(g->worker[i].life[k]);
        mem_free(g->worker[i].in);
    }
    mem_free(g->seen);
    (void)munmap(g->page, sizeof *g->page);
    if (!keep_log) (void)remove(g->log);
    g->count = 0;
}

/* In a child, whose output carries the hash: the library prints it at the end. */
bool group_hash_alone(const struct group_options *options, char ret_hash[65])
{
    int ends[2];
    char text[256] = "";
    if (pipe(ends) != 0) return false;
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
        (void)close(ends[0]);
        (void)dup2(ends[1], 1);
        (void)unsetenv("SHOAL_AGENT_FD");
        exit(train(options, NULL, 0));
    }
    (void)close(ends[1]);
    size_t count = 0;
    for (ssize_t got; count < sizeof text - 1; count += (size_t)got)
        if ((got = read(ends[0], text + count, sizeof text - 1 - count)) <= 0) break;
    (void)close(ends[0]);
    int status = 1;
    return waitpid(pid, &status, 0) == pid && status == 0 &&
           sscanf(text, "weights sha256 %64s", ret_hash) == 1;
}
