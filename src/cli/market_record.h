/* shoal market record --out FILE|DIR: every change of what the server's providers sell, added to a
 * record that `shoal market import` reads (cli/market_log.h). Goes on where the record ends. */
#ifndef SHOAL_CLI_MARKET_RECORD_H
#define SHOAL_CLI_MARKET_RECORD_H

#include "cli/cli.h"

struct market_record {
    const char *out;
    const char *every; /* seconds between looks; NULL: 10 */
    const char *wait;  /* seconds until a server that is away is given up; NULL: 600 */
    bool once;         /* take what there is, and end */
};

/* The exit code. */
int market_record(const struct cli_args *args, const struct market_record *wanted);

#endif
