/* Starting a server in the background and waiting until it answers.
 *
 * The server is this very program (/proc/self/exe) with the arguments "server --config FILE", in a
 * session of its own, its output appended to DATA/server.log. The data folder is the one the
 * configuration names (key `data`, relative to the file, default shoal-data).
 */
#ifndef SHOAL_CLI_LAUNCH_H
#define SHOAL_CLI_LAUNCH_H

#include "base/error.h"
#include <stdbool.h>
#include <sys/types.h>

enum { LAUNCH_PATH_BYTES = 1024 };

/* The data folder of a configuration file. Other mistakes in it are the server's to tell. */
bool launch_data_of(const char *config_path, char ret_data[LAUNCH_PATH_BYTES],
                    struct error *ret_error) WARN_UNUSED;

/* Does the server of this data folder answer? */
bool launch_is_up(const char *data);

/* program NULL: this one. Returns when the server answers /healthz, has died, or timeout_ms are
 * over (it is stopped then). */
bool launch_server(const char *program, const char *config_path, const char *data, int timeout_ms,
                   pid_t *ret_pid, struct error *ret_error) WARN_UNUSED;

/* Asks the server of this data folder to stop (SIGTERM to the process of server.json, if it
 * answers) and waits until it is gone. */
bool launch_stop(const char *data, int timeout_ms, bool *ret_was_up,
                 struct error *ret_error) WARN_UNUSED;

#endif
