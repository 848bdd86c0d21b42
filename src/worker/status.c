#include "worker/status.h"
#include "base/clock.h"
#include "base/mem.h"
#include "worker/core/diagnose.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(sizeof(struct worker_status) <= STATUS_RECORDER_AT, "the page holds the struct");
static_assert(STATUS_RECORDER_AT + sizeof(struct recorder) <= STATUS_BYTES, "and the recorder");
static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "the sequence is read as an atomic");

struct status_page {
    struct worker_status *mapped;
    struct worker_status last;
};

struct status_page *status_open(const char *path, struct error *ret_error)
{
    if (path == NULL || path[0] == '\0') return NULL;
    struct status_page *page = mem_zalloc(1, sizeof *page);
    if (page == NULL) {
        (void)error_set(ret_error, "%s: out of memory for the status page", path);
        return NULL;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool fine = fd >= 0 && ftruncate(fd, STATUS_BYTES) == 0;
    void *mapped = MAP_FAILED;
    if (fine) mapped = mmap(NULL, STATUS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int saved = errno;
    if (fd >= 0) (void)close(fd); /* the mapping keeps the file */
    if (mapped == MAP_FAILED) {
        (void)error_set(ret_error, "%s: cannot map the status page: %s", path, error_errno(saved));
        mem_free(page);
        return NULL;
    }
    page->mapped = mapped;
    recorder_init(status_recorder(page));
    return page;
}

struct recorder *status_recorder(struct status_page *page)
{
    if (page == NULL) return NULL;
    uint8_t *bytes = (uint8_t *)page->mapped + STATUS_RECORDER_AT;
    return (struct recorder *)(void *)bytes;
}

static bool same_facts(const struct worker_status *a, const struct worker_status *b)
{
    return a->step == b->step && a->generation == b->generation && a->attempt == b->attempt &&
           a->slots_owned == b->slots_owned && a->phase == b->phase && a->worker == b->worker;
}

void status_write(struct status_page *page, const struct worker_status *facts)
{
    if (page == NULL || (page->last.magic != 0 && same_facts(&page->last, facts))) return;
    _Atomic uint32_t *sequence = (_Atomic uint32_t *)&page->mapped->sequence;
    uint32_t before = page->last.sequence;
    page->last = *facts;
    page->last.magic = STATUS_MAGIC;
    page->last.version = STATUS_VERSION;
    page->last.pid = (uint64_t)getpid();
    page->last.torn = 0;
    page->last.changed_us = clock_wall_us();
    page->last.sequence = before + 2;
    atomic_store(sequence, before + 1);
    atomic_thread_fence(memory_order_seq_cst);
    struct worker_status copy = page->last;
    copy.sequence = before + 1;
    memcpy(page->mapped, &copy, sizeof copy);
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store(sequence, before + 2);
}

void status_close(struct status_page *page)
{
    if (page == NULL) return;
    (void)munmap(page->mapped, STATUS_BYTES); /* cannot fail for what mmap returned */
    mem_free(page);
}

bool status_read(const char *path, struct worker_status *ret_status, struct error *ret_error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(ret_error, "%s: cannot open: %s", path, error_errno(errno));
    struct worker_status status = {0};
    ssize_t got = 0;
    for (int i = 0; i < 100; i++) { /* a writer is inside for nanoseconds only */
        got = pread(fd, &status, sizeof status, 0);
        if (got != (ssize_t)sizeof status || status.sequence % 2 == 0) break;
    }
    (void)close(fd); /* read only */
    if (got != (ssize_t)sizeof status || status.magic != STATUS_MAGIC ||
        status.version != STATUS_VERSION)
        return error_set(ret_error, "%s: not a status page of this version", path);
    status.torn = status.sequence % 2;
    *ret_status = status;
    return true;
}

bool status_read_recorder(const char *path, struct recorder *ret_recorder, struct error *ret_error)
{
    struct worker_status status; /* tells that the page is of this version */
    if (!status_read(path, &status, ret_error)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(ret_error, "%s: cannot open: %s", path, error_errno(errno));
    ssize_t got = pread(fd, ret_recorder, sizeof *ret_recorder, STATUS_RECORDER_AT);
    (void)close(fd); /* read only */
    if (got == (ssize_t)sizeof *ret_recorder) return true;
    return error_set(ret_error, "%s: the page is shorter than its recorder", path);
}

bool status_lateness(const char *path, int64_t now_us, struct status_lateness *ret_lateness)
{
    struct recorder recorder;
    if (!status_read_recorder(path, &recorder, /* ret_error */ NULL)) return false;
    const struct record *last = recorder_last(&recorder, 0);
    if (last == NULL || last->phase >= RECORD_PHASE_END) return false;
    uint32_t usual_us, spread_us;
    bool known = record_habit_usual(&recorder.habit[last->phase], &usual_us, &spread_us);
    bool works = record_is_work(last->phase);
    *ret_lateness = (struct status_lateness){.for_us = now_us - last->entered_us,
                                             .usual_us = known ? usual_us : 0,
                                             .step = last->step,
                                             .slot = last->detail,
                                             .phase = last->phase};
    if (ret_lateness->for_us < 0) ret_lateness->for_us = 0; /* entered while we looked */
    ret_lateness->is_late =
        works && known && ret_lateness->for_us > diagnose_limit_us(usual_us, spread_us);
    return true;
}

const char *status_phase_name(uint32_t phase)
{
    static const char *const names[] = {"unknown", "join",       "sync", "compute", "reduce",
                                        "apply",   "checkpoint", "idle", "data"};
    return phase < sizeof names / sizeof names[0] ? names[phase] : names[0];
}
