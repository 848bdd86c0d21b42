#include "core/tree.h"
#include "core/assert.h"

static struct tree_link *at(struct tree_chain chain, uint32_t slot)
{
    return (struct tree_link *)(void *)((uint8_t *)chain.first + chain.stride * slot);
}

/* Two roots; the later becomes the first child of the earlier. */
static uint32_t merge(struct tree_chain chain, uint32_t a, uint32_t b)
{
    if (a == SLOT_NONE) return b;
    if (b == SLOT_NONE) return a;
    int64_t key_a = at(chain, a)->key, key_b = at(chain, b)->key;
    uint32_t first = key_a < key_b || (key_a == key_b && a < b) ? a : b;
    uint32_t later = first == a ? b : a;
    struct tree_link *parent = at(chain, first), *child = at(chain, later);
    child->next = parent->child;
    child->previous = first;
    if (parent->child != SLOT_NONE) at(chain, parent->child)->previous = later;
    parent->child = later;
    parent->next = parent->previous = SLOT_NONE;
    return first;
}

/* Siblings become one: in pairs from the left, then the pairs from the right. */
static uint32_t merge_all(struct tree_chain chain, uint32_t first)
{
    uint32_t pairs = SLOT_NONE, root = SLOT_NONE;
    while (first != SLOT_NONE) {
        uint32_t second = at(chain, first)->next;
        uint32_t rest = second == SLOT_NONE ? SLOT_NONE : at(chain, second)->next;
        uint32_t pair = merge(chain, first, second);
        at(chain, pair)->next = pairs;
        pairs = pair;
        first = rest;
    }
    while (pairs != SLOT_NONE) {
        uint32_t rest = at(chain, pairs)->next;
        root = merge(chain, root, pairs);
        pairs = rest;
    }
    if (root != SLOT_NONE) at(chain, root)->next = at(chain, root)->previous = SLOT_NONE;
    return root;
}

void tree_insert(uint32_t *root, struct tree_chain chain, uint32_t slot)
{
    struct tree_link *link = at(chain, slot);
    link->child = link->next = link->previous = SLOT_NONE;
    *root = merge(chain, *root, slot);
}

void tree_remove(uint32_t *root, struct tree_chain chain, uint32_t slot)
{
    struct tree_link *link = at(chain, slot);
    uint32_t children = merge_all(chain, link->child);
    if (slot == *root) {
        *root = children;
        return;
    }
    ASSERT(link->previous != SLOT_NONE);
    struct tree_link *previous = at(chain, link->previous);
    if (previous->child == slot)
        previous->child = link->next;
    else
        previous->next = link->next;
    if (link->next != SLOT_NONE) at(chain, link->next)->previous = link->previous;
    *root = merge(chain, *root, children);
}
