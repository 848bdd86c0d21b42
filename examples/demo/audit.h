/* The demo's checks: was every step done once, every sample used once, and did enough go wrong?
 *
 * Role       Pure functions over rows of the API (docs/protocol.md, "Rows"). The server's word is
 *            not taken for it: who computed which slots of which step comes from the workers, and
 *            is added up here again.
 * Slots      A worker's share of a step is hex digits read from slot 0 on: "80" of 8 slots is slot
 *            0 alone. Within one step the shares must be disjoint and together hold every slot.
 * Losses     A machine that the provider takes or that fails while the job trains (between its
 *            first and last step). With notice: the first thing decided about it is to drain it for
 *            the notice, or the loss says so. Machines we let go ourselves (idle, drained for
 *            price, job over) are none.
 */
#ifndef SHOAL_DEMO_AUDIT_H
#define SHOAL_DEMO_AUDIT_H

#include "base/text.h"
#include <jansson.h>
#include <stdint.h>

enum { AUDIT_SLOTS_MAX = 1024 };

struct audit_options {
    uint64_t steps, slots, samples_per_slot;
};

struct audit {
    uint64_t steps_seen, steps_lost, steps_doubled;
    uint64_t slots_missing, slots_doubled, slots_once; /* over all steps */
    uint64_t samples_expected, samples_used_once;
    uint64_t bad_rows; /* rows that cannot be read: a fault by itself */
    double loss_first, loss_last;
};

struct churn {
    uint64_t losses_total, losses_without_notice, losses_during_reduction;
    uint64_t drains_for_price, joins, server_restarts, redone_slots;
};

void audit_steps(const json_t *steps, const struct audit_options *options, struct audit *ret_audit);

/* Counts over `decisions` (rows in order) and `steps`. Joins: workers that first appear after the
 * first step. losses_during_reduction and server_restarts are the caller's to fill. */
void audit_churn(const json_t *decisions, const json_t *steps, struct churn *ret_churn);
bool audit_is_loss(const json_t *decisions, size_t index);
bool audit_has_notice(const json_t *decision);
bool audit_is_price_drain(const json_t *decision);

/* What is wrong, one sentence a line; "" and 0 if nothing is. The second asks whether the market
 * was rough enough for the demo to show what it promises. */
uint32_t audit_tell_faults(const struct audit *audit, const struct audit_options *options,
                           struct text *ret_faults);
uint32_t audit_tell_calm(const struct churn *churn, struct text *ret_faults);

#endif
