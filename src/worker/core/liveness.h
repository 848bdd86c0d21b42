/* Is a peer still there? Patience derived from what was measured, nothing for users to guess.
 *
 * Role       Pure, one per peer. Every member sends a beat each LIVENESS_BEAT_US, from its network
 *            thread, whatever the program computes; the beat carries the time it was due, in the
 *            sender's clock. Arrival minus due, less the least such difference of the last five to
 *            ten minutes, is how late a beat came: jitter of the network, of the sender's and of
 *            our own scheduling together, whatever the two clocks show.
 * Patience   A peer is silent when its next beat is overdue by the margin: three times the latest
 *            beat of those minutes, within MARGIN_MIN .. MARGIN_MAX. With beats up to 200 ms
 *            late that is 600 ms, so a death is known 250 + 600 ms after it at the latest, plus a
 *            tick; with a steady network, 250 + 500 ms. Anything else that arrives counts as life,
 *            but does not measure lateness.
 * Asking     A peer overdue by half its margin is asked about (member_watch.c): if another member
 *            has heard of it lately, only the path to us is slow, and it gets up to WAITS_MAX times
 *            the patience. After that we cannot work with it whoever else can.
 * Return     A peer that was called silent and comes back was judged too fast: its margin doubles
 *            for the next five minutes.
 * Units      us of the caller's monotonic clock; due_us of the peer's.
 * Tests      liveness_test.c: time to notice, false alarms in thousands of node-hours under jitter.
 */
#ifndef SHOAL_WORKER_CORE_LIVENESS_H
#define SHOAL_WORKER_CORE_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

#define LIVENESS_BEAT_US       INT64_C(250000)
#define LIVENESS_MARGIN_MIN_US INT64_C(500000)   /* a busy machine delays threads this long */
#define LIVENESS_MARGIN_MAX_US INT64_C(10000000) /* nor believe in a peer longer, however jittery */
#define LIVENESS_MARGIN_NEW_US INT64_C(1500000)  /* until LIVENESS_BEATS_MIN have been seen */
#define LIVENESS_EPOCH_US      INT64_C(300000000) /* lateness is remembered one to two of these */
#define LIVENESS_DUE_US_MAX    (INT64_C(1) << 61) /* greater ones are refused when decoded */
enum { LIVENESS_BEATS_MIN = 8, LIVENESS_LATE_FACTOR = 3, LIVENESS_WAITS_MAX = 3 };

struct liveness {
    int64_t heard_us;   /* last arrival of anything */
    int64_t vouched_us; /* another member heard it then, in our clock */
    int64_t due_us;     /* of the newest beat */
    int64_t epoch_us;   /* when the current epoch began */
    int64_t least_us[2],
        greatest_us[2]; /* arrival - due: of the current epoch, of the one before */
    int64_t penalty_us; /* after a false alarm */
    uint32_t beats;     /* on this connection, up to LIVENESS_BEATS_MIN */
    bool knows_offsets, called_silent;
};

/* A connection opened, the first or a later one. *live is zero before the first. */
void liveness_start(struct liveness *live, int64_t now_us);
void liveness_heard(struct liveness *live, int64_t now_us);
/* `prompt`: we were listening when it came, so its lateness is not our own pause. */
void liveness_beat(struct liveness *live, int64_t due_us, int64_t now_us, bool prompt);
void liveness_vouch(struct liveness *live, int64_t heard_us);
int64_t liveness_margin_us(const struct liveness *live);
int64_t liveness_ask_us(const struct liveness *live); /* after this, ask others */
int64_t liveness_end_us(const struct liveness *live); /* after this, it is silent */

#endif
