#include "server/batch.h"
#include "base/mem.h"
#include <string.h>

void batch_init(struct batch *b)
{
    memset(b, 0, sizeof *b);
    array_init(&b->events, sizeof(struct pool_event));
    array_init(&b->names, sizeof(struct batch_name));
    array_init(&b->specs, sizeof(struct batch_spec));
    array_init(&b->jobs, sizeof(struct batch_job));
    array_init(&b->decisions, sizeof(struct batch_decision));
    array_init(&b->entries, sizeof(struct ledger_entry));
    array_init(&b->progress, sizeof(struct batch_progress));
    array_init(&b->logs, sizeof(struct batch_log));
    array_init(&b->bills, sizeof(struct batch_bill));
    array_init(&b->waiters, sizeof(struct batch_waiter));
}

static void free_texts(struct batch *b)
{
    for (uint32_t i = 0; i < b->specs.count; i++)
        mem_free(((struct batch_spec *)b->specs.items)[i].text);
    for (uint32_t i = 0; i < b->jobs.count; i++) {
        struct batch_job *job = array_at(&b->jobs, i);
        mem_free(job->name);
        mem_free(job->secret);
        mem_free(job->idempotency_key);
    }
    for (uint32_t i = 0; i < b->progress.count; i++)
        mem_free(((struct batch_progress *)b->progress.items)[i].workers);
    for (uint32_t i = 0; i < b->logs.count; i++)
        mem_free(((struct batch_log *)b->logs.items)[i].line);
    mem_free(b->snapshot);
}

static void each_list(struct batch *b, void (*visit)(struct array *))
{
    struct array *const lists[] = {&b->events,  &b->names,    &b->specs, &b->jobs,  &b->decisions,
                                   &b->entries, &b->progress, &b->logs,  &b->bills, &b->waiters};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) visit(lists[i]);
}

void batch_clear(struct batch *b)
{
    free_texts(b);
    each_list(b, array_clear);
    b->snapshot = NULL;
    b->snapshot_seq = b->snapshot_bytes = 0;
}

void batch_free(struct batch *b)
{
    free_texts(b);
    each_list(b, array_free);
    b->snapshot = NULL;
    b->snapshot_seq = b->snapshot_bytes = 0;
}

bool batch_is_empty(const struct batch *b)
{
    return b->events.count == 0 && b->names.count == 0 && b->specs.count == 0 &&
           b->jobs.count == 0 && b->decisions.count == 0 && b->entries.count == 0 &&
           b->progress.count == 0 && b->logs.count == 0 && b->bills.count == 0 &&
           b->waiters.count == 0 && b->snapshot_seq == 0;
}

static void put_in_front(struct array *to, const struct array *from)
{
    if (from->count == 0) return;
    char *items = to->items;
    memmove(items + from->count * to->item_bytes, items, to->count * to->item_bytes);
    memcpy(items, from->items, from->count * from->item_bytes);
    to->count += from->count;
}

bool batch_keep_outputs(struct batch *failed, struct batch *next)
{
    if (!array_reserve(&next->decisions, failed->decisions.count) ||
        !array_reserve(&next->entries, failed->entries.count))
        return false;
    put_in_front(&next->decisions, &failed->decisions);
    put_in_front(&next->entries, &failed->entries);
    array_clear(&failed->decisions);
    array_clear(&failed->entries);
    return true;
}
