#include "codec/codec.h"
#include "base/mem.h"
#include <jansson.h>

void codec_init(void)
{
    json_set_alloc_funcs(mem_alloc_sure, mem_free);
}
