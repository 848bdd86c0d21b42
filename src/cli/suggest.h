/* "Did you mean": the nearest of a list of words, by edits with swaps counted as one. */
#ifndef SHOAL_CLI_SUGGEST_H
#define SHOAL_CLI_SUGGEST_H

#include <stdint.h>

enum { SUGGEST_WORD_MAX = 32 }; /* longer words are never near a command */

/* Edits (insert, delete, replace, swap neighbours) from a to b; SUGGEST_WORD_MAX when too long. */
uint32_t suggest_distance(const char *a, const char *b);

/* The nearest candidate within a third of the word's length (at least 2 edits), NULL if none. */
const char *suggest_nearest(const char *word, const char *const *candidates, uint32_t count);

#endif
