/* The sockets of a worker: a full mesh of peers, the agent's line socket, one thread, one epoll.
 *
 * Role       Moves frames between the machine (member.h) and peers. Decides nothing but who is let
 *            in: version, job, token, tensors and identity must agree, else the connection is
 *            closed and said so once. Who has seen nothing but refusals for NET_REFUSED_US is told
 *            so (on_refused): it belongs to no group, and must not found one beside the others'.
 * Data       Orders and statuses travel on these connections, data on links (net_links.h).
 * Dialling   The higher id dials the lower one; addresses come from the agent's `peers` lines.
 * Threads    net_start() starts the thread; it takes `lock` around every use of the machine, and
 *            calls the hooks with it held. Others call net_wake() after changing the machine.
 * Limits     WIRE_PAYLOAD_MAX per frame; NET_CONNECTIONS_MAX sockets; 5 s to say hello.
 */
#ifndef SHOAL_WORKER_NET_H
#define SHOAL_WORKER_NET_H

#include "base/error.h"
#include "worker/core/member.h"
#include "worker/link/link_door.h"
#include <pthread.h>

enum { NET_CONNECTIONS_MAX = 2 * GROUP_PEERS_MAX, NET_ADDRESS_BYTES = 64 };

#define NET_REFUSED_US INT64_C(10000000) /* workers of a run that ends may still be listed */

struct net_options {
    struct member *member;
    pthread_mutex_t *lock;
    struct wire_hello hello;                       /* what to show, and to demand */
    const char *listen;                            /* host to listen on, a port is chosen */
    struct door_options door;                      /* how links are made */
    int agent_fd;                                  /* line socket, -1: none */
    void *self;                                    /* for the hooks */
    void (*on_line)(void *self, const char *line); /* from the agent, without the newline */
    void (*on_agent_gone)(void *self);
    void (*on_refused)(void *self, const char *why); /* "it has ...": no listed peer fits */
    void (*on_change)(void *self); /* after every round of events: look at the machine */
    bool (*wants_to_leave)(void *self);
    /* A peer's plan is not ours: what differs, to follow "it". */
    void (*tell_difference)(void *self, const struct wire_hello *theirs, char *ret_text,
                            size_t text_bytes);
};

struct net;

/* Opens the listening socket and starts the thread. */
struct net *net_start(const struct net_options *options, struct error *ret_error);
const char *net_address(const struct net *net); /* "127.0.0.1:40001" */
/* With the lock held. An address of the machine's peer list; call net_peers_end() after the last.
 */
void net_peers_begin(struct net *net);
void net_peer_address(struct net *net, uint64_t worker, const char *address);
void net_peers_end(struct net *net);
/* With the lock held: queues one line (newline added) for the agent; lost if the agent is gone. */
void net_send_line(struct net *net, const char *line);
void net_wake(struct net *net);
/* With the lock held, by the program's thread while it has nothing to do: moves data of the links,
 * or gives the lock up until there is some or net_interrupt(). */
void net_drive(struct net *net);
void net_interrupt(struct net *net); /* with the lock held */
/* With the lock held, after anything that may have changed the turn. */
void net_sync(struct net *net);
/* Sends what is still due to everybody, for at most a second, then ends the thread. */
void net_stop(struct net *net);

#endif
