/* A made-up disk for tests: what a power cut, a full disk or a failing call leave behind.
 *
 * Model      Every file and folder has what programs see and what the platter holds. sync() brings a
 *            file's bytes to the platter, sync_folder() a folder's entries; nothing else does, and
 *            neither does the other's work. disk_sim_crash() loses of the rest what it likes: each
 *            512-byte sector of a file, its length, each new, renamed or removed entry by itself; a
 *            rename is one change. So it is at least as unkind as ext4, XFS or NFS.
 * Faults     Every changing call counts. The n-th one can fail (a write after some of its bytes), or
 *            be the one in which the power goes: then it and every later call fails until
 *            disk_sim_crash().
 * Repeatable The same seed and the same calls give the same disk. Not for several threads.
 */
#ifndef SHOAL_WORKER_STORE_DISK_SIM_H
#define SHOAL_WORKER_STORE_DISK_SIM_H

#include "worker/store/disk.h"

struct disk_sim;

struct disk_sim *disk_sim_new(uint64_t seed);
void disk_sim_free(struct disk_sim *sim);
struct disk disk_sim_disk(struct disk_sim *sim);
/* The n-th changing call from now (1: the next) fails with errno_value; 0: none does. */
void disk_sim_fail_at(struct disk_sim *sim, uint64_t nth, int errno_value);
void disk_sim_cut_at(struct disk_sim *sim, uint64_t nth); /* power goes in that call; 0: never */
uint64_t disk_sim_calls(const struct disk_sim *sim);      /* changing ones, so far */
void disk_sim_crash(struct disk_sim *sim);                /* power is back: what is left? */
/* Turns a byte over on the platter and in view: a bit rots. False: no such file or byte. */
bool disk_sim_rot(struct disk_sim *sim, const char *path, uint64_t offset);

#endif
