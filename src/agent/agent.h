/* `shoal agent`: the pilot on one machine. It dials out to the server, runs the workers it is told
 * to run, and stops everything when its lease ends.
 *
 * Protocol   docs/protocol.md, "Agent and server". Reports are levels, sent every report_ms and at
 *            once when a worker changes phase; progress and log lines are sent again until the
 *            server has stored them.
 * Lease      Renewed by each understood reply. When it ends, workers get SIGTERM, a second later
 *            SIGKILL, and the agent exits 1. A machine that is paid for can then power itself off:
 *            the bound on any leak.
 * Exit       0 it was told to leave (by the server, SIGTERM or SIGINT) and has stopped everything;
 *            1 refused (wrong token) or the lease ended: one line says what to do; 2 usage.
 */
#ifndef SHOAL_AGENT_AGENT_H
#define SHOAL_AGENT_AGENT_H

int agent_main(int argc, char **argv);

#endif
