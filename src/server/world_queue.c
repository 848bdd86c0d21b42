/* What is due when, in the order of time and planning; and what has been said and not yet heard. */
#include "server/world_parts.h"

static bool is_before(const struct due *a, const struct due *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap(struct due *a, struct due *b)
{
    struct due kept = *a;
    *a = *b;
    *b = kept;
}

void world_plan(world *w, int64_t at_us, uint32_t kind, uint64_t key, uint32_t stamp)
{
    struct due *last = array_push(&w->due);
    if (last == NULL) {
        w->failed = true;
        return;
    }
    *last =
        (struct due){.at_us = at_us, .order = w->order++, .key = key, .kind = kind, .stamp = stamp};
    struct due *heap = w->due.items;
    for (uint32_t at = w->due.count - 1; at > 0 && is_before(&heap[at], &heap[(at - 1) / 2]);
         at = (at - 1) / 2)
        swap(&heap[at], &heap[(at - 1) / 2]);
}

static bool pop(world *w, int64_t now_us, struct due *ret)
{
    struct due *heap = w->due.items;
    if (w->due.count == 0 || heap[0].at_us > now_us) return false;
    *ret = heap[0];
    heap[0] = heap[--w->due.count];
    for (uint32_t at = 0, least;; at = least) {
        least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < w->due.count; child++)
            if (is_before(&heap[child], &heap[least])) least = child;
        if (least == at) return true;
        swap(&heap[at], &heap[least]);
    }
}

struct pool_event *world_say(world *w, uint32_t kind, int64_t now_us)
{
    struct pool_event *event = array_push(&w->ready);
    if (event == NULL) {
        w->failed = true;
        return NULL;
    }
    event->kind = kind;
    event->now_us = now_us;
    return event;
}

int64_t world_next_us(const world *w)
{
    if (w->ready_at < w->ready.count)
        return ((const struct pool_event *)array_at(&w->ready, w->ready_at))->now_us;
    return w->due.count == 0 ? INT64_MAX : ((const struct due *)w->due.items)->at_us;
}

bool world_next(world *w, int64_t now_us, struct pool_event *ret_event)
{
    struct due due;
    while (w->ready_at == w->ready.count) {
        array_clear(&w->ready);
        w->ready_at = 0;
        if (!pop(w, now_us, &due)) return false;
        if (due.kind <= DUE_NODE_GONE)
            world_node_due(w, &due);
        else
            world_work_due(w, &due);
    }
    *ret_event = *(const struct pool_event *)array_at(&w->ready, w->ready_at++);
    return true;
}
