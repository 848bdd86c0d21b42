/* Headers of shards come from disks that may lie. */
#include "worker/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct safetensors file;
    if (safetensors_parse((const char *)bytes, count, count, &file, NULL)) safetensors_free(&file);
    return 0;
}
