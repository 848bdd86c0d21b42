#include "worker/net.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "worker/net_state.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

enum { TICK_MS = MEMBER_TICK_US / 1000, EVENTS = 64 };
#define HELLO_US INT64_C(5000000)
#define FLUSH_US INT64_C(1000000)
#define LINK_US  INT64_C(200000) /* a link lost, and the connection lives on: it is of no use */

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

struct conn *net_add_conn(struct net *net, int fd, bool dialled, uint64_t worker)
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

void net_drop(struct net *net, struct conn *conn, const char *why)
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
        (void)net_add_conn(net, fd, false, 0);
    }
}

struct conn *net_find_conn(struct net *net, uint64_t worker)
{
    for (uint32_t i = 0; i < net->conn_count; i++)
        if (!net->conn[i]->dead && net->conn[i]->worker == worker) return net->conn[i];
    return NULL;
}

void net_send_line(struct net *net, const char *line)
{
    agent_lines_send(&net->agent, line);
}

static bool take_frame(struct net *net, struct conn *conn)
{
    if (!conn->greeted) return net_greet(net, conn);
    if (!conn->up) return net_let_in(net, conn);
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
            net_drop(net, conn, result == CONN_LOST ? "closed" : "protocol");
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
        struct wire_hello ours = net_own_hello(net, conn);
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
        if (result == CONN_LOST) net_drop(net, conn, "closed");
    }
    conn->unsent = true;
}

static void tick(struct net *net, int64_t now_us)
{
    net_links_look(net->links, now_us);
    member_tick(net->options.member, now_us);
    net_links_post(net->links);
    for (uint32_t i = 0; i < net->conn_count; i++)
        if (!net->conn[i]->up && now_us - net->conn[i]->since_us > HELLO_US)
            net_drop(net, net->conn[i], "no hello");
    for (uint32_t i = 0; i < net->conn_count; i++)
        if (net->conn[i]->link_lost_us != 0 && now_us - net->conn[i]->link_lost_us > LINK_US)
            net_drop(net, net->conn[i], "link");
    if (net->options.wants_to_leave(net->options.self)) member_leave(net->options.member);
    net_dial_peers(net, now_us);
    net_watch_refusals(net, now_us);
}

/* After a tick and after reading: who has still not been heard of? */
static void drop_silent(struct net *net)
{
    for (uint32_t i = 0; i < net->conn_count; i++) {
        struct conn *conn = net->conn[i];
        if (!conn->up || conn->unread || conn->dead) continue;
        if (member_peer_is_silent(net->options.member, conn->worker)) net_drop(net, conn, "silent");
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
        struct conn *conn = net_find_conn(net, peer);
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
