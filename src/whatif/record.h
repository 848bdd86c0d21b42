/* What the report draws: who was where when. Filled by one world, for one seed. */
#ifndef SHOAL_WHATIF_RECORD_H
#define SHOAL_WHATIF_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum record_kind {
    RECORD_NODE_UP = 1, /* node, offer */
    RECORD_NODE_END,    /* node; value 1: taken by its provider, 2: let go after a notice */
    RECORD_WORKER,      /* node, job; value: devices */
    RECORD_WORKER_END,  /* node, job */
    RECORD_PRICE,       /* offer; value: micro-dollars an hour */
    RECORD_JOB_WAITS,   /* job */
    RECORD_JOB_STARTS,  /* job */
    RECORD_JOB_ENDS,    /* job */
    RECORD_RATE,        /* job; value: NCU of work done, milli; node: NCU of its devices, milli */
};

struct record_row {
    int64_t at_us; /* since the beginning */
    uint32_t kind, node, job, offer;
    int64_t value;
};

struct recorder {
    struct record_row *rows;
    uint32_t count, room;
    bool failed;
    int64_t end_us;
};

void record_add(struct recorder *recorder, struct record_row row); /* NULL: nothing */
void record_free(struct recorder *recorder);

#endif
