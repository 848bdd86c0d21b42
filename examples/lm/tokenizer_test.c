/* Byte pair encoding against a slow one that looks at the whole text again for every merge; that
 * text comes back unchanged; and what is said about vocabularies and merges that cannot be. */
#include "base/mem.h"
#include "model.h"
#include "test_kit.h"
#include "tokenizer.h"
#include <string.h>

enum { TEXT_MAX = 4000 };

static size_t make_text(uint64_t seed, uint8_t *ret_text)
{
    static const char *const words[] = {"the",
                                        " lord",
                                        " said",
                                        " unto",
                                        "aaaa",
                                        " 1234567",
                                        "\n\n",
                                        ", ",
                                        "\xc3\xa9t\xc3\xa9",
                                        " ",
                                        "  x",
                                        "abcabcabc",
                                        "averyveryveryveryveryveryveryveryverylongword"};
    size_t count = 0;
    for (uint64_t i = 0; count < TEXT_MAX - 64; i++) {
        const char *word = words[counter_bits(seed, 1, i) % (sizeof words / sizeof words[0])];
        size_t length = strlen(word);
        memcpy(ret_text + count, word, length);
        count += length;
        if (i % 7 == 0) ret_text[count++] = (uint8_t)counter_bits(seed, 2, i);
    }
    return count;
}

/* The text as tokens with word borders, merged by the definition. */
static uint32_t slow_learn(const uint8_t *text, size_t count, uint32_t wanted,
                           struct tokenizer_merge *ret_merges)
{
    static uint16_t tokens[TEXT_MAX];
    static bool begins[TEXT_MAX];
    for (size_t at = 0; at < count;) {
        size_t length = tokenizer_word(text + at, count - at);
        assert_true(length >= 1 && length <= TOKENIZER_WORD_MAX);
        for (size_t i = 0; i < length; i++) {
            tokens[at + i] = text[at + i];
            begins[at + i] = i == 0;
        }
        at += length;
    }
    static uint32_t counts[512][512];
    for (uint32_t merge = 0; merge < wanted; merge++) {
        memset(counts, 0, sizeof counts);
        uint32_t best = 0;
        for (size_t i = 0; i + 1 < count; i++)
            if (!begins[i + 1]) counts[tokens[i]][tokens[i + 1]]++;
        for (uint32_t l = 0; l < 512; l++)
            for (uint32_t r = 0; r < 512; r++)
                if (counts[l][r] > best) {
                    best = counts[l][r];
                    ret_merges[merge] = (struct tokenizer_merge){(uint16_t)l, (uint16_t)r};
                }
        if (best < 2) return merge;
        size_t written = 0;
        for (size_t i = 0; i < count; i++, written++) {
            bool pair = i + 1 < count && !begins[i + 1] && tokens[i] == ret_merges[merge].left &&
                        tokens[i + 1] == ret_merges[merge].right;
            tokens[written] = pair ? (uint16_t)(256 + merge) : tokens[i];
            begins[written] = begins[i];
            i += pair;
        }
        count = written;
    }
    return wanted;
}

static void check_round_trip(const struct tokenizer *tokenizer, const uint8_t *text, size_t count)
{
    static uint16_t tokens[TEXT_MAX];
    static uint8_t back[TEXT_MAX];
    size_t token_count = tokenizer_encode(tokenizer, text, count, tokens), at = 0;
    assert_true(token_count <= count);
    for (size_t i = 0; i < token_count; i++) {
        size_t bytes;
        const uint8_t *piece = tokenizer_decode(tokenizer, tokens[i], &bytes);
        assert_true(bytes > 0 && at + bytes <= count);
        memcpy(back + at, piece, bytes);
        at += bytes;
    }
    assert_int_equal(at, count);
    assert_memory_equal(back, text, count);
}

static void test_against_the_slow_one(void **state)
{
    (void)state;
    static uint8_t text[TEXT_MAX];
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct tokenizer_merge slow[60];
        struct tokenizer tokenizer;
        size_t count = make_text(seed, text);
        assert_int_equal(slow_learn(text, count, 60, slow), 60);
        assert_true(tokenizer_learn(&tokenizer, 256 + 60, text, count, NULL));
        assert_memory_equal(tokenizer.merges, slow, sizeof slow);
        check_round_trip(&tokenizer, text, count);
        check_round_trip(&tokenizer, (const uint8_t *)"never seen: \0\xff", 14);
        struct tokenizer same;
        assert_true(tokenizer_of_merges(&same, tokenizer.merges, 60, NULL));
        uint16_t one[TEXT_MAX], two[TEXT_MAX];
        size_t length = tokenizer_encode(&tokenizer, text, count, one);
        assert_int_equal(tokenizer_encode(&same, text, count, two), length);
        assert_memory_equal(one, two, length * sizeof *one);
        tokenizer_free(&same);
        tokenizer_free(&tokenizer);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    struct tokenizer tokenizer;
    static uint8_t text[TEXT_MAX];
    uint16_t tokens[TEXT_MAX];
    size_t count = make_text(4, text);
    assert_true(tokenizer_learn(&tokenizer, 256, text, count, NULL));
    assert_int_equal(tokenizer_encode(&tokenizer, text, count, tokens), count);
    for (size_t i = 0; i < count; i++) assert_int_equal(tokens[i], text[i]);
    size_t bytes;
    (void)tokenizer_decode(&tokenizer, 256, &bytes);
    assert_int_equal(bytes, 0); /* no such token */
    tokenizer_free(&tokenizer);
}

static void test_words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {{"word two", 4}, {" word two", 5}, {"  word", 2}, {" 12a", 3}, {"12a", 2},
                 {", a", 1},      {" , a", 2},      {" ", 1},      {"\n\nx", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(tokenizer_word((const uint8_t *)cases[i].text, strlen(cases[i].text)),
                         cases[i].length);
}

static void test_refusals(void **state)
{
    (void)state;
    struct tokenizer tokenizer;
    struct error error;
    assert_false(tokenizer_learn(&tokenizer, 300, (const uint8_t *)"abab", 4, &error));
    assert_string_equal(error.text, "the text has pairs for 257 tokens, not 300: use --vocab 257 "
                                    "or less, or a longer text");
    const struct tokenizer_merge later[] = {{'a', 'b'}, {'a', 258}};
    assert_false(tokenizer_of_merges(&tokenizer, later, 2, &error));
    assert_string_equal(error.text, "merge 1 of the tokenizer uses token 258, not made by then");
    const struct tokenizer_merge twice[] = {{'a', 'b'}, {'a', 'b'}};
    assert_false(tokenizer_of_merges(&tokenizer, twice, 2, &error));
    assert_string_equal(error.text, "merge 1 of the tokenizer comes twice");
    const struct tokenizer_merge large[] = {{'a', 'a'}, {256, 256}, {257, 257},
                                            {258, 258}, {259, 259}, {260, 'a'}};
    assert_false(tokenizer_of_merges(&tokenizer, large, 6, &error));
    assert_string_equal(error.text, "merge 5 of the tokenizer has 33 bytes, more than 32");
    tokenizer_free(&tokenizer); /* zeroed by the failure */
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static uint8_t text[TEXT_MAX];
    size_t count = make_text(1, text);
    struct tokenizer tokenizer;
    uint64_t before = mem_calls();
    assert_true(tokenizer_learn(&tokenizer, 300, text, count, NULL));
    tokenizer_free(&tokenizer);
    uint64_t calls = mem_calls() - before;
    assert_true(calls > 6);
    for (uint64_t nth = 1; nth <= calls; nth++) {
        struct error error = {0};
        mem_fail_at(nth);
        assert_false(tokenizer_learn(&tokenizer, 300, text, count, &error));
        assert_non_null(strstr(error.text, "out of memory"));
    }
    mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_slow_one),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
