/* Asserts that stay on in every build.
 *
 * Role       The core cannot print or abort by itself (it has no libc), so a failed assert calls
 *            pool_assert_failed(), which the program that links the core provides
 *            (src/base/assert.c).
 * Rule       For bugs only, never for outside input: decoders and pool_event_check() refuse that.
 */
#ifndef SHOAL_CORE_ASSERT_H
#define SHOAL_CORE_ASSERT_H

_Noreturn void pool_assert_failed(const char *file, int line, const char *expression);

#define ASSERT(expression)                                                                         \
    ((expression) ? (void)0 : pool_assert_failed(__FILE__, __LINE__, #expression))
#define UNREACHABLE() pool_assert_failed(__FILE__, __LINE__, "unreachable")

/* Documents that either value is fine here. */
#define MAYBE(expression) ((void)(expression))

#endif
