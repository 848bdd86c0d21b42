/* The claim: identical bits for any owner map, order and tree of merges, on every vector unit, and
 * errors within the bound of quant.h. Two independent models: the formulas of quant.h evaluated in
 * 576-bit integers, so that a wrong rounding shows even where all splits agree with each other; and
 * the int64 design. */
#include "base/splitmix.h"
#include "worker/core/quant.h"
#include "worker/core/quant_int64.h"
#include "worker/core/quant_isa.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmocka.h>

enum {
    TENSORS = 4,
    ELEMENTS = 1 + 700 + 256 + 290,
    BLOCKS = 1 + 3 + 1 + 2,
    SLOTS_MAX = 256,
    WORKERS_MAX = 16
};

struct world {
    struct layout layout;
    uint64_t start[BLOCKS + 1];
    uint32_t tensor_block[TENSORS + 1];
    int16_t scale[BLOCKS];
    float slot[SLOTS_MAX][ELEMENTS];
    uint32_t slots;
};

static struct world w;
static enum quant_isa isa;

static uint64_t random_state;

static uint32_t random_below(uint32_t end)
{
    return (uint32_t)(splitmix_next(&random_state) % end);
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
    return (float)((double)(splitmix_next(&random_state) >> 11) * 0x1p-53 * 2 - 1);
}

/* A wide integer in units of 2^-208: limbs of 16 bits, not carried; slow and plain. */
enum { LIMBS = 36, BIG_LOWEST = -208 };
struct big {
    int64_t limb[LIMBS];
};

static void big_add(struct big *big, double value, int sign)
{
    int exponent;
    if (value == 0) return;
    int64_t mantissa = (int64_t)ldexp(frexp(value, &exponent), 53);
    int at = exponent - 53 - BIG_LOWEST;
    while (at < 0) {
        assert_int_equal(mantissa % 2, 0);
        mantissa /= 2;
        at++;
    }
    bool negative = (mantissa < 0) != (sign < 0);
    uint64_t size = (uint64_t)(mantissa < 0 ? -mantissa : mantissa);
    for (int limb = at / 16, shift = at % 16; size != 0; limb++, shift = 0) {
        int64_t part = (int64_t)((size << shift) & 0xffff);
        size >>= 16 - shift;
        big->limb[limb] += negative ? -part : part;
    }
}

/* Carried and without sign; returns the sign. */
static int big_size(struct big *big)
{
    int64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        int64_t sum = big->limb[i] + carry;
        big->limb[i] = sum & 0xffff;
        carry = (sum - big->limb[i]) / 65536;
    }
    if (carry >= 0) return 1;
    big->limb[LIMBS - 1] += carry * 65536;
    for (int i = 0; i < LIMBS; i++) big->limb[i] = -big->limb[i];
    (void)big_size(big);
    return -1;
}

static int big_compare(const struct big *a, const struct big *b)
{
    for (int i = LIMBS; i-- > 0;)
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

static double big_double(const struct big *size)
{
    double value = 0;
    for (int i = LIMBS; i-- > 0;) value = value + ldexp((double)size->limb[i], 16 * i + BIG_LOWEST);
    return value;
}

/* |total - y * V| */
static struct big distance(const struct big *total, float y)
{
    struct big away = *total;
    big_add(&away, (double)y * w.slots, -1);
    (void)big_size(&away);
    return away;
}

enum kind {
    KIND_SAME,
    KIND_DECADES,
    KIND_ANY_BITS,
    KIND_DENORMAL,
    KIND_ZEROS,
    KIND_HUGE,
    KIND_ONE_SIGN,
    KIND_OUTLIERS,
    KIND_PAIRS,
    KINDS
};

static float draw(enum kind kind, uint32_t slot, uint32_t i)
{
    switch (kind) {
    case KIND_SAME: return uniform();
    case KIND_DECADES: return uniform() * powf(10, (float)random_below(12) - 9);
    case KIND_ANY_BITS: return float_of((uint32_t)splitmix_next(&random_state));
    case KIND_DENORMAL:
        return float_of((uint32_t)splitmix_next(&random_state) & UINT32_C(0x807fffff));
    case KIND_ZEROS: return random_below(50) == 0 ? uniform() : 0;
    case KIND_HUGE: return uniform() * 3e38f;
    case KIND_ONE_SIGN: return fabsf(uniform()) + 0.5f;
    case KIND_OUTLIERS: return random_below(3000) == 0 ? 3e30f * uniform() : uniform();
    case KIND_PAIRS: return slot % 2 == 1 ? -w.slot[slot - 1][i] : uniform();
    case KINDS: break;
    }
    return 0;
}

/* error_bits: T is that far from what the data of this very step would give. */
static void world_init(uint64_t seed, enum kind kind, uint32_t slots, int error_bits)
{
    const uint64_t counts[TENSORS] = {1, 700, 256, 290};
    random_state = seed;
    layout_init(&w.layout, counts, TENSORS, w.start, w.tensor_block);
    assert_int_equal(w.layout.block_count, BLOCKS);
    w.slots = slots;
    for (uint32_t s = 0; s < slots; s++)
        for (uint32_t i = 0; i < ELEMENTS; i++) w.slot[s][i] = draw(kind, s, i);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        float peak = 0;
        for (uint64_t i = w.start[b]; i < w.start[b + 1]; i++) {
            float sum = 0;
            for (uint32_t s = 0; s < slots; s++) {
                if (isfinite(w.slot[s][i])) peak = fmaxf(peak, fabsf(w.slot[s][i]));
                sum += w.slot[s][i];
            }
            if (isfinite(sum)) peak = fmaxf(peak, fabsf(sum));
        }
        int exponent;
        (void)frexpf(peak, &exponent);
        int scale = exponent + 2 + error_bits;
        scale = scale < QUANT_SCALE_MIN ? QUANT_SCALE_MIN : scale;
        w.scale[b] = (int16_t)(scale > QUANT_SCALE_MAX ? QUANT_SCALE_MAX : scale);
        if (error_bits == 0 && random_below(4) == 0) w.scale[b] = QUANT_SCALE_UNSET;
    }
}

static struct quant_sum new_sum(void)
{
    struct quant_sum sum;
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, quant_size(&w.layout)), 0);
    memset(memory, 0xa5, quant_size(&w.layout));
    quant_init(&sum, &w.layout, w.slots, isa, memory);
    assert_ptr_equal(sum.word, memory);
    return sum;
}

static void free_sum(struct quant_sum *sum)
{
    free(sum->word);
}

/* As it goes over a wire. */
static void join_sums(struct quant_sum *into, const struct quant_sum *from)
{
    static uint8_t bytes[QUANT_PAGES_BYTES_MAX + 1];
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint64_t count = w.start[b + 1] - w.start[b];
        struct quant_part theirs = quant_part_of(from, b), ours;
        size_t length = quant_write_pages(&theirs, count, bytes + 1);
        assert_int_equal(length, quant_pages_bytes(theirs.pages, count));
        assert_true(length <= QUANT_PAGES_BYTES_MAX);
        theirs.sum = NULL;
        theirs.packed = bytes + 1;
        theirs.count = count;
        if (into->adds[b] == 0) {
            (void)quant_join(into, b, w.scale[b], &theirs, NULL);
            assert_int_equal(into->check[b], from->check[b]);
            continue;
        }
        ours = quant_part_of(into, b);
        uint32_t sum = into->check[b] + from->check[b];
        assert_int_equal(quant_join(into, b, w.scale[b], &ours, &theirs), sum);
    }
}

static uint32_t check_of(const struct quant_part *part, uint32_t b)
{
    uint32_t check = 0;
    for (uint64_t i = 0; i < w.start[b + 1] - w.start[b]; i++) check += (uint32_t)part->word[i];
    return check;
}

/* Adds up over a random owner map, in random order and over a random tree, then finishes: sometimes
 * two sums at once, as a chunk's owner does. */
static void reduce(uint32_t workers, float *mean, int16_t *next)
{
    struct quant_sum part[WORKERS_MAX];
    uint32_t owner[SLOTS_MAX], order[SLOTS_MAX], parts = 0;
    for (uint32_t s = 0; s < w.slots; s++) owner[s] = random_below(workers), order[s] = s;
    for (uint32_t s = w.slots; s > 1; s--) {
        uint32_t other = random_below(s), kept = order[s - 1];
        order[s - 1] = order[other];
        order[other] = kept;
    }
    for (uint32_t k = 0; k < workers; k++) {
        struct quant_sum mine = new_sum();
        uint32_t cut = random_below(BLOCKS + 1), held = 0;
        for (uint32_t at = 0; at < w.slots; at++) {
            if (owner[order[at]] != k) continue;
            quant_add(&mine, w.scale, w.slot[order[at]], cut, BLOCKS); /* any run of blocks */
            quant_add(&mine, w.scale, w.slot[order[at]], 0, cut);
            held++;
        }
        if (held > 0)
            part[parts++] = mine;
        else
            free_sum(&mine);
    }
    while (parts > 2) {
        uint32_t from = random_below(parts), into;
        do into = random_below(parts);
        while (into == from);
        join_sums(&part[into], &part[from]);
        free_sum(&part[from]);
        part[from] = part[--parts];
    }
    struct quant_sum scratch = new_sum();
    for (uint32_t b = 0; b < BLOCKS; b++) {
        struct quant_part a = quant_part_of(&part[0], b), other = a;
        if (parts == 2) other = quant_part_of(&part[1], b);
        uint32_t check = check_of(&a, b) + (parts == 2 ? check_of(&other, b) : 0);
        struct quant_result result = quant_finish(&scratch, b, w.scale[b], &a,
                                                  parts == 2 ? &other : NULL, mean + w.start[b]);
        next[b] = result.scale;
        assert_int_equal(result.check, check);
        uint32_t mean_check = 0;
        for (uint64_t i = w.start[b]; i < w.start[b + 1]; i++) mean_check += bits_of(mean[i]);
        assert_int_equal(result.mean_check, mean_check);
    }
    for (uint32_t k = 0; k < parts; k++) free_sum(&part[k]);
    free_sum(&scratch);
}

/* What quant.h says of a block, told by its data alone. */
struct told {
    int exponent, level, fine;
    double peak;
};

static struct told tell(uint32_t b)
{
    struct told told = {.exponent = (w.scale[b] == QUANT_SCALE_UNSET ? 0 : w.scale[b]) - 31};
    for (uint32_t s = 0; s < w.slots; s++)
        for (uint64_t i = w.start[b]; i < w.start[b + 1]; i++)
            if (isfinite(w.slot[s][i])) told.peak = fmax(told.peak, fabs((double)w.slot[s][i]));
    int peak_exponent = 0;
    (void)frexp(told.peak, &peak_exponent);
    if (peak_exponent < -125) peak_exponent = -125;
    told.level = peak_exponent - told.exponent;
    told.fine = w.slots == 1 ? 24 : 23 - (int)floor(log2(log2(w.slots)));
    return told;
}

/* x as the block's level holds it: whole steps of 2^unit. */
static double held(const struct told *told, float x)
{
    double scaled = ldexp((double)x, -told->exponent), whole = rint(scaled);
    if (told->level <= QUANT_LEVEL_DEEP) return x;
    if (told->level > told->fine) return ldexp(whole, told->exponent);
    return ldexp(whole + rint((scaled - whole) * 0x1p22) * 0x1p-22, told->exponent);
}

static double worst_ours, worst_tree, square_ours, square_tree, compared;

static float tree_mean(uint64_t i)
{
    float tree[SLOTS_MAX];
    for (uint32_t s = 0; s < w.slots; s++) tree[s] = w.slot[s][i];
    for (uint32_t n = w.slots; n > 1; n = (n + 1) / 2)
        for (uint32_t s = 0; s < n / 2 + n % 2; s++)
            tree[s] = 2 * s + 1 < n ? tree[2 * s] + tree[2 * s + 1] : tree[2 * s];
    return tree[0] / (float)w.slots;
}

/* One finite element: the formula's value rounded once, and the bound. */
static void check_element(const struct told *told, uint64_t i, float mean)
{
    struct big total = {{0}}, exact = {{0}};
    for (uint32_t s = 0; s < w.slots; s++) {
        big_add(&total, held(told, w.slot[s][i]), 1);
        big_add(&exact, (double)w.slot[s][i], 1);
    }
    if (isinf(mean)) {
        struct big most = {{0}};
        big_add(&most, 0x1.ffffffp127 * w.slots, 1);
        (void)big_size(&total);
        assert_true(big_compare(&total, &most) >= 0);
        return;
    }
    struct big off = distance(&total, mean);
    float near[2] = {nextafterf(mean, INFINITY), nextafterf(mean, -INFINITY)};
    for (int k = 0; k < 2; k++) {
        if (isinf(near[k])) continue;
        struct big other = distance(&total, near[k]);
        int order = big_compare(&off, &other);
        assert_true(order <= 0);
        if (order == 0) assert_int_equal(bits_of(mean) & 1, 0);
    }
    struct big zero = total;
    (void)big_size(&zero);
    if (big_double(&zero) == 0) assert_int_equal(bits_of(mean), 0);
    struct big away = distance(&exact, mean);
    double error = big_double(&away) / w.slots, size = fabs((double)mean);
    double first = ldexp(told->peak, told->fine == 24 ? -24 : -(told->fine + 1));
    assert_true(error <= fmax(first, told->peak * 0x1p-24) + size * 0x1p-24 + 0x1p-150);
    double of_tree = fabs((double)tree_mean(i) - (double)mean);
    if (told->peak == 0 || !isfinite(of_tree)) return;
    away = distance(&exact, tree_mean(i));
    worst_ours = fmax(worst_ours, error / told->peak);
    worst_tree = fmax(worst_tree, big_double(&away) / w.slots / told->peak);
    square_ours += (error / told->peak) * (error / told->peak);
    square_tree += pow(big_double(&away) / w.slots / told->peak, 2);
    compared++;
}

static void check_all(const float *mean)
{
    for (uint32_t b = 0; b < BLOCKS; b++) {
        struct told told = tell(b);
        for (uint64_t i = w.start[b]; i < w.start[b + 1]; i++) {
            bool nan = false, plus = false, minus = false;
            for (uint32_t s = 0; s < w.slots; s++) {
                nan = nan || isnan(w.slot[s][i]);
                if (isinf(w.slot[s][i])) *(w.slot[s][i] > 0 ? &plus : &minus) = true;
            }
            if (nan || (plus && minus))
                assert_int_equal(bits_of(mean[i]), 0x7fc00000);
            else if (plus || minus)
                assert_true(isinf(mean[i]) && (mean[i] > 0) == plus);
            else
                check_element(&told, i, mean[i]);
        }
    }
}

static const int errors_bits[] = {0, 1, -3, -10, -60, -250, 6, 14, 30, 60};
static const uint32_t slot_counts[] = {1, 7, 32, 64, 50, 3, 2, 16, 256};

static void same_bits_for_any_split_and_exact(void **state)
{
    (void)state;
    static float mean[ELEMENTS], other[ELEMENTS];
    int16_t next[BLOCKS], next_other[BLOCKS];
    for (uint64_t seed = 1; seed <= 108; seed++) {
        enum kind kind = (enum kind)(seed % KINDS);
        uint32_t slots = slot_counts[seed / KINDS % 8];
        if (seed > 104) slots = 256;
        if (kind == KIND_PAIRS && slots % 2 == 1) slots++;
        world_init(seed, kind, slots, errors_bits[seed / 7 % 10]);
        isa = QUANT_ISA_PORTABLE;
        reduce(1, mean, next);
        check_all(mean);
        for (int split = 0; split < 5; split++) {
            isa = (enum quant_isa)(split % ((int)quant_isa_best() + 1));
            reduce(1 + random_below(WORKERS_MAX), other, next_other);
            assert_memory_equal(mean, other, sizeof mean);
            assert_memory_equal(next, next_other, sizeof next);
        }
    }
}

/* Blocks with several digits in several members: what the largest values leave must not be lost
 * when a third part comes. */
static void many_digits_in_many_members(void **state)
{
    (void)state;
    static float mean[ELEMENTS], other[ELEMENTS];
    int16_t next[BLOCKS], next_other[BLOCKS];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world_init(seed, KIND_DECADES, 24, -70);
        for (uint32_t s = 0; s < 24; s++)
            for (uint32_t i = s; i < ELEMENTS; i += 7) w.slot[s][i] *= s % 3 == 0 ? 1e25f : 1e-20f;
        isa = QUANT_ISA_PORTABLE;
        reduce(1, mean, next);
        check_all(mean);
        for (uint32_t workers = 3; workers <= 12; workers += 3) {
            isa = quant_isa_best();
            reduce(workers, other, next_other);
            assert_memory_equal(mean, other, sizeof mean);
            assert_memory_equal(next, next_other, sizeof next);
        }
    }
}

/* With the scale that the rule gives, over steps of slowly changing gradients. */
static void error_is_no_worse_than_a_tree(void **state)
{
    (void)state;
    static float mean[ELEMENTS];
    int16_t next[BLOCKS];
    const enum kind kinds[] = {KIND_SAME, KIND_DECADES, KIND_ONE_SIGN};
    for (size_t k = 0; k < 3; k++) {
        worst_ours = worst_tree = square_ours = square_tree = compared = 0;
        for (uint64_t seed = 1; seed <= 12; seed++) {
            int16_t kept[BLOCKS];
            memcpy(kept, next, sizeof kept);
            world_init(seed, kinds[k], 64, 0);
            if (seed > 1) memcpy(w.scale, kept, sizeof kept); /* else some T are unset */
            isa = quant_isa_best();
            reduce(2, mean, next);
            if (seed > 1) check_all(mean);
            for (uint32_t b = 0; b < BLOCKS; b++) { /* against the int64 design */
                struct told told = tell(b);
                const float *slot[SLOTS_MAX];
                for (uint32_t s = 0; s < w.slots; s++) slot[s] = w.slot[s];
                double bound = told.peak * (ldexp(1, -(told.fine + 1)) + 0x1p-38);
                for (uint64_t i = w.start[b]; i < w.start[b + 1]; i++) {
                    double oracle = quant_int64_mean(slot, w.slots, i, told.peak);
                    assert_true(fabs(oracle - (double)mean[i]) <= bound + fabs(oracle) * 0x1p-23);
                }
            }
        }
        print_message("kind %zu: worst %.3g of the peak (tree %.3g), rms %.3g (tree %.3g)\n", k,
                      worst_ours, worst_tree, sqrt(square_ours / compared),
                      sqrt(square_tree / compared));
        assert_true(worst_ours <= worst_tree);
        assert_true(square_ours <= square_tree);
    }
}

static void nothing_that_is_not_finite_vanishes(void **state)
{
    (void)state;
    static float mean[ELEMENTS];
    int16_t next[BLOCKS];
    const float bad[4] = {NAN, INFINITY, -INFINITY, -NAN};
    for (uint32_t workers = 1; workers <= 4; workers++)
        for (uint32_t which = 0; which < 4; which++)
            for (uint32_t i = 0; i < ELEMENTS; i += 45) {
                world_init(i, KIND_SAME, 4, -40); /* T far too small: digits beside the flags */
                isa = quant_isa_best();
                w.slot[3][i] = bad[which];
                reduce(workers, mean, next);
                assert_true(which % 3 == 0 ? isnan(mean[i]) : isinf(mean[i]));
                for (uint32_t b = 0; b < BLOCKS; b++)
                    if (w.start[b] <= i && i < w.start[b + 1])
                        assert_int_equal(next[b], w.scale[b]);
                    else
                        assert_true(next[b] > w.scale[b]);
            }
}

static void the_scale_follows_the_data(void **state)
{
    (void)state;
    static float mean[ELEMENTS];
    int16_t next[BLOCKS];
    isa = quant_isa_best();
    world_init(1, KIND_SAME, 8, 0);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        for (uint32_t s = 0; s < 8; s++) w.slot[s][i] = i < w.start[2] ? 0.75f : 0;
    for (uint32_t b = 0; b < BLOCKS; b++) w.scale[b] = QUANT_SCALE_UNSET;
    reduce(2, mean, next);
    assert_int_equal(next[0], 3 + 2); /* 6 < 2^3, two bits of room */
    assert_int_equal(next[1], 3 + 2);
    assert_int_equal(next[2], QUANT_SCALE_UNSET); /* never had a gradient */
    w.scale[0] = 40;                              /* slow decay */
    w.scale[1] = -40;                             /* fast attack */
    w.scale[2] = 7;                               /* all zero: held */
    reduce(3, mean, next);
    assert_int_equal(next[0], 5); /* 45 bits too coarse: at the deepest level it jumps */
    assert_int_equal(next[1], 5);
    assert_int_equal(next[2], 7);
    w.scale[0] = 12;
    reduce(3, mean, next);
    assert_int_equal(next[0], 11);
}

/* Just above the middle between two float32 values: two roundings in a row would fall to even. */
static void rounds_once(void **state)
{
    (void)state;
    static float mean[ELEMENTS];
    int16_t next[BLOCKS];
    world_init(1, KIND_SAME, 4, 0);
    isa = quant_isa_best();
    for (uint32_t b = 0; b < BLOCKS; b++) w.scale[b] = 90;
    memset(w.slot, 0, sizeof w.slot);
    w.slot[0][0] = 0x1p40f, w.slot[1][0] = 0x1p16f, w.slot[2][0] = 0x1p-10f; /* deep: exact */
    reduce(3, mean, next);
    assert_true(mean[0] == 0x1.000002p38f);
    w.slot[0][0] = -0x1p40f, w.slot[1][0] = -0x1p16f, w.slot[2][0] = -0x1p-100f;
    reduce(3, mean, next);
    assert_true(mean[0] == -0x1.000002p38f);
    w.slot[2][0] = 0;
    reduce(3, mean, next);
    assert_true(mean[0] == -0x1p38f); /* the middle itself: to even */
}

/* A program may run with another rounding mode, or flush denormals, in its thread. */
static void the_mode_of_the_thread_does_not_matter(void **state)
{
    (void)state;
#if defined(__x86_64__)
    static float mean[ELEMENTS], other[ELEMENTS];
    int16_t next[BLOCKS];
    for (uint64_t seed = 1; seed <= 6; seed++) {
        world_init(seed, seed % 2 == 0 ? KIND_DENORMAL : KIND_DECADES, 6, 9);
        isa = quant_isa_best();
        reduce(2, mean, next);
        uint32_t mode = _mm_getcsr();
        _mm_setcsr(0x1f80 | 0x8040 | 0x2000); /* flush both ways, round down */
        reduce(2, other, next);
        assert_int_equal(_mm_getcsr() & 0xffc0, 0x1f80 | 0x8040 | 0x2000);
        _mm_setcsr(mode);
        assert_memory_equal(mean, other, sizeof mean);
    }
#endif
}

static void squares_are_the_same_on_every_unit(void **state)
{
    (void)state;
    static float x[300];
    for (uint64_t seed = 1; seed <= 50; seed++) {
        random_state = seed;
        uint64_t count = random_below(300);
        double lane[8] = {0};
        for (uint64_t i = 0; i < count; i++) {
            x[i] = draw(seed % 2 == 0 ? KIND_HUGE : KIND_DECADES, 0, 0);
            lane[i % 8] += (double)x[i] * (double)x[i];
        }
        double sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
                     ((lane[4] + lane[5]) + (lane[6] + lane[7]));
        for (int unit = 0; unit <= (int)quant_isa_best(); unit++)
            assert_true(quant_kernel_squares((enum quant_isa)unit, x, count) == sum);
    }
}

static void a_scale_is_a_byte(void **state)
{
    (void)state;
    int16_t scale[4] = {QUANT_SCALE_MIN - 1, QUANT_SCALE_MAX + 1, 5, QUANT_SCALE_UNSET};
    quant_check_scales(scale, 4);
    assert_int_equal(scale[0], QUANT_SCALE_UNSET);
    assert_int_equal(scale[1], QUANT_SCALE_UNSET);
    assert_int_equal(scale[2], 5);
    for (int t = QUANT_SCALE_MIN; t <= QUANT_SCALE_MAX; t++)
        assert_int_equal(quant_scale_of_byte(quant_scale_byte((int16_t)t)), t);
    assert_int_equal(quant_scale_of_byte(quant_scale_byte(QUANT_SCALE_UNSET)), QUANT_SCALE_UNSET);
    assert_int_equal(quant_scale_of_byte(255), QUANT_SCALE_UNSET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_for_any_split_and_exact),
        cmocka_unit_test(many_digits_in_many_members),
        cmocka_unit_test(error_is_no_worse_than_a_tree),
        cmocka_unit_test(nothing_that_is_not_finite_vanishes),
        cmocka_unit_test(the_scale_follows_the_data),
        cmocka_unit_test(rounds_once),
        cmocka_unit_test(the_mode_of_the_thread_does_not_matter),
        cmocka_unit_test(squares_are_the_same_on_every_unit),
        cmocka_unit_test(a_scale_is_a_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
