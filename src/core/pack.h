/* Packing: which node takes a worker so that the devices left over stay useful.
 *
 * Role       Knows nodes by what is free on them and learns from what arrives. The best node for a form
 *            has the highest
 *                floor((F before - F after) / PACK_QUANTUM_MILLI) - price of its model for the form,
 *            F = pack_mix.h, price = pack_price.h (workers without devices pay none); ties go to the
 *            node of the smallest rank. CPU and memory are hard limits, and what fits somewhere is never
 *            refused.
 * Devices    A share tries each level of free milli that fits and takes the best device (the first of
 *            equals), whole devices are the first free ones.
 * Speed      Scores are remembered per form; a change of a node is one entry in a ring, read by a form
 *            when it is asked for next. Nodes lie in blocks of one model; the best of each block and of
 *            each model is remembered, so a question costs what changed since the last one. The caller
 *            is asked about the best of all first; only when it does not allow that one, about the best
 *            of each block.
 * Unit       Free amounts change through pack_take() and pack_give() (one worker), or pack_node_set()
 *            (what an agent saw). Who arrives and leaves is told apart from that: pack_arrived() also
 *            for those that found no room, pack_left() when they end or give up.
 * Memory     The caller's block: pack_bytes(limits), aligned to 8. About 4 bytes a form and node.
 * Bounds     Nodes: pack_node_add() refuses. Forms remembered: the one unused longest makes room.
 */
#ifndef SHOAL_CORE_PACK_H
#define SHOAL_CORE_PACK_H

#include "core/pack_mix.h"
#include "core/pack_price.h"

enum {
    PACK_QUANTUM_MILLI = 60, /* coarse scores gather the load: FGD's 100 levels, linear */
    PACK_PRICE_EVERY = 8,    /* arrivals between two looks at the prices */
    PACK_BLOCK = 32,         /* nodes */
};

struct pack_limits {
    uint32_t nodes_max, forms_max, models_max, reserved;
};

struct pack_node {
    uint32_t cpu_milli, memory_mib;         /* free */
    uint32_t cpu_all_milli, memory_all_mib; /* when empty */
    uint32_t model, devices;
    uint32_t rank, used; /* ties; used 0 = an empty place */
    uint16_t free_milli[PACK_DEVICES_MAX];
    int64_t measure;  /* F as it is */
    uint64_t changed; /* the last entry of the ring about this node */
    struct pack_levels levels;
};

/* Where a worker goes: bit i of devices = device i gives milli of the form. */
struct pack_place {
    uint32_t node, devices;
    int32_t score;
};

struct pack;

size_t pack_bytes(const struct pack_limits *limits);
struct pack *pack_init(void *memory, const struct pack_limits *limits);

/* A node with everything free. Returns its number, SLOT_NONE when full. models_max > model. */
uint32_t pack_node_add(struct pack *pack, uint32_t model, uint32_t devices, uint32_t cpu_milli,
                       uint32_t memory_mib, uint32_t rank);
void pack_node_remove(struct pack *pack, uint32_t node); /* whatever runs there is gone */
void pack_node_set(struct pack *pack, uint32_t node, uint32_t cpu_milli, uint32_t memory_mib,
                   const uint16_t *free_milli);
const struct pack_node *pack_node(const struct pack *pack, uint32_t node);

/* Returns the set of models the worker is confined to, for pack_left(): nodes that come and go change
 * what it would be later. SLOT_NONE: not counted. */
uint32_t pack_arrived(struct pack *pack, const struct pack_form *form);
/* lived_ppm: the part of the planning window it had been there; above 1 000 000 counts as that. */
void pack_left(struct pack *pack, uint32_t set, const struct pack_form *form, uint32_t lived_ppm);
void pack_left_milli(struct pack *pack, uint32_t set, uint64_t milli, uint32_t lived_ppm);
/* After reading a snapshot, for each worker that is there; and how many sets there are. */
void pack_present(struct pack *pack, uint32_t set, uint64_t milli);
uint32_t pack_sets(const struct pack *pack);
void pack_half_window(struct pack *pack); /* call twice a window: what left long ago fades */

/* False: it fits nowhere. Changes nothing but what is remembered. */
bool pack_best(struct pack *pack, const struct pack_form *form, struct pack_place *ret_place);
/* Among nodes of these models that the caller allows; allows gets the node's rank, NULL: all. */
struct pack_question {
    uint64_t models;
    bool (*allows)(void *context, uint32_t rank);
    void *context;
};
bool pack_ask(struct pack *pack, const struct pack_form *form, const struct pack_question *question,
              struct pack_place *ret_place);
/* The score of one node, without remembering: the definition. False: does not fit. */
bool pack_score(const struct pack *pack, uint32_t node, const struct pack_form *form,
                struct pack_place *ret_place);
void pack_take(struct pack *pack, const struct pack_form *form, const struct pack_place *place);
void pack_give(struct pack *pack, const struct pack_form *form, const struct pack_place *place);
/* Devices of the largest node of these models; only of models with so much free, over all nodes. */
uint32_t pack_devices_max(const struct pack *pack, uint64_t models, uint64_t free_milli);
/* What is learnt, as part of a walk over the state (walk.h). Nodes are not: they follow from the pool's,
 * and are added anew after reading. */
struct walk;
void pack_walk(struct walk *w, struct pack *pack);
/* Free and all devices of the nodes, in milli. */
uint64_t pack_free_milli(const struct pack *pack);
uint64_t pack_capacity_milli(const struct pack *pack);

#endif
