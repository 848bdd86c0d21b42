/* On which lines of a scenario the result hangs: each number is halved and doubled in turn. Inside
 * src/whatif only. */
#ifndef SHOAL_WHATIF_SENSITIVITY_H
#define SHOAL_WHATIF_SENSITIVITY_H

#include "whatif/crowd.h"
#include <stdio.h>

enum { SWING_HALF, SWING_DOUBLE, SWING_COUNT };

/* What one line does to each claim. */
struct swing {
    uint32_t line;                /* of the scene */
    bool impossible[SWING_COUNT]; /* the scenario cannot be run so */
    double values[SWING_COUNT][SCENE_CLAIMS_MAX];
    double effect; /* largest change of any claim's figure, as a ratio above 1 */
};

struct sensitivity {
    uint32_t swing_count;
    struct swing *swings; /* by effect, the largest first */
    double base[SCENE_CLAIMS_MAX];
};

/* How to read the scenario again with another number. */
struct sensitivity_source {
    const char *file, *folder, *text;
    size_t bytes;
    const struct scene_set *sets;
    uint32_t set_count;
};

bool sensitivity_run(const struct crowd *base, const struct sensitivity_source *source,
                     struct sensitivity *ret_sensitivity, struct error *ret_error) WARN_UNUSED;
void sensitivity_print(const struct crowd *base, const struct sensitivity *s, FILE *stream);
void sensitivity_json(const struct crowd *base, const struct sensitivity *s, FILE *stream);
void sensitivity_free(struct sensitivity *s);

#endif
