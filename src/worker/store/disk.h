/* The file system calls that checkpoints on a folder need, so that tests can put a made-up disk
 * with power cuts below the very code that writes real ones.
 *
 * Errors     0, or an errno.
 * Files      disk_file is the disk's own; paths are as the operating system has them.
 * Writing    At DISK_ALIGN addresses, offsets and sizes the real disk writes and reads without the
 *            page cache where the file system lets it (O_DIRECT), else through it. Several threads
 *            may write and read different ranges of one file at a time.
 */
#ifndef SHOAL_WORKER_STORE_DISK_H
#define SHOAL_WORKER_STORE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DISK_ALIGN = 4096 };

struct disk_file;

/* One entry of a folder; false: enough. */
typedef bool disk_visit(void *context, const char *name, uint64_t bytes, bool is_folder);

struct disk {
    void *self;
    /* As mkdir -p; the names of new ones are synced. */
    int (*make_folders)(void *self, const char *path);
    /* A new file that will be `bytes` long; EEXIST if it is there. */
    int (*create)(void *self, const char *path, uint64_t bytes, struct disk_file **ret_file);
    int (*write_at)(struct disk_file *file, uint64_t offset, const void *bytes, size_t count);
    int (*sync)(struct disk_file *file);
    int (*close)(struct disk_file *file);
    int (*sync_folder)(void *self, const char *path);
    int (*rename)(void *self, const char *from, const char *to);     /* replaces */
    int (*rename_new)(void *self, const char *from, const char *to); /* EEXIST instead */
    int (*unlink)(void *self, const char *path);
    int (*remove_folder)(void *self, const char *path); /* empty ones alone */
    int (*list)(void *self, const char *path, disk_visit *visit, void *context);
    int (*open)(void *self, const char *path, struct disk_file **ret_file, uint64_t *ret_bytes);
    /* Fewer bytes than asked for are an error, EIO. */
    int (*read_at)(struct disk_file *file, uint64_t offset, void *bytes, size_t count);
};

extern const struct disk disk_real;

#endif
