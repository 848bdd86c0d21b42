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
    offers_note(&s->offers, event);
    for (uint32_t i = 0; i < out->decision_count; i++) note_refusal(s, &out->decisions[i]);
    tell_listeners(s, event, out);
    if (!s->is_stopping) run_commands(s, out);
}

void server_replayed(void *host, const struct pool_event *event)
{
    struct server *s = host;
    offers_note(&s->offers, event);
}

/* Prices that come at once share an event; all but the last of these say that more follow. */
static const char *push_price(struct server *s, const struct pool_event *changed)
{
    const struct told_price price = {.offer_id = changed->u.offer_changed.offer_id,
                                     .usd_micros_per_hour =
                                         changed->u.offer_changed.usd_micros_per_hour};
    struct array *events = &pump_batch(s->pump)->events;
    struct pool_event *last = events->count == 0 ? NULL : array_at(events, events->count - 1);
    bool follows = last != NULL && last->kind == POOL_EVENT_OFFERS_PRICED;
    if (follows && last->u.offers_priced.count < PRICED_MAX) {
        last->u.offers_priced.prices[last->u.offers_priced.count++] = price;
        return NULL;
    }
    struct pool_event event = {.kind = POOL_EVENT_OFFERS_PRICED,
                               .u.offers_priced = {.count = 1, .prices = {price}}};
    const char *trouble = pump_push(s->pump, &event);
    if (trouble == NULL && follows) /* the array may have moved */
        ((struct pool_event *)array_at(events, events->count - 2))->u.offers_priced.more = 1;
    return trouble;
}

static const char *push_offer(struct server *s, const struct pool_event *event)
{
    const char *trouble = pool_event_check(event);
    if (trouble != NULL) return trouble;
    if (offers_is_price_only(&s->offers, event)) return push_price(s, event);
    trouble = pump_push(s->pump, event);
    if (trouble == NULL) offers_note_pushed(&s->offers, event);
    return trouble;
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
    const char *trouble = push_offer(s, &event);
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
