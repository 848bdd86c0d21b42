/* Reading the status pages that workers keep in a machine's folder (worker/status.h).
 *
 * Role       Lets the emulated cloud strike at a chosen moment, and say afterwards what the dead
 *            were doing. Pages are read, never written; a missing or half-made one says nothing.
 */
#ifndef SHOAL_DRIVER_LOCAL_STATUS_H
#define SHOAL_DRIVER_LOCAL_STATUS_H

#include <stdbool.h>

/* A page in `dir` says that its worker is in this phase. */
bool local_status_any(const char *dir, const char *phase);

/* There is a page at all: a worker of libshoal runs, or ran, here. */
bool local_status_exists(const char *dir);

#endif
