#include "base/io.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 8 << 20 };

static _Atomic uint64_t calls;
static _Atomic uint64_t fail_at; /* value of `calls` whose call fails; 0: never */
static _Atomic int fail_errno;

static bool must_fail(void)
{
    uint64_t call = atomic_fetch_add(&calls, 1) + 1;
    if (call != atomic_load(&fail_at)) return false;
    errno = atomic_load(&fail_errno);
    return true;
}

void io_fail_at(uint64_t nth, int errno_value)
{
    atomic_store(&fail_errno, errno_value);
    atomic_store(&fail_at, nth == 0 ? 0 : atomic_load(&calls) + nth);
}

uint64_t io_calls(void)
{
    return atomic_load(&calls);
}

int io_open_write(const char *path, int flags, mode_t mode)
{
    return must_fail() ? -1 : open(path, flags | O_CLOEXEC, mode);
}

bool io_write_full(int fd, const void *bytes, size_t count)
{
    if (must_fail()) return false;
    const char *at = bytes;
    while (count > 0) {
        ssize_t written = write(fd, at, count);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        at += written;
        count -= (size_t)written;
    }
    return true;
}

bool io_pwrite_full(int fd, const void *bytes, size_t count, uint64_t offset)
{
    if (must_fail()) return false;
    const char *at = bytes;
    while (count > 0) {
        ssize_t written = pwrite(fd, at, count, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        at += written;
        offset += (uint64_t)written;
        count -= (size_t)written;
    }
    return true;
}

bool io_fsync(int fd)
{
    return !must_fail() && fsync(fd) == 0;
}

bool io_rename(const char *from, const char *to)
{
    return !must_fail() && rename(from, to) == 0;
}

bool io_rename_new(const char *from, const char *to)
{
    if (must_fail()) return false;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    /* NFS and others know only link(2), which does not replace either. */
    if (link(from, to) != 0) return false;
    (void)unlink(from); /* a second name of the same file: harmless if it stays */
    return true;
}

bool io_sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    bool synced = io_fsync(fd);
    int saved = errno;
    (void)close(fd); /* read only: nothing to lose */
    errno = saved;
    return synced;
}

/* "a/b/c" -> "a/b", "c" -> "." */
static bool parent_of(const char *path, char *ret_parent, size_t bytes)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= bytes) return false;
    memcpy(ret_parent, slash == NULL ? "." : path, length);
    ret_parent[length] = '\0';
    return true;
}

/* The disk begins with each piece while the next is copied: fsync then waits for little. */
static bool write_pieces(int fd, const char *bytes, size_t count)
{
    size_t at = 0;
    do {
        size_t piece = count - at < PIECE_BYTES ? count - at : PIECE_BYTES;
        if (!io_write_full(fd, bytes + at, piece)) return false;
        if (count > PIECE_BYTES) /* a hint: promises nothing, and its failure costs only time */
            (void)sync_file_range(fd, (off_t)at, (off_t)piece, SYNC_FILE_RANGE_WRITE);
        at += piece;
    } while (at < count);
    return true;
}

/* A device, a pipe or a link is not ours to replace: /dev/stdout is one. */
static bool may_replace(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) != 0 || S_ISREG(facts.st_mode);
}

bool io_write_file(const char *path, const void *bytes, size_t count, mode_t mode,
                   struct error *ret_error)
{
    char parent[4096], temporary[4096];
    int length = snprintf(temporary, sizeof temporary, "%s.tmp.%ld", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary || !parent_of(path, parent, sizeof parent))
        return error_set(ret_error, "%.80s...: the path is too long", path);
    if (!may_replace(path))
        return error_set(ret_error, "%s: not a file, so it is not replaced; name a new one", path);

    int fd = io_open_write(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode);
    if (fd < 0) return error_set(ret_error, "%s: cannot create: %s", temporary, error_errno(errno));
    bool written = write_pieces(fd, bytes, count) && io_fsync(fd);
    int saved = errno;
    if (close(fd) != 0 && written) {
        written = false;
        saved = errno;
    }
    if (written && io_rename(temporary, path) && io_sync_dir(parent)) return true;
    if (written) saved = errno;
    (void)unlink(temporary); /* best effort: the next writer truncates it */
    return error_set(ret_error, "%s: cannot write: %s", path, error_errno(saved));
}

bool io_read_file(const char *path, size_t max_bytes, char **ret_bytes, size_t *ret_count,
                  struct error *ret_error)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a named pipe would wait */
    if (fd < 0) return error_set(ret_error, "%s: cannot open: %s", path, error_errno(errno));
    struct stat facts;
    char *buffer = NULL;
    if (fstat(fd, &facts) != 0) {
        (void)error_set(ret_error, "%s: cannot stat: %s", path, error_errno(errno));
        goto fail;
    }
    if (!S_ISREG(facts.st_mode)) {
        (void)error_set(ret_error, "%s: not a file", path);
        goto fail;
    }
    if ((uint64_t)facts.st_size > max_bytes) {
        (void)error_set(ret_error, "%s: %lld bytes is above the limit of %zu", path,
                        (long long)facts.st_size, max_bytes);
        goto fail;
    }
    size_t count = (size_t)facts.st_size, have = 0;
    buffer = mem_alloc(count + 1);
    if (buffer == NULL) {
        (void)error_set(ret_error, "%s: out of memory for %zu bytes", path, count);
        goto fail;
    }
    while (have < count) {
        ssize_t got = read(fd, buffer + have, count - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            (void)error_set(ret_error, "%s: cannot read: %s", path,
                            got < 0 ? error_errno(errno) : "the file shrank while it was read");
            goto fail;
        }
        have += (size_t)got;
    }
    (void)close(fd); /* read only */
    buffer[count] = '\0';
    *ret_bytes = buffer;
    *ret_count = count;
    return true;
fail:
    mem_free(buffer);
    (void)close(fd); /* read only */
    return false;
}

/* Leaves in errno why not. */
static bool is_folder(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0) return false;
    if (S_ISDIR(facts.st_mode)) return true;
    errno = ENOTDIR;
    return false;
}

bool io_make_dirs(const char *path, struct error *ret_error)
{
    char partial[4096];
    size_t length = strlen(path);
    if (length == 0) return error_set(ret_error, "cannot make a folder: the path is empty");
    if (length >= sizeof partial)
        return error_set(ret_error, "%.80s...: the path is too long", path);
    memcpy(partial, path, length + 1);
    for (char *at = partial + 1;; at++) {
        if (*at != '/' && *at != '\0') continue;
        char kept = *at;
        *at = '\0';
        if (mkdir(partial, 0700) != 0 && !(errno == EEXIST && is_folder(partial)))
            return error_set(ret_error, "%s: cannot make the folder: %s", partial,
                             error_errno(errno));
        *at = kept;
        if (kept == '\0') return true;
    }
}
