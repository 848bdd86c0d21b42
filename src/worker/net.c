#include "worker/net.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "worker/agent_lines.h"
#include "worker/link/net_links.h"
#include "worker/net_conn.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

enum { TICK_MS = MEMBER_TICK_US / 1000, EVENTS = 64 };
#define REDIAL_US INT64_C(200000)
#define SETTLE_US INT64_C(1000000) /* higher ids dial us: give them this long before founding */
#define HELLO_US  INT64_C(5000000)
#define FLUSH_US  INT64_C(1000000)
#define LINK_US   INT64_C(200000) /* a link lost, and the connection lives on: it is of no use */

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

const char *net_address(const struct net *net)
{
    return net->text;
}

void net_wake(struct net *net)
{
    uint64_t one = 1;
    ssize_t written = write(net->wake, &one, sizeof one);
    (void)written; /* full counter: it is awake anyway */
}

static bool watch(struct net *net, int fd, uint32_t events, void *what)
{
    struct epoll_event event = {.events = events, .data.ptr = what};
    return epoll_ctl(net->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void net_drive(struct net *net)
{
    net_links_drive(net->links);
}

void net_interrupt(struct net *net)
{
    net_links_wake(net->links);
}

void net_sync(struct net *net)
{
    net_links_sync(net->links);
}

static struct conn *add_conn(struct net *net, int fd, bool dialled, uint64_t worker)
{
    struct conn *conn = NULL;
    struct wire_hello hello = net->options.hello;
    bool drawn = getrandom(&hello.key, sizeof hello.key, 0) == sizeof hello.key;
    if (fd >= 0 && drawn && net->conn_count < NET_CONNECTIONS_MAX)
        conn = conn_open(fd, dialled, worker, &hello, clock_monotonic_us());
    if (conn != NULL && watch(net, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, conn)) {
        net->conn[net->conn_count++] = conn;
        return conn;
    }
    if (conn != NULL)
        conn_close(conn);
    else if (fd >= 0)
        (void)close(fd); /* refused: nothing was sent */
    return NULL;
}

/* Takes the connection out of the machine; the struct is freed by sweep() after the round, since
 * epoll may still name it. */
static void drop(struct net *net, struct conn *conn, const char *why)
{
    if (conn->dead) return;
    conn->dead = true;
    if (conn->up) {
        log_line(LOG_INFO, "worker", "a peer is lost", "worker=%" PRIu64 " why=%s", conn->worker,
                 why);
        net_links_peer_down(net->links, conn->worker);
        member_peer_down(net->options.member, conn->worker);
    }
    conn->up = false;
}

static void sweep(struct net *net)
{
    for (uint32_t i = 0; i < net->conn_count;) {
        if (!net->conn[i]->dead) {
            i++;
            continue;
        }
        conn_close(net->conn[i]);
        net->conn[i] = net->conn[--net->conn_count];
    }
}

static void accept_peers(struct net *net)
{
    for (;;) {
        int fd = accept4(net->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        (void)add_conn(net, fd, false, 0);
    }
}

static struct conn *find_conn(struct net *net, uint64_t worker)
{
    for (uint32_t i = 0; i < net->conn_count; i++)
        if (!net->conn[i]->dead && net->conn[i]->worker == worker) return net->conn[i];
    return NULL;
}

static void dial(struct net *net, struct address *address, int64_t now_us)
{
    address->dial_us = now_us + REDIAL_US;
    if (find_conn(net, address->worker) != NULL) return;
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
    if (fd >= 0) (void)add_conn(net, fd, true, address->worker);
}

/* Founding a group is fair once everybody listed had a chance to say that one exists already. */
static void settle_peers(struct net *net, int64_t now_us)
{
    bool settled = net->knows_peers && net->refused_us == 0;
    bool waited = now_us - net->listed_us > SETTLE_US;
    for (uint32_t i = 0; i < net->address_count && settled; i++) {
        const struct address *address = &net->address[i];
        if (address->worker == net->options.hello.worker) continue;
        const struct conn *conn = find_conn(net, address->worker);
        bool here = conn != NULL && conn->up;
        bool dialled = address->worker < net->options.hello.worker;
        settled = here || waited || (dialled && address->tried);
    }
    if (settled != net->options.member->peers_settled)
        member_peers_settled(net->options.member, settled);
}

static void dial_peers(struct net *net, int64_t now_us)
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

void net_send_line(struct net *net, const char *line)
{
    agent_lines_send(&net->agent, line);
}

/* What keeps this peer out, or NULL. */
static const char *refusal(const struct net *net, const struct conn *conn,
                           const struct wire_hello *hello, char *text, size_t bytes)
{
    const struct wire_hello *ours = &net->options.hello;
    if (hello->job != ours->job) return "is of another job";
    if (hello->plan != ours->plan) { /* before the identity, which then differs as well */
        net->options.tell_difference(net->options.self, hello, text, bytes);
        return text;
    }
    if (hello->identity != ours->identity) {
        snprintf(text, bytes,
                 "has identity %016" PRIx64 ", this worker %016" PRIx64
                 "; run the same program with the same options and data",
                 hello->identity, ours->identity);
        return text;
    }
    if (hello->worker == 0 || hello->worker == ours->worker ||
        (conn->dialled && hello->worker != conn->worker))
        return "has an unexpected worker id";
    return NULL;
}

/* Anybody can connect and talk nonsense: only workers of this job, and those we dialled, count. */
static bool is_of_this_job(const struct net *net, const struct conn *conn)
{
    uint64_t job = 0;
    if (conn->dialled) return true;
    if (conn->kind != WIRE_HELLO || conn->payload_bytes < 4 + sizeof job) return false;
    memcpy(&job, conn_payload(conn) + 4, sizeof job); /* lies there in every version */
    return job == net->options.hello.job;
}

static void watch_refusals(struct net *net, int64_t now_us)
{
    bool others = false;
    for (uint32_t i = 0; i < net->address_count; i++)
        others = others || net->address[i].worker != net->options.hello.worker;
    if (!others) net->refused_us = 0; /* who did not fit is gone */
    for (uint32_t i = 0; i < net->conn_count; i++)
        if (net->conn[i]->up) net->refused_us = 0;
    if (net->refused_us != 0 && now_us - net->refused_us > NET_REFUSED_US)
        net->options.on_refused(net->options.self, net->refused_why);
}

static bool refuse(struct net *net, const struct conn *conn, const char *why)
{
    if (net->refused_us == 0 && is_of_this_job(net, conn)) {
        net->refused_us = clock_monotonic_us();
        snprintf(net->refused_why, sizeof net->refused_why, "it %s", why);
    }
    if (!net->said_refused)
        log_line(LOG_WARN, "worker", "a peer was refused", "why=\"it %s\"", why);
    net->said_refused = true;
    return false;
}

/* Our hello as it was sent on this connection. */
static struct wire_hello own_hello(const struct net *net, const struct conn *conn)
{
    struct wire_hello hello = net->options.hello;
    hello.key = conn->key;
    return hello;
}

/* First frame of a connection. False: this is nobody to work with. */
static bool greet(struct net *net, struct conn *conn)
{
    char text[512];
    struct wire_hello hello;
    uint32_t version = 0; /* lies there in every version */
    if (conn->kind == WIRE_HELLO && conn->payload_bytes >= sizeof version)
        memcpy(&version, conn_payload(conn), sizeof version);
    if (version != net->options.hello.version) {
        snprintf(text, sizeof text,
                 "speaks version %" PRIu32 " of the protocol between workers, this one %" PRIu32
                 "; install the same release of shoal on both",
                 version, net->options.hello.version);
        return refuse(net, conn, text);
    }
    if (!conn_read_hello(conn, &hello)) return refuse(net, conn, "says hello in another form");
    const char *why = refusal(net, conn, &hello, text, sizeof text);
    if (why != NULL) return refuse(net, conn, why);
    conn->hello = hello;
    conn->hello.tensor_marks = NULL; /* lay in the frame */
    conn->greeted = conn->proof_due = true;
    return true;
}

/* Second frame: it knows the token, so it is who it says. */
static bool let_in(struct net *net, struct conn *conn)
{
    struct wire_hello ours = own_hello(net, conn);
    const struct wire_hello *hello = &conn->hello;
    if (!conn_check_proof(conn, net->options.door.token, hello, &ours))
        return refuse(net, conn, "has another token; SHOAL_TOKEN must be the same");
    for (uint32_t i = 0; i < net->conn_count; i++) /* it has started anew, or lost the old one */
        if (net->conn[i] != conn && net->conn[i]->worker == hello->worker)
            drop(net, net->conn[i], "reconnected");
    conn->worker = hello->worker;
    conn->up = member_peer_up(net->options.member, hello->worker, clock_monotonic_us());
    if (!conn->up) return false;
    char host[INET_ADDRSTRLEN];
    conn_peer_host(conn, host);
    net_links_peer_up(net->links, hello, conn->dialled ? conn->key : hello->key, host,
                      conn->dialled);
    return true;
}

static bool take_frame(struct net *net, struct conn *conn)
{
    if (!conn->greeted) return greet(net, conn);
    if (!conn->up) return let_in(net, conn);
    return member_frame(net->options.member, conn->worker, conn->kind, conn_payload(conn),
                        conn->payload_bytes, clock_monotonic_us());
}

static void receive(struct net *net, struct conn *conn)
{
    for (int i = 0; i < 32 && !conn->dead; i++) { /* bounded: others want their turn */
        enum conn_result result = conn_receive(conn);
        if (result == CONN_AGAIN) return;
        if (result == CONN_LOST || !take_frame(net, conn)) {
            if (result != CONN_LOST && conn->up)
                log_line(LOG_WARN, "worker", "a peer broke the protocol; connection closed",
                         "worker=%" PRIu64, conn->worker);
            for (uint32_t k = 0; k < net->address_count; k++)
                if (net->address[k].worker == conn->worker) net->address[k].tried = true;
            drop(net, conn, result == CONN_LOST ? "closed" : "protocol");
            return;
        }
    }
    conn->unread = true;
}

static bool fill_frame(struct net *net, struct conn *conn)
{
    enum wire_kind kind;
    size_t count = member_fill(net->options.member, conn->worker, conn_output(conn), &kind);
    if (count > 0) conn_finish_output(conn, kind, count);
    return count > 0;
}

/* Fills what is due to a peer, small frames together. False: nothing is left to send. */
static bool fill(struct net *net, struct conn *conn)
{
    if (conn->proof_due && conn_has_room(conn)) {
        struct wire_hello ours = own_hello(net, conn);
        conn->proof_due = !conn_put_proof(conn, net->options.door.token, &ours, &conn->hello);
    }
    while (conn->up && !conn->proof_due && conn_has_room(conn))
        if (!fill_frame(net, conn)) break;
    return conn_has_output(conn);
}

static void pump(struct net *net, struct conn *conn)
{
    for (int i = 0; i < 32 && !conn->dead; i++) {
        if (!fill(net, conn)) return;
        enum conn_result result = conn_send(conn);
        if (result == CONN_AGAIN) return;
        if (result == CONN_LOST) drop(net, conn, "closed");
    }
    conn->unsent = true;
}

static void tick(struct net *net, int64_t now_us)
{
    member_tick(net->options.member, now_us);
    for (uint32_t i = 0; i < net->conn_count; i++)
        if (!net->conn[i]->up && now_us - net->conn[i]->since_us > HELLO_US)
            drop(net, net->conn[i], "no hello");
    for (uint32_t i = 0; i < net->conn_count; i++)
        if (net->conn[i]->link_lost_us != 0 && now_us - net->conn[i]->link_lost_us > LINK_US)
            drop(net, net->conn[i], "link");
    if (net->options.wants_to_leave(net->options.self)) member_leave(net->options.member);
    dial_peers(net, now_us);
    watch_refusals(net, now_us);
}

/* After a tick and after reading: who has still not been heard of? */
static void drop_silent(struct net *net)
{
    for (uint32_t i = 0; i < net->conn_count; i++) {
        struct conn *conn = net->conn[i];
        if (!conn->up || conn->unread || conn->dead) continue;
        if (member_peer_is_silent(net->options.member, conn->worker)) drop(net, conn, "silent");
    }
}

static void happen(struct net *net, const struct epoll_event *event)
{
    uint64_t count;
    if (event->data.ptr == &net->wake) {
        ssize_t got = read(net->wake, &count, sizeof count);
        (void)got; /* only to clear it */
    } else if (event->data.ptr == &net->listener) {
        accept_peers(net);
    } else if (event->data.ptr == &net->links) {
        /* move_frames() looks at them in any case */
    } else if (event->data.ptr == &net->agent) {
        agent_lines_read(&net->agent);
    } else {
        struct conn *conn = event->data.ptr;
        if ((event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
            conn->unread = conn->hangup = true;
        if ((event->events & EPOLLIN) != 0) conn->unread = true;
    }
}

/* A peer that ends closes both; what it said last on its connection is still to be heard. */
static void note_lost_links(struct net *net, int64_t now_us)
{
    uint64_t peer;
    while (net_links_take_lost(net->links, &peer)) {
        struct conn *conn = find_conn(net, peer);
        if (conn != NULL && conn->link_lost_us == 0) conn->link_lost_us = now_us;
    }
}

/* One pass over everything that may move. True: some stopped at their bound, go on at once. */
static bool move_frames(struct net *net, int64_t now_us)
{
    bool more = net_links_step(net->links, now_us);
    note_lost_links(net, now_us);
    for (uint32_t i = 0; i < net->conn_count; i++) {
        struct conn *conn = net->conn[i];
        if (!conn->unread || conn->dead) continue;
        conn->unread = false;
        receive(net, conn);
        if (conn->up && conn->read_bytes != conn->told_bytes)
            member_heard(net->options.member, conn->worker, clock_monotonic_us());
        conn->told_bytes = conn->read_bytes;
        more = more || conn->unread;
    }
    more = net_links_offer(net->links) || more;
    drop_silent(net);
    for (uint32_t i = 0; i < net->conn_count; i++) {
        net->conn[i]->unsent = false;
        pump(net, net->conn[i]);
        more = more || net->conn[i]->unsent;
    }
    return more;
}

static bool all_sent(struct net *net)
{
    if (!net_links_all_sent(net->links)) return false;
    for (uint32_t i = 0; i < net->conn_count; i++)
        if (net->conn[i]->up && conn_has_output(net->conn[i])) return false;
    return agent_lines_all_sent(&net->agent);
}

static void *run(void *self)
{
    struct net *net = self;
    struct epoll_event events[EVENTS];
    int64_t tick_us = 0, stop_us = INT64_MAX;
    bool more = false;
    for (;;) {
        int count = epoll_wait(net->epoll, events, EVENTS, more ? 0 : TICK_MS);
        int64_t now_us = clock_monotonic_us();
        net_links_lock(net->links);
        for (int i = 0; i < count; i++) happen(net, &events[i]);
        if (now_us >= tick_us) {
            tick_us = now_us + TICK_MS * 1000;
            tick(net, now_us);
        }
        more = move_frames(net, now_us);
        sweep(net);
        net->options.on_change(net->options.self);
        net_links_sync(net->links);
        agent_lines_flush(&net->agent);
        pthread_mutex_unlock(net->options.lock);
        if (!net->stopping) continue;
        if (stop_us == INT64_MAX) stop_us = now_us + FLUSH_US;
        if ((!more && all_sent(net)) || now_us > stop_us) return NULL;
    }
}

static void release(struct net *net)
{
    for (uint32_t i = 0; i < net->conn_count; i++) conn_close(net->conn[i]);
    net_links_close(net->links);
    if (net->epoll >= 0) (void)close(net->epoll); /* nothing to lose in any of these */
    if (net->listener >= 0) (void)close(net->listener);
    if (net->wake >= 0) (void)close(net->wake);
    agent_lines_close(&net->agent);
    mem_free(net);
}

static bool open_all(struct net *net, struct error *ret_error)
{
    net->listener = conn_listen(net->options.listen, net->text, ret_error);
    if (net->listener < 0) return false;
    net->epoll = epoll_create1(EPOLL_CLOEXEC);
    net->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!agent_lines_open(&net->agent))
        return error_set(ret_error, "out of memory for agent lines");
    net->links =
        net_links_open(net->options.member, net->options.lock, &net->options.door, ret_error);
    if (net->links == NULL) return false;
    net->options.hello.place = *net_links_place(net->links);
    if (net->epoll < 0 || net->wake < 0 || !watch(net, net->wake, EPOLLIN, &net->wake) ||
        !watch(net, net->listener, EPOLLIN, &net->listener) ||
        !watch(net, net_links_fd(net->links), EPOLLIN, &net->links))
        return error_set(ret_error, "cannot set up the peer sockets: %s", error_errno(errno));
    if (net->agent.fd >= 0 && !watch(net, net->agent.fd, EPOLLIN, &net->agent))
        return error_set(ret_error, "SHOAL_AGENT_FD=%d: cannot use this descriptor: %s",
                         net->agent.fd, error_errno(errno));
    return true;
}

struct net *net_start(const struct net_options *options, struct error *ret_error)
{
    struct net *net = mem_zalloc(1, sizeof *net);
    if (net == NULL) {
        (void)error_set(ret_error, "out of memory for the peer sockets");
        return NULL;
    }
    net->options = *options;
    net->epoll = net->listener = net->wake = -1;
    net->agent = (struct agent_lines){.fd = options->agent_fd,
                                      .self = options->self,
                                      .on_line = options->on_line,
                                      .on_gone = options->on_agent_gone};
    net->knows_peers = options->agent_fd < 0;
    if (!open_all(net, ret_error)) {
        release(net);
        return NULL;
    }
    int failed = pthread_create(&net->thread, NULL, run, net);
    if (failed != 0) {
        (void)error_set(ret_error, "cannot start the network thread: %s", error_errno(failed));
        release(net);
        return NULL;
    }
    return net;
}

void net_stop(struct net *net)
{
    if (net == NULL) return;
    net->stopping = true;
    net_wake(net);
    (void)pthread_join(net->thread, NULL); /* it ends within FLUSH_US */
    release(net);
}
