#include "rows.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LANES = 8, BLOCK = 512 };

/* exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2) / 2; Taylor to r^7 leaves 5e-9. Adding
 * and taking away 1.5 * 2^23 rounds to an integer without a branch or a library call. */
static inline float exp_clamped(float x)
{
    const float rounder = 12582912.0f;
    float n = (x * 1.44269504f + rounder) - rounder;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23; /* 2^n, n in [-126, 127] */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* The clamp has a loop of its own: in one loop gcc computes the clamped case for every element,
 * divides by its huge result in gelu_forward(), and denormal numbers make that ten times slower. */
WIDE void exp_values(size_t count, float *inout)
{
    for (size_t i = 0; i < count; i++) {
        float x = inout[i];
        x = x < -87.0f ? -87.0f : x;
        inout[i] = x > 88.0f ? 88.0f : x;
    }
    for (size_t i = 0; i < count; i++) inout[i] = exp_clamped(inout[i]);
}

/* x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh((m - 1) / (m + 1)), whose argument is
 * at most 0.172: the series to the 17th power leaves 1e-15. */
double log_value(double x)
{
    int exponent;
    double m = frexp(x, &exponent); /* exact */
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int k = 17; k >= 3; k -= 2) sum = (sum + 1.0 / k) * square;
    return 2 * (s * sum + s) + exponent * 0.69314718055994531;
}

static inline float lanes_sum(const float lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static inline float sum_row(size_t count, const float *values)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += values[i + l];
    for (; i < count; i++) lane[i % LANES] += values[i];
    return lanes_sum(lane);
}

static inline float dot_inline(size_t count, const float *a, const float *b)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
    for (; i < count; i++) lane[i % LANES] += a[i] * b[i];
    return lanes_sum(lane);
}

WIDE float dot_row(size_t count, const float *a, const float *b)
{
    return dot_inline(count, a, b);
}

static inline float max_row(size_t count, const float *values)
{
    float lane[LANES];
    for (size_t l = 0; l < LANES; l++) lane[l] = values[0];
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = values[i + l] > lane[l] ? values[i + l] : lane[l];
    for (; i < count; i++) lane[0] = values[i] > lane[0] ? values[i] : lane[0];
    for (size_t l = 1; l < LANES; l++) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

WIDE void add_rows(size_t count, const float *in, float *inout)
{
    for (size_t i = 0; i < count; i++) inout[i] += in[i];
}

WIDE void scale_row(size_t count, float factor, float *inout)
{
    for (size_t i = 0; i < count; i++) inout[i] *= factor;
}

WIDE void sum_columns(size_t rows, size_t width, const float *in, float *ret_sums)
{
    memset(ret_sums, 0, width * sizeof *ret_sums);
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < width; i++) ret_sums[i] += in[row * width + i];
}

WIDE void norm_forward(size_t rows, size_t width, const float *in, const float *weight,
                       const float *bias, float *ret_out, float *ret_means, float *ret_scales)
{
    const float epsilon = 1e-5f;
    for (size_t row = 0; row < rows; row++) {
        const float *x = in + row * width;
        float *y = ret_out + row * width;
        float mean = sum_row(width, x) / (float)width;
        for (size_t i = 0; i < width; i++) y[i] = x[i] - mean;
        float scale = 1.0f / sqrtf(dot_inline(width, y, y) / (float)width + epsilon);
        for (size_t i = 0; i < width; i++) y[i] = y[i] * scale * weight[i] + bias[i];
        ret_means[row] = mean;
        ret_scales[row] = scale;
    }
}

/* Means of dy w and of dy w xhat over a row. */
static inline void norm_row_means(size_t width, const float *dy, const float *x,
                                  const float *weight, float mean, float scale, float ret_means[2])
{
    float plain[LANES] = {0}, tilted[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= width; i += LANES)
        for (size_t l = 0; l < LANES; l++) plain[l] += dy[i + l] * weight[i + l];
    for (; i < width; i++) plain[i % LANES] += dy[i] * weight[i];
    for (i = 0; i + LANES <= width; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            tilted[l] += dy[i + l] * weight[i + l] * ((x[i + l] - mean) * scale);
    for (; i < width; i++) tilted[i % LANES] += dy[i] * weight[i] * ((x[i] - mean) * scale);
    ret_means[0] = lanes_sum(plain) / (float)width;
    ret_means[1] = lanes_sum(tilted) / (float)width;
}

/* Adds a row to the three gradients. (restrict: or the compiler would not use vectors.) */
static inline void norm_row_add(size_t width, const float *restrict dy, const float *restrict x,
                                const float *restrict weight, float mean, float scale,
                                const float means[2], float *restrict dx, float *restrict d_weight,
                                float *restrict d_bias)
{
    const float plain = means[0], tilted = means[1];
    for (size_t i = 0; i < width; i++) {
        float xhat = (x[i] - mean) * scale;
        d_weight[i] += dy[i] * xhat;
        d_bias[i] += dy[i];
        dx[i] += scale * (dy[i] * weight[i] - plain - xhat * tilted);
    }
}

WIDE void norm_backward(size_t rows, size_t width, const float *d_out, const float *in,
                        const float *weight, const float *means, const float *scales, float *d_in,
                        float *ret_d_weight, float *ret_d_bias)
{
    memset(ret_d_weight, 0, width * sizeof *ret_d_weight);
    memset(ret_d_bias, 0, width * sizeof *ret_d_bias);
    for (size_t row = 0; row < rows; row++) {
        const float *x = in + row * width, *dy = d_out + row * width;
        float sums[2];
        norm_row_means(width, dy, x, weight, means[row], scales[row], sums);
        norm_row_add(width, dy, x, weight, means[row], scales[row], sums, d_in + row * width,
                     ret_d_weight, ret_d_bias);
    }
}

static const float gelu_twice = 1.5957691f; /* 2 sqrt(2 / pi) */
static const float gelu_cubic = 0.044715f;

/* exp(-2u) of up to BLOCK values. */
static inline void gelu_exponentials(size_t count, const float *in, float *ret_values)
{
    for (size_t i = 0; i < count; i++) {
        float x = in[i], u = -gelu_twice * (x + gelu_cubic * x * x * x);
        u = u < -87.0f ? -87.0f : u;
        ret_values[i] = u > 88.0f ? 88.0f : u;
    }
    for (size_t i = 0; i < count; i++) ret_values[i] = exp_clamped(ret_values[i]);
}

WIDE void gelu_forward(size_t count, const float *in, float *ret_out)
{
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t block = count - at < BLOCK ? count - at : BLOCK;
        const float *x = in + at;
        float *out = ret_out + at;
        gelu_exponentials(block, x, out);
        for (size_t i = 0; i < block; i++) out[i] = x[i] / (1.0f + out[i]);
    }
}

WIDE void gelu_backward(size_t count, const float *in, float *d_inout)
{
    float gates[BLOCK];
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t block = count - at < BLOCK ? count - at : BLOCK;
        const float *x = in + at;
        float *d = d_inout + at;
        gelu_exponentials(block, x, gates);
        for (size_t i = 0; i < block; i++) {
            float gate = 1.0f / (1.0f + gates[i]);
            float slope = gelu_twice * (1.0f + 3.0f * gelu_cubic * x[i] * x[i]);
            d[i] *= gate + x[i] * gate * (1.0f - gate) * slope;
        }
    }
}

static inline float exponentials_inline(size_t count, float *inout)
{
    float top = max_row(count, inout);
    for (size_t i = 0; i < count; i++) { /* at most 0, so that only one side needs the clamp */
        float x = inout[i] - top;
        inout[i] = x < -87.0f ? -87.0f : x;
    }
    for (size_t i = 0; i < count; i++) inout[i] = exp_clamped(inout[i]);
    return sum_row(count, inout);
}

WIDE float exponentials_row(size_t count, float *inout)
{
    return exponentials_inline(count, inout);
}

WIDE void softmax_row(size_t count, float *inout)
{
    float inverse = 1.0f / exponentials_inline(count, inout);
    for (size_t i = 0; i < count; i++) inout[i] *= inverse;
}

struct dropout dropout_of(double share)
{
    uint32_t threshold = (uint32_t)(share * 65536 + 0.5);
    if (threshold > 65535) threshold = 65535;
    return (struct dropout){threshold, 65536.0f / (float)(65536 - threshold)};
}

/* The SplitMix64 finalizer (Steele, Lea, Flood, OOPSLA 2014) of the word's place. */
static inline uint64_t dropout_word(uint64_t key, uint64_t word)
{
    uint64_t bits = key + (word + 1) * UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

/* One word of random bits decides over four elements. */
WIDE void dropout_apply(struct dropout dropout, uint64_t key, size_t count, float *inout)
{
    for (size_t i = 0; i < count; i += 4) {
        uint64_t bits = dropout_word(key, i / 4);
        size_t end = count - i < 4 ? count - i : 4;
        for (size_t l = 0; l < end; l++) {
            bool kept = (uint32_t)(bits >> 16 * l & 0xffff) >= dropout.threshold;
            inout[i + l] = kept ? inout[i + l] * dropout.scale : 0.0f;
        }
    }
}
