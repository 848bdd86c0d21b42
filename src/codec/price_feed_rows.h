/* What the readers of price_feed.h share: rows in, each a point, a fault or passed over. */
#ifndef SHOAL_CODEC_PRICE_FEED_ROWS_H
#define SHOAL_CODEC_PRICE_FEED_ROWS_H

#include "codec/price_feed.h"

struct feed_row {
    uint32_t number;
    const char *zone, *instance, *time; /* NULL = not there */
    bool is_spot;
};

void feed_fault(struct price_feed *feed, uint32_t row, const char *format, ...) PRINTF_LIKE(3, 4);
/* A row with a price that was read, or a fault. Counts the row. */
void feed_add(struct price_feed *feed, const struct feed_row *row, int64_t usd_micros_per_hour);
void feed_pass(struct price_feed *feed); /* counts the row */

/* "0.9180": at most six places count, the seventh rounds. */
bool feed_price(const char *text, int64_t *ret_usd_micros);

bool feed_read_json(const char *text, size_t bytes, struct price_feed *feed,
                    struct error *ret_error) WARN_UNUSED;
bool feed_read_csv(const char *text, size_t bytes, struct price_feed *feed,
                   struct error *ret_error) WARN_UNUSED;

#endif
