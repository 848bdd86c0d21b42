#include "worker/core/quant_kernel.h"
#include "core/assert.h"
#include "worker/core/quant_block.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifdef __FAST_MATH__
#error "the exact sum needs IEEE arithmetic: build without -ffast-math"
#endif

#define INLINE static inline __attribute__((always_inline))

static inline void add_word(int32_t *ret, uint32_t a, uint32_t b, struct quant_flow *flow)
{
    uint32_t sum = a + b;
    flow->check += sum;
    flow->overflow = flow->overflow || (((a ^ sum) & (b ^ sum)) >> 31) != 0;
    *ret = (int32_t)sum;
}

/* One addition more cannot overflow: each is at most 2^level, and the level is above 0. */
static inline bool adds_fit(const struct block *of, uint8_t adds, uint8_t peak)
{
    if (adds == QUANT_ADDS_MANY) return false;
    return (uint64_t)(adds + 1) << level_of(of, peak) < UINT64_C(0x80000000);
}

/* What an addition to a block with peak `old` may leave as it is: see quant_kernel_run(). Zeros are
 * usual only as the first of all. */
static inline bool is_usual(const struct block *of, uint32_t bits, uint8_t old)
{
    int level = level_of(of, peak_byte(bits));
    if (bits >= INFINITE || level > LEVEL_WORD) return false;
    return old != 0 || level > of->fine || level == LEVEL_ZERO;
}

/* One lane at a time, whatever the machine. */
static inline int32_t round_lanes(float value)
{
    return quant_round(value);
}

#define LOOP(name) name##_portable
#define TARGET
#define LANES           1
#define ROUND(v)        ((LOOP(vi)){round_lanes((v)[0])})
#define MAX(a, b)       ((LOOP(vi)){(a)[0] > (b)[0] ? (a)[0] : (b)[0]})
#define ANY_NEGATIVE(v) ((v)[0] < 0)
#define LARGEST(v)      ((v)[0])
#define TOTAL(v)        ((v)[0])
#define TOGETHER(v)     ((v)[0])
#include "worker/core/quant_loops.h"

#if defined(__x86_64__)
static inline __m128i max_sse2(__m128i a, __m128i b)
{
    __m128i above = _mm_cmpgt_epi32(a, b);
    return _mm_or_si128(_mm_and_si128(above, a), _mm_andnot_si128(above, b));
}

static inline int32_t largest_sse2(__m128i v)
{
    v = max_sse2(v, _mm_shuffle_epi32(v, 0x4e));
    return _mm_cvtsi128_si32(max_sse2(v, _mm_shuffle_epi32(v, 0xb1)));
}

static inline uint32_t total_sse2(__m128i v)
{
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1)));
}

static inline uint32_t together_sse2(__m128i v)
{
    v = _mm_or_si128(v, _mm_shuffle_epi32(v, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_or_si128(v, _mm_shuffle_epi32(v, 0xb1)));
}

#define LOOP(name) name##_sse2
#define TARGET
#define LANES           4
#define ROUND(v)        ((LOOP(vi))_mm_cvtps_epi32((__m128)(v)))
#define MAX(a, b)       ((LOOP(vi))max_sse2((__m128i)(a), (__m128i)(b)))
#define ANY_NEGATIVE(v) (_mm_movemask_ps((__m128)(v)) != 0)
#define LARGEST(v)      largest_sse2((__m128i)(v))
#define TOTAL(v)        total_sse2((__m128i)(v))
#define TOGETHER(v)     together_sse2((__m128i)(v))
#include "worker/core/quant_loops.h"

#define AVX2 __attribute__((target("avx2")))

AVX2 static inline int32_t largest_avx2(__m256i v)
{
    __m128i half = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}

AVX2 static inline uint32_t total_avx2(__m256i v)
{
    return total_sse2(_mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}

AVX2 static inline uint32_t together_avx2(__m256i v)
{
    return together_sse2(_mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}

#define LOOP(name)      name##_avx2
#define TARGET          AVX2
#define LANES           8
#define ROUND(v)        ((LOOP(vi))_mm256_cvtps_epi32((__m256)(v)))
#define MAX(a, b)       ((LOOP(vi))_mm256_max_epi32((__m256i)(a), (__m256i)(b)))
#define ANY_NEGATIVE(v) (_mm256_movemask_ps((__m256)(v)) != 0)
#define LARGEST(v)      largest_avx2((__m256i)(v))
#define TOTAL(v)        total_avx2((__m256i)(v))
#define TOGETHER(v)     together_avx2((__m256i)(v))
#include "worker/core/quant_loops.h"

#define AVX512 __attribute__((target("avx512f,avx2")))

/* Checksums wrap. _mm512_reduce_add_epi32() would not: gcc's header adds signed lanes. */
AVX512 static inline uint32_t total_avx512(__m512i v)
{
    return total_avx2(_mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1)));
}

#define LOOP(name)      name##_avx512
#define TARGET          AVX512
#define LANES           16
#define ROUND(v)        ((LOOP(vi))_mm512_cvtps_epi32((__m512)(v)))
#define MAX(a, b)       ((LOOP(vi))_mm512_max_epi32((__m512i)(a), (__m512i)(b)))
#define ANY_NEGATIVE(v) (_mm512_cmplt_epi32_mask((__m512i)(v), _mm512_setzero_si512()) != 0)
#define LARGEST(v)      _mm512_reduce_max_epi32((__m512i)(v))
#define TOTAL(v)        total_avx512((__m512i)(v))
#define TOGETHER(v)     ((uint32_t)_mm512_reduce_or_epi32((__m512i)(v)))
#include "worker/core/quant_loops.h"

/* ORDER: quant_isa */
#define DISPATCH(isa, name, ...)                                                                   \
    switch (isa) {                                                                                 \
    case QUANT_ISA_AVX512: GIVE name##_avx512(__VA_ARGS__); break;                                 \
    case QUANT_ISA_AVX2: GIVE name##_avx2(__VA_ARGS__); break;                                     \
    case QUANT_ISA_SSE2: GIVE name##_sse2(__VA_ARGS__); break;                                     \
    case QUANT_ISA_PORTABLE: GIVE name##_portable(__VA_ARGS__); break;                             \
    }
#else
#define DISPATCH(isa, name, ...)                                                                   \
    MAYBE(isa);                                                                                    \
    GIVE name##_portable(__VA_ARGS__);
#endif
#define GIVE result =

uint32_t quant_kernel_peak(enum quant_isa isa, const float *x, uint64_t count)
{
    uint32_t result = 0;
    DISPATCH(isa, peak, x, count)
    return result;
}

struct quant_flow quant_kernel_set(enum quant_isa isa, int32_t *word, const float *x, float inverse,
                                   uint64_t count)
{
    struct quant_flow result = {0};
    DISPATCH(isa, set, word, x, inverse, count)
    return result;
}

struct quant_flow quant_kernel_add(enum quant_isa isa, int32_t *word, const float *x, float inverse,
                                   uint64_t count)
{
    struct quant_flow result = {0};
    DISPATCH(isa, add, word, x, inverse, count)
    return result;
}

uint32_t quant_kernel_run(struct quant_sum *sum, const int16_t *scale, const float *x,
                          uint32_t first, uint32_t end, bool *ret_overflow)
{
    uint32_t result = first;
    DISPATCH(sum->isa, run, sum, scale, x, first, end, ret_overflow)
    return result;
}

struct quant_flow quant_kernel_join(enum quant_isa isa, int32_t *ret, const int32_t *a,
                                    const int32_t *b, uint64_t count)
{
    struct quant_flow result = {0};
    DISPATCH(isa, join, ret, a, b, count)
    return result;
}

uint32_t quant_kernel_copy(enum quant_isa isa, int32_t *ret, const int32_t *a, uint64_t count)
{
    uint32_t result = 0;
    DISPATCH(isa, copy, ret, a, count)
    return result;
}

struct quant_finish quant_kernel_finish(enum quant_isa isa, float *ret_mean, const int32_t *a,
                                        const int32_t *b, float unit, uint64_t count)
{
    struct quant_finish result = {0};
    DISPATCH(isa, finish, ret_mean, a, b, unit, count)
    return result;
}

struct quant_finish quant_kernel_divide(enum quant_isa isa, float *ret_mean, const int32_t *a,
                                        const int32_t *b, struct quant_unit unit, uint64_t count)
{
    struct quant_finish result = {0};
    DISPATCH(isa, divide, ret_mean, a, b, unit, count)
    return result;
}

double quant_kernel_squares(enum quant_isa isa, const float *x, uint64_t count)
{
    double result = 0;
    DISPATCH(isa, squares, x, count)
    return result;
}

#undef GIVE
#define GIVE

void quant_kernel_low(enum quant_isa isa, int32_t *ret_low, const float *x, float inverse,
                      uint64_t count)
{
    DISPATCH(isa, low, ret_low, x, inverse, count)
}

void quant_kernel_plain_join(enum quant_isa isa, float *ret, const float *a, const float *b,
                             uint64_t count)
{
    DISPATCH(isa, plain_join, ret, a, b, count)
}

void quant_kernel_plain_scale(enum quant_isa isa, float *ret, const float *a, float unit,
                              uint64_t count)
{
    DISPATCH(isa, plain_scale, ret, a, unit, count)
}

#if defined(__x86_64__)
enum { MODE_BITS = 0xffc0, MODE_WANTED = 0x1f80 };

uint32_t quant_mode_enter(void)
{
    uint32_t mode = _mm_getcsr();
    if ((mode & MODE_BITS) != MODE_WANTED) _mm_setcsr(MODE_WANTED);
    return mode;
}

void quant_mode_leave(uint32_t mode)
{
    if ((mode & MODE_BITS) != MODE_WANTED) _mm_setcsr(mode);
}
#elif defined(__aarch64__)
/* FPCR: 0 is nearest even, no flush, no trap. */
uint32_t quant_mode_enter(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    if (mode != 0) __asm__ volatile("msr fpcr, %0" : : "r"(UINT64_C(0)));
    return (uint32_t)mode;
}

void quant_mode_leave(uint32_t mode)
{
    if (mode != 0) __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
}
#else
uint32_t quant_mode_enter(void)
{
    return 0;
}

void quant_mode_leave(uint32_t mode)
{
    MAYBE(mode);
}
#endif
