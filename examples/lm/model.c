#include "model.h"
#include <math.h>
#include <stdio.h>

/* ORDER: layer_tensor. Shapes in units of the width; columns 0 means a vector. */
static const struct {
    const char *name;
    uint32_t rows, columns;
} layer_tensors[LAYER_TENSORS] = {
    {"norm1.weight", 1, 0},   {"norm1.bias", 1, 0},   {"qkv.weight", 3, 1},   {"qkv.bias", 3, 0},
    {"project.weight", 1, 1}, {"project.bias", 1, 0}, {"norm2.weight", 1, 0}, {"norm2.bias", 1, 0},
    {"up.weight", 4, 1},      {"up.bias", 4, 0},      {"down.weight", 1, 4},  {"down.bias", 1, 0},
};

enum { TENSOR_TOKENS, TENSOR_POSITIONS, TENSOR_LAYERS };

static bool config_check(const struct model_config *config, struct error *ret_error)
{
    if (config->layers < 1 || config->layers > MODEL_LAYERS_MAX)
        return error_set(ret_error, "--layers %u: use 1 to %d", config->layers, MODEL_LAYERS_MAX);
    if (config->width < 1 || config->width > MODEL_WIDTH_MAX)
        return error_set(ret_error, "--width %u: use 1 to %d", config->width, MODEL_WIDTH_MAX);
    if (config->heads < 1 || config->width % config->heads != 0)
        return error_set(ret_error, "--heads %u: must divide --width %u", config->heads,
                         config->width);
    if (config->context < 1 || config->context > MODEL_CONTEXT_MAX)
        return error_set(ret_error, "--context %u: use 1 to %d", config->context,
                         MODEL_CONTEXT_MAX);
    if (config->vocabulary < 2 || config->vocabulary > MODEL_VOCABULARY_MAX)
        return error_set(ret_error, "vocabulary %u: use 2 to %d", config->vocabulary,
                         MODEL_VOCABULARY_MAX);
    return true;
}

static struct model_tensor *add_tensor(struct model *model, uint64_t rows, uint64_t columns)
{
    struct model_tensor *tensor = &model->tensors[model->tensor_count++];
    tensor->dims = columns == 0 ? 1 : 2;
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
    tensor->count = (size_t)(rows * (columns == 0 ? 1 : columns));
    tensor->offset = model->param_count;
    model->param_count += tensor->count;
    return tensor;
}

static void add_named(struct model *model, const char *name, uint64_t rows, uint64_t columns)
{
    struct model_tensor *tensor = add_tensor(model, rows, columns);
    (void)snprintf(tensor->name, sizeof tensor->name, "%s", name); /* names fit: see the table */
}

bool model_build(struct model *ret_model, const struct model_config *config,
                 struct error *ret_error)
{
    if (!config_check(config, ret_error)) return false;
    *ret_model = (struct model){.config = *config};
    uint64_t width = config->width;
    add_named(ret_model, "tokens", config->vocabulary, width);
    add_named(ret_model, "positions", config->context, width);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        for (uint32_t i = 0; i < LAYER_TENSORS; i++) {
            struct model_tensor *tensor = add_tensor(ret_model, layer_tensors[i].rows * width,
                                                     layer_tensors[i].columns * width);
            (void)snprintf(tensor->name, sizeof tensor->name, "layer%u.%s", layer,
                           layer_tensors[i].name); /* names fit: see the table */
        }
    }
    add_named(ret_model, "norm.weight", width, 0);
    add_named(ret_model, "norm.bias", width, 0);
    if (!config->tied) add_named(ret_model, "head", config->vocabulary, width);
    return true;
}

float *model_tokens(const struct model *model, float *flat)
{
    return flat + model->tensors[TENSOR_TOKENS].offset;
}

float *model_positions(const struct model *model, float *flat)
{
    return flat + model->tensors[TENSOR_POSITIONS].offset;
}

float *model_layer(const struct model *model, float *flat, uint32_t layer, enum layer_tensor which)
{
    return flat + model->tensors[TENSOR_LAYERS + layer * LAYER_TENSORS + which].offset;
}

static uint32_t after_layers(const struct model *model)
{
    return TENSOR_LAYERS + model->config.layers * LAYER_TENSORS;
}

float *model_norm_weight(const struct model *model, float *flat)
{
    return flat + model->tensors[after_layers(model)].offset;
}

float *model_norm_bias(const struct model *model, float *flat)
{
    return flat + model->tensors[after_layers(model) + 1].offset;
}

float *model_head(const struct model *model, float *flat)
{
    if (model->config.tied) return model_tokens(model, flat);
    return flat + model->tensors[after_layers(model) + 2].offset;
}

uint32_t model_stages(const struct model *model)
{
    return model->config.layers + 2;
}

void model_stage(const struct model *model, uint32_t stage, size_t *ret_first, size_t *ret_count)
{
    uint32_t layers = model->config.layers, first = 0, end = TENSOR_LAYERS; /* tensors */
    if (stage == 0) {
        first = after_layers(model);
        end = model->tensor_count;
    } else if (stage <= layers) {
        first = TENSOR_LAYERS + (layers - stage) * LAYER_TENSORS;
        end = first + LAYER_TENSORS;
    }
    const struct model_tensor *last = &model->tensors[end - 1];
    *ret_first = model->tensors[first].offset;
    *ret_count = last->offset + last->count - *ret_first;
}

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

uint64_t counter_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio, odd */
    uint64_t state = mix(seed + golden);
    state = mix(state ^ (stream + 1) * golden);
    return mix(state + (index + 1) * golden);
}

float counter_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (float)(counter_bits(seed, stream, index) >> 40) * 0x1p-24f;
}

/* Matrices that add into the residual stream start smaller, so that its size does not grow with
 * the number of layers. */
static bool writes_residual(uint32_t tensor, uint32_t layers)
{
    if (tensor < TENSOR_LAYERS || tensor >= TENSOR_LAYERS + layers * LAYER_TENSORS) return false;
    uint32_t which = (tensor - TENSOR_LAYERS) % LAYER_TENSORS;
    return which == LAYER_PROJECT_WEIGHT || which == LAYER_DOWN_WEIGHT;
}

static bool is_norm_weight(const struct model *model, uint32_t tensor)
{
    if (tensor < TENSOR_LAYERS) return false;
    if (tensor >= after_layers(model)) return tensor == after_layers(model);
    uint32_t which = (tensor - TENSOR_LAYERS) % LAYER_TENSORS;
    return which == LAYER_NORM1_WEIGHT || which == LAYER_NORM2_WEIGHT;
}

void model_init(const struct model *model, uint64_t seed, float *ret_params)
{
    const float bound = 0.02f * 1.7320508f; /* a uniform on [-b, b] has deviation b / sqrt(3) */
    const float residual = bound / sqrtf(2.0f * (float)model->config.layers);
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const struct model_tensor *tensor = &model->tensors[t];
        float *values = ret_params + tensor->offset;
        float reach = writes_residual(t, model->config.layers) ? residual : bound;
        float constant = is_norm_weight(model, t) ? 1.0f : 0.0f;
        for (size_t i = 0; i < tensor->count; i++)
            values[i] =
                tensor->dims == 1 ? constant : reach * (2.0f * counter_uniform(seed, t, i) - 1.0f);
    }
}
