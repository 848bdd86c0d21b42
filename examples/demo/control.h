/* The same training, undisturbed, on one worker of this machine: what the swarm is measured
 * against.
 *
 * control_start() runs the trainer alone, with the same text, steps and slots; control_look() reads
 * how far it is from what it prints. The hash is over all weights.
 */
#ifndef SHOAL_DEMO_CONTROL_H
#define SHOAL_DEMO_CONTROL_H

#include "cli/term.h"
#include "demo/record.h"
#include "demo/stage.h"

/* Until it has finished; shows progress. */
bool control_run(const struct stage *stage, const struct stage_options *options,
                 const struct term *term, struct record_state *ret_state,
                 struct error *ret_error) WARN_UNUSED;

/* Verifies the newest checkpoint in a folder with `shoal ckpt digest` and takes its two hashes. */
bool control_hash_checkpoint(const struct stage *stage, const char *folder,
                             struct record_state *ret_state, struct error *ret_error) WARN_UNUSED;

/* "weights sha256 HEX" */
bool control_read_hash(const char *line, char ret_sha256[RECORD_SHA_BYTES]);

#endif
