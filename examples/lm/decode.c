#include "decode.h"
#include "base/mem.h"
#include "ops.h"
#include <math.h>
#include <string.h>

struct decoder {
    const struct model *model;
    const float *params;
    uint16_t *history; /* [context] */
    uint32_t length;
    float *keys, *values;                           /* [layers, context, width] */
    float *stream, *norm, *qkv, *attention, *added; /* [C], [C], [3C], [C], [C] */
    float *up, *active, *scores, *logits;           /* [4C], [4C], [context], [vocabulary] */
    float *memory;
};

struct decoder *decoder_make(const struct model *model, const float *params,
                             struct error *ret_error)
{
    const struct model_config *config = &model->config;
    size_t width = config->width, context = config->context;
    size_t cache = config->layers * context * width;
    struct decoder *decoder = mem_zalloc(1, sizeof *decoder);
    if (decoder != NULL) {
        decoder->model = model;
        decoder->params = params;
        decoder->history = mem_zalloc(context, sizeof *decoder->history);
        decoder->memory =
            mem_zalloc(2 * cache + 15 * width + context + config->vocabulary, sizeof(float));
    }
    if (decoder == NULL || decoder->history == NULL || decoder->memory == NULL) {
        decoder_free(decoder);
        (void)error_set(ret_error, "out of memory to write text");
        return NULL;
    }
    decoder->keys = decoder->memory;
    decoder->values = decoder->keys + cache;
    decoder->stream = decoder->values + cache;
    decoder->norm = decoder->stream + width;
    decoder->qkv = decoder->norm + width;
    decoder->attention = decoder->qkv + 3 * width;
    decoder->added = decoder->attention + width;
    decoder->up = decoder->added + width;
    decoder->active = decoder->up + 4 * width;
    decoder->scores = decoder->active + 4 * width;
    decoder->logits = decoder->scores + context;
    return decoder;
}

void decoder_free(struct decoder *decoder)
{
    if (decoder == NULL) return;
    mem_free(decoder->memory);
    mem_free(decoder->history);
    mem_free(decoder);
}

static const float *weight(const struct decoder *decoder, uint32_t layer, enum layer_tensor which)
{
    return model_layer(decoder->model, (float *)(uintptr_t)decoder->params, layer, which);
}

static void normalise(const struct decoder *decoder, const float *scale, const float *shift)
{
    float mean, inverse_deviation;
    norm_forward(1, decoder->model->config.width, decoder->stream, scale, shift, decoder->norm,
                 &mean, &inverse_deviation);
}

/* Of one head: what the newest position takes from all up to itself. */
static void attend(const struct decoder *decoder, const float *keys, const float *values,
                   size_t head)
{
    size_t width = decoder->model->config.width, size = width / decoder->model->config.heads;
    size_t column = head * size, count = decoder->length + 1;
    float *out = decoder->attention + column;
    for (size_t t = 0; t < count; t++)
        decoder->scores[t] = dot_row(size, decoder->qkv + column, keys + t * width + column);
    scale_row(count, 1.0f / sqrtf((float)size), decoder->scores);
    softmax_row(count, decoder->scores);
    memset(out, 0, size * sizeof *out);
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < size; i++)
            out[i] += decoder->scores[t] * values[t * width + column + i];
}

static void layer_step(struct decoder *decoder, uint32_t layer)
{
    size_t width = decoder->model->config.width;
    size_t cache = (size_t)layer * decoder->model->config.context * width;
    float *keys = decoder->keys + cache, *values = decoder->values + cache;
    normalise(decoder, weight(decoder, layer, LAYER_NORM1_WEIGHT),
              weight(decoder, layer, LAYER_NORM1_BIAS));
    linear_forward((struct linear_shape){1, width, 3 * width}, decoder->norm,
                   weight(decoder, layer, LAYER_QKV_WEIGHT), weight(decoder, layer, LAYER_QKV_BIAS),
                   decoder->qkv);
    memcpy(keys + decoder->length * width, decoder->qkv + width, width * sizeof *keys);
    memcpy(values + decoder->length * width, decoder->qkv + 2 * width, width * sizeof *values);
    for (size_t head = 0; head < decoder->model->config.heads; head++)
        attend(decoder, keys, values, head);
    linear_forward((struct linear_shape){1, width, width}, decoder->attention,
                   weight(decoder, layer, LAYER_PROJECT_WEIGHT),
                   weight(decoder, layer, LAYER_PROJECT_BIAS), decoder->added);
    add_rows(width, decoder->added, decoder->stream);
    normalise(decoder, weight(decoder, layer, LAYER_NORM2_WEIGHT),
              weight(decoder, layer, LAYER_NORM2_BIAS));
    linear_forward((struct linear_shape){1, width, 4 * width}, decoder->norm,
                   weight(decoder, layer, LAYER_UP_WEIGHT), weight(decoder, layer, LAYER_UP_BIAS),
                   decoder->up);
    gelu_forward(4 * width, decoder->up, decoder->active);
    linear_forward((struct linear_shape){1, 4 * width, width}, decoder->active,
                   weight(decoder, layer, LAYER_DOWN_WEIGHT),
                   weight(decoder, layer, LAYER_DOWN_BIAS), decoder->added);
    add_rows(width, decoder->added, decoder->stream);
}

static void step(struct decoder *decoder, uint16_t token)
{
    const struct model *model = decoder->model;
    float *params = (float *)(uintptr_t)decoder->params; /* for the getters; only read */
    size_t width = model->config.width;
    const float *position = model_positions(model, params) + decoder->length * width;
    memcpy(decoder->stream, model_tokens(model, params) + token * width,
           width * sizeof *decoder->stream);
    add_rows(width, position, decoder->stream);
    for (uint32_t layer = 0; layer < model->config.layers; layer++) layer_step(decoder, layer);
    decoder->history[decoder->length++] = token;
}

float *decoder_push(struct decoder *decoder, uint16_t token)
{
    const struct model *model = decoder->model;
    float *params = (float *)(uintptr_t)decoder->params;
    if (decoder->length == model->config.context) {
        uint32_t kept = model->config.context / 2, first = model->config.context - kept;
        decoder->length = 0;
        for (uint32_t i = 0; i < kept; i++) step(decoder, decoder->history[first + i]);
    }
    step(decoder, token);
    normalise(decoder, model_norm_weight(model, params), model_norm_bias(model, params));
    linear_forward((struct linear_shape){1, model->config.width, model->config.vocabulary},
                   decoder->norm, model_head(model, params), NULL /* no bias */, decoder->logits);
    return decoder->logits;
}
