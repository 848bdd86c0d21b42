/* The shipped catalog is good, layers keep their numbers, and mistakes are named. */
#include "base/mem.h"
#include "codec/catalog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct catalog shipped(void)
{
    struct catalog catalog = {0};
    struct error error;
    if (!catalog_parse_shipped(&catalog, &error)) fail_msg("%s", error.text);
    return catalog;
}

static void shipped_catalog_has_the_known_models(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ncu_milli, vram_gb;
    } models[] = {{"H100", 2500, 80},      {"A100-80GB", 1600, 80}, {"A100-40GB", 1000, 40},
                  {"A10", 400, 24},        {"T4", 200, 16},         {"L4", 350, 24},
                  {"A30", 500, 24},        {"V100", 400, 16},       {"MI300X", 3300, 192},
                  {"Ascend-910B", 900, 64}};
    struct catalog catalog = shipped();
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        uint32_t index;
        assert_true(catalog_find_model(&catalog, models[i].name, &index));
        assert_int_equal(catalog.models[index].ncu_milli, models[i].ncu_milli);
        assert_int_equal(catalog.models[index].vram_mib, models[i].vram_gb * 1024);
    }
    for (uint32_t i = 0; i < catalog.model_count; i++) { /* each can do something */
        assert_true(catalog.models[i].ncu_milli > 0);
        assert_true(catalog.models[i].capability_mask != 0);
    }
}

static void a_layer_replaces_and_adds(void **state)
{
    (void)state;
    static const char text[] = "capabilities: [fp16, transposer]\n"
                               "models:\n"
                               "  T4: {ncu: 0.25, vram_gb: 16, capabilities: [transposer]}\n"
                               "  Mine: {ncu: 1.234, vram_gb: 1}\n";
    struct catalog catalog = shipped(), before = catalog;
    struct error error;
    assert_true(catalog_parse(&catalog, "my.yaml", text, strlen(text), &error));
    assert_int_equal(catalog.capability_count, before.capability_count + 1);
    assert_int_equal(catalog.model_count, before.model_count + 1);
    uint32_t old_index, new_index;
    assert_true(catalog_find_model(&before, "T4", &old_index));
    assert_true(catalog_find_model(&catalog, "T4", &new_index));
    assert_int_equal(old_index, new_index);
    assert_int_equal(catalog.models[new_index].ncu_milli, 250);
    assert_int_equal(catalog.models[new_index].capability_mask, UINT64_C(1)
                                                                    << before.capability_count);
    assert_int_equal(catalog.models[before.model_count].ncu_milli, 1234);
}

static void reserved_numbers_stay(void **state)
{
    (void)state;
    struct catalog catalog = {0};
    struct error error;
    uint32_t index;
    assert_true(catalog_reserve_model(&catalog, "Old-1"));
    assert_true(catalog_reserve_model(&catalog, "T4"));
    assert_true(catalog_reserve_capability(&catalog, "old"));
    assert_true(catalog_parse_shipped(&catalog, &error));
    assert_false(catalog_find_model(&catalog, "Old-1", &index)); /* nobody defines it any more */
    assert_true(catalog_find_model(&catalog, "T4", &index));
    assert_int_equal(index, 1);
    assert_true(catalog_find_capability(&catalog, "old", &index));
    assert_int_equal(index, 0);
    assert_false(catalog_reserve_model(&catalog, "a-name-that-is-longer-than-it-may-be"));
}

static void mistakes_leave_the_catalog_alone(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"models: {X: {ncu: 1, vram_gb: 2, capabilities: [tensor-core]}}",
         "c.yaml:1: unknown capability \"tensor-core\"; did you mean \"tensor-cores\"?"},
        {"models:\n  X: {vram_gb: 2}\n", "c.yaml:2: \"ncu\" is missing in X; add it"},
        {"models:\n  X: {ncu: 1}\n", "c.yaml:2: \"vram_gb\" is missing in X; add it"},
        {"models: {X: {ncu: 0, vram_gb: 2}}",
         "c.yaml:1: \"ncu\" is \"0\"; give a number from 0.001 to 1000"},
        {"models: {X: {ncu: 0.1234, vram_gb: 2}}",
         "c.yaml:1: \"ncu\" of X is finer than 0.001; round it"},
        {"models: {X: {ncu: 1, vram_gb: 2, capabilities: [2gb-vram]}}",
         "c.yaml:1: X lists a vram capability; give vram_gb"},
        {"models: {X: 1}",
         "c.yaml:1: \"X\" is no map; write it as key: value lines or as {key: value}"},
        {"models: {X Y: {ncu: 1, vram_gb: 2}}",
         "c.yaml:1: \"X Y\" is no name; use letters, digits and . _ / -"},
        {"models: {a-name-that-is-longer-than-it-may-be: {ncu: 1, vram_gb: 2}}",
         "c.yaml:1: the name \"a-name-that-is-longer-than-it-may-be\" is longer than 31 bytes; "
         "shorten it"},
        {"capabilities: [4gb-vram]",
         "c.yaml:1: \"4gb-vram\" is always known; take it out and give models a vram_gb"},
        {"capability: [x]", "c.yaml:1: unknown key \"capability\"; did you mean \"capabilities\"?"},
        {"models: {X: {ncu: 1, vram: 2}}",
         "c.yaml:1: unknown key \"vram\" in X; did you mean \"vram_gb\"?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct catalog catalog = shipped(), before = catalog;
        struct error error = {{0}};
        assert_false(
            catalog_parse(&catalog, "c.yaml", cases[i].text, strlen(cases[i].text), &error));
        assert_string_equal(error.text, cases[i].sentence);
        assert_memory_equal(&catalog, &before, sizeof catalog);
    }
}

static void a_need_is_read_and_compared(void **state)
{
    (void)state;
    static const char text[] = "n: [bf16, tensor-cores, 24gb-vram, 16gb-vram]\n"
                               "m: [T4, A10, H100]\n";
    struct catalog catalog = shipped();
    struct error error;
    yaml_tree *tree = yaml_open("n.yaml", text, strlen(text), &error);
    yaml_item *root = yaml_root(tree);
    struct device_need need = catalog_read_need(&catalog, yaml_list(root, "n"));
    uint64_t models = catalog_read_models(&catalog, yaml_list(root, "m"));
    assert_true(yaml_finish(tree, &error));
    yaml_close(tree);
    assert_int_equal(need.vram_min_mib, 24 * 1024);
    assert_int_equal(__builtin_popcountll(need.capability_mask), 2);
    assert_int_equal(__builtin_popcountll(models), 3);

    uint32_t t4, a10, h100;
    char lacking[CATALOG_NAME_BYTES] = "";
    assert_true(catalog_find_model(&catalog, "T4", &t4));
    assert_true(catalog_find_model(&catalog, "A10", &a10));
    assert_true(catalog_find_model(&catalog, "H100", &h100));
    assert_true(catalog_model_has(&catalog, a10, &need, lacking));
    assert_true(catalog_model_has(&catalog, h100, &need, lacking));
    assert_false(catalog_model_has(&catalog, t4, &need, lacking));
    assert_string_equal(lacking, "bf16");
    need.capability_mask = 0;
    assert_false(catalog_model_has(&catalog, t4, &need, lacking));
    assert_string_equal(lacking, "24gb-vram");
}

static void unknown_references_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"n: [fp16]\nm: [H10]", "n.yaml:2: unknown device model \"H10\"; did you mean \"H100\"?"},
        {"n: [b-float]\nm: []",
         "n.yaml:1: unknown capability \"b-float\"; add it to the catalog or use one of: fp16, "
         "bf16, fp8, int8, tensor-cores, fp64, fp4, nvlink, mig, cuda, rocm, cann"},
        {"n: [5000gb-vram]\nm: []",
         "n.yaml:1: unknown capability \"5000gb-vram\"; add it to the catalog or use one of: fp16, "
         "bf16, fp8, int8, tensor-cores, fp64, fp4, nvlink, mig, cuda, rocm, cann"},
    };
    struct catalog catalog = shipped();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {{0}};
        yaml_tree *tree = yaml_open("n.yaml", cases[i].text, strlen(cases[i].text), &error);
        (void)catalog_read_need(&catalog, yaml_list(yaml_root(tree), "n"));
        (void)catalog_read_models(&catalog, yaml_list(yaml_root(tree), "m"));
        assert_false(yaml_finish(tree, &error));
        yaml_close(tree);
        assert_string_equal(error.text, cases[i].sentence);
    }
}

static void a_model_becomes_an_event(void **state)
{
    (void)state;
    struct catalog catalog = shipped();
    struct pool_event event;
    uint32_t index;
    assert_true(catalog_find_model(&catalog, "A10", &index));
    catalog_model_event(&catalog, index, &event);
    assert_int_equal(event.kind, POOL_EVENT_MODEL_DEFINED);
    assert_int_equal(event.version, POOL_CORE_VERSION);
    assert_int_equal(event.u.model_defined.model, index);
    assert_int_equal(event.u.model_defined.ncu_milli, 400);
    assert_int_equal(event.u.model_defined.vram_mib, 24576);
    assert_int_equal(event.u.model_defined.capability_mask, catalog.models[index].capability_mask);
}

static void no_allocation_failure_is_lost(void **state)
{
    (void)state;
    bool good = false;
    for (uint64_t nth = 1; !good; nth++) {
        struct catalog catalog = {0};
        struct error error = {{0}};
        mem_fail_at(nth);
        good = catalog_parse_shipped(&catalog, &error);
        mem_fail_at(0);
        if (!good) assert_non_null(strstr(error.text, "out of memory"));
        if (!good) assert_int_equal(catalog.model_count, 0);
        assert_true(nth < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_catalog_has_the_known_models),
        cmocka_unit_test(a_layer_replaces_and_adds),
        cmocka_unit_test(reserved_numbers_stay),
        cmocka_unit_test(mistakes_leave_the_catalog_alone),
        cmocka_unit_test(a_need_is_read_and_compared),
        cmocka_unit_test(unknown_references_are_named),
        cmocka_unit_test(a_model_becomes_an_event),
        cmocka_unit_test(no_allocation_failure_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
