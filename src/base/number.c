#include "base/number.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool number_read(const char *text, uint64_t low, uint64_t high, uint64_t *ret_number)
{
    if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0') return false;
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    if (errno != 0 || number < low || number > high) return false;
    *ret_number = number;
    return true;
}

bool number_read_real(const char *text, double low, double high, double *ret_number)
{
    char *end;
    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0') return false;
    double number = strtod(text, &end);
    if (*end != '\0' || !(number >= low && number <= high)) return false;
    *ret_number = number;
    return true;
}
