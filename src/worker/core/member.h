/* One member of an elastic group: who leads, who computes what, when a step counts.
 *
 * Role       Pure state machine. Events come in as calls; what is to be done is read back as
 *            levels: member_want() for the thread that computes, member_fill() for each peer's
 *            socket, member_peer_is_silent(), member_take_commit(). Nothing is queued, so an abort
 *            cannot leave anything behind, and a repeated call does no harm.
 * Why simple Weights are a function of the position alone (wire.h), and a mean is only made of sums
 *            that hold every slot exactly once (exchange.h). So two leaders, a lost order or a late
 *            frame can cost time, never bits: agreement is not needed, only progress.
 * Leader     Lowest id among reachable members that are at the highest position and not leaving.
 *            Each decides this for itself from the statuses it has. Turns are taken only from the
 *            leader one sees; the leader repeats them until they are taken.
 * Turns      COMPUTE a position (owners of slots; the means make the next position), SYNC (those
 *            behind fetch from those ahead), SAVE (write shards, at the end), FINISH. A turn is
 *            running while all its members are connected and none has moved by another turn. When
 *            it is complete or broken, the leader gives the next one.
 *            VOTE: after a join, see member_vote.c.
 *            With sharded moments also RECUT and SEAL, see member_shard.h.
 * Watchers   Those behind need not hold a step up: a COMPUTE may have members that have no slots and
 *            get the state of its position from the others while those compute, and the means as
 *            everybody does. A watcher that has both applies, and is one of the group at the next
 *            boundary. Weights stay as they are until all watchers have them: only what is left
 *            of the transfer when the sums are done is waited for.
 * Redo       When a member dies, survivors keep their sums; only slots it owned get new owners
 *            (attempt + 1). If some had moved on already, those behind fetch the state from them.
 * Founding   Nobody reachable has state: one of a gang large enough names the checkpoint to begin
 *            at, and all read it together (member_load.c); or it loads it alone.
 * Leaving    Finish the step, be left out of the next turn, exit 0. All leaving: save, exit.
 * Call order member_init, member_start, then any. After every call look at the levels again.
 * Memory     All arrays are the caller's; the thread that computes touches own sums, gradient and
 *            weights only while it is not parked, the machine only while it is.
 */
#ifndef SHOAL_WORKER_CORE_MEMBER_H
#define SHOAL_WORKER_CORE_MEMBER_H

#include "worker/core/diagnose.h"
#include "worker/core/exchange.h"
#include "worker/core/interval.h"
#include "worker/core/liveness.h"
#include "worker/core/member_shard.h"
#include "worker/core/transfer.h"

#define MEMBER_TICK_US  INT64_C(50000)  /* member_tick() is called this often */
#define MEMBER_PAUSE_US INT64_C(500000) /* between ticks: we slept, which says nothing of others */

enum member_want {
    MEMBER_WANT_WAIT = 1,
    MEMBER_WANT_FOUND, /* load the newest checkpoint or keep the initial weights; member_founded */
    MEMBER_WANT_COMPUTE, /* member_slot_begin, compute, member_slot_add, member_slot_done */
    MEMBER_WANT_APPLY,   /* exchange.mean is whole: optimizer step, then member_applied; with
                            moments: member_range, apply it, member_range_applied */
    MEMBER_WANT_PLACE,   /* with moments: copy next_weights over the weights; member_applied */
    MEMBER_WANT_SAVE,    /* if saves.wanted still stands, copy one's share of the state, then
                            member_save_taken: another order or a sync may have withdrawn it */
    MEMBER_WANT_EXIT_DONE,
    MEMBER_WANT_EXIT_LEFT,
    MEMBER_WANT_LOAD, /* of the checkpoint of turn.position: into the shadow the bytes that
                         member_load_part() says, into the moments what shards.cut.held gives this
                         member of the turn; member_loaded */
};

/* In flight at once; results that may wait for one leader, see tell() in member_save.c. */
enum { MEMBER_SAVES_MAX = 2, MEMBER_SHARDS_MAX = 2 * MEMBER_SAVES_MAX };
#define MEMBER_SAVE_AUTO UINT32_MAX

struct member_peer {
    uint64_t id;
    bool connected, knows_status;
    struct wire_status status;
    bool status_due, turn_due, fetch_due, digests_due;
    bool has_board;                             /* beats reach it without a frame */
    uint64_t told_self;                         /* of self.changes: what it knows of this member */
    struct wire_shard shard[MEMBER_SHARDS_MAX]; /* results of ours that this leader is to hear */
    uint32_t shard_count;
    struct transfer_out out;
    struct liveness live;
    struct wire_tag lost_in; /* the turn in force when its connection was lost last */
    bool asked, given_up;    /* asked others about it; they lost it too */
    uint64_t vouch_due[GROUP_PEERS_MAX / 64]; /* bit i: tell it about the life of peer[i] */
    struct record_summary told;               /* what it does; told_us 0: not said yet */
    int64_t told_us;
    bool summary_due;
    bool left_out;           /* stuck: turns go on without it until it moves again */
    uint32_t left_out_moves; /* of its summary when it was left out */
};

struct member_shard {
    bool known, ok;
    uint64_t bytes, checksum;
};

/* The leader's table of a checkpoint in flight; also the order to this member's writer. */
struct member_save {
    bool active, manifest_due, failed; /* failed: given up, its files are to be removed */
    struct wire_turn turn;
    uint64_t step;
    int64_t ordered_us;
    struct member_shard shard[GROUP_MEMBERS_MAX];
};

struct member_saves {
    bool wanted;           /* an order that the thread has not taken yet */
    uint32_t copying;      /* shares being copied: no sync over them */
    struct wire_turn turn; /* that order */
    struct shard_map map;  /* who writes which moments of it */
    bool first_done;       /* a checkpoint was written or tried: see wants_first_save() */
    struct wire_turn writing[MEMBER_SAVES_MAX]; /* ours with the writer; tag.turn 0: none */
    struct member_save save[MEMBER_SAVES_MAX];  /* as leader */
    struct member_save given_up;                /* the last one */
    uint64_t position;                          /* newest that was written or given up */
    /* For the interval (interval.h). */
    int64_t ordered_us, counted_us, member_us, stall_us, write_us, losses;
};

enum { MEMBER_REPEAT_MAX = 64 };        /* steps told again at once when a gap is seen */
#define MEMBER_GAP_US INT64_C(10000000) /* a step not stored for this long is told again */

struct member_load {   /* a LOAD, see member_load.c */
    bool wanted, read; /* this member is to read its part; has read it */
    bool alone;        /* as founder: loading together has failed */
    uint32_t tries;
    int64_t waits_us;    /* since when it could have founded, but for member_load_waits() */
    struct wire_tag tag; /* of the part that was taken to be read last */
};

struct member_dispute {     /* owner and mirror of a unit of moments hold other bits */
    bool known, falls_back; /* back to the newest checkpoint; else the mirror takes the owner's */
    uint32_t unit;
    uint64_t owner, mirror; /* ids; mirror 0: not known here */
};

struct member_mirror { /* see member_mirror.c */
    uint64_t awaited;  /* bit i: digests of member i of the VOTE */
    uint64_t position; /* of the last VOTE that ended */
    struct member_dispute dispute;
};

/* One committed step, for the record. */
struct member_commit {
    uint64_t step;
    float loss;      /* bits are carried, never computed with */
    bool not_finite; /* the mean gradient held NaN or Inf; for the caller to set */
    struct wire_turn turn;
};

/* A step that ended, without who computed it. */
struct member_step {
    uint64_t step;
    uint64_t turn; /* position in member_log.turn of who computed what */
    uint32_t attempt, redone_slots;
    float loss;
    bool not_finite;
};

/* See member_log.c. The caller gives both rings; positions count all that were ever appended. */
struct member_log {
    struct member_step *step; /* [step_max] how many a reporter may be behind, at least 1 */
    struct wire_turn *turn;   /* [turn_max] one for all steps between two changes, at least 1 */
    uint64_t step_max, turn_max;
    uint64_t first, end, turn_end; /* steps from first to end are known; 0 at the start */
};

struct member_config {
    uint64_t id;
    uint64_t steps, weights_hash;
    uint64_t zone;                         /* a number that differs where zones do */
    uint32_t slot_count, gang, save_every; /* save_every 0: no checkpoints; or _AUTO */
    bool has_store;                        /* a folder for checkpoints is set */
    const struct layout *layout;
    int16_t *scale;
    float *mean;
    void *exchange_memory; /* exchange_size() */
    enum quant_isa isa;
    uint32_t norm_end;           /* blocks of the gradient that its norm counts: without the loss */
    struct transfer_state state; /* weights, then scales */
    uint8_t *shadow;             /* state.total_bytes */
    struct recorder *recorder;   /* NULL: nothing is recorded, told or judged */
    struct member_log log;
    uint32_t moment_count;       /* 0: the optimizer's state is the program's */
    float *moment[HANDOVER_ARRAYS_MAX]; /* [elements] each; only what is held has to be there */
    float *next_weights;                /* [elements] params of the step in work */
    uint64_t memory, host;              /* see shard.h */
};

struct member {
    struct member_config config;
    int64_t now_us, woke_us; /* woke_us: end of our newest pause */
    struct member_peer peer[GROUP_PEERS_MAX];
    uint64_t peer_id[GROUP_PEERS_MAX]; /* the same ids, close together: searched for every frame */
    uint64_t data_due[GROUP_PEERS_MAX / 64]; /* bit i: see member_take_data_due() */
    uint32_t peer_count;
    bool started, peers_settled; /* settled: listed peers were tried, so founding is fair */
    struct wire_status self;     /* what this member tells about itself */
    uint64_t turn_max, generation_max;
    bool is_step;      /* the turn in force is one, without sharded moments (member_news.c) */
    int64_t taken_us;  /* when it was taken */
    bool board_due;    /* a beat for those that have a board */
    int64_t orphan_us; /* when its leader was lost; with self.orphan alone */

    struct wire_turn offered;      /* newest heard of, taken once its sender is seen to lead */
    struct wire_turn turn;         /* in force; tag 0: none yet */
    struct wire_turn last_compute; /* the newest COMPUTE turn, for its owners */
    uint32_t me;                   /* index in turn, or GROUP_NOBODY */
    bool parked;                   /* the computing thread waits for us */
    bool founding, committing, fetch_wanted;
    bool watching;              /* in a turn that it watches: the state is not here yet */
    struct wire_tag vote_ended; /* the last VOTE whose result is known here */
    uint64_t outvoted;          /* bit i: member i of it had another state than most; to be told */
    enum member_want exit;      /* 0 or MEMBER_WANT_EXIT_* */

    struct slot_set done, mine; /* slots in own sums; slots to compute */
    struct slot_speed speed;
    uint32_t gain_steps;               /* as leader: see slots_should_move() */
    uint32_t slot, sums_epoch;         /* being computed; changes when own sums become void */
    bool slot_is_out, slot_is_partial; /* partial: some of its blocks are in own sums */
    bool sums_told;                    /* own sums are whole, the exchange knows */
    struct exchange exchange;
    struct transfer_in in;
    struct member_load load;
    struct member_mirror mirror;
    struct member_shards shards; /* with config.moment_count alone */

    struct member_saves saves; /* member_save.c */

    uint64_t speaker;            /* who reports steps, as last seen */
    struct member_commit commit; /* being applied */
    /* The speaker hands each commit over as it comes; the others keep theirs in config.log until
     * they are told that they are stored (member_told). A new speaker hands over all that is not,
     * since the last reports of the one before may have died with its node; so do all others at
     * once, the newest MEMBER_REPEAT_MAX, for the new one may have come too late to know them. If a
     * step stays missing all the same, everybody who knows it tells it. Only those who saw a step end
     * can tell it, not those synced past it: if they all die, each before its report came through,
     * its loss is lost (the state is not). */
    uint64_t told;              /* all steps below are stored, so far as we heard */
    int64_t told_us;            /* since when it has stood there */
    bool gap_filled;            /* for this value of `told` */
    uint64_t gap_next, gap_end; /* part of the log being told again */
    uint64_t log_next;          /* steps of the log handed over or skipped */

    enum member_want work; /* that the computing thread was given; meaningful unless parked */
    bool waits_for_data;   /* it said so */
    uint64_t work_step;    /* when it was given; turns may go on without it */
    uint32_t work_attempt;
    /* Who holds the group up (member_tell.c). verdict_key 0: nobody, or not sure yet. */
    uint64_t judged[GROUP_MEMBERS_MAX]; /* ids of the ranks; the turn may have moved on since */
    struct diagnose_input input;
    struct diagnose_verdict verdict;
    struct diagnose_memory memory;
    uint64_t verdict_key;
    int64_t looked_us;
    uint64_t recorded_generation;
    bool left_out;                 /* this member, by its own judgement */
    struct record_summary summary; /* as told to all, made at summary_us */
    int64_t summary_us;
    uint32_t left_out_moves;
};

void member_init(struct member *m, const struct member_config *config);
void member_check(const struct member *m); /* asserts the invariants */

/* Events from the network side. */
void member_start(struct member *m, int64_t now_us);
void member_tick(struct member *m, int64_t now_us); /* every MEMBER_TICK_US */
void member_peers_settled(struct member *m, bool settled);
bool member_peer_up(struct member *m, uint64_t id, int64_t now_us); /* false: too many */
void member_peer_down(struct member *m, uint64_t id);
/* False: the frame breaks the rules; drop the peer. bytes at an 8-byte boundary. */
bool member_frame(struct member *m, uint64_t id, enum wire_kind kind, const uint8_t *bytes,
                  size_t count, int64_t now_us);
/* Where two members share memory, beats need no frames: from here on peer `id` reads what
 * member_fill_board() gives (0: nothing new; bytes holds WIRE_BOARD_BYTES), and this member is handed
 * what that one wrote, newest first come, some left out. False: it breaks the rules; drop the peer. */
void member_peer_board(struct member *m, uint64_t id);
size_t member_fill_board(struct member *m, uint8_t *bytes);
bool member_take_board(struct member *m, uint64_t id, const uint8_t *bytes, size_t count,
                       int64_t now_us);
void member_heard(struct member *m, uint64_t id, int64_t now_us); /* bytes of an unfinished frame */
/* Call once everything that had arrived by member_tick() was handed in. */
bool member_peer_is_silent(const struct member *m, uint64_t id);
/* Next frame's payload for a peer, 0: nothing to send now. bytes holds WIRE_PAYLOAD_MAX. */
size_t member_fill(struct member *m, uint64_t id, uint8_t *bytes, enum wire_kind *ret_kind);
/* Data, see "Messages" in exchange.h: next one for a peer (false: none now), and one from a peer
 * (false: it breaks the rules; drop the peer). They may take other ways than frames: a message of a
 * turn is given only for a peer that has taken it. */
bool member_next(struct member *m, uint64_t id, struct exchange_message *ret_message);
bool member_take(struct member *m, uint64_t id, const uint8_t *header, const uint8_t *payload,
                 size_t count, int64_t now_us);
/* The next peer that an order of it or of the leader may have set data free for, so that whoever
 * moves messages looks, even while it waits for those of others; false: none since. */
bool member_take_data_due(struct member *m, uint64_t *ret_id);
/* Next committed step to report; false: none now. The same step may come twice, also from others.
 */
bool member_take_commit(struct member *m, struct member_commit *ret_commit);
void member_told(struct member *m, uint64_t steps); /* all steps below are stored */
/* A member whose weights were not those of the others after a join, so that it gets them anew; false:
 * none since. */
bool member_take_outvoted(struct member *m, uint64_t *ret_id);
/* The last dispute over moments, once; the elements of a unit. */
bool member_take_dispute(struct member *m, struct member_dispute *ret_dispute);
void member_mirror_unit(const struct member *m, uint32_t unit, uint64_t *ret_first,
                        uint64_t *ret_count);
void member_leave(struct member *m);
/* Steps applied. */
static inline uint64_t member_step(const struct member *m)
{
    return m->self.position;
}
/* Call after anything that may have changed what this member does. */
void member_record(struct member *m, int64_t now_us);
void member_wait_for_data(struct member *m, bool waits, int64_t now_us);
/* Members that turns go on without because they are stuck: the next from *at (0 at first). */
bool member_next_left_out(const struct member *m, uint32_t *at, uint64_t *ret_id,
                          struct diagnose_rank *ret_rank);
/* Is there something to report (the settled verdict, those left out), and is it for this member? */
bool member_speaks_of_stall(const struct member *m);

/* Events from the computing thread. While it works (between take and the next park) the machine
 * leaves weights, gradient and own sums alone. */
enum member_want member_park(struct member *m); /* here I am: what next? */
enum member_want member_want(const struct member *m);
void member_unpark(struct member *m); /* taking the work that member_want() named */
void member_founded(struct member *m, uint64_t position);
/* Instead, where there are others to do it with: of this checkpoint everybody loads a part. */
bool member_may_load_together(const struct member *m);
void member_found_together(struct member *m, uint64_t position);
void member_load_part(const struct member *m, uint64_t *ret_first, uint64_t *ret_end);
void member_loaded(struct member *m, bool read);       /* false: it cannot be read here */
void member_sees(struct member *m, uint64_t position); /* this checkpoint, in the store */
/* Before adding the gradient of m->slot: false: drop it. *ret_first: store instead of add. */
bool member_slot_begin(const struct member *m, bool *ret_first, uint32_t *ret_epoch);
/* Blocks [first, end) of the slot that is out are added to own sums already (begun as above, with
 * this epoch). If it is the last slot they leave at once. False: the slot is void, add no more. */
bool member_blocks_done(struct member *m, uint32_t epoch, uint32_t first, uint32_t end);
void member_slot_done(struct member *m, bool added, uint32_t epoch, uint64_t took_us);
bool member_slot_is_void(const struct member *m); /* computing it further is of no use */
void member_applied(struct member *m);
void member_save_taken(struct member *m);  /* noted; the state must stay as it is until */
void member_save_copied(struct member *m); /* the copy is made (from any thread) */

void member_save_stalled(struct member *m, uint64_t us); /* what its copy made the thread wait */

/* Events from whoever writes files. save[].manifest_due and given_up.failed are the orders to it. */
void member_shard_written(struct member *m, const struct wire_tag *tag, bool ok, uint64_t bytes,
                          uint64_t checksum);
void member_manifest_done(struct member *m, const struct wire_tag *tag);

/* For member*.c alone. */
void member_settle(struct member *m);
void member_data_is_due(struct member *m, const struct member_peer *peer);
/* member_turn.c: from now on `turn` is in force. */
void member_accept(struct member *m, const struct wire_turn *turn);
/* member_state.c: the state of the turn's position to those behind. */
void member_drop_state(struct member *m); /* nor are its weights the initial ones any more */
/* The state is cut into a stripe for each source: its number and how many there are. */
uint32_t member_stripe(const struct wire_turn *turn, uint32_t index, uint32_t *ret_count);
bool member_may_receive(
    const struct member *m); /* its memory is free: for it, and for means before */
void member_ask_for_state(struct member *m);
bool member_ask_again(struct member *m,
                      uint32_t index); /* false: nothing is missing of that source */
bool member_take_fetch(struct member *m, struct member_peer *peer, const uint8_t *bytes,
                       size_t count);
bool member_take_state(struct member *m, const struct member_peer *peer, const struct wire_tag *tag,
                       const uint8_t *header, const uint8_t *payload, size_t count);
/* Has this member of the turn in force the state of its position, or more? */
bool member_is_there(const struct member *m, uint32_t index);
bool member_waits_for_watchers(const struct member *m);
struct member_peer *member_find(struct member *m, uint64_t id); /* NULL: never seen */
const struct member_peer *member_peer_of(const struct member *m, uint64_t id);
/* member_log.c: the step just applied joins the log; its newest `count` steps are told again. */
void member_log_append(struct member *m);
void member_repeat_log(struct member *m, uint64_t count);
void member_fill_gap(struct member *m);
void member_void_sums(struct member *m);
/* member_news.c: the status has changed, and who is told of it at once. */
void member_tell_all(struct member *m);
void member_tell_taken(struct member *m); /* the turn in force */
void member_tell_moved(struct member *m); /* one step on */
void member_heard_data(struct member *m, struct member_peer *peer, const struct wire_tag *tag);
/* What the turn in force says of a peer whose own word of it has not come yet. */
void member_believe_turn(struct member *m, struct member_peer *peer);
void member_believe_leader(struct member *m, const struct wire_status *taker);
void member_note_orphan(struct member *m);       /* a peer was lost: was it the leader? */
void member_watch_orphan(struct member *m);      /* each tick */
bool member_hears_later(const struct member *m); /* who took the turn may tell later */
/* The leader is gone, and not all have said yet where they stand. */
bool member_waits_for_word(const struct member *m);
/* member_tell.c: what each does, and who holds the group up. */
struct record_summary member_summary(const struct member *m);
bool member_take_summary(struct member *m, struct member_peer *peer, const uint8_t *bytes,
                         size_t count);
void member_look(struct member *m);
bool member_is_left_out(const struct member *m, uint64_t id);
/* member_load.c */
bool member_load_waits(struct member *m); /* for others that are about to come to their work */
void member_load_begin(struct member *m);
void member_load_advance(struct member *m);
/* member_vote.c */
void member_vote_begin(struct member *m);
void member_vote_advance(struct member *m);
bool member_vote_is_over(const struct member *m);
/* member_mirror.c */
void member_mirror_begin(struct member *m);
bool member_mirror_owes(const struct member *m, uint64_t owner); /* digests of what it owns */
size_t member_mirror_fill(struct member *m, struct member_peer *peer, uint8_t *bytes);
bool member_mirror_take(struct member *m, const struct member_peer *peer, const uint8_t *bytes,
                        size_t count);
void member_mirror_advance(struct member *m);
bool member_mirror_waits(const struct member *m); /* some have not compared yet */
bool member_mirror_ends(struct member *m,
                        bool unsure); /* whether its state came and was not voted on */
bool member_mirror_mends(const struct member *m);
bool member_mirror_falls_back(struct member *m);
bool member_mirror_is_due(const struct member *m, uint64_t position);
/* member_save.c */
bool member_save_is_active(const struct member *m, const struct wire_tag *tag);
bool member_saves_any(const struct member *m); /* in flight, as leader or as member */
bool member_save_is_due(const struct member *m, uint64_t position);
bool member_save_fits(const struct member *m); /* another one for this member's writer */
void member_save_count_losses(struct member *m, const struct wire_turn *next);
void member_save_order(struct member *m, const struct wire_turn *turn);
void member_save_refuse(struct member *m);
void member_save_watch(struct member *m);
bool member_save_take_shard(struct member *m, uint64_t from, const struct wire_shard *shard);
/* member_watch.c: who still lives. */
void member_watch(struct member *m);
void member_tell_lost(struct member *m, const struct member_peer *lost);
void member_take_vouch(struct member *m, struct member_peer *from, const struct wire_vouch *vouch);
bool member_fill_vouch(struct member *m, struct member_peer *peer, struct wire_vouch *ret_vouch);

#endif
