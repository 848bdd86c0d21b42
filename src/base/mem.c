#include "base/mem.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_BYTES (UINT64_C(64) << 20)
#define LARGE_PAGE  (UINT64_C(2) << 20)

static _Atomic uint64_t calls;
static _Atomic uint64_t failures;
static _Atomic uint64_t fail_at; /* value of `calls` whose call fails; 0: never */

static int must_fail(void)
{
    uint64_t call = atomic_fetch_add(&calls, 1) + 1;
    return call == atomic_load(&fail_at);
}

static void *counted(void *block)
{
    if (block == NULL) atomic_fetch_add(&failures, 1);
    return block;
}

void mem_fail_at(uint64_t nth)
{
    atomic_store(&fail_at, nth == 0 ? 0 : atomic_load(&calls) + nth);
}

uint64_t mem_calls(void)
{
    return atomic_load(&calls);
}

uint64_t mem_failures(void)
{
    return atomic_load(&failures);
}

void *mem_alloc(size_t bytes)
{
    return counted(must_fail() ? NULL : malloc(bytes == 0 ? 1 : bytes));
}

void *mem_alloc_sure(size_t bytes)
{
    void *block = mem_alloc(bytes);
    if (block == NULL) block = malloc(bytes == 0 ? 1 : bytes);
    if (block != NULL) return block;
    fprintf(stderr, "out of memory for %zu bytes; give the process more and start it again\n",
            bytes);
    abort();
}

/* Tables of millions read at random miss the processor's map of 4 KiB pages at every turn. A hint: where
 * it is not taken nothing changes. Smaller blocks would only grow by what they do not use. */
static void prefer_large_pages(void *block, size_t bytes)
{
    uintptr_t first = ((uintptr_t)block + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    uintptr_t end = ((uintptr_t)block + bytes) / LARGE_PAGE * LARGE_PAGE;
    if (first < end) (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
}

void *mem_zalloc(size_t count, size_t bytes)
{
    size_t product = 0;
    bool fails = must_fail() || __builtin_mul_overflow(count, bytes, &product);
    void *block = counted(fails ? NULL : calloc(product == 0 ? 1 : product, 1));
    if (block != NULL && product >= LARGE_BYTES) prefer_large_pages(block, product);
    return block;
}

void *mem_realloc(void *block, size_t bytes)
{
    return counted(must_fail() ? NULL : realloc(block, bytes == 0 ? 1 : bytes));
}

char *mem_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = mem_alloc(bytes);
    return copy == NULL ? NULL : memcpy(copy, text, bytes);
}

char *mem_printf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) return NULL;
    char *text = mem_alloc((size_t)length + 1);
    if (text == NULL) return NULL;
    va_start(args, format);
    (void)vsnprintf(text, (size_t)length + 1, format, args); /* measured above */
    va_end(args);
    return text;
}

void mem_free(void *block)
{
    free(block);
}
