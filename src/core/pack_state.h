/* Inside packing (pack.h): its memory, for the files of pack*.c alone. */
#ifndef SHOAL_CORE_PACK_STATE_H
#define SHOAL_CORE_PACK_STATE_H

#include "core/pack.h"

#define SCORE_NONE INT32_MIN

/* The best of a block or of a model for a form; node SLOT_NONE: to be looked for. */
struct best {
    int32_t score;
    uint32_t node, rank;
};

/* What is remembered for a form. */
struct memo {
    uint64_t read, asked; /* entries of the ring already read; when it was last asked for */
    uint64_t layout;      /* nodes that had come and gone */
    uint32_t version;     /* of the measure */
};

/* The most any node of a model has of each. */
struct largest {
    uint32_t devices, cpu_milli, memory_mib;
};

struct pack {
    struct pack_limits limits;
    struct pack_mix mix;
    struct pack_price price;
    struct largest largest[PACK_MODELS_MAX];
    struct pack_forms forms;
    struct memo *memos; /* of each form */
    int32_t *scores;    /* [forms][nodes], prices not in */
    struct best *bests; /* [forms][blocks] */
    struct best *tops;  /* [forms][models], prices not in */
    struct pack_node *nodes;
    uint32_t *ranks;                       /* of the nodes, side by side */
    uint32_t *block_model;                 /* SLOT_NONE = not in use */
    uint32_t *block_next;                  /* of the same model */
    uint32_t model_block[PACK_MODELS_MAX]; /* the first of each model */
    uint32_t *ring;                        /* nodes that changed */
    uint64_t changes, questions, arrivals;
    uint64_t layout; /* counts nodes that come and go */
    uint32_t places, blocks, blocks_used, ring_mask;
};

/* The score without the price; SCORE_NONE: does not fit. */
int32_t pack_plain_score(const struct pack *pack, const struct pack_node *node,
                         const struct pack_form *form, uint32_t *ret_devices);
/* What the form pays on each model; NULL: nothing anywhere. */
const uint8_t *pack_prices_of(const struct pack *pack, const struct pack_form *form);

#endif
