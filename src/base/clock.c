#include "base/clock.h"
#include <stdio.h>
#include <time.h>

static int64_t read_us(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now); /* cannot fail for these clocks */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

int64_t clock_monotonic_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

void clock_format(int64_t wall_us, char text[25])
{
    int64_t whole = wall_us / 1000000, part_us = wall_us % 1000000;
    if (part_us < 0) { /* rounded down, also before 1970 */
        part_us += 1000000;
        whole--;
    }
    time_t seconds = (time_t)whole;
    struct tm parts;
    (void)gmtime_r(&seconds, &parts); /* any 64-bit microsecond count fits */
    char buffer[80];
    (void)snprintf(buffer, sizeof buffer, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                   parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                   parts.tm_min, parts.tm_sec, (int)(part_us / 1000));
    (void)snprintf(text, 25, "%.24s", buffer);
}
