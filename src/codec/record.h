/* Events as bytes: the journal record.
 *
 * Layout     128 bytes, little-endian, field by field in the order of struct pool_event, packed
 *            without padding; what a kind does not use is zero. It is a file format: frozen.
 * Sum        The summed form adds 8 bytes: XXH3-64 of the 128. For streams that may be torn.
 * Errors     Decoding refuses unknown kinds, other versions, nonzero unused bytes, and a wrong sum:
 *            the answer is a sentence, NULL means it worked. Ranges are pool_event_check()'s.
 * Equality   decode(encode(e)) == e for every e that is built from zero, and encode(decode(b)) == b
 *            for every b that decodes.
 */
#ifndef SHOAL_CODEC_RECORD_H
#define SHOAL_CODEC_RECORD_H

#include "core/event.h"
#include <stdint.h>

enum { RECORD_BYTES = POOL_EVENT_BYTES, RECORD_SUMMED_BYTES = POOL_EVENT_BYTES + 8 };

/* event->kind must be a known kind (it was checked before). */
void record_encode(const struct pool_event *event, uint8_t ret_bytes[RECORD_BYTES]);
uint32_t record_version(const uint8_t bytes[RECORD_BYTES]); /* of the core that wrote it */
const char *record_decode(const uint8_t bytes[RECORD_BYTES], struct pool_event *ret_event);

void record_encode_summed(const struct pool_event *event, uint8_t ret_bytes[RECORD_SUMMED_BYTES]);
const char *record_decode_summed(const uint8_t bytes[RECORD_SUMMED_BYTES],
                                 struct pool_event *ret_event);

#endif
