/* The processes of the demo: started here, and all gone when it ends, however it ends.
 *
 * children_adopt() makes this process the parent of every orphan below it (the machines of the
 * emulated clouds outlive the server that is killed on purpose), and turns SIGINT, SIGTERM, SIGHUP
 * and SIGPIPE into a flag that every wait of the demo looks at. children_end_all() then stops
 * whatever descends from this process: asked first, killed two seconds later.
 */
#ifndef SHOAL_DEMO_CHILDREN_H
#define SHOAL_DEMO_CHILDREN_H

#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

void children_adopt(void);
bool children_must_stop(void);
/* Sleeps; returns at once when a signal has asked to stop. */
void children_pause_ms(long ms);

/* Runs argv[0] in a process group of its own, its output into out_path (NULL: ours). Environment
 * words of shoal are taken away, so that a worker started here is one of no job. */
bool children_start(const char *const *argv, const char *out_path, pid_t *ret_pid,
                    struct error *ret_error) WARN_UNUSED;
/* false: still running. */
bool children_has_ended(pid_t pid, int *ret_status);
void children_end_all(void);

#endif
