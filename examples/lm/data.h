/* A text file as an endless stream of samples, each a function of its number alone, and a part that
 * is held out of it for evaluation.
 *
 * Role       The last `held_out_percent` of the file's bytes are held out; the tokenizer is learned
 *            from the rest alone. Each of the two parts is cut into windows of context + 1 tokens,
 *            one every `context` tokens, so that each token but the first is predicted once per
 *            epoch. Sample i belongs to epoch i / windows and is window permutation(seed, epoch,
 *            i % windows): within an epoch each window comes exactly once, in an order that looks
 *            random, and no table is kept.
 * Method     The permutation is a Feistel network on the next power of four, walked until it lands
 *            inside the range (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
 * Ownership  Maps the file read only until data_close(); with merges the text's tokens are kept in
 *            memory as well, two bytes each. A file that shrinks meanwhile kills the program
 *            (SIGBUS): leave it alone while a job runs.
 * Errors     One sentence: cannot open, not a file, too short, too few pairs for the vocabulary.
 */
#ifndef SHOAL_EXAMPLES_LM_DATA_H
#define SHOAL_EXAMPLES_LM_DATA_H

#include "base/error.h"
#include "tokenizer.h"
#include <stddef.h>
#include <stdint.h>

struct data_options {
    uint32_t context, vocabulary, held_out_percent; /* vocabulary 256: bytes */
    uint64_t seed;
};

/* Tokens [0, count) of a part: 8 bits each in the file, or 16 bits each in memory. */
struct data_part {
    const uint8_t *bytes; /* NULL: tokens */
    uint16_t *tokens;
    size_t count;
    uint64_t window_count;
};

struct data {
    const uint8_t *bytes; /* the whole file */
    size_t count;
    struct data_options options;
    struct tokenizer tokenizer;
    struct data_part training, held_out;
};

bool data_open(struct data *ret_data, const char *path, const struct data_options *options,
               struct error *ret_error) WARN_UNUSED;
void data_close(struct data *data);

uint64_t data_window(const struct data *data, uint64_t sample); /* < training.window_count */
/* context + 1 tokens. */
void data_sample(const struct data *data, uint64_t sample, uint16_t *ret_tokens);
/* Held-out window `window` < held_out.window_count, context + 1 tokens. */
void data_held_out(const struct data *data, uint64_t window, uint16_t *ret_tokens);

/* A permutation of [0, count): bijective in index for each (seed, epoch). */
uint64_t data_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index);

#endif
