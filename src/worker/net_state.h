/* What net.c (the thread and its sockets), net_dial.c (whom to dial) and net_greet.c (who is let in)
 * share. All of it under the lock of net.h. */
#ifndef SHOAL_WORKER_NET_STATE_H
#define SHOAL_WORKER_NET_STATE_H

#include "worker/agent_lines.h"
#include "worker/link/net_links.h"
#include "worker/net_conn.h"
#include <stdatomic.h>

struct address {
    uint64_t worker;
    char text[NET_ADDRESS_BYTES];
    bool tried;
    int64_t dial_us;
};

struct net {
    struct net_options options;
    int epoll, listener, wake;
    pthread_t thread;
    _Atomic bool stopping;
    char text[NET_ADDRESS_BYTES];
    struct conn *conn[NET_CONNECTIONS_MAX];
    uint32_t conn_count;
    struct address address[GROUP_PEERS_MAX];
    uint32_t address_count;
    bool knows_peers, said_refused;
    int64_t refused_us; /* since when peers were refused and none was let in; 0: not so */
    char refused_why[640];
    int64_t listed_us;
    struct agent_lines agent;
    struct net_links *links;
};

/* Takes over fd. NULL: no room for it, and it is closed; also with fd < 0. */
struct conn *net_add_conn(struct net *net, int fd, bool dialled, uint64_t worker);
struct conn *net_find_conn(struct net *net, uint64_t worker); /* NULL: none that lives */
/* Takes the connection out of the machine; the struct is freed after the round, since epoll may
 * still name it. */
void net_drop(struct net *net, struct conn *conn, const char *why);

/* Each tick: dials who is due, and tells the machine whether all listed have had their chance. */
void net_dial_peers(struct net *net, int64_t now_us);

/* First frame of a connection. False: this is nobody to work with. */
bool net_greet(struct net *net, struct conn *conn);
/* Second frame: it knows the token, so it is who it says. */
bool net_let_in(struct net *net, struct conn *conn);
struct wire_hello net_own_hello(const struct net *net, const struct conn *conn); /* as sent on it */
/* Each tick: tells the program once nobody has let it in for NET_REFUSED_US. */
void net_watch_refusals(struct net *net, int64_t now_us);

#endif
