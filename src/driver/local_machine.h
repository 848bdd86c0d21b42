/* One emulated machine: a `shoal agent` process and everything that descends from it.
 *
 * Role       Starts the agent in its own session, so that it outlives a killed server; finds and
 *            signals all processes of the machine; reads the status pages of its workers.
 * Which      A process belongs to the machine if its environment holds SHOAL_MACHINE=<mark>, or if
 *            its session is that of the machine's agent. The mark is a random number per machine,
 *            inherited by all descendants: a process that leaves the session is still found. A
 *            process that clears its environment and leaves the session is not.
 * Pids       A pid alone proves nothing after a restart: it counts only with its start time.
 * Errors     Sentences from local_machine_start(); the rest cannot fail, only find nothing.
 */
#ifndef SHOAL_DRIVER_LOCAL_MACHINE_H
#define SHOAL_DRIVER_LOCAL_MACHINE_H

#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct local_machine {
    uint64_t mark;
    int32_t pid; /* of the agent, also its session; 0: not started */
    uint32_t reserved;
    uint64_t start_ticks; /* when the kernel started it, /proc/PID/stat field 22 */
};

struct local_machine_plan {
    const char *program; /* NULL: the running binary */
    const char *server_url, *server_file, *agent_token_file;
    const char *dir; /* the machine's disk, made if absent */
    const char *model, *zone;
    uint64_t node_key;
    uint32_t device_count, vram_mib;
    int64_t slot_us; /* emulated time of one slot; 0: not emulated */
};

uint64_t local_machine_new_mark(void);

/* machine->mark is set before; pid and start_ticks are written on success. */
bool local_machine_start(struct local_machine *machine, const struct local_machine_plan *plan,
                         struct error *ret_error) WARN_UNUSED;

/* After a restart between start and record: looks for the agent by its mark. */
bool local_machine_adopt(struct local_machine *machine);

/* The agent runs. Reaps it if it was our child and is dead. */
bool local_machine_agent_alive(const struct local_machine *machine);

/* Sends the signal to the agent alone. */
void local_machine_signal_agent(const struct local_machine *machine, int signal);

/* Sends the signal to every live process of the machine; returns how many there were. SIGKILL
 * needs a moment, and a fork may slip through one pass: call again until it returns 0. */
uint32_t local_machine_signal_all(const struct local_machine *machine, int signal);

/* Kills every process while a worker's status page says `reduce`. Returns true if it did; a worker
 * that left that phase before it could be stopped goes on untouched and false is returned. */
bool local_machine_kill_during_reduce(const struct local_machine *machine, const char *dir);

#endif
