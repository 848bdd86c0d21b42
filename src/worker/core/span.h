/* A message as it lies in place: a header and spans into the arrays. exchange.h lays them out. */
#ifndef SHOAL_WORKER_CORE_SPAN_H
#define SHOAL_WORKER_CORE_SPAN_H
#include "worker/core/wire.h"

enum {
    EXCHANGE_HEADER_BYTES = 192,
    EXCHANGE_PAYLOAD_MAX = 384 * 1024,
    EXCHANGE_SPANS_MAX = 4,
    EXCHANGE_EXTRA_BYTES = 64 * 1024,
};

struct span {
    const void *bytes;
    size_t count;
};

struct exchange_message {
    struct wire_tag tag; /* of the turn it belongs to */
    uint32_t span_count;
    size_t payload_bytes;
    struct span span[EXCHANGE_SPANS_MAX];
    uint8_t header[EXCHANGE_HEADER_BYTES];
    _Alignas(16) uint8_t extra[EXCHANGE_EXTRA_BYTES]; /* what lies nowhere in one piece */
};
#endif
