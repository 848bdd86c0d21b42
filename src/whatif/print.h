/* Tables and JSON of a crowd, and the sensitivity table. Inside src/whatif only. */
#ifndef SHOAL_WHATIF_PRINT_H
#define SHOAL_WHATIF_PRINT_H

#include "whatif/crowd.h"
#include <stdio.h>

enum { PRINT_UNFINISHED_BYTES = 512 };

void print_table(const struct crowd *crowd, FILE *stream);
/* One object, without the brace that ends it: more members may follow. */
void print_json(const struct crowd *crowd, FILE *stream);
/* What case i left undone, and why; "": nothing. */
void print_unfinished(const struct crowd *crowd, uint32_t i, char *ret_text, size_t bytes);
/* A figure with as many decimals as it needs: "13.2", "0.884", "1204". */
void print_figure(char *ret_text, size_t bytes, double value);

#endif
