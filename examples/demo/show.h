/* What the demo puts on the terminal: tables, the progress line, lines of events.
 *
 * Role       Text from rows; nothing is fetched here. Colours and redrawing come from cli/term.h,
 *            so plain files get plain lines.
 */
#ifndef SHOAL_DEMO_SHOW_H
#define SHOAL_DEMO_SHOW_H

#include "cli/term.h"
#include "demo/summary.h"

/* Paragraph before the story: what is emulated, what is real. */
void show_promise(const struct term *term);
/* "── Title ──────" */
void show_chapter(const struct term *term, const char *title);
/* The market, or without offers the pool, as one block for live_show(). */
void show_pool(const json_t *nodes, const json_t *offers, const struct term *term,
               struct text *ret_block);

struct show_progress {
    const json_t *job;   /* row of /v1/jobs/ID */
    const json_t *last;  /* newest row of progress; NULL: none yet */
    double tokens_per_s; /* measured over the last steps */
    int64_t left_us;     /* -1: not known */
    bool is_away;        /* the server does not answer right now */
};
void show_progress_line(const struct show_progress *progress, const struct record *record,
                        struct text *ret_line);

/* A line for a decision that a spectator wants to see; false: this one is none. */
bool show_decision(const json_t *decision, const struct record *record, const struct term *term,
                   struct text *ret_line);
void show_join(const json_t *worker, double seconds, const struct term *term,
               struct text *ret_line);
bool show_summary(const struct record *record, const struct summary *summary,
                  const struct term *term, struct error *ret_error) WARN_UNUSED;

#endif
