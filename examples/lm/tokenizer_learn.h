/* How the merges of a tokenizer are found: the most frequent pair of neighbours becomes a token,
 * again and again.
 *
 * Method     The text is kept as its distinct words with their counts; each pair of neighbouring
 *            tokens has a count in a hash table. A merge visits the words that hold the pair, takes
 *            their old pairs out of the table and puts their new ones in.
 * Bits       A function of (text, wanted): the order of the hash table is never used, since the
 *            best pair is the one of the greatest count and, among these, the smallest (left,
 *            right).
 * Errors     Out of memory; fewer than `wanted` pairs to merge that occur twice (then more tokens
 *            would mean nothing).
 */
#ifndef SHOAL_EXAMPLES_LM_TOKENIZER_LEARN_H
#define SHOAL_EXAMPLES_LM_TOKENIZER_LEARN_H

#include "tokenizer.h"

bool tokenizer_learn_merges(const uint8_t *text, size_t count, uint32_t wanted,
                            struct tokenizer_merge *ret_merges,
                            struct error *ret_error) WARN_UNUSED;

#endif
