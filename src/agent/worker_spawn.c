#include "agent/worker_spawn.h"
#include "base/mem.h"
#include "worker/protocol.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

enum { TALK_FD = 3, FIXED_COUNT = 25, CANNOT_EXEC = 127 };

/* ---- environment: the agent's, then the job's, then ours; later ones win ---- */

struct environment {
    char **entries; /* all owned, NULL at the end */
    size_t count, room;
    bool failed; /* out of memory */
};

static void put(struct environment *env, char *entry)
{
    if (entry == NULL || env->count + 1 >= env->room) {
        env->failed = true;
        mem_free(entry);
        return;
    }
    size_t name = strcspn(entry, "=") + 1, i = 0;
    while (i < env->count && strncmp(env->entries[i], entry, name) != 0) i++;
    if (i < env->count)
        mem_free(env->entries[i]);
    else
        env->count++;
    env->entries[i] = entry;
}

static void put_number(struct environment *env, const char *name, uint64_t value)
{
    put(env, mem_printf("%s=%" PRIu64, name, value));
}

static void put_text(struct environment *env, const char *name, const char *value)
{
    if (value != NULL && value[0] != '\0') put(env, mem_printf("%s=%s", name, value));
}

static void free_environment(struct environment *env)
{
    for (size_t i = 0; i < env->count; i++) mem_free(env->entries[i]);
    mem_free(env->entries);
}

/* The n-th of "4,5,6,7" as a copy; NULL: it has not so many, or no memory. */
static char *nth_of(const char *list, uint32_t n)
{
    for (; n > 0; n--) {
        list = strchr(list, ',');
        if (list == NULL) return NULL;
        list++;
    }
    return mem_printf("%.*s", (int)strcspn(list, ","), list);
}

/* The devices as the runtime of their maker counts them: an agent that was given some of a machine's
 * counts from 0 all the same. NULL: it has fewer, or no memory. */
static char *list_devices(uint32_t mask, const char *agents)
{
    char *text = mem_strdup("");
    for (uint32_t i = 0; text != NULL && mask >> i != 0; i++) {
        if ((mask >> i & 1) == 0) continue;
        char *name = agents == NULL ? mem_printf("%" PRIu32, i) : nth_of(agents, i);
        char *longer =
            name == NULL ? NULL : mem_printf("%s%s%s", text, text[0] == '\0' ? "" : ",", name);
        mem_free(name);
        mem_free(text);
        text = longer;
        if (i + 1 == 32) break;
    }
    return text;
}

/* Which devices are its own, in the words of each maker's runtime: others work on the rest. */
static void put_devices(struct environment *env, const struct reply_worker *wanted,
                        const struct worker_place *place)
{
    static const char *const visible[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                          "ASCEND_RT_VISIBLE_DEVICES"};
    if (wanted->device_milli == 0) {
        for (size_t i = 0; i < sizeof visible / sizeof visible[0]; i++)
            put(env, mem_printf("%s=", visible[i]));
    }
    if (wanted->device_mask == 0) return;
    char *own = list_devices(wanted->device_mask, NULL);
    put_text(env, "SHOAL_DEVICES", own);
    mem_free(own);
    if (wanted->device_milli > 0 && wanted->device_milli < 1000)
        put_number(env, "SHOAL_DEVICE_MILLI", wanted->device_milli);
    if (wanted->mig_compute > 0)
        put(env, mem_printf("SHOAL_MIG=%" PRIu32 "g@%" PRIu32 "%s", wanted->mig_compute,
                            wanted->mig_start, place->emulate_slot_us > 0 ? " emulated" : ""));
    if (place->emulate_slot_us > 0) return;           /* its devices are made up */
    put_text(env, "CUDA_DEVICE_ORDER", "PCI_BUS_ID"); /* the numbers below mean what we read */
    for (size_t i = 0; i < sizeof visible / sizeof visible[0]; i++) {
        char *list = list_devices(wanted->device_mask, getenv(visible[i]));
        if (list == NULL) env->failed = true;
        put_text(env, visible[i], list);
        mem_free(list);
    }
}

static bool make_environment(struct environment *env, const struct reply_worker *wanted,
                             const struct worker_place *place, const char *status_file)
{
    size_t inherited = 0;
    while (environ[inherited] != NULL) inherited++;
    env->room = inherited + wanted->env_count + FIXED_COUNT;
    env->entries = mem_zalloc(env->room, sizeof *env->entries);
    if (env->entries == NULL) return false;
    for (size_t i = 0; i < inherited; i++) put(env, mem_strdup(environ[i]));
    for (uint32_t i = 0; i < wanted->env_count; i++)
        put(env, mem_printf("%s=%s", wanted->env[2 * i], wanted->env[2 * i + 1]));
    put_number(env, "SHOAL_JOB", wanted->job);
    put_number(env, "SHOAL_WORKER", wanted->worker);
    put_number(env, "SHOAL_NODE", place->node_key);
    put_number(env, "SHOAL_SLOTS", wanted->slots);
    put_number(env, "SHOAL_STEPS", wanted->steps);
    put_number(env, "SHOAL_GANG", wanted->gang);
    put_text(env, "SHOAL_CHECKPOINT_DIR", wanted->checkpoint_dir);
    if (wanted->checkpoint_every == UINT32_MAX)
        put_text(env, "SHOAL_CHECKPOINT_EVERY", "auto");
    else if (wanted->checkpoint_every >
             0) /* else the job's own folder, if it has one, is for it to say */
        put_number(env, "SHOAL_CHECKPOINT_EVERY", wanted->checkpoint_every);
    put_text(env, "SHOAL_DEVICE_MODEL", place->model);
    put_devices(env, wanted, place);
    put_text(env, "SHOAL_ZONE", place->zone);
    put_text(env, "SHOAL_TOKEN", wanted->token);
    put_text(env, "SHOAL_STATUS", status_file);
    put_number(env, "SHOAL_AGENT_FD", TALK_FD);
    put_number(env, "SHOAL_PROTOCOL", WORKER_PROTOCOL);
    if (place->emulate_slot_us > 0)
        put_number(env, "SHOAL_EMULATE_SLOT_US", (uint64_t)place->emulate_slot_us);
    return !env->failed;
}

/* ---- the child: only calls that are safe between fork and exec ---- */

struct child_plan {
    char **args;
    char **environment;
    const char *dir;
    const cpu_set_t *processors;
    int out_fd, err_fd, talk_fd;
    pid_t agent;
};

static _Noreturn void fail_in_child(const char *what, const char *which)
{
    const char *reason = error_errno(errno);
    const char *const parts[] = {"shoal: cannot ", what, " ", which, ": ", reason, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0) break;
    _exit(CANNOT_EXEC);
}

/* The three ends may sit on each other's target numbers: move them out of the way first. */
static void place_fds(const struct child_plan *plan)
{
    int out_fd = fcntl(plan->out_fd, F_DUPFD_CLOEXEC, TALK_FD + 1);
    int err_fd = fcntl(plan->err_fd, F_DUPFD_CLOEXEC, TALK_FD + 1);
    int talk_fd = fcntl(plan->talk_fd, F_DUPFD_CLOEXEC, TALK_FD + 1);
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (dup2(err_fd, STDERR_FILENO) < 0 || dup2(out_fd, STDOUT_FILENO) < 0 ||
        dup2(null_fd, STDIN_FILENO) < 0 || dup2(talk_fd, TALK_FD) < 0)
        _exit(CANNOT_EXEC);
    (void)close_range(TALK_FD + 1, ~0U, 0); /* belt and braces: all of ours close on exec anyway */
}

/* Of the processors at its devices those that the agent itself may use; where it may use none of them the
 * worker runs where the agent does. Its memory follows: the kernel takes it from where it runs. */
static void bind_to(const cpu_set_t *processors)
{
    cpu_set_t own, both;
    if (processors == NULL || sched_getaffinity(0, sizeof own, &own) != 0) return;
    CPU_AND(&both, &own, processors);
    if (CPU_COUNT(&both) > 0) (void)sched_setaffinity(0, sizeof both, &both); /* it only helps */
}

static _Noreturn void run_child(const struct child_plan *plan)
{
    sigset_t none;
    (void)sigemptyset(&none);                    /* cannot fail */
    (void)sigprocmask(SIG_SETMASK, &none, NULL); /* cannot fail */
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);      /* the agent ignores SIGPIPE; KILL and STOP refuse */
    (void)setpgid(0, 0);                    /* the agent does it too: whoever is first */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* known option */
    if (getppid() != plan->agent) _exit(CANNOT_EXEC); /* the agent died in between */
    place_fds(plan);
    bind_to(plan->processors);
    if (plan->dir[0] != '\0' && chdir(plan->dir) != 0) fail_in_child("enter", plan->dir);
    environ = plan->environment;
    (void)execvp(plan->args[0], plan->args); /* returns only on failure */
    fail_in_child("run", plan->args[0]);
}

static void close_pair(const int pair[2])
{
    if (pair[0] >= 0) (void)close(pair[0]); /* nothing was written */
    if (pair[1] >= 0) (void)close(pair[1]); /* likewise */
}

bool worker_spawn(const struct reply_worker *wanted, const struct worker_place *place,
                  const char *status_file, struct worker_streams *ret_streams,
                  struct error *ret_error)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, talk[2] = {-1, -1};
    struct environment env = {0};
    bool started = false;
    char **args = mem_zalloc(wanted->arg_count + 1, sizeof *args);
    if (args == NULL || wanted->arg_count == 0 ||
        !make_environment(&env, wanted, place, status_file)) {
        (void)error_set(ret_error,
                        "worker %" PRIu64
                        ": no command, devices that the agent does not have, or out of memory",
                        wanted->worker);
        goto done;
    }
    for (uint32_t i = 0; i < wanted->arg_count; i++)
        args[i] = (char *)(uintptr_t)wanted->args[i]; /* execvp does not write to them */
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) != 0) {
        (void)error_set(ret_error, "worker %" PRIu64 ": cannot make its pipes: %s", wanted->worker,
                        error_errno(errno));
        goto done;
    }
    const struct child_plan plan = {args,
                                    env.entries,
                                    wanted->dir == NULL ? "" : wanted->dir,
                                    place->processors,
                                    out[1],
                                    err[1],
                                    talk[1],
                                    getpid()};
    pid_t pid = fork();
    if (pid == 0) run_child(&plan);
    if (pid < 0) {
        (void)error_set(ret_error, "worker %" PRIu64 ": cannot start a process: %s", wanted->worker,
                        error_errno(errno));
        goto done;
    }
    (void)setpgid(pid, pid); /* the child does it too; fails once it has exec'ed */
    *ret_streams = (struct worker_streams){pid, out[0], err[0], talk[0]};
    out[0] = err[0] = talk[0] = -1;
    started = true;
done:
    close_pair(out);
    close_pair(err);
    close_pair(talk);
    free_environment(&env);
    mem_free(args);
    return started;
}
