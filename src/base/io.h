/* File I/O that survives crashes, and fails on request.
 *
 * io_write_file() replaces a file atomically: temporary file beside it, write, fsync, rename, fsync
 * of the folder. A crash at any point leaves the old file or the new one, never a mixture. What is
 * no regular file (a device, a pipe, a link like /dev/stdout) is refused, not replaced.
 * io_fail_at(n, errno) makes the n-th faultable call from now (write, fsync, rename, open for
 * writing) fail with that errno, once: how tests meet a full disk. Every call below counts as the
 * calls it makes.
 */
#ifndef SHOAL_BASE_IO_H
#define SHOAL_BASE_IO_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int io_open_write(const char *path, int flags, mode_t mode); /* open(2), CLOEXEC added */
bool io_write_full(int fd, const void *bytes, size_t count); /* errno tells */
bool io_pwrite_full(int fd, const void *bytes, size_t count, uint64_t offset);
bool io_fsync(int fd);
bool io_rename(const char *from, const char *to);
bool io_rename_new(const char *from, const char *to); /* errno EEXIST instead of replacing */
bool io_sync_dir(const char *path);                   /* fsync of the folder itself */

bool io_write_file(const char *path, const void *bytes, size_t count, mode_t mode,
                   struct error *ret_error) WARN_UNUSED;
/* Reads a whole file into memory of mem_alloc(), one 0 byte added. Files above max_bytes are
 * refused. */
bool io_read_file(const char *path, size_t max_bytes, char **ret_bytes, size_t *ret_count,
                  struct error *ret_error) WARN_UNUSED;
bool io_make_dirs(const char *path, struct error *ret_error) WARN_UNUSED; /* mkdir -p, mode 0700 */

void io_fail_at(uint64_t nth, int errno_value);
uint64_t io_calls(void);

#endif
