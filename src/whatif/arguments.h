/* The command line of `shoal sim SCENARIO.yaml`. Inside src/whatif only. */
#ifndef SHOAL_WHATIF_ARGUMENTS_H
#define SHOAL_WHATIF_ARGUMENTS_H

#include "whatif/scene_get.h"

enum { ARGUMENTS_FILES_MAX = 8, ARGUMENTS_PATH_BYTES = 4096, GENERATIONS_MAX = 100000 };

struct arguments {
    const char *files[ARGUMENTS_FILES_MAX], *report, *ranking;
    const char *out; /* of --train */
    uint32_t file_count, generations;
    const char *policies[SCENE_CASES_MAX];
    uint32_t policy_count, set_count;
    struct scene_set sets[SCENE_SETS_MAX];
    bool json, help, sensitivity, check, has_seeds, train;
    uint32_t first_seed, last_seed, threads;
};

/* False after a sentence on stderr. `storage` keeps the paths of --set: as long as arguments are used. */
bool arguments_read(int argc, char **argv, struct arguments *ret_arguments);
void arguments_help(void);

#endif
