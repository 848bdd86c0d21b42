#include "base/log.h"
#include "base/clock.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What comes from outside must not begin a second line or command the terminal. */
static void remove_control(char *text)
{
    for (char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = ' ';
}

void log_line(enum log_level level, const char *module, const char *message, const char *format,
              ...)
{
    static const char *const names[] = {"", "debug", "info", "warn", "error"};
    if (level == LOG_DEBUG) {
        const char *wanted = getenv("SHOAL_LOG");
        if (wanted == NULL || strcmp(wanted, "debug") != 0) return;
    }
    char time[25], line[1400], fields[1024];
    clock_format(clock_wall_us(), time);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(fields, sizeof fields, format, args); /* a cut line is still a line */
    va_end(args);
    (void)snprintf(line, sizeof line, "t=%s lvl=%s mod=%s msg=\"%.256s\"%s%s", time, names[level],
                   module, message, fields[0] == '\0' ? "" : " ", fields);
    remove_control(line);
    fprintf(stderr, "%s\n", line);
}
