#include "worker/pages.h"
#include "base/mem.h"
#include <sys/mman.h>

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
