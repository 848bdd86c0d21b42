/* The folder out/demo and what is written into it before the story begins.
 *
 * Role       Paths, the lock that keeps two demos apart, configuration and job file, the text.
 * Files      lock, text.txt, shoal.yaml, job.yaml, data/ (the server's, with the swarm's
 *            checkpoints), control/ (checkpoints of the single worker), report.html and
 *            summary.json (the results). A new run removes all but the lock.
 */
#ifndef SHOAL_DEMO_STAGE_H
#define SHOAL_DEMO_STAGE_H

#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

enum { STAGE_PATH_BYTES = 512 };

struct stage_options {
    const char *text; /* NULL: the text of the Debian package bible-kjv-text */
    uint64_t steps, slots;
    uint32_t checkpoint_every, devices_min, devices_max;
};

/* Paths are absolute, so that they mean the same in every process. */
struct stage {
    char folder[STAGE_PATH_BYTES - 32], build[STAGE_PATH_BYTES - 64];
    char shoal[STAGE_PATH_BYTES], trainer[STAGE_PATH_BYTES];
    char config[STAGE_PATH_BYTES], job[STAGE_PATH_BYTES], data[STAGE_PATH_BYTES];
    char text[STAGE_PATH_BYTES], control[STAGE_PATH_BYTES];
    char report[STAGE_PATH_BYTES], summary[STAGE_PATH_BYTES];
    int64_t slot_us; /* what a slot takes on one NCU, from the scenario */
    uint16_t port;
    int lock_fd;
};

/* Words of the trainer's command line that both runs share. A head of its own: with the tied one
 * the loss jumps for a step or two early on, which looks like damage and is none. */
extern const char *const stage_trainer_words[];
enum { STAGE_TRAINER_WORDS = 3 };

#define STAGE_PRICE_THRESHOLD 0.7 /* of the pool: share of the on-demand price */

/* Finds the programs beside this one and takes the lock. */
bool stage_open(struct stage *stage, struct error *ret_error) WARN_UNUSED;
/* Clears the folder, makes the text, picks a port, writes shoal.yaml and job.yaml. */
bool stage_set(struct stage *stage, const struct stage_options *options,
               struct error *ret_error) WARN_UNUSED;
void stage_close(struct stage *stage);

#endif
