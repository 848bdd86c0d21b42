/* The file of a learned ranking: any bytes are a mistake that is said, or a network that ranks whatever it is
 * asked within its bounds, and is written and read back as it is.
 */
#include "codec/rank_net.h"
#include "core/assert.h"
#include "core/limits.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void rank(const struct rank_net *net)
{
    static const int64_t samples[] = {0, 1, 1000, 1000000, 250000000, UINT32_MAX};
    enum { COUNT = sizeof samples / sizeof samples[0] };
    for (uint32_t i = 0; i < COUNT; i++) {
        int64_t fields[RANK_FIELD_COUNT];
        struct rank_around around = {0};
        for (uint32_t field = 0; field < RANK_FIELD_COUNT; field++)
            fields[field] = samples[(i * (field + 1)) % COUNT];
        rank_around_add(&around, fields);
        uint32_t factor = rank_net_factor_ppm(net, fields, &around);
        ASSERT(factor <= RANK_PPM_MAX);
        ASSERT(factor <= RANK_OUTSIDE || factor >= RANK_PPM_MIN);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rank_net net, again;
    struct error error = {""};
    char text[RANK_NET_BYTES_MAX];
    if (!rank_net_parse("fuzz", (const char *)data, size, &net, &error)) {
        ASSERT(error.text[0] != '\0');
        return 0;
    }
    rank(&net);
    size_t bytes = rank_net_print(&net, text, sizeof text);
    if (!rank_net_parse("fuzz", text, bytes, &again, &error))
        return 0; /* its note cannot be written so */
    ASSERT(memcmp(net.weights, again.weights, sizeof net.weights) == 0);
    return 0;
}
