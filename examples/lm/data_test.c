/* Every window once per epoch, in an order that depends on seed and epoch; and what is said about
 * files that will not do. */
#include "data.h"
#include "test_kit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_text(const char *path, size_t count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < count; i++) (void)fputc((int)(i % 251), file);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    static char folder[] = "/tmp/lm_data_XXXXXX";
    *state = mkdtemp(folder);
    return *state == NULL ? -1 : chdir(folder);
}

static int remove_folder(void **state)
{
    (void)unlink("text"); /* some tests make it, some do not */
    return rmdir(*state);
}

static bool open_text(const char *path, uint32_t context, uint32_t held_out_percent, uint64_t seed,
                      struct data *ret_data, struct error *ret_error)
{
    const struct data_options options = {.context = context,
                                         .vocabulary = TOKENIZER_BYTES,
                                         .held_out_percent = held_out_percent,
                                         .seed = seed};
    return data_open(ret_data, path, &options, ret_error);
}

static void check_permutation(uint64_t seed, uint64_t epoch, uint64_t count)
{
    static unsigned char seen[5000];
    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t image = data_permute(seed, epoch, count, i);
        assert_true(image < count);
        assert_int_equal(seen[image], 0);
        seen[image] = 1;
    }
}

static void test_permutation(void **state)
{
    (void)state;
    for (uint64_t count = 1; count <= 130; count++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) check_permutation(9, epoch, count);
    check_permutation(1, 7, 4095);
    check_permutation(1, 7, 4096);
    check_permutation(1, 7, 4097);
}

static void test_order_changes_with_seed_and_epoch(void **state)
{
    (void)state;
    int same_seed = 0, same_epoch = 0, fixed = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t image = data_permute(1, 0, 1000, i);
        same_seed += image == data_permute(2, 0, 1000, i);
        same_epoch += image == data_permute(1, 1, 1000, i);
        fixed += image == i;
    }
    /* Expected: 1 each; 20 would be a broken generator. */
    assert_in_range(same_seed, 0, 20);
    assert_in_range(same_epoch, 0, 20);
    assert_in_range(fixed, 0, 20);
}

static void test_epochs_of_a_file(void **state)
{
    (void)state;
    enum { CONTEXT = 8, WINDOWS = 37 };
    write_text("text", CONTEXT * WINDOWS + 5); /* 4 bytes at the end are never used */
    struct data data;
    assert_true(open_text("text", CONTEXT, 0, 42, &data, NULL));
    assert_int_equal(data.training.window_count, WINDOWS);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        int used[WINDOWS] = {0};
        for (uint64_t i = 0; i < WINDOWS; i++) {
            uint16_t tokens[CONTEXT + 1];
            uint64_t sample = epoch * WINDOWS + i, window = data_window(&data, sample);
            data_sample(&data, sample, tokens);
            for (uint64_t t = 0; t <= CONTEXT; t++)
                assert_int_equal(tokens[t], (window * CONTEXT + t) % 251);
            used[window]++;
        }
        for (int window = 0; window < WINDOWS; window++) assert_int_equal(used[window], 1);
    }
    data_close(&data);
}

static void test_shortest_file(void **state)
{
    (void)state;
    struct data data;
    struct error error;
    write_text("text", 9);
    assert_true(open_text("text", 8, 0, 1, &data, NULL));
    assert_int_equal(data.training.window_count, 1);
    data_close(&data);
    assert_false(open_text("text", 9, 0, 1, &data, &error));
    assert_string_equal(error.text,
                        "text: 9 tokens to train on are too few for --context 9; give a "
                        "text of more than 9 tokens or a smaller --context");
    write_text("text", 0);
    assert_false(open_text("text", 8, 0, 1, &data, &error));
    assert_non_null(strstr(error.text, "text: is empty"));
}

static void test_held_out(void **state)
{
    (void)state;
    struct data data;
    struct error error;
    write_text("text", 1000);
    assert_true(open_text("text", 8, 10, 1, &data, NULL));
    assert_int_equal(data.training.window_count, 112); /* 900 bytes */
    assert_int_equal(data.held_out.window_count, 12);  /* 100 bytes */
    for (uint64_t window = 0; window < 12; window++) {
        uint16_t tokens[9];
        data_held_out(&data, window, tokens);
        for (uint64_t t = 0; t < 9; t++) assert_int_equal(tokens[t], (900 + window * 8 + t) % 251);
    }
    data_close(&data);
    assert_false(open_text("text", 100, 10, 1, &data, &error));
    assert_string_equal(error.text,
                        "text: --held-out 10 % are 100 tokens, too few for --context 100; give a "
                        "longer text, a smaller --context, another --held-out, or --held-out 0 "
                        "for no evaluation");
}

/* Windows of tokens give back the text, and the tokenizer has not seen what is held out. */
static void test_byte_pairs(void **state)
{
    (void)state;
    FILE *file = fopen("text", "w");
    assert_non_null(file);
    for (int i = 0; i < 500; i++) (void)fputs("in the beginning\n", file);
    for (int i = 0; i < 100; i++) (void)fputs("zzzzzz", file);
    assert_int_equal(fclose(file), 0);
    const struct data_options options = {
        .context = 4, .vocabulary = 264, .held_out_percent = 6, .seed = 1};
    struct data data;
    assert_true(data_open(&data, "text", &options, NULL));
    assert_true(data.training.count < 500 * 17 / 2);
    for (uint32_t i = 0; i < data.tokenizer.vocabulary - 256; i++)
        assert_true(data.tokenizer.merges[i].left != 'z');
    size_t at = 0;
    for (size_t i = 0; i < data.training.count; i++) {
        size_t count;
        const uint8_t *bytes = tokenizer_decode(&data.tokenizer, data.training.tokens[i], &count);
        assert_memory_equal(bytes, data.bytes + at, count);
        at += count;
    }
    data_close(&data);
    struct error error = {0};
    const struct data_options greedy = {.context = 4, .vocabulary = 5000, .seed = 1};
    assert_false(data_open(&data, "text", &greedy, &error));
    assert_non_null(strstr(error.text, "text: the text has pairs for "));
    assert_non_null(strstr(error.text, "use --vocab "));
}

static void test_unreadable(void **state)
{
    (void)state;
    struct data data;
    struct error error;
    assert_false(open_text("missing", 8, 0, 1, &data, &error));
    assert_non_null(strstr(error.text, "missing: cannot open: No such file"));
    assert_non_null(strstr(error.text, "examples/lm/text.sh"));
    assert_false(open_text(".", 8, 0, 1, &data, &error));
    assert_non_null(strstr(error.text, "not a file"));
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_false(open_text("pipe", 8, 0, 1, &data, &error)); /* and does not wait for a writer */
    assert_int_equal(unlink("pipe"), 0);
    assert_non_null(strstr(error.text, "pipe: not a file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_order_changes_with_seed_and_epoch),
        cmocka_unit_test(test_epochs_of_a_file),
        cmocka_unit_test(test_shortest_file),
        cmocka_unit_test(test_held_out),
        cmocka_unit_test(test_byte_pairs),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
