#include "worker/link/link_stream.h"
#include "base/mem.h"
#include "core/assert.h"
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

enum {
    LINE = 64,
    MAGIC = 0x4b4e4c53,
    FRONT_MAX = 256,              /* prefix and the largest header, whole lines */
    READ_AHEAD_BYTES = 32 * 1024, /* a message of 16 KB of elements, see layout.h, in one read */
    TRAILER_BYTES = 8,
    BUFFER_BYTES = FRONT_MAX + LINK_PAYLOAD_MAX + TRAILER_BYTES, /* of one message */
    PIECES_MAX = LINK_SPANS_MAX + 2,
};
#define MARK_GOOD UINT64_C(0x646f6f67676f6f64)
#define MARK_VOID UINT64_C(0x64696f7664696f76)

struct prefix {
    uint32_t magic, payload_bytes, header_bytes, check;
};
static_assert((sizeof(struct prefix) + LINK_HEADER_MAX + LINE - 1) / LINE * LINE <= FRONT_MAX,
              "the front holds the largest header");

struct stream {
    int fd;
    void *ssl;
    /* On its way out: piece[at ..] of count: front, payload, mark. */
    struct iovec piece[PIECES_MAX];
    int piece_at, piece_count;
    uint64_t mark;
    uint8_t *in; /* BUFFER_BYTES at a line */
    void *in_block;
    size_t in_count;
    _Alignas(16) uint8_t front[FRONT_MAX];
};

struct link_stream {
    struct link link;
    const struct stream_io *io;
    uint32_t count, out, in; /* streams; whose turn it is */
    size_t in_hand;          /* bytes of the message given out */
    bool lost;
    struct stream stream[];
};

static uint32_t check_of(const struct prefix *prefix)
{
    uint32_t word = (prefix->payload_bytes ^ MAGIC) * UINT32_C(2654435761);
    return (word ^ prefix->header_bytes) * UINT32_C(2246822519);
}

static size_t front_bytes(size_t header_bytes)
{
    return (sizeof(struct prefix) + header_bytes + LINE - 1) & ~(size_t)(LINE - 1);
}

static bool is_sending(const struct stream *stream)
{
    return stream->piece_at < stream->piece_count;
}

static enum link_result lose(struct link_stream *all)
{
    all->lost = true;
    return LINK_LOST;
}

/* Takes `sent` bytes off the front of the pieces. */
static void take_off(struct stream *stream, size_t sent)
{
    while (sent > 0) {
        struct iovec *piece = &stream->piece[stream->piece_at];
        size_t part = sent < piece->iov_len ? sent : piece->iov_len;
        piece->iov_base = (uint8_t *)piece->iov_base + part;
        piece->iov_len -= part;
        sent -= part;
        if (piece->iov_len == 0) stream->piece_at++;
    }
}

static enum link_result push(struct link_stream *all, struct stream *stream)
{
    while (is_sending(stream)) {
        ssize_t sent = all->io->write(stream->fd, stream->ssl, stream->piece + stream->piece_at,
                                      stream->piece_count - stream->piece_at);
        if (sent < 0) return lose(all);
        if (sent == 0) return LINK_AGAIN;
        take_off(stream, (size_t)sent);
    }
    return LINK_DONE;
}

static void put_front(struct stream *stream, const uint8_t *header, size_t header_bytes,
                      size_t payload_bytes)
{
    struct prefix prefix = {MAGIC, (uint32_t)payload_bytes, (uint32_t)header_bytes, 0};
    size_t count = front_bytes(header_bytes);
    prefix.check = check_of(&prefix);
    memcpy(stream->front, &prefix, sizeof prefix);
    memcpy(stream->front + sizeof prefix, header, header_bytes);
    memset(stream->front + sizeof prefix + header_bytes, 0, count - sizeof prefix - header_bytes);
    stream->piece[0] = (struct iovec){stream->front, count};
}

static enum link_result stream_send(struct link *link, const uint8_t *header, size_t header_bytes,
                                    const struct span *span, uint32_t span_count)
{
    struct link_stream *all = (struct link_stream *)link;
    struct stream *stream = &all->stream[all->out];
    size_t payload_bytes = 0;
    ASSERT(header_bytes <= LINK_HEADER_MAX);
    ASSERT(span_count <= LINK_SPANS_MAX);
    if (all->lost) return LINK_LOST;
    enum link_result result = push(all, stream);
    if (result != LINK_DONE) return result;
    stream->piece_at = 0;
    stream->piece_count = 1;
    for (uint32_t i = 0; i < span_count; i++) {
        if (span[i].count == 0) continue;
        stream->piece[stream->piece_count++] =
            (struct iovec){(void *)(uintptr_t)span[i].bytes, span[i].count};
        payload_bytes += span[i].count;
    }
    ASSERT(payload_bytes <= LINK_PAYLOAD_MAX);
    stream->mark = MARK_GOOD;
    stream->piece[stream->piece_count++] = (struct iovec){&stream->mark, TRAILER_BYTES};
    put_front(stream, header, header_bytes, payload_bytes);
    link->sent_bytes += payload_bytes;
    all->out = (all->out + 1) % all->count;
    return push(all, stream) == LINK_LOST ? LINK_LOST : LINK_DONE;
}

static enum link_result stream_clear(struct link *link)
{
    struct link_stream *all = (struct link_stream *)link;
    return all->lost ? LINK_LOST : push(all, &all->stream[all->out]);
}

static enum link_result stream_flush(struct link *link)
{
    struct link_stream *all = (struct link_stream *)link;
    enum link_result all_sent = LINK_DONE;
    if (all->lost) return LINK_LOST;
    for (uint32_t i = 0; i < all->count; i++) {
        enum link_result result = push(all, &all->stream[i]);
        if (result == LINK_LOST) return result;
        if (result == LINK_AGAIN) all_sent = result;
    }
    return all_sent;
}

/* What is left of the payload leaves as zeros, and the mark says so. */
static void make_void(struct stream *stream)
{
    static uint8_t zeros[LINK_PAYLOAD_MAX]; /* never written: costs no file and no memory */
    if (stream->piece_at >= stream->piece_count - 1) return; /* the whole payload has left */
    stream->mark = MARK_VOID;
    for (int i = stream->piece_at; i < stream->piece_count - 1; i++)
        if (i > 0) stream->piece[i].iov_base = zeros;
}

static void stream_void(struct link *link)
{
    struct link_stream *all = (struct link_stream *)link;
    for (uint32_t i = 0; i < all->count; i++) make_void(&all->stream[i]);
}

/* Reads until in_count >= wanted, a little more if it is there. */
static enum link_result read_until(struct link_stream *all, struct stream *stream, size_t wanted)
{
    size_t limit = wanted < READ_AHEAD_BYTES ? READ_AHEAD_BYTES : wanted;
    while (stream->in_count < wanted) {
        ssize_t got = all->io->read(stream->fd, stream->ssl, stream->in + stream->in_count,
                                    limit - stream->in_count);
        if (got < 0) return lose(all);
        if (got == 0) return LINK_AGAIN;
        stream->in_count += (size_t)got;
    }
    return LINK_DONE;
}

static bool read_prefix(const struct stream *stream, struct prefix *ret_prefix)
{
    memcpy(ret_prefix, stream->in, sizeof *ret_prefix);
    return ret_prefix->magic == MAGIC && ret_prefix->check == check_of(ret_prefix) &&
           ret_prefix->header_bytes <= LINK_HEADER_MAX &&
           ret_prefix->payload_bytes <= LINK_PAYLOAD_MAX;
}

/* Ends with the message at the front of stream->in, which counts or not. */
static void pass_on(struct link_stream *all, struct stream *stream, size_t bytes)
{
    stream->in_count -= bytes;
    if (stream->in_count > 0) /* at most READ_AHEAD_BYTES */
        memmove(stream->in, stream->in + bytes, stream->in_count);
    all->in = (all->in + 1) % all->count;
}

static enum link_result stream_receive(struct link *link, struct link_message *ret_message)
{
    struct link_stream *all = (struct link_stream *)link;
    ASSERT(all->in_hand == 0);
    for (;;) {
        struct stream *stream = &all->stream[all->in];
        struct prefix prefix;
        uint64_t mark;
        if (all->lost) return LINK_LOST;
        enum link_result result = read_until(all, stream, sizeof prefix);
        if (result != LINK_DONE) return result;
        if (!read_prefix(stream, &prefix)) return lose(all);
        size_t front = front_bytes(prefix.header_bytes), end = front + prefix.payload_bytes;
        result = read_until(all, stream, end + TRAILER_BYTES);
        if (result != LINK_DONE) return result;
        memcpy(&mark, stream->in + end, TRAILER_BYTES);
        if (mark == MARK_VOID) {
            pass_on(all, stream, end + TRAILER_BYTES);
            continue;
        }
        if (mark != MARK_GOOD) return lose(all);
        *ret_message = (struct link_message){.header = stream->in + sizeof prefix,
                                             .header_bytes = prefix.header_bytes,
                                             .payload = stream->in + front,
                                             .payload_bytes = prefix.payload_bytes};
        all->in_hand = end + TRAILER_BYTES;
        link->received_bytes += prefix.payload_bytes;
        return LINK_DONE;
    }
}

static void stream_release(struct link *link)
{
    struct link_stream *all = (struct link_stream *)link;
    ASSERT(all->in_hand > 0);
    pass_on(all, &all->stream[all->in], all->in_hand);
    all->in_hand = 0;
}

static bool stream_has_input(const struct link *link)
{
    const struct link_stream *all = (const struct link_stream *)link;
    return all->stream[all->in].in_count > 0;
}

/* epoll's edges tell, once everything was tried until AGAIN. */
static bool stream_arm(struct link *link)
{
    return !((const struct link_stream *)link)->lost;
}

static void stream_disarm(struct link *link)
{
    (void)link; /* nothing was changed */
}

static uint32_t stream_descriptors(const struct link *link, int fd[LINK_STREAMS_MAX])
{
    const struct link_stream *all = (const struct link_stream *)link;
    for (uint32_t i = 0; i < all->count; i++) fd[i] = all->stream[i].fd;
    return all->count;
}

static void free_buffers(struct link_stream *all)
{
    for (uint32_t i = 0; i < all->count; i++) mem_free(all->stream[i].in_block);
    mem_free(all);
}

static void stream_close(struct link *link)
{
    struct link_stream *all = (struct link_stream *)link;
    for (uint32_t i = 0; i < all->count; i++) all->io->close(all->stream[i].fd, all->stream[i].ssl);
    free_buffers(all);
}

static const struct link_ops OPS = {
    .send = stream_send,
    .clear = stream_clear,
    .flush = stream_flush,
    .make_void = stream_void,
    .receive = stream_receive,
    .release = stream_release,
    .has_input = stream_has_input,
    .arm = stream_arm,
    .disarm = stream_disarm,
    .descriptors = stream_descriptors,
    .close = stream_close,
};

struct link *link_stream_open(enum link_kind kind, const struct stream_io *io, const int *fd,
                              void *const *ssl, uint32_t count)
{
    int on = 1;
    ASSERT(count > 0);
    ASSERT(count <= LINK_STREAMS_MAX);
    struct link_stream *all = mem_zalloc(1, sizeof *all + count * sizeof(struct stream));
    if (all == NULL) return NULL;
    all->link.ops = &OPS;
    all->link.kind = kind;
    all->io = io;
    all->count = all->link.streams = count;
    for (uint32_t i = 0; i < count; i++) {
        struct stream *stream = &all->stream[i];
        (void)setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* slower without */
        stream->fd = fd[i];
        stream->ssl = ssl == NULL ? NULL : ssl[i];
        stream->in_block = mem_alloc(BUFFER_BYTES + LINE);
        if (stream->in_block == NULL) {
            free_buffers(all);
            return NULL;
        }
        uintptr_t at = (uintptr_t)stream->in_block;
        stream->in = (uint8_t *)stream->in_block + (LINE - at % LINE) % LINE;
    }
    return &all->link;
}
