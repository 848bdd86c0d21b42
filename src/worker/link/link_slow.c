#include "worker/link/link_slow.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_US  INT64_C(1000000)
#define BURST_US INT64_C(60000) /* what leaves at once: whoever moves data looks every 50 ms */

static void look(struct link_slow *slow, uint64_t self)
{
    const char *path = getenv("SHOAL_EMULATE_LINKS");
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    uint64_t from, to, rate;
    slow->to = 0;
    if (file == NULL) return;
    while (fscanf(file, "%" SCNu64 " %" SCNu64 " %" SCNu64, &from, &to, &rate) == 3)
        if (from == self && rate > 0) slow->to = to, slow->bytes_per_s = rate;
    (void)fclose(file); /* read only */
}

bool link_slow_may_send(struct link_slow *slow, uint64_t self, uint64_t peer, int64_t now_us)
{
    if (now_us - slow->looked_us >= LOOK_US) {
        slow->looked_us = now_us;
        look(slow, self);
    }
    return slow->to == 0 || slow->to != peer || now_us + BURST_US >= slow->free_us;
}

void link_slow_sent(struct link_slow *slow, uint64_t peer, size_t bytes, int64_t now_us)
{
    if (slow->to == 0 || slow->to != peer) return;
    int64_t took_us = (int64_t)(bytes * 1000000 / slow->bytes_per_s);
    slow->free_us = (slow->free_us > now_us ? slow->free_us : now_us) + took_us;
}
