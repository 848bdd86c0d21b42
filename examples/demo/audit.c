#include "demo/audit.h"
#include "cli/client.h"
#include <inttypes.h>
#include <string.h>

/* "Well below": a byte-level model that has learnt nothing stays near its first loss; noise moves
 * it by a few percent. */
#define LEARNT_SHARE 0.8

enum { LOSSES_MIN = 6, SUDDEN_MIN = 2, REDUCTION_MIN = 1, DRAINS_MIN = 1, JOINS_MIN = 1 };

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return -1;
}

/* Adds one to counts[slot] for each slot of the share. false: no share, or a slot beyond. */
static bool count_bits(const char *hex, uint64_t slots, uint8_t *counts)
{
    size_t digits = strlen(hex);
    if (digits == 0 || digits > AUDIT_SLOTS_MAX / 4) return false;
    for (size_t i = 0; i < digits; i++) {
        int value = hex_value(hex[i]);
        if (value < 0) return false;
        for (uint32_t bit = 0; bit < 4; bit++) {
            if ((value >> (3 - bit) & 1) == 0) continue;
            uint64_t slot = i * 4 + bit;
            if (slot >= slots) return false;
            if (counts[slot] < UINT8_MAX) counts[slot]++;
        }
    }
    return true;
}

static void audit_row(const json_t *row, uint64_t slots, struct audit *audit)
{
    uint8_t counts[AUDIT_SLOTS_MAX] = {0};
    size_t i;
    json_t *worker;
    json_array_foreach(json_object_get(row, "workers"), i, worker)
    {
        if (!count_bits(row_text(worker, "slots"), slots, counts)) audit->bad_rows++;
    }
    for (uint64_t slot = 0; slot < slots; slot++) {
        audit->slots_missing += counts[slot] == 0;
        audit->slots_once += counts[slot] == 1;
        audit->slots_doubled += counts[slot] > 1;
    }
}

static bool is_row(const json_t *row, const struct audit_options *options)
{
    json_int_t step = row_int(row, "step");
    return json_is_integer(json_object_get(row, "step")) && step >= 0 &&
           (uint64_t)step < options->steps && row_list(row, "workers") != NULL;
}

void audit_steps(const json_t *steps, const struct audit_options *options, struct audit *ret_audit)
{
    struct audit audit = {.samples_expected =
                              options->steps * options->slots * options->samples_per_slot};
    json_int_t expected = 0; /* rows come in order of steps */
    size_t i;
    json_t *row;
    json_array_foreach(steps, i, row)
    {
        if (!is_row(row, options)) {
            audit.bad_rows++;
            continue;
        }
        json_int_t step = row_int(row, "step");
        if (step < expected) {
            audit.steps_doubled++;
            continue;
        }
        audit.steps_lost += (uint64_t)(step - expected);
        expected = step + 1;
        audit.steps_seen++;
        if (step == 0) audit.loss_first = row_real(row, "loss");
        audit.loss_last = row_real(row, "loss");
        audit_row(row, options->slots, &audit);
    }
    audit.steps_lost += options->steps - (uint64_t)expected;
    audit.samples_used_once = audit.slots_once * options->samples_per_slot;
    *ret_audit = audit;
}

static bool is_reason(const json_t *decision, const char *reason)
{
    return strcmp(row_text(decision, "reason"), reason) == 0;
}

static bool is_kind(const json_t *decision, const char *kind)
{
    return strcmp(row_text(decision, "kind"), kind) == 0;
}

static bool tells_loss(const json_t *decision)
{
    return (is_kind(decision, "lost") && !is_reason(decision, "BOOT_TIMEOUT")) ||
           (is_kind(decision, "drain") && is_reason(decision, "NOTICE"));
}

/* A node may be drained for a notice and then lost: the first of the two is the loss. */
bool audit_is_loss(const json_t *decisions, size_t index)
{
    const json_t *decision = json_array_get(decisions, index);
    if (!tells_loss(decision)) return false;
    for (size_t i = 0; i < index; i++) {
        const json_t *before = json_array_get(decisions, i);
        if (row_int(before, "node") == row_int(decision, "node") && tells_loss(before))
            return false;
    }
    return true;
}

bool audit_has_notice(const json_t *decision)
{
    return is_reason(decision, "PREEMPTED_NOTICED") || is_reason(decision, "NOTICE");
}

bool audit_is_price_drain(const json_t *decision)
{
    return is_kind(decision, "drain") && is_reason(decision, "PRICE_ABOVE_THRESHOLD");
}

/* How many workers of this row are in no row before it. */
static uint64_t new_workers(const json_t *row, json_t *seen)
{
    uint64_t count = 0;
    size_t i;
    json_t *worker;
    json_array_foreach(json_object_get(row, "workers"), i, worker)
    {
        char key[32];
        (void)snprintf(key, sizeof key, "%" JSON_INTEGER_FORMAT, row_int(worker, "worker"));
        if (json_object_get(seen, key) != NULL) continue;
        (void)json_object_set_new(seen, key, json_true()); /* without memory: counted twice */
        count++;
    }
    return count;
}

void audit_churn(const json_t *decisions, const json_t *steps, struct churn *ret_churn)
{
    struct churn churn = {0};
    size_t count = json_array_size(steps), i;
    json_int_t first_us = row_int(json_array_get(steps, 0), "t");
    json_int_t last_us = count == 0 ? 0 : row_int(json_array_get(steps, count - 1), "t");
    json_t *row;
    json_array_foreach(decisions, i, row)
    {
        if (row_int(row, "t") < first_us || row_int(row, "t") > last_us) continue;
        bool is_loss = audit_is_loss(decisions, i);
        churn.losses_total += is_loss;
        churn.losses_without_notice += is_loss && !audit_has_notice(row);
        churn.drains_for_price += audit_is_price_drain(row);
    }
    json_t *seen = json_object();
    json_array_foreach(steps, i, row)
    {
        uint64_t joined = new_workers(row, seen);
        if (i > 0) churn.joins += joined;
        churn.redone_slots += (uint64_t)row_int(row, "redone_slots");
    }
    json_decref(seen);
    *ret_churn = churn;
}

static uint32_t tell_count(struct text *faults, uint64_t count, const char *what)
{
    if (count == 0) return 0;
    text_add(faults, "%" PRIu64 " %s\n", count, what);
    return 1;
}

uint32_t audit_tell_faults(const struct audit *audit, const struct audit_options *options,
                           struct text *ret_faults)
{
    uint32_t faults = tell_count(ret_faults, audit->steps_lost, "steps are missing");
    faults += tell_count(ret_faults, audit->steps_doubled, "steps were done twice");
    faults += tell_count(ret_faults, audit->slots_missing, "slots of steps were skipped");
    faults += tell_count(ret_faults, audit->slots_doubled, "slots of steps were used twice");
    faults += tell_count(ret_faults, audit->bad_rows, "rows of progress cannot be read");
    if (audit->samples_used_once != audit->samples_expected) {
        text_add(ret_faults, "%" PRIu64 " of %" PRIu64 " samples were used exactly once\n",
                 audit->samples_used_once, audit->samples_expected);
        faults++;
    }
    bool has_learnt = audit->loss_first > 0 && audit->loss_last > 0 &&
                      audit->loss_last < audit->loss_first * LEARNT_SHARE;
    if (options->steps > 1 && !has_learnt) {
        text_add(ret_faults, "the loss went from %.3f to %.3f: that is no learning\n",
                 audit->loss_first, audit->loss_last);
        faults++;
    }
    return faults;
}

static uint32_t tell_few(struct text *faults, uint64_t count, uint64_t least, const char *what)
{
    if (count >= least) return 0;
    text_add(faults, "only %" PRIu64 " %s, at least %" PRIu64 " were to happen\n", count, what,
             least);
    return 1;
}

uint32_t audit_tell_calm(const struct churn *churn, struct text *ret_faults)
{
    uint32_t faults = tell_few(ret_faults, churn->losses_total, LOSSES_MIN, "losses");
    faults +=
        tell_few(ret_faults, churn->losses_without_notice, SUDDEN_MIN, "losses without notice");
    faults += tell_few(ret_faults, churn->losses_during_reduction, REDUCTION_MIN,
                       "losses in the middle of a reduction");
    faults += tell_few(ret_faults, churn->drains_for_price, DRAINS_MIN, "drains for price");
    faults += tell_few(ret_faults, churn->joins, JOINS_MIN, "workers that joined in the middle");
    return faults;
}
