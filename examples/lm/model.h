/* The shape of a GPT and where each of its tensors lies in one flat buffer of float32.
 *
 * Role       Everything that has one value per parameter (weights, gradients, the two moments of
 *            the optimizer) is a flat buffer of param_count floats; a tensor is a name, a shape and
 *            an offset into any of them.
 * Shapes     Row-major. A weight matrix is [outputs, inputs], so that y = x W^T + b.
 * Order      tokens, positions, the 12 tensors of each layer, the last norm, and the head unless
 *            it is tied to the tokens (then the logits use the token embedding itself).
 * Init       model_init() is a function of (seed, tensor, element) by a counter-based generator:
 *            the same bits on every machine, whoever computes them and in any order. Uniform values
 *            of standard deviation 0.02 (the choice of GPT-1, Radford et al. 2018, section 4.1);
 *            the two matrices that write into the residual stream are divided by the square root of
 *            the number of such writes (GPT-2, Radford et al. 2019, section 2.3). Uniform instead
 *            of normal because it needs no function of the C library.
 */
#ifndef SHOAL_EXAMPLES_LM_MODEL_H
#define SHOAL_EXAMPLES_LM_MODEL_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum {
    MODEL_LAYERS_MAX = 48,
    MODEL_WIDTH_MAX = 4096,
    MODEL_CONTEXT_MAX = 4096,
    MODEL_VOCABULARY_MAX = 65536, /* a token is a uint16_t */
    MODEL_NAME_BYTES = 32,
};

enum layer_tensor { /* ORDER: layer_tensor (the table in model.c) */
                    LAYER_NORM1_WEIGHT,
                    LAYER_NORM1_BIAS,
                    LAYER_QKV_WEIGHT, /* [3 * width, width]: queries, keys, values */
                    LAYER_QKV_BIAS,
                    LAYER_PROJECT_WEIGHT, /* [width, width] */
                    LAYER_PROJECT_BIAS,
                    LAYER_NORM2_WEIGHT,
                    LAYER_NORM2_BIAS,
                    LAYER_UP_WEIGHT, /* [4 * width, width] */
                    LAYER_UP_BIAS,
                    LAYER_DOWN_WEIGHT, /* [width, 4 * width] */
                    LAYER_DOWN_BIAS,
                    LAYER_TENSORS,
};

enum { MODEL_TENSORS_MAX = LAYER_TENSORS * MODEL_LAYERS_MAX + 5 };

struct model_config {
    uint32_t layers, width, heads, context, vocabulary;
    bool tied; /* the head is the token embedding */
};

struct model_tensor {
    char name[MODEL_NAME_BYTES]; /* "layer3.qkv.weight" */
    size_t offset, count;        /* in floats */
    uint64_t shape[2];
    uint32_t dims;
};

struct model {
    struct model_config config;
    size_t param_count;
    uint32_t tensor_count;
    struct model_tensor tensors[MODEL_TENSORS_MAX];
};

/* Checks the numbers and lays the tensors out. The sentence names the option that is wrong. */
bool model_build(struct model *ret_model, const struct model_config *config,
                 struct error *ret_error) WARN_UNUSED;

/* Weight decay is for matrices, not for biases and norms. */
static inline bool model_decays(const struct model_tensor *tensor)
{
    return tensor->dims == 2;
}

/* Where a tensor lies in `flat` (weights, a gradient, a moment): same places in each. */
float *model_tokens(const struct model *model, float *flat);
float *model_positions(const struct model *model, float *flat);
float *model_layer(const struct model *model, float *flat, uint32_t layer, enum layer_tensor which);
float *model_norm_weight(const struct model *model, float *flat);
float *model_norm_bias(const struct model *model, float *flat);
float *model_head(const struct model *model, float *flat);

/* The parameters in the order in which a backward pass is done with them, as runs of the flat
 * buffer: the last norm and an untied head; the layers from the last to the first; the embeddings
 * (and with them a tied head). stage < model_stages(). */
uint32_t model_stages(const struct model *model);
void model_stage(const struct model *model, uint32_t stage, size_t *ret_first, size_t *ret_count);

void model_init(const struct model *model, uint64_t seed, float *ret_params);

/* Random bits as a function of their place, and the same as a float in [0, 1) with 24 bits.
 * Two rounds of the SplitMix64 finalizer (Steele, Lea, Flood, OOPSLA 2014) over the words. */
uint64_t counter_bits(uint64_t seed, uint64_t stream, uint64_t index);
float counter_uniform(uint64_t seed, uint64_t stream, uint64_t index);

#endif
