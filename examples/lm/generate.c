#include "generate.h"
#include "base/mem.h"
#include "pass.h"
#include <math.h>
#include <string.h>

static const uint64_t generate_stream = UINT64_C(1) << 40; /* apart from the tensors' streams */

static uint16_t draw(const float *probabilities, uint32_t classes, float uniform)
{
    float total = 0; /* p^(5/4) = p * sqrt(sqrt(p)): exact roots, no pow() */
    for (uint32_t i = 0; i < classes; i++)
        total += probabilities[i] * sqrtf(sqrtf(probabilities[i]));
    float left = uniform * total;
    for (uint32_t i = 0; i < classes; i++) {
        left -= probabilities[i] * sqrtf(sqrtf(probabilities[i]));
        if (left < 0) return (uint16_t)i;
    }
    return (uint16_t)(classes - 1); /* rounding took the last crumb */
}

bool generate_text(const struct model *model, const float *params, uint64_t seed, size_t count,
                   char *ret_text, struct error *ret_error)
{
    uint32_t context = model->config.context, length = 1;
    struct pass *pass = pass_make(model, 1, ret_error);
    uint16_t *sequence = mem_zalloc(context + 1, sizeof *sequence);
    bool done = pass != NULL && sequence != NULL;
    if (pass != NULL && sequence == NULL) (void)error_set(ret_error, "out of memory");
    if (done) sequence[0] = '\n';
    for (size_t i = 0; done && i < count; i++) {
        (void)pass_forward(pass, params, sequence, 1); /* the loss means nothing here */
        uint16_t next = draw(pass_probabilities(pass, 0, length - 1), model->config.vocabulary,
                             counter_uniform(seed, generate_stream, i));
        ret_text[i] = (char)next;
        if (length == context)
            memmove(sequence, sequence + 1, (context - 1) * sizeof *sequence);
        else
            length++;
        sequence[length - 1] = next;
    }
    mem_free(sequence);
    pass_free(pass);
    return done;
}
