/* shoal.yaml: what is read, defaults, and every mistake in its words. */
#include "base/mem.h"
#include "codec/config.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct catalog catalog;
static struct config config; /* large: not on the stack */

static int set_up(void **state)
{
    (void)state;
    struct error error;
    return catalog_parse_shipped(&catalog, &error) ? 0 : -1;
}

static void expect_good(const char *text)
{
    struct error error;
    if (!config_parse(&catalog, "shoal.yaml", text, strlen(text), &config, &error))
        fail_msg("%s", error.text);
}

static void expect_mistake(const char *text, const char *sentence)
{
    struct error error = {{0}};
    assert_false(config_parse(&catalog, "shoal.yaml", text, strlen(text), &config, &error));
    assert_string_equal(error.text, sentence);
}

static void everything_is_read(void **state)
{
    (void)state;
    expect_good("listen: 0.0.0.0:80\n"
                "data: /var/shoal\n"
                "catalog: my.yaml\n"
                "pools:\n"
                "  tier-2:\n"
                "    capabilities: [fp16, bf16, tensor-cores, 24gb-vram]\n"
                "    hardware: [A100-40GB, A30]\n"
                "    use_cases: [fine-tuning]\n"
                "    price_threshold: 0.7\n"
                "  any: {}\n"
                "providers:\n"
                "  - {name: local, driver: local, scenario: s.yaml, speedup: 2}\n"
                "  - name: other\n"
                "    driver: exec\n"
                "limits: {nodes: 10, jobs: 20, offers: 30, worker_failures: 4}\n"
                "timing: {agent_lease: 15s, boot_timeout: 60s, drain: 3s, idle_release: 10s,\n"
                "         ask_again: 2s, refused_backoff: 7s, replace_stalled: 90s,\n"
                "         replace_slow: never}\n");
    assert_int_equal(config.pool.replace_stalled_us, 90000000);
    assert_int_equal(config.pool.replace_slow_us, 0);
    assert_string_equal(config.listen, "0.0.0.0:80");
    assert_string_equal(config.data, "/var/shoal");
    assert_string_equal(config.catalog, "my.yaml");
    assert_int_equal(config.pool_count, 2);
    assert_string_equal(config.pools[0].name, "tier-2");
    assert_int_equal(config.pools[0].need.vram_min_mib, 24 * 1024);
    assert_int_equal(__builtin_popcountll(config.pools[0].need.capability_mask), 3);
    assert_int_equal(__builtin_popcountll(config.pools[0].hardware_mask), 2);
    assert_int_equal(config.pools[0].price_threshold_ppm, 700000);
    assert_string_equal(config.pools[0].use_cases[0], "fine-tuning");
    assert_int_equal(config.pools[1].price_threshold_ppm, 0);
    assert_int_equal(config.provider_count, 2);
    assert_string_equal(config.providers[0].driver, "local");
    assert_int_equal(config.providers[0].line, 12);
    assert_string_equal(config_option(&config.providers[0], "scenario"), "s.yaml");
    assert_string_equal(config_option(&config.providers[0], "speedup"), "2");
    assert_null(config_option(&config.providers[1], "scenario"));
    assert_int_equal(config.pool.limits.nodes_max, 10);
    assert_int_equal(config.pool.limits.jobs_max, 20);
    assert_int_equal(config.pool.limits.offers_max, 30);
    assert_int_equal(config.pool.limits.leases_max, 40);
    assert_int_equal(config.pool.worker_failures_max, 4);
    assert_int_equal(config.pool.agent_lease_us, 15000000);
    assert_int_equal(config.lease_us, INT64_C(5400000000));
    assert_int_equal(config.pool.boot_timeout_us, 60000000);
    assert_int_equal(config.pool.drain_us, 3000000);
    assert_int_equal(config.pool.idle_release_us, 10000000);
    assert_int_equal(config.pool.ask_again_us, 2000000);
    assert_int_equal(config.pool.refused_backoff_us, 7000000);
    uint32_t index;
    assert_true(config_find_pool(&config, "any", &index));
    assert_int_equal(index, 1);
    assert_false(config_find_pool(&config, "none", &index));
}

static void an_empty_file_means_the_defaults(void **state)
{
    (void)state;
    struct pool_config usual;
    pool_config_default(&usual);
    expect_good("");
    assert_string_equal(config.listen, "127.0.0.1:7070");
    assert_string_equal(config.data, "shoal-data");
    assert_string_equal(config.catalog, "");
    assert_int_equal(config.pool_count, 0);
    assert_int_equal(config.provider_count, 0);
    assert_memory_equal(&config.pool, &usual, sizeof usual);
}

static void mistakes_say_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"lissten: a:1", "shoal.yaml:1: unknown key \"lissten\"; did you mean \"listen\"?"},
        {"listen: 127.0.0.1",
         "shoal.yaml:1: \"listen\" is not host:port; write it like 127.0.0.1:7070"},
        {"listen: \":1\"",
         "shoal.yaml:1: \"listen\" is not host:port; write it like 127.0.0.1:7070"},
        {"listen: a:65536",
         "shoal.yaml:1: \"listen\" is not host:port; write it like 127.0.0.1:7070"},
        {"pools:\n  p:\n    capabilities: [bf16]\n    hardware: [V100, T4]\n",
         "shoal.yaml:4: V100 in the hardware of p lacks bf16; drop the model or the capability"},
        {"pools:\n  p:\n    capabilities: [40gb-vram]\n    hardware: [A30]\n",
         "shoal.yaml:4: A30 in the hardware of p lacks 40gb-vram; drop the model or the "
         "capability"},
        {"pools:\n  p:\n    capabilities: [bf-16]\n",
         "shoal.yaml:3: unknown capability \"bf-16\"; did you mean \"bf16\"?"},
        {"pools:\n  p:\n    hardware: [A100]\n",
         "shoal.yaml:3: unknown device model \"A100\"; did you mean \"H100\"?"},
        {"pools:\n  p:\n    price_treshold: 0.5\n",
         "shoal.yaml:3: unknown key \"price_treshold\" in p; did you mean \"price_threshold\"?"},
        {"pools:\n  p:\n    price_threshold: -1\n",
         "shoal.yaml:3: \"price_threshold\" is \"-1\"; give a number from 0.01 to 10"},
        {"providers: [{name: a}]", "shoal.yaml:1: \"driver\" is missing in providers; add it"},
        {"providers:\n  - {name: a, driver: b}\n  - {name: a, driver: c}\n",
         "shoal.yaml:3: two providers are called \"a\"; rename one"},
        {"providers: [{name: a, driver: b, x: [1]}]", "shoal.yaml:1: \"x\" is a list; give a text"},
        {"providers: {name: a}",
         "shoal.yaml:1: \"providers\" is no list; write it as [a, b] or as lines that begin with "
         "\"- \""},
        {"limits: {nodes: 0}",
         "shoal.yaml:1: \"nodes\" is \"0\"; give a whole number from 1 to 131072"},
        {"limits: {node: 1}",
         "shoal.yaml:1: unknown key \"node\" in limits; did you mean \"nodes\"?"},
        {"timing: {replace_stalled: no}",
         "shoal.yaml:1: \"replace_stalled\" is \"no\"; give a time like 200ms, 2s, 1.5m or 1h, or "
         "never"},
        {"timing: {replace_slow: 0s}",
         "shoal.yaml:1: \"replace_slow\" is \"0s\"; give a time from 1ms to 30d, or never"},
        {"matching: {round: on}",
         "shoal.yaml:1: \"round\" is \"on\"; give a time like 200ms, 2s, 1.5m or 1h, or off"},
        {"matching: {round: 0s}",
         "shoal.yaml:1: \"round\" is \"0s\"; give a time from 1s to 1d, or off"},
        {"timing: {drain: 3}",
         "shoal.yaml:1: \"drain\" is \"3\"; give a time like 200ms, 2s, 1.5m or 1h"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_mistake(cases[i].text, cases[i].sentence);
}

static void more_than_the_limits_is_refused(void **state)
{
    (void)state;
    char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "pools:\n");
    for (int i = 0; i <= CONFIG_POOLS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "  p%d: {}\n", i);
    expect_mistake(text, "shoal.yaml:66: more than 64 pools; merge some");
    used = (size_t)snprintf(text, sizeof text, "providers:\n");
    for (int i = 0; i <= CONFIG_PROVIDERS_MAX; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "  - {name: p%d, driver: x}\n", i);
    expect_mistake(text, "shoal.yaml:18: more than 16 providers; drop some");
    used = (size_t)snprintf(text, sizeof text, "providers:\n  - name: a\n    driver: b\n");
    for (int i = 0; i <= CONFIG_OPTIONS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "    o%d: 1\n", i);
    expect_mistake(text, "shoal.yaml:20: more than 16 options; drop some");
}

static void the_catalog_can_be_peeked_at(void **state)
{
    (void)state;
    static const char good[] = "pools: {p: {hardware: [Mine]}}\nwrong: 1\ncatalog: c/d.yaml\n";
    static const char bad[] = "catalog: [x]\n";
    char path[CONFIG_TEXT_BYTES] = "untouched";
    struct error error;
    assert_true(config_peek_catalog("shoal.yaml", good, strlen(good), path, &error));
    assert_string_equal(path, "c/d.yaml");
    assert_true(config_peek_catalog("shoal.yaml", "", 0, path, &error));
    assert_string_equal(path, "");
    assert_false(config_peek_catalog("shoal.yaml", bad, strlen(bad), path, &error));
    assert_string_equal(error.text, "shoal.yaml:1: \"catalog\" is a list; give a text");
}

static void paths_are_seen_from_the_folder_of_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *file, *path, *result;
    } cases[] = {
        {"etc/shoal.yaml", "data", "etc/data"}, {"shoal.yaml", "data", "data"},
        {"/a/b.yaml", "c/d", "/a/c/d"},         {"/b.yaml", "c", "/c"},
        {"etc/shoal.yaml", "/data", "/data"},
    };
    char result[16];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(config_path(cases[i].file, cases[i].path, result, sizeof result));
        assert_string_equal(result, cases[i].result);
    }
    assert_false(config_path("etc/shoal.yaml", "a-long-path-0123", result, sizeof result));
}

/* The YAML of the resource model as it stands: models that lack something are named and left out. */
static void gates_of_classes_pools_and_accounts(void **state)
{
    (void)state;
    expect_good("classes:\n"
                "  P0: {gates: {usd_per_hour: 0}}\n"
                "  P2: {burst: 0.5, gates: {usd_per_hour: 12.5, usd_per_job: 40, above: refuse}}\n"
                "pools:\n"
                "  tier-1: {capabilities: [fp16], gates: {usd_per_month: 5000}}\n"
                "tenants:\n"
                "  acme: {projects: {nlp: {gates: {usd_per_job: 7}}}}\n");
    assert_int_equal(config.class_gates[0].u.gate_defined.usd_micros_per_hour_max, 0);
    assert_int_equal(config.class_gates[1].kind, 0);
    assert_int_equal(config.class_gates[2].u.gate_defined.usd_micros_per_hour_max, 12500000);
    assert_int_equal(config.class_gates[2].u.gate_defined.usd_micros_per_month_max, GATE_NONE);
    assert_int_equal(config.class_gates[2].u.gate_defined.refuses, 1);
    assert_int_equal(config.classes[2].u.class_defined.burst_ppm, 500000);
    assert_int_equal(config.pools[0].gate.u.gate_defined.usd_micros_per_month_max, 5000000000);
    assert_int_equal(config.accounts[1].gate.u.gate_defined.usd_micros_per_job_max, 7000000);
    expect_mistake("classes:\n  P2: {gates: {}}\n",
                   "shoal.yaml:2: gates limit nothing: give usd_per_hour, usd_per_job or "
                   "usd_per_month");
    expect_mistake("classes:\n  P2: {gates: {usd_per_hour: 1, above: queue}}\n",
                   "shoal.yaml:2: above a gate a job can wait or refuse, not \"queue\"");
    expect_mistake("classes:\n  P1: {reserved: 0.7, burst: 0.4}\n",
                   "shoal.yaml:2: reserved and burst of P1 are more than the whole; lower one of "
                   "them");
}

static void buying_of_classes_and_pools(void **state)
{
    (void)state;
    expect_good("classes:\n"
                "  P1: {buying: {policy: on-demand, max_price: 2.5, price_threshold: 0.6}}\n"
                "pools:\n"
                "  tier-1: {capabilities: [fp16], buying: {policy: uniform-progress}}\n"
                "  tier-2: {capabilities: [fp16]}\n");
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) {
        assert_int_equal(config.class_buying[i].kind, POOL_EVENT_BUYING_DEFINED);
        assert_int_equal(config.class_buying[i].u.buying_defined.index, i);
        assert_int_equal(config.class_buying[i].u.buying_defined.policy,
                         i == 1 ? BUYING_ON_DEMAND : 0);
    }
    assert_int_equal(config.class_buying[1].u.buying_defined.device_usd_micros_max, 2500000);
    assert_int_equal(config.class_buying[1].u.buying_defined.price_threshold_ppm, 600000);
    assert_int_equal(config.pools[0].buying.u.buying_defined.scope, BUYING_OF_POOL);
    assert_int_equal(config.pools[0].buying.u.buying_defined.policy, BUYING_UNIFORM_PROGRESS);
    assert_int_equal(config.pools[1].buying.u.buying_defined.policy, 0);
    assert_int_equal(config.warning_count, 0);
    expect_mistake("classes:\n  P1: {buying: {policy: lucky}}\n",
                   "shoal.yaml:2: capacity is bought by table, greedy, uniform-progress or "
                   "on-demand, not \"lucky\"");
    expect_mistake("pools:\n  a: {capabilities: [fp16], buying: {price_threshold: 0.5}}\n",
                   "shoal.yaml:2: the threshold of a pool is its own key; move price_threshold out "
                   "of buying");
}

/* A bid of nothing or less is none; one that no price reaches, and spot dearer than on demand, are hardly
 * meant. */
static void bids_of_classes_and_pools(void **state)
{
    (void)state;
    expect_good("classes:\n"
                "  P3: {buying: {bid: 1.25}}\n"
                "  P2: {buying: {bid: 100}}\n"
                "pools:\n"
                "  a: {capabilities: [fp16], hardware: [T4], price_threshold: 1.5,\n"
                "      buying: {bid: 0.61}}\n"
                "  b: {capabilities: [fp16], hardware: [T4, A10], buying: {bid: 1.1}}\n");
    assert_int_equal(config.class_buying[3].u.buying_defined.bid_usd_micros, 1250000);
    assert_int_equal(config.pools[0].buying.u.buying_defined.bid_usd_micros, 610000);
    assert_int_equal(config.class_buying[0].u.buying_defined.bid_usd_micros, 0);
    assert_int_equal(config.warning_count, 3);
    assert_string_equal(config.warnings[0].text,
                        "shoal.yaml:5: price_threshold of a is above 1: its jobs keep spot that is "
                        "dearer than on demand; give 1 or less");
    assert_string_equal(config.warnings[1].text,
                        "shoal.yaml:6: bid of a is above the list price on demand of every model "
                        "it may use, at most $0.60/h a device; bid that or less");
    assert_non_null(strstr(config.warnings[2].text, "shoal.yaml:3: bid of P2 is above"));
    expect_mistake("classes:\n  P3: {buying: {bid: 0}}\n",
                   "shoal.yaml:2: \"bid\" is \"0\"; give a number from 0.000001 to 10000");
    expect_mistake("pools:\n  a: {buying: {bid: -1}}\n",
                   "shoal.yaml:2: \"bid\" is \"-1\"; give a number from 0.000001 to 10000");
    expect_mistake("pools:\n  a: {buying: {max_price: 0}}\n",
                   "shoal.yaml:2: \"max_price\" is \"0\"; give a number from 0.000001 to 10000");
    expect_mistake("pools:\n  a: {price_threshold: 0}\n",
                   "shoal.yaml:2: \"price_threshold\" is \"0\"; give a number from 0.01 to 10");
}

static void a_ranking_is_an_expression_or_a_program(void **state)
{
    (void)state;
    expect_good("ranking: {expression: price * (1 + hazard / 5), every: 2s}\n");
    assert_true(config.ranking.program.count > 0);
    assert_int_equal(config.ranking.command.count, 0);
    assert_int_equal(config.ranking.every_us, 2000000);
    expect_good("ranking: {program: [./rank, --fast], timeout: 300ms}\n");
    assert_int_equal(config.ranking.program.count, 0);
    assert_string_equal(text_list_at(&config.ranking.command, 1), "--fast");
    assert_int_equal(config.ranking.timeout_us, 300000);
    expect_good("pools: {}\n");
    assert_int_equal(config.ranking.program.count + config.ranking.command.count, 0);
    expect_mistake("ranking: {}\n",
                   "shoal.yaml:1: a ranking is an expression, a program or learned: give one of "
                   "them");
    expect_mistake("ranking: {program: []}\n",
                   "shoal.yaml:1: \"program\" is empty; give it and its arguments as a list");
    expect_mistake("ranking: {expression: price +}\n",
                   "shoal.yaml:1: the ranking \"price +\": column 8: a number, a field or ( is "
                   "missing");
}

static void a_learned_ranking_is_for_pools(void **state)
{
    (void)state;
    expect_good("ranking: {learned: shipped, every: 2s}\n");
    assert_string_equal(config.ranking.learned, "shipped");
    assert_true(config.ranking.model_mask == UINT64_MAX);
    expect_good("pools:\n"
                "  a: {capabilities: [fp16], hardware: [A10, T4]}\n"
                "  b: {capabilities: [fp16], hardware: [H100]}\n"
                "ranking: {learned: my.yaml, pools: [a]}\n");
    assert_true(config.ranking.model_mask == config.pools[0].hardware_mask);
    assert_true((config.ranking.model_mask & config.pools[1].hardware_mask) == 0);
    expect_good("pools:\n  a: {capabilities: [80gb-vram]}\nranking: {learned: shipped, pools: [a]}\n");
    assert_true(config.ranking.model_mask != 0 && config.ranking.model_mask != UINT64_MAX);
    expect_mistake("ranking: {learned: shipped, pools: [b]}\n",
                   "shoal.yaml:1: no pool is called \"b\"; define it under pools");
    expect_mistake("ranking: {learned: shipped, expression: price}\n",
                   "shoal.yaml:1: a ranking is an expression, a program or learned: give one of "
                   "them");
    expect_mistake("ranking: {learned: \"\"}\n",
                   "shoal.yaml:1: learned is the word shipped, or a file that shoal sim --train "
                   "wrote");
}

static void tiers_by_capability(void **state)
{
    (void)state;
    static const char text[] = "pools:\n"
                               "  tier-1-training:\n"
                               "    capabilities: [fp16, bf16, fp8, tensor-cores, 80gb-vram]\n"
                               "    hardware: [H100, A100-80GB]\n"
                               "    use_cases: [llm-training, multimodal-training]\n"
                               "  tier-2-training:\n"
                               "    capabilities: [fp16, bf16, tensor-cores, 40gb-vram]\n"
                               "    hardware: [A100-40GB, A30]\n"
                               "    use_cases: [fine-tuning, mid-scale-training]\n"
                               "  tier-3-inference:\n"
                               "    capabilities: [fp16, int8, 16gb-vram]\n"
                               "    hardware: [T4, L4]\n"
                               "    use_cases: [inference, embeddings]\n";
    uint32_t h100, a100, t4, l4;
    expect_good(text);
    assert_int_equal(config.pool_count, 3);
    assert_int_equal(config.pools[0].need.vram_min_mib, 80 * 1024);
    assert_int_equal(config.warning_count, 2);
    assert_string_equal(config.warnings[0].text,
                        "shoal.yaml:4: A100-80GB in the hardware of tier-1-training lacks fp8 and "
                        "is not used there; drop the model or the capability");
    assert_string_equal(config.warnings[1].text,
                        "shoal.yaml:8: A30 in the hardware of tier-2-training lacks 40gb-vram and "
                        "is not used there; drop the model or the capability");
    assert_true(catalog_find_model(&catalog, "H100", &h100));
    assert_true(catalog_find_model(&catalog, "A100-80GB", &a100));
    assert_true(catalog_find_model(&catalog, "T4", &t4));
    assert_true(catalog_find_model(&catalog, "L4", &l4));
    assert_int_equal(config.pools[0].hardware_mask, UINT64_C(1) << h100 | UINT64_C(1) << a100);
    assert_int_equal(config.pools[0].lacking_mask, UINT64_C(1) << a100);
    assert_int_equal(config.pools[2].hardware_mask, UINT64_C(1) << t4 | UINT64_C(1) << l4);
    assert_int_equal(config.pools[2].lacking_mask, 0);
}

static void a_pool_becomes_an_event(void **state)
{
    (void)state;
    struct pool_event event;
    expect_good("pools: {p: {capabilities: [fp16, 8gb-vram], hardware: [A10], "
                "price_threshold: 0.5}}");
    config_pool_event(&config.pools[0], 3, &event);
    assert_int_equal(event.kind, POOL_EVENT_POOL_DEFINED);
    assert_int_equal(event.version, POOL_CORE_VERSION);
    assert_int_equal(event.u.pool_defined.pool, 3);
    assert_int_equal(event.u.pool_defined.vram_min_mib, 8192);
    assert_int_equal(event.u.pool_defined.price_threshold_ppm, 500000);
    assert_int_equal(event.u.pool_defined.capability_mask, config.pools[0].need.capability_mask);
    assert_int_equal(event.u.pool_defined.hardware_mask, config.pools[0].hardware_mask);
}

static void no_allocation_failure_is_lost(void **state)
{
    (void)state;
    static const char text[] = "pools: {p: {capabilities: [fp16]}}\nproviders: [{name: a, driver: "
                               "b, c: d}]\n";
    bool good = false;
    for (uint64_t nth = 1; !good; nth++) {
        struct error error = {{0}};
        mem_fail_at(nth);
        good = config_parse(&catalog, "shoal.yaml", text, strlen(text), &config, &error);
        mem_fail_at(0);
        if (!good) assert_non_null(strstr(error.text, "out of memory"));
        assert_true(nth < 100);
    }
}

static void matching_is_off_unless_asked_for(void **state)
{
    (void)state;
    expect_good("matching: {restart: 10s}\n");
    assert_null(pool_event_check(&config.matching));
    assert_true(config.matching.u.matching_defined.round_us == 0);
    assert_true(config.matching.u.matching_defined.restart_us == 10000000);
    expect_good("matching: {round: 6m}\n");
    assert_true(config.matching.u.matching_defined.round_us == 360000000);
    assert_true(config.matching.u.matching_defined.restart_us == 60000000);
    expect_good("matching: {round: off}\n");
    assert_true(config.matching.u.matching_defined.round_us == 0);
    expect_mistake("matching:\n  rounds: 6m\n",
                   "shoal.yaml:2: unknown key \"rounds\" in matching; did you mean \"round\"?");
}

static void classes_are_data(void **state)
{
    (void)state;
    expect_good("classes:\n  P1: {reserved: 0.5, may_preempt: [P3], queues: false}\n"
                "  P2: {preemptible: false}\n");
    assert_int_equal(config.classes[JOB_CLASS_P0].u.class_defined.reserved_ppm, 1000000);
    assert_int_equal(config.classes[JOB_CLASS_P1].u.class_defined.reserved_ppm, 500000);
    assert_int_equal(config.classes[JOB_CLASS_P1].u.class_defined.may_preempt_mask,
                     1U << JOB_CLASS_P3);
    assert_int_equal(config.classes[JOB_CLASS_P1].u.class_defined.queues, 0);
    assert_int_equal(config.classes[JOB_CLASS_P2].u.class_defined.preemptible, 0);
    assert_int_equal(config.classes[JOB_CLASS_P3].u.class_defined.preemptible, 1);
    expect_mistake("classes:\n  P2: {may_preempt: [P1]}\n",
                   "shoal.yaml:2: P2 may preempt only classes below it, which \"P1\" is not");
    expect_mistake("classes:\n  P5: {reserved: 1}\n",
                   "shoal.yaml:2: unknown key \"P5\" in classes; known here: P0, P1, P2, P3");
}

static void tenants_are_a_tree(void **state)
{
    (void)state;
    expect_good("quota: {weights: {T4: 1.5}, cpus: []}\n"
                "tenants:\n"
                "  acme:\n"
                "    weight: 2\n"
                "    ncu: 64.5\n"
                "    borrow: 32\n"
                "    lend: 16\n"
                "    limits: {jobs: 1000, workers: 500, usd_per_hour: 12.5,\n"
                "             submissions_per_minute: 60}\n"
                "    projects:\n"
                "      nlp: {ncu: 40, teams: {chat: {ncu: 40}, search: {users: {ada: {ncu: 0}}}}}\n"
                "      vision: {ncu: 24}\n"
                "  guests: {}\n");
    assert_int_equal(config.account_count, 7);
    const struct config_account *acme = &config.accounts[0], *search = &config.accounts[3];
    assert_int_equal(acme->event.u.account_defined.quota_milli[0], 64500);
    assert_int_equal(acme->event.u.account_defined.quota_milli[1], -1);
    assert_int_equal(acme->event.u.account_defined.borrow_milli[0], 32000);
    assert_int_equal(acme->event.u.account_defined.lend_milli[0], 16000);
    assert_int_equal(acme->event.u.account_defined.weight_milli, 2000);
    assert_int_equal(acme->event.u.account_defined.usd_micros_per_hour_max, 12500000);
    assert_int_equal(acme->event.u.account_defined.submissions_per_minute_max, 60);
    assert_string_equal(search->names[0], "acme");
    assert_string_equal(search->names[1], "nlp");
    assert_string_equal(search->names[2], "search");
    assert_string_equal(search->names[3], "");
    assert_string_equal(config.accounts[4].names[2], "search");
    assert_string_equal(config.accounts[4].names[3], "ada");
    assert_int_equal(config.accounts[4].event.u.account_defined.quota_milli[0], 0);
    assert_int_equal(search->event.u.account_defined.quota_milli[0], -1);
    assert_int_equal(acme->gate.kind, 0);
    struct pool_event event;
    uint32_t t4;
    assert_true(catalog_find_model(&catalog, "T4", &t4));
    assert_true(config_quota_model(&config, t4, &event));
    assert_int_equal(event.u.quota_model_defined.weight_milli, 1500);
    assert_false(config_quota_model(&config, t4 + 1, &event));
    expect_mistake("tenants:\n  acme:\n    ncu: 10\n    projects:\n      a: {ncu: 6}\n"
                   "      b: {ncu: 5}\n",
                   "shoal.yaml:3: the parts of \"acme\" add up to more than its \"ncu\"; raise it "
                   "or lower theirs");
    expect_mistake("tenants:\n  acme: {lend: 3}\n",
                   "shoal.yaml:2: \"lend\" limits what is lent of \"ncu\", which is not given");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_are_a_tree),
        cmocka_unit_test(matching_is_off_unless_asked_for),
        cmocka_unit_test(classes_are_data),

        cmocka_unit_test(everything_is_read),
        cmocka_unit_test(an_empty_file_means_the_defaults),
        cmocka_unit_test(mistakes_say_what_to_do),
        cmocka_unit_test(more_than_the_limits_is_refused),
        cmocka_unit_test(the_catalog_can_be_peeked_at),
        cmocka_unit_test(paths_are_seen_from_the_folder_of_the_file),
        cmocka_unit_test(tiers_by_capability),
        cmocka_unit_test(gates_of_classes_pools_and_accounts),
        cmocka_unit_test(buying_of_classes_and_pools),
        cmocka_unit_test(bids_of_classes_and_pools),
        cmocka_unit_test(a_ranking_is_an_expression_or_a_program),
        cmocka_unit_test(a_learned_ranking_is_for_pools),
        cmocka_unit_test(a_pool_becomes_an_event),
        cmocka_unit_test(no_allocation_failure_is_lost),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
