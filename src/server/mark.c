#include "server/mark.h"
#include "base/io.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIGITS = 20, MARK_BYTES = DIGITS + 1 };

static bool parse(const char text[MARK_BYTES + 1], ssize_t count, uint64_t *ret_seq)
{
    *ret_seq = 0;
    if (count == 0) return true; /* made by a server that committed nothing */
    if (count != MARK_BYTES || strspn(text, "0123456789") != DIGITS || text[DIGITS] != '\n')
        return false;
    errno = 0;
    *ret_seq = strtoull(text, NULL, 10);
    return errno == 0;
}

int mark_open(const char *path, uint64_t *ret_seq, struct error *ret_error)
{
    char text[MARK_BYTES + 1] = "";
    int fd = io_open_write(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0) {
        (void)error_set(ret_error, "%s: cannot open: %s", path, error_errno(errno));
        return -1;
    }
    if (parse(text, pread(fd, text, MARK_BYTES, 0), ret_seq)) return fd;
    (void)error_set(
        ret_error,
        "%s: not the number of an event, so the data folder is damaged; restore it from "
        "a backup, or remove this file to go on without its check",
        path);
    (void)close(fd); /* nothing was written */
    return -1;
}

void mark_write(int fd, uint64_t seq)
{
    char text[MARK_BYTES + 1];
    (void)snprintf(text, sizeof text, "%0*" PRIu64 "\n", DIGITS,
                   seq); /* fits: 2^64 has 20 digits */
    ssize_t written = pwrite(fd, text, MARK_BYTES, 0);
    (void)written; /* see the header: an older mark is a weaker check, no wrong one */
}
