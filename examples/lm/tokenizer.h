/* Text to tokens and back: single bytes, or byte pair encoding learned from the text itself.
 *
 * Role       Tokens 0 .. 255 are the bytes. Each further one stands for two earlier ones side by
 *            side, the pair that was most frequent when it was made (Sennrich, Haddow and Birch,
 *            ACL 2016; on bytes as in GPT-2). Without merges it is the byte tokenizer.
 * Words      Text is first cut into words: a run of letters (bytes from 128 on count as such), of
 *            digits, of blanks or of anything else, with the single blank before it; at most
 *            TOKENIZER_WORD_MAX bytes. Merges never cross words, so no token is longer.
 * Bits       A function of (text, vocabulary): words in order of appearance, ties between pairs go
 *            to the smaller (left, right). At most the first TOKENIZER_TEXT_MAX bytes are learned
 *            from. About a second for 4 MB of text and 4,096 tokens.
 * Ownership  The tokenizer owns its tables; tokenizer_free() takes a half-built or zeroed one.
 * Errors     One sentence: out of memory, too few pairs in the text, merges that cannot be.
 */
#ifndef SHOAL_EXAMPLES_LM_TOKENIZER_H
#define SHOAL_EXAMPLES_LM_TOKENIZER_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum { TOKENIZER_BYTES = 256, TOKENIZER_WORD_MAX = 32, TOKENIZER_TEXT_MAX = 64 << 20 };

struct tokenizer_merge {
    uint16_t left, right;
};
struct tokenizer {
    uint32_t vocabulary;                  /* 256 + merges */
    struct tokenizer_merge *merges;       /* token 256 + i is merges[i] */
    uint8_t (*bytes)[TOKENIZER_WORD_MAX]; /* [vocabulary]: what a token stands for */
    uint8_t *lengths;                     /* [vocabulary] */
    uint32_t *ranks; /* hash of pairs: rank_mask + 1 places, merge number + 1 or 0 */
    uint32_t rank_mask;
};

/* vocabulary 256: bytes. */
bool tokenizer_learn(struct tokenizer *ret_tokenizer, uint32_t vocabulary, const uint8_t *text,
                     size_t count, struct error *ret_error) WARN_UNUSED;
/* From merges of elsewhere (a checkpoint), which are checked: each must use earlier tokens, come
 * once, and fit a word. */
bool tokenizer_of_merges(struct tokenizer *ret_tokenizer, const struct tokenizer_merge *merges,
                         uint32_t count, struct error *ret_error) WARN_UNUSED;
void tokenizer_free(struct tokenizer *tokenizer);

/* Writes at most `count` tokens for `count` bytes; returns how many. */
size_t tokenizer_encode(const struct tokenizer *tokenizer, const uint8_t *text, size_t count,
                        uint16_t *ret_tokens);
/* The bytes of a token; *ret_count is at most TOKENIZER_WORD_MAX. */
const uint8_t *tokenizer_decode(const struct tokenizer *tokenizer, uint16_t token,
                                size_t *ret_count);

/* Length of the word that begins text[count], at least 1 for count above 0. */
size_t tokenizer_word(const uint8_t *text, size_t count);

#endif
