/* What follows from a step: commands to drivers, news to listeners. And the way back: what drivers
 * say becomes events. */
#include "base/log.h"
#include "server/open.h"
#include <inttypes.h>

/* A refusal is remembered for the answer to the submission, also when the core keeps no row. */
static void note_refusal(struct server *s, const struct pool_decision *decision)
{
    struct job_info *info = jobs_find(&s->jobs, decision->job_id);
    if (decision->kind != DECISION_REFUSE || info == NULL) return;
    info->is_refused = true;
    info->refused_reason = decision->reason;
    info->refused_numbers[0] = decision->a;
    info->refused_numbers[1] = decision->b;
    info->refused_numbers[2] = decision->c;
}

static void tell_listeners(struct server *s, const struct pool_event *event,
                           const struct pool_output *out)
{
    if (!stream_has_clients(s->stream)) return;
    struct view_names view_names = server_view_names(s);
    for (uint32_t i = 0; i < out->decision_count; i++)
        stream_send(s->stream, "decision",
                    decision_json(&view_names, &out->decisions[i], event->now_us));
    for (uint32_t i = 0; i < out->entry_count; i++)
        stream_send(s->stream, "entry", entry_json(&view_names, &out->entries[i]));
}

/* Worker commands are not sent: every report of an agent is answered with what its leases want. */
static void run_commands(struct server *s, const struct pool_output *out)
{
    for (uint32_t i = 0; i < out->command_count; i++) {
        const struct pool_command *command = &out->commands[i];
        bool for_node = command->kind == POOL_COMMAND_ENSURE_NODE ||
                        command->kind == POOL_COMMAND_RELEASE_NODE ||
                        command->kind == POOL_COMMAND_OBSERVE_NODE;
        if (for_node) providers_run(&s->providers, &s->offers, s->pool, command);
    }
}

void server_stepped(void *host, const struct pool_event *event, const struct pool_output *out)
{
    struct server *s = host;
    if (event->kind == POOL_EVENT_OFFER_CHANGED) offers_note_price(&s->offers, event);
    for (uint32_t i = 0; i < out->decision_count; i++) note_refusal(s, &out->decisions[i]);
    tell_listeners(s, event, out);
    if (!s->is_stopping) run_commands(s, out);
}

void server_replayed(void *host, const struct pool_event *event)
{
    struct server *s = host;
    if (event->kind == POOL_EVENT_OFFER_CHANGED) offers_note_price(&s->offers, event);
}

void server_offer_changed(struct provider *provider, const struct driver_offer *offer)
{
    struct server *s = provider->server;
    struct error error;
    struct pool_event event;
    if (!offers_event(&s->offers, s->names, s->catalog, provider->name, offer, &event, &error)) {
        log_line(LOG_WARN, "server", "an offer is passed over", "why=\"%s\"", error.text);
        return;
    }
    const char *trouble = pump_push(s->pump, &event);
    if (trouble != NULL)
        log_line(LOG_WARN, "server", "an offer is passed over", "offer=%s why=\"%s\"",
                 offer->name.zone, trouble);
}

static void keep_bill(struct server *s, const struct driver_node *node)
{
    if (node->billed_usd_micros < 0) return;
    struct batch_bill *bill = array_push(&pump_batch(s->pump)->bills);
    if (bill == NULL) return; /* a level: the next observation has it again */
    *bill = (struct batch_bill){.node_key = node->node_key, .usd_micros = node->billed_usd_micros};
}

void server_node_observed(struct provider *provider, const struct driver_node *node)
{
    struct server *s = provider->server;
    struct pool_event event = {.kind = POOL_EVENT_NODE_OBSERVED};
    event.u.node_observed.node_key = node->node_key;
    event.u.node_observed.notice_us = node->notice_us;
    event.u.node_observed.up_since_us = node->up_since_us;
    event.u.node_observed.billed_usd_micros = node->billed_usd_micros;
    event.u.node_observed.phase = node->phase;
    event.u.node_observed.reason = node->reason;
    const char *trouble = pump_push(s->pump, &event);
    if (trouble == NULL)
        keep_bill(s, node);
    else
        log_line(LOG_WARN, "server", "an observation is passed over",
                 "node=%" PRIu64 " provider=%s why=\"%s\"", node->node_key, provider->name,
                 trouble);
}
