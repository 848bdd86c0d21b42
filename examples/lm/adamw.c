#include "adamw.h"
#include <math.h>

struct adamw_options adamw_defaults(float peak_rate, uint64_t steps)
{
    return (struct adamw_options){
        .peak_rate = peak_rate,
        .final_share = 0.1f,
        /* With half of this the loss of 200 steps jumps by 1 and more on the way down. */
        .warmup_steps = steps / 5 < 100 ? steps / 5 : 100,
        .steps = steps,
        .beta1 = 0.9f,
        .beta2 = 0.95f, /* GPT-3's choice (Brown et al. 2020, appendix B): short runs need it */
        .epsilon = 1e-8f,
        .decay = 0.1f,
        .clip = 1.0f,
    };
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

double adamw_norm(const float *gradient, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)gradient[i] * (double)gradient[i];
    return sqrt(sum);
}

static double power(double base, uint64_t exponent)
{
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2 == 1) result *= base;
    return result;
}

/* What is the same for all values of one step. */
struct step_scales {
    float rate, decay, clip; /* decay: rate * decay of this tensor */
    float beta1, beta2, epsilon;
    float mean_scale, variance_scale; /* 1 / (1 - beta^t): the moments start at 0 */
};

static void apply_tensor(const struct step_scales *scales, size_t count, const float *gradient,
                         float *params, float *mean, float *variance)
{
    const struct step_scales s = *scales;
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] * s.clip;
        float m = s.beta1 * mean[i] + (1.0f - s.beta1) * g;
        float v = s.beta2 * variance[i] + (1.0f - s.beta2) * (g * g);
        mean[i] = m;
        variance[i] = v;
        float step = m * s.mean_scale / (sqrtf(v * s.variance_scale) + s.epsilon);
        params[i] -= s.rate * step + s.decay * params[i];
    }
}

void adamw_apply(const struct model *model, const struct adamw_options *options, uint64_t step,
                 const float *gradient, float *params, float *mean, float *variance)
{
    double norm = adamw_norm(gradient, model->param_count);
    struct step_scales scales = {
        .rate = adamw_rate(options, step),
        .clip = norm > (double)options->clip ? (float)((double)options->clip / norm) : 1.0f,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .epsilon = options->epsilon,
        .mean_scale = (float)(1.0 / (1.0 - power((double)options->beta1, step + 1))),
        .variance_scale = (float)(1.0 / (1.0 - power((double)options->beta2, step + 1))),
    };
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const struct model_tensor *tensor = &model->tensors[t];
        size_t at = tensor->offset;
        scales.decay = tensor->dims == 2 ? scales.rate * options->decay : 0.0f;
        apply_tensor(&scales, tensor->count, gradient + at, params + at, mean + at, variance + at);
    }
}
