/* The command line of the trainer. */
#ifndef SHOAL_EXAMPLES_LM_OPTIONS_H
#define SHOAL_EXAMPLES_LM_OPTIONS_H

#include "model.h"
#include "slot.h"

struct lm_options {
    const char *data;
    struct model_config model;
    struct slot_options slot;
    float rate;
    uint64_t seed, steps;   /* steps 0: SHOAL_STEPS of the environment */
    uint32_t slots;         /* 0: SHOAL_SLOTS */
    const char *checkpoint; /* NULL: SHOAL_CHECKPOINT_DIR */
    uint32_t checkpoint_every;
    uint32_t sample_bytes; /* text to write at the end */
    uint32_t report_every; /* steps between progress lines */
};

enum options_result { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_WRONG };

/* Reads the arguments over the defaults. WRONG: the sentence names the argument. Strings point into
 * argv. Not re-entrant (getopt). */
enum options_result options_parse(int argc, char **argv, struct lm_options *ret_options,
                                  struct error *ret_error);
extern const char options_help[];

#endif
