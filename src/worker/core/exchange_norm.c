#include "core/assert.h"
#include "worker/core/exchange.h"
#include <string.h>

/* Largest power of two that divides `first` and fits before `end`. */
static uint32_t node_size(uint32_t first, uint32_t end)
{
    uint32_t size = first == 0 ? UINT32_C(1) << 31 : first & (0 - first);
    while (size > end - first) size /= 2;
    return size;
}

uint32_t exchange_norm_nodes(uint32_t first, uint32_t end)
{
    uint32_t nodes = 0;
    for (; first < end; first += node_size(first, end)) nodes++;
    ASSERT(nodes <= EXCHANGE_NODES_MAX);
    return nodes;
}

/* [first, first + size) pairwise; what lies at or behind `end` counts as 0. */
static double tree(const double *square, uint32_t first, uint32_t size, uint32_t end)
{
    if (first >= end) return 0;
    if (size == 1) return square[first];
    return tree(square, first, size / 2, end) + tree(square, first + size / 2, size / 2, end);
}

uint32_t exchange_norm_write(const double *square, uint32_t first, uint32_t end, double *ret_node)
{
    uint32_t nodes = 0, size;
    for (; first < end; first += size) {
        size = node_size(first, end);
        ret_node[nodes++] = tree(square, first, size, end);
    }
    return nodes;
}

void exchange_norm_read(double *square, uint32_t first, uint32_t end, const uint8_t *nodes)
{
    for (uint32_t size; first < end; first += size, nodes += sizeof *square) {
        size = node_size(first, end);
        memset(square + first, 0, size * sizeof *square);
        memcpy(square + first, nodes, sizeof *square);
    }
}

double exchange_norm_squared(const struct exchange *x)
{
    uint32_t size = 1;
    while (size < x->norm_end) size *= 2;
    return tree(x->square, 0, size, x->norm_end);
}
