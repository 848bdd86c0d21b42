/* Feeds every file of a corpus folder to a fuzzer's function once: `replay_NAME FOLDER`. */
#include "base/io.h"
#include "base/mem.h"
#include <dirent.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
        return 2;
    }
    DIR *folder = opendir(argv[1]);
    if (folder == NULL) {
        fprintf(stderr, "%s: cannot open the corpus\n", argv[1]);
        return 1;
    }
    unsigned inputs = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.') continue;
        char path[4096], *bytes;
        size_t count;
        struct error error;
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        if (!io_read_file(path, 1 << 20, &bytes, &count, &error)) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        (void)LLVMFuzzerTestOneInput((const uint8_t *)bytes, count);
        mem_free(bytes);
        inputs++;
    }
    (void)closedir(folder);
    printf("%u inputs\n", inputs);
    return inputs == 0; /* an empty corpus tests nothing */
}
