/* Numbers as people read them: money, time, shares, sparklines.
 *
 * Role       Pure text; integers in, no locale. Each call writes into the caller's text[] of
 *            FORMAT_BYTES and returns it, so it can stand inside a printf. Units in the names, as
 *            everywhere.
 */
#ifndef SHOAL_CLI_FORMAT_H
#define SHOAL_CLI_FORMAT_H

#include <stddef.h>
#include <stdint.h>

enum { FORMAT_BYTES = 64, FORMAT_SPARK_MAX = 60 };

/* "$12.34"; decimals 0..6, rounded half away from zero; negative: "-$1.00". */
const char *format_usd(char text[FORMAT_BYTES], int64_t usd_micros, uint32_t decimals);
/* "0.4 s", "12 s", "3 min 05 s", "2 h 10 min", "3 d 4 h"; negative counts as 0. */
const char *format_duration(char text[FORMAT_BYTES], int64_t duration_us);
/* "63 %" of ppm; "63.4 %" with one decimal below 10 %. */
const char *format_share(char text[FORMAT_BYTES], int64_t share_ppm);
/* "1,234,567" */
const char *format_count(char text[FORMAT_BYTES], int64_t count);
/* "20:14:02" in local time; "-" for 0. */
const char *format_clock(char text[FORMAT_BYTES], int64_t wall_us);
/* "2023-02-15T10:00:00Z", with ".250000" before the Z where there is a fraction of a second. */
const char *format_utc(char text[FORMAT_BYTES], int64_t wall_us);
/* Eight-level bars, newest last; at most width of the newest values. Needs 3 bytes a bar + 1. */
const char *format_spark(char *text, size_t text_bytes, const int64_t *values, uint32_t count,
                         uint32_t width);

#endif
