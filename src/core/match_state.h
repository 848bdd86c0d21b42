/* What match.c and match_gang.c share; nobody else includes it. match.h is the manual. */
#ifndef SHOAL_CORE_MATCH_STATE_H
#define SHOAL_CORE_MATCH_STATE_H

#include "core/match.h"

struct match_move {
    int64_t gain; /* per device */
    uint32_t job; /* MATCH_OUT = none */
};

struct match_type {
    uint32_t capacity, free;
    uint32_t first, members; /* members[first, first + members): jobs with a device here */
    struct match_move moves[MATCH_TYPES_MAX + 1]; /* to each type, [type_end]: to wait */
    int64_t exit_gain;  /* of giving up one device here: 0 when one is free, else <= 0 */
    uint32_t exit_next; /* this type: free; type_end: a job leaves; else: a job moves there */
    bool stale;         /* moves are to be weighed again */
};

struct match {
    uint32_t job_end, type_end, device_end;
    int64_t *value;    /* [job_end * type_end], per device */
    uint32_t *units;   /* [job_end * type_end], devices held */
    uint32_t *width;   /* [job_end]; 0 = not known */
    uint32_t *waiting; /* [job_end]: width = waiting + sum of units */
    uint32_t *members; /* [device_end] */
    struct match_type types[MATCH_TYPES_MAX];
    int64_t bound; /* valid when settled */
    bool stale;    /* exits are to be weighed again */
    bool settled;
};

static inline const int64_t *match_value(const struct match *match, uint32_t job)
{
    return &match->value[(size_t)job * match->type_end];
}

static inline int64_t *match_value_row(struct match *match, uint32_t job)
{
    return &match->value[(size_t)job * match->type_end];
}

static inline uint32_t *match_units(struct match *match, uint32_t job)
{
    return &match->units[(size_t)job * match->type_end];
}

/* Moves devices between waiting and a type; there is room. */
void match_put(struct match *match, uint32_t job, uint32_t type, uint32_t units);
void match_take(struct match *match, uint32_t job, uint32_t type, uint32_t units);

#endif
