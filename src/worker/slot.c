/* The gradient of one slot, as the program hands it in: whole, or piece by piece while it is still
 * computing (shoal_ready). */
#include "base/clock.h"
#include "core/assert.h"
#include "worker/engine.h"
#include <assert.h>
#include <string.h>
#include <time.h>

enum { SLOT_ADDED = UINT16_MAX };
static_assert((int)LAYOUT_BLOCK_ELEMENTS < (int)SLOT_ADDED,
              "a block's elements are counted below the mark");

void slot_start(struct shoal *shoal)
{
    memset(shoal->gradient, 0, shoal->job.layout.element_count * sizeof *shoal->gradient);
    memset(shoal->final_count, 0, shoal->job.layout.block_count * sizeof *shoal->final_count);
    shoal->slot_begun = shoal->slot_dropped = false;
    shoal->slot_started_us = clock_monotonic_us();
}

/* Emulated speed: sleeps for the rest of the slot's time, unless its result is void by then. */
static void pad_slot(struct shoal *shoal)
{
    int64_t end_us = shoal->slot_started_us + (int64_t)shoal->job.emulate_slot_us;
    engine_lock(shoal);
    while (!member_slot_is_void(shoal->member)) {
        int64_t left_us = end_us - clock_monotonic_us();
        if (left_us <= 0) break;
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until); /* the clock of the condition */
        int64_t at_ns = until.tv_nsec + left_us % 1000000 * 1000;
        until.tv_sec += left_us / 1000000 + at_ns / 1000000000;
        until.tv_nsec = at_ns % 1000000000;
        (void)pthread_cond_timedwait(&shoal->changed, &shoal->lock, &until); /* checked above */
    }
    (void)pthread_mutex_unlock(&shoal->lock);
}

/* Adds blocks [first, end) of the slot to own sums. */
static void add_blocks(struct shoal *shoal, uint32_t first, uint32_t end)
{
    struct member *m = shoal->member;
    bool is_first = false;
    uint32_t epoch = 0;
    if (first == end || shoal->slot_dropped) return;
    engine_lock(shoal);
    bool wanted = member_slot_begin(m, &is_first, &epoch);
    wanted = wanted && (!shoal->slot_begun || epoch == shoal->slot_epoch);
    (void)pthread_mutex_unlock(&shoal->lock);
    shoal->slot_begun = true;
    shoal->slot_epoch = epoch;
    shoal->slot_dropped = !wanted;
    if (!wanted) return;
    if (is_first) quant_clear(&m->exchange.own);
    quant_add(&m->exchange.own, shoal->scale, shoal->gradient, first, end);
    engine_lock(shoal);
    shoal->slot_dropped = !member_blocks_done(m, epoch, first, end);
    engine_unlock(shoal);
}

static uint32_t block_size(const struct shoal *shoal, uint32_t block)
{
    const uint64_t *start = &shoal->job.layout.start[block];
    return (uint32_t)(start[1] - start[0]);
}

/* Every run of blocks from `first` on that is whole and not added yet. */
static void add_whole_blocks(struct shoal *shoal, uint32_t first, uint32_t end)
{
    for (uint32_t run = first, b = first; b <= end; b++) {
        bool whole = b < end && shoal->final_count[b] == block_size(shoal, b);
        if (whole) continue;
        for (uint32_t i = run; i < b; i++) shoal->final_count[i] = SLOT_ADDED;
        add_blocks(shoal, run, b);
        run = b + 1;
    }
}

static uint32_t block_at(const struct layout *layout, uint64_t element)
{
    uint32_t low = 0, high = layout->block_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        *(layout->start[middle] <= element ? &low : &high) = middle;
    }
    return low;
}

void shoal_ready(struct shoal *shoal, uint64_t first, uint64_t count)
{
    const struct layout *layout = &shoal->job.layout;
    ASSERT(shoal->doing == MEMBER_WANT_COMPUTE);
    ASSERT(first <= shoal->job.gradient_count);
    ASSERT(count <= shoal->job.gradient_count - first);
    if (count == 0) return;
    uint32_t from = block_at(layout, first), end = block_at(layout, first + count - 1) + 1;
    for (uint32_t b = from; b < end; b++) {
        uint64_t low = layout->start[b] > first ? layout->start[b] : first;
        uint64_t high = layout->start[b + 1] < first + count ? layout->start[b + 1] : first + count;
        ASSERT(shoal->final_count[b] + (high - low) <= block_size(shoal, b)); /* each only once */
        shoal->final_count[b] = (uint16_t)(shoal->final_count[b] + (high - low));
    }
    add_whole_blocks(shoal, from, end);
}

void shoal_submit(struct shoal *shoal, float loss)
{
    uint32_t blocks = shoal->job.layout.block_count;
    ASSERT(shoal->doing == MEMBER_WANT_COMPUTE);
    shoal->gradient[shoal->job.gradient_count] = loss;
    for (uint32_t b = 0; b < blocks; b++)
        if (shoal->final_count[b] != SLOT_ADDED)
            shoal->final_count[b] = (uint16_t)block_size(shoal, b);
    if (shoal->job.emulate_slot_us > 0) pad_slot(shoal);
    add_whole_blocks(shoal, 0, blocks);
    uint64_t took_us = (uint64_t)(clock_monotonic_us() - shoal->slot_started_us);
    engine_lock(shoal);
    member_slot_done(shoal->member, !shoal->slot_dropped, shoal->slot_epoch, took_us);
    shoal->doing = MEMBER_WANT_WAIT;
    engine_unlock(shoal);
}
