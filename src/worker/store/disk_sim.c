#include "worker/store/disk_sim.h"
#include "base/splitmix.h"
#include "core/assert.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_BYTES = 256, SECTOR = 512, ENTRIES_MAX = 512, CHANGES_MAX = 4096 };

struct inode {
    uint8_t *seen, *kept; /* what programs see; what the platter holds */
    size_t seen_bytes, kept_bytes;
    bool is_folder;
};

struct entry {
    char path[PATH_MAX_BYTES];
    struct inode *inode;
};

struct view {
    struct entry entry[ENTRIES_MAX];
    uint32_t count;
};

/* A change of a folder that is not on the platter yet. */
struct change {
    char folder[PATH_MAX_BYTES], gone[PATH_MAX_BYTES], added[PATH_MAX_BYTES]; /* "": none */
    struct inode *inode;
};

struct disk_file {
    struct disk_sim *sim;
    struct inode *inode;
};

struct disk_sim {
    struct view seen, kept;
    struct change change[CHANGES_MAX];
    uint32_t change_count;
    struct inode *inode[CHANGES_MAX]; /* all ever made, to be freed */
    uint32_t inode_count;
    uint64_t random, calls, fail_at, cut_at;
    int fail_errno;
    bool is_dark;
};

struct disk_sim *disk_sim_new(uint64_t seed)
{
    struct disk_sim *sim = calloc(1, sizeof *sim);
    ASSERT(sim != NULL);
    sim->random = seed;
    return sim;
}

void disk_sim_free(struct disk_sim *sim)
{
    for (uint32_t i = 0; i < sim->inode_count; i++) {
        free(sim->inode[i]->seen);
        free(sim->inode[i]->kept);
        free(sim->inode[i]);
    }
    free(sim);
}

void disk_sim_fail_at(struct disk_sim *sim, uint64_t nth, int errno_value)
{
    sim->fail_at = nth == 0 ? 0 : sim->calls + nth;
    sim->fail_errno = errno_value;
}

void disk_sim_cut_at(struct disk_sim *sim, uint64_t nth)
{
    sim->cut_at = nth == 0 ? 0 : sim->calls + nth;
}

uint64_t disk_sim_calls(const struct disk_sim *sim)
{
    return sim->calls;
}

/* Begins a changing call: 0, or why it must fail. */
static int begin(struct disk_sim *sim)
{
    if (sim->is_dark) return EIO;
    sim->calls++;
    if (sim->calls == sim->cut_at) sim->is_dark = true;
    if (sim->is_dark) return EIO;
    return sim->calls == sim->fail_at ? sim->fail_errno : 0;
}

static struct entry *find(struct view *view, const char *path)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (strcmp(view->entry[i].path, path) == 0) return &view->entry[i];
    return NULL;
}

static void put(struct view *view, const char *path, struct inode *inode)
{
    struct entry *entry = find(view, path);
    ASSERT(view->count < ENTRIES_MAX);
    if (entry == NULL) entry = &view->entry[view->count++];
    snprintf(entry->path, sizeof entry->path, "%s", path);
    entry->inode = inode;
}

static void take(struct view *view, const char *path)
{
    struct entry *entry = find(view, path);
    if (entry != NULL) *entry = view->entry[--view->count];
}

static void folder_of(const char *path, char *ret_folder)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    memcpy(ret_folder, path, length);
    ret_folder[length] = '\0';
}

/* Applies a change in view and notes it for the platter. */
static void change(struct disk_sim *sim, const char *gone, const char *added, struct inode *inode)
{
    ASSERT(sim->change_count < CHANGES_MAX);
    struct change *noted = &sim->change[sim->change_count++];
    *noted = (struct change){.inode = inode};
    folder_of(gone != NULL ? gone : added, noted->folder);
    if (gone != NULL) snprintf(noted->gone, sizeof noted->gone, "%s", gone);
    if (added != NULL) snprintf(noted->added, sizeof noted->added, "%s", added);
    if (gone != NULL) take(&sim->seen, gone);
    if (added != NULL) put(&sim->seen, added, inode);
}

static struct inode *new_inode(struct disk_sim *sim, bool is_folder)
{
    ASSERT(sim->inode_count < CHANGES_MAX);
    struct inode *inode = calloc(1, sizeof *inode);
    ASSERT(inode != NULL);
    inode->is_folder = is_folder;
    return sim->inode[sim->inode_count++] = inode;
}

static bool folder_is_there(struct disk_sim *sim, const char *folder)
{
    if (strchr(folder, '/') == NULL) return true; /* the root of the tree */
    struct entry *entry = find(&sim->seen, folder);
    return entry != NULL && entry->inode->is_folder;
}

static struct disk_file *handle(struct disk_sim *sim, struct inode *inode)
{
    struct disk_file *file = malloc(sizeof *file);
    ASSERT(file != NULL);
    *file = (struct disk_file){sim, inode};
    return file;
}

static int create(void *self, const char *path, uint64_t bytes, struct disk_file **ret_file)
{
    struct disk_sim *sim = self;
    char folder[PATH_MAX_BYTES];
    (void)bytes;
    folder_of(path, folder);
    int failed = begin(sim);
    if (failed == 0 && !folder_is_there(sim, folder)) failed = ENOENT;
    if (failed == 0 && find(&sim->seen, path) != NULL) failed = EEXIST;
    if (failed != 0) return failed;
    struct inode *inode = new_inode(sim, false);
    change(sim, NULL, path, inode);
    *ret_file = handle(sim, inode);
    return 0;
}

static void grow(uint8_t **bytes, size_t *count, size_t wanted)
{
    if (wanted <= *count) return;
    *bytes = realloc(*bytes, wanted);
    ASSERT(*bytes != NULL);
    memset(*bytes + *count, 0, wanted - *count);
    *count = wanted;
}

static int write_at(struct disk_file *file, uint64_t offset, const void *bytes, size_t count)
{
    int failed = begin(file->sim);
    if (failed != 0 && count > 0)
        count = splitmix_next(&file->sim->random) % count; /* some of it came through */
    if (count > 0) {
        grow(&file->inode->seen, &file->inode->seen_bytes, offset + count);
        memcpy(file->inode->seen + offset, bytes, count);
    }
    return failed;
}

static int sync_file(struct disk_file *file)
{
    struct inode *inode = file->inode;
    int failed = begin(file->sim);
    if (failed != 0) return failed;
    grow(&inode->kept, &inode->kept_bytes, inode->seen_bytes);
    if (inode->seen_bytes > 0) memcpy(inode->kept, inode->seen, inode->seen_bytes);
    inode->kept_bytes = inode->seen_bytes;
    return 0;
}

static int close_file(struct disk_file *file)
{
    free(file);
    return 0;
}

static void keep(struct disk_sim *sim, const struct change *noted)
{
    if (noted->gone[0] != '\0') take(&sim->kept, noted->gone);
    if (noted->added[0] != '\0') put(&sim->kept, noted->added, noted->inode);
}

static int sync_folder(void *self, const char *path)
{
    struct disk_sim *sim = self;
    int failed = begin(sim);
    if (failed == 0 && !folder_is_there(sim, path)) failed = ENOENT;
    if (failed != 0) return failed;
    uint32_t left = 0;
    for (uint32_t i = 0; i < sim->change_count; i++) {
        if (strcmp(sim->change[i].folder, path) == 0)
            keep(sim, &sim->change[i]);
        else
            sim->change[left++] = sim->change[i];
    }
    sim->change_count = left;
    return 0;
}

static int make_folders(void *self, const char *path)
{
    struct disk_sim *sim = self;
    char parent[PATH_MAX_BYTES];
    if (sim->is_dark) return EIO;
    if (folder_is_there(sim, path)) return 0;
    folder_of(path, parent);
    int failed = make_folders(self, parent);
    if (failed == 0) failed = begin(sim);
    if (failed != 0) return failed;
    change(sim, NULL, path, new_inode(sim, true));
    return sync_folder(self, parent);
}

static int move(struct disk_sim *sim, const char *from, const char *to, bool replace)
{
    int failed = begin(sim);
    struct entry *entry = find(&sim->seen, from);
    if (failed != 0) return failed;
    if (entry == NULL) return ENOENT;
    if (!replace && find(&sim->seen, to) != NULL) return EEXIST;
    change(sim, from, to, entry->inode);
    return 0;
}

static int rename_over(void *self, const char *from, const char *to)
{
    return move(self, from, to, true);
}

static int rename_new(void *self, const char *from, const char *to)
{
    return move(self, from, to, false);
}

static int unlink_file(void *self, const char *path)
{
    struct disk_sim *sim = self;
    int failed = begin(sim);
    struct entry *entry = find(&sim->seen, path);
    if (failed == 0 && entry == NULL) failed = ENOENT;
    if (failed == 0 && entry->inode->is_folder) failed = EISDIR;
    if (failed == 0) change(sim, path, NULL, NULL);
    return failed;
}

static bool is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && path[length] == '/';
}

static int remove_folder(void *self, const char *path)
{
    struct disk_sim *sim = self;
    int failed = begin(sim);
    if (failed != 0) return failed;
    if (find(&sim->seen, path) == NULL) return ENOENT;
    for (uint32_t i = 0; i < sim->seen.count; i++)
        if (is_below(sim->seen.entry[i].path, path)) return ENOTEMPTY;
    change(sim, path, NULL, NULL);
    return 0;
}

static int list(void *self, const char *path, disk_visit *visit, void *context)
{
    struct disk_sim *sim = self;
    if (sim->is_dark) return EIO;
    if (!folder_is_there(sim, path)) return ENOENT;
    for (uint32_t i = 0; i < sim->seen.count; i++) {
        const struct entry *entry = &sim->seen.entry[i];
        const char *name = entry->path + strlen(path) + 1;
        if (!is_below(entry->path, path) || strchr(name, '/') != NULL) continue;
        if (!visit(context, name, entry->inode->seen_bytes, entry->inode->is_folder)) break;
    }
    return 0;
}

static int open_file(void *self, const char *path, struct disk_file **ret_file, uint64_t *ret_bytes)
{
    struct disk_sim *sim = self;
    if (sim->is_dark) return EIO;
    struct entry *entry = find(&sim->seen, path);
    if (entry == NULL) return ENOENT;
    if (entry->inode->is_folder) return EISDIR;
    *ret_file = handle(sim, entry->inode);
    *ret_bytes = entry->inode->seen_bytes;
    return 0;
}

static int read_at(struct disk_file *file, uint64_t offset, void *bytes, size_t count)
{
    if (file->sim->is_dark) return EIO;
    if (offset > file->inode->seen_bytes || count > file->inode->seen_bytes - offset) return EIO;
    if (count > 0) memcpy(bytes, file->inode->seen + offset, count);
    return 0;
}

struct disk disk_sim_disk(struct disk_sim *sim)
{
    return (struct disk){
        .self = sim,
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
}

/* mood 0: all that was not synced is lost; 1: all came through; else each by itself. */
static bool survives(struct disk_sim *sim, uint64_t mood)
{
    return mood == 1 || (mood > 1 && (splitmix_next(&sim->random) & 1) != 0);
}

static void crash_file(struct disk_sim *sim, struct inode *inode, uint64_t mood)
{
    size_t bytes = inode->seen_bytes > inode->kept_bytes ? inode->seen_bytes : inode->kept_bytes;
    size_t least = inode->seen_bytes < inode->kept_bytes ? inode->seen_bytes : inode->kept_bytes;
    if (bytes == 0) return;
    size_t length = mood == 0   ? inode->kept_bytes
                    : mood == 1 ? inode->seen_bytes
                                : least + splitmix_next(&sim->random) % (bytes - least + 1);
    grow(&inode->kept, &inode->kept_bytes, bytes);
    grow(&inode->seen, &inode->seen_bytes, bytes);
    for (size_t at = 0; at < bytes; at += SECTOR) {
        size_t count = bytes - at < SECTOR ? bytes - at : SECTOR;
        bool equal = memcmp(inode->kept + at, inode->seen + at, count) == 0;
        if (!equal && survives(sim, mood)) memcpy(inode->kept + at, inode->seen + at, count);
    }
    memcpy(inode->seen, inode->kept, bytes);
    inode->seen_bytes = inode->kept_bytes = length;
}

/* Entries whose folder is not on the platter are not there either. */
static void drop_lost(struct view *view)
{
    for (uint32_t i = 0; i < view->count;) {
        char folder[PATH_MAX_BYTES];
        folder_of(view->entry[i].path, folder);
        bool there = strchr(folder, '/') == NULL || find(view, folder) != NULL;
        if (there)
            i++;
        else
            view->entry[i] = view->entry[--view->count];
    }
}

void disk_sim_crash(struct disk_sim *sim)
{
    uint64_t mood = splitmix_next(&sim->random) % 6;
    for (uint32_t i = 0; i < sim->change_count; i++)
        if (survives(sim, mood)) keep(sim, &sim->change[i]);
    sim->change_count = 0;
    drop_lost(&sim->kept);
    drop_lost(&sim->kept); /* two levels are all we use */
    for (uint32_t i = 0; i < sim->inode_count; i++)
        if (!sim->inode[i]->is_folder) crash_file(sim, sim->inode[i], mood);
    sim->seen = sim->kept;
    sim->is_dark = false;
    sim->fail_at = sim->cut_at = 0;
}

bool disk_sim_rot(struct disk_sim *sim, const char *path, uint64_t offset)
{
    struct entry *entry = find(&sim->seen, path);
    if (entry == NULL || offset >= entry->inode->seen_bytes) return false;
    entry->inode->seen[offset] ^= 0x10;
    if (offset < entry->inode->kept_bytes) entry->inode->kept[offset] ^= 0x10;
    return true;
}
