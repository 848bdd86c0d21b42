/* Headers of shards come from disks that may lie: what parses is written again as it was. */
#include "base/mem.h"
#include "worker/ckpt/safetensors.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct safetensors file, again;
    char *header;
    size_t header_bytes;
    if (!safetensors_parse((const char *)bytes, count, count, &file, NULL)) return 0;
    if (safetensors_header(file.entry, file.count, file.meta, file.meta_count, 0, 64, &header,
                           &header_bytes, NULL)) {
        uint64_t data = count - file.data_offset;
        if (header_bytes % 64 != 0) abort();
        if (!safetensors_parse(header, header_bytes, header_bytes + data, &again, NULL)) abort();
        if (again.count != file.count || again.meta_count != file.meta_count) abort();
        for (uint32_t i = 0; i < file.count; i++)
            if (strcmp(again.entry[i].name, file.entry[i].name) != 0 ||
                again.entry[i].end != file.entry[i].end)
                abort();
        safetensors_free(&again);
        mem_free(header);
    }
    safetensors_free(&file);
    return 0;
}
