/* A temporary folder for a test, removed with its files. */
#ifndef SHOAL_SERVER_TEST_DIR_H
#define SHOAL_SERVER_TEST_DIR_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEST_PATH_BYTES = 512 };

static inline void test_dir_make(char ret_dir[TEST_PATH_BYTES])
{
    (void)snprintf(ret_dir, TEST_PATH_BYTES, "/tmp/shoal-server-test-XXXXXX");
    if (mkdtemp(ret_dir) == NULL) abort();
}

static inline const char *test_dir_path(const char *dir, const char *name,
                                        char ret_path[TEST_PATH_BYTES])
{
    (void)snprintf(ret_path, TEST_PATH_BYTES, "%.200s/%.200s", dir, name);
    return ret_path;
}

static inline void test_dir_remove(const char *dir)
{
    DIR *listing = opendir(dir);
    char path[TEST_PATH_BYTES];
    for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;)
        if (entry->d_name[0] != '.') (void)unlink(test_dir_path(dir, entry->d_name, path));
    if (listing != NULL) (void)closedir(listing);
    (void)rmdir(dir);
}

#endif
