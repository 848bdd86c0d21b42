/* Real processes: workers of e2e_trainer.c under a fake agent in this process, with kill -9, leaves
 * and joins in mid-run. The final hash must be that of a run on one worker.
 *
 *     worker_e2e_test TRAINER
 */
#include "worker/core/wire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORKERS = 32, LINE_MAX_BYTES = 1 << 16, STEPS = 40, SLOTS = 24 };

struct worker {
    pid_t pid; /* 0: not running */
    int fd;
    char addr[64], in[LINE_MAX_BYTES];
    size_t in_count;
    int exit_status;
};

struct agent {
    struct worker worker[WORKERS];
    uint32_t worker_count;
    int64_t last_step, saved_step, done_count;
    bool may_stall; /* then a bound that passes is no failure */
    bool step_seen[STEPS];
    uint32_t owned[STEPS][WORKERS]; /* slots of each worker in each step */
    char hash[65], not_finite[16];
    int not_finite_count; /* steps */
    const char *extra[8]; /* more NAME=VALUE for the workers */
    const char *log;      /* file for their stderr; NULL: that of this process */
};

static const char *trainer;

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
    execl(trainer, trainer, (char *)NULL);
    _exit(127);
}

static uint32_t start_worker(struct agent *agent)
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

static void send_line(struct worker *worker, const char *text)
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
        if (agent->worker[i].pid != 0) send_line(&agent->worker[i], full);
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

/* Serves until step `step` is reported, or (step == STEPS) until all workers have ended. */
static void serve_until(struct agent *agent, int64_t step, int64_t bound_ms)
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

static void agent_init(struct agent *agent)
{
    memset(agent, 0, sizeof *agent);
    agent->last_step = -1;
    agent->extra[0] = "E2E_ELEMENTS=100000";
    agent->extra[1] = "SHOAL_EMULATE_SLOT_US=3000";
}

/* The hash that the same job prints on one worker without an agent. */
static void standalone_hash(char hash[65], const char *moments)
{
    char command[512], line[256] = "";
    snprintf(command, sizeof command,
             "%s E2E_ELEMENTS=100000 SHOAL_STEPS=%d SHOAL_SLOTS=%d '%s' 2>/dev/null", moments,
             STEPS, SLOTS, trainer);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    assert_non_null(fgets(line, sizeof line, output));
    assert_int_equal(pclose(output), 0);
    assert_int_equal(sscanf(line, "weights sha256 %64s", hash), 1);
}

static void run_through_churn(const char *moments)
{
    static struct agent agent;
    char expected[65];
    standalone_hash(expected, moments);
    agent_init(&agent);
    if (moments[0] != '\0') agent.extra[2] = moments;
    for (int i = 0; i < 4; i++) start_worker(&agent);
    serve_until(&agent, 5, 120000);
    kill(agent.worker[2].pid, SIGKILL);
    serve_until(&agent, 10, 120000);
    start_worker(&agent);
    start_worker(&agent);
    kill(agent.worker[0].pid, SIGKILL); /* the leader */
    serve_until(&agent, 18, 120000);
    send_line(&agent.worker[1], "{\"t\":\"leave\",\"reason\":\"price\",\"deadline_ms\":3000}\n");
    start_worker(&agent);
    serve_until(&agent, 26, 120000);
    kill(agent.worker[3].pid, SIGKILL);
    kill(agent.worker[4].pid, SIGTERM);
    serve_until(&agent, STEPS, 120000);
    assert_string_equal(agent.hash, expected);
    for (int step = 0; step < STEPS; step++) assert_true(agent.step_seen[step]);
    assert_true(WIFSIGNALED(agent.worker[0].exit_status));
    assert_int_equal(agent.worker[1].exit_status, 0); /* left as told */
    assert_int_equal(agent.worker[4].exit_status, 0);
    assert_int_equal(agent.worker[5].exit_status, 0);
    assert_int_equal(agent.worker[6].exit_status, 0);
    assert_int_equal(agent.done_count, 2);
}

/* Two workers, one three times as fast: 64 slots settle at 48 and 16 within three steps. The speeds
 * are emulated (slots are padded by sleeping); a loaded machine adds a little to both. */
static void slots_follow_the_speed_of_real_processes(void **state)
{
    (void)state;
    static struct agent agent;
    agent_init(&agent);
    agent.extra[2] = "SHOAL_SLOTS=64";
    agent.extra[3] = "SHOAL_GANG=2";
    agent.extra[0] = "E2E_ELEMENTS=1000";
    agent.extra[1] = "SHOAL_EMULATE_SLOT_US=7000";
    start_worker(&agent);
    agent.extra[1] = "SHOAL_EMULATE_SLOT_US=21000";
    start_worker(&agent);
    serve_until(&agent, 8, 120000);
    for (uint32_t i = 0; i < 2; i++) kill(agent.worker[i].pid, SIGKILL);
    agent.may_stall = true;
    serve_until(&agent, STEPS, 120000);
    for (int step = 0; step <= 8; step++)
        print_message("step %d: %u and %u slots\n", step, agent.owned[step][0],
                      agent.owned[step][1]);
    assert_int_equal(agent.owned[0][0], 32);
    assert_in_range(agent.owned[3][0], 45, 51);
    assert_in_range(agent.owned[8][0], 45, 51);
}

static void survivors_end_with_the_bits_of_one_worker(void **state)
{
    (void)state;
    run_through_churn("");
}

static void so_do_those_with_sharded_moments(void **state)
{
    (void)state;
    run_through_churn("E2E_MOMENTS=1");
}

static bool read_log(const char *log, char *ret_text, size_t bytes)
{
    FILE *file = fopen(log, "r");
    if (file == NULL) return false;
    ret_text[fread(ret_text, 1, bytes - 1, file)] = '\0';
    return fclose(file) == 0 && remove(log) == 0;
}

/* Four workers alike hold half of the moments each: an owned quarter and a mirrored one. */
static void a_worker_holds_its_share_of_the_moments(void **state)
{
    (void)state;
    static struct agent agent;
    static char text[1 << 20];
    char log[64];
    snprintf(log, sizeof log, "e2e-held-%ld", (long)getpid());
    agent_init(&agent);
    agent.log = log;
    agent.extra[2] = "E2E_MOMENTS=1";
    agent.extra[3] = "SHOAL_MEMORY_MIB=1000";
    agent.extra[4] = "SHOAL_GANG=4";
    for (int i = 0; i < 4; i++) start_worker(&agent);
    serve_until(&agent, STEPS, 120000);
    assert_true(read_log(log, text, sizeof text));
    unsigned long long sum = 0, held;
    int count = 0;
    char last[32];
    snprintf(last, sizeof last, "step %d: ", STEPS - 1);
    for (const char *at = text; (at = strstr(at, last)) != NULL; count++) {
        at += strlen(last);
        assert_int_equal(sscanf(at, "%llu elements held", &held), 1);
        assert_in_range(held, 50000 * 7 / 8, 50000 * 9 / 8);
        sum += held;
    }
    assert_int_equal(count, 4);
    assert_int_equal(sum, 200000);
}

/* Two of four die at once: some moments lose owner and mirror. The others say so, go back to the
 * newest checkpoint, which is at most an interval old, and still end with the same bits. */
static void owner_and_mirror_lost_at_once(void **state)
{
    (void)state;
    static struct agent agent;
    static char text[1 << 20];
    char expected[65], folder[64], variable[96], command[128], log[64];
    standalone_hash(expected, "E2E_MOMENTS=1");
    agent_init(&agent);
    snprintf(log, sizeof log, "e2e-lost-%ld", (long)getpid());
    snprintf(folder, sizeof folder, "e2e-lost-ckpt-%ld", (long)getpid());
    snprintf(variable, sizeof variable, "SHOAL_CHECKPOINT_DIR=%s", folder);
    agent.log = log;
    agent.extra[2] = "E2E_MOMENTS=1";
    agent.extra[3] = variable;
    agent.extra[4] = "SHOAL_CHECKPOINT_EVERY=5";
    for (int i = 0; i < 4; i++) start_worker(&agent);
    serve_until(&agent, 17, 120000);
    int64_t saved = agent.saved_step, reached = agent.last_step;
    assert_true(saved >= 5);
    kill(agent.worker[1].pid, SIGKILL);
    kill(agent.worker[2].pid, SIGKILL);
    serve_until(&agent, STEPS, 120000);
    assert_string_equal(agent.hash, expected);
    assert_int_equal(agent.done_count, 2);
    assert_true(read_log(log, text, sizeof text));
    const char *back = strstr(text, "going back to the newest checkpoint");
    assert_non_null(back);
    const char said[] = "resuming from the checkpoint of step ", *resumed = strstr(back, said);
    assert_non_null(resumed);
    int64_t from = strtoll(resumed + strlen(said), NULL, 10);
    assert_in_range(from, saved, reached + 1);
    print_message("step %lld reached, went on from %lld\n", (long long)reached, (long long)from);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* One NaN in one slot of step 6, under each policy. */
static void a_nan_is_skipped_stopped_at_or_passed_on(void **state)
{
    (void)state;
    static const char *const policies[] = {"SHOAL_ON_NAN=skip", "SHOAL_ON_NAN=continue",
                                           "SHOAL_ON_NAN=stop"};
    char skipped[65], sharded[65];
    for (int p = 0; p < 4; p++) { /* the last one: skip, with the moments sharded */
        static struct agent agent;
        agent_init(&agent);
        agent.extra[0] = "E2E_ELEMENTS=1000";
        agent.extra[1] = "SHOAL_EMULATE_SLOT_US=300";
        agent.extra[2] = "E2E_NAN_STEP=6";
        agent.extra[3] = policies[p % 3];
        agent.extra[4] = p == 3 ? "E2E_MOMENTS=1" : NULL;
        for (int i = 0; i < 3; i++) start_worker(&agent);
        serve_until(&agent, STEPS, 120000);
        assert_string_equal(agent.not_finite, p == 1 ? "applied" : p == 2 ? "" : "skipped");
        assert_int_equal(agent.not_finite_count, p == 1 ? STEPS - 6 : p != 2);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(WEXITSTATUS(agent.worker[i].exit_status), p == 2 ? 1 : 0);
        assert_int_equal(agent.last_step, p == 2 ? 5 : STEPS - 1);
        if (p == 0) memcpy(skipped, agent.hash, sizeof skipped);
        if (p == 3) memcpy(sharded, agent.hash, sizeof sharded);
        assert_true(p != 1 || strcmp(agent.hash, skipped) != 0);
    }
    print_message("skipped: %s, with sharded moments: %s\n", skipped, sharded);
}

/* Everybody dies at once; the next group goes on from the newest checkpoint that verifies. */
static void a_new_group_resumes_from_the_newest_checkpoint(void **state)
{
    (void)state;
    static struct agent agent;
    char expected[65], folder[64], variable[96], command[128];
    standalone_hash(expected, "");
    agent_init(&agent);
    snprintf(folder, sizeof folder, "e2e-ckpt-%ld", (long)getpid());
    snprintf(variable, sizeof variable, "SHOAL_CHECKPOINT_DIR=%s", folder);
    agent.extra[2] = variable;
    agent.extra[3] = "SHOAL_CHECKPOINT_EVERY=5";
    for (int i = 0; i < 4; i++) start_worker(&agent);
    serve_until(&agent, 23, 120000);
    assert_true(agent.saved_step >= 5);
    for (uint32_t i = 0; i < agent.worker_count; i++) kill(agent.worker[i].pid, SIGKILL);
    serve_until(&agent, STEPS, 120000);
    for (int i = 0; i < 3; i++) start_worker(&agent);
    serve_until(&agent, STEPS, 120000);
    assert_string_equal(agent.hash, expected);
    assert_int_equal(agent.saved_step, STEPS);
    assert_int_equal(agent.done_count, 3);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* Four workers with these values in their environment; a member and then the leader are killed, mostly
 * in the middle of a transfer, and replaced. The survivors end with the bits of one worker, and the
 * log names the kinds that must have been used. */
static void survive_on_links(const char *const link[4], const char *const used[3])
{
    static struct agent agent;
    static char text[1 << 17];
    char expected[65], log[64];
    standalone_hash(expected, "");
    agent_init(&agent);
    snprintf(log, sizeof log, "e2e-links-%ld", (long)getpid());
    agent.log = log;
    agent.extra[1] = "SHOAL_EMULATE_SLOT_US=500";
    for (int i = 0; i < 4; i++) {
        agent.extra[2] = link[i];
        start_worker(&agent);
    }
    serve_until(&agent, 8, 120000);
    kill(agent.worker[1].pid, SIGKILL);
    agent.extra[2] = link[1];
    start_worker(&agent);
    serve_until(&agent, 20, 120000);
    kill(agent.worker[0].pid, SIGKILL); /* the leader */
    agent.extra[2] = link[0];
    start_worker(&agent);
    serve_until(&agent, STEPS, 120000);
    assert_string_equal(agent.hash, expected);
    FILE *file = fopen(log, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(remove(log), 0);
    for (int i = 0; i < 3 && used[i] != NULL; i++) assert_non_null(strstr(text, used[i]));
}

static void every_kind_of_link_survives_kills(void **state)
{
    (void)state;
    const char *const shm[4] = {"SHOAL_LINK=shm", "SHOAL_LINK=shm", "SHOAL_LINK=auto",
                                "SHOAL_LINK="};
    const char *const tcp[4] = {"SHOAL_LINK=tcp", "SHOAL_LINK=tcp", "SHOAL_LINK=tcp",
                                "SHOAL_LINK=tcp"};
    const char *const tls[4] = {"SHOAL_LINK=tls", "SHOAL_LINK=tls", "SHOAL_LINK=tls",
                                "SHOAL_LINK=tls"};
    survive_on_links(shm, (const char *const[3]){"link=shm"});
    survive_on_links(tcp, (const char *const[3]){"link=tcp"});
    survive_on_links(tls, (const char *const[3]){"link=tls"});
}

/* Two zones of two: parts merge within a zone before they cross. */
static void zones_merge_before_they_cross(void **state)
{
    (void)state;
    const char *const zones[4] = {"SHOAL_ZONE=east", "SHOAL_ZONE=west", "SHOAL_ZONE=east",
                                  "SHOAL_ZONE=west"};
    survive_on_links(zones, (const char *const[3]){"link=shm"});
}

/* Each pair takes the stricter of its two wishes, all in one exchange. */
static void links_of_several_kinds_in_one_group(void **state)
{
    (void)state;
    const char *const mixed[4] = {"SHOAL_LINK=auto", "SHOAL_LINK=tcp", "SHOAL_LINK=auto",
                                  "SHOAL_LINK=tls"};
    survive_on_links(mixed, (const char *const[3]){"link=shm", "link=tcp", "link=tls"});
}

/* A peer that shows another token is left alone: two groups of one secret each cannot mix. */
static void a_wrong_token_is_refused(void **state)
{
    (void)state;
    static struct agent agent;
    agent_init(&agent);
    start_worker(&agent);
    start_worker(&agent);
    agent.may_stall = true;
    agent.extra[2] = "SHOAL_TOKEN=other";
    start_worker(&agent);
    serve_until(&agent, STEPS, 1500);
    assert_int_equal(agent.last_step, -1); /* the gang of three never comes together */
    for (uint32_t i = 0; i < agent.worker_count; i++) kill(agent.worker[i].pid, SIGKILL);
    serve_until(&agent, STEPS, 120000);
}

/* Two workers, then a third with `setting`: it is not let in, and the log has the sentence. */
static void check_refused(const char *setting, const char *other, const char *sentence)
{
    static struct agent agent;
    char log[64], text[8192];
    snprintf(log, sizeof log, "e2e-log-%ld", (long)getpid());
    agent_init(&agent);
    agent.may_stall = true;
    agent.log = log;
    agent.extra[2] = setting;
    start_worker(&agent);
    start_worker(&agent);
    agent.extra[2] = other;
    start_worker(&agent);
    serve_until(&agent, STEPS, 1500);
    assert_int_equal(agent.last_step, -1);
    for (uint32_t i = 0; i < agent.worker_count; i++) kill(agent.worker[i].pid, SIGKILL);
    serve_until(&agent, STEPS, 120000);
    FILE *file = fopen(log, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(remove(log), 0);
    assert_non_null(strstr(text, sentence));
}

/* Nor does a peer of another run get in, and the log says which two did not match. */
static void another_identity_is_refused(void **state)
{
    (void)state;
    check_refused("E2E_IDENTITY=1a", "E2E_IDENTITY=2b",
                  "it has identity 000000000000002b, this worker 000000000000001a");
}

static void another_tensor_is_named(void **state)
{
    (void)state;
    check_refused("E2E_IDENTITY=1a", "E2E_ELEMENTS=99",
                  "it has another tensor where this worker's tensor 1 is b [99993]");
}

/* It says so and ends; the two that fit go on waiting for their gang. */
static void who_is_refused_by_all_ends(void **state)
{
    (void)state;
    static struct agent agent;
    char log[64], text[8192];
    snprintf(log, sizeof log, "e2e-log-%ld", (long)getpid());
    agent_init(&agent);
    agent.may_stall = true;
    agent.log = log;
    agent.extra[2] = "E2E_IDENTITY=1a";
    start_worker(&agent);
    start_worker(&agent);
    agent.extra[2] = "E2E_IDENTITY=2b";
    uint32_t odd = start_worker(&agent);
    serve_until(&agent, STEPS, 13000);
    assert_int_equal(agent.worker[odd].pid, 0);
    assert_true(WIFEXITED(agent.worker[odd].exit_status));
    assert_int_not_equal(WEXITSTATUS(agent.worker[odd].exit_status), 0);
    for (uint32_t i = 0; i < odd; i++) assert_int_not_equal(agent.worker[i].pid, 0);
    for (uint32_t i = 0; i < odd; i++) kill(agent.worker[i].pid, SIGKILL);
    serve_until(&agent, STEPS, 120000);
    assert_true(read_log(log, text, sizeof text));
    assert_non_null(strstr(text, "no worker of this job lets this one in: of one of them, it has "
                                 "identity 000000000000001a, this worker 000000000000002b"));
}

/* What it computed with would else go into all later gradients. */
static void a_joiner_whose_weights_changed_is_outvoted(void **state)
{
    (void)state;
    static struct agent agent;
    char expected[65], log[64], text[65536];
    snprintf(log, sizeof log, "e2e-log-%ld", (long)getpid());
    standalone_hash(expected, "");
    agent_init(&agent);
    agent.log = log;
    agent.extra[2] = "E2E_FLIP=4";
    for (int i = 0; i < 3; i++) start_worker(&agent);
    serve_until(&agent, 5, 120000);
    start_worker(&agent);
    serve_until(&agent, STEPS, 120000);
    assert_true(read_log(log, text, sizeof text));
    assert_non_null(strstr(text, "the weights of a worker are not those of the others; it gets "
                                 "them anew\" worker=4"));
    assert_string_equal(agent.hash, expected);
}

static void an_agent_of_another_release_is_refused(void **state)
{
    (void)state;
    static struct agent agent;
    char log[64], text[8192];
    snprintf(log, sizeof log, "e2e-log-%ld", (long)getpid());
    agent_init(&agent);
    agent.log = log;
    agent.extra[2] = "SHOAL_PROTOCOL=99";
    uint32_t odd = start_worker(&agent);
    serve_until(&agent, STEPS, 120000);
    assert_true(WIFEXITED(agent.worker[odd].exit_status));
    assert_int_equal(WEXITSTATUS(agent.worker[odd].exit_status), 1);
    assert_true(read_log(log, text, sizeof text));
    assert_non_null(strstr(text, "the agent speaks protocol 99, this libshoal "));
    assert_non_null(strstr(text, "install the same release of shoal on both"));
}

static void say_hello(const char *address, uint32_t version)
{
    static uint8_t frame[WIRE_HEADER_BYTES + WIRE_PAYLOAD_MAX];
    struct wire_hello hello = {.version = version, .worker = 2, .place = {.port = 1}};
    struct sockaddr_in remote = {.sin_family = AF_INET};
    char host[64];
    unsigned port = 0;
    assert_int_equal(sscanf(address, "%63[0-9.]:%u", host, &port), 2);
    assert_int_equal(inet_pton(AF_INET, host, &remote.sin_addr), 1);
    remote.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&remote, sizeof remote), 0);
    size_t count = wire_put_hello(frame + WIRE_HEADER_BYTES, &hello);
    wire_put_header(frame, WIRE_HELLO, (uint32_t)count);
    assert_int_equal(send(fd, frame, WIRE_HEADER_BYTES + count, 0), WIRE_HEADER_BYTES + count);
    uint8_t answer[4096];
    while (recv(fd, answer, sizeof answer, 0) > 0) {} /* its own hello, and then the end */
    close(fd);
}

static void a_peer_of_another_release_is_named(void **state)
{
    (void)state;
    static struct agent agent;
    char log[64], text[8192], expected[128];
    snprintf(log, sizeof log, "e2e-log-%ld", (long)getpid());
    agent_init(&agent);
    agent.log = log;
    agent.may_stall = true;
    start_worker(&agent);
    for (int i = 0; i < 100 && agent.worker[0].addr[0] == '\0'; i++)
        serve_until(&agent, STEPS, 100);
    say_hello(agent.worker[0].addr, WIRE_VERSION + 1);
    kill(agent.worker[0].pid, SIGKILL);
    serve_until(&agent, STEPS, 120000);
    assert_true(read_log(log, text, sizeof text));
    snprintf(expected, sizeof expected,
             "it speaks version %d of the protocol between workers, this one %d; install the same "
             "release",
             WIRE_VERSION + 1, WIRE_VERSION);
    assert_non_null(strstr(text, expected));
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    trainer = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_end_with_the_bits_of_one_worker),
        cmocka_unit_test(slots_follow_the_speed_of_real_processes),
        cmocka_unit_test(a_nan_is_skipped_stopped_at_or_passed_on),
        cmocka_unit_test(so_do_those_with_sharded_moments),
        cmocka_unit_test(a_worker_holds_its_share_of_the_moments),
        cmocka_unit_test(owner_and_mirror_lost_at_once),
        cmocka_unit_test(a_new_group_resumes_from_the_newest_checkpoint),
        cmocka_unit_test(every_kind_of_link_survives_kills),
        cmocka_unit_test(zones_merge_before_they_cross),
        cmocka_unit_test(links_of_several_kinds_in_one_group),
        cmocka_unit_test(a_joiner_whose_weights_changed_is_outvoted),
        cmocka_unit_test(an_agent_of_another_release_is_refused),
        cmocka_unit_test(a_peer_of_another_release_is_named),
        cmocka_unit_test(a_wrong_token_is_refused),
        cmocka_unit_test(another_identity_is_refused),
        cmocka_unit_test(another_tensor_is_named),
        cmocka_unit_test(who_is_refused_by_all_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
