/* Log lines of the shells: logfmt, one line, to stderr. The core and the codec never log.
 *
 *     log_line(LOG_WARN, "driver", "node is gone", "node=%" PRIu64 " zone=%s", key, zone);
 *     t=2026-11-29T20:14:02.123Z lvl=warn mod=driver msg="node is gone" node=7 zone=aurora/east-a
 *
 * LOG_DEBUG lines appear only with SHOAL_LOG=debug. Secrets never go into a line.
 */
#ifndef SHOAL_BASE_LOG_H
#define SHOAL_BASE_LOG_H

enum log_level { LOG_DEBUG = 1, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_line(enum log_level level, const char *module, const char *message, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

#endif
