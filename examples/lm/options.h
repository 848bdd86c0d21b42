/* The command line of the trainer. */
#ifndef SHOAL_EXAMPLES_LM_OPTIONS_H
#define SHOAL_EXAMPLES_LM_OPTIONS_H

#include "adamw.h"
#include "generate.h"
#include "model.h"

struct lm_options {
    const char *data;
    uint32_t held_out_percent, eval_every; /* 0: no evaluation */
    struct model_config model;             /* vocabulary 256: bytes */
    uint32_t batch, parts, threads;
    struct adamw_options adamw;
    double dropout;
    uint64_t seed, steps;             /* steps 0: SHOAL_STEPS of the environment */
    uint32_t slots;                   /* 0: SHOAL_SLOTS */
    const char *checkpoint;           /* NULL: SHOAL_CHECKPOINT_DIR */
    uint32_t checkpoint_every;        /* as in shoal_options */
    uint32_t report_every;            /* steps between progress lines */
    uint32_t sample_count;            /* tokens to write at the end */
    struct generate_options generate; /* count above 0: only write text by a checkpoint */
};

enum options_result { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_WRONG };

/* Reads the arguments over the defaults. WRONG: the sentence names the argument. Strings point into
 * argv. Not re-entrant (getopt). */
enum options_result options_parse(int argc, char **argv, struct lm_options *ret_options,
                                  struct error *ret_error);
extern const char options_help[];

#endif
