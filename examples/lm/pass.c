#include "pass.h"
#include "base/mem.h"
#include "ops.h"
#include <string.h>

/* What a layer keeps for its backward pass. R = rows = sequences * context, C = width. */
struct layer_trace {
    float *in;                              /* [R, C] residual stream before the layer */
    float *norm1, *mean1, *scale1;          /* [R, C], [R], [R] */
    float *qkv, *probabilities, *attention; /* [R, 3C], [sequences, heads, T, T], [R, C] */
    float *middle;                          /* [R, C] residual stream after attention */
    float *norm2, *mean2, *scale2;          /* as above */
    float *up, *active;                     /* [R, 4C] before and after GELU */
};

struct pass {
    const struct model *model;
    const float *params;
    uint32_t sequences_max, sequence_count;
    uint16_t *inputs, *targets;          /* [R] */
    struct layer_trace *layers;          /* [layers] */
    float *last, *norm, *mean, *scale;   /* after the last layer */
    float *logits, *sums;                /* [R, vocabulary]: see cross_entropy(); [R] */
    float *d_stream, *d_narrow, *d_wide; /* [R, C], [R, C], [R, 4C] */
    float *d_dropped;                    /* [R, C]: d_stream after a dropout */
    float *squares;                      /* [2, T, T] */
    float *memory;                       /* all float arrays above */
    struct pass_noise noise;
};

/* Where dropout may happen; a layer has all but the first of its own. */
enum dropout_place { DROP_EMBEDDING, DROP_ATTENTION, DROP_PROJECT, DROP_DOWN, DROP_PLACES };

/* Hands out pieces of one block; with memory NULL it only counts. Pieces start on a cache line. */
struct carver {
    float *memory;
    size_t used;
};

static float *carve(struct carver *carver, size_t count)
{
    size_t at = carver->used;
    carver->used += (count + 15) / 16 * 16;
    return carver->memory == NULL ? NULL : carver->memory + at;
}

static void carve_layer(struct carver *carver, const struct model_config *config, size_t sequences,
                        struct layer_trace *ret_layer)
{
    size_t context = config->context, rows = sequences * context, plane = rows * config->width;
    ret_layer->in = carve(carver, plane);
    ret_layer->norm1 = carve(carver, plane);
    ret_layer->mean1 = carve(carver, rows);
    ret_layer->scale1 = carve(carver, rows);
    ret_layer->qkv = carve(carver, 3 * plane);
    ret_layer->probabilities = carve(carver, sequences * config->heads * context * context);
    ret_layer->attention = carve(carver, plane);
    ret_layer->middle = carve(carver, plane);
    ret_layer->norm2 = carve(carver, plane);
    ret_layer->mean2 = carve(carver, rows);
    ret_layer->scale2 = carve(carver, rows);
    ret_layer->up = carve(carver, 4 * plane);
    ret_layer->active = carve(carver, 4 * plane);
}

static void carve_pass(struct carver *carver, struct pass *pass)
{
    const struct model_config *config = &pass->model->config;
    size_t rows = (size_t)pass->sequences_max * config->context, plane = rows * config->width;
    for (uint32_t i = 0; i < config->layers; i++)
        carve_layer(carver, config, pass->sequences_max, &pass->layers[i]);
    pass->last = carve(carver, plane);
    pass->norm = carve(carver, plane);
    pass->mean = carve(carver, rows);
    pass->scale = carve(carver, rows);
    pass->logits = carve(carver, rows * config->vocabulary);
    pass->sums = carve(carver, rows);
    pass->d_stream = carve(carver, plane);
    pass->d_narrow = carve(carver, plane);
    pass->d_wide = carve(carver, 4 * plane);
    pass->d_dropped = carve(carver, plane);
    pass->squares = carve(carver, 2 * (size_t)config->context * config->context);
}

struct pass *pass_make(const struct model *model, uint32_t sequences_max, struct error *ret_error)
{
    struct pass *pass = mem_zalloc(1, sizeof *pass);
    if (pass == NULL) goto fail;
    size_t rows = (size_t)sequences_max * model->config.context;
    pass->model = model;
    pass->sequences_max = sequences_max;
    pass->inputs = mem_zalloc(rows, sizeof *pass->inputs);
    pass->targets = mem_zalloc(rows, sizeof *pass->targets);
    pass->layers = mem_zalloc(model->config.layers, sizeof *pass->layers);
    if (pass->inputs == NULL || pass->targets == NULL || pass->layers == NULL) goto fail;
    struct carver carver = {0};
    carve_pass(&carver, pass);
    carver = (struct carver){.memory = mem_zalloc(carver.used, sizeof *carver.memory)};
    if (carver.memory == NULL) goto fail;
    pass->memory = carver.memory;
    carve_pass(&carver, pass);
    return pass;
fail:
    pass_free(pass);
    (void)error_set(ret_error, "out of memory for the activations: use a smaller --batch");
    return NULL;
}

void pass_free(struct pass *pass)
{
    if (pass == NULL) return;
    mem_free(pass->memory);
    mem_free(pass->layers);
    mem_free(pass->targets);
    mem_free(pass->inputs);
    mem_free(pass);
}

static size_t pass_rows(const struct pass *pass)
{
    return (size_t)pass->sequence_count * pass->model->config.context;
}

/* A weight of a layer. The flat buffer is only read; model_layer() serves gradients as well. */
static const float *weight(const struct pass *pass, uint32_t layer, enum layer_tensor which)
{
    return model_layer(pass->model, (float *)(uintptr_t)pass->params, layer, which);
}

static float *params_of(const struct pass *pass)
{
    return (float *)(uintptr_t)pass->params; /* for the getters of model.h; never written */
}

/* Names the random choices of one place for one sequence of the slot. */
static uint64_t noise_key(const struct pass *pass, uint32_t layer, enum dropout_place place,
                          uint32_t sequence)
{
    uint64_t stream = (uint64_t)layer * DROP_PLACES + place;
    return counter_bits(pass->noise.key, stream, pass->noise.first_sequence + sequence);
}

/* inout [R, C]; forward and backward alike. */
static void drop_plane(const struct pass *pass, uint32_t layer, enum dropout_place place,
                       float *inout)
{
    size_t plane = (size_t)pass->model->config.context * pass->model->config.width;
    if (pass->noise.dropout.threshold == 0) return;
    for (uint32_t i = 0; i < pass->sequence_count; i++)
        dropout_apply(pass->noise.dropout, noise_key(pass, layer, place, i), plane,
                      inout + i * plane);
}

/* The gradient of what was added to the residual stream after a dropout. */
static const float *d_before_drop(const struct pass *pass, uint32_t layer, enum dropout_place place)
{
    if (pass->noise.dropout.threshold == 0) return pass->d_stream;
    memcpy(pass->d_dropped, pass->d_stream,
           pass_rows(pass) * pass->model->config.width * sizeof *pass->d_stream);
    drop_plane(pass, layer, place, pass->d_dropped);
    return pass->d_dropped;
}

static void split_sequences(struct pass *pass, const uint16_t *sequences)
{
    size_t context = pass->model->config.context;
    for (uint32_t i = 0; i < pass->sequence_count; i++) {
        const uint16_t *from = sequences + i * (context + 1);
        memcpy(pass->inputs + i * context, from, context * sizeof *from);
        memcpy(pass->targets + i * context, from + 1, context * sizeof *from);
    }
}

static void embed(const struct pass *pass, float *ret_stream)
{
    size_t width = pass->model->config.width, context = pass->model->config.context;
    const float *tokens = model_tokens(pass->model, params_of(pass));
    const float *positions = model_positions(pass->model, params_of(pass));
    for (size_t row = 0; row < pass_rows(pass); row++) {
        const float *token = tokens + pass->inputs[row] * width;
        const float *position = positions + row % context * width;
        for (size_t i = 0; i < width; i++) ret_stream[row * width + i] = token[i] + position[i];
    }
    drop_plane(pass, 0, DROP_EMBEDDING, ret_stream);
}

static void embed_backward(const struct pass *pass, float *gradient)
{
    size_t width = pass->model->config.width, context = pass->model->config.context;
    float *tokens = model_tokens(pass->model, gradient);
    float *positions = model_positions(pass->model, gradient);
    memset(positions, 0, context * width * sizeof *positions);
    if (!pass->model->config.tied) /* else it holds the gradient of the head by now */
        memset(tokens, 0, pass->model->config.vocabulary * width * sizeof *tokens);
    drop_plane(pass, 0, DROP_EMBEDDING, pass->d_stream);
    for (size_t row = 0; row < pass_rows(pass); row++) {
        const float *d = pass->d_stream + row * width;
        add_rows(width, d, tokens + pass->inputs[row] * width);
        add_rows(width, d, positions + row % context * width);
    }
}

static struct head_shape head_shape_of(const struct pass *pass)
{
    const struct model_config *config = &pass->model->config;
    return (struct head_shape){.length = config->context,
                               .size = config->width / config->heads,
                               .qkv_stride = 3 * (size_t)config->width,
                               .out_stride = config->width,
                               .dropout = pass->noise.dropout};
}

static void attention_forward(const struct pass *pass, uint32_t layer)
{
    const struct model_config *config = &pass->model->config;
    const struct layer_trace *trace = &pass->layers[layer];
    struct head_shape shape = head_shape_of(pass);
    size_t square = shape.length * shape.length;
    for (uint32_t sequence = 0; sequence < pass->sequence_count; sequence++) {
        uint64_t key = noise_key(pass, layer, DROP_ATTENTION, sequence);
        for (size_t head = 0; head < config->heads; head++) {
            shape.key = counter_bits(key, head, 0);
            size_t row = sequence * shape.length, column = head * shape.size;
            const float *q = trace->qkv + row * shape.qkv_stride + column;
            head_forward(shape, q, q + config->width, q + 2 * (size_t)config->width,
                         trace->probabilities + (sequence * config->heads + head) * square,
                         pass->squares, trace->attention + row * shape.out_stride + column);
        }
    }
}

/* d_attention [R, C] -> d_qkv [R, 3C] */
static void attention_backward(const struct pass *pass, uint32_t layer, const float *d_attention,
                               float *ret_d_qkv)
{
    const struct model_config *config = &pass->model->config;
    const struct layer_trace *trace = &pass->layers[layer];
    struct head_shape shape = head_shape_of(pass);
    size_t square = shape.length * shape.length, width = config->width;
    for (uint32_t sequence = 0; sequence < pass->sequence_count; sequence++) {
        uint64_t key = noise_key(pass, layer, DROP_ATTENTION, sequence);
        for (size_t head = 0; head < config->heads; head++) {
            shape.key = counter_bits(key, head, 0);
            size_t row = sequence * shape.length, column = head * shape.size;
            size_t at = row * shape.qkv_stride + column;
            const float *q = trace->qkv + at;
            float *d_q = ret_d_qkv + at;
            head_backward(shape, q, q + width, q + 2 * width,
                          trace->probabilities + (sequence * config->heads + head) * square,
                          d_attention + row * shape.out_stride + column, pass->squares,
                          (struct head_gradients){d_q, d_q + width, d_q + 2 * width});
        }
    }
}

/* One layer: out = middle + mlp(norm(middle)), middle = in + attention(norm(in)). */
static void layer_forward(const struct pass *pass, uint32_t layer, float *ret_out)
{
    const struct layer_trace *trace = &pass->layers[layer];
    size_t rows = pass_rows(pass), width = pass->model->config.width;
    norm_forward(rows, width, trace->in, weight(pass, layer, LAYER_NORM1_WEIGHT),
                 weight(pass, layer, LAYER_NORM1_BIAS), trace->norm1, trace->mean1, trace->scale1);
    linear_forward((struct linear_shape){rows, width, 3 * width}, trace->norm1,
                   weight(pass, layer, LAYER_QKV_WEIGHT), weight(pass, layer, LAYER_QKV_BIAS),
                   trace->qkv);
    attention_forward(pass, layer);
    linear_forward((struct linear_shape){rows, width, width}, trace->attention,
                   weight(pass, layer, LAYER_PROJECT_WEIGHT),
                   weight(pass, layer, LAYER_PROJECT_BIAS), trace->middle);
    drop_plane(pass, layer, DROP_PROJECT, trace->middle);
    add_rows(rows * width, trace->in, trace->middle);
    norm_forward(rows, width, trace->middle, weight(pass, layer, LAYER_NORM2_WEIGHT),
                 weight(pass, layer, LAYER_NORM2_BIAS), trace->norm2, trace->mean2, trace->scale2);
    linear_forward((struct linear_shape){rows, width, 4 * width}, trace->norm2,
                   weight(pass, layer, LAYER_UP_WEIGHT), weight(pass, layer, LAYER_UP_BIAS),
                   trace->up);
    gelu_forward(rows * 4 * width, trace->up, trace->active);
    linear_forward((struct linear_shape){rows, 4 * width, width}, trace->active,
                   weight(pass, layer, LAYER_DOWN_WEIGHT), weight(pass, layer, LAYER_DOWN_BIAS),
                   ret_out);
    drop_plane(pass, layer, DROP_DOWN, ret_out);
    add_rows(rows * width, trace->middle, ret_out);
}

static void mlp_backward(const struct pass *pass, uint32_t layer, float *gradient)
{
    const struct layer_trace *trace = &pass->layers[layer];
    const struct model *model = pass->model;
    size_t rows = pass_rows(pass), width = model->config.width;
    linear_backward((struct linear_shape){rows, 4 * width, width},
                    d_before_drop(pass, layer, DROP_DOWN), trace->active,
                    weight(pass, layer, LAYER_DOWN_WEIGHT), pass->d_wide,
                    model_layer(model, gradient, layer, LAYER_DOWN_WEIGHT),
                    model_layer(model, gradient, layer, LAYER_DOWN_BIAS));
    gelu_backward(rows * 4 * width, trace->up, pass->d_wide);
    linear_backward((struct linear_shape){rows, width, 4 * width}, pass->d_wide, trace->norm2,
                    weight(pass, layer, LAYER_UP_WEIGHT), pass->d_narrow,
                    model_layer(model, gradient, layer, LAYER_UP_WEIGHT),
                    model_layer(model, gradient, layer, LAYER_UP_BIAS));
    norm_backward(rows, width, pass->d_narrow, trace->middle,
                  weight(pass, layer, LAYER_NORM2_WEIGHT), trace->mean2, trace->scale2,
                  pass->d_stream, model_layer(model, gradient, layer, LAYER_NORM2_WEIGHT),
                  model_layer(model, gradient, layer, LAYER_NORM2_BIAS));
}

/* d_stream: gradient of the residual stream after the layer; before it, on return. */
static void layer_backward(const struct pass *pass, uint32_t layer, float *gradient)
{
    const struct layer_trace *trace = &pass->layers[layer];
    const struct model *model = pass->model;
    size_t rows = pass_rows(pass), width = model->config.width;
    mlp_backward(pass, layer, gradient);
    linear_backward((struct linear_shape){rows, width, width},
                    d_before_drop(pass, layer, DROP_PROJECT), trace->attention,
                    weight(pass, layer, LAYER_PROJECT_WEIGHT), pass->d_narrow,
                    model_layer(model, gradient, layer, LAYER_PROJECT_WEIGHT),
                    model_layer(model, gradient, layer, LAYER_PROJECT_BIAS));
    attention_backward(pass, layer, pass->d_narrow, pass->d_wide);
    linear_backward((struct linear_shape){rows, width, 3 * width}, pass->d_wide, trace->norm1,
                    weight(pass, layer, LAYER_QKV_WEIGHT), pass->d_narrow,
                    model_layer(model, gradient, layer, LAYER_QKV_WEIGHT),
                    model_layer(model, gradient, layer, LAYER_QKV_BIAS));
    norm_backward(rows, width, pass->d_narrow, trace->in, weight(pass, layer, LAYER_NORM1_WEIGHT),
                  trace->mean1, trace->scale1, pass->d_stream,
                  model_layer(model, gradient, layer, LAYER_NORM1_WEIGHT),
                  model_layer(model, gradient, layer, LAYER_NORM1_BIAS));
}

/* Everything but the loss. */
static void forward(struct pass *pass, const float *params, const uint16_t *sequences,
                    uint32_t count, const struct pass_noise *noise)
{
    const struct model_config *config = &pass->model->config;
    pass->params = params;
    pass->sequence_count = count;
    pass->noise = noise == NULL ? (struct pass_noise){0} : *noise;
    size_t rows = pass_rows(pass);
    split_sequences(pass, sequences);
    embed(pass, pass->layers[0].in);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        layer_forward(pass, layer,
                      layer + 1 < config->layers ? pass->layers[layer + 1].in : pass->last);
    norm_forward(rows, config->width, pass->last, model_norm_weight(pass->model, params_of(pass)),
                 model_norm_bias(pass->model, params_of(pass)), pass->norm, pass->mean,
                 pass->scale);
    linear_forward((struct linear_shape){rows, config->width, config->vocabulary}, pass->norm,
                   model_head(pass->model, params_of(pass)), NULL /* no bias */, pass->logits);
}

double pass_forward(struct pass *pass, const float *params, const uint16_t *sequences,
                    uint32_t count, const struct pass_noise *noise)
{
    forward(pass, params, sequences, count, noise);
    return cross_entropy(pass_rows(pass), pass->model->config.vocabulary, pass->targets,
                         pass->logits, pass->sums);
}

static void tell(const struct pass_watch *watch, uint32_t stage)
{
    if (watch != NULL) watch->done(watch->context, stage);
}

void pass_backward(struct pass *pass, float scale, float *gradient, const struct pass_watch *watch)
{
    const struct model *model = pass->model;
    const struct model_config *config = &model->config;
    size_t rows = pass_rows(pass);
    cross_entropy_backward(rows, config->vocabulary, scale, pass->targets, pass->sums,
                           pass->logits);
    linear_backward((struct linear_shape){rows, config->width, config->vocabulary}, pass->logits,
                    pass->norm, model_head(model, params_of(pass)), pass->d_narrow,
                    model_head(model, gradient), NULL /* no bias */);
    memset(pass->d_stream, 0, rows * config->width * sizeof *pass->d_stream);
    norm_backward(rows, config->width, pass->d_narrow, pass->last,
                  model_norm_weight(model, params_of(pass)), pass->mean, pass->scale,
                  pass->d_stream, model_norm_weight(model, gradient),
                  model_norm_bias(model, gradient));
    tell(watch, 0);
    for (uint32_t layer = config->layers; layer-- > 0;) {
        layer_backward(pass, layer, gradient);
        tell(watch, config->layers - layer);
    }
    embed_backward(pass, gradient);
    tell(watch, config->layers + 1);
}

void pass_logits(struct pass *pass, const float *params, const uint16_t *sequences, uint32_t count)
{
    forward(pass, params, sequences, count, NULL /* no dropout */);
}

const float *pass_row(const struct pass *pass, uint32_t sequence, uint32_t position)
{
    size_t row = (size_t)sequence * pass->model->config.context + position;
    return pass->logits + row * pass->model->config.vocabulary;
}
