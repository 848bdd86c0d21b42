#include "tokenizer.h"
#include "base/mem.h"
#include "tokenizer_learn.h"
#include <string.h>

enum byte_kind { KIND_BLANK, KIND_LETTER, KIND_DIGIT, KIND_OTHER };

static enum byte_kind kind_of(uint8_t byte)
{
    if (byte == ' ' || (byte >= '\t' && byte <= '\r')) return KIND_BLANK;
    if (byte >= '0' && byte <= '9') return KIND_DIGIT;
    uint8_t lower = byte | 0x20;
    return byte >= 128 || (lower >= 'a' && lower <= 'z') ? KIND_LETTER : KIND_OTHER;
}

size_t tokenizer_word(const uint8_t *text, size_t count)
{
    if (count > TOKENIZER_WORD_MAX) count = TOKENIZER_WORD_MAX;
    size_t length = count > 1 && text[0] == ' ' && kind_of(text[1]) != KIND_BLANK ? 1 : 0;
    if (length == count) return count;
    enum byte_kind kind = kind_of(text[length]);
    while (length < count && kind_of(text[length]) == kind) length++;
    return length;
}

static uint32_t pair_place(const struct tokenizer *tokenizer, uint32_t left, uint32_t right)
{
    uint32_t key = left << 16 | right;
    uint32_t place = (key * UINT32_C(0x9e3779b1) >> 7) & tokenizer->rank_mask;
    while (tokenizer->ranks[place] != 0) { /* at most half full: ends */
        const struct tokenizer_merge *merge = &tokenizer->merges[tokenizer->ranks[place] - 1];
        if (merge->left == left && merge->right == right) break;
        place = (place + 1) & tokenizer->rank_mask;
    }
    return place;
}

static bool reserve(struct tokenizer *tokenizer, uint32_t merge_count, struct error *ret_error)
{
    uint32_t places = 2;
    while (places < 2 * merge_count) places *= 2;
    size_t vocabulary = TOKENIZER_BYTES + (size_t)merge_count;
    tokenizer->rank_mask = places - 1;
    tokenizer->merges = mem_zalloc(merge_count + 1, sizeof *tokenizer->merges);
    tokenizer->bytes = mem_zalloc(vocabulary, sizeof *tokenizer->bytes);
    tokenizer->lengths = mem_zalloc(vocabulary, sizeof *tokenizer->lengths);
    tokenizer->ranks = mem_zalloc(places, sizeof *tokenizer->ranks);
    if (tokenizer->merges == NULL || tokenizer->bytes == NULL || tokenizer->lengths == NULL ||
        tokenizer->ranks == NULL)
        return error_set(ret_error, "out of memory for the tokenizer");
    for (uint32_t i = 0; i < TOKENIZER_BYTES; i++) {
        tokenizer->bytes[i][0] = (uint8_t)i;
        tokenizer->lengths[i] = 1;
    }
    tokenizer->vocabulary = TOKENIZER_BYTES;
    return true;
}

static bool append(struct tokenizer *tokenizer, struct tokenizer_merge merge,
                   struct error *ret_error)
{
    uint32_t token = tokenizer->vocabulary, number = token - TOKENIZER_BYTES;
    if (merge.left >= token || merge.right >= token)
        return error_set(ret_error, "merge %u of the tokenizer uses token %u, not made by then",
                         number, merge.left >= token ? merge.left : merge.right);
    size_t left = tokenizer->lengths[merge.left], right = tokenizer->lengths[merge.right];
    if (left + right > TOKENIZER_WORD_MAX)
        return error_set(ret_error, "merge %u of the tokenizer has %zu bytes, more than %d", number,
                         left + right, TOKENIZER_WORD_MAX);
    uint32_t place = pair_place(tokenizer, merge.left, merge.right);
    if (tokenizer->ranks[place] != 0)
        return error_set(ret_error, "merge %u of the tokenizer comes twice", number);
    tokenizer->merges[number] = merge;
    tokenizer->ranks[place] = number + 1;
    memcpy(tokenizer->bytes[token], tokenizer->bytes[merge.left], left);
    memcpy(tokenizer->bytes[token] + left, tokenizer->bytes[merge.right], right);
    tokenizer->lengths[token] = (uint8_t)(left + right);
    tokenizer->vocabulary++;
    return true;
}

bool tokenizer_of_merges(struct tokenizer *ret_tokenizer, const struct tokenizer_merge *merges,
                         uint32_t count, struct error *ret_error)
{
    *ret_tokenizer = (struct tokenizer){0};
    if (count > UINT16_MAX + 1 - TOKENIZER_BYTES)
        return error_set(ret_error, "%u merges are more tokens than 65536", count);
    bool built = reserve(ret_tokenizer, count, ret_error);
    for (uint32_t i = 0; built && i < count; i++)
        built = append(ret_tokenizer, merges[i], ret_error);
    if (!built) tokenizer_free(ret_tokenizer);
    return built;
}

bool tokenizer_learn(struct tokenizer *ret_tokenizer, uint32_t vocabulary, const uint8_t *text,
                     size_t count, struct error *ret_error)
{
    *ret_tokenizer = (struct tokenizer){0};
    if (count > TOKENIZER_TEXT_MAX) count = TOKENIZER_TEXT_MAX;
    uint32_t wanted = vocabulary - TOKENIZER_BYTES;
    struct tokenizer_merge *merges = mem_zalloc(wanted + 1, sizeof *merges);
    if (merges == NULL) return error_set(ret_error, "out of memory for the tokenizer");
    bool learned = tokenizer_learn_merges(text, count, wanted, merges, ret_error) &&
                   tokenizer_of_merges(ret_tokenizer, merges, wanted, ret_error);
    mem_free(merges);
    return learned;
}

void tokenizer_free(struct tokenizer *tokenizer)
{
    mem_free(tokenizer->ranks);
    mem_free(tokenizer->lengths);
    mem_free(tokenizer->bytes);
    mem_free(tokenizer->merges);
    *tokenizer = (struct tokenizer){0};
}

/* Merges the earliest made pair again and again, in place. */
static size_t merge_word(const struct tokenizer *tokenizer, size_t count, uint16_t *inout)
{
    for (;;) {
        uint32_t best = UINT32_MAX;
        size_t at = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            uint32_t rank = tokenizer->ranks[pair_place(tokenizer, inout[i], inout[i + 1])];
            if (rank == 0 || rank >= best) continue;
            best = rank;
            at = i;
        }
        if (best == UINT32_MAX) return count;
        inout[at] = (uint16_t)(TOKENIZER_BYTES + best - 1);
        memmove(inout + at + 1, inout + at + 2, (count - at - 2) * sizeof *inout);
        count--;
    }
}

size_t tokenizer_encode(const struct tokenizer *tokenizer, const uint8_t *text, size_t count,
                        uint16_t *ret_tokens)
{
    size_t written = 0;
    for (size_t at = 0; at < count;) {
        size_t length = tokenizer_word(text + at, count - at);
        for (size_t i = 0; i < length; i++) ret_tokens[written + i] = text[at + i];
        written += tokenizer->vocabulary == TOKENIZER_BYTES
                       ? length
                       : merge_word(tokenizer, length, ret_tokens + written);
        at += length;
    }
    return written;
}

const uint8_t *tokenizer_decode(const struct tokenizer *tokenizer, uint16_t token,
                                size_t *ret_count)
{
    *ret_count = token < tokenizer->vocabulary ? tokenizer->lengths[token] : 0;
    return token < tokenizer->vocabulary ? tokenizer->bytes[token] : (const uint8_t *)"";
}
