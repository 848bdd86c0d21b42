#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool error_set(struct error *ret_error, const char *format, ...)
{
    if (ret_error == NULL) return false;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, format, args); /* cut is fine */
    va_end(args);
    return false;
}

bool error_prefix(struct error *ret_error, const char *format, ...)
{
    if (ret_error == NULL) return false;
    char old[ERROR_TEXT_BYTES];
    memcpy(old, ret_error->text, sizeof old);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(ret_error->text, sizeof ret_error->text, format, args);
    va_end(args);
    if (used < 0 || (size_t)used >= sizeof ret_error->text) return false;
    (void)snprintf(ret_error->text + used, sizeof ret_error->text - (size_t)used, ": %s", old);
    return false;
}

const char *error_errno(int errno_value)
{
    static _Thread_local char text[128];
    /* The GNU strerror_r returns the text, which may or may not be in our buffer. */
    const char *found = strerror_r(errno_value, text, sizeof text);
    if (found != text) (void)snprintf(text, sizeof text, "%s", found);
    return text;
}
