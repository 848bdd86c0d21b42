#include "worker/net_conn.h"
#include "base/mem.h"
#include "core/assert.h"
#include "worker/link/token.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int conn_listen(const char *address, char ret_text[NET_ADDRESS_BYTES], struct error *ret_error)
{
    struct sockaddr_in local = {.sin_family = AF_INET};
    socklen_t bytes = sizeof local;
    if (inet_pton(AF_INET, address, &local.sin_addr) != 1) {
        (void)error_set(ret_error, "SHOAL_LISTEN=%s: expected an IPv4 address to listen on",
                        address);
        return -1;
    }
    if (local.sin_addr.s_addr == htonl(INADDR_ANY)) {
        (void)error_set(ret_error, "SHOAL_LISTEN=%s: give the address that peers can reach",
                        address);
        return -1;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&local, sizeof local) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&local, &bytes) != 0) {
        (void)error_set(ret_error, "%s: cannot listen for peers: %s", address, error_errno(errno));
        if (fd >= 0) (void)close(fd); /* nobody knows of it */
        return -1;
    }
    snprintf(ret_text, NET_ADDRESS_BYTES, "%s:%u", address, ntohs(local.sin_port));
    return fd;
}

struct conn *conn_open(int fd, bool dialled, uint64_t worker, const struct wire_hello *hello,
                       int64_t now_us)
{
    struct conn *conn = mem_zalloc(1, sizeof *conn);
    uint8_t *in = mem_alloc(WIRE_HEADER_BYTES + WIRE_PAYLOAD_MAX);
    uint8_t *out = mem_alloc(CONN_BATCH_BYTES + WIRE_HEADER_BYTES + WIRE_PAYLOAD_MAX);
    if (conn == NULL || in == NULL || out == NULL) {
        mem_free(conn);
        mem_free(in);
        mem_free(out);
        return NULL;
    }
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* only slower without */
    *conn = (struct conn){.fd = fd, .dialled = dialled, .worker = worker, .since_us = now_us};
    conn->in = in;
    conn->out = out;
    conn->key = hello->key;
    conn_finish_output(conn, WIRE_HELLO, wire_put_hello(conn_output(conn), hello));
    return conn;
}

void conn_close(struct conn *conn)
{
    (void)close(conn->fd); /* frames not sent are of no use to anybody now */
    mem_free(conn->in);
    mem_free(conn->out);
    mem_free(conn);
}

const uint8_t *conn_payload(const struct conn *conn)
{
    return conn->in + WIRE_HEADER_BYTES;
}

static void take_ahead(struct conn *conn, size_t wanted)
{
    size_t count = conn->ahead_end - conn->ahead_at, missing = wanted - conn->in_count;
    if (count > missing) count = missing;
    memcpy(conn->in + conn->in_count, conn->ahead + conn->ahead_at, count);
    conn->ahead_at += count;
    conn->in_count += count;
}

/* Reads until in_count == wanted: large bodies in place, small ones with whatever follows. */
static enum conn_result read_until(struct conn *conn, size_t wanted)
{
    take_ahead(conn, wanted);
    while (conn->in_count < wanted) {
        if (conn->drained && !conn->hangup) {
            conn->drained = false;
            return CONN_AGAIN;
        }
        size_t missing = wanted - conn->in_count;
        bool direct = missing >= CONN_AHEAD_BYTES;
        size_t room = direct ? missing : CONN_AHEAD_BYTES;
        ssize_t got = recv(conn->fd, direct ? conn->in + conn->in_count : conn->ahead, room, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN))
            return CONN_AGAIN; /* ENOTCONN: the dial is still under way */
        if (got <= 0) return CONN_LOST;
        conn->drained = (size_t)got < room; /* epoll tells when more comes */
        conn->read_bytes += (uint64_t)got;
        if (direct) {
            conn->in_count += (size_t)got;
            continue;
        }
        conn->ahead_at = 0;
        conn->ahead_end = (size_t)got;
        take_ahead(conn, wanted);
    }
    return CONN_DONE;
}

enum conn_result conn_receive(struct conn *conn)
{
    if (conn->in_count < WIRE_HEADER_BYTES) {
        enum conn_result result = read_until(conn, WIRE_HEADER_BYTES);
        if (result != CONN_DONE) return result;
        if (!wire_get_header(conn->in, &conn->kind, &conn->payload_bytes)) return CONN_LOST;
    }
    enum conn_result result = read_until(conn, WIRE_HEADER_BYTES + conn->payload_bytes);
    if (result != CONN_DONE) return result;
    conn->in_count = 0;
    return wire_payload_is_sound(conn->in) ? CONN_DONE : CONN_LOST;
}

bool conn_has_output(const struct conn *conn)
{
    return conn->out_at < conn->out_end;
}

bool conn_has_room(const struct conn *conn)
{
    return conn->out_at == conn->out_end || (conn->out_at == 0 && conn->out_end < CONN_BATCH_BYTES);
}

uint8_t *conn_output(struct conn *conn)
{
    ASSERT(conn_has_room(conn));
    if (!conn_has_output(conn)) conn->out_at = conn->out_end = 0;
    return conn->out + conn->out_end + WIRE_HEADER_BYTES;
}

void conn_finish_output(struct conn *conn, enum wire_kind kind, size_t payload_bytes)
{
    wire_put_header(conn->out + conn->out_end, kind, (uint32_t)payload_bytes);
    conn->out_end += WIRE_HEADER_BYTES + payload_bytes;
}

enum conn_result conn_send(struct conn *conn)
{
    while (conn_has_output(conn)) {
        ssize_t sent =
            send(conn->fd, conn->out + conn->out_at, conn->out_end - conn->out_at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN))
            return CONN_AGAIN;
        if (sent <= 0) return CONN_LOST;
        conn->out_at += (size_t)sent;
    }
    return CONN_DONE;
}

bool conn_read_hello(const struct conn *conn, struct wire_hello *ret_hello)
{
    return conn->kind == WIRE_HELLO &&
           wire_get_hello(conn_payload(conn), conn->payload_bytes, ret_hello);
}

enum { PROOF_TEXT_BYTES = 16 + 5 * 8 };

static void write_proof_text(const struct wire_hello *from, const struct wire_hello *to,
                             uint8_t text[PROOF_TEXT_BYTES])
{
    struct wire_cursor cursor = {.at = text, .end = text + PROOF_TEXT_BYTES};
    wire_write(&cursor, "shoal peer, 0001", 16);
    wire_write_u64(&cursor, from->job);
    wire_write_u64(&cursor, from->worker);
    wire_write_u64(&cursor, to->worker);
    wire_write_u64(&cursor, from->key);
    wire_write_u64(&cursor, to->key);
}

bool conn_put_proof(struct conn *conn, const char *token, const struct wire_hello *from,
                    const struct wire_hello *to)
{
    uint8_t text[PROOF_TEXT_BYTES];
    write_proof_text(from, to, text);
    if (!token_prove(token, text, sizeof text, conn_output(conn))) return false;
    conn_finish_output(conn, WIRE_PROOF, TOKEN_PROOF_BYTES);
    return true;
}

bool conn_check_proof(const struct conn *conn, const char *token, const struct wire_hello *from,
                      const struct wire_hello *to)
{
    uint8_t text[PROOF_TEXT_BYTES];
    write_proof_text(from, to, text);
    return conn->kind == WIRE_PROOF && conn->payload_bytes == TOKEN_PROOF_BYTES &&
           token_check(token, text, sizeof text, conn_payload(conn));
}

void conn_peer_host(const struct conn *conn, char text[INET_ADDRSTRLEN])
{
    struct sockaddr_in peer = {.sin_family = AF_INET};
    socklen_t bytes = sizeof peer;
    (void)getpeername(conn->fd, (struct sockaddr *)&peer, &bytes);   /* gone: 0.0.0.0 refuses */
    (void)inet_ntop(AF_INET, &peer.sin_addr, text, INET_ADDRSTRLEN); /* fits */
}

bool conn_parse_address(const char *text, struct sockaddr_in *ret_address)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof host) return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || port == 0 || port > 65535) return false;
    *ret_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, host, &ret_address->sin_addr) == 1;
}
