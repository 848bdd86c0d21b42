#include "driver/local_machine.h"
#include "base/io.h"
#include "base/mem.h"
#include "driver/local_status.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    ENVIRON_BYTES_MAX = 256 << 10, /* of another process; longer ones are read in part */
    ARGS_MAX = 24,
    STOP_SPINS_MAX = 2000, /* looks at a process that was told to stop, about 2 ms */
};
#define MARK_NAME "SHOAL_MACHINE="

struct process_facts {
    char state; /* 'R', 'S', 'T' stopped, 'Z' dead but not reaped, 'X' dead */
    int32_t session;
    uint64_t start_ticks;
};

uint64_t local_machine_new_mark(void)
{
    uint64_t mark = 0;
    while (mark == 0)
        if (getrandom(&mark, sizeof mark, 0) != (ssize_t)sizeof mark) mark = 0; /* EINTR: again */
    return mark;
}

/* Whole small file of /proc into buffer, 0-terminated; -1 if it is gone or not ours. */
static ssize_t read_proc(int32_t pid, const char *what, char *buffer, size_t bytes)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, what); /* fits: pid and a short word */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    size_t have = 0;
    while (have < bytes - 1) {
        ssize_t got = read(fd, buffer + have, bytes - 1 - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        have += (size_t)got;
    }
    (void)close(fd); /* read only */
    buffer[have] = '\0';
    return (ssize_t)have;
}

static bool read_facts(int32_t pid, struct process_facts *ret_facts)
{
    char text[1024];
    if (read_proc(pid, "stat", text, sizeof text) <= 0) return false;
    /* pid (name) state ppid pgrp session ...: the name may hold blanks and brackets. */
    const char *rest = strrchr(text, ')');
    if (rest == NULL) return false;
    char state;
    int session;
    uint64_t start_ticks;
    int fields = sscanf(rest + 1,
                        " %c %*d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                        "%*d %" SCNu64,
                        &state, &session, &start_ticks);
    if (fields != 3) return false;
    *ret_facts = (struct process_facts){state, session, start_ticks};
    return true;
}

static bool has_mark(int32_t pid, uint64_t mark, char *buffer)
{
    char wanted[64];
    int length = snprintf(wanted, sizeof wanted, MARK_NAME "%016" PRIx64, mark);
    ssize_t bytes = read_proc(pid, "environ", buffer, ENVIRON_BYTES_MAX);
    for (ssize_t at = 0; at < bytes;) {
        const char *entry = buffer + at;
        if (strncmp(entry, wanted, (size_t)length + 1) == 0) return true;
        at += (ssize_t)strlen(entry) + 1;
    }
    return false;
}

static bool is_dead(const struct process_facts *facts)
{
    return facts->state == 'Z' || facts->state == 'X';
}

typedef void process_fn(void *self, int32_t pid, const struct process_facts *facts);

/* Calls back for every live process of the machine. A session whose leader is dead keeps its
 * number while it has members, so a member that started after the agent is one of ours. */
static uint32_t each_process(const struct local_machine *machine, process_fn *fn, void *self)
{
    char *buffer = mem_alloc(ENVIRON_BYTES_MAX);
    DIR *proc = opendir("/proc");
    uint32_t count = 0;
    for (struct dirent *entry; buffer != NULL && proc != NULL && (entry = readdir(proc)) != NULL;) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        struct process_facts facts;
        if (*end != '\0' || pid <= 1 || pid == (long)getpid()) continue;
        if (!read_facts((int32_t)pid, &facts) || is_dead(&facts)) continue;
        bool in_session = machine->pid != 0 && facts.session == machine->pid &&
                          facts.start_ticks >= machine->start_ticks;
        if (!in_session && !has_mark((int32_t)pid, machine->mark, buffer)) continue;
        count++;
        fn(self, (int32_t)pid, &facts);
    }
    if (proc != NULL) (void)closedir(proc); /* read only */
    mem_free(buffer);
    return count;
}

static void send_signal(void *self, int32_t pid, const struct process_facts *facts)
{
    (void)facts;
    (void)kill(pid, *(const int *)self); /* it may have ended since; the caller looks again */
}

uint32_t local_machine_signal_all(const struct local_machine *machine, int signal)
{
    if (signal == SIGKILL && local_machine_agent_alive(machine))
        (void)kill(machine->pid, SIGKILL); /* first, so that it starts nothing more */
    return each_process(machine, send_signal, &signal);
}

bool local_machine_agent_alive(const struct local_machine *machine)
{
    if (machine->pid <= 0) return false;
    struct process_facts facts;
    bool found = read_facts(machine->pid, &facts) && facts.start_ticks == machine->start_ticks;
    if (found && !is_dead(&facts)) return true;
    if (found)
        (void)waitpid(machine->pid, NULL, WNOHANG); /* ECHILD: another's child, then init's */
    return false;
}

void local_machine_signal_agent(const struct local_machine *machine, int signal)
{
    if (local_machine_agent_alive(machine)) (void)kill(machine->pid, signal); /* may have ended */
}

static void take_leader(void *self, int32_t pid, const struct process_facts *facts)
{
    struct local_machine *machine = self;
    if (facts->session != pid) return;
    machine->pid = pid;
    machine->start_ticks = facts->start_ticks;
}

bool local_machine_adopt(struct local_machine *machine)
{
    struct local_machine found = {.mark = machine->mark};
    (void)each_process(&found, take_leader, &found);
    if (found.pid == 0) return false;
    *machine = found;
    return true;
}

static void count_running(void *self, int32_t pid, const struct process_facts *facts)
{
    (void)pid;
    if (facts->state != 'T') ++*(uint32_t *)self;
}

bool local_machine_kill_during_reduce(const struct local_machine *machine, const char *dir)
{
    if (!local_status_any(dir, "reduce")) return false;
    (void)local_machine_signal_all(machine, SIGSTOP);
    uint32_t running = 1;
    for (int spin = 0; running > 0 && spin < STOP_SPINS_MAX / 100; spin++) {
        running = 0;
        (void)each_process(machine, count_running, &running);
    }
    /* Frozen: what the page says now is what the worker was doing when it died. */
    bool hit = local_status_any(dir, "reduce");
    (void)local_machine_signal_all(machine, hit ? SIGKILL : SIGCONT);
    return hit;
}

/* ---- starting ---- */

struct spawn_words {
    const char *args[ARGS_MAX];
    char key[24], devices[16], vram[16], slot[24], program[4096], log[4096], mark[64];
    char **environment;
};

static void add_option(struct spawn_words *words, uint32_t *count, const char *name,
                       const char *value)
{
    words->args[(*count)++] = name;
    words->args[(*count)++] = value;
}

static bool fill_program(struct spawn_words *words, const struct local_machine_plan *plan,
                         struct error *ret_error)
{
    if (plan->program != NULL) {
        (void)snprintf(words->program, sizeof words->program, "%s", plan->program);
        return true;
    }
    ssize_t length = readlink("/proc/self/exe", words->program, sizeof words->program - 1);
    if (length <= 0)
        return error_set(ret_error, "/proc/self/exe: cannot find the running binary: %s",
                         error_errno(errno));
    words->program[length] = '\0';
    /* Replaced by an upgrade while we run: machines go on with what we are. */
    if (access(words->program, X_OK) != 0)
        (void)snprintf(words->program, sizeof words->program, "/proc/self/exe");
    return true;
}

static void fill_args(struct spawn_words *words, const struct local_machine_plan *plan)
{
    (void)snprintf(words->key, sizeof words->key, "%" PRIu64, plan->node_key);
    (void)snprintf(words->devices, sizeof words->devices, "%u", plan->device_count);
    (void)snprintf(words->vram, sizeof words->vram, "%u", plan->vram_mib);
    (void)snprintf(words->slot, sizeof words->slot, "%" PRId64, plan->slot_us);
    uint32_t count = 0;
    add_option(words, &count, words->program, "agent");
    add_option(words, &count, "--server", plan->server_url);
    add_option(words, &count, "--server-file", plan->server_file);
    add_option(words, &count, "--token-file", plan->agent_token_file);
    add_option(words, &count, "--node", words->key);
    add_option(words, &count, "--device", plan->model);
    add_option(words, &count, "--devices", words->devices);
    add_option(words, &count, "--vram-mib", words->vram);
    add_option(words, &count, "--zone", plan->zone);
    add_option(words, &count, "--data", plan->dir);
    if (plan->slot_us > 0) add_option(words, &count, "--emulate-slot-us", words->slot);
    words->args[count] = NULL;
}

/* Our environment plus the mark; entries are borrowed. */
static char **environment_with(char *mark)
{
    size_t count = 0;
    while (environ[count] != NULL) count++;
    char **copy = mem_zalloc(count + 2, sizeof *copy);
    if (copy == NULL) return NULL;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], MARK_NAME, strlen(MARK_NAME)) != 0) copy[kept++] = environ[i];
    copy[kept] = mark;
    return copy;
}

/* Own session, default signals, nothing inherited but the log: the listening socket of the server
 * must not live on in its machines. */
static int spawn(struct spawn_words *words, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    (void)sigemptyset(&none); /* cannot fail */
    (void)sigfillset(&all);   /* cannot fail */
    int status = posix_spawn_file_actions_init(&actions);
    if (status != 0) return status;
    status = posix_spawnattr_init(&attributes);
    if (status != 0) {
        (void)posix_spawn_file_actions_destroy(&actions); /* cannot fail */
        return status;
    }
    status |= posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    status |= posix_spawn_file_actions_addopen(&actions, 1, words->log,
                                               O_WRONLY | O_CREAT | O_APPEND, 0600);
    status |= posix_spawn_file_actions_adddup2(&actions, 1, 2);
    status |= posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    status |= posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                        POSIX_SPAWN_SETSIGDEF);
    status |= posix_spawnattr_setsigmask(&attributes, &none);
    status |= posix_spawnattr_setsigdefault(&attributes, &all);
    if (status == 0)
        status = posix_spawn(ret_pid, words->program, &actions, &attributes,
                             (char *const *)(uintptr_t)words->args, words->environment);
    (void)posix_spawnattr_destroy(&attributes);       /* cannot fail */
    (void)posix_spawn_file_actions_destroy(&actions); /* cannot fail */
    return status;
}

bool local_machine_start(struct local_machine *machine, const struct local_machine_plan *plan,
                         struct error *ret_error)
{
    struct spawn_words *words = mem_zalloc(1, sizeof *words);
    if (words == NULL) return error_set(ret_error, "%s: out of memory", plan->dir);
    pid_t pid = 0;
    bool started = false;
    struct process_facts facts;
    (void)snprintf(words->mark, sizeof words->mark, MARK_NAME "%016" PRIx64, machine->mark);
    words->environment = environment_with(words->mark);
    int length = snprintf(words->log, sizeof words->log, "%s/agent.log", plan->dir);
    if (words->environment == NULL || length < 0 || (size_t)length >= sizeof words->log) {
        (void)error_set(ret_error, "%s: out of memory, or the path is too long", plan->dir);
        goto done;
    }
    if (!io_make_dirs(plan->dir, ret_error) || !fill_program(words, plan, ret_error)) goto done;
    fill_args(words, plan);
    int status = spawn(words, &pid);
    if (status != 0) {
        (void)error_set(ret_error, "%s: cannot start an emulated machine: %s", words->program,
                        error_errno(status));
        goto done;
    }
    if (!read_facts((int32_t)pid, &facts)) facts.start_ticks = 0; /* cannot be: we must reap it */
    machine->pid = (int32_t)pid;
    machine->start_ticks = facts.start_ticks;
    started = true;
done:
    mem_free(words->environment);
    mem_free(words);
    return started;
}
