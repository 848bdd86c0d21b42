/* The data plane of a worker: a door and a flow between the machine and its peers' machines.
 *
 * Role       Makes a link to every peer that the control plane (net.c) has let in, and moves the
 *            messages of member_next() and member_take() over it. The control plane stays the sign
 *            of life: a link that is lost is told to net.c, which ends the connection if it does
 *            not end by itself.
 * Driving    The program's thread, while it waits in shoal_next(), drives (net_links_drive()); else
 *            the network thread does, woken by net_links_fd(). So data moves during computation,
 *            and a waiting step costs no switch between threads.
 * Lock       Held for every call; net_links_drive() gives it up while it waits.
 */
#ifndef SHOAL_WORKER_LINK_NET_LINKS_H
#define SHOAL_WORKER_LINK_NET_LINKS_H

#include "worker/core/member.h"
#include "worker/link/link_door.h"
#include <pthread.h>

struct net_links;

struct net_links *net_links_open(struct member *member, pthread_mutex_t *lock,
                                 const struct door_options *options, struct error *ret_error);
void net_links_close(struct net_links *links);
const struct wire_place *net_links_place(const struct net_links *links);

/* A peer was let in: dial it, or wait for its link. `key` is that of the side that dials. */
void net_links_peer_up(struct net_links *links, const struct wire_hello *hello, uint64_t key,
                       const char *host, bool dials);
void net_links_peer_down(struct net_links *links, uint64_t peer);
/* Peers whose link is lost or could not be made; false: none now. */
bool net_links_take_lost(struct net_links *links, uint64_t *ret_peer);

/* Before and after each tick: what peers on this host have posted as their beats, and the own one.
 * A peer whose beat breaks the rules counts as one whose link is lost. */
void net_links_look(struct net_links *links, int64_t now_us);
void net_links_post(struct net_links *links);

/* For the network thread: makes links, moves data unless the program's thread does. True: more to
 * do at once. False: sleep until net_links_fd() is readable (level), net_wake() or a tick. */
bool net_links_step(struct net_links *links, int64_t now_us);
/* For the network thread, after orders were taken: sends data that they have set free, whoever
 * drives. True: call net_links_step(). */
bool net_links_offer(struct net_links *links);
int net_links_fd(const struct net_links *links);
void net_links_lock(struct net_links *links); /* the lock, with way made for this thread */
bool net_links_all_sent(struct net_links *links);

/* For the program's thread: moves data, or waits until there is some, or net_links_wake(). */
void net_links_drive(struct net_links *links);
void net_links_wake(struct net_links *links);
/* After anything that may have changed the turn, before the lock is given up. */
void net_links_sync(struct net_links *links);

#endif
