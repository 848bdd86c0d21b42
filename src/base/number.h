/* Numbers as people write them on a command line: all of the text, and within bounds. */
#ifndef SHOAL_BASE_NUMBER_H
#define SHOAL_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Digits alone: no sign, no blank. */
bool number_read(const char *text, uint64_t low, uint64_t high, uint64_t *ret_number);
/* "0.5", "1e3"; no "nan" or "inf", no hexadecimals, no blank. */
bool number_read_real(const char *text, double low, double high, double *ret_number);

#endif
