/* What the command line takes, and the sentence for each thing it does not take. */
#include "options.h"
#include "test_kit.h"
#include <shoal.h>
#include <string.h>

enum { WORDS_MAX = 32 };

/* Splits at blanks, as a shell would. */
static enum options_result parse(const char *line, struct lm_options *ret_options,
                                 struct error *ret_error)
{
    static char copy[256];
    char *argv[WORDS_MAX + 1] = {(char[]){"lm"}};
    int argc = 1;
    (void)strncpy(copy, line, sizeof copy - 1);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    return options_parse(argc, argv, ret_options, ret_error);
}

static void test_defaults(void **state)
{
    (void)state;
    struct lm_options options;
    assert_int_equal(parse("--data f", &options, NULL), OPTIONS_RUN);
    assert_string_equal(options.data, "f");
    assert_int_equal(options.model.vocabulary, 256);
    assert_int_equal(options.held_out_percent, 0);
    assert_true(options.adamw.warmup_steps == ADAMW_WARMUP_AUTO);
    assert_true(options.dropout == 0);
    assert_true(options.model.tied);
    assert_int_equal(options.steps, 0); /* the environment decides */
    assert_int_equal(options.slots, 0);
    assert_int_equal(options.threads, 1);
}

static void test_all(void **state)
{
    (void)state;
    struct lm_options options;
    const char *line = "--data f --steps 7 --slots 9 --layers 3 --width 64 --heads 4 --context 32 "
                       "--untied";
    assert_int_equal(parse(line, &options, NULL), OPTIONS_RUN);
    assert_int_equal(options.steps, 7);
    assert_int_equal(options.slots, 9);
    assert_int_equal(options.model.layers, 3);
    assert_int_equal(options.model.width, 64);
    assert_int_equal(options.model.heads, 4);
    assert_int_equal(options.model.context, 32);
    assert_false(options.model.tied);
    line =
        "--data f --batch 6 --parts 3 --threads 2 --lr 0.5 --seed 18446744073709551615 --sample 5";
    assert_int_equal(parse(line, &options, NULL), OPTIONS_RUN);
    assert_int_equal(options.batch, 6);
    assert_int_equal(options.parts, 3);
    assert_int_equal(options.threads, 2);
    assert_true(options.adamw.peak_rate == 0.5f);
    assert_true(options.seed == UINT64_MAX);
    assert_int_equal(options.sample_count, 5);
    line = "--data f --checkpoint c --checkpoint-every 20 --report 3";
    assert_int_equal(parse(line, &options, NULL), OPTIONS_RUN);
    assert_string_equal(options.checkpoint, "c");
    assert_int_equal(options.checkpoint_every, 20);
    assert_int_equal(options.report_every, 3);
    assert_int_equal(parse("--data f --checkpoint-every never", &options, NULL), OPTIONS_RUN);
    assert_true(options.checkpoint_every == SHOAL_CHECKPOINT_NEVER);
    assert_int_equal(parse("--data f --checkpoint-every auto", &options, NULL), OPTIONS_RUN);
    assert_true(options.checkpoint_every == SHOAL_CHECKPOINT_AUTO);
}

static void test_learning_and_text(void **state)
{
    (void)state;
    struct lm_options options;
    assert_int_equal(parse("--data f --tokenizer bpe --vocab 300 --eval-every 7", &options, NULL),
                     OPTIONS_RUN);
    assert_int_equal(options.model.vocabulary, 300);
    assert_int_equal(options.eval_every, 7);
    assert_int_equal(options.held_out_percent, 5);
    const char *line = "--data f --warmup 9 --lr-end 0 --beta1 0.8 --beta2 0.99 --weight-decay 0 "
                       "--clip 0 --dropout 0.1";
    assert_int_equal(parse(line, &options, NULL), OPTIONS_RUN);
    assert_int_equal(options.adamw.warmup_steps, 9);
    assert_true(options.adamw.final_share == 0 && options.adamw.beta1 == 0.8f);
    assert_true(options.adamw.beta2 == 0.99f && options.adamw.decay == 0);
    assert_true(options.adamw.clip == 0 && options.dropout == 0.1);
    line = "--generate 40 --checkpoint c --prompt And --temperature 1.5 --top-k 8 --seed 3";
    assert_int_equal(parse(line, &options, NULL), OPTIONS_RUN);
    assert_int_equal(options.generate.count, 40);
    assert_string_equal(options.generate.prompt, "And");
    assert_true(options.generate.temperature == 1.5f);
    assert_int_equal(options.generate.top_k, 8);
    assert_int_equal(options.generate.seed, 3);
}

static void test_help(void **state)
{
    (void)state;
    struct lm_options options;
    assert_int_equal(parse("--help", &options, NULL), OPTIONS_HELP);
    assert_non_null(strstr(options_help, "example:"));
}

static void test_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *line, *sentence;
    } cases[] = {
        {"", "--data FILE is needed; see --help"},
        {"--data", "--data: unknown option, or its value is missing; see --help"},
        {"--dta f", "--dta: unknown option, or its value is missing; see --help"},
        {"--data f more", "more: unexpected argument; see --help"},
        {"--data f --width -1", "--width \"-1\": give a whole number from 1 to 4096"},
        {"--data f --width 64x", "--width \"64x\": give a whole number from 1 to 4096"},
        {"--data f --width 4097", "--width \"4097\": give a whole number from 1 to 4096"},
        {"--data f --slots 0", "--slots \"0\": give a whole number from 1 to 1024"},
        {"--data f --seed 18446744073709551616",
         "--seed \"18446744073709551616\": give a whole number from 0 to 18446744073709551615"},
        {"--data f --lr 0", "--lr \"0\": give a number above 0 and at most 1"},
        {"--data f --lr nan", "--lr \"nan\": give a number above 0 and at most 1"},
        {"--data f --lr 1e", "--lr \"1e\": give a number above 0 and at most 1"},
        {"--data f --dropout 1", "--dropout \"1\": give a number from 0 to 0.9"},
        {"--data f --tokenizer words", "--tokenizer \"words\": give bytes or bpe"},
        {"--data f --vocab 300",
         "--vocab is the size that --tokenizer bpe learns; bytes are always 256"},
        {"--data f --tokenizer bpe --vocab 70000",
         "--vocab \"70000\": give a whole number from 256 to 65536"},
        {"--data f --eval-every 5 --held-out 0",
         "--eval-every with --held-out 0: nothing to evaluate on"},
        {"--generate 10", "--generate needs --checkpoint DIR; see --help"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lm_options options;
        struct error error = {0};
        assert_int_equal(parse(cases[i].line, &options, &error), OPTIONS_WRONG);
        assert_string_equal(error.text, cases[i].sentence);
    }
}

static void test_models_that_cannot_be(void **state)
{
    (void)state;
    static struct model model;
    struct error error;
    const struct model_config heads = {1, 96, 7, 64, 256, true};
    assert_false(model_build(&model, &heads, &error));
    assert_string_equal(error.text, "--heads 7: must divide --width 96");
    const struct model_config layers = {MODEL_LAYERS_MAX + 1, 96, 6, 64, 256, true};
    assert_false(model_build(&model, &layers, &error));
    assert_string_equal(error.text, "--layers 49: use 1 to 48");
    const struct model_config vocabulary = {1, 96, 6, 64, MODEL_VOCABULARY_MAX + 1, true};
    assert_false(model_build(&model, &vocabulary, &error));
    const struct model_config largest = {MODEL_LAYERS_MAX,  MODEL_WIDTH_MAX,      64,
                                         MODEL_CONTEXT_MAX, MODEL_VOCABULARY_MAX, false};
    assert_true(model_build(&model, &largest, &error));
    assert_int_equal(model.tensor_count, MODEL_TENSORS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_learning_and_text),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_models_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
