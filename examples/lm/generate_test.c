/* One token at a time gives the logits of the whole pass, also after the context was full; and what
 * temperature, top-k, seed and prompt do. */
#include "base/mem.h"
#include "decode.h"
#include "generate.h"
#include "ops.h"
#include "pass.h"
#include "test_kit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 12, PARAMS_MAX = 20000 };

struct fixture {
    struct model model;
    struct tokenizer tokenizer;
    float params[PARAMS_MAX];
};

static struct fixture *open_fixture(void)
{
    static struct fixture fixture;
    const struct model_config config = {
        .layers = 2, .width = 16, .heads = 4, .context = CONTEXT, .vocabulary = 256, .tied = false};
    assert_true(model_build(&fixture.model, &config, NULL));
    assert_true(fixture.model.param_count <= PARAMS_MAX);
    assert_true(tokenizer_of_merges(&fixture.tokenizer, NULL, 0, NULL));
    for (size_t i = 0; i < fixture.model.param_count; i++)
        fixture.params[i] = counter_uniform(3, 1, i) - 0.5f;
    return &fixture;
}

/* Logits after tokens[0 .. count), which must fit the context. */
static void slow_logits(const struct fixture *fixture, const uint16_t *tokens, size_t count,
                        float *ret_logits)
{
    uint16_t sequence[CONTEXT + 1] = {0};
    memcpy(sequence, tokens, count * sizeof *tokens);
    struct pass *pass = pass_make(&fixture->model, 1, NULL);
    assert_non_null(pass);
    pass_logits(pass, fixture->params, sequence, 1);
    memcpy(ret_logits, pass_row(pass, 0, (uint32_t)count - 1), 256 * sizeof *ret_logits);
    pass_free(pass);
}

static void test_decoder_against_the_pass(void **state)
{
    (void)state;
    struct fixture *fixture = open_fixture();
    struct decoder *decoder = decoder_make(&fixture->model, fixture->params, NULL);
    assert_non_null(decoder);
    uint16_t tokens[3 * CONTEXT];
    size_t first = 0;
    for (size_t i = 0; i < 3 * CONTEXT; i++) {
        float wanted[256];
        tokens[i] = (uint16_t)(counter_bits(1, 2, i) % 256);
        const float *logits = decoder_push(decoder, tokens[i]);
        if (i - first == CONTEXT) first = i - CONTEXT / 2; /* the older half was forgotten */
        slow_logits(fixture, tokens + first, i - first + 1, wanted);
        for (int c = 0; c < 256; c++) assert_float_equal(logits[c], wanted[c], 2e-4);
    }
    decoder_free(decoder);
    tokenizer_free(&fixture->tokenizer);
}

static char *text_of(const struct fixture *fixture, struct generate_options options)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_true(
        generate_text(&fixture->model, fixture->params, &fixture->tokenizer, &options, out, NULL));
    assert_int_equal(fclose(out), 0);
    assert_int_equal(bytes, options.count + (options.prompt == NULL ? 0 : strlen(options.prompt)));
    return text;
}

static void check_same(const struct fixture *fixture, bool same, struct generate_options one,
                       struct generate_options two)
{
    char *first = text_of(fixture, one), *second = text_of(fixture, two);
    assert_int_equal(memcmp(first, second, one.count) == 0, same);
    free(first);
    free(second);
}

static void test_options(void **state)
{
    (void)state;
    struct fixture *fixture = open_fixture();
    const struct generate_options warm = {.count = 50, .temperature = 1, .seed = 1};
    struct generate_options other = warm;
    check_same(fixture, true, warm, warm);
    other.seed = 2;
    check_same(fixture, false, warm, other);
    /* The likeliest one by top-k, by temperature, and by a temperature so low that it is the same. */
    const struct generate_options cold = {.count = 50, .temperature = 0, .seed = 1};
    struct generate_options top = warm, low = warm;
    top.top_k = 1;
    low.temperature = 1e-4f;
    check_same(fixture, true, cold, top);
    check_same(fixture, true, cold, low);
    other = cold;
    other.seed = 9;
    check_same(fixture, true, cold, other);
    other.prompt = "xyz";
    char *text = text_of(fixture, other);
    assert_memory_equal(text, "xyz", 3);
    free(text);
    tokenizer_free(&fixture->tokenizer);
}

/* With top-k 3 no other than the three likeliest first tokens is ever drawn, and each is. */
static void test_top_k(void **state)
{
    (void)state;
    struct fixture *fixture = open_fixture();
    float logits[256];
    const uint16_t start = '\n';
    slow_logits(fixture, &start, 1, logits);
    bool allowed[256] = {false}, seen[256] = {false};
    for (int k = 0; k < 3; k++) {
        int best = -1;
        for (int c = 0; c < 256; c++)
            if (!allowed[c] && (best < 0 || logits[c] > logits[best])) best = c;
        allowed[best] = true;
    }
    for (uint64_t seed = 0; seed < 300; seed++) {
        char *text = text_of(fixture, (struct generate_options){
                                          .count = 1, .top_k = 3, .temperature = 2, .seed = seed});
        seen[(uint8_t)text[0]] = true;
        free(text);
    }
    assert_memory_equal(allowed, seen, sizeof seen);
    tokenizer_free(&fixture->tokenizer);
}

static void test_failures(void **state)
{
    (void)state;
    struct fixture *fixture = open_fixture();
    const struct generate_options options = {.count = 2, .temperature = 1, .prompt = "ab"};
    FILE *out = fopen("/dev/null", "w");
    assert_non_null(out);
    uint64_t before = mem_calls();
    assert_true(
        generate_text(&fixture->model, fixture->params, &fixture->tokenizer, &options, out, NULL));
    uint64_t calls = mem_calls() - before;
    for (uint64_t nth = 1; nth <= calls; nth++) {
        struct error error = {0};
        mem_fail_at(nth);
        assert_false(generate_text(&fixture->model, fixture->params, &fixture->tokenizer, &options,
                                   out, &error));
        assert_non_null(strstr(error.text, "out of memory"));
    }
    mem_fail_at(0);
    assert_int_equal(fclose(out), 0);
    FILE *full = fopen("/dev/full", "w");
    struct error error = {0};
    assert_non_null(full);
    assert_false(generate_text(&fixture->model, fixture->params, &fixture->tokenizer, &options,
                               full, &error));
    assert_string_equal(error.text, "cannot write the text");
    (void)fclose(full); /* fails again */
    tokenizer_free(&fixture->tokenizer);
}

int main(int argc, char **argv)
{
    (void)argc;
    gemm_pin_kernels(argv);
    gemm_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoder_against_the_pass),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
