/* Stands in for `shoal agent` in tests of the emulated machines: starts two processes, one of which
 * leaves the session and the process group, and waits. SIGTERM ends it politely unless
 * FAKE_MACHINE_STUBBORN is set. It never outlives a minute, whatever the test does.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void run_child(int own_session)
{
    if (fork() != 0) return;
    if (own_session) (void)setsid(); /* fails never: a fresh child leads no group */
    (void)alarm(60);
    for (;;) (void)pause();
}

static void leave(int number)
{
    (void)number;
    _exit(0);
}

int main(void)
{
    (void)alarm(60);
    if (getenv("FAKE_MACHINE_STUBBORN") != NULL)
        (void)signal(SIGTERM, SIG_IGN);
    else
        (void)signal(SIGTERM, leave);
    run_child(0);
    run_child(1);
    for (;;) (void)pause();
}
