/* The verb `shoal sim SCENARIO.yaml`: what a pool would cost and do in a world that a file describes.
 * docs/simulator.md is its manual. */
#ifndef SHOAL_WHATIF_WHATIF_H
#define SHOAL_WHATIF_WHATIF_H

#include <stdbool.h>

/* Whether these arguments of `shoal sim` name a scenario of this kind: one of them is a file. */
bool whatif_is_meant(int argc, char **argv);
int whatif_main(int argc, char **argv); /* 0 fine, 1 a claim does not hold or it failed, 2 usage */

#endif
