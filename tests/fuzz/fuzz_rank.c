/* A site's ranking: any text as an expression, whose value for any fields is a number; and any bytes as the
 * answer of a ranking program. The first byte says which.
 */
#include "codec/rank.h"
#include "codec/rank_answer.h"
#include "core/assert.h"
#include "core/limits.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_count(void *self, uint64_t offer_id, int64_t usd_micros_per_hour)
{
    (void)self;
    ASSERT(offer_id > 0);
    ASSERT(usd_micros_per_hour > 0);
    uint32_t factor = rank_factor_ppm(usd_micros_per_hour, 1000000);
    ASSERT(factor >= RANK_PPM_MIN);
    ASSERT(factor <= RANK_PPM_MAX);
}

static void evaluate(const char *text)
{
    static const int64_t samples[] = {0, 1, 1000000, -1, INT64_MAX, -INT64_MAX};
    struct rank_program program;
    struct error error;
    if (!rank_parse(text, &program, &error)) {
        ASSERT(strncmp(error.text, "column ", 7) == 0);
        return;
    }
    for (uint32_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        int64_t fields[RANK_FIELD_COUNT];
        for (uint32_t field = 0; field < RANK_FIELD_COUNT; field++)
            fields[field] = samples[(i + field) % (sizeof samples / sizeof samples[0])];
        int64_t value = rank_evaluate(&program, fields);
        ASSERT(value != INT64_MIN);
        (void)rank_factor_ppm(value, 1000000);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error;
    char text[RANK_TEXT_MAX + 8];
    if (size == 0) return 0;
    if (data[0] == '{') {
        bool good = rank_answer_read((const char *)data, size, 7, on_count, NULL, &error);
        ASSERT(good || error.text[0] != '\0');
        return 0;
    }
    size_t length = size < sizeof text ? size : sizeof text - 1;
    memcpy(text, data, length);
    text[length] = '\0';
    evaluate(text);
    return 0;
}
