/* The sum of V gradients that has the same bits whoever adds what, in any order.
 *
 * Role       Pure arithmetic; with quant_exact and quant_kernel the only floating point of
 *            worker/core.
 * Idea       A block has an exponent T, known before the step starts; its step is 2^e, e = T - 31.
 *            Each slot's element becomes the integer Q = round_to_nearest_even(x * 2^-e); integers
 *            add up exactly in any order; one final rounding gives float32(sum(Q) * 2^e / V).
 * Words      Sums are held and sent as int32 modulo 2^32. An addition that overflows loses exactly
 *            2^32, which whoever added puts into the block's digits (quant_exact.h), pages that
 *            blocks get only when needed. Which blocks have pages may depend on who added what; the
 *            value that words and pages make together does not. So nothing is ever redone.
 * Levels     Let the block's peak M be the largest finite |x| over all slots, 2^(E-1) <= M < 2^E.
 *            The level E - e says how finely M is resolved:
 *              above 31        x itself may be too large for a word: it goes into the digits.
 *              above fine(V)   the usual case: words, and digits for what overflowed.
 *              above DEEP      the block has shrunk: a second word per element, units of 2^(e-22),
 *                              holds what rounding to 2^e took away.
 *              else            the digits hold all that words do not: the sum is exact.
 *            What slots keep for a low level counts only if the level of ALL slots together is that
 *            low, else it is dropped: so it is either there for every slot or used for none.
 * Scale      T follows the data: c = smallest exponent with |sum| < 2^c and M <= 2^c, then
 *            T' = c + 2 when that is no smaller than T, at the deepest level, or at first; else
 *            T - 1. A block that is all zero or not finite keeps its T. Every member derives T'
 *            from final data, or is told; T is training state: streamed to joiners, saved.
 * Error      Of the mean y of V slots, M the peak of the block:
 *              |y - exact| <= M * max(2^-(fine(V)+1), 2^-24) + 2^-24 |y|   (2^-150 if subnormal)
 *            with fine(V) = 24 for V = 1, else 23 - log2(log2 V), rounded so that the first term is
 *            at most log2(V) 2^-24 M: the bound of a float32 tree over V slots whose elements are
 *            as large as the peak. Usual: M 2^-25 and better. At the deepest level only the second
 *            term remains. M is the peak of the block, not of the element: an element far below it
 *            is exact to M 2^-25, not to its own size.
 * IEEE       NaN in any slot, or +Inf with -Inf, gives NaN; else one Inf gives it: they sit in a
 *            page of flags, never in a sum. Zero sums are +0. A finite mean is finite even where
 *            the plain sum would overflow. The rounding mode of the calling thread does not matter.
 * Limits     V <= 1024. fine(V) bits from V slots stay below 2^31: no overflow at low levels.
 * Memory     The caller's, quant_size() bytes. That is the worst case, every block with every
 *            page, 25 times the gradient; nearly all of it is never touched, so give it untouched
 *            zero pages of the system (mmap), not cleared memory.
 */
#ifndef SHOAL_WORKER_CORE_QUANT_H
#define SHOAL_WORKER_CORE_QUANT_H

#include "worker/core/layout.h"
#include "worker/core/quant_kernel.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    QUANT_SLOTS_MAX = 1024,
    QUANT_SCALE_UNSET = INT16_MIN, /* T of a block that never had a gradient */
    QUANT_SCALE_FIRST = 0,         /* what is used for it: any guess is right, only slower */
    QUANT_SCALE_MIN = -96,         /* e = -127: 2^-e is a float, 2^(e-22) the smallest denormal */
    QUANT_SCALE_MAX = 128,         /* e = 97: no float32 is too large for a word */
    QUANT_LEVEL_DEEP = 8,
    QUANT_ADDS_MANY = 255,

    QUANT_DIGITS = 10,       /* pages of int64 per element, see quant_exact.h */
    QUANT_PAGE_LOW = 10,     /* ORDER: after the digits. int32 per element */
    QUANT_PAGE_SPECIAL = 11, /* one byte per element: QUANT_NAN and so on */
    QUANT_PAGES = 12,
    QUANT_PAGE_BYTES = 8 * LAYOUT_BLOCK_ELEMENTS,
    QUANT_PAGES_BYTES_MAX =
        (8 * QUANT_DIGITS + 4 + 1) * LAYOUT_BLOCK_ELEMENTS, /* sent of a block */

    QUANT_NAN = 1,
    QUANT_POSITIVE_INF = 2,
    QUANT_NEGATIVE_INF = 4,
};

/* One accumulator over a layout. A block's other arrays hold something only once it has adds. */
struct quant_sum {
    const struct layout *layout;
    enum quant_isa isa;
    uint32_t slots; /* V */
    int fine;       /* fine(V) */
    bool is_plain;  /* words are float32 and add up as they come: fast, and not split-invariant */

    int32_t *word;   /* [elements] */
    uint32_t *check; /* [blocks] sum of the block's words modulo 2^32 */
    uint16_t *pages; /* [blocks] bit k: page k is there */
    uint8_t *peak;  /* [blocks] 0: all zero; else the float32 exponent field of M, denormals as 1 */
    uint8_t *adds;  /* [blocks] slots added; 0: none yet, QUANT_ADDS_MANY: who knows, any words */
    uint32_t *page; /* [blocks][QUANT_PAGES] which page of the pool */
    uint8_t *pool;  /* [blocks * QUANT_PAGES] pages */
    uint64_t pool_used; /* pages handed out; they come back at quant_clear() of everything */
};

/* One block as it lies somewhere, in an accumulator or in a message. */
struct quant_part {
    const int32_t *word;
    uint16_t pages;
    uint8_t peak;
    uint32_t block;              /* pages in an accumulator: of this block of `sum` */
    const struct quant_sum *sum; /* NULL: in a message */
    const uint8_t *packed;       /* pages in a message: one after another, any alignment */
    uint64_t count;              /* elements of the block, with packed */
};

/* What a block came to. */
struct quant_result {
    int16_t scale;       /* T' */
    uint32_t check;      /* sum of its final words modulo 2^32 */
    uint32_t mean_check; /* sum of the means' bits modulo 2^32 */
};

size_t quant_size(const struct layout *layout);
/* memory: quant_size() bytes at a 64-byte boundary, whatever they hold. */
void quant_init(struct quant_sum *sum, const struct layout *layout, uint32_t slots,
                enum quant_isa isa, void *memory);
/* Empties every block and gives all pages back. */
void quant_clear(struct quant_sum *sum);

/* Adds blocks [first, end) of one slot's gradient x[elements]. */
void quant_add(struct quant_sum *sum, const int16_t *scale, const float *x, uint32_t first,
               uint32_t end);

/* The block of an accumulator as a part; it must have adds. */
struct quant_part quant_part_of(const struct quant_sum *sum, uint32_t block);
/* Pages of a part one after another, as `packed` wants them. Returns the length. */
size_t quant_write_pages(const struct quant_part *part, uint64_t count, uint8_t *bytes);
size_t quant_pages_bytes(uint16_t pages, uint64_t count);
/* A page that part->pages has. */
const uint8_t *quant_part_page(const struct quant_part *part, uint32_t page);

/* Block = a + b, or a (b NULL). a may be the block itself. Returns the check of the new words. */
uint32_t quant_join(struct quant_sum *sum, uint32_t block, int16_t scale,
                    const struct quant_part *a, const struct quant_part *b);

/* Means of a + b, or of a (b NULL), in one pass; `sum` gives memory where it takes two. */
struct quant_result quant_finish(struct quant_sum *sum, uint32_t block, int16_t scale,
                                 const struct quant_part *a, const struct quant_part *b,
                                 float *ret_mean);

/* Scales from outside (a peer, a file): what quant_finish() cannot have made becomes unset. */
void quant_check_scales(int16_t *scale, uint32_t block_count);
/* One byte for a scale, and back. */
uint8_t quant_scale_byte(int16_t scale);
int16_t quant_scale_of_byte(uint8_t byte);

#endif
