/* A scenario file, read: its text stays, to be read again with other numbers. Inside src/whatif only. */
#ifndef SHOAL_WHATIF_SOURCE_H
#define SHOAL_WHATIF_SOURCE_H

#include "whatif/sensitivity.h"

struct source {
    struct sensitivity_source sensitivity;
    char folder[4096];
    char *text;
};

/* From zeros. */
bool source_read(struct source *source, const char *file, const struct scene_set *sets,
                 uint32_t set_count, struct scene *scene, struct error *ret_error) WARN_UNUSED;
void source_free(struct source *source);

#endif
