#include "demo/made_up.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define START_US  INT64_C(1800000000000000)
#define SECOND_US INT64_C(1000000)
enum { STEPS = 60, SLOTS = 32, OFFERS = 6 };

static const struct {
    const char *zone, *model, *capacity;
    int ncu_milli;
    double on_demand, spot;
} sold[OFFERS] = {
    {"aurora/east-a", "H100", "spot", 2500, 4.5, 1.8},
    {"aurora/east-a", "H100", "on_demand", 2500, 4.5, 4.5},
    {"aurora/east-a", "A10", "spot", 400, 1.0, 0.4},
    {"borealis/east-1", "A100-40GB", "spot", 1000, 2.4, 1.0},
    {"borealis/east-1", "A10", "spot", 400, 1.0, 0.35},
    {"cirrus/e1", "A100-40GB", "spot", 1000, 2.4, 0.9},
};

static json_t *offer_row(int i)
{
    json_t *history = json_array();
    for (int second = -20; second < 80; second++) {
        double wave = 1 + 0.2 * sin(second / 9.0 + i), jump = i == 3 && second > 30 ? 1.9 : 1;
        int64_t price = (int64_t)(sold[i].spot * wave * jump * 1e6);
        if (strcmp(sold[i].capacity, "spot") != 0) price = (int64_t)(sold[i].spot * 1e6);
        json_array_append_new(history, json_pack("[I,I]", START_US + second * SECOND_US, price));
    }
    return json_pack("{s:i,s:s,s:s,s:s,s:i,s:i,s:I,s:I,s:o}", "offer", i + 1, "zone", sold[i].zone,
                     "model", sold[i].model, "capacity", sold[i].capacity, "ncu_milli",
                     sold[i].ncu_milli, "devices", 1, "usd_micros_per_hour",
                     (json_int_t)(sold[i].spot * 1e6), "on_demand_usd_micros_per_hour",
                     (json_int_t)(sold[i].on_demand * 1e6), "history", history);
}

/* Four workers with eight slots each; the third one changes its name twice. */
static json_t *step_row(int step)
{
    static const char *const shares[] = {"000000ff", "0000ff00", "00ff0000", "ff000000"};
    static const char *const models[] = {"H100", "A10", "A100-40GB", "A10"};
    json_t *workers = json_array();
    int count = step < 3 ? 2 : 4;
    for (int i = 0; i < count; i++) {
        int worker = i == 2 ? 3 + step / 20 * 10 : i + 1;
        const char *share = count == 4 ? shares[i] : i == 0 ? "0000ffff" : "ffff0000";
        json_array_append_new(workers, json_pack("{s:i,s:i,s:s,s:s}", "worker", worker, "node",
                                                 worker, "model", models[i], "slots", share));
    }
    return json_pack("{s:i,s:I,s:f,s:i,s:i,s:i,s:o}", "step", step, "t",
                     START_US + (4 + step) * SECOND_US, "loss", 2.2 + 3.3 * exp(-step / 18.0),
                     "generation", 1, "attempt", 1, "redone_slots", step % 20 == 19 ? 8 : 0,
                     "workers", workers);
}

static json_t *decision_row(int second, const char *kind, const char *reason, int offer)
{
    return json_pack("{s:i,s:I,s:s,s:s,s:s,s:i,s:s,s:s}", "node", second, "t",
                     START_US + second * SECOND_US, "kind", kind, "reason", reason, "text",
                     "a sentence with <numbers> & \"quotes\"", "offer", offer, "zone",
                     sold[offer - 1].zone, "model", sold[offer - 1].model);
}

static json_t *decision_rows(void)
{
    json_t *rows = json_array();
    for (int i = 1; i <= OFFERS; i++)
        if (i != 2) json_array_append_new(rows, decision_row(i / 2, "buy", "CHEAPEST", i));
    json_array_append_new(rows, decision_row(20, "lost", "PREEMPTED", 4));
    json_array_append_new(rows, decision_row(28, "lost", "PREEMPTED_NOTICED", 1));
    json_array_append_new(rows, decision_row(32, "drain", "PRICE_ABOVE_THRESHOLD", 4));
    json_array_append_new(rows, decision_row(33, "buy", "CHEAPEST", 6));
    json_array_append_new(rows, decision_row(41, "lost", "CRASHED", 5));
    json_array_append_new(rows, decision_row(52, "lost", "PREEMPTED", 3));
    return rows;
}

static json_t *entry_rows(void)
{
    json_t *rows = json_array();
    for (int i = 0; i < OFFERS; i++) {
        if (i == 1) continue;
        int64_t cost = (int64_t)(sold[i].spot * 1e6 * 60 / 3600);
        json_array_append_new(rows, json_pack("{s:I,s:I,s:I,s:i,s:s,s:s}", "from_us",
                                              START_US + 2 * SECOND_US, "to_us",
                                              START_US + 62 * SECOND_US, "usd_micros", cost,
                                              "devices", 1, "model", sold[i].model, "kind", "job"));
    }
    return rows;
}

struct record made_up_record(void)
{
    struct record record = {.options = {STEPS, SLOTS, 4},
                            .slot_us_at_1_ncu = 100000,
                            .submitted_us = START_US,
                            .ended_us = START_US + 64 * SECOND_US,
                            .restarts_us = {START_US + 36 * SECOND_US},
                            .restart_count = 1,
                            .losses_during_reduction = 1,
                            .price_threshold = 0.7};
    record.offers = json_array();
    record.steps = json_array();
    for (int i = 0; i < OFFERS; i++) json_array_append_new(record.offers, offer_row(i));
    for (int i = 0; i < STEPS; i++) json_array_append_new(record.steps, step_row(i));
    record.decisions = decision_rows();
    record.entries = entry_rows();
    record.control.loss_last = 2.3;
    record.control.wall_us = 40 * SECOND_US;
    memset(record.swarm.weights_sha256, 'a', RECORD_SHA_BYTES - 1);
    memset(record.swarm.checkpoint_sha256, 'a', RECORD_SHA_BYTES - 1);
    memset(record.control.weights_sha256, 'a', RECORD_SHA_BYTES - 1);
    memset(record.control.checkpoint_sha256, 'a', RECORD_SHA_BYTES - 1);
    memset(record.swarm.moments_sha256, 'b', RECORD_SHA_BYTES - 1);
    memset(record.control.moments_sha256, 'b', RECORD_SHA_BYTES - 1);
    record_index(&record);
    return record;
}
