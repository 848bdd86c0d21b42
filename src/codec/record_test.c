/* The journal record is a file format: its bytes are pinned, and nothing but its bytes decodes. */
#include "codec/record.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

/* Each byte of the record in turn is set in an otherwise empty record of the kind: it must either
 * be refused or come back as that very byte. Returns how many bytes the kind uses. */
static uint32_t bytes_used_by(uint32_t kind)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < RECORD_BYTES; i++) {
        if (i >= 16 && i < 24) continue; /* kind and version */
        struct pool_event event = {.kind = kind, .version = POOL_CORE_VERSION};
        uint8_t bytes[RECORD_BYTES], again[RECORD_BYTES];
        record_encode(&event, bytes);
        bytes[i] = 0xa5;
        if (record_decode(bytes, &event) != NULL) continue;
        record_encode(&event, again);
        assert_memory_equal(bytes, again, RECORD_BYTES);
        used++;
    }
    return used + 8;
}

static void every_byte_is_a_field_or_refused(void **state)
{
    (void)state;
    static const uint32_t expected[POOL_EVENT_KIND_END] = {
        [POOL_EVENT_TICK] = 24,
        [POOL_EVENT_RESTARTED] = 24,
        [POOL_EVENT_MODEL_DEFINED] = 24 + 24,
        [POOL_EVENT_POOL_DEFINED] = 24 + 32,
        [POOL_EVENT_OFFER_CHANGED] = 24 + 72,
        [POOL_EVENT_JOB_SUBMITTED] = 24 + 104,
        [POOL_EVENT_ACCOUNT_DEFINED] = 24 + 104,
        [POOL_EVENT_QUOTA_MODEL_DEFINED] = 24 + 16,
        [POOL_EVENT_JOB_CANCELLED] = 24 + 8,
        [POOL_EVENT_NODE_OBSERVED] = 24 + 40,
        [POOL_EVENT_AGENT_REPORTED] = 24 + 76,
        [POOL_EVENT_WORKER_REPORTED] = 24 + 40,
        [POOL_EVENT_CKPT_DURABLE] = 24 + 16,
        [POOL_EVENT_NODE_DRAIN_ASKED] = 24 + 8,
        [POOL_EVENT_WORKER_STALLED] = 24 + 56,
        [POOL_EVENT_TERMS_DEFINED] = 24 + 96,
        [POOL_EVENT_CLASS_DEFINED] = 24 + 24,
        [POOL_EVENT_OFFERS_PRICED] = 24 + 104,
        [POOL_EVENT_RATE_TOLD] = 24 + 24,
        [POOL_EVENT_MATCHING_DEFINED] = 24 + 16,
        [POOL_EVENT_GATE_DEFINED] = 24 + 56,
        [POOL_EVENT_LINKS_TOLD] = 24 + 104,
        [POOL_EVENT_BUYING_DEFINED] = 24 + 32,
        [POOL_EVENT_OFFERS_RANKED] = 24 + 104,
    };
    for (uint32_t kind = 1; kind < POOL_EVENT_KIND_END; kind++)
        assert_int_equal(bytes_used_by(kind), expected[kind]);
}

/* Fields have no padding between them in the struct, so a struct of random bytes is a good event.
 */
static void random_structs_come_back_equal(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (uint32_t round = 0; round < 2000; round++) {
        struct pool_event event = {.kind = 1 + round % (POOL_EVENT_KIND_END - 1),
                                   .version = POOL_CORE_VERSION};
        uint8_t bytes[RECORD_BYTES];
        event.seq = round;
        record_encode(&event, bytes);
        for (uint32_t i = 24; i < RECORD_BYTES; i++) {
            uint8_t before = bytes[i];
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[i] = (uint8_t)(random >> 56);
            struct pool_event trial;
            if (record_decode(bytes, &trial) != NULL) bytes[i] = before;
        }
        uint8_t summed[RECORD_SUMMED_BYTES];
        struct pool_event back, again;
        assert_null(record_decode(bytes, &back));
        record_encode_summed(&back, summed);
        assert_null(record_decode_summed(summed, &again));
        assert_memory_equal(&back, &again, sizeof back);
        assert_memory_equal(summed, bytes, RECORD_BYTES);
    }
}

static void layout_is_pinned(void **state)
{
    enum { V = POOL_CORE_VERSION };
    (void)state;
    const struct pool_event event = {
        .seq = 0x0102030405060708,
        .now_us = -2,
        .kind = POOL_EVENT_WORKER_REPORTED,
        .version = POOL_CORE_VERSION,
        .u.worker_reported = {.node_key = 0x1122,
                              .job_id = 3,
                              .worker_id = 4,
                              .step = 5,
                              .phase = WORKER_PHASE_FAILED,
                              .exit_code = -9},
    };
    static const uint8_t expected[] = {
        8,  7, 6, 5, 4, 3, 2, 1, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        10, 0, 0, 0, V, 0, 0, 0, 0x22, 0x11, 0,    0,    0,    0,    0,    0,
        3,  0, 0, 0, 0, 0, 0, 0, 4,    0,    0,    0,    0,    0,    0,    0,
        5,  0, 0, 0, 0, 0, 0, 0, 4,    0,    0,    0,    0xf7, 0xff, 0xff, 0xff,
    };
    uint8_t bytes[RECORD_BYTES];
    record_encode(&event, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
    for (size_t i = sizeof expected; i < RECORD_BYTES; i++) assert_int_equal(bytes[i], 0);
}

static void foreign_records_are_refused(void **state)
{
    (void)state;
    struct pool_event event = {.kind = POOL_EVENT_TICK, .version = POOL_CORE_VERSION}, back;
    uint8_t bytes[RECORD_SUMMED_BYTES];
    event.kind = POOL_EVENT_TICK;
    record_encode_summed(&event, bytes);
    for (uint32_t i = 0; i < RECORD_SUMMED_BYTES; i++) { /* any flipped bit spoils the sum */
        bytes[i] ^= 4;
        assert_non_null(record_decode_summed(bytes, &back));
        bytes[i] ^= 4;
    }
    bytes[20]++;
    assert_non_null(strstr(record_decode(bytes, &back), "version"));
    bytes[20]--;
    bytes[16] = POOL_EVENT_KIND_END;
    assert_non_null(strstr(record_decode(bytes, &back), "kind"));
    bytes[16] = 0;
    assert_non_null(strstr(record_decode(bytes, &back), "kind"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_a_field_or_refused),
        cmocka_unit_test(random_structs_come_back_equal),
        cmocka_unit_test(layout_is_pinned),
        cmocka_unit_test(foreign_records_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
