#include "demo/children.h"
#include "base/clock.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ASKED_US  INT64_C(2000000) /* what a process gets to stop by itself */
#define KILLED_US INT64_C(8000000) /* then the kernel has cleared away what was killed */
enum { PROCESSES_MAX = 8192, LOOK_MS = 20 };

static volatile sig_atomic_t must_stop; /* set by the signal handler, nothing else */

static void on_signal(int number)
{
    (void)number;
    must_stop = 1;
}

void children_adopt(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction action = {.sa_handler = on_signal};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        (void)sigaction(signals[i], &action, NULL);  /* valid signals: cannot fail */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* Linux has had it since 3.4 */
}

bool children_must_stop(void)
{
    return must_stop != 0;
}

void children_pause_ms(long ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    if (!children_must_stop()) (void)nanosleep(&span, NULL); /* a signal ends it: as wanted */
}

static void clear_environment(void)
{
    static const char *const names[] = {
        "SHOAL_JOB",      "SHOAL_SLOTS",          "SHOAL_STEPS",
        "SHOAL_GANG",     "SHOAL_CHECKPOINT_DIR", "SHOAL_CHECKPOINT_EVERY",
        "SHOAL_AGENT_FD", "SHOAL_STATUS",         "SHOAL_EMULATE_SLOT_US",
        "SHOAL_SERVER",   "SHOAL_TOKEN_FILE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]); /* valid names: cannot fail */
}

/* In the child: never returns. */
static void become(const char *const *argv, const char *out_path)
{
    (void)setpgid(0, 0); /* right after fork: cannot fail */
    clear_environment();
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in < 0 || dup2(in, 0) < 0) _exit(127);
    if (out_path != NULL) {
        int out = open(out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(127);
    }
    execvp(argv[0], (char *const *)(uintptr_t)argv); /* exec does not write to them */
    fprintf(stderr, "cannot run %s: %s\n", argv[0], error_errno(errno));
    _exit(127);
}

bool children_start(const char *const *argv, const char *out_path, pid_t *ret_pid,
                    struct error *ret_error)
{
    (void)fflush(NULL); /* or the child would print what we still hold */
    pid_t pid = fork();
    if (pid < 0) return error_set(ret_error, "cannot start %s: %s", argv[0], error_errno(errno));
    if (pid == 0) become(argv, out_path);
    *ret_pid = pid;
    return true;
}

bool children_has_ended(pid_t pid, int *ret_status)
{
    return waitpid(pid, ret_status, WNOHANG) == pid;
}

struct process {
    pid_t pid, parent;
    bool is_ours;
};

/* Parent of a process from /proc/PID/stat: the second word after the last ')'. */
static pid_t parent_of(const char *pid)
{
    char path[64], text[512];
    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", pid); /* fits */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t count = read(fd, text, sizeof text - 1);
    (void)close(fd); /* only read */
    if (count <= 0) return 0;
    text[count] = '\0';
    const char *after = strrchr(text, ')');
    return after == NULL || strlen(after) < 5 ? 0 : (pid_t)strtol(after + 4, NULL, 10);
}

static uint32_t list_processes(struct process *list)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc");
    if (folder == NULL) return 0;
    const struct dirent *entry;
    while (count < PROCESSES_MAX && (entry = readdir(folder)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0) list[count++] = (struct process){pid, parent_of(entry->d_name), false};
    }
    (void)closedir(folder); /* only read */
    return count;
}

/* Marks children of `root` and of what is marked, until nothing new is found. */
static void mark_descendants(struct process *list, uint32_t count, pid_t root)
{
    bool found = true;
    while (found) {
        found = false;
        for (uint32_t i = 0; i < count; i++) {
            bool is_child = list[i].parent == root;
            for (uint32_t j = 0; j < count && !is_child; j++)
                is_child = list[j].is_ours && list[j].pid == list[i].parent;
            if (!is_child || list[i].is_ours) continue;
            list[i].is_ours = found = true;
        }
    }
}

/* How many there were. */
static uint32_t signal_descendants(int number)
{
    struct process *list = mem_zalloc(PROCESSES_MAX, sizeof *list);
    if (list == NULL) return 0;
    uint32_t count = list_processes(list), ours = 0;
    mark_descendants(list, count, getpid());
    for (uint32_t i = 0; i < count; i++) {
        if (!list[i].is_ours) continue;
        ours++;
        (void)kill(list[i].pid, number); /* may have ended by itself */
    }
    mem_free(list);
    return ours;
}

/* true: no child is left. */
static bool reap_until(int64_t until_us)
{
    while (clock_monotonic_us() < until_us) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD) return true;
        struct timespec span = {.tv_nsec = LOOK_MS * 1000000L};
        if (pid == 0) (void)nanosleep(&span, NULL); /* cut short is fine */
    }
    return false;
}

void children_end_all(void)
{
    int64_t now_us = clock_monotonic_us();
    if (signal_descendants(SIGTERM) == 0) return;
    if (reap_until(now_us + ASKED_US)) return;
    while (clock_monotonic_us() < now_us + KILLED_US) { /* who was born meanwhile goes too */
        (void)signal_descendants(SIGKILL);
        if (reap_until(clock_monotonic_us() + ASKED_US / 10)) return;
    }
}
