/* Who is let in: the hello and the proof of a peer, and what becomes of one whom all refuse. */
#include "base/clock.h"
#include "base/log.h"
#include "worker/net_state.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

void net_watch_refusals(struct net *net, int64_t now_us)
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

struct wire_hello net_own_hello(const struct net *net, const struct conn *conn)
{
    struct wire_hello hello = net->options.hello;
    hello.key = conn->key;
    return hello;
}

bool net_greet(struct net *net, struct conn *conn)
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

bool net_let_in(struct net *net, struct conn *conn)
{
    struct wire_hello ours = net_own_hello(net, conn);
    const struct wire_hello *hello = &conn->hello;
    if (!conn_check_proof(conn, net->options.door.token, hello, &ours))
        return refuse(net, conn, "has another token; SHOAL_TOKEN must be the same");
    for (uint32_t i = 0; i < net->conn_count; i++) /* it has started anew, or lost the old one */
        if (net->conn[i] != conn && net->conn[i]->worker == hello->worker)
            net_drop(net, net->conn[i], "reconnected");
    conn->worker = hello->worker;
    conn->up = member_peer_up(net->options.member, hello->worker, clock_monotonic_us());
    if (!conn->up) return false;
    char host[INET_ADDRSTRLEN];
    conn_peer_host(conn, host);
    net_links_peer_up(net->links, hello, conn->dialled ? conn->key : hello->key, host,
                      conn->dialled);
    return true;
}
