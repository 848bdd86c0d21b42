/* A slow link on purpose, for tests of the diagnosis: the emulation says so in its name.
 *
 * SHOAL_EMULATE_LINKS names a file of lines "FROM TO BYTES_PER_S" (worker ids); whatever a worker
 * FROM sends to TO then keeps to that rate. The file is looked at once a second, absent is none.
 */
#ifndef SHOAL_WORKER_LINK_LINK_SLOW_H
#define SHOAL_WORKER_LINK_LINK_SLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_slow {
    int64_t looked_us, free_us; /* free: when the next message may leave */
    uint64_t to, bytes_per_s;   /* to 0: nothing is slowed down */
};

/* May a message leave for `peer` now? */
bool link_slow_may_send(struct link_slow *slow, uint64_t self, uint64_t peer, int64_t now_us);
void link_slow_sent(struct link_slow *slow, uint64_t peer, size_t bytes, int64_t now_us);

#endif
