#include "cli/market_log.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/format.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL_BYTES = 1 << 16 };

static const char header[] =
    "t_utc,zone,type,capacity,usd_per_hour,stock,provider,region,devices,event,journal\n";

/* ---- the end of a file ---- */

/* The number between the last comma before `end` and `end`; moves `end` to that comma. */
static bool last_number(const char *begin, const char **end, uint64_t *ret)
{
    const char *at = *end;
    while (at > begin && at[-1] >= '0' && at[-1] <= '9') at--;
    if (at == *end || *end - at > 19 || at == begin || at[-1] != ',') return false;
    *ret = 0;
    for (const char *c = at; c < *end; c++) *ret = *ret * 10 + (uint64_t)(*c - '0');
    *end = at - 1;
    return true;
}

static bool read_row(const char *begin, const char *end, uint64_t *ret_event, uint64_t *ret_journal)
{
    return last_number(begin, &end, ret_journal) && last_number(begin, &end, ret_event) &&
           *ret_event != 0;
}

bool market_log_tail(const char *bytes, size_t count, bool is_whole, struct market_place *ret_place,
                     size_t *ret_cut)
{
    size_t end = count;
    *ret_place = (struct market_place){0};
    while (end > 0 && bytes[end - 1] != '\n') end--;
    *ret_cut = count - end;
    while (end > 0) {
        size_t begin = end - 1;
        while (begin > 0 && bytes[begin - 1] != '\n') begin--;
        if (begin == 0 && !is_whole) return ret_place->event != 0; /* cut at its beginning */
        uint64_t event, journal;
        bool is_header = begin == 0 && end == strlen(header) && memcmp(bytes, header, end) == 0;
        if (is_header) return true;
        if (!read_row(bytes + begin, bytes + end - 1, &event, &journal))
            return ret_place->event != 0 && begin != 0;
        if (ret_place->event != 0 && (event != ret_place->event || journal != ret_place->journal))
            return true;
        ret_place->event = event;
        ret_place->journal = journal;
        ret_place->rows++;
        end = begin;
    }
    return count == *ret_cut; /* rows without the header: not ours */
}

/* ---- opening ---- */

static bool fail(const struct market_log *log, const char *what, struct error *ret_error)
{
    return error_set(ret_error, "%s: cannot %s: %s", log->file, what, strerror(errno));
}

static bool check_header(struct market_log *log, struct error *ret_error)
{
    char first[sizeof header] = {0};
    ssize_t got = pread(log->fd, first, strlen(header), 0);
    if (got < 0) return fail(log, "read it", ret_error);
    /* Shorter than the header: a crash while it was begun, if it is the beginning of ours. */
    if (strncmp(first, header, (size_t)got) == 0) return true;
    return error_set(ret_error,
                     "%s: its first line is not that of a recorded market, so nothing is added to "
                     "it; name another file",
                     log->file);
}

/* Finds the place, takes away what is no whole row. */
static bool read_tail(struct market_log *log, struct error *ret_error)
{
    struct stat st;
    if (fstat(log->fd, &st) != 0) return fail(log, "look at it", ret_error);
    if (!S_ISREG(st.st_mode)) return error_set(ret_error, "%s: not a plain file", log->file);
    if (!check_header(log, ret_error)) return false;
    size_t count = st.st_size < TAIL_BYTES ? (size_t)st.st_size : TAIL_BYTES, cut = 0;
    char *bytes = mem_alloc(count + 1);
    if (bytes == NULL) return error_set(ret_error, "out of memory for %s", log->file);
    bool ok = pread(log->fd, bytes, count, st.st_size - (off_t)count) == (ssize_t)count ||
              fail(log, "read it", ret_error);
    struct market_place place = {0};
    if (ok && !market_log_tail(bytes, count, count == (size_t)st.st_size, &place, &cut))
        ok = error_set(ret_error, "%s: its last line is no row of a recorded market", log->file);
    mem_free(bytes);
    if (!ok) return false;
    log->bytes = st.st_size - (off_t)cut;
    if (place.event != 0) log->place = place;
    if (cut > 0 && ftruncate(log->fd, log->bytes) != 0) return fail(log, "shorten it", ret_error);
    if (lseek(log->fd, log->bytes, SEEK_SET) < 0) return fail(log, "seek in it", ret_error);
    return true;
}

static void close_file(struct market_log *log)
{
    if (log->fd >= 0) (void)close(log->fd); /* written and synced before */
    log->fd = -1;
}

static bool open_file(struct market_log *log, struct error *ret_error)
{
    close_file(log);
    log->fd = io_open_write(log->file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (log->fd < 0) return fail(log, "open it", ret_error);
    if (flock(log->fd, LOCK_EX | LOCK_NB) != 0)
        return error_set(ret_error, "%s: another process records to it", log->file);
    return read_tail(log, ret_error);
}

/* The folder's files by name, the newest last. */
static int is_day(const struct dirent *entry)
{
    const char *name = entry->d_name;
    size_t length = strlen(name);
    return length == strlen("prices-2026-01-31.csv") && strncmp(name, "prices-", 7) == 0 &&
           strcmp(name + length - 4, ".csv") == 0;
}

static bool set_file(struct market_log *log, const char *name, struct error *ret_error)
{
    int length = snprintf(log->file, sizeof log->file, "%s/%s", log->folder, name);
    return length < (int)sizeof log->file || error_set(ret_error, "the path is too long");
}

/* The newest file is the one that goes on; where it has no row yet, one before it tells the place. */
static bool open_folder(struct market_log *log, struct error *ret_error)
{
    struct dirent **days = NULL;
    int count = scandir(log->folder, &days, is_day, alphasort);
    if (count < 0)
        return error_set(ret_error, "%s: cannot list it: %s", log->folder, strerror(errno));
    bool ok = true;
    int at = count - 1;
    for (; at >= 0 && ok && log->place.event == 0; at--)
        ok = set_file(log, days[at]->d_name, ret_error) && open_file(log, ret_error);
    if (ok && count > 0 && at + 1 < count - 1)
        ok = set_file(log, days[count - 1]->d_name, ret_error) && open_file(log, ret_error);
    for (int i = 0; i < count; i++) free(days[i]); /* of scandir() */
    free(days);
    return ok;
}

bool market_log_open(struct market_log *log, const char *path, struct error *ret_error)
{
    struct stat st;
    size_t length = strlen(path);
    *log = (struct market_log){.fd = -1};
    if (length == 0 || length + sizeof "/prices-2026-01-31.csv" >= sizeof log->folder)
        return error_set(ret_error, "--out: the path is empty or too long");
    bool is_folder = path[length - 1] == '/' || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
    while (is_folder && length > 1 && path[length - 1] == '/') length--;
    memcpy(is_folder ? log->folder : log->file, path, length);
    bool ok = is_folder ? io_make_dirs(path, ret_error) && open_folder(log, ret_error)
                        : open_file(log, ret_error);
    if (!ok) market_log_close(log);
    return ok;
}

void market_log_close(struct market_log *log)
{
    close_file(log);
    text_free(&log->waiting);
}

/* ---- adding ---- */

bool market_log_flush(struct market_log *log, struct error *ret_error)
{
    if (log->waiting.failed) return error_set(ret_error, "out of memory for rows of prices");
    if (log->waiting.count == 0) return true;
    bool is_new = log->bytes == 0;
    if (io_write_full(log->fd, log->waiting.bytes, log->waiting.count) && io_fsync(log->fd)) {
        log->bytes += (int64_t)log->waiting.count;
        log->waiting.count = 0;
        log->waiting.bytes[0] = '\0';
        if (!is_new || log->folder[0] == '\0') return true;
        return io_sync_dir(log->folder) || fail(log, "sync its folder", ret_error);
    }
    (void)fail(log, "write to it", ret_error);
    /* Half a row must not stay. When even this fails, the next open takes it away. */
    (void)(ftruncate(log->fd, log->bytes) == 0 && lseek(log->fd, log->bytes, SEEK_SET) >= 0);
    return false;
}

/* The file of its day, unless that is before the newest one (a clock that was set back). */
static bool turn_day(struct market_log *log, int64_t at_us, struct error *ret_error)
{
    char at[FORMAT_BYTES], name[FORMAT_BYTES];
    if (log->folder[0] == '\0') return true;
    (void)snprintf(name, sizeof name, "prices-%.10s.csv", format_utc(at, at_us)); /* fits */
    size_t length = strlen(log->file), day = strlen(name);
    if (length >= day && strcmp(log->file + length - day, name) >= 0) return true;
    return market_log_flush(log, ret_error) && set_file(log, name, ret_error) &&
           open_file(log, ret_error);
}

static void add_cell(struct text *text, const char *cell)
{
    bool is_quoted = strpbrk(cell, ",\"\r\n") != NULL;
    if (is_quoted) text_add(text, "\"");
    for (; *cell != '\0'; cell++) /* a line is a row here, whatever a name holds */
        text_add(text, *cell == '"' ? "\"%c" : "%c", *cell == '\n' || *cell == '\r' ? ' ' : *cell);
    text_add(text, is_quoted ? "\"," : ",");
}

bool market_log_add(struct market_log *log, uint64_t journal, const struct market_change *change,
                    struct error *ret_error)
{
    char at[FORMAT_BYTES], type[256];
    if (!turn_day(log, change->at_us, ret_error)) return false;
    struct text *rows = &log->waiting;
    if (log->bytes == 0 && rows->count == 0) text_add(rows, "%s", header);
    (void)snprintf(type, sizeof type, change->devices > 1 ? "%.200s x%" PRIu32 : "%.200s",
                   change->model, change->devices);
    text_add(rows, "%s,", format_utc(at, change->at_us));
    add_cell(rows, change->zone);
    add_cell(rows, type);
    text_add(rows, "%s,%" PRId64 ".%06" PRId64 ",", change->kind,
             change->usd_micros_per_hour / 1000000, change->usd_micros_per_hour % 1000000);
    if (change->stock >= 0) text_add(rows, "%" PRId64, change->stock);
    text_add(rows, ",");
    add_cell(rows, change->provider);
    add_cell(rows, change->region);
    text_add(rows, "%" PRIu32 ",%" PRIu64 ",%" PRIu64 "\n", change->devices, change->event,
             journal);
    if (rows->failed) return error_set(ret_error, "out of memory for rows of prices");
    log->added++;
    bool goes_on = log->place.event == change->event && log->place.journal == journal;
    log->place = (struct market_place){journal, change->event, goes_on ? log->place.rows + 1 : 1};
    return true;
}
