/* The patience of liveness.h on a virtual clock: how soon a death is noticed, and how often a peer
 * that lives is called silent, under several kinds of jitter.
 *
 *     worker_liveness_test [NODE_HOURS]      for the false alarms; 800 unless given
 */
#include "base/splitmix.h"
#include "worker/core/liveness.h"
#include "worker/core/member.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum jitter { STEADY, UNIFORM_200, EXPONENTIAL, BURSTS, JITTERS };
static const char *const jitter_names[] = {"none", "even up to 200 ms",
                                           "exponential, 1 in 100 above 200 ms",
                                           "bursts of 600 ms every other minute"};
static uint64_t state = 1;
static double node_hours = 800;

static double draw(void) /* 0 < draw <= 1 */
{
    return ((double)(splitmix_next(&state) >> 11) + 1) * 0x1p-53;
}

static int64_t delay_us(enum jitter jitter, uint64_t beat)
{
    switch (jitter) {
    case STEADY: return 300;
    case UNIFORM_200: return 300 + (int64_t)(draw() * 200000);
    case EXPONENTIAL: return 300 - (int64_t)(log(draw()) * 200000 / log(100));
    case BURSTS: return 300 + (beat % 480 < 4 ? (int64_t)(draw() * 600000) : 0);
    case JITTERS: break;
    }
    return 0;
}

struct stream { /* beats of one peer as they arrive, in order as TCP has it */
    struct liveness live;
    enum jitter jitter;
    uint64_t beat;
    int64_t arrives_us;
};

static int64_t due_us(uint64_t beat)
{
    return (int64_t)beat * LIVENESS_BEAT_US; /* the peer's clock began with ours, less an hour */
}

static void open_stream(struct stream *s, enum jitter jitter)
{
    *s = (struct stream){.jitter = jitter};
    liveness_start(&s->live, INT64_C(3600000000));
}

static void send_beat(struct stream *s)
{
    int64_t at_us = INT64_C(3600000000) + due_us(s->beat) + delay_us(s->jitter, s->beat);
    if (at_us > s->arrives_us) s->arrives_us = at_us;
}

/* Takes the beat sent; returns whether the peer was called silent before it came. */
static bool take_beat(struct stream *s)
{
    bool silent = s->arrives_us > liveness_end_us(&s->live);
    s->live.called_silent = silent;
    if (silent) liveness_start(&s->live, s->arrives_us); /* it dials again */
    liveness_heard(&s->live, s->arrives_us);
    liveness_beat(&s->live, due_us(s->beat++), s->arrives_us, true);
    return silent;
}

static bool next_beat(struct stream *s)
{
    send_beat(s);
    return take_beat(s);
}

/* Dies at a random moment, its last beat still arriving late. */
static void a_silent_death_is_known_within_a_second(void **test_state)
{
    (void)test_state;
    for (enum jitter jitter = STEADY; jitter <= UNIFORM_200; jitter++) {
        int64_t worst_us = 0, total_us = 0;
        for (int death = 0; death < 2000; death++) {
            struct stream s;
            open_stream(&s, jitter);
            for (int i = 0; i < 100 + death % 700; i++) (void)next_beat(&s);
            int64_t last_us = INT64_C(3600000000) + due_us(s.beat - 1);
            int64_t died_us = last_us + (int64_t)(draw() * LIVENESS_BEAT_US);
            int64_t took_us = liveness_end_us(&s.live) + MEMBER_TICK_US - died_us;
            if (took_us > worst_us) worst_us = took_us;
            total_us += took_us;
        }
        print_message("jitter %s: silent death known after %lld ms on average, %lld at worst\n",
                      jitter_names[jitter], (long long)total_us / 2000000,
                      (long long)worst_us / 1000);
        assert_true(worst_us <= 1000000);
    }
}

static void living_peers_are_hardly_ever_called_silent(void **test_state)
{
    (void)test_state;
    uint64_t beats = (uint64_t)(node_hours * 14400), alarms[JITTERS] = {0};
    for (enum jitter jitter = STEADY; jitter < JITTERS; jitter++) {
        struct stream s;
        open_stream(&s, jitter);
        for (uint64_t i = 0; i < beats; i++) alarms[jitter] += next_beat(&s);
        print_message("jitter %s: %llu false alarms of one watcher in %.0f node-hours\n",
                      jitter_names[jitter], (unsigned long long)alarms[jitter], node_hours);
    }
    assert_int_equal(alarms[STEADY], 0);
    assert_int_equal(alarms[UNIFORM_200], 0);
    assert_true((double)alarms[BURSTS] <= node_hours / 2); /* once in a while it forgets */
}

/* With others to ask, slowness of one path alone is no death: three watchers, each with its own
 * jitter, tell each other when they heard of the peer last. */
static void asking_others_removes_the_rest(void **test_state)
{
    (void)test_state;
    enum { WATCHERS = 3 };
    struct stream s[WATCHERS];
    uint64_t beats = (uint64_t)(node_hours * 14400), alarms = 0;
    for (int i = 0; i < WATCHERS; i++) open_stream(&s[i], EXPONENTIAL);
    for (uint64_t beat = 0; beat < beats; beat++) {
        for (int i = 0; i < WATCHERS; i++) send_beat(&s[i]);
        for (int i = 0; i < WATCHERS; i++) {
            int64_t end_us = liveness_end_us(&s[i].live);
            for (int k = 0; k < WATCHERS; k++) /* asked in time, the answer takes 2 ms */
                if (k != i && s[k].arrives_us + 2000 < end_us)
                    liveness_vouch(&s[i].live, s[k].arrives_us);
        }
        for (int i = 0; i < WATCHERS; i++) alarms += take_beat(&s[i]);
    }
    print_message("jitter %s: %llu false alarms of three watchers that ask each other\n",
                  jitter_names[EXPONENTIAL], (unsigned long long)alarms);
    assert_int_equal(alarms, 0);
}

static void patience_follows_what_was_measured(void **test_state)
{
    (void)test_state;
    struct stream s;
    open_stream(&s, STEADY);
    for (int i = 0; i < 1000; i++) (void)next_beat(&s);
    assert_int_equal(liveness_margin_us(&s.live), LIVENESS_MARGIN_MIN_US);
    s.jitter = BURSTS;
    for (int i = 0; i < 1000; i++) (void)next_beat(&s);
    int64_t wide_us = liveness_margin_us(&s.live);
    assert_true(wide_us > LIVENESS_MARGIN_MIN_US);
    s.jitter = STEADY;
    for (int i = 0; i < 4000; i++) (void)next_beat(&s);
    assert_int_equal(liveness_margin_us(&s.live), LIVENESS_MARGIN_MIN_US);
    s.live.called_silent = true;
    liveness_start(&s.live, s.arrives_us + 3000000);
    assert_true(liveness_margin_us(&s.live) >= LIVENESS_MARGIN_NEW_US);
    for (int i = 0; i < 20; i++) (void)next_beat(&s);
    assert_int_equal(liveness_margin_us(&s.live), 2 * LIVENESS_MARGIN_MIN_US);
}

/* Our own pause: what lay in the socket meanwhile does not make the peer look late. */
static void own_pauses_teach_nothing(void **test_state)
{
    (void)test_state;
    struct stream s;
    open_stream(&s, STEADY);
    for (int i = 0; i < 100; i++) (void)next_beat(&s);
    int64_t now_us = s.arrives_us + 4000000;
    for (int i = 0; i < 16; i++, s.beat++) {
        liveness_heard(&s.live, now_us);
        liveness_beat(&s.live, due_us(s.beat), now_us, false);
    }
    assert_int_equal(liveness_margin_us(&s.live), LIVENESS_MARGIN_MIN_US);
}

int main(int argc, char **argv)
{
    if (argc > 1) node_hours = strtod(argv[1], NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_death_is_known_within_a_second),
        cmocka_unit_test(living_peers_are_hardly_ever_called_silent),
        cmocka_unit_test(asking_others_removes_the_rest),
        cmocka_unit_test(patience_follows_what_was_measured),
        cmocka_unit_test(own_pauses_teach_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
