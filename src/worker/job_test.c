/* What a worker is given by its program and its environment: each mistake is refused by a sentence
 * that says what is wrong, with the number or the name. */
#include "worker/core/limits.h"
#include "worker/job.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float data[8];
static const struct shoal_tensor weights = {"w", data, {8}, 1};

/* A job that nothing is wrong with. */
static struct shoal_options fine(void)
{
    return (struct shoal_options){
        .params = &weights, .param_count = 1, .slots = 4, .steps = 10, .samples_per_slot = 1};
}

static void refused(const struct shoal_options *options, const char *sentence)
{
    struct job job;
    struct error why = {0};
    assert_false(job_init(&job, options, &why));
    if (strstr(why.text, sentence) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why.text, sentence);
}

static void what_is_fine_is_taken(void **state)
{
    (void)state;
    struct job job;
    struct error why = {0};
    const struct shoal_options options = fine();
    assert_true(job_init(&job, &options, &why));
    assert_int_equal(job.gang, 1);
    assert_int_equal(job.slots, 4);
    job_free(&job);
    setenv("SHOAL_GANG", "4", 1); /* one slot each is enough */
    assert_true(job_init(&job, &options, &why));
    assert_int_equal(job.gang, 4);
    job_free(&job);
    unsetenv("SHOAL_GANG");
}

static void environments_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *sentence;
    } cases[] = {
        {"SHOAL_GANG", "0", "SHOAL_GANG=0: a job begins with one worker or more"},
        {"SHOAL_GANG", "5",
         "slots: 4 are fewer than the 5 workers the job begins with (SHOAL_GANG); give at least "
         "one slot a worker"},
        {"SHOAL_GANG", "65", "SHOAL_GANG=65: expected a whole number up to 64"},
        {"SHOAL_GANG", "-1", "SHOAL_GANG=-1: expected a whole number up to 64"},
        {"SHOAL_GANG", "two", "SHOAL_GANG=two: expected a whole number up to 64"},
        {"SHOAL_WORKER", "1x", "SHOAL_WORKER=1x: expected a whole number"},
        {"SHOAL_CHECKPOINT_EVERY", "often",
         "SHOAL_CHECKPOINT_EVERY=often: expected a number of steps, auto or never"},
        {"SHOAL_ON_NAN", "panic", "SHOAL_ON_NAN=panic: expected continue, skip or stop"},
    };
    const struct shoal_options options = fine();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv(cases[i].name, cases[i].value, 1);
        refused(&options, cases[i].sentence);
        unsetenv(cases[i].name);
    }
}

static void counts_are_checked(void **state)
{
    (void)state;
    struct shoal_options options = fine();
    options.slots = 0;
    refused(&options, "slots: set shoal_options.slots or SHOAL_SLOTS to 1 .. ");
    options.slots = SHOAL_SLOTS_MAX + 1;
    refused(&options, "slots: set shoal_options.slots or SHOAL_SLOTS to 1 .. ");
    options = fine();
    options.steps = 0;
    refused(&options, "steps: set shoal_options.steps or SHOAL_STEPS to 1 or more");
    options = fine();
    options.on_nan = SHOAL_NAN_STOP + 1;
    refused(&options, "shoal_options.on_nan: 4 is not of enum shoal_on_nan");
}

static void tensors_are_checked(void **state)
{
    (void)state;
    const struct shoal_tensor twice[] = {weights, weights};
    static const struct {
        struct shoal_tensor tensor;
        const char *sentence;
    } cases[] = {
        {{"", data, {8}, 1}, "tensor name \"\": use 1 to "},
        {{"a\"b", data, {8}, 1}, "tensor name \"a\"b\": use 1 to "},
        {{"shoal.w", data, {8}, 1}, "tensor name \"shoal.w\": use 1 to "},
        {{"w", data, {8}, SHOAL_DIMS_MAX + 1}, "tensor w: "},
        {{"w", data, {UINT64_C(1) << 40, 2}, 2}, "tensor w: more than 2^40 elements"},
        {{"w", data, {UINT64_MAX, UINT64_MAX}, 2}, "tensor w: more than 2^40 elements"},
        {{"w", NULL, {8}, 1}, "tensor w: data is NULL"},
    };
    struct shoal_options options = fine();
    options.param_count = 0;
    refused(&options, "shoal_options.params: at least one tensor is needed");
    options.params = twice;
    options.param_count = 2;
    refused(&options, "tensor w is given twice");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options.params = &cases[i].tensor;
        options.param_count = 1;
        refused(&options, cases[i].sentence);
    }
}

static void moments_are_checked(void **state)
{
    (void)state;
    static const char *const same[] = {"m", "m"}, *const slash[] = {"a/b"};
    struct shoal_options options = fine();
    options.moment_count = 2;
    refused(&options, "moment_count 2: at most ");
    options.moment_names = same;
    refused(&options, "moment m is given twice");
    options.state = &weights;
    options.state_count = 1;
    options.params = &(const struct shoal_tensor){"v", data, {8}, 1};
    refused(&options, "a program gives either state or moments");
    options = fine();
    options.moment_count = 1;
    options.moment_names = slash;
    refused(&options, "moment name \"a/b\": as tensor names, and without /");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_fine_is_taken), cmocka_unit_test(environments_are_checked),
        cmocka_unit_test(counts_are_checked),    cmocka_unit_test(tensors_are_checked),
        cmocka_unit_test(moments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
