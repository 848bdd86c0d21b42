#include "base/log.h"
#include "base/clock.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void log_line(enum log_level level, const char *module, const char *message, const char *format,
              ...)
{
    static const char *const names[] = {"", "debug", "info", "warn", "error"};
    if (level == LOG_DEBUG) {
        const char *wanted = getenv("SHOAL_LOG");
        if (wanted == NULL || strcmp(wanted, "debug") != 0) return;
    }
    char time[25], fields[1024];
    clock_format(clock_wall_us(), time);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(fields, sizeof fields, format, args); /* a cut line is still a line */
    va_end(args);
    fprintf(stderr, "t=%s lvl=%s mod=%s msg=\"%s\"%s%s\n", time, names[level], module, message,
            fields[0] == '\0' ? "" : " ", fields);
}
