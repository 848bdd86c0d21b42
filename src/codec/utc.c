#include "codec/utc.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define DAY_US INT64_C(86400000000)

/* Exactly `count` digits. */
static bool digits(const char **at, uint32_t count, int64_t *ret)
{
    *ret = 0;
    for (; count > 0; count--, (*at)++) {
        if (!isdigit((unsigned char)**at)) return false;
        *ret = *ret * 10 + (**at - '0');
    }
    return true;
}

static bool skip(const char **at, char c)
{
    if (**at != c) return false;
    (*at)++;
    return true;
}

/* Days since 1970 of the Gregorian calendar; years begin in March here, so that leap days end them. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    if (month <= 2) year--;
    int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return year * 365 + year / 4 - year / 100 + year / 400 + in_year - 719468;
}

static bool read_day(const char **at, int64_t *ret_us)
{
    static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year, month, day;
    if (!digits(at, 4, &year) || !skip(at, '-') || !digits(at, 2, &month) || !skip(at, '-') ||
        !digits(at, 2, &day))
        return false;
    if (year < 1970 || year >= 2100 || month < 1 || month > 12 || day < 1) return false;
    bool leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > lengths[month - 1] + leap) return false;
    *ret_us = days_of(year, month, day) * DAY_US;
    return true;
}

static bool read_clock(const char **at, int64_t *ret_us)
{
    int64_t hour, minute, second = 0, part, unit = 100000, micros = 0;
    if (!digits(at, 2, &hour) || !skip(at, ':') || !digits(at, 2, &minute)) return false;
    if (skip(at, ':') && !digits(at, 2, &second)) return false;
    if (hour > 23 || minute > 59 || second > 60) return false;
    if (skip(at, '.'))
        for (; digits(at, 1, &part); unit /= 10) micros += part * unit;
    *ret_us = ((hour * 60 + minute) * 60 + second) * 1000000 + micros;
    return true;
}

static bool read_offset(const char **at, int64_t *ret_us)
{
    int64_t hours, minutes = 0;
    *ret_us = 0;
    if (**at == '\0' || skip(at, 'Z')) return true;
    int64_t sign = **at == '-' ? -1 : 1;
    if (!skip(at, '+') && !skip(at, '-')) return false;
    if (!digits(at, 2, &hours)) return false;
    if ((skip(at, ':') || **at != '\0') && !digits(at, 2, &minutes)) return false;
    *ret_us = sign * (hours * 60 + minutes) * 60 * 1000000;
    return hours < 24 && minutes < 60;
}

static bool read_seconds(const char *text, int64_t *ret_us)
{
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length > 10 || text[length] != '\0') return false;
    *ret_us = strtoll(text, NULL, 10) * 1000000;
    return true;
}

bool utc_parse(const char *text, int64_t *ret_us)
{
    int64_t clock_us = 0, offset_us = 0;
    if (read_seconds(text, ret_us)) return true;
    if (!read_day(&text, ret_us)) return false;
    if (*text != '\0') {
        if (!skip(&text, 'T') && !skip(&text, ' ')) return false;
        if (!read_clock(&text, &clock_us) || !read_offset(&text, &offset_us) || *text != '\0')
            return false;
    }
    *ret_us += clock_us - offset_us;
    return *ret_us >= 0;
}
