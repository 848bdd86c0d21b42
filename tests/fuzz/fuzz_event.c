/* Any 128 bytes: pool_event_check() answers, and what it accepts the core takes in any state.
 *
 * The input is a row of events. Sequence numbers are ours, times are the input's; everything else
 * is as it comes. After each step all invariants of a small pool are checked. */
#include "base/mem.h"
#include "core/pool.h"
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct pool_config config;
    static struct pool_output out;
    pool_config_default(&config);
    config.limits = (struct pool_limits){.nodes_max = 4,
                                         .jobs_max = 4,
                                         .offers_max = 4,
                                         .models_max = 4,
                                         .pools_max = 2,
                                         .leases_max = 6,
                                         .terms_max = 2};
    size_t size = pool_size(&config.limits);
    void *memory = mem_alloc(size);
    if (memory == NULL) return 0;
    pool *p = pool_init(memory, size, &config);
    uint64_t seq = 0;
    for (; count >= sizeof(struct pool_event); count -= sizeof(struct pool_event)) {
        struct pool_event event;
        memcpy(&event, bytes, sizeof event);
        bytes += sizeof event;
        event.seq = seq + 1;
        if (pool_event_check(&event) != NULL) continue;
        seq++;
        pool_step(p, &event, &out);
        pool_check(p);
    }
    mem_free(memory);
    return 0;
}
