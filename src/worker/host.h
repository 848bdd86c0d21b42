/* What the program's thread does in the eyes of the kernel, and where in its code it stands: the
 * answer to "what is it stuck in?", got from within the process and so without privileges.
 *
 * Role       host_look() reads /proc/self/task/TID (state, system call) and the thread's processor
 *            clock. host_capture() asks the thread for its own stack: SIGURG, which nobody minds
 *            (it is ignored by default), runs a handler that writes the return addresses; a thread
 *            of its own turns them into names, because looking names up may wait for the very lock
 *            that the program is stuck with. If the program has a file SHOAL_STATUS.frames and its
 *            own handler for SIGURG that writes there and chains (the Python package does, by
 *            faulthandler), its frames come first.
 * Side effect A sleep or poll of the program that is interrupted may return early with EINTR, as
 *            with any signal. So it is done once per stall, and only for a thread that holds up its
 *            group. SHOAL_STACKS=0 turns it off.
 * Cannot be had: the stack of a stopped process or of a thread in uninterruptible sleep (no handler
 *            runs), of a program that handles SIGURG itself, kernel stacks without root. The text
 *            says which of these it was.
 * Threads    One program thread per process is looked at, the one that called host_watch().
 */
#ifndef SHOAL_WORKER_HOST_H
#define SHOAL_WORKER_HOST_H

#include "worker/core/recorder.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOST_TEXT_BYTES = 6144, HOST_CALL_BYTES = 48 };

struct host_view {
    enum record_host host;
    char state;                  /* as in /proc: R S D T ... */
    char call[HOST_CALL_BYTES];  /* system call it is in, "" none or not known */
    char wchan[HOST_CALL_BYTES]; /* kernel function it waits in, "" not told */
    int64_t cpu_us;              /* of the thread, ever */
};

/* The calling thread is the one to look at; installs the handler. Cheap when repeated. */
void host_watch(void);
/* False: nobody called host_watch(). */
bool host_look(struct host_view *ret_view);
/* The same for thread `tid` of process `pid`, for an agent; cpu_us from its tick counts. */
bool host_look_at(int64_t pid, int64_t tid, struct host_view *ret_view);

/* Begins a capture; false: one is under way, or it cannot be begun. */
bool host_capture(void);
/* True once, when a capture has ended: one frame a line, or a sentence that says why there is none.
 */
bool host_take_capture(char ret_text[HOST_TEXT_BYTES]);

#endif
