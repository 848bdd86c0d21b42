/* Set up of the codec's one dependency on the process: jansson allocates through base/mem.h.
 *
 * It gets mem_alloc_sure(): what jansson 2.14 does with NULL is not safe (base/mem.h).
 *
 * Call once at the start of main(), before any thread and any JSON. Texts that jansson returns
 * (json_dumps) are then freed by mem_free(). Everything else in src/codec has no state.
 */
#ifndef SHOAL_CODEC_CODEC_H
#define SHOAL_CODEC_CODEC_H

void codec_init(void);

#endif
