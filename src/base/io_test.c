/* Files under faults: whichever call fails, a file holds its old or its new content, and nothing
 * else stays in the folder. */
#include "base/io.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Each test runs in an empty folder of its own. */
static int enter_folder(void **state)
{
    char *folder = strdup("/tmp/io_test_XXXXXX");
    *state = folder;
    return folder == NULL || mkdtemp(folder) == NULL ? -1 : chdir(folder);
}

static void remove_tree(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char inner[600];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        (void)snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (unlink(inner) != 0) remove_tree(inner);
    }
    (void)closedir(folder);
    (void)rmdir(path); /* the caller's check tells */
}

static int leave_folder(void **state)
{
    io_fail_at(0, 0);
    mem_fail_at(0);
    if (chdir("/") != 0) return -1;
    remove_tree(*state);
    int left = access(*state, F_OK) == 0 ? -1 : 0;
    free(*state);
    return left;
}

static int entry_count(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder) != NULL) count++;
    assert_int_equal(closedir(folder), 0);
    return count - 2; /* . and .. */
}

static bool holds(const char *path, const char *text)
{
    char *bytes = NULL;
    size_t count = 0;
    assert_true(io_read_file(path, 1000, &bytes, &count, NULL));
    bool same = count == strlen(text) && strcmp(bytes, text) == 0;
    mem_free(bytes);
    return same;
}

static bool write_text(const char *path, const char *text, struct error *ret_error)
{
    return io_write_file(path, text, strlen(text), 0600, ret_error);
}

static void test_write_and_read(void **state)
{
    (void)state;
    assert_true(write_text("file", "first", NULL));
    assert_true(holds("file", "first"));
    assert_true(write_text("file", "", NULL));
    assert_true(holds("file", ""));
    struct stat facts;
    assert_int_equal(stat("file", &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(entry_count("."), 1);
}

/* Renaming over /dev/stdout would take it away from everybody on the machine. */
static void test_only_files_are_replaced(void **state)
{
    (void)state;
    static const mode_t kinds[] = {S_IFLNK, S_IFIFO, S_IFDIR};
    struct stat facts;
    struct error error;
    assert_true(write_text("target", "as it was", NULL));
    assert_int_equal(symlink("target", "1"), 0);
    assert_int_equal(mkfifo("2", 0600), 0);
    assert_int_equal(mkdir("3", 0700), 0);
    for (uint32_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char name[] = {(char)('1' + i), '\0'};
        assert_false(write_text(name, "new", &error));
        assert_non_null(strstr(error.text, ": not a file, so it is not replaced; name a new one"));
        assert_int_equal(lstat(name, &facts), 0);
        assert_int_equal(facts.st_mode & S_IFMT, kinds[i]);
    }
    assert_true(holds("target", "as it was"));
    assert_int_equal(entry_count("."), 4);
}

static uint64_t calls_of_a_write(void)
{
    uint64_t before = io_calls();
    assert_true(write_text("file", "old", NULL));
    return io_calls() - before;
}

static void test_every_fault_leaves_old_or_new(void **state)
{
    (void)state;
    uint64_t calls = calls_of_a_write();
    assert_int_equal(calls, 5); /* open, write, fsync, rename, fsync of the folder */
    for (uint64_t nth = 1; nth <= calls; nth++) {
        struct error error = {0};
        assert_true(write_text("file", "old", NULL));
        io_fail_at(nth, ENOSPC);
        assert_false(write_text("file", "a longer new text", &error));
        assert_non_null(strstr(error.text, "file"));
        assert_non_null(strstr(error.text, "No space left on device"));
        /* After the rename the new text is there; only its survival of a power cut is in doubt. */
        assert_true(holds("file", nth < calls ? "old" : "a longer new text"));
        assert_int_equal(entry_count("."), 1);
        assert_true(write_text("file", "next", NULL)); /* once only, and nothing is in the way */
        assert_true(holds("file", "next"));
    }
}

/* Large files are written in pieces: each may fail, and none is out of place. */
static void test_large_files(void **state)
{
    (void)state;
    enum { COUNT = (20 << 20) + 3 };
    char *bytes = mem_alloc(COUNT), *read = NULL;
    size_t count = 0;
    assert_non_null(bytes);
    for (uint32_t i = 0; i < COUNT; i++) bytes[i] = (char)((i * 2654435761u) >> 24);
    uint64_t before = io_calls();
    assert_true(io_write_file("file", bytes, COUNT, 0600, NULL));
    uint64_t calls = io_calls() - before;
    assert_int_equal(calls, 5 + 2); /* two writes more than a small file */
    for (uint64_t nth = 2; nth <= 4; nth++) {
        assert_true(write_text("file", "old", NULL));
        io_fail_at(nth, ENOSPC);
        assert_false(io_write_file("file", bytes, COUNT, 0600, NULL));
        assert_true(holds("file", "old"));
        assert_int_equal(entry_count("."), 1);
    }
    assert_true(io_write_file("file", bytes, COUNT, 0600, NULL));
    assert_true(io_read_file("file", COUNT, &read, &count, NULL));
    assert_int_equal(count, COUNT);
    assert_memory_equal(read, bytes, COUNT);
    mem_free(read);
    mem_free(bytes);
}

static void test_every_fault_of_a_first_write(void **state)
{
    (void)state;
    uint64_t calls = calls_of_a_write();
    for (uint64_t nth = 1; nth < calls; nth++) {
        assert_true(access("file", F_OK) != 0 || unlink("file") == 0);
        io_fail_at(nth, EIO);
        assert_false(write_text("file", "new", NULL));
        assert_int_equal(entry_count("."), 0);
    }
}

static void test_write_where_it_cannot_be(void **state)
{
    (void)state;
    struct error error;
    assert_false(write_text("missing/file", "x", &error));
    assert_non_null(strstr(error.text, "missing/file"));
    assert_non_null(strstr(error.text, "No such file or directory"));
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_false(write_text("folder", "x", &error)); /* a folder is not replaced */
    assert_int_equal(entry_count("."), 1);
    static char path[5000];
    memset(path, 'x', sizeof path - 1);
    assert_false(write_text(path, "x", &error));
    assert_non_null(strstr(error.text, "too long"));
}

static void test_full_device(void **state)
{
    (void)state;
    int fd = io_open_write("/dev/full", O_WRONLY, 0);
    if (fd < 0) skip();
    assert_false(io_write_full(fd, "x", 1));
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(close(fd), 0);
}

/* A pipe takes 64 KiB at a time: a write that is cut short goes on where it stopped. */
static void test_short_writes(void **state)
{
    (void)state;
    enum { BYTES = 1000000 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static char got[BYTES];
        size_t have = 0;
        (void)close(ends[1]);
        for (ssize_t n; (n = read(ends[0], got + have, sizeof got - have)) > 0;) have += (size_t)n;
        for (size_t i = 0; i < have; i++)
            if (got[i] != (char)(i % 251)) _exit(1);
        _exit(have == BYTES ? 0 : 2);
    }
    static char sent[BYTES];
    for (size_t i = 0; i < BYTES; i++) sent[i] = (char)(i % 251);
    assert_true(io_write_full(ends[1], sent, BYTES));
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(close(ends[0]), 0);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_read_refusals(void **state)
{
    (void)state;
    char *bytes = NULL;
    size_t count = 0;
    struct error error;
    assert_false(io_read_file("missing", 10, &bytes, &count, &error));
    assert_string_equal(error.text, "missing: cannot open: No such file or directory");
    assert_false(io_read_file(".", 10, &bytes, &count, &error));
    assert_string_equal(error.text, ".: not a file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_false(io_read_file("pipe", 10, &bytes, &count, &error)); /* and does not wait */
    assert_string_equal(error.text, "pipe: not a file");
    assert_true(write_text("file", "12345", NULL));
    assert_false(io_read_file("file", 4, &bytes, &count, &error));
    assert_string_equal(error.text, "file: 5 bytes is above the limit of 4");
    mem_fail_at(1);
    assert_false(io_read_file("file", 5, &bytes, &count, &error));
    assert_string_equal(error.text, "file: out of memory for 5 bytes");
    assert_null(bytes);
    assert_true(io_read_file("file", 5, &bytes, &count, &error));
    mem_free(bytes);
}

static void test_make_dirs(void **state)
{
    (void)state;
    assert_true(io_make_dirs("a/b/c", NULL));
    assert_true(io_make_dirs("a/b/c", NULL));
    assert_true(io_make_dirs("a//b/d/", NULL));
    assert_int_equal(entry_count("a/b"), 2);
    struct stat facts;
    assert_int_equal(stat("a/b/d", &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    assert_true(io_make_dirs("/", NULL));
    assert_true(io_make_dirs(".", NULL));
}

static void test_make_dirs_refusals(void **state)
{
    (void)state;
    struct error error;
    assert_true(write_text("file", "x", NULL));
    assert_false(io_make_dirs("file/below", &error));
    assert_string_equal(error.text, "file: cannot make the folder: Not a directory");
    assert_false(io_make_dirs("file", &error));
    assert_string_equal(error.text, "file: cannot make the folder: Not a directory");
    assert_false(io_make_dirs("", &error));
    assert_non_null(strstr(error.text, "empty"));
    static char path[5000];
    memset(path, 'x', sizeof path - 1);
    assert_false(io_make_dirs(path, &error));
    assert_non_null(strstr(error.text, "too long"));
}

static void test_sync_dir(void **state)
{
    (void)state;
    assert_true(io_sync_dir("."));
    assert_false(io_sync_dir("missing"));
    assert_int_equal(errno, ENOENT);
    io_fail_at(1, EIO);
    assert_false(io_sync_dir("."));
    assert_int_equal(errno, EIO);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_write_and_read),
        IN_FOLDER(test_only_files_are_replaced),
        IN_FOLDER(test_every_fault_leaves_old_or_new),
        IN_FOLDER(test_large_files),
        IN_FOLDER(test_every_fault_of_a_first_write),
        IN_FOLDER(test_write_where_it_cannot_be),
        IN_FOLDER(test_full_device),
        IN_FOLDER(test_short_writes),
        IN_FOLDER(test_read_refusals),
        IN_FOLDER(test_make_dirs),
        IN_FOLDER(test_make_dirs_refusals),
        IN_FOLDER(test_sync_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
