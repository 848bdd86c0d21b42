/* One walk over the state, three ways to use it: the digest, writing a snapshot, reading one.
 *
 * Role       walk_pool() (walk.c) names every field of the state once; the mode says what happens to
 *            each. What follows from the rest is not walked: tables, timers, the memory layout, indexes.
 * Format     Little-endian, field by field, in the order of the walk.
 * Errors     WALK_READ: `bad` is set when the bytes end early or a number points nowhere, and reading
 *            goes on with harmless values; the caller discards the state then.
 */
#ifndef SHOAL_CORE_WALK_H
#define SHOAL_CORE_WALK_H

#include "core/state.h"

enum walk_mode { WALK_DIGEST, WALK_WRITE, WALK_READ };

struct walk {
    enum walk_mode mode;
    uint8_t *bytes; /* WALK_WRITE: may be too small; WALK_READ: not written to */
    size_t capacity, position;
    uint64_t hash;
    bool bad; /* WALK_READ: ends early, or a slot number points nowhere */
};

static inline uint64_t walk_load(const uint8_t *bytes, uint32_t count)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < count; i++) value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static inline void walk_store(uint8_t *bytes, uint32_t count, uint64_t value)
{
    for (uint32_t i = 0; i < count; i++) bytes[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t walk_value(struct walk *w, uint64_t value, uint32_t count)
{
    bool inside = w->position + count <= w->capacity;
    if (w->mode == WALK_DIGEST)
        w->hash = table_hash(w->hash ^ value) + count;
    else if (w->mode == WALK_WRITE && inside)
        walk_store(w->bytes + w->position, count, value);
    else if (w->mode == WALK_READ) {
        if (inside)
            value = walk_load(w->bytes + w->position, count);
        else {
            w->bad = true;
            value = 0;
        }
    }
    w->position += count;
    return value;
}

static inline void walk_u64(struct walk *w, uint64_t *value)
{
    *value = walk_value(w, *value, 8);
}

static inline void walk_i64(struct walk *w, int64_t *value)
{
    *value = (int64_t)walk_value(w, (uint64_t)*value, 8);
}

static inline void walk_u32(struct walk *w, uint32_t *value)
{
    *value = (uint32_t)walk_value(w, *value, 4);
}

/* A slot number, or none. */
static inline void walk_slot(struct walk *w, uint32_t *slot, uint32_t end)
{
    walk_u32(w, slot);
    if (w->mode == WALK_READ && *slot != SLOT_NONE && *slot >= end) {
        w->bad = true;
        *slot = SLOT_NONE;
    }
}

/* A count of slots in use, at most `max`. */
static inline void walk_end(struct walk *w, uint32_t *end, uint32_t max)
{
    walk_u32(w, end);
    if (w->mode == WALK_READ && *end > max) {
        w->bad = true;
        *end = 0;
    }
}

/* The number of a slot that is in use; 0 where nothing is. */
static inline void walk_index(struct walk *w, uint32_t *index, uint32_t end)
{
    walk_u32(w, index);
    if (w->mode == WALK_READ && *index >= end && *index != 0) {
        w->bad = true;
        *index = 0;
    }
}

static inline void walk_list(struct walk *w, struct list *list, uint32_t end)
{
    walk_slot(w, &list->head, end);
    walk_slot(w, &list->tail, end);
    walk_end(w, &list->count, end);
}

static inline void walk_link(struct walk *w, struct link *link, uint32_t end)
{
    walk_slot(w, &link->previous, end);
    walk_slot(w, &link->next, end);
}

static inline void walk_meter(struct walk *w, struct meter *meter)
{
    walk_i64(w, &meter->usd_micros);
    walk_u64(w, &meter->remainder);
    if (w->mode == WALK_READ && meter->remainder >= (uint64_t)HOUR_US) w->bad = true;
}

static inline void walk_u8(struct walk *w, uint8_t *value)
{
    *value = (uint8_t)walk_value(w, *value, 1);
}

/* walk_rules.c */
void walk_catalog(struct walk *w, pool *p);
void walk_quotas(struct walk *w, pool *p);
void walk_works(struct walk *w, pool *p);
void walk_matching(struct walk *w, pool *p);
void walk_watch(struct walk *w, pool *p);

/* Digest and write leave the state as it is. */
void walk_pool(struct walk *w, pool *p);

#endif
