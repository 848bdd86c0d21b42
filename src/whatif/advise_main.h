/* shoal advise: a job file and a market in, what would be best and why out (whatif/advise.h). */
#ifndef SHOAL_WHATIF_ADVISE_MAIN_H
#define SHOAL_WHATIF_ADVISE_MAIN_H

#include <stdbool.h>

struct advise_words {
    const char *job_file;
    const char *market_file; /* CSV and the like (codec/price_feed.h); NULL: none */
    const char *market_json; /* an answer of /v1/market; NULL: none; both NULL: list prices */
    const char *rates_json;  /* an answer of /v1/jobs/ID/why: speeds that were measured; NULL: none */
    const char *parameters, *overhead, *network; /* as given; NULL: as in the file, the defaults */
    bool json;
};

/* The exit code. */
int advise_main(const struct advise_words *words);

#endif
