/* `shoal server`: the daemon around the pure core.
 *
 * Role       One process, one loop. HTTP requests, driver answers and timers become events; events
 *            are committed to the journal, stepped, and what the core says is stored, streamed and
 *            carried out (see pump.h).
 * Usage      shoal server [--config shoal.yaml] [--data DIR] [--listen HOST:PORT]
 *            [--allow-remote] [--journal-max-bytes N]
 * Files      docs/operations.md: what lies in the data folder.
 * Stop       SIGTERM or SIGINT: commit, let every node go, move the WAL into the file, exit 0. With
 *            --keep-nodes nodes stay for the next start, as they do after kill -9.
 * Exit       0 stopped as told; 1 could not start (one line: what, where, what to do); 2 usage.
 */
#ifndef SHOAL_SERVER_SERVER_H
#define SHOAL_SERVER_SERVER_H

int server_main(int argc, char **argv);
/* `shoal replay`: the journal once more, beside what was recorded (server/replay.h). */
int replay_main(int argc, char **argv);

#endif
