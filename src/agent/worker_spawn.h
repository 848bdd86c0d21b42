/* Starting the process of a worker: fork, environment, exec. See worker.h for what it may rely on.
 */
#ifndef SHOAL_AGENT_WORKER_SPAWN_H
#define SHOAL_AGENT_WORKER_SPAWN_H

#include "agent/worker.h"

struct worker_streams {
    pid_t pid; /* also its process group */
    int out_fd, err_fd, talk_fd;
};

/* A command that cannot be executed is not an error here: the process says so on its stderr and
 * exits with 127, which reaches the owner like any other failure of his program. */
bool worker_spawn(const struct reply_worker *wanted, const struct worker_place *place,
                  const char *status_file, struct worker_streams *ret_streams,
                  struct error *ret_error) WARN_UNUSED;

#endif
