#include "server/open.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/assert.h"
#include "server/definitions.h"
#include "server/lock.h"
#include "server/restore.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 1 << 20 };

/* Configuration. */

static bool read_text(struct server *s, const char *file, char **ret_text, size_t *ret_bytes,
                      struct error *ret_error)
{
    bool is_default = file == NULL;
    if (is_default) file = "shoal.yaml";
    (void)snprintf(s->config_file, sizeof s->config_file, "%s", file); /* argv is shorter */
    if (is_default && access(file, F_OK) != 0) {
        *ret_text = mem_strdup("{}");
        *ret_bytes = 2;
        return *ret_text != NULL || error_set(ret_error, "out of memory");
    }
    return io_read_file(file, CONFIG_BYTES_MAX, ret_text, ret_bytes, ret_error);
}

static bool make_dir(struct server *s, const struct server_options *options,
                     struct error *ret_error)
{
    char path[SERVER_PATH_BYTES];
    if (options->data_dir != NULL)
        (void)snprintf(path, sizeof path, "%s", options->data_dir); /* argv is shorter */
    else if (!config_path(s->config_file, s->config->data, path, sizeof path))
        return error_set(ret_error, "%s: the path of the data folder is too long", s->config_file);
    if (!io_make_dirs(path, ret_error)) return false;
    return realpath(path, s->dir) != NULL ||
           error_set(ret_error, "%s: cannot find the data folder just made", path);
}

static bool keep_numbers(struct server *s, struct error *ret_error)
{
    uint32_t id = 0;
    for (uint32_t i = 0; i < s->catalog->capability_count; i++)
        if (!names_id(s->names, NAME_CAPABILITY, s->catalog->capabilities[i], &id) || id != i)
            return error_set(ret_error, "catalog: capability \"%s\" finds no number",
                             s->catalog->capabilities[i]);
    for (uint32_t i = 0; i < s->catalog->model_count; i++)
        if (!names_id(s->names, NAME_MODEL, s->catalog->models[i].name, &id) || id != i)
            return error_set(ret_error, "catalog: device model \"%s\" finds no number",
                             s->catalog->models[i].name);
    return true;
}

/* The data folder is named in the file and the journal in it decides the numbers of the catalog,
 * so the file is read twice: first with a catalog of its own order, only for where and what. */
static bool parse_config(struct server *s, const char *text, size_t bytes, struct error *ret_error)
{
    memset(s->catalog, 0, sizeof *s->catalog);
    if (s->names != NULL && !definitions_reserve(s->names, s->catalog, ret_error)) return false;
    return definitions_catalog(s->catalog, s->config_file, text, bytes, ret_error) &&
           config_parse(s->catalog, s->config_file, text, bytes, s->config, ret_error) &&
           definitions_ranking(s->config, s->config_file, ret_error);
}

static void tell_warnings(const struct config *config)
{
    for (uint32_t i = 0; i < config->warning_count; i++)
        log_line(LOG_WARN, "config", config->warnings[i].text, "%s", "");
}

/* The journal and what is loaded from it. */

static bool open_journal(struct server *s, const struct server_options *options,
                         struct error *ret_error)
{
    char path[SERVER_PATH_BYTES + 16];
    (void)snprintf(path, sizeof path, "%s/journal.db", s->dir); /* fits by its size */
    const struct journal_options wanted = {.path = path, .bytes_max = options->journal_bytes_max};
    s->journal = journal_open(&wanted, ret_error);
    if (s->journal == NULL) return false;
    s->names = names_open();
    if (s->names == NULL) return error_set(ret_error, "out of memory");
    return names_load(s->names, s->journal, ret_error);
}

static bool open_pool(struct server *s, struct error *ret_error)
{
    struct restored restored;
    const struct restore_options options = {
        .journal = s->journal, .config = &s->config->pool, .host = s, .replayed = server_replayed};
    jobs_init(&s->jobs, s->catalog, s->journal);
    if (!offers_load(&s->offers, s->names)) return error_set(ret_error, "out of memory");
    if (!jobs_load(&s->jobs, ret_error)) return false;
    if (!restore_pool(&options, &restored, ret_error)) return false;
    s->pool = restored.pool;
    s->pool_memory = restored.memory;
    s->events_replayed = restored.events_replayed;
    if (restored.snapshots_rejected > 0)
        log_line(LOG_WARN, "server", "a damaged snapshot was passed over for an older one",
                 "snapshots=%" PRIu32 " events_replayed=%" PRIu64, restored.snapshots_rejected,
                 restored.events_replayed);
    if (restored.is_reconfigured)
        log_line(LOG_INFO, "server", "limits or timing have changed; the journal begins again here",
                 "seq=%" PRIu64, pool_last_seq(s->pool));
    return true;
}

static const char *push_definition(void *arg, const struct pool_event *event)
{
    return pump_push(arg, event);
}

/* What the core must hear first: that it was away, and what the files say now. */
static bool push_definitions(struct server *s, struct error *ret_error)
{
    const struct pool_event event = {.kind = POOL_EVENT_RESTARTED};
    const char *trouble = pump_seq(s->pump) > 0 ? pump_push(s->pump, &event) : NULL;
    if (trouble == NULL)
        trouble = definitions_tell(s->config, s->catalog, s->names, push_definition, s->pump);
    if (trouble == NULL) trouble = ranking_begin(&s->ranking, s);
    return trouble == NULL || error_set(ret_error, "%s: %s", s->config_file, trouble);
}

/* The running parts. */

/* Connections of agents need descriptors; what the system allows is taken. */
static void raise_files_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* without it: fewer connections */
}

static bool open_shells(struct server *s, const struct server_options *options,
                        struct error *ret_error)
{
    const struct pump_options pump_wanted = {.loop = &s->loop,
                                             .journal = s->journal,
                                             .names = s->names,
                                             .pool = s->pool,
                                             .host = s,
                                             .stepped = server_stepped};
    const struct http_options http_wanted = {.loop = &s->loop,
                                             .listen = options->listen != NULL ? options->listen
                                                                               : s->config->listen,
                                             .allow_remote = options->allow_remote,
                                             .auth = &s->auth,
                                             .handle = api_handle,
                                             .host = s};
    raise_files_limit();
    s->pump = pump_open(&pump_wanted, ret_error);
    if (s->pump == NULL) return false;
    s->stream = stream_open(&s->loop, ret_error);
    if (s->stream == NULL) return false;
    s->http = http_open(&http_wanted, ret_error);
    return s->http != NULL && push_definitions(s, ret_error);
}

static bool open_providers(struct server *s, struct error *ret_error)
{
    const struct providers_options options = {.config = s->config,
                                              .catalog = s->catalog,
                                              .config_file = s->config_file,
                                              .data_dir = s->dir,
                                              .server_url = http_url(s->http),
                                              .loop = &s->loop,
                                              .server = s,
                                              .offer_changed = server_offer_changed,
                                              .node_observed = server_node_observed};
    if (!providers_open(&s->providers, &options, ret_error)) return false;
    providers_observe_all(&s->providers);
    ranking_open(&s->ranking);
    return true;
}

static bool open_with_text(struct server *s, const struct server_options *options, const char *text,
                           size_t bytes, struct error *ret_error)
{
    if (!parse_config(s, text, bytes, ret_error) || !make_dir(s, options, ret_error)) return false;
    s->lock_fd = lock_take(s->dir, ret_error);
    if (s->lock_fd < 0) return false;
    int64_t began_us = clock_monotonic_us();
    if (!auth_load(s->dir, &s->auth, ret_error) || !open_journal(s, options, ret_error) ||
        !parse_config(s, text, bytes, ret_error) || !keep_numbers(s, ret_error) ||
        !open_pool(s, ret_error))
        return false;
    s->restart_us = clock_monotonic_us() - began_us;
    tell_warnings(s->config);
    return open_shells(s, options, ret_error) && open_providers(s, ret_error) &&
           lock_write_server(s->dir, http_url(s->http), ret_error);
}

bool server_open(struct server *s, const struct server_options *options, struct error *ret_error)
{
    char *text = NULL;
    size_t bytes = 0;
    s->lock_fd = -1;
    s->started_us = clock_monotonic_us();
    offers_init(&s->offers);
    agents_init(&s->agents);
    leases_init(&s->leases);
    lives_init(&s->lives);
    stalls_init(&s->stalls);
    jobs_init(&s->jobs, NULL, NULL); /* again when the journal is open */
    s->config = mem_zalloc(1, sizeof *s->config);
    s->catalog = mem_zalloc(1, sizeof *s->catalog);
    bool opened = s->config != NULL && s->catalog != NULL;
    if (!opened) (void)error_set(ret_error, "out of memory");
    opened = opened && read_text(s, options->config_file, &text, &bytes, ret_error) &&
             open_with_text(s, options, text, bytes, ret_error);
    mem_free(text);
    return opened;
}

void server_free(struct server *s)
{
    jobs_free(&s->jobs);
    stalls_free(&s->stalls);
    lives_free(&s->lives);
    leases_free(&s->leases);
    agents_free(&s->agents);
    offers_free(&s->offers);
    mem_free(s->pool_memory);
    names_close(s->names);
    journal_close(s->journal);
    lock_release(s->lock_fd);
    mem_free(s->catalog);
    mem_free(s->config);
}
