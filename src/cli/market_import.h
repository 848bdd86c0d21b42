/* shoal market import FILE: reads a history of prices (codec/price_feed.h), prints a line a zone and
 * type, or all of it with --json, and writes it as CSV to `out` (NULL = nowhere). What could not be
 * read is told on stderr. Returns the exit code: 1 when nothing was read. */
#ifndef SHOAL_CLI_MARKET_IMPORT_H
#define SHOAL_CLI_MARKET_IMPORT_H

#include "cli/cli.h"

int market_import(const char *path, const char *out, bool json);

#endif
