#include "core/heap.h"
#include "core/assert.h"
#include "core/list.h"

enum { CHILDREN = 4 };

static bool goes_before(int64_t key_a, uint32_t a, int64_t key_b, uint32_t b)
{
    return key_a != key_b ? key_a < key_b : a < b;
}

static void put(struct heap *heap, uint32_t position, uint32_t id, int64_t key)
{
    heap->ids[position] = id;
    heap->keys[position] = key;
    heap->positions[id] = position;
}

static void sift_up(struct heap *heap, uint32_t position, uint32_t id, int64_t key)
{
    while (position > 0) {
        uint32_t parent = (position - 1) / CHILDREN;
        if (!goes_before(key, id, heap->keys[parent], heap->ids[parent])) break;
        put(heap, position, heap->ids[parent], heap->keys[parent]);
        position = parent;
    }
    put(heap, position, id, key);
}

static void sift_down(struct heap *heap, uint32_t position, uint32_t id, int64_t key)
{
    for (;;) {
        uint64_t first = CHILDREN * (uint64_t)position + 1, child = first;
        if (first >= heap->count) break;
        for (uint64_t c = first + 1; c < first + CHILDREN && c < heap->count; c++)
            if (goes_before(heap->keys[c], heap->ids[c], heap->keys[child], heap->ids[child]))
                child = c;
        if (!goes_before(heap->keys[child], heap->ids[child], key, id)) break;
        put(heap, position, heap->ids[child], heap->keys[child]);
        position = (uint32_t)child;
    }
    put(heap, position, id, key);
}

void heap_clear(struct heap *heap)
{
    for (uint32_t id = 0; id < heap->id_end; id++) heap->positions[id] = SLOT_NONE;
    heap->count = 0;
}

/* Where `position` was: up or down, wherever it belongs. */
static void sift(struct heap *heap, uint32_t position, uint32_t id, int64_t key)
{
    uint32_t parent = position == 0 ? 0 : (position - 1) / CHILDREN;
    if (position > 0 && goes_before(key, id, heap->keys[parent], heap->ids[parent]))
        sift_up(heap, position, id, key);
    else
        sift_down(heap, position, id, key);
}

static void take_out(struct heap *heap, uint32_t position)
{
    uint32_t last = heap->ids[heap->count - 1];
    int64_t key = heap->keys[heap->count - 1];
    heap->positions[heap->ids[position]] = SLOT_NONE;
    heap->count--;
    if (position != heap->count) sift(heap, position, last, key);
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
        sift_up(heap, heap->count++, id, key);
        return;
    }
    if (heap->keys[position] != key) sift(heap, position, id, key);
}

int64_t heap_key(const struct heap *heap, uint32_t id)
{
    ASSERT(id < heap->id_end);
    uint32_t position = heap->positions[id];
    return position == SLOT_NONE ? HEAP_KEY_NEVER : heap->keys[position];
}

int64_t heap_first_key(const struct heap *heap)
{
    return heap->count == 0 ? HEAP_KEY_NEVER : heap->keys[0];
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
        ASSERT(heap->keys[i] != HEAP_KEY_NEVER);
        uint32_t parent = i == 0 ? 0 : (i - 1) / CHILDREN;
        if (i > 0)
            ASSERT(
                !goes_before(heap->keys[i], heap->ids[i], heap->keys[parent], heap->ids[parent]));
    }
}
