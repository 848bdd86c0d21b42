#include "base/pages.h"
#include "base/mem.h"
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

void *pages_map(size_t bytes)
{
    void *ticket = mem_alloc(1); /* fails when tests say so */
    if (ticket == NULL) return NULL;
    mem_free(ticket);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void pages_unmap(void *memory, size_t bytes)
{
    if (memory != NULL) (void)munmap(memory, bytes); /* fails only on misuse */
}

void pages_will_fill(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    enum { HUGE_BYTES = 2 << 20 };
    uintptr_t first = ((uintptr_t)memory + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
    uintptr_t end = ((uintptr_t)memory + bytes) / HUGE_BYTES * HUGE_BYTES;
    if (first < end) (void)madvise((void *)first, end - first, MADV_HUGEPAGE); /* only a hint */
#else
    (void)memory;
    (void)bytes;
#endif
}

void pages_copy_past_cache(void *ret_to, const void *bytes, size_t count)
{
    uint8_t *to = ret_to;
    const uint8_t *from = bytes;
#ifdef __SSE2__
    size_t head = (16 - (uintptr_t)to % 16) % 16;
    if (head > count) head = count;
    memcpy(to, from, head);
    to += head;
    from += head;
    count -= head;
    for (; count >= 64; count -= 64, to += 64, from += 64) {
        const __m128i *source = (const __m128i *)(const void *)from;
        __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
        __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
        __m128i *into = (__m128i *)(void *)to;
        _mm_stream_si128(into, a);
        _mm_stream_si128(into + 1, b);
        _mm_stream_si128(into + 2, c);
        _mm_stream_si128(into + 3, d);
    }
    _mm_sfence();
#endif
    memcpy(to, from, count);
}
