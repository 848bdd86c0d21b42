/* What parses must print and parse again. */
#include "base/mem.h"
#include "worker/ckpt/ckpt_manifest.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct ckpt_manifest manifest, again;
    char *text;
    size_t text_bytes;
    if (!ckpt_manifest_parse((const char *)bytes, count, &manifest, NULL)) return 0;
    if (ckpt_manifest_format(&manifest, &text, &text_bytes, NULL)) {
        if (!ckpt_manifest_parse(text, text_bytes, &again, NULL)) abort();
        ckpt_manifest_free(&again);
        mem_free(text);
    }
    ckpt_manifest_free(&manifest);
    return 0;
}
