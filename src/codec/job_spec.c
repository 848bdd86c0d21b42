#include "codec/job_spec.h"
#include "codec/job_work.h"
#include "codec/names.h"
#include "codec/yaml_tree.h"
#include "core/limits.h"
#include "core/mig.h"
#include "core/ncu_mix.h"
#include <stdio.h>
#include <string.h>

enum {
    THRESHOLD_MIN_PPM = 10000,
    THRESHOLD_MAX_PPM = 10000000,
    MEMORY_GB_MAX = 65536,
    ENV_KEY_MAX = 255, /* libyaml takes keys below 1024 characters, and no sane one is longer */
};
#define MONEY_MAX_USD_MICROS INT64_C(1000000000000000) /* a billion dollars */
#define DATA_GB_MICROS_MAX   INT64_C(1000000000000000) /* an exabyte */
#define STEPS_MAX            INT64_C(1000000000000)
#define WORK_MAX_US          INT64_C(3600000000) /* an hour for one slot of one step */

/* A word out of an enum's names; notes the nearest one. */
static uint32_t read_word(yaml_item *item, const char *what, const char *const *words,
                          uint32_t count)
{
    const char *text = yaml_item_string(item);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(words[i], text) == 0) return i;
    char known[128] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                                 words[i]);
    if (text[0] != '\0') /* else it was noted */
        yaml_mistake(item, "unknown %s \"%s\"; use one of: %s", what, yaml_show(text).text, known);
    return 0;
}

static void read_class_and_kind(struct job_spec *spec, yaml_item *root)
{
    const char *classes[JOB_CLASS_END], *kinds[JOB_KIND_END - 1];
    for (uint32_t i = 0; i < JOB_CLASS_END; i++) classes[i] = name_job_class(i);
    for (uint32_t i = 1; i < JOB_KIND_END; i++) kinds[i - 1] = name_job_kind(i);
    yaml_item *item = yaml_any(root, "class");
    spec->job_class =
        item == NULL ? JOB_CLASS_P2 : read_word(item, "class", classes, JOB_CLASS_END);
    item = yaml_any(root, "kind");
    spec->kind =
        item == NULL ? JOB_KIND_ELASTIC : 1 + read_word(item, "kind", kinds, JOB_KIND_END - 1);
}

static void read_pools(const struct config *config, struct job_spec *spec, yaml_item *list)
{
    const char *names[CONFIG_POOLS_MAX];
    uint32_t count = config == NULL ? 0 : config->pool_count, index;
    for (uint32_t i = 0; i < count; i++) names[i] = config->pools[i].name;
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        yaml_item *item = yaml_at(list, i);
        if (spec->pool_count == JOB_POOLS_MAX) {
            yaml_mistake(item, "more than %d pools; name fewer", JOB_POOLS_MAX);
            return;
        }
        char *name = spec->pools[spec->pool_count];
        if (!yaml_copy_name(item, yaml_item_string(item), name, CONFIG_NAME_BYTES)) continue;
        spec->pool_count++;
        if (config == NULL || config_find_pool(config, name, &index)) continue;
        const char *nearest = yaml_nearest(name, names, count);
        if (nearest != NULL)
            yaml_mistake(item, "there is no pool \"%s\"; did you mean \"%s\"?", name, nearest);
        else
            yaml_mistake(item, "there is no pool \"%s\"; see `shoal pools`", name);
    }
}

/* The pool that comes after the last of its own, in the order of shoal.yaml. */
static void read_degrade(const struct config *config, struct job_spec *spec, yaml_item *needs)
{
    yaml_item *item = yaml_any(needs, "degrade");
    if (item == NULL) return;
    if (strcmp(yaml_item_string(item), "next-tier") != 0)
        yaml_mistake(item, "a job can degrade to the next-tier, not to \"%s\"",
                     yaml_show(yaml_item_string(item)).text);
    if (spec->pool_count == 0)
        yaml_mistake(item, "without pools there is no next tier; name pools or drop the key");
    spec->degrades = 1;
    uint32_t last = 0, index;
    for (uint32_t i = 0; i < spec->pool_count && config != NULL; i++)
        if (config_find_pool(config, spec->pools[i], &index) && index > last) last = index;
    if (config == NULL || spec->pool_count == 0) return;
    if (last + 1 >= config->pool_count)
        yaml_mistake(item, "no pool comes after \"%s\" in shoal.yaml; drop the key",
                     config->pools[last].name);
    else
        memcpy(spec->next_tier, config->pools[last + 1].name, sizeof spec->next_tier);
}

static void read_devices(struct job_spec *spec, yaml_item *needs)
{
    yaml_item *devices = yaml_map(needs, "devices");
    spec->devices_min = (uint32_t)yaml_integer(devices, "min", 1, JOB_DEVICES_MAX, 1);
    spec->devices_max =
        (uint32_t)yaml_integer(devices, "max", 1, JOB_DEVICES_MAX, spec->devices_min);
    if (spec->devices_min > spec->devices_max)
        yaml_mistake(devices,
                     "devices min %u is above max %u; a job cannot start with more than "
                     "it may have",
                     spec->devices_min, spec->devices_max);
    if (spec->kind == JOB_KIND_BATCH && spec->devices_max > 1)
        yaml_mistake(devices, "a batch job runs one worker on one device; drop devices or set "
                              "kind: elastic");
}

/* "1g.10gb": compute slices and memory as the maker names profiles; either may be left out. */
static bool parse_mig(const char *name, uint32_t *ret_compute, uint32_t *ret_memory_gb)
{
    unsigned compute = 0, memory_gb = 0;
    int end = 0;
    *ret_compute = 1;
    *ret_memory_gb = 0;
    if (sscanf(name, "%1ug%n", &compute, &end) == 1 && end > 0 && name[end] != 'b') {
        if (compute < 1 || compute > MIG_COMPUTE_MAX) return false;
        *ret_compute = compute;
        if (name[end] == '\0') return true;
        if (name[end++] != '.') return false;
    } else
        end = 0;
    const char *memory = name + end;
    end = 0;
    if (sscanf(memory, "%4ugb%n", &memory_gb, &end) != 1 || end == 0) return false;
    *ret_memory_gb = memory_gb;
    return memory[end] == '\0' && memory_gb > 0;
}

static void read_mig(struct job_spec *spec, yaml_item *needs)
{
    yaml_item *item = yaml_any(needs, "mig");
    if (item == NULL) return;
    uint32_t compute, memory_gb;
    const char *name = yaml_item_string(item);
    if (name[0] == '\0') return; /* noted */
    if (!parse_mig(name, &compute, &memory_gb))
        yaml_mistake(
            item, "\"%s\" is no profile; write 1g.10gb, or 2g or 20gb for the smallest that does",
            name);
    if (spec->terms.device_milli != 0 || spec->terms.host_only || spec->devices_max > 1)
        yaml_mistake(item, "an instance is of one device, and no other share of it; drop share or "
                           "devices");
    spec->terms.mig_profile = compute;
    spec->terms.device_memory_mib = memory_gb * 1024;
}

/* A share of one device instead of whole ones, and what each device needs of its host. */
static void read_parts(struct job_spec *spec, yaml_item *needs)
{
    int64_t micros = yaml_micros(needs, "share", 0, 1000000, 1000000);
    if (micros % 1000 != 0)
        yaml_mistake(yaml_any(needs, "share"), "\"share\" is finer than 0.001; round it");
    if (micros < 1000000) spec->terms.device_milli = (uint32_t)(micros / 1000);
    spec->terms.host_only = micros == 0;
    spec->terms.device_memory_mib =
        (uint32_t)yaml_integer(needs, "share_memory_gb", 1, MEMORY_GB_MAX, 0) * 1024;
    if (spec->terms.device_memory_mib != 0 && spec->terms.device_milli == 0)
        yaml_mistake(yaml_any(needs, "share_memory_gb"),
                     "a whole device has all its memory; give a share below 1 or drop the key");
    yaml_item *host = yaml_map(needs, "host");
    int64_t cpus = yaml_micros(host, "cpus", 1000, INT64_C(4096) * 1000000, 0);
    if (cpus % 1000 != 0)
        yaml_mistake(yaml_any(host, "cpus"), "\"cpus\" is finer than 0.001; round it");
    spec->terms.host_cpu_milli = (uint32_t)(cpus / 1000);
    spec->terms.host_memory_mib =
        (uint32_t)yaml_integer(host, "memory_gb", 1, MEMORY_GB_MAX, 0) * 1024;
    if (spec->terms.host_only && cpus == 0 && spec->terms.host_memory_mib == 0)
        yaml_mistake(yaml_any(needs, "share"),
                     "a job without a device needs processors or memory; give host: {cpus: N}");
    read_mig(spec, needs);
}

/* A level of topology below `end`; TOPOLOGY_ANY if the key is not there. */
static uint8_t read_topology(yaml_item *needs, const char *key, uint32_t end)
{
    const char *words[TOPOLOGY_END];
    for (uint32_t i = 0; i < end; i++) words[i] = name_topology(i);
    yaml_item *item = yaml_any(needs, key);
    return item == NULL ? TOPOLOGY_ANY : (uint8_t)read_word(item, "level", words, end);
}

/* How near each other its devices are, and how far apart. */
static void read_nearness(struct job_spec *spec, yaml_item *needs)
{
    yaml_item *same = yaml_any(needs, "same"), *spread = yaml_any(needs, "spread");
    spec->terms.affinity = read_topology(needs, "same", TOPOLOGY_END);
    spec->terms.spread = read_topology(needs, "spread", TOPOLOGY_NODE + 1);
    if (same == NULL && spread == NULL) return;
    if (spec->devices_max == 1)
        yaml_mistake(same != NULL ? same : spread,
                     "one device is together with itself; drop the key or ask for more devices");
    if (spread == NULL) return;
    if (spec->terms.spread == TOPOLOGY_ANY)
        yaml_mistake(spread, "the workers of one job keep to one region; spread them over zones, "
                             "racks or nodes, or submit a job for each region");
    else if (spec->terms.affinity >= spec->terms.spread)
        yaml_mistake(spread, "all in one %s and each in another %s contradict each other",
                     name_topology(spec->terms.affinity), name_topology(spec->terms.spread));
    else if (spec->terms.spread < TOPOLOGY_NODE && spec->devices_max > NEAR_PLACES_MAX)
        yaml_mistake(spread, "%u devices in as many %ss; at most %d are looked at",
                     spec->devices_max, name_topology(spec->terms.spread), NEAR_PLACES_MAX);
}

/* So many NCU of whichever devices are cheapest together: nothing else can be asked of the devices. */
static void read_ncu(struct job_spec *spec, yaml_item *root, yaml_item *needs)
{
    static const char *const others[] = {"devices", "share",  "mig",    "host",
                                         "same",    "spread", "degrade"};
    yaml_item *item = yaml_any(needs, "ncu");
    if (item == NULL) return;
    int64_t micros = yaml_micros(needs, "ncu", 1000, NCU_WANTED_MAX * 1000, 1000000);
    if (micros % 1000 != 0) yaml_mistake(item, "\"ncu\" is finer than 0.001; round it");
    spec->terms.ncu_milli = (uint32_t)(micros / 1000);
    for (uint32_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (yaml_has(needs, others[i]))
            yaml_mistake(yaml_any(needs, others[i]),
                         "its devices follow from \"ncu\"; drop \"%s\", or ask for devices",
                         others[i]);
    if (yaml_has(root, "deadline"))
        yaml_mistake(yaml_any(root, "deadline"),
                     "a deadline is kept for jobs that ask for devices; drop it or \"ncu\"");
    if (spec->kind == JOB_KIND_BATCH)
        yaml_mistake(item, "a batch job runs one worker on one device; drop ncu or set kind: "
                           "elastic");
}

static void read_market(struct job_spec *spec, yaml_item *market)
{
    const char *kinds[CAPACITY_KIND_END - 1];
    for (uint32_t i = 1; i < CAPACITY_KIND_END; i++) kinds[i - 1] = name_capacity(i);
    yaml_item *list = yaml_list(market, "kinds");
    for (uint32_t i = 0; i < yaml_count(list); i++)
        spec->capacity_mask |=
            1u << (1 + read_word(yaml_at(list, i), "capacity kind", kinds, CAPACITY_KIND_END - 1));
    if (list != NULL && yaml_count(list) == 0)
        yaml_mistake(list, "\"kinds\" is empty, nothing could run it; name a kind or drop the key");
    spec->price_threshold_ppm =
        (uint32_t)yaml_micros(market, "price_threshold", THRESHOLD_MIN_PPM, THRESHOLD_MAX_PPM, 0);
    yaml_name(market, "region", spec->region, sizeof spec->region);
}

static void read_checkpoints(struct job_spec *spec, yaml_item *elastic)
{
    yaml_item *every = yaml_any(elastic, "checkpoint_every");
    if (every != NULL && strcmp(yaml_item_string(every), "auto") == 0)
        spec->checkpoint_every = JOB_CHECKPOINT_AUTO;
    else
        spec->checkpoint_every =
            (uint32_t)yaml_integer(elastic, "checkpoint_every", 0, 1000000000, 0);
    yaml_copy(elastic, "checkpoint_dir", spec->checkpoint_dir, sizeof spec->checkpoint_dir, "");
    if (every == NULL && spec->checkpoint_dir[0] != '\0')
        spec->checkpoint_every = JOB_CHECKPOINT_AUTO;
    const char *scheme = strstr(spec->checkpoint_dir, "://");
    if (scheme != NULL && strncmp(spec->checkpoint_dir, "s3://", 5) != 0 &&
        strncmp(spec->checkpoint_dir, "file:///", 8) != 0)
        yaml_mistake(yaml_any(elastic, "checkpoint_dir"),
                     "\"%s\": checkpoints go to a folder that all workers see, or to "
                     "s3://BUCKET/PREFIX",
                     yaml_show(spec->checkpoint_dir).text);
    if (spec->checkpoint_dir[0] != '\0' && spec->checkpoint_every == 0)
        yaml_mistake(yaml_any(elastic, "checkpoint_dir"),
                     "nothing would be written there; set checkpoint_every to a number of steps "
                     "or to auto");
}

static void read_elastic(struct job_spec *spec, yaml_item *root)
{
    yaml_item *elastic = yaml_map(root, "elastic");
    if (spec->kind == JOB_KIND_BATCH) {
        if (elastic != NULL)
            yaml_mistake(elastic, "a batch job has no elastic part; drop it or set kind: elastic");
        return;
    }
    (void)yaml_require(root, "elastic");  /* noted */
    (void)yaml_require(elastic, "slots"); /* noted */
    (void)yaml_require(elastic, "steps"); /* noted */
    spec->slots = (uint32_t)yaml_integer(elastic, "slots", 1, JOB_SLOTS_MAX, 1);
    spec->steps = (uint64_t)yaml_integer(elastic, "steps", 1, STEPS_MAX, 1);
    read_checkpoints(spec, elastic);
    spec->work_per_slot_us = yaml_duration_us(elastic, "work_per_slot", 1, WORK_MAX_US, 0);
    if (spec->slots < spec->devices_min && yaml_has(elastic, "slots"))
        yaml_mistake(yaml_any(elastic, "slots"),
                     "%u slots are fewer than the %u devices of the "
                     "gang; some would have nothing to do",
                     spec->slots, spec->devices_min);
}

static void add_text(struct text_list *list, yaml_item *item, const char *text)
{
    if (!text_list_add(list, text))
        yaml_mistake(item, "more than %d texts or %d bytes; move some into a file",
                     TEXT_LIST_ITEMS_MAX, TEXT_LIST_BYTES_MAX);
}

static void read_run(struct job_spec *spec, yaml_item *root)
{
    (void)yaml_require(root, "run"); /* noted */
    yaml_item *run = yaml_map(root, "run");
    (void)yaml_require(run, "command"); /* noted */
    yaml_item *command = yaml_list(run, "command");
    for (uint32_t i = 0; i < yaml_count(command); i++)
        add_text(&spec->command, yaml_at(command, i), yaml_item_string(yaml_at(command, i)));
    bool no_program = yaml_count(command) == 0 ||
                      (spec->command.count > 0 && text_list_at(&spec->command, 0)[0] == '\0');
    if (command != NULL && no_program)
        yaml_mistake(command, "\"command\" is empty; give the program and its arguments as a list");
    yaml_item *env = yaml_map(run, "env");
    for (uint32_t i = 0; i < yaml_count(env); i++) {
        const char *key = yaml_key_at(env, i);
        yaml_item *value = yaml_at(env, i);
        if (key[0] == '\0' || strchr(key, '=') != NULL || strlen(key) > ENV_KEY_MAX)
            yaml_mistake(value,
                         "\"%s\" cannot name an environment variable; give a short word "
                         "without =",
                         yaml_show(key).text);
        add_text(&spec->env, value, key);
        add_text(&spec->env, value, yaml_item_string(value));
    }
    yaml_copy(run, "dir", spec->dir, sizeof spec->dir, "");
}

static void read_owner(struct job_spec *spec, yaml_item *owner)
{
    yaml_name(owner, "tenant", spec->tenant, sizeof spec->tenant);
    yaml_name(owner, "project", spec->project, sizeof spec->project);
    yaml_name(owner, "team", spec->team, sizeof spec->team);
    yaml_name(owner, "user", spec->user, sizeof spec->user);
    yaml_name(owner, "experiment", spec->experiment, sizeof spec->experiment);
}

/* 0 if absent. A budget of nothing would refuse every offer, so it is a mistake, not "none". */
static int64_t read_money(yaml_item *budget, const char *key)
{
    yaml_item *item = yaml_any(budget, key);
    int64_t usd_micros = yaml_micros(budget, key, -MONEY_MAX_USD_MICROS, MONEY_MAX_USD_MICROS, 0);
    if (item != NULL && usd_micros <= 0)
        yaml_mistake(item, "the budget \"%s\" is \"%s\"; give an amount above 0 or leave it out",
                     key, yaml_show(yaml_item_string(item)).text);
    return usd_micros;
}

/* What it reads, and where that lies. */
static void read_data(struct job_spec *spec, yaml_item *data)
{
    if (data == NULL) return;
    (void)yaml_require(data, "region"); /* noted */
    (void)yaml_require(data, "gb");     /* noted */
    yaml_name(data, "region", spec->data_region, sizeof spec->data_region);
    int64_t micros = yaml_micros(data, "gb", 1000, DATA_GB_MICROS_MAX, 1000000);
    if (micros % 1000 != 0)
        yaml_mistake(yaml_any(data, "gb"), "\"gb\" is finer than 0.001; round it");
    spec->terms.data_bytes = (uint64_t)micros * 1000;
}

static void read_gate(struct job_spec *spec, yaml_item *budget)
{
    const char *above = yaml_string(budget, "above_gate", "");
    if (strcmp(above, "wait") == 0)
        spec->terms.gate = GATE_WAITS;
    else if (strcmp(above, "refuse") == 0)
        spec->terms.gate = GATE_REFUSES;
    else if (above[0] != '\0')
        yaml_mistake(yaml_any(budget, "above_gate"),
                     "above a cost gate a job can wait or refuse, not \"%s\"", above);
}

static void read_budget(struct job_spec *spec, yaml_item *budget)
{
    spec->budget_usd_micros_per_hour = read_money(budget, "usd_per_hour");
    spec->budget_usd_micros = read_money(budget, "usd");
    read_gate(spec, budget);
}

bool job_spec_parse(const struct catalog *catalog, const struct config *config, const char *file,
                    const char *text, size_t bytes, struct job_spec *ret_spec,
                    struct error *ret_error)
{
    yaml_tree *tree = yaml_open(file, text, bytes, ret_error);
    if (tree == NULL) return false;
    yaml_item *root = yaml_root(tree);
    struct job_spec *spec = ret_spec;
    memset(spec, 0, sizeof *spec);
    (void)yaml_require(root, "name"); /* noted */
    yaml_name(root, "name", spec->name, sizeof spec->name);
    read_class_and_kind(spec, root);
    read_owner(spec, yaml_map(root, "owner"));
    yaml_item *needs = yaml_map(root, "needs");
    spec->need = catalog_read_need(catalog, yaml_list(needs, "capabilities"));
    read_pools(config, spec, yaml_list(needs, "pools"));
    read_degrade(config, spec, needs);
    read_ncu(spec, root, needs);
    read_devices(spec, needs);
    read_parts(spec, needs);
    read_nearness(spec, needs);
    read_data(spec, yaml_map(root, "data"));
    read_budget(spec, yaml_map(root, "budget"));
    read_market(spec, yaml_map(root, "market"));
    read_elastic(spec, root);
    job_work_read(catalog, spec, yaml_map(root, "work"));
    job_deadline_read(spec, root);
    read_run(spec, root);
    bool good = yaml_finish(tree, ret_error);
    yaml_close(tree);
    return good;
}

int64_t job_spec_work_us(const struct job_spec *spec)
{
    int64_t work_us;
    if (__builtin_mul_overflow((int64_t)spec->steps, (int64_t)spec->slots, &work_us))
        return INT64_MAX;
    if (__builtin_mul_overflow(work_us, spec->work_per_slot_us, &work_us)) return INT64_MAX;
    return work_us;
}
