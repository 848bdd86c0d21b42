/* A file of prices: any bytes. Every row is accounted for, and what is read is in order. */
#include "base/mem.h"
#include "codec/price_feed.h"
#include "core/assert.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct price_feed feed;
    struct error error;
    if (!price_feed_read((const char *)data, size, &feed, &error)) {
        ASSERT(error.text[0] != '\0');
        return 0;
    }
    ASSERT(feed.rows == feed.point_count + feed.passed + feed.repeats + feed.fault_count);
    for (uint32_t first = 0, end; first < feed.point_count; first = end) {
        end = price_feed_series_end(&feed, first);
        ASSERT(end > first);
        for (uint32_t i = first; i < end; i++) {
            ASSERT(feed.points[i].usd_micros_per_hour > 0);
            ASSERT(feed.points[i].at_us >= 0);
            ASSERT(i == first || feed.points[i].at_us > feed.points[i - 1].at_us);
        }
    }
    for (uint32_t i = 0; i < feed.fault_count && i < FEED_FAULTS_MAX; i++)
        ASSERT(feed.faults[i].text[0] != '\0');
    price_feed_close(&feed);
    return 0;
}
