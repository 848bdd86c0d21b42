/* What the core is told of a configuration: models, pools, classes, gates, tenants. */
#ifndef SHOAL_SERVER_DEFINITIONS_H
#define SHOAL_SERVER_DEFINITIONS_H

#include "codec/config.h"
#include "server/names.h"

/* Takes one event (seq, now_us and version are left 0); NULL, or a sentence why not. */
typedef const char *definition_fn(void *arg, const struct pool_event *event);

/* In the order in which they must be told. NULL, or what `tell` said, or why a name has no number. */
const char *definitions_tell(const struct config *config, const struct catalog *catalog, names *n,
                             definition_fn *tell, void *arg);

/* The numbers that the names of a journal's models and capabilities mean, given to a catalog that is
 * still empty, so that files read with it mean the same. */
bool definitions_reserve(const names *n, struct catalog *catalog,
                         struct error *ret_error) WARN_UNUSED;
/* The shipped catalog and the one that the configuration file names, into `catalog`. */
bool definitions_catalog(struct catalog *catalog, const char *config_file, const char *text,
                         size_t bytes, struct error *ret_error) WARN_UNUSED;
/* The network of a learned ranking, if the configuration asks for one. */
bool definitions_ranking(struct config *config, const char *config_file,
                         struct error *ret_error) WARN_UNUSED;

#endif
