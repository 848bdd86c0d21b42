#include "worker/leave_signal.h"
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_int came; /* lock-free, so fit for a handler */

static void on_term(int number)
{
    (void)number;
    atomic_store(&came, 1);
}

static void on_notice(int number)
{
    (void)number; /* the agent also sends a line; the default would be death */
}

static bool take_if_default(int number, void (*handler)(int))
{
    struct sigaction old, action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    if (sigaction(number, NULL, &old) != 0) return false;
    if (old.sa_handler != SIG_DFL && old.sa_handler != handler) return false;
    return sigaction(number, &action, NULL) == 0;
}

bool leave_signal_catch(void)
{
    (void)take_if_default(SIGUSR1, on_notice); /* else the program handles it */
    return take_if_default(SIGTERM, on_term);
}

bool leave_signal_came(void)
{
    return atomic_load(&came) != 0;
}
