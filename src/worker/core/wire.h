/* Bytes between peers: frames and the messages in them.
 *
 * Role       Pure. Little-endian, field by field; every decoder checks every length and range and
 *            never asserts on what it reads.
 * Frame      16 bytes of header (magic, kind, payload length, check word), then the payload of at most
 *            WIRE_PAYLOAD_MAX bytes. Above the kind's eight bits are 24 of the payload's check. A wrong
 *            header or payload ends the connection. Hellos have no check of their payload, so that
 *            releases can tell each other their versions: the proof covers what counts in them.
 * Tags       Every order of a leader is a turn, named by (turn, leader): `turn` grows by each
 *            order, the leader's id breaks ties. Data frames carry the tag they belong to; anything
 *            older than the receiver's own turn is dropped.
 * Position   What the weights are: steps applied. Weights, optimizer state and scales are a function
 *            of the position alone, so a higher one is always the truth.
 */
#ifndef SHOAL_WORKER_CORE_WIRE_H
#define SHOAL_WORKER_CORE_WIRE_H

#include "worker/core/shard.h"
#include "worker/core/slots.h"

enum {
    WIRE_VERSION = 16,
    WIRE_HEADER_BYTES = 16,
    WIRE_PAYLOAD_MAX = 512 * 1024,
    WIRE_TOKEN_BYTES = 128,
    WIRE_HOST_BYTES = 16,
    WIRE_ZONE_BYTES = 64,
    WIRE_DOOR_BYTES = 16,
    WIRE_STATE_PIECE_BYTES = 256 * 1024,
    WIRE_BOARD_BYTES = 1024, /* a beat where memory is shared: status and summary */
};

enum wire_kind {
    WIRE_HELLO = 1, /* first on a connection, both ways */
    WIRE_PROOF,     /* second: that the sender knows the job's token (net_conn.h) */
    WIRE_STATUS,    /* a level: the sender's whole state, on change and as heartbeat */
    WIRE_TURN,      /* leader's order to the group */
    WIRE_DATA,      /* a message of the exchange or of state: header, then payload (span.h) */
    WIRE_FETCH,     /* from one that is to get the state: send me your stripe of it */
    WIRE_SHARD,     /* a shard is written, or failed */
    WIRE_VOUCH,     /* what the sender knows of another peer's life */
    WIRE_SUMMARY,   /* what the sender does, and for how long (recorder.h); with every beat */
    WIRE_DIGESTS,   /* in a VOTE, from a mirror to the owner: of the moments they share */
    WIRE_KIND_END,
};

/* No job gives so many turns; a peer that claims a larger number is refused. */
#define WIRE_TURN_MAX (UINT64_C(1) << 62)

struct wire_tag {
    uint64_t turn, leader;
};

/* Where a worker is and how links to it are made (link_door.h). */
struct wire_place {
    uint8_t host[WIRE_HOST_BYTES]; /* the kernel's boot id; zeros: unknown */
    uint8_t door[WIRE_DOOR_BYTES]; /* name of its Unix socket */
    char zone[WIRE_ZONE_BYTES];
    uint32_t port;   /* of its door, on the address of its control connection */
    uint32_t forced; /* enum link_kind, 0: free to choose */
};
struct record_summary;

struct wire_hello {
    uint32_t version;
    uint64_t job, worker;
    uint64_t plan, identity; /* of struct job: both must agree */
    uint64_t steps;          /* what plan is a hash of, to say what differs: */
    uint32_t slots, samples_per_slot, tensor_count;
    const uint8_t *tensor_marks; /* 4 bytes a tensor, of its name and shape; borrowed */
    uint64_t key; /* random, anew for each connection; that of the dialling side names the link */
    struct wire_place place;
};

struct wire_status {
    uint8_t has_state, leaving;
    uint8_t unsure; /* its state came from others, and was not voted on since (member_vote.c) */
    uint8_t
        here; /* its program has come to its first shoal_next(): it can be given work, or state */
    uint8_t orphan;   /* who gave `turn` is lost to it (member_news.c) */
    uint32_t slot_us; /* smoothed, 0: unknown */
    uint64_t changes; /* of this status so far: frames and beats may overtake each other */
    uint64_t position, generation, weights_hash;
    uint64_t zone;            /* a number that differs where zones do */
    struct wire_tag turn;     /* last one accepted */
    struct wire_tag moved_by; /* the one that led to `position` */
    struct wire_tag broken;   /* the one whose bitmaps did not fit */
    struct wire_tag save[2];  /* the last two with an order to save, newest first */
    /* With sharded moments, see member_shard.h: */
    struct wire_tag ready, sealed; /* the COMPUTE whose means are here; that all are ready for */
    struct wire_tag base, held;    /* the RECUT in force here; the one that is complete here */
    uint64_t era;                  /* times the group fell back to a checkpoint */
    uint64_t fell_at;              /* the position whose moments were lost then, and the cut that */
    struct wire_tag fell_base;     /* was in force: see member_plan.h */
    uint64_t memory, host;         /* of the worker: with the zone, what shares follow from */
    uint64_t seen; /* newest checkpoint that it has read or written of, its step + 1; 0: none */
    uint64_t
        founds; /* it has no state and founds at this checkpoint, the step + 1 (member_load.c) */
    struct wire_tag checked; /* the last VOTE in which it has compared all moments it owns */
    uint32_t disputed;       /* the first unit that differed then, + 1; 0: none (member_mirror.c) */
    struct wire_tag voted;   /* the last VOTE it has made a digest for */
    uint64_t digest;
    int64_t beat_us; /* when the sender's newest beat was due, in its clock (liveness.h) */
};

enum vouch_kind {
    VOUCH_ASK = 1, /* overdue here: have you heard of it? */
    VOUCH_HEARD,   /* yes */
    VOUCH_LOST,    /* its connection here closed, or it was silent too long */
};

struct wire_vouch {
    uint64_t worker;
    uint32_t kind, age_us; /* enum vouch_kind; since it was last heard at the sender, saturates */
};

enum turn_kind {
    TURN_COMPUTE = 1,
    TURN_SYNC,
    TURN_SAVE,
    TURN_FINISH,
    TURN_RECUT,
    TURN_SEAL,
    TURN_VOTE,
    TURN_LOAD
};

struct wire_turn {
    struct wire_tag tag;
    uint64_t generation, position;
    uint32_t attempt; /* COMPUTE: of this position; VOTE: 0: on moments alone */
    uint32_t redone_slots, member_count, slot_count;
    uint8_t kind, save;
    uint64_t era, fell_at; /* as in the status */
    struct wire_tag fell_base;
    struct wire_tag base;               /* the RECUT whose map holds, see member_shard.h; LOAD: its
                                           own tag if moments are sharded */
    uint64_t member[GROUP_MEMBERS_MAX]; /* ids, ascending */
    /* SYNC, COMPUTE: GROUP_NOBODY: has the state; own index: keeps its own; else it is to get the
     * state, a stripe from each that has it. In a COMPUTE it watches meanwhile, see member.h.
     * LOAD: GROUP_NOBODY: reads its stripe from the store. */
    uint8_t source[GROUP_MEMBERS_MAX];
    uint8_t owner[GROUP_SLOTS_MAX];  /* COMPUTE: member index per slot */
    uint8_t zone[GROUP_MEMBERS_MAX]; /* COMPUTE: first member of the same zone */
};

/* Goes with a RECUT: who holds what, and who is to; over the members of the turn. With a LOAD of
 * sharded moments: who reads what from the store, and who is to hold it. With a COMPUTE that
 * has watchers: what its base gives to whom, over the members that base was made for. */
struct wire_cut {
    struct shard_map held, map;
    uint32_t base_count;
    uint64_t base_member[GROUP_MEMBERS_MAX];
};

/* Place of a member in the turn, or GROUP_NOBODY. */
static inline uint32_t wire_turn_index(const struct wire_turn *turn, uint64_t id)
{
    for (uint32_t i = 0; i < turn->member_count; i++)
        if (turn->member[i] == id) return i;
    return GROUP_NOBODY;
}

/* Does this member of a COMPUTE watch? */
static inline bool wire_turn_watches(const struct wire_turn *turn, uint32_t index)
{
    return turn->kind == TURN_COMPUTE && turn->source[index] != GROUP_NOBODY;
}
bool wire_turn_has_base(const struct wire_turn *turn); /* a COMPUTE that comes with a cut */
static inline bool wire_turn_cuts(const struct wire_turn *turn) /* who holds, and who is to */
{
    return turn->kind == TURN_RECUT || (turn->kind == TURN_LOAD && turn->base.turn != 0);
}

struct wire_shard {
    struct wire_tag tag;
    uint64_t step, bytes, checksum;
    uint32_t index;
    uint8_t ok;
};

/* Returns a value below, at or above 0 as a is older than, the same as or newer than b. */
int wire_tag_compare(const struct wire_tag *a, const struct wire_tag *b);

/* A changed bit changes it, but for one change in 2^32. `check`: of what comes before. Words of eight, the
 * last one filled up with zeros, so that two runs in a row are not one long run: both ends take them
 * run by run. */
uint32_t wire_check(uint32_t check, const uint8_t *bytes, size_t count);

/* The header of the payload that lies behind it. */
void wire_put_header(uint8_t *bytes, enum wire_kind kind, uint32_t payload_bytes);
/* False: not a header of ours. */
bool wire_get_header(const uint8_t *bytes, enum wire_kind *ret_kind, uint32_t *ret_payload_bytes);
/* Is the payload behind this header as it was sent? */
bool wire_payload_is_sound(const uint8_t *bytes);

/* Encoders return the payload's length; buffers hold WIRE_PAYLOAD_MAX bytes. */
size_t wire_put_hello(uint8_t *bytes, const struct wire_hello *hello);
size_t wire_put_status(uint8_t *bytes, const struct wire_status *status);
size_t wire_put_turn(uint8_t *bytes, const struct wire_turn *turn, const struct wire_cut *cut);
size_t wire_put_shard(uint8_t *bytes, const struct wire_shard *shard);
size_t wire_put_vouch(uint8_t *bytes, const struct wire_vouch *vouch);
size_t wire_put_summary(uint8_t *bytes, const struct record_summary *told);
bool wire_get_hello(const uint8_t *bytes, size_t count, struct wire_hello *ret_hello);
bool wire_get_status(const uint8_t *bytes, size_t count, struct wire_status *ret_status);
/* cut: written and read only with a turn that has one, see there. */
bool wire_get_turn(const uint8_t *bytes, size_t count, struct wire_turn *ret_turn,
                   struct wire_cut *ret_cut);
bool wire_get_shard(const uint8_t *bytes, size_t count, struct wire_shard *ret_shard);
bool wire_get_vouch(const uint8_t *bytes, size_t count, struct wire_vouch *ret_vouch);
bool wire_get_summary(const uint8_t *bytes, size_t count, struct record_summary *ret_told);

/* For data frames, whose bodies exchange.c and transfer.c lay out: a cursor that cannot run off. */
struct wire_cursor {
    uint8_t *at, *end; /* reading: the bytes are not changed */
    bool failed;
};
void wire_write(struct wire_cursor *cursor, const void *bytes, size_t count);
/* NULL and failed when fewer bytes are left. */
const uint8_t *wire_read(struct wire_cursor *cursor, size_t count);
void wire_write_u32(struct wire_cursor *cursor, uint32_t value);
void wire_write_u64(struct wire_cursor *cursor, uint64_t value);
uint32_t wire_read_u32(struct wire_cursor *cursor);
uint64_t wire_read_u64(struct wire_cursor *cursor);
void wire_write_tag(struct wire_cursor *cursor, const struct wire_tag *tag);
struct wire_tag wire_read_tag(struct wire_cursor *cursor);
struct wire_cursor wire_reader(const uint8_t *bytes, size_t count);

#endif
