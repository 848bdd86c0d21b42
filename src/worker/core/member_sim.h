/* Groups of 1 to 64 workers through random joins, leaves, crashes (closed or silent), broken links,
 * delays and leader deaths, on a virtual clock, with the real machine and the real reduction.
 *
 * Sharded     In half of the worlds the momentum is two moments that the group shards and mirrors;
 *             what a node does not hold is NaN there. Owner and mirror often die together: then the
 *             store, which also holds the first step, is fallen back to.
 * Gentle      In some sharded worlds never more than one node crashes at a time, whoever leaves and
 *             joins in the same moment: then no moments may ever be lost.
 * Split       In others one node at a time is cut off from all for up to nine seconds, and nothing else
 *             happens: it may fall back, the others may never lose a step by it.
 * Loading     A group that begins at a checkpoint reads it together; one node in six cannot read its part,
 *             nor can anybody once the store has a newer one.
 * Looking     Whoever moves data looks for it after work of its own, after data that came, and when
 *             member_take_data_due() says so; never for another reason.
 * Properties  Final weights have the bits of the one-worker run. Every mean holds each slot exactly
 *             once. Every step is reported, always with the same loss, unless those who saw it end
 *             all died before they could tell (sim_lose_reports()). Everybody ends, in bounded virtual
 *             time, after the trouble stops.
 * Not modelled  Torn frames (transport tests and the fuzzer), partial partitions that never heal.
 * Files       member_sim.c: time, links, the run. member_sim_node.c: what a worker's shell does.
 *             member_sim_model.c: the tiny model, and the run on one worker. member_sim_trouble.c: what
 *             goes wrong when. member_sim_check.c: what must hold. member_sim_test.c: the tests.
 */
#ifndef SHOAL_WORKER_CORE_MEMBER_SIM_H
#define SHOAL_WORKER_CORE_MEMBER_SIM_H

#include "worker/core/member.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum {
    NODES = 100, /* ever alive in one run */
    ALIVE_MAX = 64,
    SMALL_NODES = 40, /* of most runs: more happens to each */
    SMALL_ALIVE = 16,
    TENSORS = 4, /* three params and the loss */
    ELEMENTS = 300 + 5 + 600 + 1,
    WEIGHTS = 2 * (ELEMENTS - 1), /* params, momentum */
    BLOCKS = 7,
    MOMENTS = 2,
    SHARES_KEPT = 8,
    IN_FLIGHT = 4,
    STEPS_MAX = 64,
    SHORT_SEEDS = 1000,
    GENTLE_SEEDS = 1000000, /* from here on all are gentle */
    SPLIT_SEEDS = 2000000,  /* from here on all are split */
    FRAME_MAX = 40000,
    HEAP_MAX = 65536,
};
#define TROUBLE_US  INT64_C(40000000)
#define REPORT_US   INT64_C(300000)
#define DEADLINE_US INT64_C(400000000)

enum occurrence_kind {
    ON_TICK,
    ON_FRAME,
    ON_WORK,
    ON_READY, /* a part of the slot being computed is final */
    ON_LINK_UP,
    ON_LINK_DOWN,
    ON_TROUBLE,
    ON_CRASH, /* both: of this node, soon after the trouble that chose it */
    ON_LEAVE,
    ON_HEAL,
    ON_COPIED,
    ON_WRITTEN
};

struct occurrence {
    int64_t at_us;
    uint64_t order;
    enum occurrence_kind kind;
    uint32_t node, peer, epoch; /* epoch: of the link, or of the node's work */
    enum wire_kind frame;
    struct wire_tag saved;
    size_t count;
    uint8_t *bytes;
};

struct node {
    bool alive, was;
    bool cut_off, was_cut_off;      /* now; since it was level with the others last */
    bool watching, unsure, flipped; /* as looked at last; a bit of its state was changed */
    bool blind;                     /* cannot read its part of a checkpoint, though all of it */
    uint64_t reached;
    struct wire_tag looked_turn; /* when its state was looked at last, and its place then */
    uint64_t looked_position;
    struct member member;
    uint32_t posts; /* on its board, so far */
    size_t board_bytes;
    _Alignas(8) uint8_t board[WIRE_BOARD_BYTES];
    struct member_step log_step[STEPS_MAX];
    struct wire_turn log_turn[STEPS_MAX];
    float weights[WEIGHTS], initial[WEIGHTS], gradient[ELEMENTS];
    float moment[MOMENTS][ELEMENTS], next_weights[ELEMENTS];
    int16_t scale[BLOCKS];
    struct transfer_segment segment[2];
    uint8_t shadow[sizeof(float) * WEIGHTS + sizeof(int16_t) * BLOCKS];
    uint32_t slot_us, work, ready_from, slot_epoch;
    bool slot_dropped;
    struct recorder recorder;
    enum member_want doing;
    struct { /* copies of checkpoints in flight */
        struct wire_tag tag;
        float weights[WEIGHTS], moment[MOMENTS][ELEMENTS];
        struct shard_map map;
        int16_t scale[BLOCKS];
    } share[SHARES_KEPT]; /* a ring: what a dead node wrote may still count */
    uint32_t share_next;
};

struct link { /* one direction of one connection */
    bool up;
    bool looks; /* the sender has not yet seen that there is no data to send */
    uint32_t epoch, in_flight;
    int64_t last_us; /* arrival of the frame before: order is kept */
    int64_t down_us; /* when this end saw it lost last */
    bool board;      /* beats come by memory that both share */
    uint32_t posts_seen;
};

struct world {
    uint64_t random;
    int64_t now_us;
    uint64_t order;
    uint32_t slots, steps, gang, node_count, save_every, heap_count;
    uint32_t nodes_max, alive_max;
    bool calm, spiky, noisy, sharded, gentle, split;
    bool boards;        /* hosts of several nodes */
    bool lonely, taken; /* see lonely_trouble() */
    bool flips; /* nothing happens but joins, and in what comes to a joiner a bit flips, once */
    bool
        spoils; /* the same, but for bits of moments that somebody owns or mirrors, again and again */
    bool sticky; /* now and then a program is stuck in its slot for seconds */
    struct layout layout;
    uint64_t start[BLOCKS + 1];
    uint32_t tensor_block[TENSORS + 1];
    struct node node[NODES];
    struct link link[NODES][NODES];
    struct occurrence heap[HEAP_MAX];
    bool loss_known[64], store_full;
    int64_t report_us[64][NODES], commit_us[64][NODES]; /* when a node told of, applied a step */
    bool told[64][NODES]; /* it told of the step, whether that came through or not */
    uint64_t stored;      /* all steps below are with the server for good */
    float loss[64], final[WEIGHTS], final_moment[MOMENTS][ELEMENTS];
    float weights[STEPS_MAX][WEIGHTS]; /* of each position, in the run on one worker */
    int16_t scale[STEPS_MAX][BLOCKS];
    double norm[64]; /* squared, of each step's mean gradient */
    uint64_t store_position;
    float store_weights[WEIGHTS], store_moment[MOMENTS][ELEMENTS];
    uint32_t fallbacks, recuts, seals;
    int16_t store_scale[BLOCKS];
    uint32_t done_count, crashes, joins, leaves, glitches, damages, redone, stuck, left_out;
    uint32_t watched; /* states that came while the others computed */
    uint32_t outvoted, flipped, founds, loads, load_failures;
    uint32_t spoiled, spoiled_mirrors, disputes;
    uint64_t left_at;
    const char *wrong;
};

/* Member of the group of node `index`. */
static inline uint64_t sim_id_of(uint32_t index)
{
    return index + 1;
}

/* A world of this seed, not started: its switches may be changed. */
void sim_init(struct world *w, uint64_t seed);
/* NULL: all properties held. quiet: no trouble at all. */
const char *sim_run(struct world *w, bool quiet);

uint64_t sim_mix(uint64_t z);
uint32_t sim_below(struct world *w, uint32_t end); /* random, 0 .. end - 1 */
void sim_later(struct world *w, int64_t delay_us, struct occurrence o);
void sim_pump(struct world *w, uint32_t from, bool flush); /* flush: also beyond IN_FLIGHT */
void sim_quit(struct world *w, uint32_t index, bool done);
uint32_t sim_alive_count(const struct world *w);
void sim_join(struct world *w);
void sim_lose_link(struct world *w, uint32_t a, uint32_t b);

/* member_sim_node.c */
void sim_serve(struct world *w, uint32_t index); /* what the shell does after every event */
void sim_hand_in(struct world *w, struct node *node);
void sim_work(struct world *w, uint32_t index); /* the work that was taken is done */

/* member_sim_trouble.c */
void sim_trouble(struct world *w);
/* closed: the kernel tells the peers; otherwise they must notice the silence. */
void sim_crash(struct world *w, uint32_t index, bool closed);

/* member_sim_model.c */
float sim_compute(const struct world *w, const float *weights, uint64_t step, uint32_t slot,
                  float *gradient);
void sim_apply(float *weights, const float *mean);
void sim_apply_sharded(float *weights, float (*moment)[ELEMENTS], const float *mean, uint64_t first,
                       uint64_t end); /* two moments, for elements [first, end) */
void sim_reference(struct world *w);  /* final bits and norms of the run on one worker */

/* member_sim_check.c: what is wrong is said in w->wrong. */
void sim_check_cover(struct world *w, const struct node *node);
bool sim_holds_block(const struct member *m, uint32_t block); /* its moments */
void sim_check_moments(struct world *w, const struct node *node);
void sim_check_state(struct world *w, struct node *node); /* weights and scales of each position */
void sim_watch_progress(struct world *w, struct node *node);
void sim_lose_reports(struct world *w, uint32_t dying);
uint64_t sim_first_not_stored(struct world *w); /* the server's answer */
bool sim_is_told(const struct world *w, uint32_t step);

#endif
