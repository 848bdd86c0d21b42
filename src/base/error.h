/* One way to say what went wrong, for every shell (server, agent, driver, worker, cli).
 *
 * A function that can fail returns bool or a pointer and takes `struct error *ret_error` last; on
 * failure it writes one sentence that says what, where, and what to do: job.yaml:7: unknown key
 * "devces" in needs; did you mean "devices"? Callers add context by prefixing (error_prefix), and
 * print it once, at the edge. ret_error may be NULL when nobody wants the sentence.
 */
#ifndef SHOAL_BASE_ERROR_H
#define SHOAL_BASE_ERROR_H

#include <stdbool.h>

#define WARN_UNUSED       __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

enum { ERROR_TEXT_BYTES = 512 };

struct error {
    char text[ERROR_TEXT_BYTES];
};

/* Writes the sentence (cut at ERROR_TEXT_BYTES - 1). Always returns false: `return error_set(e,
 * ...);`. */
bool error_set(struct error *ret_error, const char *format, ...) PRINTF_LIKE(2, 3);

/* "format: old text". Always returns false. */
bool error_prefix(struct error *ret_error, const char *format, ...) PRINTF_LIKE(2, 3);

/* The text of errno, thread safe; valid until the next call on this thread. */
const char *error_errno(int errno_value);

#endif
