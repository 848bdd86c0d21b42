#include "worker/store/disk.h"
#include "base/io.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

struct disk_file {
    int fd;        /* through the page cache: tails and unaligned ranges */
    int direct_fd; /* -1: the file system refuses it */
};

/* One folder whose parent is there; its name is on the platter afterwards. */
static int make_folder(const char *path)
{
    struct stat facts;
    if (mkdir(path, 0700) != 0) {
        if (errno != EEXIST) return errno;
        if (stat(path, &facts) != 0) return errno;
        return S_ISDIR(facts.st_mode) ? 0 : ENOTDIR;
    }
    char parent[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    memcpy(parent, path, length);
    parent[length] = '\0';
    return io_sync_dir(slash == NULL ? "." : length == 0 ? "/" : parent) ? 0 : errno;
}

static int make_folders(void *self, const char *path)
{
    (void)self;
    char partial[PATH_BYTES];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof partial) return ENAMETOOLONG;
    memcpy(partial, path, length + 1);
    struct stat facts;
    if (stat(path, &facts) == 0) return S_ISDIR(facts.st_mode) ? 0 : ENOTDIR;
    for (char *at = partial + 1;; at++) {
        if (*at != '/' && *at != '\0') continue;
        char kept = *at;
        *at = '\0';
        int failed = make_folder(partial);
        if (failed != 0 || kept == '\0') return failed;
        *at = kept;
    }
}

static int wrap(int fd, const char *path, int flags, struct disk_file **ret_file)
{
    struct disk_file *file = mem_zalloc(1, sizeof *file);
    if (file == NULL) {
        (void)close(fd); /* nothing was written yet */
        return ENOMEM;
    }
    file->fd = fd;
    file->direct_fd = open(path, flags | O_DIRECT | O_CLOEXEC); /* tmpfs and others refuse */
    *ret_file = file;
    return 0;
}

static int create(void *self, const char *path, uint64_t bytes, struct disk_file **ret_file)
{
    (void)self;
    int fd = io_open_write(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (fd < 0) return errno;
    /* Whole extents at once, and a full disk is known before the first byte. With its length set,
     * ext4 lets several writers into the file at a time: 3 of them 1.2 GB/s instead of 0.7 (192 MiB
     * in parts of 8). Where the file system cannot, the writes will tell. */
    if (bytes > 0 && fallocate(fd, 0, 0, (off_t)bytes) != 0 && errno == ENOSPC) {
        (void)close(fd); /* empty */
        (void)unlink(path);
        return ENOSPC;
    }
    return wrap(fd, path, O_RDWR, ret_file);
}

static int write_at(struct disk_file *file, uint64_t offset, const void *bytes, size_t count)
{
    const char *from = bytes;
    bool aligned = (uintptr_t)bytes % DISK_ALIGN == 0 && offset % DISK_ALIGN == 0;
    size_t direct = file->direct_fd >= 0 && aligned ? count / DISK_ALIGN * DISK_ALIGN : 0;
    if (direct > 0 && !io_pwrite_full(file->direct_fd, from, direct, offset)) {
        if (errno != EINVAL) return errno;
        direct = 0; /* a stricter device: through the cache then */
    }
    if (direct == count && count > 0) return 0;
    size_t rest = count - direct;
    if (!io_pwrite_full(file->fd, from + direct, rest, offset + direct)) return errno;
    if (rest >= 1 << 20) /* a hint: its failure costs only time */
        (void)sync_file_range(file->fd, (off_t)(offset + direct), (off_t)rest,
                              SYNC_FILE_RANGE_WRITE);
    return 0;
}

static int sync_file(struct disk_file *file)
{
    return io_fsync(file->fd) ? 0 : errno;
}

static int close_file(struct disk_file *file)
{
    if (file->direct_fd >= 0) (void)close(file->direct_fd); /* errors were told by fsync */
    int failed = close(file->fd) == 0 ? 0 : errno;
    mem_free(file);
    return failed;
}

static int sync_folder(void *self, const char *path)
{
    (void)self;
    return io_sync_dir(path) ? 0 : errno;
}

static int rename_over(void *self, const char *from, const char *to)
{
    (void)self;
    return io_rename(from, to) ? 0 : errno;
}

static int rename_new(void *self, const char *from, const char *to)
{
    (void)self;
    return io_rename_new(from, to) ? 0 : errno;
}

static int unlink_file(void *self, const char *path)
{
    (void)self;
    return unlink(path) == 0 ? 0 : errno;
}

static int remove_folder(void *self, const char *path)
{
    (void)self;
    return rmdir(path) == 0 ? 0 : errno;
}

static int list(void *self, const char *path, disk_visit *visit, void *context)
{
    (void)self;
    DIR *folder = opendir(path);
    if (folder == NULL) return errno;
    struct dirent *entry;
    bool more = true;
    errno = 0;
    while (more && (entry = readdir(folder)) != NULL) {
        struct stat facts;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (fstatat(dirfd(folder), entry->d_name, &facts, 0) == 0) /* else it has just gone */
            more = visit(context, entry->d_name, (uint64_t)facts.st_size, S_ISDIR(facts.st_mode));
        errno = 0;
    }
    int failed = more ? errno : 0;
    (void)closedir(folder); /* read only */
    return failed;
}

static int open_file(void *self, const char *path, struct disk_file **ret_file, uint64_t *ret_bytes)
{
    (void)self;
    struct stat facts;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a named pipe would wait */
    if (fd < 0) return errno;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        int failed =
            S_ISDIR(facts.st_mode) ? EISDIR : EINVAL; /* fstat of an open file does not fail */
        (void)close(fd);                              /* read only */
        return failed;
    }
    *ret_bytes = (uint64_t)facts.st_size;
    return wrap(fd, path, O_RDONLY, ret_file);
}

static int read_at(struct disk_file *file, uint64_t offset, void *bytes, size_t count)
{
    bool aligned = (uintptr_t)bytes % DISK_ALIGN == 0 && offset % DISK_ALIGN == 0;
    size_t done = 0;
    int fd = aligned && file->direct_fd >= 0 && count >= DISK_ALIGN ? file->direct_fd : file->fd;
    while (done < count) {
        size_t want = count - done;
        if (fd == file->direct_fd) want = want / DISK_ALIGN * DISK_ALIGN;
        ssize_t got = want == 0 ? 0 : pread(fd, (char *)bytes + done, want, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && !(errno == EINVAL && fd == file->direct_fd)) return errno;
        if (got > 0) done += (size_t)got;
        if (got > 0 && done % DISK_ALIGN == 0) continue;
        if (done == count) break;
        if (fd == file->fd && got <= 0) return EIO; /* the file ends before */
        fd = file->fd;                              /* the tail, or a stricter device */
    }
    return 0;
}

const struct disk disk_real = {
    .make_folders = make_folders,
    .create = create,
    .write_at = write_at,
    .sync = sync_file,
    .close = close_file,
    .sync_folder = sync_folder,
    .rename = rename_over,
    .rename_new = rename_new,
    .unlink = unlink_file,
    .remove_folder = remove_folder,
    .list = list,
    .open = open_file,
    .read_at = read_at,
};
