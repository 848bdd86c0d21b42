/* The disk of the server: encoded records, of which a prefix is durable. */
#include "base/mem.h"
#include "codec/record.h"
#include "core/assert.h"
#include "sim/world.h"

bool sim_journal_append(struct sim_server *server, const struct pool_event *event)
{
    size_t needed = server->journal_bytes + RECORD_SUMMED_BYTES;
    if (needed > server->journal_capacity) {
        size_t capacity = needed * 2;
        uint8_t *grown = mem_realloc(server->journal, capacity);
        if (grown == NULL) return false;
        server->journal = grown;
        server->journal_capacity = capacity;
    }
    record_encode_summed(event, server->journal + server->journal_bytes);
    server->journal_bytes = needed;
    return true;
}

void sim_journal_tear(struct sim_server *server, struct sim_random *random, bool torn)
{
    ASSERT(server->journal_bytes >= server->journal_durable_bytes);
    int64_t tail = (int64_t)(server->journal_bytes - server->journal_durable_bytes);
    if (tail == 0 || !torn) return; /* by luck all of it reached the disk */
    int64_t kept = sim_random_range(random, 0, tail - 1);
    server->journal_bytes = server->journal_durable_bytes + (size_t)kept;
    if (kept > 0 && sim_random_chance(random, 500000)) /* and a page of it was never written */
        server->journal[server->journal_bytes - 1] ^= UINT8_C(0xa5);
}

bool sim_journal_read(const struct sim_server *server, size_t *offset, struct pool_event *ret_event)
{
    if (server->journal_bytes - *offset < RECORD_SUMMED_BYTES) return false;
    if (record_decode_summed(server->journal + *offset, ret_event) != NULL) return false;
    *offset += RECORD_SUMMED_BYTES;
    return true;
}
