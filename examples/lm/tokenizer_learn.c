#include "tokenizer_learn.h"
#include "base/mem.h"
#include <string.h>
#include <xxhash.h>

struct word {
    size_t first; /* of its tokens in `tokens` */
    uint32_t count;
    uint32_t length; /* in tokens; shrinks */
    uint64_t hash;
};

struct pair {
    uint32_t key; /* left << 16 | right */
    bool used;
    uint64_t count; /* occurrences in the text */
};

struct learner {
    uint16_t *tokens;
    size_t token_count, token_room;
    struct word *words;
    size_t word_count, word_room;
    uint32_t *places; /* hash of words: number + 1 or 0 */
    size_t place_mask;
    struct pair *pairs; /* hash of pairs */
    size_t pair_mask, pair_count;
};

static void learner_free(struct learner *learner)
{
    mem_free(learner->pairs);
    mem_free(learner->places);
    mem_free(learner->words);
    mem_free(learner->tokens);
}

static bool out_of_memory(struct error *ret_error)
{
    return error_set(ret_error, "out of memory for the words of the text");
}

static size_t find_place(const struct learner *learner, uint64_t hash, const uint8_t *text,
                         size_t length)
{
    size_t place = hash & learner->place_mask;
    for (; learner->places[place] != 0; place = (place + 1) & learner->place_mask) {
        const struct word *word = &learner->words[learner->places[place] - 1];
        if (word->hash != hash || word->length != length) continue;
        size_t same = 0;
        while (same < length && learner->tokens[word->first + same] == text[same]) same++;
        if (same == length) break;
    }
    return place;
}

static bool grow_words(struct learner *learner)
{
    size_t room = learner->word_room == 0 ? 1024 : 2 * learner->word_room;
    struct word *words = mem_realloc(learner->words, room * sizeof *words);
    if (words == NULL) return false;
    learner->words = words;
    uint32_t *places = mem_zalloc(2 * room, sizeof *places);
    if (places == NULL) return false;
    mem_free(learner->places);
    learner->places = places;
    learner->word_room = room;
    learner->place_mask = 2 * room - 1;
    for (size_t i = 0; i < learner->word_count; i++) {
        size_t place = words[i].hash & learner->place_mask;
        while (places[place] != 0) place = (place + 1) & learner->place_mask;
        places[place] = (uint32_t)i + 1;
    }
    return true;
}

static bool grow_tokens(struct learner *learner)
{
    size_t room = learner->token_room == 0 ? 8192 : 2 * learner->token_room;
    uint16_t *tokens = mem_realloc(learner->tokens, room * sizeof *tokens);
    if (tokens == NULL) return false;
    learner->tokens = tokens;
    learner->token_room = room;
    return true;
}

static bool count_word(struct learner *learner, const uint8_t *text, size_t length)
{
    if (learner->word_count == learner->word_room && !grow_words(learner)) return false;
    if (learner->token_count + length > learner->token_room && !grow_tokens(learner)) return false;
    uint64_t hash = XXH3_64bits(text, length);
    size_t place = find_place(learner, hash, text, length);
    if (learner->places[place] != 0) {
        learner->words[learner->places[place] - 1].count++;
        return true;
    }
    learner->words[learner->word_count] = (struct word){
        .first = learner->token_count, .count = 1, .length = (uint32_t)length, .hash = hash};
    learner->places[place] = (uint32_t)++learner->word_count;
    for (size_t i = 0; i < length; i++) learner->tokens[learner->token_count++] = text[i];
    return true;
}

static struct pair *find_pair(const struct learner *learner, uint32_t key)
{
    size_t place = (key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & learner->pair_mask;
    while (learner->pairs[place].used && learner->pairs[place].key != key)
        place = (place + 1) & learner->pair_mask;
    return &learner->pairs[place];
}

/* Keeps the table at most half full; pairs that no longer occur are left behind. */
static bool grow_pairs(struct learner *learner)
{
    struct learner old = *learner;
    size_t room = old.pairs == NULL ? 8192 : 2 * (old.pair_mask + 1);
    learner->pairs = mem_zalloc(room, sizeof *learner->pairs);
    if (learner->pairs == NULL) {
        learner->pairs = old.pairs;
        return false;
    }
    learner->pair_mask = room - 1;
    learner->pair_count = 0;
    for (size_t i = 0; old.pairs != NULL && i <= old.pair_mask; i++) {
        if (old.pairs[i].count == 0) continue;
        *find_pair(learner, old.pairs[i].key) = old.pairs[i];
        learner->pair_count++;
    }
    mem_free(old.pairs);
    return true;
}

/* Adds the pairs of a word to the table, or takes them out. Room for them is there: see
 * reserve_pairs(). */
static void count_pairs(struct learner *learner, const struct word *word, bool add)
{
    const uint16_t *tokens = learner->tokens + word->first;
    for (uint32_t i = 0; i + 1 < word->length; i++) {
        uint32_t key = (uint32_t)tokens[i] << 16 | tokens[i + 1];
        struct pair *pair = find_pair(learner, key);
        if (!pair->used) {
            *pair = (struct pair){.key = key, .used = true};
            learner->pair_count++;
        }
        pair->count = add ? pair->count + word->count : pair->count - word->count;
    }
}

static bool reserve_pairs(struct learner *learner)
{
    while (learner->pairs == NULL ||
           2 * (learner->pair_count + TOKENIZER_WORD_MAX) > learner->pair_mask)
        if (!grow_pairs(learner)) return false;
    return true;
}

static bool gather(struct learner *learner, const uint8_t *text, size_t count,
                   struct error *ret_error)
{
    for (size_t at = 0; at < count;) {
        size_t length = tokenizer_word(text + at, count - at);
        if (!count_word(learner, text + at, length)) return out_of_memory(ret_error);
        at += length;
    }
    if (!reserve_pairs(learner)) return out_of_memory(ret_error);
    for (size_t i = 0; i < learner->word_count; i++) {
        if (!reserve_pairs(learner)) return out_of_memory(ret_error);
        count_pairs(learner, &learner->words[i], true /* add */);
    }
    return true;
}

static struct pair best_pair(const struct learner *learner)
{
    struct pair best = {0};
    for (size_t i = 0; i <= learner->pair_mask; i++) {
        const struct pair *pair = &learner->pairs[i];
        if (pair->count > best.count || (pair->count == best.count && pair->key < best.key))
            best = *pair;
    }
    return best;
}

static bool holds(const struct learner *learner, const struct word *word, uint16_t left,
                  uint16_t right)
{
    const uint16_t *tokens = learner->tokens + word->first;
    for (uint32_t i = 0; i + 1 < word->length; i++)
        if (tokens[i] == left && tokens[i + 1] == right) return true;
    return false;
}

static void merge_in_word(struct learner *learner, struct word *word, uint16_t left, uint16_t right,
                          uint16_t token)
{
    uint16_t *tokens = learner->tokens + word->first;
    uint32_t written = 0;
    for (uint32_t i = 0; i < word->length; i++) {
        bool pair = i + 1 < word->length && tokens[i] == left && tokens[i + 1] == right;
        tokens[written++] = pair ? token : tokens[i];
        i += pair;
    }
    word->length = written;
}

static bool merge_everywhere(struct learner *learner, struct tokenizer_merge merge, uint16_t token)
{
    for (size_t i = 0; i < learner->word_count; i++) {
        struct word *word = &learner->words[i];
        if (!holds(learner, word, merge.left, merge.right)) continue;
        if (!reserve_pairs(learner)) return false;
        count_pairs(learner, word, false /* take out */);
        merge_in_word(learner, word, merge.left, merge.right, token);
        count_pairs(learner, word, true /* add */);
    }
    return true;
}

bool tokenizer_learn_merges(const uint8_t *text, size_t count, uint32_t wanted,
                            struct tokenizer_merge *ret_merges, struct error *ret_error)
{
    if (wanted == 0) return true;
    struct learner learner = {0};
    bool learned = gather(&learner, text, count, ret_error);
    for (uint32_t i = 0; learned && i < wanted; i++) {
        struct pair best = best_pair(&learner);
        if (best.count < 2) {
            learned = error_set(ret_error,
                                "the text has pairs for %u tokens, not %u: use --vocab %u or less, "
                                "or a longer text",
                                TOKENIZER_BYTES + i, TOKENIZER_BYTES + wanted, TOKENIZER_BYTES + i);
            break;
        }
        ret_merges[i] =
            (struct tokenizer_merge){(uint16_t)(best.key >> 16), (uint16_t)(best.key & 0xffff)};
        if (!merge_everywhere(&learner, ret_merges[i], (uint16_t)(TOKENIZER_BYTES + i)))
            learned = out_of_memory(ret_error);
    }
    learner_free(&learner);
    return learned;
}
