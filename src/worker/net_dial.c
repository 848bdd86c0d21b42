/* Whom to dial: the addresses of the agent's list, and whether all on it were tried. */
#include "base/clock.h"
#include "worker/net_state.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REDIAL_US INT64_C(200000)
#define SETTLE_US INT64_C(1000000) /* higher ids dial us: give them this long before founding */

static void dial(struct net *net, struct address *address, int64_t now_us)
{
    address->dial_us = now_us + REDIAL_US;
    if (net_find_conn(net, address->worker) != NULL) return;
    struct sockaddr_in remote;
    if (!conn_parse_address(address->text, &remote)) {
        address->tried = true; /* not an address: nobody to wait for */
        return;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&remote, sizeof remote) != 0 &&
        errno != EINPROGRESS) {
        (void)close(fd); /* never connected */
        fd = -1;
        address->tried = true;
    }
    if (fd >= 0) (void)net_add_conn(net, fd, true, address->worker);
}

/* Founding a group is fair once everybody listed had a chance to say that one exists already. */
static void settle_peers(struct net *net, int64_t now_us)
{
    bool settled = net->knows_peers && net->refused_us == 0;
    bool waited = now_us - net->listed_us > SETTLE_US;
    for (uint32_t i = 0; i < net->address_count && settled; i++) {
        const struct address *address = &net->address[i];
        if (address->worker == net->options.hello.worker) continue;
        const struct conn *conn = net_find_conn(net, address->worker);
        bool here = conn != NULL && conn->up;
        bool dialled = address->worker < net->options.hello.worker;
        settled = here || waited || (dialled && address->tried);
    }
    if (settled != net->options.member->peers_settled)
        member_peers_settled(net->options.member, settled);
}

void net_dial_peers(struct net *net, int64_t now_us)
{
    for (uint32_t i = 0; i < net->address_count; i++) {
        struct address *address = &net->address[i];
        if (address->worker < net->options.hello.worker && now_us >= address->dial_us)
            dial(net, address, now_us);
    }
    settle_peers(net, now_us);
}

void net_peers_begin(struct net *net)
{
    for (uint32_t i = 0; i < net->address_count; i++) net->address[i].dial_us = -1;
}

void net_peer_address(struct net *net, uint64_t worker, const char *address)
{
    if (worker == 0 || strlen(address) >= NET_ADDRESS_BYTES) return;
    struct address *entry = NULL;
    for (uint32_t i = 0; i < net->address_count; i++)
        if (net->address[i].worker == worker) entry = &net->address[i];
    if (entry == NULL) {
        if (net->address_count == GROUP_PEERS_MAX) return;
        entry = &net->address[net->address_count++];
        *entry = (struct address){.worker = worker};
        net->listed_us = clock_monotonic_us();
    }
    snprintf(entry->text, sizeof entry->text, "%s", address);
    entry->dial_us = 0;
}

void net_peers_end(struct net *net)
{
    net->knows_peers = true;
    for (uint32_t i = 0; i < net->address_count;)
        if (net->address[i].dial_us < 0)
            net->address[i] = net->address[--net->address_count];
        else
            i++;
}
