#include "adamw.h"
#include "rows.h"
#include <math.h>

struct adamw_options adamw_defaults(float peak_rate)
{
    return (struct adamw_options){
        .peak_rate = peak_rate,
        .final_share = 0.1f,
        .warmup_steps = ADAMW_WARMUP_AUTO,
        .beta1 = 0.9f,
        .beta2 = 0.95f, /* GPT-3's choice (Brown et al. 2020, appendix B): short runs need it */
        .epsilon = 1e-8f,
        .decay = 0.1f,
        .clip = 1.0f,
    };
}

struct adamw_options adamw_of_job(const struct adamw_options *options, uint64_t steps)
{
    struct adamw_options settled = *options;
    settled.steps = steps;
    /* With half of this the loss of 200 steps jumps by 1 and more on the way down. */
    if (settled.warmup_steps == ADAMW_WARMUP_AUTO)
        settled.warmup_steps = steps / 5 < 100 ? steps / 5 : 100;
    return settled;
}

/* cos(pi x) for x in [0, 1] as -sin(pi (x - 1/2)): Taylor to y^15, error below 1e-11. */
static double cosine_half_turn(double x)
{
    double y = 3.14159265358979323846 * (x - 0.5), square = y * y, term = y, sum = y;
    for (int k = 3; k <= 15; k += 2) {
        term *= -square / (double)(k * (k - 1));
        sum += term;
    }
    return -sum;
}

float adamw_rate(const struct adamw_options *options, uint64_t step)
{
    if (step < options->warmup_steps)
        return options->peak_rate * (float)((double)(step + 1) / (double)options->warmup_steps);
    if (step >= options->steps) return options->peak_rate * options->final_share;
    double done =
        (double)(step - options->warmup_steps) / (double)(options->steps - options->warmup_steps);
    double share =
        options->final_share + (1.0 - options->final_share) * 0.5 * (1.0 + cosine_half_turn(done));
    return options->peak_rate * (float)share;
}

static double power(double base, uint64_t exponent)
{
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2 == 1) result *= base;
    return result;
}

struct adamw_scales adamw_scales(const struct adamw_options *options, uint64_t step, double norm)
{
    float rate = adamw_rate(options, step);
    bool clipped = options->clip > 0 && norm > (double)options->clip;
    return (struct adamw_scales){
        .rate = rate,
        .decay = rate * options->decay,
        .clip = clipped ? (float)((double)options->clip / norm) : 1.0f,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .epsilon = options->epsilon,
        .mean_scale = (float)(1.0 / (1.0 - power((double)options->beta1, step + 1))),
        .variance_scale = (float)(1.0 / (1.0 - power((double)options->beta2, step + 1))),
    };
}

WIDE void adamw_range(const struct adamw_scales *scales, bool decays, size_t count,
                      const float *gradient, float *params, float *mean, float *variance)
{
    const struct adamw_scales s = *scales;
    const float decay = decays ? s.decay : 0.0f;
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] * s.clip;
        float m = s.beta1 * mean[i] + (1.0f - s.beta1) * g;
        float v = s.beta2 * variance[i] + (1.0f - s.beta2) * (g * g);
        mean[i] = m;
        variance[i] = v;
        float step = m * s.mean_scale / (sqrtf(v * s.variance_scale) + s.epsilon);
        params[i] -= s.rate * step + decay * params[i];
    }
}
