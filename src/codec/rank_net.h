/* A learned ranking of offers: a small network of integers, what it is asked, and the file that holds it.
 *
 * Role       Fields of an offer (rank.h) and what is around it -> a factor beside the built-in ranking's
 *            price * (1 + surcharge): 2^score, with a score within +-2. A network of zeros ranks as
 *            built in. It only orders what is feasible: budgets, gates, thresholds and
 *            deadlines do not see it. Trained by `shoal sim --train` (whatif/train.h). Pure, integers only.
 * Inputs     RANK_INPUTS, each a number in 256ths; logarithms are to base 2.
 * Range      An input outside what was met in training: the offer counts as built in, and is told as
 *            RANK_OUTSIDE (core/ranking.h), so that the decision says so.
 * Arithmetic Inputs are spread over +-256 by their range; weights are 64ths in +-127; a hidden unit is
 *            its sum cut at +-256, the score the sum of these. All sums fit 32 bits.
 * File       YAML of one version, with a checksum over all numbers: catalog/ranking.yaml.
 */
#ifndef SHOAL_CODEC_RANK_NET_H
#define SHOAL_CODEC_RANK_NET_H

#include "codec/rank.h"
#include "core/view.h"
#include <stddef.h>

#define RANK_INPUTS(X)                                                                             \
    X(PRICE, "price", "log of the price as a share of on-demand")                                  \
    X(DEARER, "dearer", "log of the price per NCU with its surcharge, over the least of all")      \
    X(HAZARD, "hazard", "log of 1 + losses in 1000 node-hours")                                    \
    X(DISTRUST, "distrust", "log of 1 + the built-in surcharge")                                   \
    X(AGE, "age", "log of 1 + time on sale without a loss, in 3 min")                              \
    X(CHANGEOVER, "changeover", "log of 1 + order to agent, in 3.6 s")                             \
    X(STOCK, "stock", "log of 1 + devices that could be had")                                      \
    X(HELD, "held", "log of 1 + devices held")                                                     \
    X(SHARE, "share", "of all devices held, those of this offer")                                  \
    X(DEVICES, "devices", "log of the devices of a node")                                          \
    X(SPEED, "speed", "log of 1 + NCU of a device, in 16ths")                                      \
    X(SPOT, "spot", "1 or 0")

enum rank_input {
#define X(name, word, meaning) RANK_INPUT_##name,
    RANK_INPUTS(X)
#undef X
        RANK_INPUT_COUNT
};

enum {
    RANK_NET_VERSION = 1,
    RANK_HIDDEN = 8,
    RANK_ROW = 1 + RANK_INPUT_COUNT, /* of a hidden unit: its bias, then a weight for each input */
    RANK_WEIGHTS = RANK_HIDDEN * RANK_ROW + 1 + RANK_HIDDEN, /* the output's: bias, hidden units */
    RANK_WEIGHT_MAX = 127,
    RANK_UNIT = 256, /* 1 of an input, a hidden unit, the score */
    RANK_SCORE_MAX = 2 * RANK_UNIT,
    RANK_INPUT_MAX = 64 * RANK_UNIT,
    RANK_NOTE_BYTES = 160,
    RANK_NET_BYTES_MAX = 16384
};

struct rank_range {
    int32_t from, to; /* inclusive */
};

struct rank_net {
    uint32_t version; /* 0: there is none */
    struct rank_range ranges[RANK_INPUT_COUNT];
    int8_t weights[RANK_WEIGHTS];
    char note[RANK_NOTE_BYTES]; /* what it was trained on, for people */
};

/* All offers together: begin with zeros, add each. */
struct rank_around {
    int64_t least; /* price per NCU with its surcharge; 0: none yet */
    int64_t held;  /* devices, in millionths */
};

void rank_fields_of(const struct offer_view *view, uint32_t ncu_milli,
                    int64_t ret_fields[RANK_FIELD_COUNT]);
void rank_around_add(struct rank_around *around, const int64_t fields[RANK_FIELD_COUNT]);
void rank_inputs_of(const int64_t fields[RANK_FIELD_COUNT], const struct rank_around *around,
                    int32_t ret_inputs[RANK_INPUT_COUNT]);
bool rank_net_knows(const struct rank_net *net, const int32_t inputs[RANK_INPUT_COUNT]);
int32_t rank_net_score(const struct rank_net *net, const int32_t inputs[RANK_INPUT_COUNT]);
/* What the core is told: RANK_OUTSIDE, 0 for an offer without a price, else a factor (rank.h). */
uint32_t rank_net_factor_ppm(const struct rank_net *net, const int64_t fields[RANK_FIELD_COUNT],
                             const struct rank_around *around);

extern const char *const rank_input_names[RANK_INPUT_COUNT];
/* rank_net_file.c. Mistakes have their file and line. */
bool rank_net_parse(const char *file, const char *text, size_t bytes, struct rank_net *ret_net,
                    struct error *ret_error) WARN_UNUSED;
bool rank_net_shipped(struct rank_net *ret_net, struct error *ret_error) WARN_UNUSED;
/* The text of the file, 0-terminated; RANK_NET_BYTES_MAX are enough. Returns its bytes. */
size_t rank_net_print(const struct rank_net *net, char *ret_text, size_t bytes);

extern const char ranking_shipped_text[];
extern const size_t ranking_shipped_bytes;

#endif
