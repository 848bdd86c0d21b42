/* The command line of `shoal agent`, checked. */
#ifndef SHOAL_AGENT_OPTIONS_H
#define SHOAL_AGENT_OPTIONS_H

#include "base/error.h"
#include <stdint.h>

struct agent_options {
    const char *server_url, *token_file; /* borrowed from argv, like all texts here */
    const char *server_file;             /* NULL, or where to look for a new address */
    const char *zone, *rack;             /* "" when not given */
    const char *sysfs;                   /* where topology is read (layout.h) */
    const char *data_dir;                /* NULL: a folder of its own under /tmp */
    char device_model[128];              /* as given, or the name of the processor */
    uint64_t node_key;
    uint32_t device_count, vram_mib;
    int64_t emulate_slot_us; /* > 0: the local driver pads slots; said in the log */
    int64_t lease_ms;        /* until the first reply tells another */
};

enum agent_options_result { AGENT_OPTIONS_RUN = 1, AGENT_OPTIONS_HELP, AGENT_OPTIONS_WRONG };

/* HELP: the usage was printed. WRONG: ret_error says what. */
enum agent_options_result agent_options_parse(int argc, char **argv,
                                              struct agent_options *ret_options,
                                              struct error *ret_error);

#endif
