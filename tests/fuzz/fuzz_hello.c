/* What strangers may send before they have proven anything: a hello, or a knock at the door. */
#include "worker/core/wire.h"
#include "worker/link/link_knock.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void read_hello(const uint8_t *bytes, size_t count)
{
    static uint8_t again[WIRE_PAYLOAD_MAX];
    struct wire_hello hello;
    if (!wire_get_hello(bytes, count, &hello)) return;
    if (hello.place.zone[WIRE_ZONE_BYTES - 1] != '\0' || hello.place.port > 65535) abort();
    /* What was read is written again, byte for byte. */
    if (wire_put_hello(again, &hello) != count || memcmp(again, bytes, count) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    uint8_t knock[DOOR_KNOCK_BYTES] = {0};
    struct knock_words words;
    if (count > WIRE_PAYLOAD_MAX) return 0;
    read_hello(bytes, count);
    memcpy(knock, bytes, count < sizeof knock ? count : sizeof knock);
    if (knock_read(knock, false, "token", &words) && words.stream >= words.streams) abort();
    return 0;
}
