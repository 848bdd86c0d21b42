/* The claim: identical bits for any owner map and order, and errors within the bound of quant.h.
 * The model is __int128 arithmetic on the exact values (float32 * 2^-e are integers or halves that
 * long double holds), so a wrong rounding shows even where all splits agree with each other. */
#include "worker/core/quant.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

__extension__ typedef __float128 quad;
__extension__ typedef __int128 wide;

enum { TENSORS = 4, ELEMENTS = 1 + 700 + 256 + 300, SLOTS_MAX = 64, WORKERS_MAX = 16 };

struct world {
    struct layout layout;
    uint64_t start[32];
    uint32_t tensor_block[TENSORS + 1];
    int16_t scale[32];
    float slot[SLOTS_MAX][ELEMENTS];
    uint32_t slots;
};

struct accumulator {
    int64_t sum[ELEMENTS];
    uint32_t peak[32];
    uint8_t odd[32], special[ELEMENTS];
};

static uint64_t random_state;

static uint64_t random_next(void)
{
    uint64_t z = (random_state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t random_below(uint32_t end)
{
    return (uint32_t)(random_next() % end);
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float uniform(void)
{
    return (float)((double)(random_next() >> 11) * 0x1p-53 * 2 - 1);
}

enum kind { KIND_SAME, KIND_DECADES, KIND_ANY_BITS, KIND_DENORMAL, KIND_ZEROS, KIND_HUGE, KINDS };

static float draw(enum kind kind)
{
    switch (kind) {
    case KIND_SAME: return uniform();
    case KIND_DECADES: return uniform() * powf(10, (float)random_below(12) - 9);
    case KIND_ANY_BITS: return float_of((uint32_t)random_next());
    case KIND_DENORMAL: return float_of((uint32_t)random_next() & UINT32_C(0x807fffff));
    case KIND_ZEROS: return random_below(50) == 0 ? uniform() : 0;
    case KIND_HUGE: return uniform() * 3e38f;
    case KINDS: break;
    }
    return 0;
}

static void world_init(struct world *w, uint64_t seed, enum kind kind, uint32_t slots)
{
    random_state = seed;
    const uint64_t counts[TENSORS] = {1, 700, 256, 300};
    layout_init(&w->layout, counts, TENSORS, w->start, w->tensor_block);
    w->slots = slots;
    for (int b = 0; b < 32; b++) w->scale[b] = QUANT_SCALE_UNSET;
    for (uint32_t s = 0; s < slots; s++)
        for (int i = 0; i < ELEMENTS; i++) w->slot[s][i] = draw(kind);
}

static struct quant_sum sum_of(struct accumulator *a)
{
    return (struct quant_sum){a->sum, a->peak, a->odd, a->special};
}

/* Adds up over a random owner map in random order, as the members would. */
static void reduce(const struct world *w, uint32_t workers, struct accumulator *total)
{
    static struct accumulator part;
    uint32_t owner[SLOTS_MAX], order[SLOTS_MAX];
    for (uint32_t s = 0; s < w->slots; s++) owner[s] = random_below(workers), order[s] = s;
    for (uint32_t s = w->slots; s > 1; s--) {
        uint32_t other = random_below(s), kept = order[s - 1];
        order[s - 1] = order[other];
        order[other] = kept;
    }
    struct quant_sum into = sum_of(total);
    quant_clear(&into, w->layout.block_count, ELEMENTS);
    for (uint32_t k = 0; k < workers; k++) {
        struct quant_sum mine = sum_of(&part);
        bool first = true;
        for (uint32_t at = 0; at < w->slots; at++) {
            if (owner[order[at]] != k) continue;
            quant_add(&w->layout, w->scale, w->slot[order[at]], first, &mine);
            first = false;
        }
        if (first) continue;
        quant_add_words(total->sum, part.sum, ELEMENTS);
        for (uint32_t b = 0; b < w->layout.block_count; b++) {
            uint64_t start = w->layout.start[b];
            quant_merge_block(&total->peak[b], &total->odd[b], total->special + start, part.peak[b],
                              part.odd[b] ? part.special + start : NULL,
                              w->layout.start[b + 1] - start);
        }
    }
}

/* One step with redo. Returns the means and leaves next scales in w. */
static void step(struct world *w, uint32_t workers, float *mean)
{
    static struct accumulator total;
    int16_t used[32];
    for (int attempt = 0;; attempt++) {
        assert_true(attempt < 2); /* the redo always fits */
        memcpy(used, w->scale, sizeof used);
        reduce(w, workers, &total);
        if (quant_rescale(&w->layout, total.peak, w->scale)) break;
    }
    for (uint32_t b = 0; b < w->layout.block_count; b++) {
        uint64_t start = w->layout.start[b];
        quant_mean(total.sum + start, total.odd[b] ? total.special + start : NULL,
                   w->layout.start[b + 1] - start, used[b], w->slots, mean + start);
    }
}

/* Exact mean by the formula, evaluated independently: long double holds 64 bits, and the quotient
 * is rounded once by comparing neighbours. */
static void check_exact(const struct world *w, const int16_t *scale, const float *mean)
{
    for (uint32_t b = 0; b < w->layout.block_count; b++)
        for (uint64_t i = w->start[b]; i < w->start[b + 1]; i++) {
            wide sum = 0;
            bool nan = false, plus = false, minus = false;
            for (uint32_t s = 0; s < w->slots; s++) {
                float x = w->slot[s][i];
                if (isnan(x))
                    nan = true;
                else if (isinf(x))
                    *(x > 0 ? &plus : &minus) = true;
                else
                    sum += llrintl(ldexpl(x, -scale[b]));
            }
            if (nan || (plus && minus))
                assert_true(isnan(mean[i]));
            else if (plus || minus)
                assert_true(isinf(mean[i]) && (mean[i] > 0) == plus);
            else {
                /* |sum * 2^scale - V * mean| must be no larger than for both neighbours. */
                quad exact = (quad)sum, y = mean[i];
                exact = exact / w->slots;
                exact = exact * (quad)ldexpl(1, scale[b]);
                quad error = exact > y ? exact - y : y - exact;
                if (isinf(mean[i])) {
                    assert_true((exact < 0 ? -exact : exact) >= 3.4028235e38L);
                    continue;
                }
                float near[2] = {nextafterf(mean[i], INFINITY), nextafterf(mean[i], -INFINITY)};
                for (int k = 0; k < 2; k++) {
                    if (isinf(near[k])) continue;
                    quad other = exact - (quad)near[k];
                    if (other < 0) other = -other;
                    assert_true(error <= other);
                    if (error == other && sum != 0) assert_true((bits_of(mean[i]) & 1) == 0);
                }
                if (sum == 0) assert_int_equal(bits_of(mean[i]), 0);
            }
        }
}

static void same_bits_for_any_split_and_exact(void **state)
{
    (void)state;
    static struct world w, again;
    static float mean[ELEMENTS], other[ELEMENTS];
    for (uint64_t seed = 1; seed <= 60; seed++) {
        enum kind kind = (enum kind)(seed % KINDS);
        uint32_t slots = (uint32_t[]){1, 7, 32, 64, 50, 3}[seed / 6 % 6];
        world_init(&w, seed, kind, slots);
        again = w;
        step(&w, 1, mean);
        check_exact(&w, w.scale, mean); /* after a redo the scale used is the next scale */
        for (int split = 0; split < 4; split++) {
            struct world *copy = &again;
            memset(copy->scale, 0, sizeof copy->scale);
            for (int b = 0; b < 32; b++) copy->scale[b] = QUANT_SCALE_UNSET;
            step(copy, 1 + random_below(WORKERS_MAX), other);
            assert_memory_equal(mean, other, sizeof mean);
            assert_memory_equal(w.scale, copy->scale, sizeof w.scale);
        }
    }
}

static void error_is_within_the_bound(void **state)
{
    (void)state;
    static struct world w;
    static float mean[ELEMENTS];
    double worst_ours = 0, worst_tree = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world_init(&w, seed, seed % 2 ? KIND_SAME : KIND_DECADES, 64);
        step(&w, 3, mean);
        for (uint32_t b = 0; b < w.layout.block_count; b++) {
            double peak = 0;
            for (uint32_t s = 0; s < w.slots; s++)
                for (uint64_t i = w.start[b]; i < w.start[b + 1]; i++)
                    peak = fmax(peak, fabs((double)w.slot[s][i]));
            for (uint64_t i = w.start[b]; i < w.start[b + 1]; i++) {
                long double exact = 0;
                float tree[SLOTS_MAX];
                for (uint32_t s = 0; s < w.slots; s++) exact += tree[s] = w.slot[s][i];
                for (uint32_t n = w.slots; n > 1; n /= 2)
                    for (uint32_t s = 0; s < n / 2; s++) tree[s] = tree[2 * s] + tree[2 * s + 1];
                exact /= w.slots;
                double error = (double)fabsl(exact - (long double)mean[i]);
                double of_tree = (double)fabsl(exact - (long double)(tree[0] / (float)w.slots));
                assert_true(error <= peak * 0x1p-38 + fabs((double)mean[i]) * 0x1p-24);
                worst_ours = fmax(worst_ours, error / peak);
                worst_tree = fmax(worst_tree, of_tree / peak);
            }
        }
    }
    assert_true(worst_ours <= worst_tree);
}

/* Just above the middle between two float32 values: two roundings in a row would fall to even. */
static void rounds_once(void **state)
{
    (void)state;
    const int64_t above[2] = {(INT64_C(1) << 60) + (INT64_C(1) << 36) + 1,
                              -(INT64_C(1) << 60) - (INT64_C(1) << 36) - 1};
    float mean[2];
    quant_mean(above, NULL, 2, 0, 1, mean);
    assert_true(mean[0] == 0x1.000002p60f);
    assert_true(mean[1] == -0x1.000002p60f);
    const int64_t third = 3 * ((INT64_C(1) << 24) + 1) + 1; /* 2^24 + 1 and a third */
    quant_mean(&third, NULL, 1, 0, 3, mean);
    assert_true(mean[0] == 0x1.000002p24f);
}

static void window_edges(void **state)
{
    (void)state;
    assert_true(quant_fits(0, QUANT_SCALE_UNSET));
    assert_false(quant_fits(bits_of(1), QUANT_SCALE_UNSET));
    assert_true(quant_fits(bits_of(1), -QUANT_LOW_BITS));
    assert_false(quant_fits(bits_of(1), -QUANT_LOW_BITS + 1));
    assert_true(quant_fits(bits_of(1), -QUANT_HIGH_BITS + 1));
    assert_false(quant_fits(bits_of(1), -QUANT_HIGH_BITS));
    assert_true(quant_fits(1, -149 - QUANT_LOW_BITS));
}

static void zero_blocks_hold_or_borrow_their_scale(void **state)
{
    (void)state;
    const uint64_t counts[1] = {512};
    uint64_t start[3];
    uint32_t tensor_block[2];
    struct layout layout;
    layout_init(&layout, counts, 1, start, tensor_block);
    int16_t scale[2] = {QUANT_SCALE_UNSET, QUANT_SCALE_UNSET};
    uint32_t peak[2] = {bits_of(1), 0};
    assert_false(quant_rescale(&layout, peak, scale));
    assert_int_equal(scale[0], 1 - QUANT_AIM_BITS);
    assert_int_equal(scale[1], scale[0]);
    peak[0] = bits_of(1024);
    assert_true(quant_rescale(&layout, peak, scale));
    assert_int_equal(scale[0], 11 - QUANT_AIM_BITS);
    assert_int_equal(scale[1], 1 - QUANT_AIM_BITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_for_any_split_and_exact),
        cmocka_unit_test(error_is_within_the_bound),
        cmocka_unit_test(rounds_once),
        cmocka_unit_test(window_edges),
        cmocka_unit_test(zero_blocks_hold_or_borrow_their_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
