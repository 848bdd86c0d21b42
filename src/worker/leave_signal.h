/* SIGTERM as a request to leave, SIGUSR1 (a notice) as nothing: both would kill by default.
 *
 * Only taken where the program has not set its own handlers. The one flag behind it is the only
 * state of libshoal outside struct shoal: a signal handler has no argument.
 */
#ifndef SHOAL_WORKER_LEAVE_SIGNAL_H
#define SHOAL_WORKER_LEAVE_SIGNAL_H

#include <stdbool.h>

bool leave_signal_catch(void); /* false: SIGTERM is the program's own business */
bool leave_signal_came(void);

#endif
