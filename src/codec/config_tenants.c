/* `tenants` and `quota` of shoal.yaml: who may use how much. Described for users in docs/config.md. */
#include "codec/config.h"
#include <string.h>

#define NCU_MAX INT64_C(1000000) /* of a quota, in the file; the core takes more */
#define USD_MAX INT64_C(1000000000000)

static const char *const children_keys[ACCOUNT_LEVELS] = {"projects", "teams", "users", NULL};

void config_no_account(struct pool_event *ret_event)
{
    *ret_event = (struct pool_event){.kind = POOL_EVENT_ACCOUNT_DEFINED,
                                     .version = POOL_CORE_VERSION,
                                     .u.account_defined = {.quota_milli = {-1, -1},
                                                           .borrow_milli = {-1, -1},
                                                           .lend_milli = {-1, -1}}};
}

bool config_quota_model(const struct config *config, uint32_t model, struct pool_event *ret_event)
{
    uint32_t kind = (config->quota_cpus >> model & 1) != 0;
    if (kind == 0 && config->quota_weight_milli[model] == 1000) return false;
    *ret_event = (struct pool_event){
        .kind = POOL_EVENT_QUOTA_MODEL_DEFINED,
        .version = POOL_CORE_VERSION,
        .u.quota_model_defined = {
            .model = model, .kind = kind, .weight_milli = config->quota_weight_milli[model]}};
    return true;
}

/* NCU with up to three decimals; -1 if the key is not there. */
static int64_t read_ncu(yaml_item *map, const char *key)
{
    int64_t micros = yaml_micros(map, key, 0, NCU_MAX * 1000000, -1);
    return micros < 0 ? -1 : micros / 1000;
}

static void read_account(struct pool_event *event, yaml_item *map)
{
    static const char *const quota[] = {"ncu", "cpu_ncu"},
                             *const borrow[] = {"borrow", "cpu_borrow"},
                             *const lend[] = {"lend", "cpu_lend"};
    config_no_account(event);
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) {
        event->u.account_defined.quota_milli[kind] = read_ncu(map, quota[kind]);
        event->u.account_defined.borrow_milli[kind] = read_ncu(map, borrow[kind]);
        event->u.account_defined.lend_milli[kind] = read_ncu(map, lend[kind]);
        if (event->u.account_defined.quota_milli[kind] < 0 && yaml_has(map, lend[kind]))
            yaml_mistake(yaml_any(map, lend[kind]),
                         "\"%s\" limits what is lent of \"%s\", which is not given", lend[kind],
                         quota[kind]);
    }
    event->u.account_defined.weight_milli =
        (uint32_t)(yaml_micros(map, "weight", 1000, INT64_C(1000000000), 1000000) / 1000);
    yaml_item *limits = yaml_map(map, "limits");
    event->u.account_defined.jobs_max = (uint32_t)yaml_integer(limits, "jobs", 1, 2000000, 0);
    event->u.account_defined.workers_max = (uint32_t)yaml_integer(limits, "workers", 1, 2000000, 0);
    event->u.account_defined.usd_micros_per_hour_max =
        yaml_micros(limits, "usd_per_hour", 1, USD_MAX, 0);
    event->u.account_defined.usd_micros_max[0] = yaml_micros(limits, "usd_per_day", 1, USD_MAX, 0);
    event->u.account_defined.usd_micros_max[1] =
        yaml_micros(limits, "usd_per_month", 1, USD_MAX, 0);
    event->u.account_defined.submissions_per_minute_max =
        (uint32_t)yaml_integer(limits, "submissions_per_minute", 1, 1000000, 0);
}

static const char *own_name(const struct config_account *account)
{
    uint32_t level = ACCOUNT_LEVELS - 1;
    while (level > 0 && account->names[level][0] == '\0') level--;
    return account->names[level];
}

/* What children are promised, their parent must have. */
static void check_sums(yaml_item *map, const struct config_account *parent,
                       const int64_t sums[QUOTA_KINDS])
{
    static const char *const quota[] = {"ncu", "cpu_ncu"};
    for (uint32_t kind = 0; kind < QUOTA_KINDS; kind++) {
        int64_t own = parent->event.u.account_defined.quota_milli[kind];
        if (own >= 0 && sums[kind] > own)
            yaml_mistake(yaml_any(map, quota[kind]),
                         "the parts of \"%s\" add up to more than its \"%s\"; raise it or lower "
                         "theirs",
                         own_name(parent), quota[kind]);
    }
}

static void read_level(struct config *config, yaml_item *map, uint32_t level,
                       const struct config_account *parent);

static void read_entry(struct config *config, yaml_item *item, const char *name, uint32_t level,
                       const struct config_account *parent)
{
    if (config->account_count == CONFIG_ACCOUNTS_MAX) {
        yaml_mistake(item, "more than %d tenants, projects, teams and users; drop some",
                     CONFIG_ACCOUNTS_MAX);
        return;
    }
    struct config_account *entry = &config->accounts[config->account_count];
    if (parent != NULL) memcpy(entry->names, parent->names, sizeof entry->names);
    if (!yaml_copy_name(item, name, entry->names[level], CONFIG_NAME_BYTES)) return;
    yaml_item *map = yaml_item_map(item);
    config->account_count++;
    read_account(&entry->event, map);
    config_read_gates(map, GATE_OF_ACCOUNT, 0, &entry->gate);
    if (children_keys[level] != NULL)
        read_level(config, yaml_map(map, children_keys[level]), level + 1, entry);
    int64_t sums[QUOTA_KINDS] = {0};
    for (const struct config_account *below = entry + 1;
         below < config->accounts + config->account_count; below++)
        for (uint32_t kind = 0; kind < QUOTA_KINDS && level + 1 < ACCOUNT_LEVELS; kind++) {
            bool child = level + 2 >= ACCOUNT_LEVELS || below->names[level + 2][0] == '\0';
            int64_t quota = below->event.u.account_defined.quota_milli[kind];
            if (child && quota > 0) sums[kind] += quota;
        }
    check_sums(map, entry, sums);
}

static void read_level(struct config *config, yaml_item *map, uint32_t level,
                       const struct config_account *parent)
{
    for (uint32_t i = 0; i < yaml_count(map); i++)
        read_entry(config, yaml_at(map, i), yaml_key_at(map, i), level, parent);
}

static void read_weights(const struct catalog *catalog, struct config *config, yaml_item *map)
{
    for (uint32_t i = 0; i < yaml_count(map); i++) {
        uint32_t model;
        const char *name = yaml_key_at(map, i);
        if (catalog_find_model(catalog, name, &model))
            config->quota_weight_milli[model] =
                (uint32_t)(yaml_micros(map, name, 1000, INT64_C(1000000000), 1000000) / 1000);
        else
            yaml_mistake(yaml_at(map, i), "device model \"%s\" is not in the catalog", name);
    }
}

void config_read_tenants(const struct catalog *catalog, struct config *config, yaml_item *root)
{
    for (uint32_t i = 0; i < CATALOG_MODELS_MAX; i++) config->quota_weight_milli[i] = 1000;
    yaml_item *quota = yaml_map(root, "quota");
    read_weights(catalog, config, yaml_map(quota, "weights"));
    config->quota_cpus = catalog_read_models(catalog, yaml_list(quota, "cpus"));
    read_level(config, yaml_map(root, "tenants"), 0, NULL);
}
