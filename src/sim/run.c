/* One run: trouble, heal, calm; and failed asserts of the core turned into failures with a seed.
 *
 * Main-like: an assert ends in abort(), which a signal handler turns into a jump back here. It is
 * raised by this very thread, at a known place (pool_assert_failed), so the jump is well defined;
 * the pool it left behind is not used again.
 */
#include "core/assert.h"
#include "sim/world.h"
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

enum { LOOK_EVERY = 256 };                /* occurrences between two looks at what is owed */
#define AFTERMATH_US (10 * SIM_MINUTE_US) /* late messages may still come when nothing is owed */

static sigjmp_buf back_to_run;

static void on_abort(int signal_number)
{
    (void)signal_number;
    siglongjmp(back_to_run, 1);
}

static void run_until(struct sim *s, int64_t end_us)
{
    while (sim_now_us(s) < end_us && sim_step(s)) {}
}

static void run_phases(struct sim *s)
{
    const struct sim_options *options = &s->options;
    run_until(s, SIM_START_US + options->safety_us);
    if (s->failed) return;
    sim_heal(s);
    int64_t end_us = sim_now_us(s) + options->liveness_us;
    char owed[300];
    bool owes = true;
    while (owes && sim_now_us(s) < end_us && !s->failed) {
        for (int i = 0; i < LOOK_EVERY && sim_step(s); i++) {}
        owes = sim_owes(s, owed, sizeof owed);
        if (owes) continue;
        run_until(s, sim_now_us(s) + AFTERMATH_US);
        owes = sim_owes(s, owed, sizeof owed); /* a late message may have begun something */
    }
    if (owes)
        sim_fail(s, "liveness", "%" PRId64 " h after the heal: %s",
                 (sim_now_us(s) - s->healed_us) / SIM_HOUR_US, owed);
    sim_finish(s);
}

bool sim_run(uint64_t seed, const struct sim_options *options, FILE *trace,
             struct sim_summary *ret_summary)
{
    struct sim *volatile s = sim_open(seed, options, trace);
    if (s == NULL) return false;
    struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_NODEFER}, old;
    (void)sigaction(SIGABRT, &action, &old); /* cannot fail: the number is valid */
    if (sigsetjmp(back_to_run, /* save mask */ 1) == 0)
        run_phases(s);
    else
        sim_fail(s, "assert", "the core failed an assert; the line is above");
    (void)sigaction(SIGABRT, &old, NULL);
    sim_summarize(s, ret_summary);
    sim_close(s);
    return true;
}
