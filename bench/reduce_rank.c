#include "reduce_rank.h"
#include "base/pages.h"
#include "worker/core/exchange.h"
#include "worker/core/quant_isa.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct reduce_rank {
    uint32_t me, ranks;
    struct flow *flow;
    struct layout layout;
    struct exchange x;
    void *memory; /* of the exchange */
    size_t memory_bytes;
    int16_t *scale;
    float *gradient, *mean;
    uint64_t turn;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_reduce: %s\n", what);
    _exit(1);
}

/* Untouched pages cost nothing, so arrays are made for the largest size. */
static void *pages(size_t bytes)
{
    void *memory = pages_map(bytes);
    if (memory == NULL) die("out of memory");
    return memory;
}

static bool next(void *self, uint64_t peer, struct exchange_message *ret_message)
{
    struct reduce_rank *rank = self;
    return exchange_next(&rank->x, (uint32_t)peer - 1, ret_message);
}

static bool take(void *self, uint64_t peer, const struct link_message *message)
{
    struct reduce_rank *rank = self;
    return exchange_take(&rank->x, (uint32_t)peer - 1, message->header, message->payload,
                         message->payload_bytes);
}

struct reduce_rank *reduce_open(uint32_t me, uint32_t ranks, uint64_t bytes_max)
{
    struct reduce_rank *rank = calloc(1, sizeof *rank);
    struct flow_source source = {rank, next, take};
    struct error error;
    if (rank == NULL) die("out of memory");
    rank->me = me;
    rank->ranks = ranks;
    rank->flow = flow_open(&source, NULL, &error);
    if (rank->flow == NULL) die(error.text);
    flow_set_crowd(rank->flow, ranks);
    uint64_t elements = bytes_max / sizeof(float), blocks = elements / LAYOUT_BLOCK_ELEMENTS;
    rank->gradient = pages(bytes_max);
    rank->mean = pages(bytes_max);
    rank->scale = pages(blocks * sizeof *rank->scale);
    rank->layout.start = pages((blocks + 1) * sizeof(uint64_t));
    rank->layout.tensor_block = pages(2 * sizeof(uint32_t));
    for (uint64_t i = 0; i < elements; i++) rank->gradient[i] = (float)(i % 97 + me) * 0.0625f;
    return rank;
}

void reduce_link(struct reduce_rank *rank, uint32_t other, struct link *link)
{
    if (link == NULL || !flow_add(rank->flow, other + 1, link)) die("no memory for a link");
}

void reduce_set(struct reduce_rank *rank, enum reduce_form form, uint64_t bytes)
{
    uint64_t elements = bytes / sizeof(float);
    pages_unmap(rank->memory, rank->memory_bytes);
    layout_init(&rank->layout, &elements, 1, rank->layout.start, rank->layout.tensor_block);
    rank->layout.part_blocks_min = LAYOUT_PART_BLOCKS_MIN;
    for (uint64_t b = 0; b < rank->layout.block_count; b++) rank->scale[b] = 6; /* sums < 2^6 */
    rank->memory_bytes = exchange_size(&rank->layout);
    rank->memory = pages(rank->memory_bytes);
    struct exchange_setup setup = {.layout = &rank->layout,
                                   .scale = rank->scale,
                                   .mean = rank->mean,
                                   .slot_count = rank->ranks,
                                   .isa = quant_isa_best(),
                                   .is_plain = form == REDUCE_PLAIN,
                                   .memory = rank->memory};
    exchange_init(&rank->x, &setup);
    quant_add(&rank->x.own, rank->scale, rank->gradient, 0, rank->layout.block_count);
}

void reduce_begin(struct reduce_rank *rank)
{
    struct wire_tag tag = {++rank->turn, 1};
    struct slot_set slots = {0};
    slot_set_add(&slots, rank->me);
    exchange_begin(&rank->x, &tag, rank->ranks, rank->me);
    exchange_ready(&rank->x, &slots);
}

void reduce_run(struct reduce_rank *rank)
{
    for (;;) {
        /* A step that moves nothing has nothing left that others still need, if no link was full
         * before it (it may have room a moment later) and none refused a message in it. */
        bool was_idle = flow_is_idle(rank->flow);
        if (flow_step(rank->flow)) continue;
        if (was_idle && exchange_is_done(&rank->x) && flow_is_idle(rank->flow)) return;
        if (rank->x.broken || flow_has_lost(rank->flow)) die("the exchange broke");
        flow_wait(rank->flow, 1000);
    }
}

void reduce_check(const struct reduce_rank *rank)
{
    uint64_t count = rank->layout.element_count;
    for (uint64_t i = 0; i < count; i += count < 100000 ? 1 : 1009) {
        float sum = 0;
        for (uint32_t k = 0; k < rank->ranks; k++) sum += (float)(i % 97 + k) * 0.0625f;
        if (rank->mean[i] != sum / (float)rank->ranks) die("wrong mean"); /* exact in both forms */
    }
}
