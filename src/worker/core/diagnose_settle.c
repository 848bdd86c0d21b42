/* When a verdict has stood long enough to be told. */
#include "worker/core/diagnose.h"

uint64_t diagnose_key(const struct diagnose_verdict *verdict)
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < verdict->culprit_count; i++) {
        const struct diagnose_culprit *culprit = &verdict->culprit[i];
        uint64_t word = (uint64_t)culprit->rank << 24 | (uint64_t)culprit->peer << 16 |
                        (uint64_t)culprit->kind << 8 | culprit->slow;
        key += (word + 1) * UINT64_C(0x9e3779b97f4a7c15); /* a sum: the order does not matter */
    }
    return key;
}

bool diagnose_settle(struct diagnose_memory *memory, const struct diagnose_verdict *verdict,
                     int64_t now_us)
{
    uint64_t key = diagnose_key(verdict);
    if (key != memory->candidate) {
        memory->candidate = key;
        memory->since_us = now_us;
    }
    int64_t settle_us = DIAGNOSE_SETTLE_US;
    for (uint32_t i = 0; i < verdict->culprit_count; i++)
        if (verdict->culprit[i].slow) settle_us = DIAGNOSE_SETTLE_SLOW_US;
    return key != 0 && now_us - memory->since_us >= settle_us;
}

const char *diagnose_kind_name(uint32_t kind)
{
    static const char names[DIAGNOSE_KIND_END][12] = {
        "nobody", "silent", "host", "data", "compute", "storage", "link", "network", "diverged"};
    return kind < DIAGNOSE_KIND_END ? names[kind] : names[DIAGNOSE_NOBODY];
}
