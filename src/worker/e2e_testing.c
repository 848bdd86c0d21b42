#include "worker/e2e_testing.h"
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *e2e_trainer;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void set_number(const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    setenv(name, text, 1);
}

static void run_child(const struct agent *agent, uint32_t index, int fd)
{
    if (fd >= 0) {
        set_number("SHOAL_AGENT_FD", (uint64_t)fd);
        set_number("SHOAL_WORKER", index + 1);
        setenv("SHOAL_TOKEN", "secret", 1);
        setenv("SHOAL_GANG", "3", 1);
    }
    set_number("SHOAL_STEPS", STEPS);
    set_number("SHOAL_SLOTS", SLOTS);
    for (int i = 0; agent->extra[i] != NULL; i++) putenv((char *)(uintptr_t)agent->extra[i]);
    if (agent->log != NULL && freopen(agent->log, "a", stderr) == NULL) _exit(126);
    execl(e2e_trainer, e2e_trainer, (char *)NULL);
    _exit(127);
}

uint32_t e2e_start(struct agent *agent)
{
    assert_true(agent->worker_count < WORKERS);
    uint32_t index = agent->worker_count++;
    struct worker *worker = &agent->worker[index];
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        for (uint32_t i = 0; i < index; i++)
            if (agent->worker[i].fd > 0) close(agent->worker[i].fd);
        run_child(agent, index, pair[1]);
    }
    close(pair[1]);
    worker->pid = pid;
    worker->fd = pair[0];
    return index;
}

void e2e_send(struct worker *worker, const char *text)
{
    if (worker->fd <= 0) return;
    ssize_t sent = send(worker->fd, text, strlen(text), MSG_NOSIGNAL);
    (void)sent; /* a worker just killed cannot read */
}

static void send_peers(struct agent *agent)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < agent->worker_count; i++)
        if (agent->worker[i].pid != 0 && agent->worker[i].addr[0] != '\0')
            json_array_append_new(
                list, json_pack("{s:i,s:s}", "worker", (int)i + 1, "addr", agent->worker[i].addr));
    json_t *line = json_pack("{s:s,s:o}", "t", "peers", "workers", list);
    char *text = json_dumps(line, JSON_COMPACT);
    char full[8192];
    snprintf(full, sizeof full, "%s\n", text);
    for (uint32_t i = 0; i < agent->worker_count; i++)
        if (agent->worker[i].pid != 0) e2e_send(&agent->worker[i], full);
    free(text);
    json_decref(line);
}

static void count_slots(uint32_t *owned, json_t *workers)
{
    size_t index;
    json_t *entry;
    json_array_foreach(workers, index, entry)
    {
        uint32_t count = 0;
        for (const char *digit = json_string_value(json_object_get(entry, "slots")); *digit;
             digit++)
            count += (uint32_t)__builtin_popcount(
                (unsigned)(*digit <= '9' ? *digit - '0' : *digit - 'a' + 10));
        owned[json_integer_value(json_object_get(entry, "worker")) - 1] = count;
    }
}

static void take_line(struct agent *agent, struct worker *worker, const char *text)
{
    json_t *line = json_loads(text, 0, NULL);
    assert_non_null(line);
    const char *kind = json_string_value(json_object_get(line, "t"));
    if (strcmp(kind, "hello") == 0) {
        snprintf(worker->addr, sizeof worker->addr, "%s",
                 json_string_value(json_object_get(line, "addr")));
        send_peers(agent);
    } else if (strcmp(kind, "progress") == 0) {
        int64_t step = json_integer_value(json_object_get(line, "step"));
        assert_in_range(step, 0, STEPS - 1);
        const char *odd = json_string_value(json_object_get(line, "not_finite"));
        if (odd != NULL) snprintf(agent->not_finite, sizeof agent->not_finite, "%s", odd);
        agent->not_finite_count += odd != NULL && !agent->step_seen[step];
        agent->step_seen[step] = true;
        if (step > agent->last_step) agent->last_step = step;
        if (step < agent->first_step) agent->first_step = step;
        count_slots(agent->owned[step], json_object_get(line, "workers"));
        const char *hash = json_string_value(json_object_get(line, "weights_sha256"));
        if (hash != NULL) snprintf(agent->hash, sizeof agent->hash, "%s", hash);
    } else if (strcmp(kind, "ckpt") == 0) {
        agent->saved_step = json_integer_value(json_object_get(line, "step"));
    } else if (strcmp(kind, "done") == 0) {
        agent->done_count++;
    }
    json_decref(line);
}

static void read_worker(struct agent *agent, struct worker *worker)
{
    ssize_t got = recv(worker->fd, worker->in + worker->in_count,
                       sizeof worker->in - worker->in_count - 1, 0);
    if (got <= 0) {
        close(worker->fd);
        worker->fd = -1;
        int status;
        assert_int_equal(waitpid(worker->pid, &status, 0), worker->pid);
        worker->exit_status = status;
        worker->pid = 0;
        send_peers(agent);
        return;
    }
    worker->in_count += (size_t)got;
    worker->in[worker->in_count] = '\0';
    char *start = worker->in, *newline;
    while ((newline = strchr(start, '\n')) != NULL) {
        *newline = '\0';
        take_line(agent, worker, start);
        start = newline + 1;
    }
    worker->in_count = (size_t)(worker->in + worker->in_count - start);
    memmove(worker->in, start, worker->in_count);
}

void e2e_serve(struct agent *agent, int64_t step, int64_t bound_ms)
{
    int64_t end_ms = now_ms() + bound_ms;
    for (;;) {
        struct pollfd polls[WORKERS];
        uint32_t index[WORKERS];
        nfds_t count = 0;
        for (uint32_t i = 0; i < agent->worker_count; i++) {
            if (agent->worker[i].fd <= 0) continue;
            polls[count] = (struct pollfd){.fd = agent->worker[i].fd, .events = POLLIN};
            index[count++] = i;
        }
        if (count == 0) return;
        if (step < STEPS && agent->last_step >= step) return;
        int64_t left_ms = end_ms - now_ms();
        if (left_ms <= 0 && agent->may_stall) return;
        if (left_ms <= 0) fail_msg("no progress beyond step %lld", (long long)agent->last_step);
        (void)poll(polls, count, (int)left_ms);
        for (nfds_t i = 0; i < count; i++)
            if (polls[i].revents != 0) read_worker(agent, &agent->worker[index[i]]);
    }
}

void e2e_init(struct agent *agent)
{
    memset(agent, 0, sizeof *agent);
    agent->last_step = -1;
    agent->first_step = STEPS;
    agent->extra[0] = "E2E_ELEMENTS=100000";
    agent->extra[1] = "SHOAL_EMULATE_SLOT_US=3000";
}

void e2e_standalone_hash(char hash[65], const char *moments)
{
    char command[512], line[256] = "";
    snprintf(command, sizeof command,
             "%s E2E_ELEMENTS=100000 SHOAL_STEPS=%d SHOAL_SLOTS=%d '%s' 2>/dev/null", moments,
             STEPS, SLOTS, e2e_trainer);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    assert_non_null(fgets(line, sizeof line, output));
    assert_int_equal(pclose(output), 0);
    assert_int_equal(sscanf(line, "weights sha256 %64s", hash), 1);
}

bool e2e_read_log(const char *log, char *ret_text, size_t bytes)
{
    FILE *file = fopen(log, "r");
    if (file == NULL) return false;
    ret_text[fread(ret_text, 1, bytes - 1, file)] = '\0';
    return fclose(file) == 0 && remove(log) == 0;
}
