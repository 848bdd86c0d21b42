/* shoal replay with --policy, --price or --pool: a stretch of a journal as it was, as the model has it,
 * and as it would have been. */
#ifndef SHOAL_SERVER_RERUN_MAIN_H
#define SHOAL_SERVER_RERUN_MAIN_H

#include "server/facts.h"

enum { RERUN_SEEDS_DEFAULT = 20, RERUN_SEEDS_MAX = 1000 };

struct rerun_words {
    const char *policy, *price, *pool; /* NULL: as recorded */
    uint64_t seeds;                    /* worlds that are modelled */
    struct facts_options stretch;
    bool json;
};

/* Whether there is such a policy; else the sentence lists those there are. */
bool rerun_knows_policy(const char *name, struct error *ret_error) WARN_UNUSED;
/* The exit code. */
int rerun_main(journal *j, const struct rerun_words *words);

#endif
