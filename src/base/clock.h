/* Time for the shells. The core never asks: it gets `now_us` inside each event. */
#ifndef SHOAL_BASE_CLOCK_H
#define SHOAL_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_wall_us(void);      /* microseconds since 1970, may jump */
int64_t clock_monotonic_us(void); /* never goes back; the base of every time-out */
/* "2026-11-29T20:14:02.123Z" into text[25]. */
void clock_format(int64_t wall_us, char text[25]);

#endif
