#include "core/money.h"
#include "core/assert.h"
#include "core/limits.h"

void money_meter_add(struct meter *meter, int64_t usd_micros_per_hour, int64_t duration_us)
{
    ASSERT(usd_micros_per_hour >= 0);
    ASSERT(usd_micros_per_hour <= PRICE_MAX);
    ASSERT(duration_us >= 0);
    ASSERT(meter->remainder < (uint64_t)HOUR_US);

    /* price * time / HOUR with both split at HOUR, so that no product leaves 64 bits:
     * the last one is below HOUR^2 = 1.296e19 < 2^64. */
    const uint64_t hour = (uint64_t)HOUR_US;
    uint64_t price = (uint64_t)usd_micros_per_hour, time = (uint64_t)duration_us;
    uint64_t whole = (time / hour) * price + (time % hour) * (price / hour);
    uint64_t rest = (time % hour) * (price % hour) + meter->remainder;
    meter->usd_micros = money_add(meter->usd_micros, (int64_t)(whole + rest / hour));
    meter->remainder = rest % hour;
}

struct meter money_meter_minus(struct meter a, struct meter b)
{
    ASSERT(a.remainder < (uint64_t)HOUR_US);
    ASSERT(b.remainder < (uint64_t)HOUR_US);
    struct meter result = {.usd_micros = a.usd_micros - b.usd_micros, .remainder = a.remainder};
    if (a.remainder < b.remainder) {
        result.usd_micros--;
        result.remainder += (uint64_t)HOUR_US;
    }
    result.remainder -= b.remainder;
    return result;
}

int64_t money_share_floor(int64_t amount, uint32_t part, uint32_t whole)
{
    ASSERT(amount >= 0);
    ASSERT(whole > 0);
    ASSERT(part <= whole);
    int64_t quotient = amount / whole;
    uint64_t rest = (uint64_t)(amount % whole);
    return quotient * part + (int64_t)(rest * part / whole);
}

int64_t money_share_ceil(int64_t amount, uint32_t part, uint32_t whole)
{
    ASSERT(part <= whole);
    return amount - money_share_floor(amount, whole - part, whole);
}

int64_t money_lasts_us(int64_t usd_micros, int64_t usd_micros_per_hour)
{
    ASSERT(usd_micros_per_hour >= 0);
    if (usd_micros <= 0) return 0;
    if (usd_micros_per_hour == 0) return INT64_MAX;
    int64_t hours = usd_micros / usd_micros_per_hour;
    if (hours >= TIME_US_MAX / HOUR_US) return INT64_MAX;
    /* The rest of an hour bit by bit: rest * HOUR may not fit 64 bits, long division does. */
    uint64_t rest = (uint64_t)(usd_micros % usd_micros_per_hour),
             rate = (uint64_t)usd_micros_per_hour;
    uint64_t quotient = 0, remainder = 0;
    for (int bit = 31; bit >= 0; bit--) {
        remainder = remainder * 2 + ((((uint64_t)HOUR_US) >> bit) & 1 ? rest : 0);
        quotient = quotient * 2 + remainder / rate;
        remainder %= rate;
    }
    return hours * HOUR_US + (int64_t)quotient + (remainder > 0);
}

int64_t money_add(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
    if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
    return a + b;
}
