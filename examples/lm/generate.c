#include "generate.h"
#include "base/mem.h"
#include "decode.h"
#include "rows.h"
#include <stdlib.h>
#include <string.h>

static const uint64_t generate_stream = UINT64_C(1) << 40; /* apart from the tensors' streams */

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Takes all below the top_k-th largest out of the draw. */
static void keep_top(uint32_t classes, uint32_t top_k, float *sorted, float *inout_logits)
{
    if (top_k == 0 || top_k >= classes) return;
    memcpy(sorted, inout_logits, classes * sizeof *sorted);
    qsort(sorted, classes, sizeof *sorted, descending);
    for (uint32_t i = 0; i < classes; i++)
        if (inout_logits[i] < sorted[top_k - 1]) inout_logits[i] = -1e30f; /* e^-87 of the best */
}

static uint16_t likeliest(uint32_t classes, const float *logits)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < classes; i++)
        if (logits[i] > logits[best]) best = i;
    return (uint16_t)best;
}

static uint16_t draw(const struct generate_options *options, uint32_t classes, float uniform,
                     float *sorted, float *logits)
{
    if (options->temperature <= 0) return likeliest(classes, logits);
    keep_top(classes, options->top_k, sorted, logits);
    scale_row(classes, 1.0f / options->temperature, logits);
    float left = uniform * exponentials_row(classes, logits);
    uint16_t last = 0;
    for (uint32_t i = 0; i < classes; i++) {
        if (logits[i] < 1e-37f) continue; /* underflow, or not among the top */
        last = (uint16_t)i;
        left -= logits[i];
        if (left < 0) break;
    }
    return last;
}

/* Feeds the prompt; a line break stands for one that is missing. Returns the logits after it. */
static float *feed_prompt(struct decoder *decoder, const struct tokenizer *tokenizer,
                          const char *prompt, FILE *out, struct error *ret_error)
{
    size_t bytes = prompt == NULL ? 0 : strlen(prompt);
    if (bytes == 0) return decoder_push(decoder, '\n');
    uint16_t *tokens = mem_alloc(bytes * sizeof *tokens);
    if (tokens == NULL) {
        (void)error_set(ret_error, "out of memory for --prompt");
        return NULL;
    }
    size_t count = tokenizer_encode(tokenizer, (const uint8_t *)prompt, bytes, tokens);
    float *logits = NULL;
    for (size_t i = 0; i < count; i++) logits = decoder_push(decoder, tokens[i]);
    mem_free(tokens);
    (void)fwrite(prompt, 1, bytes, out); /* the caller looks at ferror() */
    return logits;
}

bool generate_text(const struct model *model, const float *params,
                   const struct tokenizer *tokenizer, const struct generate_options *options,
                   FILE *out, struct error *ret_error)
{
    uint32_t classes = model->config.vocabulary;
    struct decoder *decoder = decoder_make(model, params, ret_error);
    float *sorted = mem_alloc(classes * sizeof *sorted), *logits = NULL;
    if (decoder != NULL && sorted == NULL) (void)error_set(ret_error, "out of memory");
    if (decoder != NULL && sorted != NULL)
        logits = feed_prompt(decoder, tokenizer, options->prompt, out, ret_error);
    bool started = logits != NULL;
    for (uint32_t i = 0; logits != NULL && i < options->count; i++) {
        uint16_t token = draw(options, classes, counter_uniform(options->seed, generate_stream, i),
                              sorted, logits);
        size_t bytes;
        const uint8_t *text = tokenizer_decode(tokenizer, token, &bytes);
        if (fwrite(text, 1, bytes, out) != bytes || fflush(out) != 0)
            started = error_set(ret_error, "cannot write the text");
        logits = started && i + 1 < options->count ? decoder_push(decoder, token) : NULL;
    }
    mem_free(sorted);
    decoder_free(decoder);
    return started;
}
