#include "reduce_rank.h"
#include "worker/core/exchange.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct reduce_rank {
    uint32_t me, ranks;
    struct flow *flow;
    enum reduce_form form;
    struct plain plain;
    struct layout layout;
    struct exchange x;
    int16_t *scale;
    float *gradient;
    uint64_t turn;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_reduce: %s\n", what);
    _exit(1);
}

/* Untouched pages cost nothing, so everything is made for the largest size. */
static void *pages(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) die("out of memory");
    return memory;
}

static bool next(void *self, uint64_t peer, struct exchange_message *ret_message)
{
    struct reduce_rank *rank = self;
    uint32_t to = (uint32_t)peer - 1;
    return rank->form == REDUCE_PLAIN ? plain_next(&rank->plain, to, ret_message)
                                      : exchange_next(&rank->x, to, ret_message);
}

static bool take(void *self, uint64_t peer, const struct link_message *message)
{
    struct reduce_rank *rank = self;
    uint32_t from = (uint32_t)peer - 1;
    return rank->form == REDUCE_PLAIN ? plain_take(&rank->plain, from, message)
                                      : exchange_take(&rank->x, from, message->header,
                                                      message->payload, message->payload_bytes);
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
    rank->plain.ranks = rank->x.slot_count = ranks;
    rank->plain.me = me;
    rank->plain.own = rank->gradient;
    rank->plain.sum = rank->x.mean = pages(bytes_max);
    rank->plain.heard = pages((uint64_t)ranks * PLAIN_SMALL_BYTES);
    rank->layout.start = pages((blocks + 1) * sizeof(uint64_t));
    rank->layout.tensor_block = pages(2 * sizeof(uint32_t));
    rank->scale = pages(blocks * sizeof *rank->scale);
    rank->x.layout = &rank->layout;
    rank->x.scale = rank->scale;
    rank->x.peak = pages(blocks * 4);
    rank->x.own =
        (struct quant_sum){pages(elements * 8), pages(blocks * 4), pages(blocks), pages(elements)};
    rank->x.sum =
        (struct quant_sum){pages(elements * 8), pages(blocks * 4), pages(blocks), pages(elements)};
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
    rank->form = form;
    rank->plain.count = elements;
    if (form == REDUCE_PLAIN) return;
    layout_init(&rank->layout, &elements, 1, rank->layout.start, rank->layout.tensor_block);
    rank->layout.part_blocks_min = LAYOUT_PART_BLOCKS_MIN;
    for (uint64_t b = 0; b < rank->layout.block_count; b++) rank->scale[b] = -38;
    quant_add(&rank->layout, rank->scale, rank->gradient, true, &rank->x.own);
}

void reduce_begin(struct reduce_rank *rank)
{
    struct wire_tag tag = {++rank->turn, 1};
    struct slot_set slots = {0};
    if (rank->form == REDUCE_PLAIN) {
        plain_begin(&rank->plain);
        return;
    }
    slot_set_add(&slots, rank->me);
    exchange_begin(&rank->x, &tag, rank->ranks, rank->me);
    exchange_ready(&rank->x, &slots);
}

static bool is_done(const struct reduce_rank *rank)
{
    return rank->form == REDUCE_PLAIN ? plain_is_done(&rank->plain) : exchange_is_done(&rank->x);
}

void reduce_run(struct reduce_rank *rank)
{
    for (;;) {
        if (flow_step(rank->flow)) continue;
        /* What others still need of it was taken too, once a step moves nothing. */
        if (is_done(rank) && flow_is_idle(rank->flow)) return;
        if (flow_has_lost(rank->flow)) die("a link was lost");
        flow_wait(rank->flow, 1000);
    }
}

void reduce_check(const struct reduce_rank *rank)
{
    uint64_t count = rank->plain.count;
    for (uint64_t i = 0; i < count; i += count < 100000 ? 1 : 1009) {
        float sum = 0;
        for (uint32_t k = 0; k < rank->ranks; k++) sum += (float)(i % 97 + k) * 0.0625f;
        if (rank->form == REDUCE_EXACT) sum /= (float)rank->ranks;
        if (rank->plain.sum[i] != sum) die("wrong sum"); /* these are exact in either form */
    }
}
