#include "server/lock.h"
#include "base/io.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, SERVER_JSON_BYTES_MAX = 4096 };

static bool path_in(const char *dir, const char *name, char ret_path[PATH_BYTES])
{
    int length = snprintf(ret_path, PATH_BYTES, "%s/%s", dir, name);
    return length > 0 && length < PATH_BYTES;
}

/* Who holds the lock, as far as its server.json tells; it may be just starting or stopping. */
static bool refuse_second(const char *dir, struct error *ret_error)
{
    char path[PATH_BYTES], *text = NULL;
    size_t count = 0;
    json_t *facts = NULL;
    if (path_in(dir, "server.json", path) &&
        io_read_file(path, SERVER_JSON_BYTES_MAX, &text, &count, NULL))
        facts = json_loadb(text, count, 0, NULL);
    const char *url = json_string_value(json_object_get(facts, "url"));
    json_int_t pid = json_integer_value(json_object_get(facts, "pid"));
    if (url != NULL)
        (void)error_set(ret_error,
                        "%s: already served by process %lld at %s; use that one, stop it, or "
                        "choose another folder with --data",
                        dir, (long long)pid, url);
    else
        (void)error_set(ret_error,
                        "%s: another server is starting or stopping there; try again, or choose "
                        "another folder with --data",
                        dir);
    json_decref(facts);
    mem_free(text);
    return false;
}

int lock_take(const char *dir, struct error *ret_error)
{
    char path[PATH_BYTES];
    if (!path_in(dir, "lock", path)) {
        (void)error_set(ret_error, "%s: the path is too long", dir);
        return -1;
    }
    int fd = io_open_write(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0) {
        (void)error_set(ret_error, "%s: cannot open: %s", path, error_errno(errno));
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    if (errno == EWOULDBLOCK)
        (void)refuse_second(dir, ret_error);
    else
        (void)error_set(ret_error, "%s: cannot lock: %s", path, error_errno(errno));
    (void)close(fd); /* nothing was written */
    return -1;
}

void lock_release(int fd)
{
    if (fd >= 0) (void)close(fd); /* closing frees the lock; nothing was written */
}

bool lock_write_server(const char *dir, const char *url, struct error *ret_error)
{
    char path[PATH_BYTES], text[SERVER_JSON_BYTES_MAX];
    int length = snprintf(text, sizeof text, "{\"url\":\"%s\",\"pid\":%ld}\n", url, (long)getpid());
    if (!path_in(dir, "server.json", path) || length < 0 || length >= SERVER_JSON_BYTES_MAX)
        return error_set(ret_error, "%s: the path is too long", dir);
    return io_write_file(path, text, (size_t)length, 0600, ret_error);
}

void lock_remove_server(const char *dir)
{
    char path[PATH_BYTES];
    if (path_in(dir, "server.json", path)) (void)unlink(path); /* a stale one is only a hint */
}
