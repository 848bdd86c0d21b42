/* Moments as people and files write them, in microseconds since 1970 (UTC).
 *
 * "2020-01-31" (its beginning), "2020-01-31T10:00", "2020-01-31 10:00:00.250Z",
 * "2020-01-31T10:00:00+02:00", or whole seconds since 1970, at most ten digits. Years 1970 to 2099; a
 * day that the calendar does not have is none.
 */
#ifndef SHOAL_CODEC_UTC_H
#define SHOAL_CODEC_UTC_H

#include <stdbool.h>
#include <stdint.h>

bool utc_parse(const char *text, int64_t *ret_us);

#endif
