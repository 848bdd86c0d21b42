/* Any bytes as journal records. Holds that what decodes encodes to the very same bytes, and that
 * pool_event_check() copes with every event that decodes. */
#include "codec/record.h"
#include "core/assert.h"
#include "core/pool.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    for (; count >= RECORD_BYTES; bytes += RECORD_BYTES, count -= RECORD_BYTES) {
        struct pool_event event, again;
        uint8_t encoded[RECORD_SUMMED_BYTES];
        if (record_decode(bytes, &event) != NULL) continue;
        record_encode_summed(&event, encoded);
        ASSERT(memcmp(encoded, bytes, RECORD_BYTES) == 0);
        ASSERT(record_decode_summed(encoded, &again) == NULL);
        encoded[RECORD_BYTES - 1] ^= 1;
        ASSERT(record_decode_summed(encoded, &again) != NULL);
        (void)pool_event_check(&event); /* either answer is fine */
    }
    return 0;
}
