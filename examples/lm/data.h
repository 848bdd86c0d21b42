/* A text file as an endless stream of samples, each a function of its number alone.
 *
 * Role       The file is cut into windows of context + 1 bytes, one every `context` bytes, so that
 *            each byte but the first is predicted once per epoch. Sample i belongs to epoch
 *            i / windows and is window permutation(seed, epoch, i % windows): within an epoch each
 *            window comes exactly once, in an order that looks random, and no table is kept.
 * Method     The permutation is a Feistel network on the next power of four, walked until it lands
 *            inside the range (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
 * Ownership  Maps the file read only until data_close(). A file that shrinks meanwhile kills the
 *            program (SIGBUS): leave it alone while a job runs.
 * Errors     One sentence: cannot open, not a file, too short.
 */
#ifndef SHOAL_EXAMPLES_LM_DATA_H
#define SHOAL_EXAMPLES_LM_DATA_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

struct data {
    const uint8_t *bytes;
    size_t count;
    uint64_t window_count, seed;
    uint32_t context;
};

bool data_open(struct data *ret_data, const char *path, uint32_t context, uint64_t seed,
               struct error *ret_error) WARN_UNUSED;
void data_close(struct data *data);

uint64_t data_window(const struct data *data, uint64_t sample); /* < window_count */
/* context + 1 tokens. */
void data_sample(const struct data *data, uint64_t sample, uint16_t *ret_tokens);

/* A permutation of [0, count): bijective in index for each (seed, epoch). */
uint64_t data_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index);

#endif
