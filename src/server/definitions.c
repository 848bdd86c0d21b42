#include "server/definitions.h"
#include "base/io.h"
#include "base/mem.h"
#include <string.h>

enum { PATH_BYTES = 4096, CATALOG_BYTES_MAX = 1 << 20 };

struct teller {
    const struct config *config;
    const struct catalog *catalog;
    names *names;
    definition_fn *tell;
    void *arg;
};

bool definitions_catalog(struct catalog *catalog, const char *config_file, const char *text,
                         size_t bytes, struct error *ret_error)
{
    char name[CONFIG_TEXT_BYTES], path[PATH_BYTES], *own = NULL;
    size_t own_bytes = 0;
    if (!catalog_parse_shipped(catalog, ret_error) ||
        !config_peek_catalog(config_file, text, bytes, name, ret_error))
        return false;
    if (name[0] == '\0') return true;
    if (!config_path(config_file, name, path, sizeof path))
        return error_set(ret_error, "%s: the path of the catalog is too long", config_file);
    if (!io_read_file(path, CATALOG_BYTES_MAX, &own, &own_bytes, ret_error)) return false;
    bool parsed = catalog_parse(catalog, path, own, own_bytes, ret_error);
    mem_free(own);
    return parsed;
}

bool definitions_ranking(struct config *config, const char *config_file, struct error *ret_error)
{
    struct config_ranking *ranking = &config->ranking;
    char path[PATH_BYTES], *text;
    size_t bytes;
    if (ranking->learned[0] == '\0') return true;
    if (strcmp(ranking->learned, "shipped") == 0) return rank_net_shipped(&ranking->net, ret_error);
    if (!config_path(config_file, ranking->learned, path, sizeof path))
        return error_set(ret_error, "%s: the path of the learned ranking is too long", config_file);
    if (!io_read_file(path, RANK_NET_BYTES_MAX, &text, &bytes, ret_error)) return false;
    bool good = rank_net_parse(path, text, bytes, &ranking->net, ret_error);
    mem_free(text);
    return good;
}

bool definitions_reserve(const names *n, struct catalog *catalog, struct error *ret_error)
{
    bool fits = true;
    for (uint32_t i = 0; i < names_end(n, NAME_CAPABILITY); i++)
        fits = fits && catalog_reserve_capability(catalog, names_text(n, NAME_CAPABILITY, i));
    for (uint32_t i = 0; i < names_end(n, NAME_MODEL); i++)
        fits = fits && catalog_reserve_model(catalog, names_text(n, NAME_MODEL, i));
    return fits || error_set(ret_error, "the journal has more device models than this program");
}

/* Tenants, projects, teams; the pool's own definition first, which forgets the old ones. */
static const char *tell_accounts(const struct teller *t)
{
    static const enum id_kind kinds[ACCOUNT_LEVELS] = {ID_TENANT, ID_PROJECT, ID_TEAM, ID_USER};
    struct pool_event event;
    config_no_account(&event);
    const char *trouble = t->tell(t->arg, &event);
    for (uint32_t i = 0; trouble == NULL && i < t->catalog->model_count; i++)
        if (config_quota_model(t->config, i, &event)) trouble = t->tell(t->arg, &event);
    for (uint32_t i = 0; trouble == NULL && i < t->config->account_count; i++) {
        const struct config_account *entry = &t->config->accounts[i];
        event = entry->event;
        for (uint32_t level = 0; level < ACCOUNT_LEVELS; level++)
            if (entry->names[level][0] != '\0' &&
                !names_id(t->names, kinds[level], entry->names[level],
                          &event.u.account_defined.names[level]))
                return "too many names of tenants, projects, teams and users in the life of this "
                       "journal";
        trouble = t->tell(t->arg, &event);
        if (trouble != NULL || entry->gate.kind == 0) continue;
        struct pool_event gate = entry->gate;
        memcpy(gate.u.gate_defined.names, event.u.account_defined.names,
               sizeof gate.u.gate_defined.names);
        trouble = t->tell(t->arg, &gate);
    }
    return trouble;
}

/* A gate that went out of the file limits nothing from now on. */
static const char *tell_gate(const struct teller *t, const struct pool_event *given, uint32_t scope,
                             uint32_t index)
{
    struct pool_event event = *given;
    if (event.kind == 0) config_no_gate(scope, index, &event);
    event.u.gate_defined.index = index;
    return t->tell(t->arg, &event);
}

static const char *tell_pools(const struct teller *t)
{
    const char *trouble = NULL;
    for (uint32_t i = 0; trouble == NULL && i < t->config->pool_count; i++) {
        const struct config_pool *entry = &t->config->pools[i];
        struct pool_event event;
        uint32_t id;
        if (!names_id(t->names, ID_POOL, entry->name, &id))
            return "too many pools in the life of this journal";
        config_pool_event(entry, id, &event);
        trouble = t->tell(t->arg, &event);
        if (trouble == NULL) trouble = tell_gate(t, &entry->gate, GATE_OF_POOL, id);
        event = entry->buying;
        event.u.buying_defined.index = id;
        if (trouble == NULL) trouble = t->tell(t->arg, &event);
    }
    return trouble;
}

const char *definitions_tell(const struct config *config, const struct catalog *catalog, names *n,
                             definition_fn *tell, void *arg)
{
    const struct teller t = {config, catalog, n, tell, arg};
    const char *trouble = NULL;
    for (uint32_t i = 0; trouble == NULL && i < catalog->model_count; i++) {
        struct pool_event event;
        if (catalog->models[i].ncu_milli == 0) continue; /* only a number of an older catalog */
        catalog_model_event(catalog, i, &event);
        trouble = tell(arg, &event);
    }
    if (trouble == NULL) trouble = tell_pools(&t);
    for (uint32_t i = 0; trouble == NULL && i < JOB_CLASS_END; i++)
        trouble = tell(arg, &config->classes[i]);
    if (trouble == NULL) trouble = tell(arg, &config->matching);
    for (uint32_t i = 0; trouble == NULL && i < JOB_CLASS_END; i++)
        trouble = tell_gate(&t, &config->class_gates[i], GATE_OF_CLASS, i);
    for (uint32_t i = 0; trouble == NULL && i < JOB_CLASS_END; i++)
        trouble = tell(arg, &config->class_buying[i]);
    return trouble == NULL ? tell_accounts(&t) : trouble;
}
