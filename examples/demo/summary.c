#include "demo/summary.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/client.h"
#include <stdlib.h>
#include <string.h>

#define HOUR_US 3600e6

/* NCU times microseconds that a row of the ledger holds one model for; 0 for rows without time. */
static double ncu_us_of(const struct record *record, const json_t *entry, uint32_t model)
{
    /* An adjustment corrects the money of an interval whose time other entries hold. */
    if (strcmp(row_text(entry, "kind"), "adjustment") == 0) return 0;
    if (record_model_of(record, row_text(entry, "model")) != model) return 0;
    return (double)record->models[model].ncu_milli / 1e3 * (double)row_int(entry, "devices") *
           (double)(row_int(entry, "to_us") - row_int(entry, "from_us"));
}

/* NCU times microseconds of one model that were billed, whatever the devices did in that time. */
static double held_ncu_us(const struct record *record, uint32_t model)
{
    double sum = 0;
    size_t i;
    json_t *entry;
    json_array_foreach(record->entries, i, entry) sum += ncu_us_of(record, entry, model);
    return sum;
}

static double all_held_ncu_us(const struct record *record)
{
    double sum = 0;
    for (uint32_t model = 0; model < record->model_count; model++)
        sum += held_ncu_us(record, model);
    return sum;
}

static int64_t cost_of(const json_t *entries)
{
    int64_t sum = 0;
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i, entry) sum += row_int(entry, "usd_micros");
    return sum;
}

/* Micro-dollars per NCU-hour of a model at its lowest on-demand price; 0: nobody sells it. */
static double on_demand_per_ncu(const struct record *record, uint32_t model)
{
    double best = 0;
    size_t i;
    json_t *offer;
    json_array_foreach(record->offers, i, offer)
    {
        double ncu = (double)row_int(offer, "ncu_milli") * (double)row_int(offer, "devices") / 1e3;
        if (record_model_of(record, row_text(offer, "model")) != model || ncu <= 0) continue;
        double price = (double)row_int(offer, "on_demand_usd_micros_per_hour") / ncu;
        if (price > 0 && (best <= 0 || price < best)) best = price;
    }
    return best;
}

/* The same for the mix of models that the swarm held. */
static double mix_per_ncu(const struct record *record)
{
    double held = all_held_ncu_us(record), sum = 0;
    for (uint32_t model = 0; model < record->model_count; model++)
        sum += held_ncu_us(record, model) * on_demand_per_ncu(record, model);
    return held > 0 ? sum / held : 0;
}

static uint32_t most_workers(const json_t *steps)
{
    size_t i, most = 0;
    json_t *row;
    json_array_foreach(steps, i, row)
    {
        size_t count = json_array_size(json_object_get(row, "workers"));
        if (count > most) most = count;
    }
    return (uint32_t)most;
}

static int by_size(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* Of the times between two steps that follow each other; 0: fewer than two steps, or no memory. */
static int64_t median_step_us(const json_t *steps)
{
    size_t count = json_array_size(steps);
    int64_t *spans = count < 2 ? NULL : mem_zalloc(count - 1, sizeof *spans);
    if (spans == NULL) return 0;
    for (size_t i = 1; i < count; i++)
        spans[i - 1] =
            row_int(json_array_get(steps, i), "t") - row_int(json_array_get(steps, i - 1), "t");
    qsort(spans, count - 1, sizeof *spans, by_size);
    int64_t median = spans[(count - 1) / 2];
    mem_free(spans);
    return median;
}

/* See the header. `useful`: NCU times microseconds of all slots. */
static void compute_static(const struct record *record, double useful, struct summary *summary)
{
    double ncu = (double)summary->mean_ncu_milli / 1e3;
    summary->median_step_us = median_step_us(record->steps);
    summary->static_wall_us = summary->median_step_us * (int64_t)record->options.steps;
    double wall_us = (double)summary->static_wall_us;
    summary->static_cost_usd_micros =
        (int64_t)(ncu * wall_us / HOUR_US * mix_per_ncu(record) + 0.5);
    if (ncu > 0 && wall_us > 0)
        summary->static_utilization_ppm = (int64_t)(useful / (ncu * wall_us) * 1e6 + 0.5);
}

struct summary summary_of(const struct record *record, int64_t wall_us)
{
    struct summary summary = {.wall_us = wall_us,
                              .cost_usd_micros = cost_of(record->entries),
                              .workers_max = most_workers(record->steps)};
    audit_steps(record->steps, &record->options, &summary.audit);
    audit_churn(record->decisions, record->steps, &summary.churn);
    summary.churn.losses_during_reduction = record->losses_during_reduction;
    summary.churn.server_restarts = record->restart_count;
    summary.swarm_wall_us = record->ended_us - record->submitted_us;
    double useful = (double)summary.audit.slots_once * (double)record->slot_us_at_1_ncu;
    double held = all_held_ncu_us(record);
    if (held > 0) summary.utilization_ppm = (int64_t)(useful / held * 1e6 + 0.5);
    if (summary.swarm_wall_us > 0)
        summary.mean_ncu_milli = (int64_t)(held / (double)summary.swarm_wall_us * 1e3 + 0.5);
    compute_static(record, useful, &summary);
    return summary;
}

static json_t *names_json(const struct record *record, bool zones)
{
    json_t *list = json_array();
    uint32_t count = zones ? record->zone_count : record->model_count;
    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(list, /* without memory json_pack below fails too */
                                    json_string(zones ? record->zones[i] : record->models[i].name));
    return list;
}

static json_t *counts_json(const struct summary *summary)
{
    const struct churn *churn = &summary->churn;
    const struct audit *audit = &summary->audit;
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "losses_total",
                     (json_int_t)churn->losses_total, "losses_without_notice",
                     (json_int_t)churn->losses_without_notice, "losses_during_reduction",
                     (json_int_t)churn->losses_during_reduction, "drains_for_price",
                     (json_int_t)churn->drains_for_price, "joins", (json_int_t)churn->joins,
                     "server_restarts", (json_int_t)churn->server_restarts, "steps_lost",
                     (json_int_t)audit->steps_lost, "steps_doubled",
                     (json_int_t)audit->steps_doubled, "samples_expected",
                     (json_int_t)audit->samples_expected, "samples_used_once",
                     (json_int_t)audit->samples_used_once);
}

static json_t *money_json(const struct summary *summary)
{
    return json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f}", "cost_usd_micros",
        (json_int_t)summary->cost_usd_micros, "static_cost_usd_micros",
        (json_int_t)summary->static_cost_usd_micros, "utilization_ppm",
        (json_int_t)summary->utilization_ppm, "static_utilization_ppm",
        (json_int_t)summary->static_utilization_ppm, "median_step_us",
        (json_int_t)summary->median_step_us, "mean_ncu_milli", (json_int_t)summary->mean_ncu_milli,
        "static_wall_s", (double)summary->static_wall_us / 1e6, "swarm_wall_s",
        (double)summary->swarm_wall_us / 1e6, "wall_s", (double)summary->wall_us / 1e6);
}

json_t *summary_json(const struct record *record, const struct summary *summary)
{
    json_t *all = json_pack(
        "{s:I,s:I,s:f,s:f,s:s,s:s,s:s,s:s,s:o,s:o,s:I,s:I}", "steps",
        (json_int_t)record->options.steps, "slots", (json_int_t)record->options.slots, "loss_first",
        summary->audit.loss_first, "loss_last", summary->audit.loss_last, "weights_sha256",
        record->swarm.weights_sha256, "control_weights_sha256", record->control.weights_sha256,
        "checkpoint_sha256", record->swarm.checkpoint_sha256, "control_checkpoint_sha256",
        record->control.checkpoint_sha256, "device_models", names_json(record, false), "zones",
        names_json(record, true), "redone_slots", (json_int_t)summary->churn.redone_slots,
        "workers_max", (json_int_t)summary->workers_max);
    json_t *counts = counts_json(summary), *money = money_json(summary);
    bool ok = all != NULL && counts != NULL && money != NULL &&
              json_object_update(all, counts) == 0 && json_object_update(all, money) == 0;
    json_decref(counts);
    json_decref(money);
    if (ok) return all;
    json_decref(all);
    return NULL;
}

bool summary_write(const struct record *record, const struct summary *summary, const char *path,
                   struct error *ret_error)
{
    json_t *all = summary_json(record, summary);
    char *text = all == NULL ? NULL : json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(7));
    bool ok = text != NULL ? io_write_file(path, text, strlen(text), 0644, ret_error)
                           : error_set(ret_error, "no memory for %s", path);
    mem_free(text);
    json_decref(all);
    return ok;
}
