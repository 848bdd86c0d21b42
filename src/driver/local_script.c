#include "base/log.h"
#include "driver/local_driver.h"
#include "driver/local_status.h"
#include <string.h>

static bool is_target(const struct local *local, const struct local_event *event,
                      const struct local_node *node, int64_t now_us)
{
    const struct local_scenario *s = local->world.scenario;
    if (node->phase != NODE_PHASE_UP || node->dying_reason != NODE_REASON_NONE) return false;
    if (node->kill_us != 0 || node->noticed || node->preempt_us <= now_us) return false;
    const struct local_offer *offer = &s->offers[node->offer_index];
    if (offer->capacity != CAPACITY_SPOT) return false; /* clouds take back nothing else */
    if (event->zone[0] != '\0' && strcmp(event->zone, s->zones[offer->zone_index].name) != 0)
        return false;
    return event->model[0] == '\0' || strcmp(event->model, offer->model) == 0;
}

/* A worker runs there, or it has been up long enough that none will come soon. */
static bool is_settled(const struct local *local, const struct local_node *node, int64_t now_us)
{
    char dir[LOCAL_PATH_BYTES];
    local_node_dir(local, node, dir);
    return now_us - node->up_us >= LOCAL_SETTLED_US || local_status_exists(dir);
}

/* The one that has been up for longest: it most likely has work. */
static struct local_node *pick(struct local *local, const struct local_event *event, int64_t now_us)
{
    struct local_node *best = NULL;
    for (uint32_t i = 0; i < local->node_count; i++) {
        struct local_node *node = &local->nodes[i];
        if (!is_target(local, event, node, now_us) || !is_settled(local, node, now_us)) continue;
        if (best == NULL || node->up_us < best->up_us) best = node;
    }
    return best;
}

/* One attempt at every machine it could be; true when one died in that phase. */
static bool strike_during_reduce(struct local *local, const struct local_event *event,
                                 int64_t now_us)
{
    for (uint32_t i = 0; i < local->node_count; i++) {
        struct local_node *node = &local->nodes[i];
        char dir[LOCAL_PATH_BYTES];
        if (!is_target(local, event, node, now_us)) continue;
        local_node_dir(local, node, dir);
        if (!local_machine_kill_during_reduce(&node->machine, dir)) continue;
        local_life_preempt(local, node, now_us, /* notice_us */ 0, /* scripted */ true);
        node->killed_during_reduce = true;
        local_life_dying(node, NODE_REASON_PREEMPTED);
        return true;
    }
    return false;
}

/* Takes what it can now; true when all are taken. */
static bool preempt(struct local *local, uint32_t index, int64_t now_us)
{
    const struct local_event *event = &local->world.scenario->events[index];
    while (local->taken[index] < event->count) {
        if (event->during_reduce) {
            if (!strike_during_reduce(local, event, now_us)) break;
        } else {
            struct local_node *node = pick(local, event, now_us);
            if (node == NULL) break;
            local_life_preempt(local, node, now_us, event->notice_us, /* scripted */ true);
        }
        local->taken[index]++;
    }
    return local->taken[index] == event->count;
}

void local_script_tick(struct local *local, int64_t now_us)
{
    local->armed = false;
    for (uint32_t i = 0; i < local->world.scenario->event_count; i++) {
        const struct local_event *event = &local->world.scenario->events[i];
        bool due = local_world_is_due(&local->world, i, now_us) ||
                   (local->step_reached[i] && local->world.fired_us[i] == 0);
        if (!due) continue;
        if (event->kind == LOCAL_EVENT_PREEMPT && !preempt(local, i, now_us)) {
            local->armed |= event->during_reduce;
            continue; /* no such node yet, or not in that phase: the event stays due */
        }
        local->world.fired_us[i] = now_us;
        struct error error;
        if (!local_world_write(&local->world, &error))
            log_line(LOG_WARN, "driver", "a script event is not recorded, it may repeat", "%s",
                     error.text);
        local_history_event(local, i, now_us);
    }
}

void local_script_step(struct local *local, uint64_t step)
{
    for (uint32_t i = 0; i < local->world.scenario->event_count; i++) {
        const struct local_event *event = &local->world.scenario->events[i];
        if (event->at_us < 0 && step >= event->at_step) local->step_reached[i] = true;
    }
}
