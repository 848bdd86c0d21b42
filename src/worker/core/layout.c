#include "worker/core/layout.h"
#include "core/assert.h"

static uint64_t blocks_of(uint64_t element_count)
{
    return element_count / LAYOUT_BLOCK_ELEMENTS + (element_count % LAYOUT_BLOCK_ELEMENTS != 0);
}

uint64_t layout_blocks(const uint64_t *element_counts, uint32_t tensor_count)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < tensor_count; i++) blocks += blocks_of(element_counts[i]);
    return blocks;
}

void layout_init(struct layout *layout, const uint64_t *element_counts, uint32_t tensor_count,
                 uint64_t *start, uint32_t *tensor_block)
{
    uint64_t element = 0;
    uint32_t block = 0;
    for (uint32_t i = 0; i < tensor_count; i++) {
        tensor_block[i] = block;
        for (uint64_t at = 0; at < element_counts[i]; at += LAYOUT_BLOCK_ELEMENTS)
            start[block++] = element + at;
        element += element_counts[i];
    }
    tensor_block[tensor_count] = block;
    start[block] = element;
    ASSERT(block == layout_blocks(element_counts, tensor_count));
    *layout = (struct layout){
        .element_count = element,
        .block_count = block,
        .tensor_count = tensor_count,
        .start = start,
        .tensor_block = tensor_block,
    };
}

uint32_t layout_part(const struct layout *layout, uint32_t index, uint32_t count)
{
    ASSERT(count > 0);
    ASSERT(index <= count);
    uint32_t least = layout->part_blocks_min > 0 ? layout->part_blocks_min : 1;
    uint32_t owners = layout->block_count / least;
    if (owners == 0) owners = 1;
    if (owners > count) owners = count;
    if (index >= owners) return layout->block_count;
    return (uint32_t)((uint64_t)layout->block_count * index / owners);
}
