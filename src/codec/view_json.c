#include "codec/view_json.h"
#include "codec/device_groups.h"
#include "codec/json.h"
#include "codec/names.h"
#include <stdio.h>
#include <string.h>

static void set_name(json_t *object, const char *key, const struct view_names *names,
                     enum id_kind kind, uint32_t id, bool *failed)
{
    json_set_text(object, key, names->name_of(names->self, kind, id), failed);
}

static const char *model_name(const struct view_names *names, uint32_t model)
{
    return model < names->catalog->model_count ? names->catalog->models[model].name : "";
}

/* Of one device. */
static uint64_t model_ncu_milli(const struct view_names *names, uint32_t model)
{
    return model < names->catalog->model_count ? names->catalog->models[model].ncu_milli : 0;
}

static void set_reason_text(json_t *object, const char *key, uint32_t reason, int64_t a, int64_t b,
                            int64_t c, bool *failed)
{
    char text[NAMES_SENTENCE_BYTES];
    json_set_text(object, key, reason_format(reason, a, b, c, text, sizeof text), failed);
}

/* The sentence of a reason, where what was decided gives it another turn: a machine is drained for
 * a cheaper one, and let go for the reason of its drain, which has said the numbers. */
static void set_decision_text(json_t *object, const char *key, const struct pool_decision *decision,
                              bool *failed)
{
    char text[NAMES_SENTENCE_BYTES], whole[NAMES_SENTENCE_BYTES + 32];
    uint32_t kind = decision->kind, reason = decision->reason;
    bool is_cheaper = reason == REASON_CHEAPEST;
    bool is_after_drain =
        kind == DECISION_RELEASE && (is_cheaper || reason == REASON_PRICE_ABOVE_THRESHOLD ||
                                     reason == REASON_PRICE_ABOVE_BID || reason == REASON_NOTICE);
    (void)reason_format(reason, decision->a, decision->b, decision->c, text, sizeof text);
    (void)snprintf(whole, sizeof whole, "%s%s",
                   kind == DECISION_DRAIN && is_cheaper ? "makes way for the " : "",
                   is_after_drain ? "its drain is over" : text); /* fits */
    json_set_text(object, key, whole, failed);
}

/* tenant, project, team, experiment */
static void set_owner(json_t *object, const struct view_names *names, const uint32_t owner[4],
                      bool *failed)
{
    static const char *const keys[] = {"tenant", "project", "team", "experiment"};
    static const enum id_kind kinds[] = {ID_TENANT, ID_PROJECT, ID_TEAM, ID_EXPERIMENT};
    for (uint32_t i = 0; i < 4; i++) set_name(object, keys[i], names, kinds[i], owner[i], failed);
}

json_t *job_view_json(const struct view_names *names, const struct job_view *view,
                      const struct job_spec *spec)
{
    bool failed = false;
    json_t *object = json_object();
    const uint32_t owner[] = {view->tenant, view->project, view->team, view->experiment};
    json_set_u64(object, "job", view->job_id, &failed);
    json_set_text(object, "name", spec == NULL ? "" : spec->name, &failed);
    json_set_text(object, "class", name_job_class(view->job_class), &failed);
    json_set_text(object, "kind", spec == NULL ? "" : name_job_kind(spec->kind), &failed);
    json_set_text(object, "state", name_job_state(view->state), &failed);
    json_set_u64(object, "devices_min", view->devices_min, &failed);
    json_set_u64(object, "devices_max", view->devices_max, &failed);
    json_set_u64(object, "devices_up", view->devices_up, &failed);
    json_set_u64(object, "devices_wanted", view->devices_wanted, &failed);
    set_name(object, "region", names, ID_REGION, view->region, &failed);
    set_owner(object, names, owner, &failed);
    json_set_u64(object, "slots", spec == NULL ? 0 : spec->slots, &failed);
    json_set_u64(object, "steps", spec == NULL ? 0 : spec->steps, &failed);
    json_set_u64(object, "step", view->step, &failed);
    json_set_u64(object, "ckpt_step", view->ckpt_step, &failed);
    json_set_i64(object, "submitted_us", view->submitted_us, &failed);
    json_set_i64(object, "deadline_us", view->deadline_us, &failed);
    json_set_i64(object, "work_left_us", view->work_left_us, &failed);
    json_set_i64(object, "started_us", view->started_us, &failed);
    json_set_i64(object, "ended_us", view->ended_us, &failed);
    json_set_i64(object, "usd_micros", view->usd_micros, &failed);
    json_set_i64(object, "usd_micros_per_hour", view->usd_micros_per_hour, &failed);
    json_set_i64(object, "egress_usd_micros", view->egress_usd_micros, &failed);
    json_set_text(object, "last_kind", name_decision_kind(view->last_kind), &failed);
    json_set_text(object, "last_reason", name_reason(view->last_reason), &failed);
    set_decision_text(object, "last_text",
                      &(struct pool_decision){.kind = view->last_kind,
                                              .reason = view->last_reason,
                                              .a = view->last_a,
                                              .b = view->last_b,
                                              .c = view->last_c},
                      &failed);
    return json_finish(object, failed);
}

json_t *node_view_json(const struct view_names *names, const struct node_view *view)
{
    bool failed = false;
    json_t *object = json_object();
    json_set_u64(object, "node", view->node_key, &failed);
    json_set_text(object, "state", name_node_state(view->state), &failed);
    json_set_text(object, "phase", name_node_phase(view->phase), &failed);
    json_set_u64(object, "devices", view->device_count, &failed);
    json_set_u64(object, "devices_free", view->devices_free, &failed);
    json_set_text(object, "model", model_name(names, view->model), &failed);
    set_name(object, "zone", names, ID_ZONE, view->zone, &failed);
    set_name(object, "rack", names, ID_RACK, view->rack, &failed);
    json_set(object, "groups", device_groups_json(&view->groups, &failed), &failed);
    set_name(object, "region", names, ID_REGION, view->region, &failed);
    set_name(object, "provider", names, ID_PROVIDER, view->provider, &failed);
    json_set_text(object, "capacity", name_capacity(view->capacity), &failed);
    json_set(object, "agent_joined", json_boolean(view->agent_joined != 0), &failed);
    json_set_i64(object, "ordered_us", view->ordered_us, &failed);
    json_set_i64(object, "up_since_us", view->up_since_us, &failed);
    json_set_i64(object, "notice_us", view->notice_us, &failed);
    json_set_i64(object, "agent_heard_us", view->agent_heard_us, &failed);
    json_set_i64(object, "usd_micros", view->usd_micros, &failed);
    json_set_i64(object, "usd_micros_per_hour", view->usd_micros_per_hour, &failed);
    json_set_text(object, "drain_reason",
                  view->drain_reason == 0 ? "" : name_reason(view->drain_reason), &failed);
    return json_finish(object, failed);
}

json_t *lease_view_json(const struct lease_view *view)
{
    bool failed = false;
    json_t *object = json_object();
    json_set_u64(object, "job", view->job_id, &failed);
    json_set_u64(object, "node", view->node_key, &failed);
    json_set_u64(object, "worker", view->worker_id, &failed);
    json_set_u64(object, "devices", view->device_count, &failed);
    json_set_u64(object, "device_milli", view->device_milli, &failed);
    json_set_u64(object, "device_mask", view->device_mask, &failed);
    json_set_text(object, "phase", view->phase == 0 ? "" : name_worker_phase(view->phase), &failed);
    json_set_u64(object, "step", view->step, &failed);
    json_set_text(object, "stop_reason",
                  view->stop_reason == 0 ? "" : name_reason(view->stop_reason), &failed);
    json_set_i64(object, "since_us", view->since_us, &failed);
    json_set_i64(object, "deadline_us", view->deadline_us, &failed);
    return json_finish(object, failed);
}

json_t *offer_view_json(const struct view_names *names, const struct offer_view *view)
{
    bool failed = false;
    json_t *object = json_object();
    json_set_u64(object, "offer", view->offer_id, &failed);
    set_name(object, "provider", names, ID_PROVIDER, view->provider, &failed);
    set_name(object, "region", names, ID_REGION, view->region, &failed);
    set_name(object, "zone", names, ID_ZONE, view->zone, &failed);
    set_name(object, "rack", names, ID_RACK, view->rack, &failed);
    json_set_text(object, "model", model_name(names, view->model), &failed);
    json_set_u64(object, "ncu_milli", model_ncu_milli(names, view->model), &failed);
    json_set_text(object, "capacity", name_capacity(view->capacity), &failed);
    json_set_u64(object, "devices", view->device_count, &failed);
    json_set_u64(object, "stock", view->stock_count, &failed);
    json_set_u64(object, "nodes_held", view->nodes_held, &failed);
    json_set_i64(object, "usd_micros_per_hour", view->usd_micros_per_hour, &failed);
    json_set_i64(object, "on_demand_usd_micros_per_hour", view->on_demand_usd_micros_per_hour,
                 &failed);
    json_set_i64(object, "quoted_usd_micros_per_hour", view->quoted_usd_micros_per_hour, &failed);
    json_set_u64(object, "risk_ppm", view->risk_ppm, &failed);
    json_set_u64(object, "rank_ppm", view->rank_ppm, &failed);
    json_set_u64(object, "hazard_ppm", view->hazard_ppm, &failed);
    json_set_i64(object, "up_us", view->up_us, &failed);
    json_set_i64(object, "changeover_us", view->changeover_us, &failed);
    json_set_i64(object, "refused_until_us", view->refused_until_us, &failed);
    json_set_u64(object, "billing_s", view->billing_s == 0 ? 1 : view->billing_s, &failed);
    return json_finish(object, failed);
}

json_t *pool_json(const struct catalog *catalog, const struct config_pool *entry)
{
    bool failed = false;
    json_t *object = json_object(), *capabilities = json_array();
    json_t *hardware = json_array(), *lacking = json_array(), *use_cases = json_array();
    for (uint32_t i = 0; i < catalog->capability_count; i++)
        if ((entry->need.capability_mask >> i & 1) != 0)
            json_append(capabilities, json_string(catalog->capabilities[i]), &failed);
    if (entry->need.vram_min_mib != 0)
        json_append(capabilities, json_sprintf("%ugb-vram", entry->need.vram_min_mib / 1024),
                    &failed);
    for (uint32_t i = 0; i < catalog->model_count; i++)
        if ((entry->hardware_mask >> i & 1) != 0)
            json_append(hardware, json_string(catalog->models[i].name), &failed);
    for (uint32_t i = 0; i < catalog->model_count; i++)
        if ((entry->lacking_mask >> i & 1) != 0)
            json_append(lacking, json_string(catalog->models[i].name), &failed);
    for (uint32_t i = 0; i < entry->use_case_count; i++)
        json_append(use_cases, json_string(entry->use_cases[i]), &failed);
    json_set_text(object, "name", entry->name, &failed);
    json_set(object, "capabilities", capabilities, &failed);
    json_set(object, "hardware", hardware, &failed);
    json_set(object, "lacking", lacking, &failed);
    json_set(object, "use_cases", use_cases, &failed);
    json_set_real(object, "price_threshold",
                  entry->price_threshold_ppm == 0 ? 1 : entry->price_threshold_ppm / 1e6, &failed);
    return json_finish(object, failed);
}

/* zone and model of what an offer sells; "" when it is not known (any more) */
static void set_offer(json_t *object, const struct view_names *names, uint64_t offer_id,
                      bool *failed)
{
    struct offer_view offer;
    bool known =
        offer_id != 0 && names->offer_of != NULL && names->offer_of(names->self, offer_id, &offer);
    json_set_u64(object, "offer", offer_id, failed);
    json_set_text(object, "zone", known ? names->name_of(names->self, ID_ZONE, offer.zone) : "",
                  failed);
    json_set_text(object, "model", known ? model_name(names, offer.model) : "", failed);
}

json_t *decision_json(const struct view_names *names, const struct pool_decision *decision,
                      int64_t at_us)
{
    bool failed = false;
    json_t *object = json_object();
    json_set_u64(object, "id", decision->id, &failed);
    json_set_i64(object, "t", at_us, &failed);
    json_set_text(object, "kind", name_decision_kind(decision->kind), &failed);
    json_set_text(object, "reason", name_reason(decision->reason), &failed);
    set_decision_text(object, "text", decision, &failed);
    json_set_u64(object, "job", decision->job_id, &failed);
    json_set_u64(object, "node", decision->node_key, &failed);
    set_offer(object, names, decision->offer_id, &failed);
    json_set_i64(object, "a", decision->a, &failed);
    json_set_i64(object, "b", decision->b, &failed);
    json_set_i64(object, "c", decision->c, &failed);
    return json_finish(object, failed);
}

json_t *entry_json(const struct view_names *names, const struct ledger_entry *entry)
{
    bool failed = false;
    json_t *object = json_object();
    const uint32_t owner[] = {entry->tenant, entry->project, entry->team, entry->experiment};
    json_set_u64(object, "id", entry->id, &failed);
    json_set_u64(object, "node", entry->node_key, &failed);
    json_set_u64(object, "job", entry->job_id, &failed);
    set_offer(object, names, entry->offer_id, &failed);
    json_set_i64(object, "from_us", entry->from_us, &failed);
    json_set_i64(object, "to_us", entry->to_us, &failed);
    json_set_i64(object, "usd_micros", entry->usd_micros, &failed);
    json_set_text(object, "kind", name_entry_kind(entry->kind), &failed);
    set_owner(object, names, owner, &failed);
    json_set_u64(object, "devices", entry->device_count, &failed);
    return json_finish(object, failed);
}

/* ---- quote ---- */

static json_t *line_json(const struct view_names *names, const struct quote_line *line,
                         bool *failed)
{
    json_t *object = json_object();
    struct offer_view offer;
    bool known = names->offer_of != NULL && names->offer_of(names->self, line->offer_id, &offer);
    set_offer(object, names, line->offer_id, failed);
    json_set_text(object, "kind", known ? name_capacity(offer.capacity) : "", failed);
    json_set_u64(object, "nodes", line->node_count, failed);
    json_set_u64(object, "devices", line->device_count, failed);
    json_set_real(object, "usd_per_hour", (double)line->usd_micros_per_hour / 1e6, failed);
    return object;
}

/* Work over speed; else the run time that is declared. The estimate leaves out waiting, losses and
 * the reduction: it is a lower bound. */
static void set_estimate(json_t *object, const struct quote_option *option,
                         const struct job_spec *spec, bool *failed)
{
    int64_t work_us = spec == NULL ? 0 : job_spec_work_us(spec);
    double hours = 0;
    if (work_us == 0 && spec != NULL && option->reason == REASON_FITS)
        hours = (double)spec->terms.run_us / 3.6e9;
    else if (work_us != 0 && option->ncu_milli != 0)
        hours = (double)work_us / 3.6e9 / ((double)option->ncu_milli / 1000);
    if (hours <= 0) return;
    hours +=
        (double)option->staging_us / 3.6e9; /* its data comes first, to devices that it holds */
    json_set_real(object, "hours", hours, failed);
    json_set_real(object, "usd",
                  hours * (double)option->usd_micros_per_hour / 1e6 +
                      (double)option->egress_usd_micros / 1e6,
                  failed);
}

static json_t *option_json(const struct view_names *names, const struct quote_option *option,
                           const struct job_spec *spec, bool *failed)
{
    json_t *object = json_object(), *lines = json_array();
    for (uint32_t i = 0; i < option->line_count && i < QUOTE_LINES_MAX; i++)
        json_append(lines, line_json(names, &option->lines[i], failed), failed);
    json_set_text(object, "strategy", name_quote_strategy(option->strategy), failed);
    set_name(object, "region", names, ID_REGION, option->region, failed);
    json_set_u64(object, "devices", option->device_count, failed);
    json_set_real(object, "ncu", (double)option->ncu_milli / 1000, failed);
    json_set_real(object, "usd_per_hour", (double)option->usd_micros_per_hour / 1e6, failed);
    json_set_real(object, "egress_usd", (double)option->egress_usd_micros / 1e6, failed);
    json_set_real(object, "staging_s", (double)option->staging_us / 1e6, failed);
    set_estimate(object, option, spec, failed);
    json_set(object, "lines", lines, failed);
    json_set(object, "possible", json_boolean(option->reason == REASON_FITS), failed);
    json_set_text(object, "reason", name_reason(option->reason), failed);
    set_reason_text(object, "text", option->reason, option->a, option->b, option->c, failed);
    return object;
}

json_t *quote_json(const struct view_names *names, const struct quote *quote,
                   const struct job_spec *spec)
{
    bool failed = false;
    json_t *object = json_object(), *options = json_array();
    for (uint32_t i = 0; i < quote->option_count && i < QUOTE_OPTIONS_MAX; i++)
        json_append(options, option_json(names, &quote->options[i], spec, &failed), &failed);
    json_set_text(object, "verdict", name_reason(quote->verdict), &failed);
    set_reason_text(object, "text", quote->verdict, quote->a, quote->b, quote->c, &failed);
    json_set(object, "options", options, &failed);
    return json_finish(object, failed);
}
