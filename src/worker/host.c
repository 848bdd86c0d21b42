#include "worker/host.h"
#include "base/clock.h"
#include "base/error.h"
#include "worker/symbols.h"
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES_MAX = 48, ANSWER_MS = 200, SKIP_FRAMES = 2 /* the handler, the kernel's return */ };
#define PLAIN_TIME_US INT64_C(1000000)

enum capture_state { CAPTURE_NONE, CAPTURE_RUNS, CAPTURE_READY };

/* One per process, never freed: a capture that hangs must not hold anything up. */
static struct {
    _Atomic int64_t tid;
    clockid_t cpu_clock;
    bool handles;
    _Atomic int state; /* enum capture_state */
    _Atomic bool asked, answered;
    void *frame[FRAMES_MAX];
    int frame_count;
    char text[HOST_TEXT_BYTES];
} watched;

/* ---- looking ---- */

static bool read_small(const char *path, char *text, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, bytes - 1);
    if (fd >= 0) (void)close(fd); /* read only */
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

struct call {
    long number;
    const char *name;
    enum record_host host;
};

/* The ones programs wait in. Those for other bytes count as reading. */
static const struct call calls[] = {
    {SYS_read, "read", HOST_READS},
    {SYS_pread64, "pread64", HOST_READS},
    {SYS_readv, "readv", HOST_READS},
    {SYS_recvfrom, "recvfrom", HOST_READS},
    {SYS_recvmsg, "recvmsg", HOST_READS},
    {SYS_accept4, "accept4", HOST_READS},
    {SYS_connect, "connect", HOST_READS},
    {SYS_openat, "openat", HOST_READS},
    {SYS_ppoll, "ppoll", HOST_READS},
    {SYS_pselect6, "pselect6", HOST_READS},
    {SYS_epoll_pwait, "epoll_pwait", HOST_READS},
#ifdef SYS_poll
    {SYS_poll, "poll", HOST_READS},
    {SYS_select, "select", HOST_READS},
    {SYS_epoll_wait, "epoll_wait", HOST_READS},
    {SYS_open, "open", HOST_READS},
#endif
    {SYS_io_getevents, "io_getevents", HOST_READS},
    {SYS_nanosleep, "nanosleep", HOST_SLEEPS},
    {SYS_clock_nanosleep, "clock_nanosleep", HOST_SLEEPS},
    {SYS_futex, "futex", HOST_LOCKED},
    {SYS_flock, "flock", HOST_LOCKED},
    {SYS_fcntl, "fcntl", HOST_LOCKED},
    {SYS_wait4, "wait4", HOST_CALL},
    {SYS_write, "write", HOST_CALL},
    {SYS_pwrite64, "pwrite64", HOST_DISK},
    {SYS_fsync, "fsync", HOST_DISK},
    {SYS_fdatasync, "fdatasync", HOST_DISK},
    {SYS_sendto, "sendto", HOST_CALL},
    {SYS_sendmsg, "sendmsg", HOST_CALL},
    {SYS_ioctl, "ioctl", HOST_CALL},
};

static void name_call(const char *text, struct host_view *view)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text) return; /* "running" */
    (void)snprintf(view->call, sizeof view->call, "system call %ld", number);
    view->host = HOST_CALL;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].number != number) continue;
        (void)snprintf(view->call, sizeof view->call, "%s", calls[i].name);
        view->host = calls[i].host;
    }
}

static int64_t tick_us(uint64_t ticks)
{
    long per_second = sysconf(_SC_CLK_TCK);
    return per_second <= 0 ? 0 : (int64_t)(ticks * 1000000 / (uint64_t)per_second);
}

static bool read_stat(const char *folder, struct host_view *view)
{
    char path[96], text[1024];
    (void)snprintf(path, sizeof path, "%s/stat", folder);
    if (!read_small(path, text, sizeof text)) return false;
    const char *rest = strrchr(text, ')'); /* the name may hold anything */
    unsigned long user = 0, system = 0;
    if (rest == NULL || sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                               &view->state, &user, &system) != 3)
        return false;
    view->cpu_us = tick_us(user + system);
    return true;
}

static bool look_in(const char *folder, struct host_view *ret_view)
{
    char path[96], text[256];
    *ret_view = (struct host_view){.host = HOST_UNKNOWN};
    if (!read_stat(folder, ret_view)) return false;
    (void)snprintf(path, sizeof path, "%s/syscall", folder);
    if (ret_view->state != 'R' && read_small(path, text, sizeof text)) name_call(text, ret_view);
    (void)snprintf(path, sizeof path, "%s/wchan", folder);
    if (ret_view->state != 'R' && read_small(path, text, sizeof text) && strcmp(text, "0") != 0)
        (void)snprintf(ret_view->wchan, sizeof ret_view->wchan, "%.40s", text);
    if (ret_view->state == 'R') ret_view->host = HOST_RUNS;
    if (ret_view->state == 'D') ret_view->host = HOST_DISK;
    if (ret_view->state == 'T' || ret_view->state == 't') ret_view->host = HOST_STOPPED;
    return true;
}

bool host_look_at(int64_t pid, int64_t tid, struct host_view *ret_view)
{
    char folder[64];
    (void)snprintf(folder, sizeof folder, "/proc/%lld/task/%lld", (long long)pid, (long long)tid);
    return look_in(folder, ret_view);
}

bool host_look(struct host_view *ret_view)
{
    int64_t tid = atomic_load(&watched.tid);
    char folder[64];
    struct timespec used;
    if (tid == 0) return false;
    (void)snprintf(folder, sizeof folder, "/proc/self/task/%lld", (long long)tid);
    if (!look_in(folder, ret_view)) return false;
    if (clock_gettime(watched.cpu_clock, &used) == 0)
        ret_view->cpu_us = (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
    return true;
}

/* ---- the stack ---- */

static void on_signal(int number)
{
    int saved = errno;
    (void)number;
    if (atomic_exchange(&watched.asked, false)) {
        watched.frame_count = backtrace(watched.frame, FRAMES_MAX);
        atomic_store(&watched.answered, true);
    }
    errno = saved;
}

static bool install(void)
{
    const char *wanted = getenv("SHOAL_STACKS");
    struct sigaction old, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (wanted != NULL && strcmp(wanted, "0") == 0) return false;
    if (sigaction(SIGURG, NULL, &old) != 0) return false;
    if (old.sa_handler == on_signal) return true;
    if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) return false; /* the program's */
    void *frame[4];
    (void)backtrace(frame, 4);          /* loads what it needs now: not to be done in a handler */
    (void)sigemptyset(&action.sa_mask); /* cannot fail */
    return sigaction(SIGURG, &action, NULL) == 0;
}

void host_watch(void)
{
    static _Thread_local int64_t own;
    if (own == 0) own = (int64_t)syscall(SYS_gettid);
    if (atomic_load(&watched.tid) == own) return;
    if (pthread_getcpuclockid(pthread_self(), &watched.cpu_clock) != 0) return;
    watched.handles = install();
    atomic_store(&watched.tid, own);
}

static void say(const char *sentence)
{
    (void)snprintf(watched.text, sizeof watched.text, "%s", sentence);
}

static size_t add_line(size_t at, const char *line)
{
    int length =
        snprintf(watched.text + at, sizeof watched.text - at, "%s%s", at > 0 ? "\n" : "", line);
    size_t end = at + (length < 0 ? 0 : (size_t)length);
    return end < sizeof watched.text ? end : sizeof watched.text - 1;
}

/* What the program's own handler wrote, if it has one: frames of its language. */
static size_t add_frames_of_program(size_t at)
{
    const char *page = getenv("SHOAL_STATUS");
    char path[1100], text[HOST_TEXT_BYTES / 2];
    if (page == NULL || page[0] == '\0') return at;
    (void)snprintf(path, sizeof path, "%.1024s.frames", page);
    if (!read_small(path, text, sizeof text)) return at;
    if (truncate(path, 0) != 0) return at; /* old frames would be taken for new ones */
    for (char *line = text, *end; line != NULL && line[0] != '\0'; line = end) {
        end = strchr(line, '\n');
        if (end != NULL) *end++ = '\0';
        at = add_line(at, line);
    }
    return at;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The handler itself, and what passed the signal on to it. */
static int first_frame(void)
{
    char name[SYMBOL_BYTES];
    for (int i = SKIP_FRAMES; i < watched.frame_count && i < 8; i++) {
        symbol_name(watched.frame[i], name);
        if (begins(name, "faulthandler_user+")) return i + 2;
    }
    return SKIP_FRAMES;
}

/* A return address lies behind its call: one byte before is inside of the calling line. */
static size_t add_native_frames(size_t at)
{
    char name[SYMBOL_BYTES];
    int first = first_frame();
    for (int i = first; i < watched.frame_count; i++) {
        const uint8_t *address = watched.frame[i];
        symbol_name(i == first ? address : address - 1, name);
        at = add_line(at, name);
        if (begins(name, "main+") || begins(name, "Py_RunMain+")) break; /* the rest says nothing */
    }
    return at;
}

static void *capture(void *unused)
{
    struct host_view view = {0};
    (void)unused;
    atomic_store(&watched.answered, false);
    atomic_store(&watched.asked, true);
    bool sent = syscall(SYS_tgkill, getpid(), (pid_t)watched.tid, SIGURG) == 0;
    for (int ms = 0; sent && ms < ANSWER_MS && !atomic_load(&watched.answered); ms++)
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL); /* cut short: looked at again */
    bool answered = atomic_load(&watched.answered);
    atomic_store(&watched.asked, false);
    if (answered) {
        (void)nanosleep(&(struct timespec){0, 5000000}, NULL); /* frames of the program follow */
        watched.text[0] = '\0';
        size_t at = add_native_frames(add_frames_of_program(0));
        if (at == 0) say("no stack: the thread has no frames that can be named");
    } else if (host_look(&view) && view.state == 'D') {
        say("no stack: the thread is in uninterruptible sleep (storage or a driver)");
    } else {
        say("no stack: the thread did not answer the signal");
    }
    atomic_store(&watched.state, CAPTURE_READY);
    return NULL;
}

bool host_capture(void)
{
    int none = CAPTURE_NONE;
    pthread_t thread;
    if (atomic_load(&watched.tid) == 0) return false;
    if (!atomic_compare_exchange_strong(&watched.state, &none, CAPTURE_RUNS)) return false;
    if (!watched.handles) {
        say("no stack: the program handles SIGURG itself, or SHOAL_STACKS=0 is set");
        atomic_store(&watched.state, CAPTURE_READY);
        return true;
    }
    if (pthread_create(&thread, NULL, capture, NULL) == 0) {
        (void)pthread_detach(thread); /* it was just made */
        return true;
    }
    atomic_store(&watched.state, CAPTURE_NONE);
    return false;
}

bool host_take_capture(char ret_text[HOST_TEXT_BYTES])
{
    if (atomic_load(&watched.state) != CAPTURE_READY) return false;
    memcpy(ret_text, watched.text, HOST_TEXT_BYTES);
    atomic_store(&watched.state, CAPTURE_NONE);
    return true;
}
