/* The only place that calls malloc, so that tests can make the n-th allocation fail.
 *
 * Every call may return NULL; callers turn that into an error sentence and undo what they had
 * begun. mem_free(NULL) is fine. mem_fail_at(n) makes the n-th call from now (1 = the next) fail,
 * once; 0 switches it off. jansson, SQLite and libmicrohttpd are pointed here too where they allow
 * it, so their failures are tested through the same switch. The countdown is atomic: calls may come
 * from any thread.
 */
#ifndef SHOAL_BASE_MEM_H
#define SHOAL_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t bytes);                /* not zeroed */
void *mem_zalloc(size_t count, size_t bytes); /* zeroed; overflow gives NULL */
void *mem_realloc(void *block, size_t bytes);
char *mem_strdup(const char *text);
char *mem_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
void mem_free(void *block);

void mem_fail_at(uint64_t nth);
uint64_t mem_calls(void);    /* allocations so far, to know how many there are to fail */
uint64_t mem_failures(void); /* allocations so far that failed */

/* mem_alloc() that never gives NULL, for libraries that do not survive it: jansson 2.14 overruns a
 * buffer when it cannot grow. A failure on request is only counted in mem_failures(), which the
 * caller of the library compares before and after; when memory is really gone the process says so
 * and aborts. */
void *mem_alloc_sure(size_t bytes);

#endif
