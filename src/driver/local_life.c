#include "base/log.h"
#include "base/mem.h"
#include "codec/names.h"
#include "driver/local_driver.h"
#include "driver/local_status.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct local_node *local_find(struct local *local, uint64_t key)
{
    for (uint32_t i = local->node_count; i-- > 0;) /* newest first: those are asked about most */
        if (local->nodes[i].key == key) return &local->nodes[i];
    return NULL;
}

static struct local_node *add(struct local *local, const struct local_node *node)
{
    if (local->node_count == local->node_room) {
        uint32_t room = local->node_room == 0 ? 64 : 2 * local->node_room;
        struct local_node *nodes = mem_realloc(local->nodes, room * sizeof *nodes);
        if (nodes == NULL) return NULL;
        local->nodes = nodes;
        local->node_room = room;
    }
    local->nodes[local->node_count] = *node;
    return &local->nodes[local->node_count++];
}

/* Records the node's new state and has it answered; a failure leaves the answer out. */
static bool keep(struct local *local, struct local_node *node)
{
    struct error error;
    bool written = local_node_write(node, local->nodes_dir, &error);
    if (!written)
        log_line(LOG_ERROR, "driver", "emulated cloud cannot record a node, not answering", "%s",
                 error.text);
    node->answer_due = written;
    return written;
}

/* A new key: on disk first, then in memory. */
static void keep_new(struct local *local, const struct local_node *node)
{
    struct local_node *kept = add(local, node);
    if (kept == NULL) {
        log_line(LOG_ERROR, "driver", "out of memory, a node is not answered", "node=%" PRIu64,
                 node->key);
        return;
    }
    if (!keep(local, kept)) local->node_count--; /* it was never asked for */
}

void local_node_dir(const struct local *local, const struct local_node *node,
                    char ret_dir[LOCAL_PATH_BYTES])
{
    (void)snprintf(ret_dir, LOCAL_PATH_BYTES, "%.900s/machines/%" PRIu64, local->dir, node->key);
}

static int64_t boot_us(const struct local *local, uint32_t offer_index, uint32_t serial)
{
    const struct local_scenario *s = local->world.scenario;
    const struct local_zone *zone = &s->zones[s->offers[offer_index].zone_index];
    double u = local_draw(s->seed, LOCAL_DRAW_BOOT, offer_index, serial);
    return zone->boot_min_us + (int64_t)(u * (double)(zone->boot_max_us - zone->boot_min_us));
}

static bool is_outbid(struct local *local, uint32_t offer_index, int64_t bid_usd_micros,
                      int64_t now_us)
{
    int64_t tick = local_world_tick(&local->world, now_us);
    return bid_usd_micros != 0 &&
           local_world_price(&local->world, offer_index, tick) > bid_usd_micros;
}

void local_life_ensure(struct local *local, uint64_t key, int32_t offer_index,
                       int64_t bid_usd_micros, int64_t now_us)
{
    struct local_node *known = local_find(local, key);
    if (known != NULL) {
        known->answer_due = true;
        return;
    }
    struct local_node node = {
        .key = key,
        .offer_index = offer_index < 0 ? UINT32_MAX : (uint32_t)offer_index,
        .phase = NODE_PHASE_REFUSED,
        .reason = NODE_REASON_ERROR,
        .asked_us = now_us,
        .preempt_us = INT64_MAX,
        .bid_usd_micros = bid_usd_micros,
    };
    if (local->node_count >= LOCAL_NODES_MAX)
        node.reason = NODE_REASON_QUOTA;
    else if (offer_index >= 0) {
        if (local_offers_stock(local, node.offer_index, now_us) == 0 ||
            is_outbid(local, node.offer_index, bid_usd_micros, now_us))
            node.reason = NODE_REASON_STOCKOUT;
        else {
            node.phase = NODE_PHASE_PENDING;
            node.reason = NODE_REASON_NONE;
            node.serial = local->serials[offer_index]++;
            node.boot_at_us = now_us + boot_us(local, node.offer_index, node.serial);
            node.machine.mark = local_machine_new_mark();
        }
    }
    keep_new(local, &node);
}

void local_life_release(struct local *local, uint64_t key, int64_t now_us, int64_t kill_us)
{
    struct local_node *node = local_find(local, key);
    if (node == NULL) {
        keep_new(local, &(struct local_node){.key = key,
                                             .offer_index = UINT32_MAX,
                                             .phase = NODE_PHASE_ABSENT,
                                             .reason = NODE_REASON_RELEASED,
                                             .asked_us = now_us,
                                             .preempt_us = INT64_MAX});
        return;
    }
    node->answer_due = true;
    if (node->phase == NODE_PHASE_PENDING) {
        node->phase = NODE_PHASE_ABSENT;
        node->reason = NODE_REASON_RELEASED;
        (void)keep(local, node); /* logged; not answered, so it is asked again */
    } else if (node->phase == NODE_PHASE_UP && (node->kill_us == 0 || kill_us < node->kill_us)) {
        node->kill_us = kill_us;
        local_machine_signal_agent(&node->machine, SIGTERM);
    }
}

void local_life_preempt(struct local *local, struct local_node *node, int64_t now_us,
                        int64_t notice_us, bool scripted)
{
    node->preempt_us = now_us + notice_us;
    node->notice_us = notice_us;
    node->scripted = scripted;
    (void)keep(local, node); /* logged; a restarted server may find the old plan */
}

void local_life_dying(struct local_node *node, uint32_t reason)
{
    node->dying_reason = reason;
    (void)local_machine_signal_all(&node->machine, SIGKILL); /* until none is left: life_tick */
}

/* ---- one node, one tick ---- */

static void plan_loss(struct local *local, struct local_node *node)
{
    const struct local_scenario *s = local->world.scenario;
    const struct local_offer *offer = &s->offers[node->offer_index];
    node->preempt_us = INT64_MAX;
    node->notice_us = s->zones[offer->zone_index].notice_us;
    if (offer->capacity != CAPACITY_SPOT || s->preemptions.mean_life_us == 0) return;
    if (local_world_is_replayed(&local->world, node->offer_index)) return;
    double u = local_draw(s->seed, LOCAL_DRAW_LIFE, node->offer_index, node->serial);
    node->preempt_us =
        node->up_us + local_weibull_us(s->preemptions.mean_life_us, s->preemptions.life_shape, u);
    u = local_draw(s->seed, LOCAL_DRAW_NOTICE, node->offer_index, node->serial);
    if (u < s->preemptions.without_notice_share) node->notice_us = 0;
}

static void come_up(struct local *local, struct local_node *node, int64_t now_us)
{
    node->phase = NODE_PHASE_UP;
    node->up_us = node->billed_to_us = now_us;
    plan_loss(local, node);
    if (local->world.first_up_us == 0) {
        local->world.first_up_us = now_us;
        struct error error;
        if (!local_world_write(&local->world, &error))
            log_line(LOG_WARN, "driver", "the start of the script is not recorded", "%s",
                     error.text);
    }
    (void)keep(local, node); /* logged; the mark is on disk, so a restart finds the machine */
    local_history_node(local, LOCAL_FACT_UP, node, now_us);
}

static void boot(struct local *local, struct local_node *node, int64_t now_us)
{
    const struct local_scenario *s = local->world.scenario;
    const struct local_offer *offer = &s->offers[node->offer_index];
    const struct driver_model *model = &local->models[node->offer_index];
    int64_t slot_us = 0;
    if (model->ncu_milli > 0)
        slot_us = s->slot_us_at_1_ncu * 1000 / model->ncu_milli / (int64_t)offer->device_count;
    char dir[LOCAL_PATH_BYTES];
    local_node_dir(local, node, dir);
    const struct local_machine_plan plan = {
        .program = local->program,
        .server_url = local->server_url,
        .server_file = local->server_file,
        .agent_token_file = local->agent_token_file,
        .dir = dir,
        .model = offer->model,
        .zone = s->zones[offer->zone_index].name,
        .node_key = node->key,
        .device_count = offer->device_count,
        .vram_mib = model->vram_mib,
        .slot_us = slot_us,
    };
    struct error error;
    if (local_machine_start(&node->machine, &plan, &error)) {
        come_up(local, node, now_us);
        return;
    }
    log_line(LOG_ERROR, "driver", "emulated machine does not boot", "node=%" PRIu64 " %s",
             node->key, error.text);
    node->phase = NODE_PHASE_REFUSED;
    node->reason = NODE_REASON_ERROR;
    (void)keep(local, node); /* logged; not answered, so it is asked again */
}

static void end(struct local *local, struct local_node *node, int64_t now_us)
{
    const struct local_preemptions *p = &local->world.scenario->preemptions;
    local_world_bill(&local->world, node, now_us);
    node->phase = NODE_PHASE_GONE;
    node->reason = node->dying_reason;
    node->gone_us = now_us;
    if (node->reason == NODE_REASON_PREEMPTED && p->mean_outage_us > 0 &&
        !local_world_is_replayed(&local->world, node->offer_index)) {
        double u = local_draw(local->world.scenario->seed, LOCAL_DRAW_OUTAGE, node->offer_index,
                              node->serial);
        node->place_back_us = now_us + local_weibull_us(p->mean_outage_us, p->outage_shape, u);
    }
    if (node->killed_during_reduce) {
        char dir[LOCAL_PATH_BYTES];
        local_node_dir(local, node, dir);
        node->died_in_reduce = local_status_any(dir, "reduce");
    }
    (void)keep(local, node); /* logged; the next server finds it dead and bills it to then */
    local_history_node(local, LOCAL_FACT_GONE, node, now_us);
}

static void live(struct local *local, struct local_node *node, int64_t now_us, bool look)
{
    if (node->dying_reason != NODE_REASON_NONE) {
        if (local_machine_signal_all(&node->machine, SIGKILL) == 0) end(local, node, now_us);
        return;
    }
    bool released = node->kill_us != 0;
    int64_t notice_us =
        local->world.scenario->zones[local->world.scenario->offers[node->offer_index].zone_index]
            .notice_us;
    if (node->preempt_us > now_us + notice_us &&
        is_outbid(local, node->offer_index, node->bid_usd_micros, now_us))
        local_life_preempt(local, node, now_us, notice_us, /* scripted */ false);
    if (now_us >= node->preempt_us)
        local_life_dying(node, NODE_REASON_PREEMPTED);
    else if (released && now_us >= node->kill_us)
        local_life_dying(node, NODE_REASON_RELEASED);
    else if ((look || released) && !local_machine_agent_alive(&node->machine))
        local_life_dying(node, released ? NODE_REASON_RELEASED : NODE_REASON_CRASHED);
    else if (node->notice_us > 0 && !node->noticed && node->preempt_us != INT64_MAX &&
             now_us >= node->preempt_us - node->notice_us) {
        node->noticed = true;
        node->answer_due = true;
        local_history_node(local, LOCAL_FACT_NOTICE, node, now_us);
    }
}

static void answer(struct local *local, struct local_node *node, int64_t now_us)
{
    node->answer_due = false;
    bool up = node->phase == NODE_PHASE_UP;
    if (up) local_world_bill(&local->world, node, now_us);
    const struct driver_node observed = {
        .node_key = node->key,
        .phase = node->phase,
        .reason = node->reason,
        .notice_us = up && node->noticed ? node->preempt_us : 0,
        .up_since_us = node->up_us,
        .billed_usd_micros = node->billed_usd_micros,
    };
    local->host.node_observed(local->host.self, &observed);
}

/* Nodes above what the trace says could be held: the youngest go first. */
static void follow_trace(struct local *local, uint32_t offer_index, int64_t now_us)
{
    const struct local_scenario *s = local->world.scenario;
    uint32_t capacity = local_world_capacity(&local->world, offer_index, now_us), held = 0;
    for (uint32_t i = 0; i < local->node_count; i++) {
        struct local_node *node = &local->nodes[i];
        if (node->offer_index != offer_index || node->phase != NODE_PHASE_UP) continue;
        if (node->preempt_us != INT64_MAX || node->dying_reason != NODE_REASON_NONE) continue;
        if (++held <= capacity) continue;
        local_life_preempt(local, node, now_us,
                           s->zones[s->offers[offer_index].zone_index].notice_us,
                           /* scripted */ false);
    }
}

void local_life_tick(struct local *local, int64_t now_us)
{
    bool look = now_us - local->looked_us >= LOCAL_LIVENESS_US || now_us < local->looked_us;
    if (look) local->looked_us = now_us;
    for (uint32_t i = 0; i < local->world.scenario->offer_count; i++)
        if (local_world_is_replayed(&local->world, i)) follow_trace(local, i, now_us);
    for (uint32_t i = 0; i < local->node_count; i++) {
        struct local_node *node = &local->nodes[i];
        if (node->phase == NODE_PHASE_PENDING && now_us >= node->boot_at_us && !local->closing)
            boot(local, node, now_us);
        else if (node->phase == NODE_PHASE_UP)
            live(local, node, now_us, look);
        if (node->answer_due && !local->closing) answer(local, node, now_us);
    }
}

/* ---- what an earlier server left ---- */

static void resume(struct local *local, struct local_node *node, int64_t now_us)
{
    if (node->offer_index < LOCAL_OFFERS_MAX && node->serial >= local->serials[node->offer_index])
        local->serials[node->offer_index] = node->serial + 1;
    if (node->phase == NODE_PHASE_PENDING && node->machine.pid == 0 &&
        local_machine_adopt(&node->machine)) {
        log_line(LOG_INFO, "driver", "found an emulated machine that was not recorded as up",
                 "node=%" PRIu64, node->key);
        come_up(local, node, now_us);
    }
    /* A running meter was not written down: it starts over from up_us and gives the same. */
    if (node->phase == NODE_PHASE_UP) {
        node->billed_usd_micros = node->billed_rest = 0;
        node->billed_to_us = node->up_us;
    }
}

bool local_life_load(struct local *local, int64_t now_us, struct error *ret_error)
{
    DIR *dir = opendir(local->nodes_dir);
    if (dir == NULL)
        return error_set(ret_error, "%s: cannot read the folder: %s", local->nodes_dir,
                         error_errno(errno));
    bool good = true;
    for (struct dirent *entry; good && (entry = readdir(dir)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot == NULL || dot == entry->d_name || strcmp(dot, ".json") != 0) continue;
        char path[LOCAL_PATH_BYTES + 300];
        (void)snprintf(path, sizeof path, "%s/%s", local->nodes_dir, entry->d_name);
        struct local_node node;
        good = local_node_read(path, &node, ret_error);
        if (good && node.offer_index != UINT32_MAX &&
            node.offer_index >= local->world.scenario->offer_count)
            good = error_set(ret_error, "%s: of an offer that the scenario does not have", path);
        if (!good) break;
        resume(local, &node, now_us);
        if (add(local, &node) == NULL)
            good = error_set(ret_error, "%s: out of memory", local->nodes_dir);
    }
    (void)closedir(dir); /* read only */
    return good;
}
