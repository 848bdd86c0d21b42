/* Merges as a checkpoint may hold them, then text: what is accepted encodes any text and gives it
 * back. The first byte is the number of merges, of 4 bytes each; the rest is text. */
#include "core/assert.h"
#include "tokenizer.h"
#include <string.h>

enum { TEXT_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct tokenizer_merge merges[256];
    static uint16_t tokens[TEXT_MAX];
    if (count == 0) return 0;
    uint32_t merge_count = bytes[0];
    if ((count - 1) / 4 < merge_count) merge_count = (uint32_t)((count - 1) / 4);
    for (uint32_t i = 0; i < merge_count; i++) {
        const uint8_t *at = bytes + 1 + (size_t)4 * i;
        merges[i].left = (uint16_t)(at[0] | at[1] << 8);
        merges[i].right = (uint16_t)(at[2] | at[3] << 8);
    }
    struct tokenizer tokenizer;
    if (!tokenizer_of_merges(&tokenizer, merges, merge_count, NULL)) return 0;
    const uint8_t *text = bytes + 1 + (size_t)4 * merge_count;
    size_t left = count - 1 - (size_t)4 * merge_count;
    if (left > TEXT_MAX) left = TEXT_MAX;
    size_t token_count = tokenizer_encode(&tokenizer, text, left, tokens), at = 0;
    for (size_t i = 0; i < token_count; i++) {
        size_t piece;
        const uint8_t *decoded = tokenizer_decode(&tokenizer, tokens[i], &piece);
        ASSERT(piece > 0);
        ASSERT(at + piece <= left);
        ASSERT(memcmp(decoded, text + at, piece) == 0);
        at += piece;
    }
    ASSERT(at == left);
    tokenizer_free(&tokenizer);
    return 0;
}
