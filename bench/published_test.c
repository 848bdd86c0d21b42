/* Options and CSV files of the published protocols; what ends the program is tried in a child. */
#include "base/io.h"
#include "published.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct published_list policies, flags;

static struct published options_new(void)
{
    policies = (struct published_list){.option = "--policy", .word = "NAME", .meaning = "which"};
    flags = (struct published_list){.option = "--flag", .meaning = "stands alone"};
    return (struct published){.program = "bench/x",
                              .purpose = "Tries.",
                              .example = "bench/x",
                              .lists = {&policies, &flags},
                              .seed_first = 1,
                              .seed_last = 3};
}

static void parse(struct published *options, const char *const *words)
{
    char *argv[16] = {"x"};
    int argc = 1;
    while (words[argc - 1] != NULL) {
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
        argc++;
    }
    published_parse(options, argc, argv);
}

static void test_options(void **state)
{
    (void)state;
    struct published options = options_new();
    parse(&options, (const char *[]){"--seeds", "42..46", "--policy", "a", "b", "--json",
                                     "--policy", "c", "--flag", NULL});
    assert_int_equal(options.seed_first, 42);
    assert_int_equal(options.seed_last, 46);
    assert_true(options.json && options.seeds_given);
    assert_int_equal(policies.count, 3);
    assert_string_equal(policies.words[2], "c");
    assert_int_equal(flags.count, 1);
    assert_true(published_has(&policies, "b"));
    assert_false(published_has(&policies, "d"));
}

/* How a child that parses and checks these words ends. */
static int status_of(const char *const *words)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(99);
        if (freopen("/dev/null", "w", stdout) == NULL) _exit(99);
        struct published options = options_new();
        parse(&options, words);
        published_check(&options, &policies, (const char *const[]){"a", "b"}, 2);
        _exit(55);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_bad_options(void **state)
{
    (void)state;
    assert_int_equal(status_of((const char *[]){"--policy", "a", NULL}), 55);
    assert_int_equal(status_of((const char *[]){"--help", NULL}), 0);
    assert_int_equal(status_of((const char *[]){"--policy", "z", NULL}), PUBLISHED_USAGE);
    assert_int_equal(status_of((const char *[]){"--policy", NULL}), PUBLISHED_USAGE);
    assert_int_equal(status_of((const char *[]){"--seeds", "4..2", NULL}), PUBLISHED_USAGE);
    assert_int_equal(status_of((const char *[]){"--seeds", "-4", NULL}), PUBLISHED_USAGE);
    assert_int_equal(status_of((const char *[]){"--seeds", "4..", NULL}), PUBLISHED_USAGE);
    assert_int_equal(status_of((const char *[]){"--sedes", "4", NULL}), PUBLISHED_USAGE);
    assert_int_equal(status_of((const char *[]){"a", NULL}), PUBLISHED_USAGE);
}

static void test_csv(void **state)
{
    (void)state;
    static const char text[] = "name,n,x\r\n\"a, \"\"b\"\"\",42,\nc,-7,2.5";
    char folder[] = "/tmp/published_test.XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pods_x.csv", folder);
    assert_true(io_write_file(path, text, sizeof text - 1, 0600, NULL));
    const char *const *names;
    assert_int_equal(published_names(folder, "pods_", ".csv", &names), 1);
    assert_string_equal(names[0], "x");
    struct csv csv;
    csv_open(&csv, folder, "pods_x.csv", ',');
    assert_int_equal(csv.rows, 2);
    assert_string_equal(csv_text(&csv, 0, csv_column(&csv, "name")), "a, \"b\"");
    assert_int_equal(csv_integer(&csv, 0, csv_column(&csv, "n")), 42);
    assert_int_equal(csv_integer(&csv, 1, csv_column(&csv, "n")), -7);
    assert_true(csv_real(&csv, 0, csv_column(&csv, "x")) == 0);
    assert_true(csv_real(&csv, 1, csv_column(&csv, "x")) == 2.5);
    assert_int_equal(csv_column_any(&csv, "y"), UINT32_MAX);
    csv_close(&csv);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
