/* How the gradient of a job is cut into blocks: the unit that shares one scale.
 *
 * Role       Pure. The reduction, the owners' chunks and the checkpoints count in these blocks.
 * Shapes     The flat gradient is all tensors one after another, no padding. A block is up to
 *            LAYOUT_BLOCK_ELEMENTS consecutive elements of ONE tensor, so a tiny bias never shares
 *            a scale with a huge matrix; only the last block of a tensor may be shorter.
 * Ownership  The caller gives the arrays; layout_blocks() says how long they must be.
 */
#ifndef SHOAL_WORKER_CORE_LAYOUT_H
#define SHOAL_WORKER_CORE_LAYOUT_H

#include <stdint.h>

enum {
    LAYOUT_BLOCK_ELEMENTS = 256,
    LAYOUT_PART_BLOCKS_MIN = 16, /* what jobs set: a message costs as much as 16 KB of elements */
};

struct layout {
    uint64_t element_count;
    uint32_t block_count, tensor_count;
    uint32_t part_blocks_min; /* smaller parts are not made; 0: 1. Set after layout_init() */
    uint64_t *start; /* start[block_count + 1]: first element of each block, then the end */
    uint32_t
        *tensor_block; /* tensor_block[tensor_count + 1]: first block of each tensor, the end */
};

/* Blocks that tensors of these sizes need. Empty tensors need none. */
uint64_t layout_blocks(const uint64_t *element_counts, uint32_t tensor_count);

/* Fills both arrays, sized as above. */
void layout_init(struct layout *layout, const uint64_t *element_counts, uint32_t tensor_count,
                 uint64_t *start, uint32_t *tensor_block);

/* First block of part `index` of `count` near equal parts: how chunks are dealt to members. With
 * few blocks only the first parts have any: every chunk costs a message from and to each member. */
uint32_t layout_part(const struct layout *layout, uint32_t index, uint32_t count);

#endif
