#include "driver/local.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "driver/local_driver.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct local *self_of(struct driver *d)
{
    return (struct local *)d; /* struct driver is the first member */
}

static bool copy_text(char **ret_copy, const char *text)
{
    if (text == NULL) return true;
    *ret_copy = mem_strdup(text);
    return *ret_copy != NULL;
}

static bool make_folders(struct local *local, const struct driver_options *options,
                         struct error *ret_error)
{
    char dir[LOCAL_PATH_BYTES];
    int length = snprintf(dir, sizeof dir, "%s/%s", options->data_dir, options->provider);
    if (length < 0 || length > 800)
        return error_set(ret_error, "%s: the path of the data folder is too long",
                         options->data_dir);
    if (!io_make_dirs(dir, ret_error)) return false;
    char *real = realpath(dir, NULL); /* agents run elsewhere: absolute from here on */
    if (real == NULL || strlen(real) > 800) {
        free(real);
        return error_set(ret_error, "%s: cannot resolve: %s", dir, error_errno(errno));
    }
    (void)snprintf(local->dir, sizeof local->dir, "%s", real);
    free(real);
    (void)snprintf(local->nodes_dir, sizeof local->nodes_dir, "%.900s/nodes", local->dir);
    (void)snprintf(local->history_file, sizeof local->history_file, "%.900s/history.jsonl",
                   local->dir);
    const char *slash = strrchr(local->dir, '/'); /* the data folder is the one above */
    (void)snprintf(local->server_file, sizeof local->server_file, "%.*s/server.json",
                   (int)(slash - local->dir), local->dir);
    return io_make_dirs(local->nodes_dir, ret_error);
}

static bool copy_models(struct local *local, const struct driver_options *options,
                        struct error *ret_error)
{
    const struct local_scenario *s = local->world.scenario;
    for (uint32_t i = 0; i < s->offer_count; i++) {
        uint32_t m = 0;
        while (m < options->model_count && strcmp(options->models[m].name, s->offers[i].model) != 0)
            m++;
        if (m == options->model_count)
            return error_set(ret_error,
                             "%s: offers[%u]: the catalog has no model \"%s\"; add it to the "
                             "catalog or correct the name",
                             options->scenario_file, i, s->offers[i].model);
        local->models[i] = options->models[m];
        local->models[i].name = NULL; /* borrowed from options; not needed */
    }
    return true;
}

static bool any_is_live(const struct local *local)
{
    for (uint32_t i = 0; i < local->node_count; i++)
        if (!local_node_is_over(&local->nodes[i])) return true;
    return false;
}

/* Records of another scenario: offer numbers mean other things, so only used-up keys matter, and
 * those are safe to keep forgotten only if nothing runs. */
static bool open_world(struct local *local, const struct driver_options *options,
                       struct error *ret_error)
{
    bool is_other;
    int64_t now_us = clock_wall_us();
    if (!local_world_open(&local->world, options->scenario_file, local->dir, now_us, &is_other,
                          ret_error))
        return false;
    if (is_other)
        return error_set(ret_error,
                         "%s: holds the emulated clouds of another scenario than %s; remove the "
                         "folder, use another `data`, or restore the scenario",
                         local->dir, options->scenario_file);
    if (!copy_models(local, options, ret_error)) return false;
    return local_world_write(&local->world, ret_error) && local_life_load(local, now_us, ret_error);
}

static void free_local(struct local *local)
{
    local_world_close(&local->world);
    mem_free(local->server_url);
    mem_free(local->agent_token_file);
    mem_free(local->program);
    mem_free(local->nodes);
    mem_free(local->unknown);
    mem_free(local);
}

static void after_close(uv_handle_t *handle)
{
    struct local *local = handle->data;
    driver_closed_fn *closed = local->closed;
    void *self = local->closed_self;
    free_local(local);
    closed(self);
}

static void answer_unknown(struct local *local)
{
    for (uint32_t i = 0; i < local->unknown_count; i++) {
        const struct driver_node absent = {
            .node_key = local->unknown[i], .phase = NODE_PHASE_ABSENT, .billed_usd_micros = -1};
        local->host.node_observed(local->host.self, &absent);
    }
    local->unknown_count = 0;
}

static void tick_closing(struct local *local, int64_t now_us)
{
    local_life_tick(local, now_us);
    if (any_is_live(local) && clock_monotonic_us() < local->close_by_us) return;
    uv_close((uv_handle_t *)&local->timer, after_close);
}

static void local_tick(uv_timer_t *timer)
{
    struct local *local = timer->data;
    int64_t now_us = clock_wall_us();
    if (local->closing) {
        tick_closing(local, now_us);
        return;
    }
    local_script_tick(local, now_us);
    local_offers_tick(local, now_us);
    local_life_tick(local, now_us);
    answer_unknown(local);
    uv_timer_set_repeat(timer, local->armed ? LOCAL_ARMED_TICK_MS : LOCAL_TICK_MS);
}

/* Something is to be told: at the loop's next turn, not inside the call. */
static void wake(struct local *local)
{
    (void)uv_timer_start(&local->timer, local_tick, 0, LOCAL_TICK_MS); /* a callback is given */
}

static struct driver *local_open(const struct driver_options *options, struct error *ret_error)
{
    if (options->scenario_file == NULL) {
        (void)error_set(ret_error, "driver local needs `scenario: FILE`");
        return NULL;
    }
    struct local *local = mem_zalloc(1, sizeof *local);
    if (local == NULL) {
        (void)error_set(ret_error, "out of memory");
        return NULL;
    }
    local->driver.ops = &driver_local_ops;
    local->host = options->host;
    local->loop = options->loop;
    if (!copy_text(&local->server_url, options->server_url) ||
        !copy_text(&local->agent_token_file, options->agent_token_file) ||
        !copy_text(&local->program, options->program)) {
        (void)error_set(ret_error, "out of memory");
        goto fail;
    }
    if (!make_folders(local, options, ret_error) || !open_world(local, options, ret_error))
        goto fail;
    (void)uv_timer_init(local->loop, &local->timer); /* always 0 */
    local->timer.data = local;
    wake(local);
    return &local->driver;
fail:
    free_local(local);
    return NULL;
}

static void local_ensure(struct driver *d, uint64_t node_key, const struct driver_offer_name *offer,
                         int64_t bid_usd_micros)
{
    struct local *local = self_of(d);
    local_life_ensure(local, node_key, local_scenario_find(local->world.scenario, offer),
                      bid_usd_micros, clock_wall_us());
    wake(local);
}

static void local_release(struct driver *d, uint64_t node_key)
{
    struct local *local = self_of(d);
    int64_t now_us = clock_wall_us();
    local_life_release(local, node_key, now_us, now_us + LOCAL_RELEASE_US);
    wake(local);
}

static void local_observe(struct driver *d, uint64_t node_key)
{
    struct local *local = self_of(d);
    struct local_node *node = local_find(local, node_key);
    wake(local);
    if (node != NULL) {
        node->answer_due = true;
        return;
    }
    if (local->unknown_count == local->unknown_room) {
        uint32_t room = local->unknown_room == 0 ? 16 : 2 * local->unknown_room;
        uint64_t *keys = mem_realloc(local->unknown, room * sizeof *keys);
        if (keys == NULL) return; /* no answer: the core asks again */
        local->unknown = keys;
        local->unknown_room = room;
    }
    local->unknown[local->unknown_count++] = node_key;
}

static void local_observe_all(struct driver *d)
{
    struct local *local = self_of(d);
    for (uint32_t i = 0; i < local->node_count; i++)
        if (!local_node_is_over(&local->nodes[i])) local->nodes[i].answer_due = true;
    memset(local->told, 0, sizeof local->told);
    wake(local);
}

static void local_step_committed(struct driver *d, uint64_t job_id, uint64_t step)
{
    (void)job_id; /* a script does not know the numbers of jobs: the first to get there counts */
    local_script_step(self_of(d), step);
}

static void local_close(struct driver *d, bool release_nodes, driver_closed_fn *closed, void *self)
{
    struct local *local = self_of(d);
    local->closed = closed;
    local->closed_self = self;
    local->closing = true;
    local->close_by_us = clock_monotonic_us() + DRIVER_CLOSE_MS_MAX * INT64_C(1000);
    if (!release_nodes) {
        uv_close((uv_handle_t *)&local->timer, after_close);
        return;
    }
    int64_t now_us = clock_wall_us();
    for (uint32_t i = 0; i < local->node_count; i++)
        if (!local_node_is_over(&local->nodes[i]))
            local_life_release(local, local->nodes[i].key, now_us, now_us + LOCAL_CLOSE_US);
    wake(local);
}

const struct driver_ops driver_local_ops = {
    .kind = "local",
    .open = local_open,
    .ensure = local_ensure,
    .release = local_release,
    .observe = local_observe,
    .observe_all = local_observe_all,
    .step_committed = local_step_committed,
    .close = local_close,
};
