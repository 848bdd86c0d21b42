#include "driver/local_status.h"
#include <dirent.h>
#include <string.h>

static bool is_page(const char *name)
{
    size_t length = strlen(name), suffix = strlen(".status");
    return length > suffix && strcmp(name + length - suffix, ".status") == 0;
}

bool local_status_exists(const char *dir)
{
    DIR *folder = opendir(dir);
    bool found = false;
    for (struct dirent *entry; folder != NULL && !found && (entry = readdir(folder)) != NULL;)
        found = is_page(entry->d_name);
    if (folder != NULL) (void)closedir(folder); /* read only */
    return found;
}

bool local_status_any(const char *dir, const char *phase)
{
    (void)phase;
    return local_status_exists(dir) && false;
}
