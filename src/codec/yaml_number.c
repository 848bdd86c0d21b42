/* Numbers and times from text, exactly: no floating point on the way. */
#include "codec/yaml.h"
#include <stddef.h>
#include <string.h>

static bool parse_digits(const char **at, uint64_t *value)
{
    const char *start = *at;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (__builtin_mul_overflow(*value, (uint64_t)10, value)) return false;
        if (__builtin_add_overflow(*value, (uint64_t)(**at - '0'), value)) return false;
    }
    return *at > start;
}

/* [-]digits[.digits] with at most `decimals` of them -> value * 10^decimals; *at moves behind it.
 */
static bool parse_decimal(const char **at, uint32_t decimals, int64_t *ret_value)
{
    bool negative = **at == '-';
    if (negative) (*at)++;
    uint64_t value = 0;
    if (!parse_digits(at, &value)) return false;
    if (decimals > 0 && **at == '.') {
        const char *point = (*at)++;
        if (!parse_digits(at, &value) || *at - point - 1 > (ptrdiff_t)decimals) return false;
        decimals -= (uint32_t)(*at - point - 1);
    }
    for (; decimals > 0; decimals--)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value)) return false;
    if (value > INT64_MAX) return false;
    *ret_value = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool yaml_parse_integer(const char *text, int64_t *ret_integer)
{
    int64_t value;
    if (!parse_decimal(&text, 0, &value) || *text != '\0') return false;
    *ret_integer = value;
    return true;
}

bool yaml_parse_micros(const char *text, int64_t *ret_micros)
{
    int64_t value;
    if (!parse_decimal(&text, 6, &value) || *text != '\0') return false;
    *ret_micros = value;
    return true;
}

bool yaml_parse_duration_us(const char *text, int64_t *ret_us)
{
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"us", 1},       {"ms", 1000},      {"s", 1000000},
                 {"m", 60000000}, {"h", 3600000000}, {"d", 86400000000}};
    int64_t micros, us;
    if (!parse_decimal(&text, 6, &micros)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text, units[i].name) != 0) continue;
        int64_t rest = micros % 1000000 * units[i].us; /* below 8.64e16 */
        if (rest % 1000000 != 0) return false;         /* finer than a microsecond */
        if (__builtin_mul_overflow(micros / 1000000, units[i].us, &us)) return false;
        if (__builtin_add_overflow(us, rest / 1000000, &us)) return false;
        *ret_us = us;
        return true;
    }
    return false;
}
