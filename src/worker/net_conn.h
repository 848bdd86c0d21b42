/* One connection to a peer: frames in, frames out, never blocking. Used by net.c alone. */
#ifndef SHOAL_WORKER_NET_CONN_H
#define SHOAL_WORKER_NET_CONN_H

#include "base/error.h"
#include "worker/core/wire.h"
#include "worker/net.h"
#include <netinet/in.h>

enum { CONN_AHEAD_BYTES = 8192, CONN_BATCH_BYTES = 4096 };

struct conn {
    int fd;
    bool dialled, up, dead, unread, unsent;
    bool greeted, proof_due; /* their hello is fine; our proof is to be sent */
    struct wire_hello hello; /* theirs, once greeted */
    bool hangup;             /* the other end has closed: read to the end */
    uint64_t worker;         /* 0: not known yet */
    uint64_t key;            /* of our hello */
    int64_t link_lost_us;    /* 0: as far as known it has its link */
    int64_t since_us;        /* opened */
    enum wire_kind kind;
    uint32_t payload_bytes; /* of the frame just received */
    size_t in_count, out_at, out_end;
    uint8_t *in, *out;               /* header, then payload: 16 bytes keep the payload aligned */
    bool drained;                    /* the last read got less than there was room for */
    uint64_t read_bytes, told_bytes; /* all that came; as last told to the machine */
    size_t ahead_at, ahead_end;
    uint8_t ahead[CONN_AHEAD_BYTES]; /* read, and not yet part of a frame */
};

/* A socket that listens on this IPv4 address, at a free port: "address:port" in ret_text. -1: the
 * sentence tells. */
int conn_listen(const char *address, char ret_text[NET_ADDRESS_BYTES], struct error *ret_error);

enum conn_result { CONN_DONE = 1, CONN_AGAIN, CONN_LOST };

/* NULL: out of memory (fd is then left open). The hello is queued at once. */
struct conn *conn_open(int fd, bool dialled, uint64_t worker, const struct wire_hello *hello,
                       int64_t now_us);
void conn_close(struct conn *conn);

/* DONE: one whole frame is in kind, payload_bytes and conn_payload() until the next call. */
enum conn_result conn_receive(struct conn *conn);
const uint8_t *conn_payload(const struct conn *conn);

bool conn_has_output(const struct conn *conn);
/* Room for another frame before sending: small ones leave together. */
bool conn_has_room(const struct conn *conn);
uint8_t *conn_output(struct conn *conn); /* payload to fill, WIRE_PAYLOAD_MAX */
void conn_finish_output(struct conn *conn, enum wire_kind kind, size_t payload_bytes);
enum conn_result conn_send(struct conn *conn); /* DONE: all frames have left */

bool conn_read_hello(const struct conn *conn, struct wire_hello *ret_hello);
/* The frame after the hello: that `from` knows the token, to `to`, on this connection alone. False:
 * out of memory; another token. */
bool conn_put_proof(struct conn *conn, const char *token, const struct wire_hello *from,
                    const struct wire_hello *to);
bool conn_check_proof(const struct conn *conn, const char *token, const struct wire_hello *from,
                      const struct wire_hello *to);
void conn_peer_host(const struct conn *conn, char text[INET_ADDRSTRLEN]);
bool conn_parse_address(const char *text, struct sockaddr_in *ret_address); /* "1.2.3.4:5" */

#endif
