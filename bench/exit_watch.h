/* When a dying process's descriptors were closed: a thread that does nothing but wait for the ends of
 * two pipes that the process held (worker_group.h, watch_exit).
 *
 * Why        Between kill -9 and the close of a connection lies the victim's own exit: it needs a core
 *            to run on and takes its memory apart before it closes anything. Peers can know of nothing
 *            before the close.
 * Precision  The thread asks for real-time priority, so that it runs at once on a busy machine. Where
 *            that is refused (`prompt` false) it may be late, and what is measured from it too short.
 */
#ifndef SHOAL_BENCH_EXIT_WATCH_H
#define SHOAL_BENCH_EXIT_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct exit_watch {
    pthread_t thread;
    int fd[2];
    bool prompt;
    int64_t first_us, last_us; /* wall clock: the first, the last descriptor was closed */
};

/* fd: the reading ends. False: no thread. Call exit_watch_end() once the process is gone. */
bool exit_watch_begin(struct exit_watch *watch, const int fd[2]);
void exit_watch_end(struct exit_watch *watch);

#endif
