#include "core/terms.h"
#include "core/assert.h"
#include <string.h>

uint32_t terms_find(const pool *p, uint64_t terms_id)
{
    return terms_id == 0 ? TERMS_NONE : table_find(&p->terms_table, terms_id);
}

/* Of a row never used, else of the one that has been without a job for longest. */
static uint32_t make_room(pool *p)
{
    if (p->terms_end <= p->config.limits.terms_max) return p->terms_end++;
    uint32_t slot = p->terms_unused.head;
    if (slot == SLOT_NONE) return SLOT_NONE;
    list_remove(&p->terms_unused, CHAIN(p->terms, unused_link), slot);
    table_remove(&p->terms_table, p->terms[slot].terms_id);
    return slot;
}

void terms_define(pool *p, const struct pool_event *event, struct pool_output *out)
{
    const struct job_terms *terms = &event->u.terms_defined.terms;
    uint64_t terms_id = event->u.terms_defined.terms_id;
    uint32_t slot = terms_find(p, terms_id);
    if (slot != SLOT_NONE && memcmp(&p->terms[slot].job, terms, sizeof *terms) != 0 &&
        p->terms[slot].user_count >
            0) { /* other terms under an id in use: who has them keeps them */
        MARK(out, CATALOG_LIMIT);
        return;
    }
    if (slot != SLOT_NONE && p->terms[slot].user_count > 0) return;
    if (slot != SLOT_NONE)
        list_remove(&p->terms_unused, CHAIN(p->terms, unused_link), slot); /* youngest again */
    else {
        slot = make_room(p);
        if (slot == SLOT_NONE) {
            MARK(out, CATALOG_LIMIT);
            return;
        }
        table_insert(&p->terms_table, terms_id, slot);
    }
    p->terms[slot] = (struct terms){.terms_id = terms_id, .job = *terms};
    list_append(&p->terms_unused, CHAIN(p->terms, unused_link), slot);
}

void terms_use(pool *p, uint32_t slot)
{
    ASSERT(slot < p->terms_end);
    if (slot == TERMS_NONE) return;
    if (p->terms[slot].user_count++ == 0)
        list_remove(&p->terms_unused, CHAIN(p->terms, unused_link), slot);
}

void terms_leave(pool *p, uint32_t slot)
{
    if (slot == TERMS_NONE) return;
    ASSERT(p->terms[slot].user_count > 0);
    if (--p->terms[slot].user_count == 0)
        list_append(&p->terms_unused, CHAIN(p->terms, unused_link), slot);
}
