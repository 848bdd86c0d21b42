/* Words and sentences for the core's enums, and how numbers are printed for people.
 *
 * Names      lower_snake words (reasons: UPPER_SNAKE, classes: P0) that appear in JSON, on screen
 *            and in filters; frozen once released. name_*() of a value that is no member gives
 *            "unknown" (0 often means "none": "none"). find_*() is the way back; false: no such
 *            word.
 * Sentences  reason_format() fills the placeholders of DECISION_REASONS: $a money, #a count, @a
 *            seconds from microseconds, %a percent from ppm, ~a NCU from thousandths.
 * ORDER      Every table here follows its enum in src/core; names_test.c fails when one is short.
 */
#ifndef SHOAL_CODEC_NAMES_H
#define SHOAL_CODEC_NAMES_H

#include "core/event.h"
#include "core/output.h"
#include "core/quote.h"
#include "core/view.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAMES_NUMBER_BYTES = 32, NAMES_SENTENCE_BYTES = 256 };

const char *name_event_kind(uint32_t value);     /* enum pool_event_kind: "job_submitted" */
const char *name_capacity(uint32_t value);       /* enum capacity_kind: "on_demand" */
const char *name_node_phase(uint32_t value);     /* "absent", "pending", "up", "gone", "refused" */
const char *name_node_reason(uint32_t value);    /* "stockout" */
const char *name_agent_phase(uint32_t value);    /* "joined", "leaving" */
const char *name_worker_phase(uint32_t value);   /* "starting", "running", "finished", ... */
const char *name_job_kind(uint32_t value);       /* "elastic", "batch" */
const char *name_job_class(uint32_t value);      /* "P0" .. "P3" */
const char *name_command_kind(uint32_t value);   /* "ensure_node" */
const char *name_decision_kind(uint32_t value);  /* "buy" */
const char *name_reason(uint32_t value);         /* enum decision_reason: "PRICE_ABOVE_THRESHOLD" */
const char *name_entry_kind(uint32_t value);     /* "job", "overhead", "idle", "adjustment" */
const char *name_job_state(uint32_t value);      /* "queued" */
const char *name_node_state(uint32_t value);     /* "ordered" */
const char *name_quote_strategy(uint32_t value); /* "cheapest_mix" */
const char *name_topology(uint32_t value);       /* "region", "zone", "rack", "node" */

bool find_capacity(const char *name, uint32_t *ret_value);
bool find_node_phase(const char *name, uint32_t *ret_value);
bool find_node_reason(const char *name, uint32_t *ret_value);
bool find_agent_phase(const char *name, uint32_t *ret_value);
bool find_worker_phase(const char *name, uint32_t *ret_value);
bool find_job_kind(const char *name, uint32_t *ret_value);
bool find_job_class(const char *name, uint32_t *ret_value);
bool find_reason(const char *name, uint32_t *ret_value);
bool find_job_state(const char *name, uint32_t *ret_value);
bool find_node_state(const char *name, uint32_t *ret_value);

/* The sentence of a reason with its numbers, cut to `bytes`. Returns ret_text. */
const char *reason_format(uint32_t reason, int64_t a, int64_t b, int64_t c, char *ret_text,
                          size_t bytes);

/* "$18.00", "$0.0042", "-$1.50": cents, or two significant digits below a cent. Returns ret_text.
 */
const char *money_format(int64_t usd_micros, char ret_text[NAMES_NUMBER_BYTES]);
/* Up to a cent: what one is told to give has to suffice. */
const char *money_format_up(int64_t usd_micros, char ret_text[NAMES_NUMBER_BYTES]);
/* "2.5", "0.4", "12": thousandths without trailing zeros. Returns ret_text. */
const char *milli_format(int64_t milli, char ret_text[NAMES_NUMBER_BYTES]);
/* "15", "0.5", "2.25": seconds of microseconds, at most 3 decimals. Returns ret_text. */
const char *seconds_format(int64_t us, char ret_text[NAMES_NUMBER_BYTES]);
/* "0 s", "7.5 s", "90 s", "25 min", "26.5 h", "3.5 d": a span with its unit, rounded. Returns ret_text. */
const char *span_format(int64_t us, char ret_text[NAMES_NUMBER_BYTES]);
/* "70", "12.5": percent of ppm. Returns ret_text. */
const char *percent_format(int64_t ppm, char ret_text[NAMES_NUMBER_BYTES]);

#endif
