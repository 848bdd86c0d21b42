/* Moves the messages of one group over its links: the data plane's driver.
 *
 * Role       Asks its source for the next message to each peer, hands it to the peer's link, and
 *            hands what arrives back to the source. It decides nothing and queues nothing but one
 *            message per peer that found no room.
 * Threads    One lock, the owner's, held around every call; flow_wait() gives it up while it waits.
 *            Whoever waits in flow_wait() drives (the program's thread inside shoal_next()); while
 *            nobody does, the network thread steps when flow_fd() is readable.
 * Waiting    Spins a little, since a peer usually answers within microseconds; yields instead when
 *            the processes on this machine outnumber its cores; then sleeps on epoll. flow_wake()
 *            ends the wait of another thread at once: that is how an abort gets through.
 * Abort      flow_void() before anything else happens when the arrays of the source are to change:
 *            what is half sent is void, the rest arrives whole and is dropped by its tag.
 * Loss       A peer whose link is lost, or that breaks the rules, is taken out and named by
 *            flow_take_lost().
 */
#ifndef SHOAL_WORKER_LINK_FLOW_H
#define SHOAL_WORKER_LINK_FLOW_H

#include "base/error.h"
#include "worker/core/limits.h"
#include "worker/link/link.h"
#include <pthread.h>

struct flow_source {
    void *self;
    /* The next message for `peer`; false: nothing now. Its spans are read until it was sent, or
     * until flow_void(). */
    bool (*next)(void *self, uint64_t peer, struct exchange_message *ret_message);
    /* False: it breaks the rules. The payload may be used until the call returns. */
    bool (*take)(void *self, uint64_t peer, const struct link_message *message);
};

struct flow;

/* `lock` may be NULL when there is one thread. NULL: the sentence tells. */
struct flow *flow_open(const struct flow_source *source, pthread_mutex_t *lock,
                       struct error *ret_error);
void flow_close(struct flow *flow); /* closes the links too; nobody may be waiting */

/* Takes the link over in every case; one there before is closed. False: no room or memory. */
bool flow_add(struct flow *flow, uint64_t peer, struct link *link);
void flow_remove(struct flow *flow, uint64_t peer); /* no link: nothing happens */
/* How many processes of the group run on this machine: decides whether spinning is polite. */
void flow_set_crowd(struct flow *flow, uint32_t processes);

/* Moves what can be moved now, a message or so each way per peer. True: call again at once. */
bool flow_step(struct flow *flow);
/* The source may have something for this peer now, for a reason that the links do not show: sends
 * it, without waking who sleeps in flow_wait(). True: call flow_step(). */
bool flow_offer(struct flow *flow, uint64_t peer);
/* Boards of peers in shared memory (link_shm.h): one text for all; what they have posted, peer by
 * peer from *at on (0 at first). False: that was all. bytes holds LINK_BOARD_BYTES. */
void flow_post(struct flow *flow, const uint8_t *bytes, size_t count);
bool flow_look(struct flow *flow, uint32_t *at, uint64_t *ret_peer, uint8_t *bytes,
               size_t *ret_count);
void flow_lose(struct flow *flow,
               uint64_t peer); /* it broke the rules: flow_take_lost() names it */
void flow_void(struct flow *flow);
bool flow_has_lost(const struct flow *flow);
bool flow_is_idle(struct flow *flow); /* nothing taken from the source is still on its way */
bool flow_take_lost(struct flow *flow, uint64_t *ret_peer);

/* After flow_step() said false: until something may move, flow_wake(), or timeout_ms at most. */
void flow_wait(struct flow *flow, int timeout_ms);
void flow_wake(struct flow *flow);
/* How other threads take the lock: whoever drives makes way for them, in flow_wait(), and between
 * steps that move something by flow_make_way(). */
void flow_lock(struct flow *flow);
void flow_make_way(struct flow *flow);
/* For a thread with an epoll of its own: readable when flow_step() may move something. Call
 * flow_hush(), then flow_step() until it says false, then flow_arm() before sleeping on it; false:
 * step first. */
int flow_fd(const struct flow *flow);
void flow_hush(struct flow *flow);
bool flow_arm(struct flow *flow);
bool flow_is_driven(const struct flow *flow); /* somebody is in flow_wait() */

#endif
