/* The state as bytes and as one number.
 *
 * One walk names every field once (walk.h); writing, reading and the digest are three ways to do it,
 * so they cannot disagree. The configuration belongs to the program. A checksum over all bytes comes
 * last and is verified before anything is believed. */
#include "core/ask.h"
#include "core/class.h"
#include "core/job.h"
#include "core/lease.h"
#include "core/node.h"
#include "core/offer.h"
#include "core/plan_match.h"
#include "core/plan_pack.h"
#include "core/prices.h"
#include "core/quota.h"
#include "core/state.h"
#include "core/victims.h"
#include "core/walk.h"

#define SNAPSHOT_MAGIC UINT64_C(0x32304c4f4f505353) /* "SSPOOL02" */

/* The walk writes only in WALK_READ; the other two take a const pool through here. */
static pool *unconst(const pool *p)
{
    return (pool *)(uintptr_t)p;
}

uint64_t pool_digest(const pool *p)
{
    struct walk w = {.mode = WALK_DIGEST, .hash = SNAPSHOT_MAGIC};
    walk_pool(&w, unconst(p));
    return w.hash;
}

static uint64_t checksum(const uint8_t *bytes, size_t count)
{
    uint64_t hash = SNAPSHOT_MAGIC ^ count;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) hash = table_hash(hash ^ walk_load(bytes + i, 8));
    return table_hash(hash ^ walk_load(bytes + i, (uint32_t)(count - i)));
}

size_t pool_snapshot_write(const pool *p, uint8_t *buffer, size_t buffer_bytes)
{
    struct walk w = {.mode = WALK_WRITE, .bytes = buffer, .capacity = buffer_bytes};
    uint64_t magic = SNAPSHOT_MAGIC;
    uint32_t version = POOL_CORE_VERSION;
    walk_u64(&w, &magic);
    walk_u32(&w, &version);
    walk_pool(&w, unconst(p));
    size_t needed = w.position + 8;
    if (needed <= buffer_bytes) walk_store(buffer + w.position, 8, checksum(buffer, w.position));
    return needed;
}

/* What was not walked. */
static void rebuild(pool *p)
{
    for (uint32_t i = 0; i < p->regions_end * p->config.limits.models_max; i++)
        victims_clear(&p->markets[i]);
    for (uint32_t i = 0; i < p->regions_end; i++) p->regions[i].racked = 0;
    for (uint32_t i = 0; i < p->offers_end; i++) {
        p->regions[p->offers[i].region_index].racked |= p->offers[i].rack != 0;
        prices_add(p, market_of(p, p->offers[i].region_index, p->offers[i].model), i);
        table_insert(&p->offer_table, p->offers[i].offer_id, i);
        heap_set(&p->timers, timer_of_offer(p, i), offer_due_us(&p->offers[i]));
    }
    uint64_t changes = p->supply_changes;
    for (uint32_t i = 0; i < p->regions_end; i++)
        if (p->regions[i].improved_mask != 0) region_improve(p, i, 0);
    p->supply_changes = changes;
    for (uint32_t i = 0; i < p->jobs_end; i++) {
        table_insert(&p->job_table, p->jobs[i].job_id, i);
        job_retime(p, i);
    }
    for (uint32_t i = 0; i < p->nodes_end; i++) {
        table_insert(&p->node_table, p->nodes[i].node_key, i);
        node_retime(p, i);
        p->nodes[i].victim_count = p->nodes[i].victims_listed = 0;
        if (node_is_usable(&p->nodes[i]) && p->nodes[i].offer != SLOT_NONE) class_node(p, i, true);
        victims_promised(p, i);
    }
    for (uint32_t i = 0; i < p->promises_end; i++) {
        const struct promise *promise = &p->promises[i];
        if (promise->device_count > 0 && p->nodes[promise->node].offer != SLOT_NONE)
            class_promise(p, promise->job, promise->node, promise->device_count, true);
    }
    quota_tick(p);
    quota_retime(p);
    quota_rebuild(p);
    plan_match_rebuild(p);
    for (uint32_t i = ACCOUNT_POOL + 1; i < p->accounts_end; i++)
        table_insert(&p->account_table, (uint64_t)p->accounts[i].parent << 32 | p->accounts[i].name,
                     i);
    for (uint32_t i = TERMS_NONE + 1; i < p->terms_end; i++)
        table_insert(&p->terms_table, p->terms[i].terms_id, i);
    for (uint32_t i = 0; i < p->leases_end; i++)
        if (p->leases[i].state != LEASE_FREE) {
            lease_retime(p, i);
            if (victims_counts(p, &p->leases[i])) victims_count(p, i, true);
            if (lease_holds(&p->leases[i]) && p->nodes[p->leases[i].node].offer != SLOT_NONE)
                class_hold(p, i, true);
        }
    const uint32_t heads[] = {p->shapes_idle.head, p->shapes_used.head, p->shapes_resting.head};
    for (uint32_t list = 0; list < 3; list++)
        for (uint32_t s = heads[list]; s != SLOT_NONE; s = p->shapes[s].shapes_link.next) {
            p->shapes[s].first_waiting = 0;
            p->shapes[s].fits_at = 0;
            table_insert(&p->shape_table, p->shapes[s].hash, s);
        }
    ask_rebuild(p);
    packing_rebuild(p);
}

static pool *empty(pool *p)
{
    struct pool_config config = p->config;
    return pool_init(p, pool_size(&config.limits), &config);
}

bool pool_snapshot_read(pool *p, const uint8_t *buffer, size_t buffer_bytes)
{
    if (buffer_bytes < 20) return false;
    size_t payload_bytes = buffer_bytes - 8;
    if (walk_load(buffer + payload_bytes, 8) != checksum(buffer, payload_bytes)) return false;
    struct walk w = {.mode = WALK_READ,
                     .bytes = (uint8_t *)(uintptr_t)buffer, /* only read in this mode */
                     .capacity = payload_bytes};
    uint64_t magic = 0;
    uint32_t version = 0;
    walk_u64(&w, &magic);
    walk_u32(&w, &version);
    if (magic != SNAPSHOT_MAGIC || version != POOL_CORE_VERSION) return false;
    p = empty(p);
    walk_pool(&w, p);
    if (w.bad || w.position != payload_bytes) {
        (void)empty(p);
        return false;
    }
    rebuild(p);
    return true;
}
