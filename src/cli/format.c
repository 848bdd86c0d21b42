#include "cli/format.h"
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define SECOND_US INT64_C(1000000)

const char *format_usd(char text[FORMAT_BYTES], int64_t usd_micros, uint32_t decimals)
{
    static const uint64_t units[] = {1000000, 100000, 10000, 1000, 100, 10, 1};
    if (decimals > 6) decimals = 6;
    uint64_t size = usd_micros < 0 ? 0 - (uint64_t)usd_micros : (uint64_t)usd_micros;
    uint64_t unit = units[decimals], rounded = (size + unit / 2) / unit;
    uint64_t per_dollar = 1000000 / unit;
    const char *sign = usd_micros < 0 && rounded != 0 ? "-" : "";
    if (decimals == 0)
        (void)snprintf(text, FORMAT_BYTES, "%s$%" PRIu64, sign, rounded);
    else
        (void)snprintf(text, FORMAT_BYTES, "%s$%" PRIu64 ".%0*" PRIu64, sign, rounded / per_dollar,
                       (int)decimals, rounded % per_dollar);
    return text;
}

const char *format_duration(char text[FORMAT_BYTES], int64_t duration_us)
{
    if (duration_us < 0) duration_us = 0;
    int64_t tenths = (duration_us + SECOND_US / 20) / (SECOND_US / 10);
    int64_t seconds = (duration_us + SECOND_US / 2) / SECOND_US;
    if (tenths < 100)
        (void)snprintf(text, FORMAT_BYTES, "%" PRId64 ".%" PRId64 " s", tenths / 10, tenths % 10);
    else if (seconds < 60)
        (void)snprintf(text, FORMAT_BYTES, "%" PRId64 " s", seconds);
    else if (seconds < 3600)
        (void)snprintf(text, FORMAT_BYTES, "%" PRId64 " min %02" PRId64 " s", seconds / 60,
                       seconds % 60);
    else if (seconds < 86400)
        (void)snprintf(text, FORMAT_BYTES, "%" PRId64 " h %02" PRId64 " min", seconds / 3600,
                       seconds / 60 % 60);
    else
        (void)snprintf(text, FORMAT_BYTES, "%" PRId64 " d %" PRId64 " h", seconds / 86400,
                       seconds / 3600 % 24);
    return text;
}

const char *format_share(char text[FORMAT_BYTES], int64_t share_ppm)
{
    if (share_ppm >= 0 && share_ppm < 100000) {
        int64_t tenths = (share_ppm + 500) / 1000;
        (void)snprintf(text, FORMAT_BYTES, "%" PRId64 ".%" PRId64 " %%", tenths / 10, tenths % 10);
    } else {
        (void)snprintf(text, FORMAT_BYTES, "%" PRId64 " %%", (share_ppm + 5000) / 10000);
    }
    return text;
}

const char *format_count(char text[FORMAT_BYTES], int64_t count)
{
    char digits[FORMAT_BYTES];
    uint64_t size = count < 0 ? 0 - (uint64_t)count : (uint64_t)count;
    int length = snprintf(digits, sizeof digits, "%" PRIu64, size), used = 0;
    if (count < 0) text[used++] = '-';
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

const char *format_clock(char text[FORMAT_BYTES], int64_t wall_us)
{
    time_t seconds = (time_t)(wall_us / SECOND_US);
    struct tm parts;
    if (wall_us <= 0 || localtime_r(&seconds, &parts) == NULL)
        (void)snprintf(text, FORMAT_BYTES, "-");
    else
        (void)snprintf(text, FORMAT_BYTES, "%02d:%02d:%02d", parts.tm_hour, parts.tm_min,
                       parts.tm_sec);
    return text;
}

const char *format_utc(char text[FORMAT_BYTES], int64_t wall_us)
{
    time_t seconds = (time_t)(wall_us / SECOND_US);
    int64_t rest_us = wall_us % SECOND_US;
    struct tm parts;
    char fraction[16] = "";
    if (rest_us != 0) (void)snprintf(fraction, sizeof fraction, ".%06d", (int)rest_us);
    if (wall_us < 0 || gmtime_r(&seconds, &parts) == NULL)
        (void)snprintf(text, FORMAT_BYTES, "%" PRId64, wall_us);
    else
        (void)snprintf(text, FORMAT_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d%.7sZ",
                       parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                       parts.tm_min, parts.tm_sec, fraction);
    return text;
}

const char *format_spark(char *text, size_t text_bytes, const int64_t *values, uint32_t count,
                         uint32_t width)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    uint32_t first = count > width ? count - width : 0;
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (uint32_t i = first; i < count; i++) {
        if (values[i] < low) low = values[i];
        if (values[i] > high) high = values[i];
    }
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = first; i < count && used + 4 <= text_bytes; i++) {
        /* Unsigned keeps any pair of int64 apart; the second form is for ranges beyond 2^61. */
        uint64_t range = (uint64_t)high - (uint64_t)low;
        uint64_t above = (uint64_t)values[i] - (uint64_t)low;
        uint64_t level = range == 0               ? 3
                         : range < UINT64_MAX / 8 ? above * 8 / (range + 1)
                                                  : above / (range / 8 + 1);
        used += (size_t)snprintf(text + used, text_bytes - used, "%s", bars[level > 7 ? 7 : level]);
    }
    return text;
}
