/* What is read, what is refused, and in which words. */
#include "base/mem.h"
#include "codec/yaml.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static yaml_tree *open_good(const char *text)
{
    struct error error = {{0}};
    yaml_tree *tree = yaml_open("t.yaml", text, strlen(text), &error);
    if (tree == NULL) fail_msg("%s", error.text);
    return tree;
}

static void expect_refused(const char *text, const char *sentence)
{
    struct error error = {{0}};
    yaml_tree *tree = yaml_open("t.yaml", text, strlen(text), &error);
    assert_null(tree);
    assert_string_equal(error.text, sentence);
}

/* Closes the tree. NULL: all is well. */
static void expect_finish(yaml_tree *tree, const char *sentence)
{
    struct error error = {{0}};
    bool good = yaml_finish(tree, &error);
    yaml_close(tree);
    assert_string_equal(error.text, sentence == NULL ? "" : sentence);
    assert_int_equal(good, sentence == NULL);
}

static void values_are_read(void **state)
{
    (void)state;
    yaml_tree *tree = open_good("\xef\xbb\xbf" /* a byte order mark */
                                "name: a b\n"
                                "count: 12\n"
                                "share: 0.7\n"
                                "wait: 1.5s\n"
                                "on: true\n"
                                "list: [x, \"y z\"]\n"
                                "map: {k: v, l: \"1\"}\n");
    yaml_item *root = yaml_root(tree);
    char name[8];
    yaml_copy(root, "name", name, sizeof name, "");
    assert_string_equal(name, "a b");
    assert_int_equal(yaml_integer(root, "count", 0, 20, 5), 12);
    assert_int_equal(yaml_micros(root, "share", 0, 1000000, 0), 700000);
    assert_int_equal(yaml_duration_us(root, "wait", 0, INT64_MAX, 0), 1500000);
    assert_true(yaml_flag(root, "on", false));
    yaml_item *list = yaml_list(root, "list");
    assert_int_equal(yaml_count(list), 2);
    assert_string_equal(yaml_item_string(yaml_at(list, 1)), "y z");
    yaml_item *map = yaml_map(root, "map");
    assert_int_equal(yaml_count(map), 2);
    assert_string_equal(yaml_key_at(map, 1), "l");
    assert_int_equal(yaml_item_integer(yaml_at(map, 1), 0, 9), 1);
    assert_int_equal(yaml_key_line_at(map, 1), 7);
    assert_string_equal(yaml_string(map, "k", ""), "v");
    /* Absent ones give what was asked for, through absent maps too. */
    assert_int_equal(yaml_integer(root, "other", 0, 20, 5), 5);
    assert_int_equal(yaml_integer(yaml_map(root, "none"), "x", 0, 20, 6), 6);
    assert_string_equal(yaml_string(NULL, "x", "absent"), "absent");
    assert_int_equal(yaml_count(NULL), 0);
    assert_false(yaml_flag(root, "off", false));
    expect_finish(tree, NULL);
}

static void json_is_read_too(void **state)
{
    (void)state;
    yaml_tree *tree = open_good("{\"a\": [1, 2], \"b\": {\"c\": \"d\\ne\"}}");
    yaml_item *root = yaml_root(tree);
    assert_int_equal(yaml_item_integer(yaml_at(yaml_list(root, "a"), 1), 0, 9), 2);
    assert_string_equal(yaml_string(yaml_map(root, "b"), "c", ""), "d\ne");
    expect_finish(tree, NULL);
}

static void an_empty_file_is_an_empty_map(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n\n", "# nothing\n", "---\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        yaml_tree *tree = open_good(texts[i]);
        assert_false(yaml_has(yaml_root(tree), "a"));
        expect_finish(tree, NULL);
    }
}

static void numbers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t micros;
    } cases[] = {
        {"0.1", true, 100000},
        {"30", true, 30000000},
        {"-1.5", true, -1500000},
        {"0.000001", true, 1},
        {"0.0000001", false, 0},
        {"1e3", false, 0},
        {".5", false, 0},
        {"5.", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"0x10", false, 0},
        {"1_000", false, 0},
        {"9223372036854.775807", true, INT64_MAX},
        {"9223372036854.775808", false, 0},
        {"99999999999999999999", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t micros = 0;
        assert_int_equal(yaml_parse_micros(cases[i].text, &micros), cases[i].good);
        assert_int_equal(micros, cases[i].micros);
    }
    int64_t value = 0;
    assert_true(yaml_parse_integer("-12", &value));
    assert_int_equal(value, -12);
    assert_false(yaml_parse_integer("1.0", &value));
    assert_false(yaml_parse_integer("9223372036854775808", &value));
}

static void durations_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t us;
    } cases[] = {
        {"200ms", true, 200000},
        {"2s", true, 2000000},
        {"1m", true, 60000000},
        {"1.5h", true, 5400000000},
        {"0s", true, 0},
        {"7us", true, 7},
        {"0.5ms", true, 500},
        {"1d", true, 86400000000},
        {"0.0001ms", false, 0},
        {"2", false, 0},
        {"s", false, 0},
        {"2 s", false, 0},
        {"2sec", false, 0},
        {"-1s", true, -1000000},
        {"9999999999999d", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t us = 0;
        assert_int_equal(yaml_parse_duration_us(cases[i].text, &us), cases[i].good);
        assert_int_equal(us, cases[i].us);
    }
}

static void unknown_keys_name_line_place_and_nearest(void **state)
{
    (void)state;
    yaml_tree *tree = open_good("name: x\nneeds:\n  devces: 1\n");
    yaml_item *needs = yaml_map(yaml_root(tree), "needs");
    (void)yaml_has(yaml_root(tree), "name");
    (void)yaml_require(needs, "devices"); /* the misspelt key explains the missing one */
    expect_finish(tree, "t.yaml:3: unknown key \"devces\" in needs; did you mean \"devices\"?");

    tree = open_good("nmae: x\n");
    (void)yaml_has(yaml_root(tree), "name");
    expect_finish(tree, "t.yaml:1: unknown key \"nmae\"; did you mean \"name\"?");

    tree = open_good("zzz: x\n");
    (void)yaml_has(yaml_root(tree), "name");
    (void)yaml_has(yaml_root(tree), "class");
    expect_finish(tree, "t.yaml:1: unknown key \"zzz\"; known here: name, class");

    tree = open_good("a: {free: 1}\n"); /* nobody looked into a */
    (void)yaml_any(yaml_root(tree), "a");
    expect_finish(tree, NULL);
}

static void the_first_mistake_is_reported(void **state)
{
    (void)state;
    yaml_tree *tree = open_good("a: 1\nb: -5\nc: x\nd: 1\n");
    yaml_item *root = yaml_root(tree);
    (void)yaml_integer(root, "c", 0, 9, 0);
    (void)yaml_micros(root, "b", 0, INT64_MAX, 0);
    (void)yaml_integer(root, "a", 0, 9, 0);
    (void)yaml_require(root, "e");
    expect_finish(tree, "t.yaml:2: \"b\" is \"-5\"; give a number of 0 or more");

    tree = open_good("zz: 1\nb: -5\n");
    (void)yaml_integer(yaml_root(tree), "b", 0, 9, 0);
    expect_finish(tree, "t.yaml:1: unknown key \"zz\"; known here: b");

    tree = open_good("{b: -5, zz: 1}\n"); /* on one line the unknown key explains more */
    (void)yaml_integer(yaml_root(tree), "b", 0, 9, 0);
    expect_finish(tree, "t.yaml:1: unknown key \"zz\"; known here: b");

    tree = open_good("b: 1\n");
    (void)yaml_require(yaml_root(tree), "c");
    (void)yaml_has(yaml_root(tree), "b");
    expect_finish(tree, "t.yaml:1: \"c\" is missing; add it");
}

static void wrong_kinds_are_mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
        char getter;
    } cases[] = {
        {"k: [1]", "t.yaml:1: \"k\" is a list; give a text", 's'},
        {"k: {a: 1}", "t.yaml:1: \"k\" is a map; give a whole number", 'i'},
        {"k:", "t.yaml:1: \"k\" is empty; give a text or leave it out", 's'},
        {"k: ~", "t.yaml:1: \"k\" is empty; give a text or leave it out", 's'},
        {"k: 1", "t.yaml:1: \"k\" is no map; write it as key: value lines or as {key: value}", 'm'},
        {"k: 1",
         "t.yaml:1: \"k\" is no list; write it as [a, b] or as lines that begin with \"- \"", 'l'},
        {"k: maybe", "t.yaml:1: \"k\" is \"maybe\"; give true or false", 'f'},
        {"k: 10", "t.yaml:1: \"k\" is \"10\"; give a whole number from 0 to 9", 'i'},
        {"k: 5", "t.yaml:1: \"k\" is \"5\"; give a time like 200ms, 2s, 1.5m or 1h", 'd'},
        {"k: 10s", "t.yaml:1: \"k\" is \"10s\"; give a time from 500ms to 9s", 'd'},
        {"k: 0.0000001", "t.yaml:1: \"k\" is \"0.0000001\"; give a number with at most 6 decimals",
         'n'},
        {"k: [1, {a: b}]", "t.yaml:1: an element of \"k\" is a map; give a whole number", 'e'},
        {"k: abcdefgh", "t.yaml:1: \"k\" is longer than 7 bytes; shorten it", 'c'},
        {"- k", "t.yaml:1: the file is not a map; write \"key: value\" lines", 's'},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        yaml_tree *tree = open_good(cases[i].text);
        yaml_item *root = yaml_root(tree);
        char text[8];
        switch (cases[i].getter) {
        case 's': assert_string_equal(yaml_string(root, "k", "absent"), "absent"); break;
        case 'i': assert_int_equal(yaml_integer(root, "k", 0, 9, 4), 4); break;
        case 'm': assert_null(yaml_map(root, "k")); break;
        case 'l': assert_null(yaml_list(root, "k")); break;
        case 'f': assert_true(yaml_flag(root, "k", true)); break;
        case 'd': assert_int_equal(yaml_duration_us(root, "k", 500000, 9000000, 3), 3); break;
        case 'n': assert_int_equal(yaml_micros(root, "k", 0, 9, 5), 5); break;
        case 'e':
            assert_int_equal(yaml_item_integer(yaml_at(yaml_list(root, "k"), 1), 0, 9), 0);
            break;
        case 'c':
            yaml_copy(root, "k", text, sizeof text, "");
            assert_string_equal(text, "");
            break;
        default: fail();
        }
        expect_finish(tree, cases[i].sentence);
    }
}

static void syntax_and_extras_are_refused(void **state)
{
    (void)state;
    expect_refused("a: &x 1\nb: *x\n",
                   "t.yaml:1: anchors and aliases are not allowed; write the value out");
    expect_refused("a: 1\nb: *x\n",
                   "t.yaml:2: anchors and aliases are not allowed; write the value out");
    expect_refused("a: !!int 1\n", "t.yaml:1: tags are not allowed; leave the ! out");
    expect_refused("a: !x {b: 1}\n", "t.yaml:1: tags are not allowed; leave the ! out");
    expect_refused("a: 1\nb: 2\na: 3\n",
                   "t.yaml:3: key \"a\" is there twice (first in line 1); keep one");
    expect_refused("? [a]\n: 1\n", "t.yaml:1: a key is a list or a map; keys must be words");
    expect_refused("a: 1\n---\nb: 1\n", "t.yaml:2: a second document begins; keep one per file");
    expect_refused("a: \"x\\0y\"\n", "t.yaml:1: a text holds a zero byte; take the \\0 out");
    expect_refused("a: 1\nb: [1, 2\n",
                   "t.yaml:3: not valid YAML: did not find expected ',' or ']'; check indentation, "
                   "quotes and brackets");
    expect_refused("a: 1\nb: \x01\n", "t.yaml:2: not plain UTF-8 text: control characters are not "
                                      "allowed; save the file as UTF-8");
    expect_refused("a: 1\n\tb: 2\n", "t.yaml:2: a tab indents this line; use spaces");
}

static void limits_hold(void **state)
{
    (void)state;
    struct error error;
    char deep[2 * (YAML_DEPTH_MAX + 2) + 1];
    for (int i = 0; i < YAML_DEPTH_MAX + 1; i++) deep[i] = '[', deep[i + YAML_DEPTH_MAX + 1] = ']';
    deep[2 * (YAML_DEPTH_MAX + 1)] = '\0';
    expect_refused(deep, "t.yaml:1: nested too deep; flatten it");

    size_t bytes = YAML_BYTES_MAX + 1;
    char *big = mem_alloc(bytes);
    memset(big, '#', bytes);
    assert_null(yaml_open("t.yaml", big, bytes, &error));
    assert_non_null(strstr(error.text, "above the limit of 1048576; split the file"));

    size_t used = 0;
    big[used++] = '[';
    for (int i = 0; i < YAML_NODES_MAX; i++) big[used++] = 'a', big[used++] = ',';
    big[used++] = ']';
    assert_null(yaml_open("t.yaml", big, used, &error));
    assert_string_equal(error.text, "t.yaml:1: more than 100000 values; split the file");

    used = 0;
    for (int i = 0; i <= 1024; i++)
        used += (size_t)snprintf(big + used, bytes - used, "k%d: 1\n", i);
    assert_null(yaml_open("t.yaml", big, used, &error));
    assert_string_equal(error.text, "t.yaml:1025: more than 1024 keys in one map; split it");
    mem_free(big);
}

static void messages_stay_one_clean_line(void **state)
{
    (void)state;
    /* 60 bytes of text, then a two-byte character across the cut at 63 bytes */
    yaml_tree *tree = open_good("\"a\\nb12345678901234567890123456789012345678901234567890123456789"
                                "\xc3\xa4\xc3\xa4\": 1\n");
    (void)yaml_has(yaml_root(tree), "x");
    expect_finish(tree, "t.yaml:1: unknown key "
                        "\"a?b12345678901234567890123456789012345678901234567890123456789\"; "
                        "known here: x");
}

static void mistakes_of_callers_are_kept_clean(void **state)
{
    (void)state;
    yaml_tree *tree = open_good("a: \"x\\ny\"\n");
    yaml_item *item = yaml_any(yaml_root(tree), "a");
    yaml_mistake(NULL, "nothing to point at");
    yaml_mistake(item, "odd value %s", yaml_item_string(item));
    expect_finish(tree, "t.yaml:1: odd value x?y");
}

static void nearest_needs_to_be_near(void **state)
{
    (void)state;
    static const char *const words[] = {"devices", "device", "min", "max"};
    assert_string_equal(yaml_nearest("devcies", words, 4), "devices"); /* swapped neighbours */
    assert_string_equal(yaml_nearest("mn", words, 4), "min");
    assert_string_equal(yaml_nearest("device", words, 4), "device");
    assert_string_equal(yaml_nearest("device_count", words, 4), "device");
    assert_null(yaml_nearest("zone", words, 4));
    assert_null(yaml_nearest("", words, 4));
    assert_null(yaml_nearest("x", words, 0));
}

static void no_allocation_failure_is_lost(void **state)
{
    (void)state;
    static const char text[] = "a: [1, 2, {b: c}]\nd: e\n";
    bool succeeded = false;
    for (uint64_t nth = 1; !succeeded; nth++) {
        struct error error = {{0}};
        mem_fail_at(nth);
        yaml_tree *tree = yaml_open("t.yaml", text, strlen(text), &error);
        if (tree != NULL) {
            (void)yaml_string(yaml_root(tree), "d", "");
            (void)yaml_any(yaml_root(tree), "a");
            succeeded = yaml_finish(tree, &error);
            yaml_close(tree);
        }
        mem_fail_at(0);
        if (!succeeded) assert_string_equal(error.text, "t.yaml: out of memory while reading it");
        assert_true(nth < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(json_is_read_too),
        cmocka_unit_test(an_empty_file_is_an_empty_map),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(durations_have_units),
        cmocka_unit_test(unknown_keys_name_line_place_and_nearest),
        cmocka_unit_test(the_first_mistake_is_reported),
        cmocka_unit_test(wrong_kinds_are_mistakes),
        cmocka_unit_test(syntax_and_extras_are_refused),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(messages_stay_one_clean_line),
        cmocka_unit_test(mistakes_of_callers_are_kept_clean),
        cmocka_unit_test(nearest_needs_to_be_near),
        cmocka_unit_test(no_allocation_failure_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
