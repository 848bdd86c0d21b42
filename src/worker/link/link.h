/* One way to move messages between two members: shared memory, TCP streams, or TLS over TCP.
 *
 * Role       A link carries whole messages both ways, in order, between two processes. A message is
 *            a small header and a payload that the sender gives as spans, straight from its arrays;
 *            the receiver gets the payload in one piece and may add from it in place.
 * Which      link_door.h chooses: one host -> shm, one zone -> tcp, other zone -> tls;
 *            SHOAL_LINK=shm|tcp|tls forces one.
 * Sending    link_send() takes a whole message or nothing (AGAIN). What it took may still be read
 *            from the arrays: the message sent `streams` messages ago is done with once
 *            link_clear() says so, all are once link_flush() does. Before the arrays change, call
 *            link_void(): what is half sent then arrives as void and is dropped on the other side,
 *            so that no message is ever half old, half new; that is all an abort has to do.
 * Receiving  DONE gives one message, valid until link_release(), which must come before the next.
 *            Header at an 8-byte, payload at a 64-byte boundary.
 * Waiting    Nothing here blocks. A waiter may spin on link_has_input(), which also tells of new
 *            room for a message refused (false is no proof on tcp and tls: try link_receive()),
 *            then link_arm() and epoll on link_descriptors(), edge-triggered; link_disarm()
 *            afterwards. An armed link whose state changed meanwhile says so by returning false
 *            from link_arm().
 * Loss       A peer that dies closes its sockets: LINK_LOST, at once, also for shm, which keeps a
 *            socket beside its memory as doorbell and as sign of life. A message that breaks the
 *            form is LINK_LOST too. After LOST only link_close() may follow.
 * Threads    One at a time, except that link_has_input() may race with the others.
 * Trust      The form of everything read from a peer is checked. shm: both processes are of one
 *            user on one host and map the same pages; a peer that rewrites a message while it is
 *            read is not defended against (it could attach a debugger as well).
 */
#ifndef SHOAL_WORKER_LINK_LINK_H
#define SHOAL_WORKER_LINK_LINK_H

#include "worker/core/span.h"
#include <stdbool.h>
#include <stdint.h>

enum {
    LINK_HEADER_MAX = 240, /* with its prefix: four lines of memory */
    LINK_PAYLOAD_MAX = EXCHANGE_PAYLOAD_MAX,
    LINK_SPANS_MAX = EXCHANGE_SPANS_MAX,
    LINK_STREAMS_MAX = 8,
};

enum link_kind { LINK_SHM = 1, LINK_TCP, LINK_TLS };
enum link_result { LINK_DONE = 1, LINK_AGAIN, LINK_LOST };

struct link_message {
    const uint8_t *header, *payload;
    size_t header_bytes, payload_bytes;
};

struct link {
    const struct link_ops *ops;
    enum link_kind kind;
    uint32_t streams; /* messages that may be on their way at once */
    bool rung; /* for the owner to set: epoll has told of its descriptor since it was armed last */
    uint64_t sent_bytes, received_bytes; /* payloads */
};

struct link_ops {
    enum link_result (*send)(struct link *link, const uint8_t *header, size_t header_bytes,
                             const struct span *span, uint32_t span_count);
    enum link_result (*clear)(struct link *link); /* DONE: the next message may be made */
    enum link_result (*flush)(struct link *link); /* DONE: nothing is on its way any more */
    void (*make_void)(struct link *link);
    enum link_result (*receive)(struct link *link, struct link_message *ret_message);
    void (*release)(struct link *link);
    bool (*has_input)(const struct link *link);
    bool (*arm)(struct link *link);
    void (*disarm)(struct link *link);
    uint32_t (*descriptors)(const struct link *link, int fd[LINK_STREAMS_MAX]);
    void (*close)(struct link *link);
};

const char *link_kind_name(enum link_kind kind);
bool link_parse_kind(const char *text, enum link_kind *ret_kind);

static inline enum link_result link_clear(struct link *link)
{
    return link->ops->clear(link);
}
static inline enum link_result link_flush(struct link *link)
{
    return link->ops->flush(link);
}
static inline void link_void(struct link *link)
{
    link->ops->make_void(link);
}
static inline enum link_result link_receive(struct link *link, struct link_message *ret_message)
{
    return link->ops->receive(link, ret_message);
}
static inline void link_release(struct link *link)
{
    link->ops->release(link);
}
static inline bool link_has_input(const struct link *link)
{
    return link->ops->has_input(link);
}
static inline void link_close(struct link *link)
{
    if (link != NULL) link->ops->close(link);
}
static inline enum link_result link_send(struct link *link, const uint8_t *header,
                                         size_t header_bytes, const struct span *span,
                                         uint32_t span_count)
{
    return link->ops->send(link, header, header_bytes, span, span_count);
}

#endif
