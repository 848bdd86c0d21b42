/* shoal.yaml: what the server is told before it starts. Described for users in docs/config.md.
 *
 * Role       Text -> struct config, or the first mistake. No file is opened here: the caller reads
 *            shoal.yaml, asks config_peek_catalog() which catalog to load on top of the shipped
 *            one, then calls config_parse() with the finished catalog.
 * Paths      As written; config_path() resolves one against the folder of shoal.yaml.
 * Defaults   A file of zero keys is valid: loopback, data folder "shoal-data", no pools, no
 *            providers, limits and timing of pool_config_default().
 */
#ifndef SHOAL_CODEC_CONFIG_H
#define SHOAL_CODEC_CONFIG_H

#include "codec/catalog.h"
#include "codec/ids.h"
#include "codec/rank_net.h"
#include "codec/text_list.h"
#include "codec/yaml.h"
#include "core/pool.h"

enum {
    CONFIG_NAME_BYTES = 64,
    CONFIG_TEXT_BYTES = 256,
    CONFIG_POOLS_MAX = 64,
    CONFIG_PROVIDERS_MAX = 16,
    CONFIG_OPTIONS_MAX = 16,
    CONFIG_USE_CASES_MAX = 16,
    CONFIG_ACCOUNTS_MAX = 512,
    CONFIG_WARNINGS_MAX = 16,
};

struct config_pool {
    char name[CONFIG_NAME_BYTES];
    struct device_need need;
    uint64_t hardware_mask;       /* models, by catalog index; 0 = any that has the capabilities */
    uint32_t price_threshold_ppm; /* 0 = none given (1000000) */
    uint64_t lacking_mask;        /* of the hardware: models that lack a capability, not used */
    uint32_t use_case_count;
    char use_cases[CONFIG_USE_CASES_MAX][CONFIG_NAME_BYTES];
    struct pool_event gate;   /* GATE_DEFINED without its index; kind 0 = none */
    struct pool_event buying; /* BUYING_DEFINED without its index */
};

struct config_option {
    char key[CONFIG_NAME_BYTES], value[CONFIG_TEXT_BYTES];
};

struct config_provider {
    char name[CONFIG_NAME_BYTES];
    char driver[CONFIG_NAME_BYTES];
    uint32_t line, option_count; /* line in the file, for the driver's own messages */
    struct config_option options[CONFIG_OPTIONS_MAX]; /* every other key, as text */
};

/* A tenant, a project of it, a team of that, or a user: `names` below its level are "". */
struct config_account {
    char names[ACCOUNT_LEVELS][CONFIG_NAME_BYTES];
    struct pool_event event; /* ACCOUNT_DEFINED without its names */
    struct pool_event gate;  /* GATE_DEFINED likewise; kind 0 = none */
};

/* The site's own order of offers: one of these three, or none. */
struct config_ranking {
    struct rank_program program; /* count 0: no expression */
    struct text_list command;    /* count 0: no program */
    char learned[CONFIG_TEXT_BYTES]; /* "shipped", or a file of rank_net.h; "": not learned */
    struct rank_net net;             /* of that; the owner reads it (definitions_ranking()) */
    uint64_t model_mask;             /* whose offers are ranked: those of the pools it names, or all */
    int64_t every_us, timeout_us;
};

struct config {
    char listen[CONFIG_TEXT_BYTES]; /* host:port, "127.0.0.1:7070" by default; port 0 = any */
    char data[CONFIG_TEXT_BYTES];
    char catalog[CONFIG_TEXT_BYTES]; /* "" = only the shipped one */
    uint32_t pool_count, provider_count, account_count;
    struct config_pool pools[CONFIG_POOLS_MAX];
    struct config_provider providers[CONFIG_PROVIDERS_MAX];
    struct config_account accounts[CONFIG_ACCOUNTS_MAX]; /* a parent before its children */
    struct pool_event classes[JOB_CLASS_END];        /* CLASS_DEFINED; seq and now_us are left 0 */
    struct pool_event matching;                      /* MATCHING_DEFINED, likewise */
    struct pool_event class_gates[JOB_CLASS_END];    /* GATE_DEFINED; kind 0 = none */
    struct pool_event class_buying[JOB_CLASS_END];   /* BUYING_DEFINED */
    uint32_t quota_weight_milli[CATALOG_MODELS_MAX]; /* by model; 1000 if nothing else is said */
    uint64_t quota_cpus;                             /* models of the second kind of quota */
    struct pool_config pool;                         /* limits and timing; incarnation is left 0 */
    uint32_t warning_count; /* of what is accepted, but hardly meant; more are not kept */
    struct error warnings[CONFIG_WARNINGS_MAX];
    struct config_ranking ranking;
    int64_t lease_us; /* how long agents go on without an answer of the server */
};

/* Only the `catalog` key: "" if there is none. Other mistakes are left to config_parse(). */
bool config_peek_catalog(const char *file, const char *text, size_t bytes,
                         char ret_path[CONFIG_TEXT_BYTES], struct error *ret_error) WARN_UNUSED;
/* struct config is large (about 330 KiB): allocate it. On failure its content means nothing. */
bool config_parse(const struct catalog *catalog, const char *file, const char *text, size_t bytes,
                  struct config *ret_config, struct error *ret_error) WARN_UNUSED;

/* config_tenants.c: `tenants` and `quota`. */
void config_read_tenants(const struct catalog *catalog, struct config *config, yaml_item *root);

/* config_gates.c: `gates` of whatever `owner` is; kind 0 if it has none. And the gate that limits
 * nothing, which a class or pool without gates is told. */
void config_read_gates(yaml_item *owner, uint32_t scope, uint32_t index,
                       struct pool_event *ret_event);
void config_no_gate(uint32_t scope, uint32_t index, struct pool_event *ret_event);

/* Where to put the next one; NULL: more are not kept. */
struct error *config_warning(struct config *config);

/* config_buying.c: `buying` of whatever `owner` is; without it, an event that says nothing. */
void config_read_buying(yaml_item *owner, uint32_t scope, uint32_t index,
                        struct pool_event *ret_event);
/* Warns of a threshold above on demand, and of a bid above every list price of these models (0 = all). */
void config_check_prices(const struct catalog *catalog, struct config *config, const char *file,
                         const char *name, uint32_t threshold_ppm, const yaml_item *threshold,
                         uint64_t models, yaml_item *owner, const struct pool_event *buying);

/* config_ranking.c: `ranking`. */
void config_read_ranking(const struct catalog *catalog, struct config *config, yaml_item *root);

/* config_classes.c: `classes`. */
void config_read_classes(const struct catalog *catalog, struct config *config, const char *file,
                         yaml_item *root);

bool config_find_pool(const struct config *config, const char *name, uint32_t *ret_index);
/* NULL if the provider has no such option. */
const char *config_option(const struct config_provider *provider, const char *key);

/* POOL_DEFINED for one pool under number pool_id (0 .. 63); seq and now_us are left 0. */
void config_pool_event(const struct config_pool *entry, uint32_t pool_id,
                       struct pool_event *ret_event);

/* The definition of the pool itself: no quota, no limits; and what a device of a model counts, false
 * if that is nothing special. */
void config_no_account(struct pool_event *ret_event);
bool config_quota_model(const struct config *config, uint32_t model, struct pool_event *ret_event);

/* `path` as seen from the folder of `file`: ("etc/shoal.yaml", "data") -> "etc/data"; absolute
 * paths stay. false if the result does not fit. */
bool config_path(const char *file, const char *path, char *ret_path, size_t bytes) WARN_UNUSED;

#endif
