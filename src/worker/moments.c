#include "worker/moments.h"
#include "base/mem.h"
#include "core/assert.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t bytes_of(const struct job *job)
{
    return job->layout.element_count * sizeof(float);
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

bool moments_reserve(struct job *job, struct error *ret_error)
{
    for (uint32_t i = 0; i < job->moment_count; i++) {
        void *array = mmap(NULL, bytes_of(job), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (array == MAP_FAILED)
            return error_set(ret_error,
                             "no address space for moment %s of %" PRIu64 " elements; raise the "
                             "limit (ulimit -v) or use fewer moments",
                             job->moment_name[i], job->layout.element_count);
        job->moment[i] = array;
    }
    return true;
}

void moments_free(struct job *job)
{
    for (uint32_t i = 0; i < job->moment_count; i++) {
        if (job->moment[i] != NULL) (void)munmap(job->moment[i], bytes_of(job)); /* ours: cannot */
        job->moment[i] = NULL;
    }
}

/* Whole pages within elements [first, end): those at the edges may be half needed. */
static void give_back(const struct job *job, uint64_t first, uint64_t end)
{
    size_t page = page_bytes(), bytes = bytes_of(job);
    size_t from = (first * sizeof(float) + page - 1) / page * page, to = end * sizeof(float);
    if (to < bytes) to = to / page * page; /* the last page is ours to its end */
    if (from >= to) return;
    for (uint32_t i = 0; i < job->moment_count; i++)
        (void)madvise((char *)job->moment[i] + from, to - from, MADV_DONTNEED); /* only a hint */
}

void moments_release(const struct job *job, struct member *m)
{
    if (!m->shards.release_due || m->saves.wanted || m->saves.copying > 0 || m->founding) return;
    m->shards.release_due = false;
    const struct layout *layout = &job->layout;
    for (uint32_t block = 0, end; block < layout->block_count; block = end) {
        bool needed = member_needs_block(m, block);
        for (end = block + 1; end < layout->block_count; end++)
            if (member_needs_block(m, end) != needed) break;
        if (!needed) give_back(job, layout->start[block], layout->start[end]);
    }
}

void moments_clear(const struct job *job)
{
    for (uint32_t i = 0; i < job->moment_count; i++)
        if (madvise(job->moment[i], bytes_of(job), MADV_DONTNEED) != 0)
            memset(job->moment[i], 0, bytes_of(job));
}

uint64_t moments_resident_bytes(const struct job *job)
{
    uint64_t pages = 0;
    size_t page = page_bytes(), count = (bytes_of(job) + page - 1) / page;
    unsigned char *in_core = mem_zalloc(count, 1);
    for (uint32_t i = 0; i < job->moment_count && in_core != NULL; i++) {
        if (mincore(job->moment[i], bytes_of(job), in_core) != 0) continue;
        for (size_t k = 0; k < count; k++) pages += in_core[k] & 1;
    }
    mem_free(in_core);
    return pages * page;
}

bool moments_memory(uint64_t *ret_bytes, struct error *ret_error)
{
    uint64_t mib = 0;
    if (!job_read_number("SHOAL_MEMORY_MIB", UINT64_C(1) << 40, &mib, ret_error)) return false;
    *ret_bytes = mib << 20;
    if (mib > 0) return true;
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    uint64_t kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) break;
    if (file != NULL) (void)fclose(file);                 /* only read */
    *ret_bytes = kib > 0 ? kib << 10 : UINT64_C(1) << 30; /* unknown: all such are alike */
    return true;
}

uint32_t moments_ranges_max(const struct job *job)
{
    return job->moment_count * (job->param_count + SHARD_UNITS_MAX);
}

/* Elements [first, end) of all params, cut at the tensors. */
static uint32_t add_ranges(const struct job *job, uint64_t first, uint64_t end,
                           struct ckpt_range *ret_range)
{
    uint32_t used = 0;
    uint64_t at = 0;
    for (uint32_t p = 0; p < job->param_count; p++) {
        uint64_t past = at + job->tensors[p].element_count;
        uint64_t from = first > at ? first : at, to = end < past ? end : past;
        for (uint32_t i = 0; i < job->moment_count && from < to; i++)
            ret_range[used++] = (struct ckpt_range){job->tensor_count + i * job->param_count + p,
                                                    from - at, to - from, job->moment[i] + from};
        at = past;
    }
    return used;
}

uint32_t moments_ranges(const struct job *job, const struct shard_map *map, uint32_t member,
                        struct ckpt_range *ret_range)
{
    uint32_t used = 0, blocks = job->layout.block_count;
    for (uint32_t u = 0, end; u < map->unit_count; u = end) {
        for (end = u + 1; end < map->unit_count && map->owner[end] == map->owner[u];) end++;
        if (map->owner[u] != member) continue;
        uint64_t first = job->layout.start[shard_first_block(map->unit_count, blocks, u)];
        uint64_t past = job->layout.start[shard_first_block(map->unit_count, blocks, end)];
        if (past > job->gradient_count) past = job->gradient_count; /* not the loss */
        if (first < past) used += add_ranges(job, first, past, ret_range + used);
    }
    ASSERT(used <= moments_ranges_max(job));
    return used;
}
