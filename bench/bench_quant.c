/* What exactness costs where it happens: adding a slot's gradient to the own sums, and adding a part
 * that has arrived, each against the same pass over plain float32 values.
 *
 *     bench_quant [--quick]
 *
 * One thread, pairs in turn, medians of the pairs' ratios; sizes that fit the second-level cache and
 * that stream from memory. The last pass of a chunk's owner (add and make means) is measured against
 * plain add and scale.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/pages.h"
#include "median.h"
#include "worker/core/quant.h"
#include "worker/core/quant_isa.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_MAX = 101 };

struct bench {
    struct layout layout;
    struct quant_sum exact, plain, part;
    int16_t *scale;
    float *x, *mean;
};

static void *need(void *memory)
{
    if (memory != NULL) return memory;
    fprintf(stderr, "bench_quant: out of memory\n");
    exit(1);
}

static void set_up(struct bench *b, uint64_t elements)
{
    uint64_t blocks = layout_blocks(&elements, 1);
    uint64_t *start = need(mem_zalloc(blocks + 1, sizeof *start));
    uint32_t *tensor_block = need(mem_zalloc(2, sizeof *tensor_block));
    layout_init(&b->layout, &elements, 1, start, tensor_block);
    b->scale = need(mem_zalloc(blocks, sizeof *b->scale));
    b->x = need(mem_zalloc(elements, sizeof *b->x));
    b->mean = need(mem_zalloc(elements, sizeof *b->mean));
    struct quant_sum *sums[3] = {&b->exact, &b->plain, &b->part};
    for (int i = 0; i < 3; i++)
        quant_init(sums[i], &b->layout, 256, quant_isa_best(),
                   need(pages_map(quant_size(&b->layout))));
    b->plain.is_plain = true;
    for (uint64_t i = 0; i < elements; i++) b->x[i] = (float)((int64_t)(i * 7919 % 2003) - 1001);
    for (uint64_t k = 0; k < blocks; k++) b->scale[k] = 17; /* sums of 64 such fit, with room */
    quant_add(&b->exact, b->scale, b->x, 0, b->layout.block_count);
    quant_add(&b->plain, b->scale, b->x, 0, b->layout.block_count);
    quant_add(&b->part, b->scale, b->x, 0, b->layout.block_count);
}

static void tear_down(struct bench *b)
{
    pages_unmap(b->exact.word, quant_size(&b->layout));
    pages_unmap(b->plain.word, quant_size(&b->layout));
    pages_unmap(b->part.word, quant_size(&b->layout));
    mem_free(b->layout.start);
    mem_free(b->layout.tensor_block);
    mem_free(b->scale);
    mem_free(b->x);
    mem_free(b->mean);
}

static void local(struct bench *b, struct quant_sum *sum)
{
    quant_add(sum, b->scale, b->x, 0, b->layout.block_count);
}

static void hop(struct bench *b, struct quant_sum *sum)
{
    for (uint32_t k = 0; k < b->layout.block_count; k++) {
        struct quant_part ours = quant_part_of(sum, k), theirs = quant_part_of(&b->part, k);
        (void)quant_join(sum, k, b->scale[k], &ours, &theirs); /* the check is made, not compared */
    }
}

static void last_hop(struct bench *b, struct quant_sum *sum)
{
    for (uint32_t k = 0; k < b->layout.block_count; k++) {
        struct quant_part ours = quant_part_of(sum, k), theirs = quant_part_of(&b->part, k);
        (void)quant_finish(sum, k, b->scale[k], &ours, &theirs, b->mean + b->layout.start[k]);
    }
}

typedef void pass_fn(struct bench *b, struct quant_sum *sum);

/* Words back to small values, so that nothing overflows however long it runs. */
static void reset(struct bench *b)
{
    quant_clear(&b->exact);
    quant_clear(&b->plain);
    local(b, &b->exact);
    local(b, &b->plain);
}

static int64_t time_of(struct bench *b, pass_fn *pass, struct quant_sum *sum, uint32_t rounds)
{
    int64_t start_us = clock_monotonic_us();
    for (uint32_t i = 0; i < rounds; i++) pass(b, sum);
    return clock_monotonic_us() - start_us;
}

static void measure(const char *name, const char *size, pass_fn *pass, uint64_t elements,
                    uint32_t rounds, uint32_t pairs)
{
    struct bench b;
    double ratio[PAIRS_MAX], exact[PAIRS_MAX], plain[PAIRS_MAX];
    set_up(&b, elements);
    for (uint32_t i = 0; i <= pairs; i++) {
        double us[2];
        for (uint32_t k = 0; k < 2; k++) {
            reset(&b);
            bool is_exact = (i + k) % 2 == 0;
            int64_t took_us = time_of(&b, pass, is_exact ? &b.exact : &b.plain, rounds);
            us[is_exact] = (double)(took_us == 0 ? 1 : took_us);
        }
        if (i == 0) continue; /* to warm up */
        exact[i - 1] = us[1];
        plain[i - 1] = us[0];
        ratio[i - 1] = us[1] / us[0];
    }
    double gigabytes = (double)elements * 4 * rounds / 1e3;
    printf("{\"name\": \"%s.%s.vs_plain\", \"value\": %.2f, \"unit\": \"GB/s\", \"peer\": \"plain "
           "float32 pass\", \"peer_value\": %.2f, \"ratio\": %.3f, \"better\": \"higher\", "
           "\"runs\": %u}\n",
           name, size, gigabytes / median_of_doubles(exact, pairs),
           gigabytes / median_of_doubles(plain, pairs), 1 / median_of_doubles(ratio, pairs), pairs);
    fflush(stdout);
    tear_down(&b);
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    static const struct {
        const char *name;
        pass_fn *pass;
    } passes[] = {{"quant_local", local}, {"quant_hop", hop}, {"quant_last_hop", last_hop}};
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        measure(passes[i].name, "256KB", passes[i].pass, 1 << 16, 20, quick ? 15 : 101);
        measure(passes[i].name, "64MB", passes[i].pass, 1 << 24, 1, quick ? 5 : 21);
    }
    return 0;
}
