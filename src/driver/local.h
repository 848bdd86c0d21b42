/* Driver `local`: the emulated clouds of one machine.
 *
 * What is emulated: providers, zones, prices, stock, boot times, preemptions, notices, bills and
 * the relative speed of the device models. What is real: a node is a real `shoal agent` process in
 * its own session with real workers, it dies by real signals, and the money adds up. Every message
 * about it says "emulated".
 *
 * World      A scenario file (docs/config.md) and a seed. Prices, stock, lifetimes and boot times
 *            are functions of (seed, time since t0); t0 is recorded at the first open, so a server
 *            that starts again finds the same world, further on.
 * Machines   Live on when the server is killed; a clean close lets them go. The clouds' own records
 *            are files, written before anything is answered:
 *              DATA/NAME/world.json        t0, which script events have happened
 *              DATA/NAME/nodes/KEY.json    one per node: what it is, its process, its bill
 *              DATA/NAME/machines/KEY/     the machine's disk: agent.log, status pages
 *              DATA/NAME/history.jsonl     what really happened, one line each (local_history.h)
 * Bill       From UP to GONE at the offer's price of each moment, per microsecond, rounded down
 *            once at the end of the sum.
 * Files      local_scenario (the file), local_market (prices and lifetimes), local_replay (CSV
 *            traces instead of processes), local_machine (processes), local_record (node files),
 *            local_script (the scripted events), local_node (life of one node), local (the ops).
 */
#ifndef SHOAL_DRIVER_LOCAL_H
#define SHOAL_DRIVER_LOCAL_H

#include "driver/driver_impl.h"

extern const struct driver_ops driver_local_ops;

#endif
