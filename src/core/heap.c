#include "core/heap.h"
#include "core/assert.h"
#include "core/list.h"

static bool goes_before(const struct heap *heap, uint32_t a, uint32_t b)
{
    if (heap->keys[a] != heap->keys[b]) return heap->keys[a] < heap->keys[b];
    return a < b;
}

static void put(struct heap *heap, uint32_t position, uint32_t id)
{
    heap->ids[position] = id;
    heap->positions[id] = position;
}

static void sift_up(struct heap *heap, uint32_t position, uint32_t id)
{
    while (position > 0) {
        uint32_t parent = (position - 1) / 2;
        if (!goes_before(heap, id, heap->ids[parent])) break;
        put(heap, position, heap->ids[parent]);
        position = parent;
    }
    put(heap, position, id);
}

static void sift_down(struct heap *heap, uint32_t position, uint32_t id)
{
    for (;;) {
        uint64_t child = 2 * (uint64_t)position + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && goes_before(heap, heap->ids[child + 1], heap->ids[child]))
            child++;
        if (!goes_before(heap, heap->ids[child], id)) break;
        put(heap, position, heap->ids[child]);
        position = (uint32_t)child;
    }
    put(heap, position, id);
}

void heap_clear(struct heap *heap)
{
    for (uint32_t id = 0; id < heap->id_end; id++) heap->positions[id] = SLOT_NONE;
    heap->count = 0;
}

static void take_out(struct heap *heap, uint32_t position)
{
    uint32_t last = heap->ids[heap->count - 1];
    heap->positions[heap->ids[position]] = SLOT_NONE;
    heap->count--;
    if (position == heap->count) return;
    if (position > 0 && goes_before(heap, last, heap->ids[(position - 1) / 2]))
        sift_up(heap, position, last);
    else
        sift_down(heap, position, last);
}

void heap_set(struct heap *heap, uint32_t id, int64_t key)
{
    ASSERT(id < heap->id_end);
    uint32_t position = heap->positions[id];
    if (key == HEAP_KEY_NEVER) {
        if (position != SLOT_NONE) take_out(heap, position);
        return;
    }
    if (position == SLOT_NONE) {
        ASSERT(heap->count < heap->id_end);
        heap->keys[id] = key;
        sift_up(heap, heap->count++, id);
        return;
    }
    int64_t old = heap->keys[id];
    heap->keys[id] = key;
    if (key < old)
        sift_up(heap, position, id);
    else if (key > old)
        sift_down(heap, position, id);
}

int64_t heap_key(const struct heap *heap, uint32_t id)
{
    ASSERT(id < heap->id_end);
    return heap->positions[id] == SLOT_NONE ? HEAP_KEY_NEVER : heap->keys[id];
}

int64_t heap_first_key(const struct heap *heap)
{
    return heap->count == 0 ? HEAP_KEY_NEVER : heap->keys[heap->ids[0]];
}

uint32_t heap_first(const struct heap *heap)
{
    ASSERT(heap->count > 0);
    return heap->ids[0];
}

void heap_check(const struct heap *heap)
{
    ASSERT(heap->count <= heap->id_end);
    for (uint32_t i = 0; i < heap->count; i++) {
        ASSERT(heap->ids[i] < heap->id_end);
        ASSERT(heap->positions[heap->ids[i]] == i);
        ASSERT(heap->keys[heap->ids[i]] != HEAP_KEY_NEVER);
        if (i > 0) ASSERT(!goes_before(heap, heap->ids[i], heap->ids[(i - 1) / 2]));
    }
}
