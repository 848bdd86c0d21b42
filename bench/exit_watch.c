#include "exit_watch.h"
#include "base/clock.h"
#include <poll.h>
#include <sched.h>

enum { BOUND_MS = 10000 };

static void *watch_ends(void *self)
{
    struct exit_watch *watch = self;
    struct pollfd polls[2] = {{.fd = watch->fd[0]}, {.fd = watch->fd[1]}};
    int64_t at_us[2] = {0, 0};
    while (at_us[0] == 0 || at_us[1] == 0) {
        if (poll(polls, 2, BOUND_MS) <= 0) return NULL; /* it does not die: times stay 0 */
        int64_t now_us = clock_wall_us();
        for (int i = 0; i < 2; i++) {
            if ((polls[i].revents & POLLHUP) == 0) continue;
            at_us[i] = now_us;
            polls[i].fd = -1;
        }
    }
    bool rising = at_us[0] < at_us[1]; /* which end goes first is the kernel's affair */
    watch->first_us = at_us[rising ? 0 : 1];
    watch->last_us = at_us[rising ? 1 : 0];
    return NULL;
}

bool exit_watch_begin(struct exit_watch *watch, const int fd[2])
{
    *watch = (struct exit_watch){.fd = {fd[0], fd[1]}};
    if (pthread_create(&watch->thread, NULL, watch_ends, watch) != 0) return false;
    const struct sched_param param = {.sched_priority = 1};
    watch->prompt = pthread_setschedparam(watch->thread, SCHED_FIFO, &param) == 0;
    return true;
}

void exit_watch_end(struct exit_watch *watch)
{
    (void)pthread_join(watch->thread, NULL);
}
