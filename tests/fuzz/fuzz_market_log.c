/* The end of a record of prices: any bytes. What is found is a place that a row of it has. */
#include "cli/market_log.h"
#include "core/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct market_place place, again;
    size_t cut, cut_again;
    bool is_whole = size > 0 && data[0] == 't';
    bool ok = market_log_tail((const char *)data, size, is_whole, &place, &cut);
    ASSERT(cut <= size);
    ASSERT(cut == size || data[size - cut - 1] == '\n');
    ASSERT((place.event == 0) == (place.rows == 0));
    if (!ok) return 0;
    /* Without what was cut off it is the same place. */
    ASSERT(market_log_tail((const char *)data, size - cut, is_whole, &again, &cut_again));
    ASSERT(cut_again == 0 && again.event == place.event && again.rows == place.rows);
    return 0;
}
