/* Worlds made from a seed, driving the very same core as the daemon on a virtual clock.
 *
 * Role       A seed gives clouds, prices, machines, agents, workers, clients and a server that can
 *            crash; faults strike at rates per simulated time. Checkers compare what the core says
 *            with what is true. A failing seed replays exactly, on every machine.
 * Phases     Safety: trouble for safety_us; nothing may ever be wrong. Heal: all faults off.
 *            Liveness: everything still owed must come true within liveness_us.
 * True state and reports are kept apart: the world (world.h) is what is; events are what the server
 *            heard of it, perhaps late, twice, or never.
 * Threads    One. Several sims may live at once; they share nothing.
 * Errors     A failed check is kept in the sim (sim_failure); the first one ends the run.
 */
#ifndef SHOAL_SIM_SIM_H
#define SHOAL_SIM_SIM_H

#include "base/error.h"
#include "core/pool.h"
#include <stdio.h>

struct sim; /* one thread, one tree of random streams, one queue ordered by (at_us, tie) */

/* Every fault is a knob; 0 switches it off. X(name, what it does): printed, set and shrunk by name.
 * _ppm: per message or per thing; _us: mean or maximum, in simulated time. */
#define SIM_KNOBS(X)                                                                               \
    X(reply_loss_ppm, "answers and reports that never arrive")                                     \
    X(reply_copy_ppm, "answers and reports that arrive twice")                                     \
    X(reply_late_ppm, "answers and reports that arrive up to late_us_max later, out of order")     \
    X(command_loss_ppm, "commands that never arrive")                                              \
    X(command_copy_ppm, "commands that arrive twice")                                              \
    X(stockout_ppm, "asks for a node that are refused although there was stock")                   \
    X(stockout_mean_us, "mean time between the stock-outs of an offer")                            \
    X(quota_nodes, "nodes that one cloud lets us have at once")                                    \
    X(ghost_start_ppm, "asks for a node that are refused, yet the node starts")                    \
    X(meter_missing_ppm, "clouds that never tell what they bill")                                  \
    X(preempt_mean_us, "mean life of a spot node")                                                 \
    X(notice_us_max, "longest notice before a preemption")                                         \
    X(machine_crash_mean_us, "mean life of a machine until it fails")                              \
    X(agent_crash_mean_us, "mean time between crashes of an agent")                                \
    X(agent_silence_mean_us, "mean time between silences of an agent")                             \
    X(agent_drift_ppm, "how far an agent's clock runs wrong")                                      \
    X(agent_dead_ppm, "nodes whose agent never starts")                                            \
    X(worker_failure_mean_us, "mean life of a worker until it fails by itself")                    \
    X(server_crash_mean_us, "mean time between crashes of the server")                             \
    X(journal_tail_loss_ppm, "crashes that tear the uncommitted tail of the journal")              \
    X(list_lag_us_max, "how old a cloud's answer to a question may be")                            \
    X(release_us_max, "how long a cloud takes to end a node")                                      \
    X(price_jump_mean_us, "mean time between price jumps of an offer")                             \
    X(stranger_count, "machines of an older life of the server that still run")                    \
    X(short_machine_ppm, "machines with fewer devices than were bought")                           \
    X(crowd_count, "devices of one crowd: a job so large that a step has more to say than fits")   \
    X(cancel_ppm, "jobs that their owner cancels")                                                 \
    X(repeat_ppm, "submits that are sent again after they were acknowledged")                      \
    X(drain_mean_us, "mean time between an operator's drains")                                     \
    X(impossible_ppm, "jobs that ask for too much")                                                \
    X(worker_stall_mean_us, "mean time until a worker holds its job up")                           \
    X(match_round_us, "running jobs are matched anew so often")                                    \
    X(overbill_ppm, "offers that bill more than they quote")                                       \
    X(mig_ppm, "jobs that ask for an instance of a partitioned device")

struct sim_options {
    struct pool_config pool; /* drawn too: limits of 2 or 3 hit every boundary */
    int64_t jobs_count, clouds_count, zones_count, models_count, offers_count;
    int64_t delay_us_min, delay_us_max, late_us_max, boot_us_max, price_us, report_us;
    int64_t safety_us, liveness_us;
    uint32_t check_every; /* pool_check() at each n-th step */
#define X(name, what) int64_t name;
    SIM_KNOBS(X)
#undef X
};

/* Half of the knobs are 0 in a typical draw; half of the draws have tight limits. */
struct sim_options sim_options_swarm(uint64_t seed);
void sim_options_print(const struct sim_options *options, FILE *stream);
/* The knob of that name (or "jobs"), NULL if there is none. */
int64_t *sim_options_knob(struct sim_options *options, const char *name);

struct sim_summary {
    uint64_t events, digest, marks;
    uint64_t crashes, nodes, decisions; /* restarts survived, nodes ever asked for */
    int64_t simulated_us;
    bool failed;
    char checker[32], failure[400];
};

/* NULL when memory is short. trace: where the timeline goes, or NULL. */
struct sim *sim_open(uint64_t seed, const struct sim_options *options, FILE *trace);
bool sim_step(struct sim *s);   /* delivers the next occurrence; false: nothing left, or failed */
void sim_heal(struct sim *s);   /* all faults off: from now on, progress is owed */
void sim_finish(struct sim *s); /* what must hold at the end of a run */
bool sim_owes(struct sim *s, char *ret_text, size_t text_bytes); /* what is still owed, if any */
int64_t sim_now_us(const struct sim *s);
void sim_summarize(const struct sim *s, struct sim_summary *ret_summary);
void sim_close(struct sim *s);

/* Opens, runs both phases, closes. A failed assert of the core is caught and reported as a
 * failure like any other. False when memory is short. */
bool sim_run(uint64_t seed, const struct sim_options *options, FILE *trace,
             struct sim_summary *ret_summary);

/* Plays a scenario file (docs/simulation.md) and compares its timeline. The sentence of a failure
 * says what was expected and did not come. */
bool sim_scenario(const char *path, FILE *trace, struct error *ret_error);

int sim_main(int argc, char **argv); /* the verb `shoal sim` */

#endif
