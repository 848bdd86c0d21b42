/* The command line of `shoal server`. */
#ifndef SHOAL_SERVER_OPTIONS_H
#define SHOAL_SERVER_OPTIONS_H

#include "base/error.h"
#include <stdint.h>

struct server_options {
    const char *config_file; /* NULL: shoal.yaml if it is there, else nothing */
    const char *data_dir;    /* NULL: as in the config */
    const char *listen;      /* NULL: as in the config */
    bool allow_remote, keep_nodes, help;
    int64_t journal_bytes_max; /* 0: none */
};

bool server_options_read(int argc, char **argv, struct server_options *ret_options,
                         struct error *ret_error) WARN_UNUSED;
extern const char server_usage[];

#endif
