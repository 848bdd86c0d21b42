/* Histories of prices as others tell them, read into one form.
 *
 * Role       Pure; bytes in. Knows `aws ec2 describe-spot-price-history` (an object with
 *            SpotPriceHistory), Azure retail prices (Items), Google's catalog of SKUs (skus), and
 *            CSV with a line of heads: a column of time (t_utc, timestamp, time or date), of zone
 *            (zone, zone_or_region, availability_zone or region), of type (instance_type or
 *            instance) and of price (usd_per_hour, spot_price or price). A column capacity or kind
 *            says spot (also where it is empty or missing), on_demand, owned or reserved (the last
 *            two are passed over). Other columns may be there.
 * Rows       Any order. A row that cannot be read is a fault: counted, and the first
 *            FEED_FAULTS_MAX are kept with their number (line of a CSV file, place in a JSON list,
 *            both from 1) and a sentence. A row about something else (Windows, Low Priority, a
 *            price by the month) is passed over and counted. What says again what was said is a
 *            repeat; a second price for the same time is a fault. rows = points + passed + repeats
 *            + fault_count.
 * Result     Points by zone, type, capacity, then time. Times are UTC, microseconds since 1970;
 *            a day without a time is its beginning. Prices in micro-dollars an hour, above 0 and
 *            at most $10,000.
 * Errors     false and one sentence when the whole is not to be read: no format of these, no JSON,
 *            a column missing, out of memory. Nothing is owned then.
 * Ownership  price_feed_close() gives the memory back.
 */
#ifndef SHOAL_CODEC_PRICE_FEED_H
#define SHOAL_CODEC_PRICE_FEED_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum {
    FEED_NAME_BYTES = 64,
    FEED_FAULTS_MAX = 16,
    FEED_ROWS_MAX = 1 << 22,
    FEED_FAULT_BYTES = 112
};

enum feed_format { FEED_AWS, FEED_AZURE, FEED_GCP, FEED_CSV };

struct feed_point {
    char zone[FEED_NAME_BYTES], instance[FEED_NAME_BYTES];
    int64_t at_us, usd_micros_per_hour;
    uint32_t is_spot, row;
};

struct feed_fault {
    uint32_t row;
    char text[FEED_FAULT_BYTES];
};

struct price_feed {
    enum feed_format format;
    uint32_t rows, point_count, passed, repeats, fault_count;
    uint32_t room; /* points there is memory for */
    bool out_of_memory;
    struct feed_point *points;
    struct feed_fault faults[FEED_FAULTS_MAX];
};

bool price_feed_read(const char *text, size_t bytes, struct price_feed *ret_feed,
                     struct error *ret_error) WARN_UNUSED;
void price_feed_close(struct price_feed *feed);
/* Points [first, result) are of one zone, type and capacity. */
uint32_t price_feed_series_end(const struct price_feed *feed, uint32_t first);
const char *feed_format_name(enum feed_format format);

#endif
