/* job.yaml: what is read, what is refused in which words, and the way back through its own text. */
#include "base/mem.h"
#include "codec/codec.h"
#include "codec/job_spec.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define RUN     "run: {command: [x]}\n"
#define ELASTIC "elastic: {slots: 32, steps: 200}\n"

static struct catalog catalog;
static struct config config;
static struct job_spec spec; /* large: not on the stack */

static const char full[] =
    "name: kjv-lm\n"
    "class: P1\n"
    "kind: elastic\n"
    "owner: {tenant: lab, project: kjv, team: nlp, user: ada, experiment: first}\n"
    "needs:\n"
    "  capabilities: [fp16, tensor-cores, 24gb-vram]\n"
    "  pools: [tier-1, tier-2]\n"
    "  devices: {min: 4, max: 12}\n"
    "budget: {usd_per_hour: 30.5, usd: 20}\n"
    "market: {kinds: [spot, on_demand], price_threshold: 0.7, region: east}\n"
    "elastic: {slots: 32, steps: 200, checkpoint_every: 20, "
    "work_per_slot: 0.2s}\n"
    "run:\n"
    "  command: [lm, --data, \"a b\", \"\", \"line\\nbreak \\\"quoted\\\" "
    "\\\\ \\x7f \xc3\xa4 \\u2028 \xf0\x9f\x98\x80\"]\n"
    "  env: {THREADS: \"1\", EMPTY: \"\"}\n"
    "  dir: .\n";

static int set_up(void **state)
{
    (void)state;
    static const char pools[] = "pools: {tier-1: {}, tier-2: {}}";
    struct error error;
    if (!catalog_parse_shipped(&catalog, &error)) return -1;
    return config_parse(&catalog, "c", pools, strlen(pools), &config, &error) ? 0 : -1;
}

static void expect_good(const char *text)
{
    struct error error;
    if (!job_spec_parse(&catalog, &config, "job.yaml", text, strlen(text), &spec, &error))
        fail_msg("%s", error.text);
}

static void everything_is_read(void **state)
{
    (void)state;
    expect_good(full);
    assert_string_equal(spec.name, "kjv-lm");
    assert_int_equal(spec.job_class, JOB_CLASS_P1);
    assert_int_equal(spec.kind, JOB_KIND_ELASTIC);
    assert_string_equal(spec.tenant, "lab");
    assert_string_equal(spec.project, "kjv");
    assert_string_equal(spec.team, "nlp");
    assert_string_equal(spec.user, "ada");
    assert_string_equal(spec.experiment, "first");
    assert_int_equal(spec.need.vram_min_mib, 24 * 1024);
    assert_int_equal(__builtin_popcountll(spec.need.capability_mask), 2);
    assert_int_equal(spec.pool_count, 2);
    assert_string_equal(spec.pools[1], "tier-2");
    assert_int_equal(spec.devices_min, 4);
    assert_int_equal(spec.devices_max, 12);
    assert_int_equal(spec.budget_usd_micros_per_hour, 30500000);
    assert_int_equal(spec.budget_usd_micros, 20000000);
    assert_int_equal(spec.capacity_mask, 1 << CAPACITY_SPOT | 1 << CAPACITY_ON_DEMAND);
    assert_int_equal(spec.price_threshold_ppm, 700000);
    assert_string_equal(spec.region, "east");
    assert_int_equal(spec.slots, 32);
    assert_int_equal(spec.steps, 200);
    assert_int_equal(spec.checkpoint_every, 20);
    assert_int_equal(spec.work_per_slot_us, 200000);
    assert_int_equal(spec.command.count, 5);
    assert_string_equal(text_list_at(&spec.command, 2), "a b");
    assert_string_equal(text_list_at(&spec.command, 3), "");
    assert_int_equal(spec.env.count, 4);
    assert_string_equal(text_list_at(&spec.env, 0), "THREADS");
    assert_string_equal(text_list_at(&spec.env, 1), "1");
    assert_string_equal(text_list_at(&spec.env, 3), "");
    assert_string_equal(spec.dir, ".");
    assert_int_equal(job_spec_work_us(&spec), INT64_C(200) * 32 * 200000);
}

static void checkpoints_may_be_left_to_the_workers(void **state)
{
    (void)state;
    struct job_spec again;
    expect_good("{name: x, elastic: {slots: 8, steps: 9, checkpoint_every: auto, "
                "checkpoint_dir: \"s3://bucket/run-7\"}, run: {command: [a]}}");
    assert_int_equal(spec.checkpoint_every, JOB_CHECKPOINT_AUTO);
    assert_string_equal(spec.checkpoint_dir, "s3://bucket/run-7");
    char *text = job_spec_text(&catalog, &spec);
    assert_non_null(text);
    assert_true(job_spec_parse(&catalog, &config, "again", text, strlen(text), &again, NULL));
    assert_int_equal(again.checkpoint_every, JOB_CHECKPOINT_AUTO);
    assert_string_equal(again.checkpoint_dir, spec.checkpoint_dir);
    mem_free(text);
    expect_good("{name: x, elastic: {slots: 8, steps: 9, checkpoint_dir: /data}, "
                "run: {command: [a]}}");
    assert_int_equal(spec.checkpoint_every, JOB_CHECKPOINT_AUTO);
}

static void a_batch_job_needs_little(void **state)
{
    (void)state;
    expect_good("{name: hi, kind: batch, run: {command: [echo, hello]}}");
    assert_int_equal(spec.kind, JOB_KIND_BATCH);
    assert_int_equal(spec.job_class, JOB_CLASS_P2);
    assert_int_equal(spec.devices_min, 1);
    assert_int_equal(spec.devices_max, 1);
    assert_int_equal(spec.slots, 0);
    assert_int_equal(spec.capacity_mask, 0);
    assert_int_equal(job_spec_work_us(&spec), 0);
}

static const struct {
    const char *text, *sentence;
} mistakes[] = {
    {"{name: hi, kind: batch, deadline: soon, work: {time: 1h}, run: {command: [a]}}",
     "job.yaml:1: \"soon\" is no deadline; write how long after its submission, like 26h, or when, "
     "like 2027-03-01T08:00:00Z"},
    {"{name: hi, kind: batch, deadline: 1971-01-01, work: {time: 1h}, run: {command: [a]}}",
     "job.yaml:1: \"1971-01-01\" is no deadline; write how long after its submission, like 26h, or "
     "when, like 2027-03-01T08:00:00Z"},
    {"{name: hi, kind: batch, deadline: 0s, work: {time: 1h}, run: {command: [a]}}",
     "job.yaml:1: \"0s\" is no deadline; write how long after its submission, like 26h, or when, "
     "like 2027-03-01T08:00:00Z"},
    {"{name: hi, kind: batch, deadline: 26h, run: {command: [a]}}",
     "job.yaml:1: a deadline without a run time tells nobody when to hurry; give work: {time: 8h}, "
     "or elastic: {work_per_slot: 2s}"},
    {RUN ELASTIC, "job.yaml:1: \"name\" is missing; add it"},
    {"name: a b\n" RUN ELASTIC, "job.yaml:1: \"a b\" is no name; use letters, digits and . _ / -"},
    {"name: a\n" ELASTIC, "job.yaml:1: \"run\" is missing; add it"},
    {"name: a\n" RUN, "job.yaml:1: \"elastic\" is missing; add it"},
    {"name: a\nrun: {command: []}\n" ELASTIC,
     "job.yaml:2: \"command\" is empty; give the program and its arguments as a list"},
    {"name: a\nrun: {command: [\"\"]}\n" ELASTIC,
     "job.yaml:2: \"command\" is empty; give the program and its arguments as a list"},
    {"name: a\nrun: {command: echo hi}\n" ELASTIC,
     "job.yaml:2: \"command\" is no list; write it as [a, b] or as lines that begin with \"- "
     "\""},
    {"name: a\nrun: {}\n" ELASTIC, "job.yaml:2: \"command\" is missing in run; add it"},
    {"name: a\nrun: {command: [x], env: {\"a=b\": c}}\n" ELASTIC,
     "job.yaml:2: \"a=b\" cannot name an environment variable; give a short word without ="},
    {"name: a\nclass: P4\n" RUN ELASTIC,
     "job.yaml:2: unknown class \"P4\"; use one of: P0, P1, P2, P3"},
    {"name: a\nkind: serve\n" RUN ELASTIC,
     "job.yaml:2: unknown kind \"serve\"; use one of: elastic, batch"},
    {"name: a\n" RUN ELASTIC "needs:\n  devces: {min: 1}\n",
     "job.yaml:5: unknown key \"devces\" in needs; did you mean \"devices\"?"},
    {"name: a\n" RUN ELASTIC "needs:\n  devices: {min: 0}\n",
     "job.yaml:5: \"min\" is \"0\"; give a whole number from 1 to 4096"},
    {"name: a\n" RUN ELASTIC "needs:\n  devices: {min: 5, max: 4}\n",
     "job.yaml:5: devices min 5 is above max 4; a job cannot start with more than it may have"},
    {"name: a\n" RUN ELASTIC "needs:\n  devices: {min: 33, max: 40}\n",
     "job.yaml:3: 32 slots are fewer than the 33 devices of the gang; some would have nothing "
     "to do"},
    {"name: a\n" RUN ELASTIC "needs: {capabilities: [warp-drive]}\n",
     "job.yaml:4: unknown capability \"warp-drive\"; add it to the catalog or use one of: "
     "fp16, bf16, fp8, int8, tensor-cores, fp64, fp4, nvlink, mig, cuda, rocm, cann"},
    {"name: a\n" RUN ELASTIC "needs: {pools: [tier-3]}\n",
     "job.yaml:4: there is no pool \"tier-3\"; did you mean \"tier-1\"?"},
    {"name: a\n" RUN ELASTIC "needs: {pools: [gold]}\n",
     "job.yaml:4: there is no pool \"gold\"; see `shoal pools`"},
    {"name: a\n" RUN ELASTIC "budget: {usd: -5}\n",
     "job.yaml:4: the budget \"usd\" is \"-5\"; give an amount above 0 or leave it out"},
    {"name: a\n" RUN ELASTIC "budget: {usd_per_hour: 0}\n",
     "job.yaml:4: the budget \"usd_per_hour\" is \"0\"; give an amount above 0 or leave it "
     "out"},
    {"name: a\n" RUN ELASTIC "budget: {usd: $5}\n",
     "job.yaml:4: \"usd\" is \"$5\"; give a number with at most 6 decimals"},
    {"name: a\n" RUN ELASTIC "market: {kinds: [sport]}\n",
     "job.yaml:4: unknown capacity kind \"sport\"; use one of: owned, reserved, on_demand, "
     "spot"},
    {"name: a\n" RUN ELASTIC "market: {kinds: []}\n",
     "job.yaml:4: \"kinds\" is empty, nothing could run it; name a kind or drop the key"},
    {"name: a\n" RUN "elastic: {slots: 0, steps: 1}\n",
     "job.yaml:3: \"slots\" is \"0\"; give a whole number from 1 to 1024"},
    {"name: a\n" RUN "elastic: {slots: 1025, steps: 1}\n",
     "job.yaml:3: \"slots\" is \"1025\"; give a whole number from 1 to 1024"},
    {"name: a\n" RUN "elastic: {slots: 4}\n",
     "job.yaml:3: \"steps\" is missing in elastic; add it"},
    {"name: a\nkind: batch\n" RUN ELASTIC,
     "job.yaml:4: a batch job has no elastic part; drop it or set kind: elastic"},
    {"name: a\nkind: batch\n" RUN "needs: {devices: {max: 2}}\n",
     "job.yaml:4: a batch job runs one worker on one device; drop devices or set kind: "
     "elastic"},
    {"name: a\n" RUN ELASTIC "needs: {pools: [tier-2], degrade: next-tier}\n",
     "job.yaml:4: no pool comes after \"tier-2\" in shoal.yaml; drop the key"},
    {"name: a\n" RUN ELASTIC "needs: {degrade: next-tier}\n",
     "job.yaml:4: without pools there is no next tier; name pools or drop the key"},
    {"name: a\n" RUN ELASTIC "needs: {pools: [tier-1], degrade: next-tear}\n",
     "job.yaml:4: a job can degrade to the next-tier, not to \"next-tear\""},
    {"name: a\n" RUN ELASTIC "data: {region: west}\n",
     "job.yaml:4: \"gb\" is missing in data; add it"},
    {"name: a\n" RUN ELASTIC "needs: {ncu: 11, devices: {min: 4}}\n",
     "job.yaml:4: its devices follow from \"ncu\"; drop \"devices\", or ask for devices"},
    {"name: a\n" RUN ELASTIC "needs: {ncu: 11, same: zone}\n",
     "job.yaml:4: its devices follow from \"ncu\"; drop \"same\", or ask for devices"},
    {"name: a\n" RUN ELASTIC "needs: {ncu: 0.0001}\n",
     "job.yaml:4: \"ncu\" is \"0.0001\"; give a number from 0.001 to 100000"},
    {"name: a\n" RUN ELASTIC "needs: {ncu: 1.0001}\n",
     "job.yaml:4: \"ncu\" is finer than 0.001; round it"},
    {"name: a\n" RUN ELASTIC "needs: {ncu: 2}\ndeadline: 3h\nwork: {time: 1h}\n",
     "job.yaml:5: a deadline is kept for jobs that ask for devices; drop it or \"ncu\""},
    {"name: a\n" RUN ELASTIC "needs: {devices: {min: 4}, same: row}\n",
     "job.yaml:4: unknown level \"row\"; use one of: region, zone, rack, node, nvlink, "
     "pcie, numa"},
    {"name: a\n" RUN ELASTIC "needs: {spread: node}\n",
     "job.yaml:4: one device is together with itself; drop the key or ask for more devices"},
    {"name: a\n" RUN ELASTIC "needs: {devices: {min: 4}, spread: region}\n",
     "job.yaml:4: the workers of one job keep to one region; spread them over zones, racks or "
     "nodes, or submit a job for each region"},
    {"name: a\n" RUN ELASTIC "needs: {devices: {min: 4}, same: rack, spread: zone}\n",
     "job.yaml:4: all in one rack and each in another zone contradict each other"},
    {"name: a\n" RUN ELASTIC "needs: {devices: {min: 4, max: 65}, spread: rack}\n",
     "job.yaml:4: 65 devices in as many racks; at most 64 are looked at"},
};

static void mistakes_say_what_to_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        struct error error = {{0}};
        assert_false(job_spec_parse(&catalog, &config, "job.yaml", mistakes[i].text,
                                    strlen(mistakes[i].text), &spec, &error));
        assert_string_equal(error.text, mistakes[i].sentence);
    }
}

static void too_much_text_is_refused(void **state)
{
    (void)state;
    static char text[64 * 1024];
    struct error error;
    size_t used = (size_t)snprintf(text, sizeof text, "name: a\nkind: batch\nrun: {command: [a");
    for (int i = 0; i < TEXT_LIST_ITEMS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ", a");
    (void)snprintf(text + used, sizeof text - used, "]}\n");
    assert_false(job_spec_parse(&catalog, &config, "job.yaml", text, strlen(text), &spec, &error));
    assert_string_equal(error.text,
                        "job.yaml:3: more than 128 texts or 16384 bytes; move some into a file");
    used = (size_t)snprintf(text, sizeof text, "name: a\nkind: batch\nrun: {command: [\"");
    memset(text + used, 'x', TEXT_LIST_BYTES_MAX);
    (void)snprintf(text + used + TEXT_LIST_BYTES_MAX, 100, "\"]}\n");
    assert_false(job_spec_parse(&catalog, &config, "job.yaml", text, strlen(text), &spec, &error));
    assert_string_equal(error.text,
                        "job.yaml:3: more than 128 texts or 16384 bytes; move some into a file");
}

static void its_own_text_gives_the_same_job(void **state)
{
    (void)state;
    static const char *const jobs[] = {
        full,
        "{name: hi, kind: batch, run: {command: [echo, hello]}}",
        "name: a\n" RUN ELASTIC "budget: {usd: 0.000001}\nneeds: {devices: {min: 3}}\n",
    };
    static struct job_spec before;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        expect_good(jobs[i]);
        before = spec;
        char *text = job_spec_text(&catalog, &spec);
        expect_good(text);
        assert_memory_equal(&before, &spec, sizeof spec);
        char *again = job_spec_text(&catalog, &spec);
        assert_string_equal(text, again);
        assert_null(strchr(text, '\n'));
        mem_free(text);
        mem_free(again);
    }
}

static void the_hash_is_stable_and_blind_to_layout(void **state)
{
    (void)state;
    static const char *const same[] = {
        "name: hi\nkind: batch\nrun: {command: [echo, hello]}\n",
        "# a comment\nrun:\n  command:\n    - echo\n    - \"hello\"\nkind: 'batch'\nclass: P2\n"
        "name: hi\n",
    };
    uint64_t hashes[2];
    for (int i = 0; i < 2; i++) {
        expect_good(same[i]);
        char *text = job_spec_text(&catalog, &spec);
        hashes[i] = job_spec_text_hash(text);
        mem_free(text);
    }
    assert_true(hashes[0] == hashes[1]);
    /* Stored beside journaled events: a change of the text breaks what older journals refer to. */
    assert_int_equal(hashes[0], UINT64_C(0x8f11041171b0632f));
    expect_good("name: hi\nkind: batch\nrun: {command: [echo, hullo]}\n");
    char *text = job_spec_text(&catalog, &spec);
    assert_true(job_spec_text_hash(text) != hashes[0]);
    mem_free(text);
}

/* "lab" -> 1 of each kind; pools by the number in their name; "full" has no number left. */
static bool id_of(void *self, enum id_kind kind, const char *name, uint32_t *ret_id)
{
    (void)self;
    if (strcmp(name, "full") == 0) return false;
    *ret_id = kind == ID_POOL ? (uint32_t)(name[strlen(name) - 1] - '0') : (uint32_t)kind * 10;
    return true;
}

static void terms_are_an_event_of_their_own_under_an_id_of_their_content(void **state)
{
    (void)state;
    struct job_events plain, half, again, third;
    struct error error;
    expect_good("{name: hi, kind: batch, run: {command: [echo, hello]}}");
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &plain, &error));
    assert_int_equal(plain.terms.kind, 0);
    assert_true(plain.submitted.u.job_submitted.terms_id == 0);
    spec.terms.device_milli = 500;
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &half, &error));
    assert_true(job_spec_event(&spec, &catalog.links, 8, 98, id_of, NULL, &again, &error));
    spec.terms.device_milli = 333;
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &third, &error));
    assert_int_equal(half.terms.kind, POOL_EVENT_TERMS_DEFINED);
    assert_null(pool_event_check(&half.terms));
    assert_int_equal(half.terms.u.terms_defined.terms.device_milli, 500);
    uint64_t id = half.terms.u.terms_defined.terms_id;
    assert_true(id != 0);
    assert_true(half.submitted.u.job_submitted.terms_id == id);
    assert_true(again.submitted.u.job_submitted.terms_id == id);
    assert_true(third.submitted.u.job_submitted.terms_id != id);
}

static void shares_and_hosts_are_terms_and_survive_the_text(void **state)
{
    (void)state;
    struct job_events events, again;
    struct error error;
    expect_good(
        "{name: hi, kind: batch, needs: {share: 0.4, share_memory_gb: 12, host: {cpus: 1.5, "
        "memory_gb: 8}}, run: {command: [echo, hello]}}");
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &events, &error));
    const struct job_terms *terms = &events.terms.u.terms_defined.terms;
    assert_int_equal(terms->device_milli, 400);
    assert_int_equal(terms->device_memory_mib, 12 * 1024);
    assert_int_equal(terms->host_cpu_milli, 1500);
    assert_int_equal(terms->host_memory_mib, 8 * 1024);
    char *text = job_spec_text(&catalog, &spec);
    assert_non_null(text);
    expect_good(text);
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &again, &error));
    assert_memory_equal(&again.terms, &events.terms, sizeof again.terms);
    mem_free(text);
}

static void the_next_tier_is_a_pool_that_comes_last(void **state)
{
    (void)state;
    struct job_events events, again;
    struct error error;
    expect_good("{name: hi, kind: batch, run: {command: [x]}, "
                "needs: {pools: [tier-1], degrade: next-tier}}");
    assert_string_equal(spec.next_tier, "tier-2");
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &events, &error));
    assert_int_equal(__builtin_popcountll(events.submitted.u.job_submitted.pool_mask), 2);
    uint32_t degrade = events.terms.u.terms_defined.terms.degrade;
    assert_true(degrade > 0 &&
                (events.submitted.u.job_submitted.pool_mask >> (degrade - 1) & 1) != 0);
    char *text = job_spec_text(&catalog, &spec);
    assert_non_null(text);
    expect_good(text);
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &again, &error));
    assert_memory_equal(&again.terms, &events.terms, sizeof again.terms);
    mem_free(text);
}

static void ncu_are_terms_and_survive_the_text(void **state)
{
    (void)state;
    struct job_events events, again;
    struct error error;
    expect_good("{name: hi, elastic: {slots: 8, steps: 9}, run: {command: [x]}, "
                "needs: {ncu: 11.5}, budget: {usd_per_hour: 25}}");
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &events, &error));
    assert_int_equal(events.terms.u.terms_defined.terms.ncu_milli, 11500);
    assert_int_equal(events.submitted.u.job_submitted.devices_max, 1);
    assert_null(pool_event_check(&events.terms));
    char *text = job_spec_text(&catalog, &spec);
    assert_non_null(text);
    expect_good(text);
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &again, &error));
    assert_memory_equal(&again.terms, &events.terms, sizeof again.terms);
    mem_free(text);
}

static void together_and_apart_are_terms_and_survive_the_text(void **state)
{
    (void)state;
    struct job_events events, again;
    struct error error;
    expect_good("{name: hi, elastic: {slots: 8, steps: 9}, run: {command: [x]}, "
                "needs: {devices: {min: 4}, same: zone, spread: node}}");
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &events, &error));
    assert_int_equal(events.terms.u.terms_defined.terms.affinity, TOPOLOGY_ZONE);
    assert_int_equal(events.terms.u.terms_defined.terms.spread, TOPOLOGY_NODE);
    char *text = job_spec_text(&catalog, &spec);
    assert_non_null(text);
    expect_good(text);
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &again, &error));
    assert_memory_equal(&again.terms, &events.terms, sizeof again.terms);
    mem_free(text);
    expect_good("{name: hi, elastic: {slots: 8, steps: 9}, run: {command: [x]}, "
                "needs: {devices: {min: 4}, same: region}}");
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &again, &error));
    assert_int_equal(again.terms.kind, 0); /* as every job */
}

static void data_brings_its_links_and_survives_the_text(void **state)
{
    (void)state;
    struct job_events events, again;
    struct error error;
    expect_good("{name: hi, kind: batch, run: {command: [x]}, data: {region: us-east-1, gb: 1.5}}");
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &events, &error));
    assert_true(events.terms.u.terms_defined.terms.data_bytes == 1500000000);
    uint32_t from = events.terms.u.terms_defined.terms.data_region;
    assert_true(from != 0 && events.link_count > 0);
    for (uint32_t i = 0; i < events.link_count; i++) {
        assert_int_equal(events.links[i].u.links_told.from, from);
        assert_null(pool_event_check(&events.links[i]));
    }
    const struct told_link *links = events.links[0].u.links_told.links;
    assert_int_equal(links[0].to, 0); /* whatever is not named leaves the cloud */
    assert_int_equal(links[0].usd_micros_per_gb, 90000);
    assert_int_equal(links[1].to, from);
    assert_int_equal(links[1].usd_micros_per_gb, 0);
    char *text = job_spec_text(&catalog, &spec);
    assert_non_null(text);
    expect_good(text);
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &again, &error));
    assert_memory_equal(&again.terms, &events.terms, sizeof again.terms);
    mem_free(text);
}

static void links_are_told_apart_by_cloud_continent_and_pair(void **state)
{
    (void)state;
    const struct links *l = &catalog.links;
    assert_int_equal(links_between(l, "westus2", "westus2").usd_micros_per_gb, 0);
    assert_int_equal(links_between(l, "westus2", "eastus").usd_micros_per_gb, 20000);
    assert_int_equal(links_between(l, "westus2", "westeurope").usd_micros_per_gb, 50000);
    assert_int_equal(links_between(l, "westus2", "us-east-1").usd_micros_per_gb, 87000);
    assert_int_equal(links_between(l, "us-east-1", "us-east-2").usd_micros_per_gb, 10000);
    assert_int_equal(links_between(l, "cellar", "us-east-1").usd_micros_per_gb, 90000);
    struct catalog mine = catalog;
    struct error error;
    static const char text[] = "links: {clouds: {aws: {near: {usd_per_gb: 0.005}}}, pairs: [{from: "
                               "cellar, to: us-east-1, usd_per_gb: 0, mb_per_s: 10}]}\n";
    assert_true(catalog_parse(&mine, "mine.yaml", text, sizeof text - 1, &error));
    assert_int_equal(links_between(&mine.links, "us-west-1", "us-west-2").usd_micros_per_gb, 5000);
    assert_int_equal(links_between(&mine.links, "cellar", "us-east-1").usd_micros_per_gb, 0);
    static const char bad[] = "links: {clouds: {aws: {nearer: {usd_per_gb: 1}}}}\n";
    assert_false(catalog_parse(&mine, "mine.yaml", bad, sizeof bad - 1, &error));
    assert_non_null(strstr(error.text, "mine.yaml:1: unknown key \"nearer\""));
}

static void work_and_its_rates_become_events_and_survive_the_text(void **state)
{
    (void)state;
    static struct job_events events, again, other;
    struct error error;
    expect_good("{name: hi, kind: batch, run: {command: [x]}, work: {time: 5h, rates: {T4: 0, "
                "H100: 12.5}}}");
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &events, &error));
    assert_int_equal(events.rate_count, 2);
    for (uint32_t i = 0; i < 2; i++) assert_null(pool_event_check(&events.rates[i]));
    const struct job_terms *terms = &events.terms.u.terms_defined.terms;
    assert_true(terms->work_id != 0 && terms->work_id == events.rates[0].u.rate_told.work_id);
    assert_true(terms->run_us == INT64_C(5) * 3600 * 1000000);
    assert_true(events.rates[0].u.rate_told.rate_micro == 12500000); /* in the catalog's order */
    assert_true(events.rates[1].u.rate_told.rate_micro == 0);
    char *text = job_spec_text(&catalog, &spec);
    assert_non_null(text);
    expect_good(text);
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &again, &error));
    assert_memory_equal(&again.terms, &events.terms, sizeof again.terms);
    assert_memory_equal(again.rates, events.rates, 2 * sizeof again.rates[0]);
    mem_free(text);
    expect_good("{name: ho, kind: batch, run: {command: [x]}, work: {}}");
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &other, &error));
    assert_int_equal(other.rate_count, 0);
    assert_true(other.terms.u.terms_defined.terms.work_id != 0);
    assert_true(other.terms.u.terms_defined.terms.work_id != terms->work_id);
}

static void a_deadline_is_a_time_after_or_at(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t deadline_us, run_us;
        uint32_t steps;
    } cases[] = {
        {"{name: hi, kind: batch, deadline: 26h, work: {time: 20h}, run: {command: [a]}}",
         INT64_C(93600000000), INT64_C(72000000000), 0},
        {"{name: hi, kind: batch, deadline: 2027-03-01T08:00:00Z, work: {time: 20h}, run: "
         "{command: [a]}}",
         INT64_C(1803888000000000), INT64_C(72000000000), 0},
        {"{name: hi, deadline: 3h, needs: {devices: {min: 4}}, elastic: {slots: 8, steps: 900, "
         "work_per_slot: 2s}, run: {command: [a]}}",
         INT64_C(10800000000), INT64_C(3600000000), 900},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_good(cases[i].text);
        for (int round = 0; round < 2; round++) {
            assert_true(spec.terms.deadline_us == cases[i].deadline_us);
            assert_true(spec.terms.run_us == cases[i].run_us);
            assert_int_equal(spec.terms.steps_total, cases[i].steps);
            char *text = job_spec_text(&catalog, &spec);
            assert_non_null(text);
            expect_good(text);
            mem_free(text);
        }
    }
}

static void a_job_may_need_no_device(void **state)
{
    (void)state;
    expect_good("{name: hi, kind: batch, needs: {share: 0, host: {cpus: 8}}, run: {command: [a]}}");
    assert_int_equal(spec.terms.host_only, 1);
    assert_int_equal(spec.terms.device_milli, 0);
    char *text = job_spec_text(&catalog, &spec);
    assert_non_null(text);
    expect_good(text);
    assert_int_equal(spec.terms.host_only, 1);
    mem_free(text);
}

static void a_job_may_ask_for_an_instance(void **state)
{
    (void)state;
    expect_good("{name: hi, kind: batch, needs: {mig: 2g.20gb}, run: {command: [a]}}");
    for (int round = 0; round < 2; round++) {
        assert_int_equal(spec.terms.mig_profile, 2);
        assert_int_equal(spec.terms.device_memory_mib, 20 * 1024);
        char *text = job_spec_text(&catalog, &spec);
        assert_non_null(text);
        expect_good(text);
        mem_free(text);
    }
    expect_good("{name: hi, kind: batch, needs: {mig: 3g}, run: {command: [a]}}");
    assert_int_equal(spec.terms.mig_profile, 3);
    assert_int_equal(spec.terms.device_memory_mib, 0);
    expect_good("{name: hi, kind: batch, needs: {mig: 20gb}, run: {command: [a]}}");
    assert_int_equal(spec.terms.mig_profile, 1);
    assert_int_equal(spec.terms.device_memory_mib, 20 * 1024);
}

static void a_job_becomes_an_event(void **state)
{
    (void)state;
    struct job_events events;
    struct pool_event event;
    struct error error;
    expect_good(full);
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &events, &error));
    event = events.submitted;
    assert_int_equal(event.kind, POOL_EVENT_JOB_SUBMITTED);
    assert_int_equal(event.version, POOL_CORE_VERSION);
    assert_int_equal(event.u.job_submitted.job_id, 7);
    assert_int_equal(event.u.job_submitted.spec_hash, 99);
    assert_int_equal(event.u.job_submitted.capability_mask, spec.need.capability_mask);
    assert_int_equal(event.u.job_submitted.vram_min_mib, 24 * 1024);
    assert_int_equal(event.u.job_submitted.pool_mask, 1 << 1 | 1 << 2);
    assert_int_equal(event.u.job_submitted.devices_min, 4);
    assert_int_equal(event.u.job_submitted.devices_max, 12);
    assert_int_equal(event.u.job_submitted.budget_usd_micros_per_hour, 30500000);
    assert_int_equal(event.u.job_submitted.budget_usd_micros, 20000000);
    assert_int_equal(event.u.job_submitted.tenant, ID_TENANT * 10);
    assert_int_equal(event.u.job_submitted.project, ID_PROJECT * 10);
    assert_int_equal(event.u.job_submitted.team, ID_TEAM * 10);
    assert_int_equal(event.u.job_submitted.user, ID_USER * 10);
    assert_int_equal(event.u.job_submitted.experiment, ID_EXPERIMENT * 10);
    assert_int_equal(event.u.job_submitted.region, ID_REGION * 10);
    assert_int_equal(event.u.job_submitted.price_threshold_ppm, 700000);
    assert_int_equal(event.u.job_submitted.job_class, JOB_CLASS_P1);
    assert_int_equal(event.u.job_submitted.kind, JOB_KIND_ELASTIC);
    assert_int_equal(event.u.job_submitted.capacity_mask, spec.capacity_mask);

    expect_good("{name: hi, kind: batch, run: {command: [echo, hello]}}");
    assert_true(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &events, &error));
    event = events.submitted;
    assert_int_equal(event.u.job_submitted.tenant, 0); /* nobody asked for a number */
    assert_int_equal(event.u.job_submitted.pool_mask, 0);
    assert_int_equal(event.u.job_submitted.region, 0);

    expect_good("{name: hi, kind: batch, owner: {team: full}, run: {command: [echo, hello]}}");
    assert_false(job_spec_event(&spec, &catalog.links, 7, 99, id_of, NULL, &events, &error));
    assert_string_equal(error.text,
                        "no number is left for the name \"full\"; use one that is in use");
}

static void work_saturates(void **state)
{
    (void)state;
    expect_good("name: a\n" RUN
                "elastic: {slots: 1024, steps: 1000000000000, work_per_slot: 1h}\n");
    assert_int_equal(job_spec_work_us(&spec), INT64_MAX);
}

static void no_allocation_failure_is_lost(void **state)
{
    (void)state;
    bool good = false;
    for (uint64_t nth = 1; !good; nth++) {
        struct error error = {{0}};
        mem_fail_at(nth);
        good = job_spec_parse(&catalog, &config, "job.yaml", full, strlen(full), &spec, &error);
        mem_fail_at(0);
        if (!good) assert_non_null(strstr(error.text, "out of memory"));
        assert_true(nth < 100);
    }
    mem_fail_at(1);
    assert_null(job_spec_text(&catalog, &spec));
    mem_fail_at(0);
}

static void the_size_of_a_model_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t parameters; /* 0: a mistake */
    } sizes[] = {{"7B", 7000000000},
                 {"1.5B", 1500000000},
                 {"350M", 350000000},
                 {"70000000000", 70000000000},
                 {"0.125K", 125},
                 {"7G", 0},
                 {"B", 0},
                 {"-7B", 0},
                 {"7B ", 7000000000},
                 {"7BB", 0},
                 {"99999999999T", 0},
                 {"0", 0}};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "name: j\nkind: batch\nwork: {parameters: %s}\nrun: {command: [x]}\n",
                       sizes[i].text);
        struct error error = {""};
        bool ok = job_spec_parse(&catalog, NULL, "job.yaml", text, strlen(text), &spec, &error);
        if (ok != (sizes[i].parameters != 0)) fail_msg("%s: %s", sizes[i].text, error.text);
        if (ok) assert_int_equal(spec.parameters, sizes[i].parameters);
        if (!ok) assert_non_null(strstr(error.text, "like 7B or 350M"));
        if (!ok) continue;
        char *canonical = job_spec_text(&catalog, &spec);
        assert_true(
            job_spec_parse(&catalog, NULL, "again", canonical, strlen(canonical), &spec, &error));
        assert_int_equal(spec.parameters, sizes[i].parameters);
        mem_free(canonical);
    }
}

int main(void)
{
    codec_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read),
        cmocka_unit_test(checkpoints_may_be_left_to_the_workers),
        cmocka_unit_test(a_batch_job_needs_little),
        cmocka_unit_test(the_size_of_a_model_is_read),
        cmocka_unit_test(mistakes_say_what_to_do),
        cmocka_unit_test(the_next_tier_is_a_pool_that_comes_last),
        cmocka_unit_test(data_brings_its_links_and_survives_the_text),
        cmocka_unit_test(links_are_told_apart_by_cloud_continent_and_pair),
        cmocka_unit_test(ncu_are_terms_and_survive_the_text),
        cmocka_unit_test(together_and_apart_are_terms_and_survive_the_text),
        cmocka_unit_test(too_much_text_is_refused),
        cmocka_unit_test(its_own_text_gives_the_same_job),
        cmocka_unit_test(the_hash_is_stable_and_blind_to_layout),
        cmocka_unit_test(shares_and_hosts_are_terms_and_survive_the_text),
        cmocka_unit_test(work_and_its_rates_become_events_and_survive_the_text),
        cmocka_unit_test(a_deadline_is_a_time_after_or_at),
        cmocka_unit_test(a_job_may_need_no_device),
        cmocka_unit_test(a_job_may_ask_for_an_instance),
        cmocka_unit_test(a_job_becomes_an_event),
        cmocka_unit_test(terms_are_an_event_of_their_own_under_an_id_of_their_content),
        cmocka_unit_test(work_saturates),
        cmocka_unit_test(no_allocation_failure_is_lost),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
