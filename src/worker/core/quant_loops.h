/* The loops of quant_kernel.h for one vector unit. Included by quant_kernel.c once per unit, which
 * defines: LOOP(name) the function's name, TARGET its attribute, LANES floats to a vector,
 * ROUND(vf) to nearest even integers as vi, MAX(vi, vi) signed, ANY_NEGATIVE(vi), LARGEST(vi),
 * TOTAL(vu) the sum of all lanes, TOGETHER(vu) all lanes or-ed. */

typedef float LOOP(vf) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t LOOP(vi) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t LOOP(vu) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef double LOOP(vd) __attribute__((vector_size(64), aligned(8)));
typedef float LOOP(v8) __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t LOOP(vi8) __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t LOOP(vu8) __attribute__((vector_size(32), aligned(4), may_alias));
#define VF LOOP(vf)
#define VI LOOP(vi)
#define VU LOOP(vu)

TARGET static uint32_t LOOP(peak)(const float *x, uint64_t count)
{
    VI most = {0};
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        VI bits = *(const VI *)(const void *)(x + i) & INT32_C(0x7fffffff);
        most = MAX(most, bits);
    }
    int32_t peak = LARGEST(most);
    for (; i < count; i++) {
        int32_t bits = (int32_t)(bits_of(x[i]) & SIGNLESS);
        peak = bits > peak ? bits : peak;
    }
    return (uint32_t)peak;
}

struct LOOP(tally) {
    VU check, over;
    VI most;
};

TARGET INLINE void LOOP(set_vector)(int32_t *word, const float *x, float inverse,
                                    struct LOOP(tally) * tally)
{
    VF value = *(const VF *)(const void *)x;
    VI term = ROUND(value * inverse);
    tally->most = MAX(tally->most, (VI)value & INT32_C(0x7fffffff));
    tally->check += (VU)term;
    *(VI *)(void *)word = term;
}

/* Signed overflow: the sum is below the old word although the term is not negative, or not below it
 * although the term is. */
TARGET INLINE void LOOP(add_vector)(int32_t *word, const float *x, float inverse, bool checked,
                                    struct LOOP(tally) * tally)
{
    VF value = *(const VF *)(const void *)x;
    VU term = (VU)ROUND(value * inverse), old = *(const VU *)(const void *)word, sum = old + term;
    tally->most = MAX(tally->most, (VI)value & INT32_C(0x7fffffff));
    if (checked) tally->over |= (VU)((VI)old > (VI)sum) ^ term;
    tally->check += sum;
    *(VU *)(void *)word = sum;
}

TARGET static inline struct quant_flow LOOP(flow_of)(const struct LOOP(tally) * tally)
{
    return (struct quant_flow){TOTAL(tally->check), (uint32_t)LARGEST(tally->most),
                               ANY_NEGATIVE((VI)tally->over)};
}

TARGET static struct quant_flow LOOP(set)(int32_t *word, const float *x, float inverse,
                                          uint64_t count)
{
    struct LOOP(tally) tally = {{0}, {0}, {0}};
    uint64_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        LOOP(set_vector)(word + i, x + i, inverse, &tally);
        LOOP(set_vector)(word + i + LANES, x + i + LANES, inverse, &tally);
        LOOP(set_vector)(word + i + 2 * LANES, x + i + 2 * LANES, inverse, &tally);
        LOOP(set_vector)(word + i + 3 * LANES, x + i + 3 * LANES, inverse, &tally);
    }
    for (; i + LANES <= count; i += LANES) LOOP(set_vector)(word + i, x + i, inverse, &tally);
    struct quant_flow flow = LOOP(flow_of)(&tally);
    for (; i < count; i++) {
        uint32_t bits = bits_of(x[i]) & SIGNLESS;
        flow.peak = bits > flow.peak ? bits : flow.peak;
        add_word(&word[i], 0, (uint32_t)quant_round(x[i] * inverse), &flow);
    }
    return flow;
}

TARGET INLINE struct quant_flow LOOP(add_all)(int32_t *word, const float *x, float inverse,
                                              uint64_t count, bool checked)
{
    struct LOOP(tally) tally = {{0}, {0}, {0}};
    uint64_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES)
        for (uint64_t k = i; k < i + 4 * LANES; k += LANES)
            LOOP(add_vector)(word + k, x + k, inverse, checked, &tally);
    for (; i + LANES <= count; i += LANES)
        LOOP(add_vector)(word + i, x + i, inverse, checked, &tally);
    struct quant_flow flow = LOOP(flow_of)(&tally);
    for (; i < count; i++) {
        uint32_t bits = bits_of(x[i]) & SIGNLESS;
        flow.peak = bits > flow.peak ? bits : flow.peak;
        add_word(&word[i], (uint32_t)word[i], (uint32_t)quant_round(x[i] * inverse), &flow);
    }
    return flow;
}

TARGET static struct quant_flow LOOP(add)(int32_t *word, const float *x, float inverse,
                                          uint64_t count)
{
    return LOOP(add_all)(word, x, inverse, count, true);
}

/* Where nothing can overflow. */
TARGET static struct quant_flow LOOP(add_free)(int32_t *word, const float *x, float inverse,
                                               uint64_t count)
{
    return LOOP(add_all)(word, x, inverse, count, false);
}

TARGET static void LOOP(undo)(int32_t *word, const float *x, float inverse, uint64_t count)
{
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        *(VU *)(void *)(word + i) -= (VU)ROUND(*(const VF *)(const void *)(x + i) * inverse);
    for (; i < count; i++)
        word[i] = (int32_t)((uint32_t)word[i] - (uint32_t)quant_round(x[i] * inverse));
}

TARGET static uint32_t LOOP(run)(struct quant_sum *sum, const int16_t *scale, const float *x,
                                 uint32_t first, uint32_t end, bool *ret_overflow)
{
    *ret_overflow = false;
    for (uint32_t b = first; b < end; b++) {
        struct block of = block_of(sum, b, scale[b]);
        uint8_t adds = sum->adds[b], old = adds == 0 ? 0 : sum->peak[b];
        if (sum->pages[b] != 0 || (old != 0 && level_of(&of, old) <= of.fine)) return b;
        const float *from = x + of.at;
        float inverse = inverse_of(&of);
        int32_t *word = sum->word + of.at;
        bool fits = old != 0 && adds_fit(&of, adds, old);
        struct quant_flow flow = old == 0 ? LOOP(set)(word, from, inverse, of.count)
                                 : fits   ? LOOP(add_free)(word, from, inverse, of.count)
                                          : LOOP(add)(word, from, inverse, of.count);
        if (!is_usual(&of, flow.peak, old)) {
            if (adds != 0) LOOP(undo)(word, from, inverse, of.count);
            return b;
        }
        uint8_t peak = peak_byte(flow.peak);
        if (fits && peak > old && !adds_fit(&of, adds, peak)) {
            LOOP(undo)(word, from, inverse, of.count);
            flow = LOOP(add)(word, from, inverse, of.count);
            fits = false;
        }
        if (peak >= old) sum->peak[b] = peak;
        sum->check[b] = flow.check;
        sum->adds[b] = old == 0 ? 1 : fits ? (uint8_t)(adds + 1) : QUANT_ADDS_MANY;
        *ret_overflow = flow.overflow;
        if (*ret_overflow) return b;
    }
    return end;
}

TARGET static void LOOP(low)(int32_t *low, const float *x, float inverse, uint64_t count)
{
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        VF scaled = *(const VF *)(const void *)(x + i) * inverse;
        VF rest = scaled - __builtin_convertvector(ROUND(scaled), VF);
        *(VI *)(void *)(low + i) += ROUND(rest * 4194304.0f);
    }
    for (; i < count; i++) {
        float scaled = x[i] * inverse, rest = scaled - (float)quant_round(scaled);
        low[i] += quant_round(rest * 4194304.0f);
    }
}

TARGET static struct quant_flow LOOP(join)(int32_t *ret, const int32_t *a, const int32_t *b,
                                           uint64_t count)
{
    VU check = {0}, over = {0};
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        VU left = *(const VU *)(const void *)(a + i), right = *(const VU *)(const void *)(b + i);
        VU sum = left + right;
        over |= (left ^ sum) & (right ^ sum);
        check += sum;
        *(VU *)(void *)(ret + i) = sum;
    }
    struct quant_flow flow = {TOTAL(check), 0, ANY_NEGATIVE((VI)over)};
    for (; i < count; i++) add_word(&ret[i], (uint32_t)a[i], (uint32_t)b[i], &flow);
    return flow;
}

TARGET static uint32_t LOOP(copy)(int32_t *ret, const int32_t *a, uint64_t count)
{
    VU check = {0};
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        VU word = *(const VU *)(const void *)(a + i);
        check += word;
        *(VU *)(void *)(ret + i) = word;
    }
    uint32_t sum = TOTAL(check);
    for (; i < count; i++) {
        ret[i] = a[i];
        sum += (uint32_t)a[i];
    }
    return sum;
}

TARGET static struct quant_finish LOOP(finish)(float *ret_mean, const int32_t *a, const int32_t *b,
                                               float unit, uint64_t count)
{
    VU check = {0}, over = {0}, size = {0}, mean_check = {0};
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        VU left = *(const VU *)(const void *)(a + i), right = *(const VU *)(const void *)(b + i);
        VU sum = left + right;
        over |= (left ^ sum) & (right ^ sum);
        check += sum;
        size |= sum ^ (VU)((VI)sum >> 31);
        VF mean = __builtin_convertvector((VI)sum, VF) * unit;
        mean_check += (VU)mean;
        *(VF *)(void *)(ret_mean + i) = mean;
    }
    struct quant_finish done = {{TOTAL(check), 0, ANY_NEGATIVE((VI)over)}, 0, 0};
    done.mean_check = TOTAL(mean_check);
    done.size = TOGETHER(size);
    for (; i < count; i++) {
        int32_t sum;
        add_word(&sum, (uint32_t)a[i], (uint32_t)b[i], &done.flow);
        ret_mean[i] = (float)sum * unit;
        done.size |= (uint32_t)(sum ^ (sum >> 31));
        done.mean_check += bits_of(ret_mean[i]);
    }
    return done;
}

/* Dekker's splitting: the upper 45 of 53 bits, rounded to nearest. */
TARGET static inline float LOOP(divide_one)(int32_t sum, struct quant_unit unit)
{
    double quotient = (double)sum * unit.reciprocal, wide = quotient * 257.0;
    return (float)((wide - (wide - quotient)) * unit.power);
}

TARGET static struct quant_finish LOOP(divide)(float *ret_mean, const int32_t *a, const int32_t *b,
                                               struct quant_unit unit, uint64_t count)
{
    LOOP(vu8) check = {0}, over = {0}, size = {0}, mean_check = {0};
    uint64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        LOOP(vu8) left = *(const LOOP(vu8) *)(const void *)(a + i);
        LOOP(vu8) right = *(const LOOP(vu8) *)(const void *)(b + i), sum = left + right;
        over |= (left ^ sum) & (right ^ sum);
        check += sum;
        size |= sum ^ (LOOP(vu8))((LOOP(vi8))sum >> 31);
        LOOP(vd) quotient = __builtin_convertvector((LOOP(vi8))sum, LOOP(vd)) * unit.reciprocal;
        LOOP(vd) wide = quotient * 257.0;
        LOOP(v8) mean = __builtin_convertvector((wide - (wide - quotient)) * unit.power, LOOP(v8));
        mean_check += (LOOP(vu8))mean;
        *(LOOP(v8) *)(void *)(ret_mean + i) = mean;
    }
    struct quant_finish done = {{0}, 0, 0};
    for (int k = 0; k < 8; k++) {
        done.flow.check += check[k];
        done.flow.overflow = done.flow.overflow || over[k] >> 31 != 0;
        done.size |= size[k];
        done.mean_check += mean_check[k];
    }
    for (; i < count; i++) {
        int32_t sum;
        add_word(&sum, (uint32_t)a[i], (uint32_t)b[i], &done.flow);
        ret_mean[i] = LOOP(divide_one)(sum, unit);
        done.size |= (uint32_t)(sum ^ (sum >> 31));
        done.mean_check += bits_of(ret_mean[i]);
    }
    return done;
}

TARGET static void LOOP(plain_join)(float *ret, const float *a, const float *b, uint64_t count)
{
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        *(VF *)(void *)(ret + i) =
            *(const VF *)(const void *)(a + i) + *(const VF *)(const void *)(b + i);
    for (; i < count; i++) ret[i] = a[i] + b[i];
}

TARGET static void LOOP(plain_scale)(float *ret, const float *a, float unit, uint64_t count)
{
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        *(VF *)(void *)(ret + i) = *(const VF *)(const void *)(a + i) * unit;
    for (; i < count; i++) ret[i] = a[i] * unit;
}

TARGET static double LOOP(squares)(const float *x, uint64_t count)
{
    LOOP(vd) lanes = {0};
    uint64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        LOOP(vd) wide = __builtin_convertvector(*(const LOOP(v8) *)(const void *)(x + i), LOOP(vd));
        lanes += wide * wide;
    }
    double lane[8];
    for (int k = 0; k < 8; k++) lane[k] = lanes[k];
    for (; i < count; i++) lane[i % 8] += (double)x[i] * (double)x[i];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

#undef VF
#undef VI
#undef VU
#undef LOOP
#undef TARGET
#undef LANES
#undef ROUND
#undef MAX
#undef ANY_NEGATIVE
#undef LARGEST
#undef TOTAL
#undef TOGETHER
