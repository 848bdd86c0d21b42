/* A folder as a store. An object is written under a temporary name beside its own, synced, renamed,
 * and its folder synced. A new folder is synced into the one above it when it is made, and once more
 * when a small object (a manifest) is put: whoever made it may have died in between.
 *
 * Temporary names begin with ".tmp-" and are unique per process and writer. What a crash leaves of
 * them is listed as unfinished.
 */
#include "base/mem.h"
#include "worker/store/store_backend.h"
#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, ATTEMPTS = 1000 };

/* Large reads that are under way at once. More would share the disk and end together: then all
 * their readers compute while the disk idles. */
enum { READS_AT_ONCE = 2, READ_LARGE_BYTES = 1 << 20 };

struct dir {
    const struct disk *disk;
    sem_t reads;
    char path[PATH_BYTES];
};

struct dir_writer {
    struct dir *dir;
    struct disk_file *file;
    uint64_t bytes;
    char path[PATH_BYTES], temporary[PATH_BYTES];
};

struct dir_reader {
    struct dir *dir;
    struct disk_file *file;
    char path[PATH_BYTES];
};

static const char prefix_of_unfinished[] = ".tmp-";

static bool path_of(const struct dir *dir, const char *name, char *ret_path,
                    struct error *ret_error)
{
    int length = snprintf(ret_path, PATH_BYTES, "%s/%s", dir->path, name);
    return (length > 0 && length < PATH_BYTES) ||
           error_set(ret_error, "%.200s: the path is too long", dir->path);
}

/* The folder of a path: cut at the last slash, which every path of ours has. */
static void folder_of(const char *path, char *ret_folder)
{
    size_t length = (size_t)(strrchr(path, '/') - path);
    memcpy(ret_folder, path, length);
    ret_folder[length] = '\0';
}

static void close_dir(void *self)
{
    (void)sem_destroy(&((struct dir *)self)->reads); /* nobody waits: all readers are closed */
    mem_free(self);
}

struct list {
    const char *prefix, *folder; /* "": the root */
    bool unfinished, failed;
    struct store_listing *listing;
    struct store_listing folders;
    struct error *ret_error;
};

static bool visit(void *context, const char *name, uint64_t bytes, bool is_folder)
{
    struct list *list = context;
    char full[2 * STORE_NAME_BYTES + 256];
    bool temporary = strncmp(name, prefix_of_unfinished, sizeof prefix_of_unfinished - 1) == 0;
    int length = snprintf(full, sizeof full, "%s%s%s", list->folder,
                          list->folder[0] == '\0' ? "" : "/", name);
    if (length >= STORE_NAME_BYTES) return true; /* nothing of ours */
    size_t prefix = strlen(list->prefix), least = (size_t)length < prefix ? (size_t)length : prefix;
    if (is_folder) {
        bool may_match = strncmp(full, list->prefix, least) == 0 && list->folder[0] == '\0';
        if (!may_match || !store_name_is_sound(name)) return true;
        list->failed = !store_listing_add(&list->folders, name, 0, list->ret_error);
        return !list->failed;
    }
    if (list->unfinished != temporary || (!temporary && !store_name_is_sound(full))) return true;
    const char *shown = temporary && list->folder[0] == '\0' ? name : full;
    if (strncmp(shown, list->prefix, prefix) != 0) return true;
    list->failed = !store_listing_add(list->listing, full, bytes, list->ret_error);
    return !list->failed;
}

static bool list_folder(struct dir *dir, struct list *list, struct error *ret_error)
{
    char path[PATH_BYTES];
    if (list->folder[0] == '\0')
        snprintf(path, sizeof path, "%s", dir->path);
    else if (!path_of(dir, list->folder, path, ret_error))
        return false;
    int failed = dir->disk->list(dir->disk->self, path, visit, list);
    if (list->failed) return false;
    return failed == 0 || failed == ENOENT ||
           error_set(ret_error, "%s: cannot read the folder: %s", path, error_errno(failed));
}

static bool list_objects(void *self, const char *prefix, bool unfinished,
                         struct store_listing *listing, struct error *ret_error)
{
    struct list list = {.prefix = prefix,
                        .folder = "",
                        .unfinished = unfinished,
                        .listing = listing,
                        .ret_error = ret_error};
    bool fine = list_folder(self, &list, ret_error);
    for (uint32_t i = 0; i < list.folders.count && fine; i++) {
        list.folder = list.folders.item[i].name;
        fine = list_folder(self, &list, ret_error);
    }
    store_listing_free(&list.folders);
    return fine;
}

/* "root/folder/.tmp-PID-N" for "root/folder/name": beside it, so that a rename is enough. */
static bool name_temporary(struct dir_writer *writer)
{
    static _Atomic uint64_t serial;
    char folder[PATH_BYTES];
    folder_of(writer->path, folder);
    int length = snprintf(writer->temporary, PATH_BYTES, "%s/%s%ld-%" PRIu64, folder,
                          prefix_of_unfinished, (long)getpid(), atomic_fetch_add(&serial, 1));
    return length > 0 && length < PATH_BYTES;
}

/* A number that a dead process of the same id used is passed over; a folder that somebody else
 * found empty and removed is made again. */
static int create_temporary(struct dir_writer *writer)
{
    const struct disk *disk = writer->dir->disk;
    char folder[PATH_BYTES];
    folder_of(writer->path, folder);
    for (int attempt = 0;; attempt++) {
        int failed = disk->make_folders(disk->self, folder);
        if (failed == 0 && !name_temporary(writer)) failed = ENAMETOOLONG;
        if (failed == 0)
            failed = disk->create(disk->self, writer->temporary, writer->bytes, &writer->file);
        if ((failed != EEXIST && failed != ENOENT) || attempt == ATTEMPTS) return failed;
    }
}

static void *create(void *self, const char *name, uint64_t bytes, struct error *ret_error)
{
    struct dir *dir = self;
    struct dir_writer *writer = mem_zalloc(1, sizeof *writer);
    if (writer == NULL) {
        (void)error_set(ret_error, "%s/%s: out of memory for writing it", dir->path, name);
        return NULL;
    }
    writer->dir = dir;
    writer->bytes = bytes;
    if (path_of(dir, name, writer->path, ret_error)) {
        int failed = create_temporary(writer);
        if (failed == 0) return writer;
        (void)error_set(ret_error, "%s: cannot create: %s", writer->path, error_errno(failed));
    }
    mem_free(writer);
    return NULL;
}

static bool put_part(void *self, uint32_t index, const void *bytes, size_t count,
                     struct error *ret_error)
{
    struct dir_writer *writer = self;
    uint64_t offset = (uint64_t)index * STORE_PART_BYTES;
    int failed = writer->dir->disk->write_at(writer->file, offset, bytes, count);
    return failed == 0 || error_set(ret_error, "%s: cannot write at byte %" PRIu64 ": %s",
                                    writer->path, offset, error_errno(failed));
}

/* Takes the temporary file away; best effort, it is listed as unfinished otherwise. */
static void drop(struct dir_writer *writer)
{
    const struct disk *disk = writer->dir->disk;
    char folder[PATH_BYTES];
    if (writer->file != NULL) (void)disk->close(writer->file);
    (void)disk->unlink(disk->self, writer->temporary);
    folder_of(writer->path, folder);
    if (strcmp(folder, writer->dir->path) != 0) (void)disk->remove_folder(disk->self, folder);
    mem_free(writer);
}

static int sync_folder_of(const struct dir_writer *writer)
{
    const struct disk *disk = writer->dir->disk;
    char folder[PATH_BYTES];
    folder_of(writer->path, folder);
    return disk->sync_folder(disk->self, folder);
}

/* 0, EEXIST (only_new), or why it failed; the writer is gone afterwards. */
static int finish(struct dir_writer *writer, bool only_new)
{
    const struct disk *disk = writer->dir->disk;
    int failed = disk->sync(writer->file);
    int closed = disk->close(writer->file);
    writer->file = NULL;
    if (failed == 0) failed = closed;
    if (failed == 0)
        failed = only_new ? disk->rename_new(disk->self, writer->temporary, writer->path)
                          : disk->rename(disk->self, writer->temporary, writer->path);
    if (failed != 0) {
        drop(writer);
        return failed;
    }
    failed = sync_folder_of(writer);
    mem_free(writer);
    return failed;
}

static bool commit(void *self, struct error *ret_error)
{
    struct dir_writer *writer = self;
    char path[PATH_BYTES];
    memcpy(path, writer->path, sizeof path);
    int failed = finish(writer, false);
    return failed == 0 || error_set(ret_error, "%s: cannot write: %s", path, error_errno(failed));
}

static void abort_writer(void *self)
{
    drop(self);
}

static enum store_put put_if_absent(void *self, const char *name, const void *bytes, size_t count,
                                    struct error *ret_error)
{
    struct dir_writer *writer = create(self, name, count, ret_error);
    if (writer == NULL) return STORE_PUT_FAILED;
    char path[PATH_BYTES];
    memcpy(path, writer->path, sizeof path);
    int failed = writer->dir->disk->write_at(writer->file, 0, bytes, count);
    struct dir *dir = self;
    if (failed == 0)
        failed = finish(writer, true);
    else
        drop(writer);
    if (failed == 0) failed = dir->disk->sync_folder(dir->disk->self, dir->path);
    if (failed == 0) return STORE_PUT_DONE;
    (void)error_set(ret_error, "%s: cannot write: %s", path, error_errno(failed));
    return failed == EEXIST ? STORE_PUT_EXISTS : STORE_PUT_FAILED;
}

static void *open_object(void *self, const char *name, uint64_t *ret_bytes, struct error *ret_error)
{
    struct dir *dir = self;
    struct dir_reader *reader = mem_zalloc(1, sizeof *reader);
    if (reader == NULL) {
        (void)error_set(ret_error, "%s/%s: out of memory for reading it", dir->path, name);
        return NULL;
    }
    reader->dir = dir;
    int failed = ENAMETOOLONG;
    if (path_of(dir, name, reader->path, NULL))
        failed = dir->disk->open(dir->disk->self, reader->path, &reader->file, ret_bytes);
    if (failed == 0) return reader;
    (void)error_set(ret_error, "%s/%s: cannot open: %s", dir->path, name, error_errno(failed));
    mem_free(reader);
    return NULL;
}

static bool read_object(void *self, uint64_t offset, void *bytes, size_t count,
                        struct error *ret_error)
{
    struct dir_reader *reader = self;
    bool large = count >= READ_LARGE_BYTES;
    while (large && sem_wait(&reader->dir->reads) != 0) {} /* a signal came */
    int failed = reader->dir->disk->read_at(reader->file, offset, bytes, count);
    if (large) (void)sem_post(&reader->dir->reads); /* never above its start */
    return failed == 0 || error_set(ret_error, "%s: cannot read at byte %" PRIu64 ": %s",
                                    reader->path, offset, error_errno(failed));
}

static void close_reader(void *self)
{
    struct dir_reader *reader = self;
    (void)reader->dir->disk->close(reader->file); /* read only */
    mem_free(reader);
}

static bool remove_object(void *self, const char *name, struct error *ret_error)
{
    struct dir *dir = self;
    char path[PATH_BYTES], folder[PATH_BYTES];
    if (!path_of(dir, name, path, ret_error)) return false;
    int failed = dir->disk->unlink(dir->disk->self, path);
    if (failed != 0 && failed != ENOENT)
        return error_set(ret_error, "%s: cannot remove: %s", path, error_errno(failed));
    folder_of(path, folder);
    if (strcmp(folder, dir->path) != 0) /* fails while something is left: right so */
        (void)dir->disk->remove_folder(dir->disk->self, folder);
    return true;
}

static bool discard(void *self, const char *name, struct error *ret_error)
{
    const char *slash = strchr(name, '/'), *base = slash == NULL ? name : slash + 1;
    bool temporary = strncmp(base, prefix_of_unfinished, sizeof prefix_of_unfinished - 1) == 0;
    if (!temporary || strchr(base, '/') != NULL || name[0] == '/' || strstr(name, "..") != NULL)
        return error_set(ret_error, "%.100s: not an unfinished write", name);
    return remove_object(self, name, ret_error);
}

static const struct store_backend backend = {
    .close = close_dir,
    .list = list_objects,
    .create = create,
    .put_part = put_part,
    .commit = commit,
    .abort = abort_writer,
    .put_if_absent = put_if_absent,
    .open = open_object,
    .read = read_object,
    .close_reader = close_reader,
    .remove = remove_object,
    .discard = discard,
};

struct store *store_dir_open(const char *path, const struct disk *disk, struct error *ret_error)
{
    struct dir *dir = mem_zalloc(1, sizeof *dir);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    if (dir == NULL || length == 0 || length + STORE_NAME_BYTES + 64 >= PATH_BYTES) {
        mem_free(dir);
        (void)error_set(ret_error, "\"%.80s\": the path is empty or too long, or out of memory",
                        path);
        return NULL;
    }
    dir->disk = disk;
    (void)sem_init(&dir->reads, 0, READS_AT_ONCE); /* fails only on misuse */
    memcpy(dir->path, path, length);
    return store_of(&backend, dir, dir->path, ret_error);
}
