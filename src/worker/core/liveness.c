#include "worker/core/liveness.h"
#include "core/assert.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void liveness_start(struct liveness *live, int64_t now_us)
{
    if (live->called_silent) {
        live->penalty_us = smaller(2 * liveness_margin_us(live), LIVENESS_MARGIN_MAX_US);
        live->called_silent = false;
    }
    live->heard_us = now_us;
    live->vouched_us = 0;
    live->beats = 0;
    live->due_us = -1;
    live->knows_offsets = false; /* a restarted peer has another clock */
    live->epoch_us = now_us;
}

void liveness_heard(struct liveness *live, int64_t now_us)
{
    live->heard_us = larger(live->heard_us, now_us);
}

static void turn_epoch(struct liveness *live, int64_t now_us)
{
    if (now_us - live->epoch_us < LIVENESS_EPOCH_US) return;
    live->epoch_us = now_us;
    live->least_us[1] = live->least_us[0];
    live->greatest_us[1] = live->greatest_us[0];
    live->least_us[0] = INT64_MAX;
    live->greatest_us[0] = INT64_MIN;
    live->penalty_us = 0;
}

void liveness_beat(struct liveness *live, int64_t due_us, int64_t now_us, bool prompt)
{
    ASSERT(due_us >= 0);
    ASSERT(due_us <= LIVENESS_DUE_US_MAX);
    if (due_us <= live->due_us) return; /* the same beat again */
    live->due_us = due_us;
    int64_t offset_us = now_us - due_us;
    if (!live->knows_offsets) {
        live->knows_offsets = true;
        live->least_us[0] = live->least_us[1] = offset_us;
        live->greatest_us[0] = live->greatest_us[1] = offset_us;
    }
    turn_epoch(live, now_us);
    live->least_us[0] = smaller(live->least_us[0], offset_us);
    if (!prompt) return;
    if (live->beats < LIVENESS_BEATS_MIN) /* a group that starts is busy: that is not its rhythm */
        live->beats++;
    else
        live->greatest_us[0] = larger(live->greatest_us[0], offset_us);
}

void liveness_vouch(struct liveness *live, int64_t heard_us)
{
    live->vouched_us = larger(live->vouched_us, heard_us);
}

static int64_t least_us(const struct liveness *live)
{
    return smaller(live->least_us[0], live->least_us[1]);
}

int64_t liveness_margin_us(const struct liveness *live)
{
    int64_t margin_us = larger(LIVENESS_MARGIN_MIN_US, live->penalty_us);
    if (live->beats < LIVENESS_BEATS_MIN) return larger(margin_us, LIVENESS_MARGIN_NEW_US);
    int64_t greatest_us = larger(live->greatest_us[0], live->greatest_us[1]);
    int64_t latest_us = greatest_us > least_us(live) ? greatest_us - least_us(live) : 0;
    latest_us = smaller(latest_us, LIVENESS_MARGIN_MAX_US);
    return smaller(larger(margin_us, LIVENESS_LATE_FACTOR * latest_us), LIVENESS_MARGIN_MAX_US);
}

/* When, at best, the next beat would arrive; any later sign of life counts too. */
static int64_t expected_us(const struct liveness *live)
{
    if (!live->knows_offsets) return live->heard_us + LIVENESS_BEAT_US;
    int64_t next_us = live->due_us + least_us(live) + LIVENESS_BEAT_US;
    return larger(next_us, live->heard_us);
}

int64_t liveness_ask_us(const struct liveness *live)
{
    return expected_us(live) + liveness_margin_us(live) / 2;
}

int64_t liveness_end_us(const struct liveness *live)
{
    int64_t margin_us = liveness_margin_us(live), own_us = expected_us(live) + margin_us;
    int64_t vouched_us = live->vouched_us + LIVENESS_BEAT_US + margin_us;
    int64_t last_us = live->heard_us + LIVENESS_WAITS_MAX * (LIVENESS_BEAT_US + margin_us);
    return larger(own_us, smaller(vouched_us, last_us));
}
