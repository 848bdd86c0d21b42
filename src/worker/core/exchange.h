/* One all-reduce over the group: partial sums to the chunk's owner, float32 results back.
 *
 * Role       Pure. Counts what has come and gone and lays out messages that lie in place: a header
 *            and a few spans that point straight into the arrays. Whoever owns the links pulls
 *            messages for a member when there is room, so nothing is queued and an abort is one
 *            call.
 * Chunks     A chunk is what one member owns: the k-th near equal part of all blocks, or with a map
 *            (shard.h) its runs of blocks; it may be empty. A chunk is counted in pieces of at most
 *            EXCHANGE_PIECE_BLOCKS blocks, which come and go in any order.
 * Tree       For each chunk the members form a tree with the owner at its root. With all in one
 *            zone everybody is a child of the owner. Across zones one member per zone, another for
 *            each chunk, is the relay: it merges the parts of its zone and sends one, and hands one
 *            copy of the result on, so a chunk crosses between two zones once each way.
 * Steps      1. exchange_begin(): new turn, all cursors back. Parts of faster members may arrive
 *               from now on.
 *            2. exchange_own(): which slots own sums hold, or will; exchange_blocks_ready(): these
 *               blocks of them are final. Parts of ready pieces leave at once, while others are
 *               still being computed. exchange_ready() is both, for all blocks.
 *            3. A block that has everybody's part is finalised by its owner: means, next scale, sum
 *               of squares.
 *            4. They are gathered to all. exchange_is_done(): mean[], next_scale[] and square[] are
 *               whole.
 * Shards     With a map the means go only to the mirror of their block; the others get the next
 *            scales and sums of squares, and the mean loss. exchange_is_done() then says: all means
 *            of blocks that I own or mirror are here. What becomes of them is up to member_shard.h.
 * Watchers   Members that get all that comes out and put nothing in: no slots, no chunk, and no place in
 *            the trees. Owners send them the means directly.
 * Rule       Each part says which slots it holds. A chunk is finalised only when the sets of all
 *            parts are known to be disjoint and to cover every slot: a slot cannot be missing from
 *            or twice in a mean. If they do not, the exchange is broken.
 * Keeps      Own sums are only read, so a broken exchange is begun again from them.
 * Check      Each message carries a sum of its words that was made when they were written, and the
 *            receiver compares it in the same pass that adds them: a part that changed on its way
 *            or in memory is refused, and `corrupt` names its sender.
 * Plain      With is_plain in both sums the words are float32 and add up as they come. Same
 *            messages, same bytes; the result depends on the order. For comparison only.
 *
 * Messages   For those who move them (links). exchange_next() gives one message for one member:
 *                header[EXCHANGE_HEADER_BYTES]   opaque, always sent whole
 *                span[0 .. span_count-1]         the payload, payload_bytes in all
 *            The receiver hands the same header and the payload, contiguous and at a 16-byte
 *            boundary, to exchange_take(), which adds from it in place; afterwards the memory is
 *            the link's again. A payload is never longer than EXCHANGE_PAYLOAD_MAX; it may be
 *            empty.
 *            Messages of one pair must arrive in the order given, each once. None is given again:
 *            a link that loses one must report the member as down.
 *            The spans point into live arrays (and into `extra` of the message itself), which stay
 *            as they are until the turn changes (exchange_begin(), exchange_abort()). Then, under
 *            the same lock, whoever moves messages makes what is half sent void (link_void()): the
 *            receiver drops it, it never reaches exchange_take(). The price of not copying.
 *            Several messages to one member may be under way; each needs its own struct.
 */
#ifndef SHOAL_WORKER_CORE_EXCHANGE_H
#define SHOAL_WORKER_CORE_EXCHANGE_H

#include "worker/core/quant.h"
#include "worker/core/shard.h"
#include "worker/core/span.h"

/* 256 KB of words: the larger, the fewer messages; with its sums it still fits a core's cache. */
enum { EXCHANGE_PIECE_BLOCKS = 256 };

struct exchange_setup {
    const struct layout *layout;
    const int16_t *scale; /* [blocks] of the step in work; the caller's, written between steps */
    float *mean;          /* [elements] the caller's */
    uint32_t slot_count;
    uint32_t norm_end; /* blocks [0, norm_end) count in the norm */
    enum quant_isa isa;
    bool is_plain;
    void *memory; /* exchange_size() bytes at a 64-byte boundary, see "Memory" in quant.h */
};

struct exchange_chunk { /* what one member owns, seen from this member */
    uint32_t piece, piece_end;
    uint32_t parts_ready, parts_sent, next_part; /* pieces, to my parent; where to look next */
    uint32_t outs_ready;                         /* pieces of means that are here */
    uint64_t heard, empty;                       /* children whose slots are known; have none */
    struct slot_set slots;                       /* of the children heard and of own sums */
    uint32_t slots_mark[GROUP_MEMBERS_MAX];      /* of each child, to see that it stays the same */
    uint8_t children;
    bool own_counted, checked, empty_told;
};

struct exchange {
    const struct layout *layout;
    const int16_t *scale; /* [blocks] of the step in work */
    float *mean;          /* [elements] */
    struct quant_sum own; /* this member's slots; the caller adds them, quant_add() */
    struct quant_sum sum; /* parts of others, where this member merges */
    int16_t *next_scale;  /* [blocks] */
    double *square;       /* [blocks] see exchange_norm_squared() */
    uint32_t slot_count, norm_end;
    /* Set before exchange_begin(), and unchanged until the next one. */
    const struct shard_map *map; /* see Shards; NULL: equal chunks, means to all */
    const uint8_t *zone;         /* [members] equal numbers: near; NULL: all are near */
    uint64_t watchers;           /* bit = member */

    struct wire_tag tag;
    uint32_t member_count, me, pieces_left;
    bool begun, ready, broken; /* ready: own slots are known */
    uint32_t corrupt;          /* whose message was damaged, or GROUP_NOBODY */
    uint64_t partners;         /* members that data goes to or comes from */
    uint64_t senders;          /* those of them whose parts come here */
    struct slot_set own_slots;
    uint8_t parent[GROUP_MEMBERS_MAX][GROUP_MEMBERS_MAX]; /* [chunk][member], GROUP_NOBODY: root */
    struct exchange_chunk chunk[GROUP_MEMBERS_MAX];
    uint32_t outs_sent[GROUP_MEMBERS_MAX][GROUP_MEMBERS_MAX]; /* [chunk][member] whole pieces */
    uint32_t next_out[GROUP_MEMBERS_MAX][GROUP_MEMBERS_MAX];

    /* Own counters. Blocks of a piece that are through: */
    uint32_t piece_max, piece_count;
    uint32_t *piece_first; /* [pieces] */
    uint32_t *out_check;   /* [pieces] sum of the bits of its means */
    uint32_t *piece_of;    /* [blocks] */
    uint16_t *piece_blocks, *merged, *out_done, *part_sent; /* [pieces] */
    uint16_t *part_got, *out_sent;                          /* [members][pieces] */
    uint16_t *block;                                        /* [blocks] see exchange_merge.c */
};

size_t exchange_size(const struct layout *layout);
void exchange_init(struct exchange *x, const struct exchange_setup *setup);

void exchange_begin(struct exchange *x, const struct wire_tag *tag, uint32_t member_count,
                    uint32_t me);
void exchange_abort(struct exchange *x);

/* Own sums hold these slots, or will once all blocks are ready. Once per turn. */
void exchange_own(struct exchange *x, const struct slot_set *own_slots);
/* Own blocks [first, end) are final. Twice does no harm. */
void exchange_blocks_ready(struct exchange *x, uint32_t first, uint32_t end);
void exchange_ready(struct exchange *x, const struct slot_set *own_slots);

/* Next message for member `to`; false: nothing now. It counts as sent from here on. */
bool exchange_next(struct exchange *x, uint32_t to, struct exchange_message *ret_message);
/* Header and payload in one piece, for those who cannot send spans. Returns the length, at most
 * EXCHANGE_HEADER_BYTES + EXCHANGE_PAYLOAD_MAX. */
size_t exchange_copy(const struct exchange_message *message, uint8_t *bytes);
/* The last four bytes of a header are a sum of the others: a damaged tag must not make a message look
 * like one of another turn, which is dropped in silence. For those who lay out messages themselves. */
void exchange_seal(uint8_t header[EXCHANGE_HEADER_BYTES]);
bool exchange_is_sealed(const uint8_t header[EXCHANGE_HEADER_BYTES]);
/* A message from member `from`. False: it breaks the rules, drop the peer. Old turns are fine. */
bool exchange_take(struct exchange *x, uint32_t from, const uint8_t *header, const uint8_t *payload,
                   size_t count);

bool exchange_is_done(const struct exchange *x);

/* Does this member of the turn begun own blocks? Few do when there are few blocks. */
bool exchange_owns(const struct exchange *x, uint32_t member);
/* Whose parts, and whose means, are not all here yet; bit = member. Nothing
 * before exchange_begin(). */
void exchange_missing(const struct exchange *x, uint64_t *ret_parts, uint64_t *ret_means);
bool exchange_awaits_part(const struct exchange *x, uint32_t from); /* one of it is not all here */
bool exchange_watches(const struct exchange *x, uint32_t member);
/* Does data go to this member, or come from it? */
bool exchange_meets(const struct exchange *x, uint32_t member);
bool exchange_takes_from(const struct exchange *x, uint32_t member); /* its parts come here */
/* Do the sums of own chunk hold each slot once? For tests; true where nothing is owned. */
bool exchange_covers(const struct exchange *x);

/* Once done: the sum of the squares of all means in [0, norm_end). Per block 8 lanes, then a fixed
 * pairwise tree over block numbers, so that it has the same bits whoever owns what. */
double exchange_norm_squared(const struct exchange *x);

/* exchange_norm.c: the fixed tree over square[first .. end) splits into whole subtrees; their sums
 * are what travels, and the receiver puts each at its first block and 0 at the others, which leaves
 * every sum above them as it was. At most EXCHANGE_NODES_MAX. */
enum { EXCHANGE_NODES_MAX = 64 };
uint32_t exchange_norm_write(const double *square, uint32_t first, uint32_t end, double *ret_node);
void exchange_norm_read(double *square, uint32_t first, uint32_t end, const uint8_t *nodes);
uint32_t exchange_norm_nodes(uint32_t first, uint32_t end);

#endif
