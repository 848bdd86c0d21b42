/* Tables and JSON of a crowd, and the sensitivity table. Inside src/whatif only. */
#ifndef SHOAL_WHATIF_PRINT_H
#define SHOAL_WHATIF_PRINT_H

#include "whatif/crowd.h"
#include <stdio.h>

void print_table(const struct crowd *crowd, FILE *stream);
/* One object, without the brace that ends it: more members may follow. */
void print_json(const struct crowd *crowd, FILE *stream);
/* A figure with as many decimals as it needs: "13.2", "0.884", "1204". */
void print_figure(char *ret_text, size_t bytes, double value);

#endif
