#include "worker/link/link_shm.h"
#include "base/mem.h"
#include "core/assert.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a side says of itself before it sleeps. */
enum { AWAKE = 0, ASLEEP, ASLEEP_BLOCKED /* it waits for room as well */ };

enum {
    LINE = 64,
    WRAP = UINT16_MAX,
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW,
    HOT_BYTES = 128 * 1024, /* an empty ring is used from its start again behind this: in cache,
                             * and few pages */
};

/* In front of each message; then the header, then, at the next line, the payload. */
struct record {
    uint32_t total_bytes; /* of the record, whole lines */
    uint32_t payload_bytes;
    uint16_t header_bytes; /* WRAP: nothing here, go on at the start of the ring */
    uint8_t zero[6];
};
static_assert(sizeof(struct record) == 16, "the header begins at an 8-byte boundary");

/* Positions count bytes since the beginning; each has a line of its own. */
struct ring {
    _Alignas(LINE) _Atomic uint64_t head; /* written up to here */
    _Alignas(LINE) _Atomic uint64_t tail; /* given back up to here */
};

/* `number` is odd while it is written; readers look before and after. */
struct board {
    _Alignas(LINE) _Atomic uint32_t number, count;
    _Atomic uint64_t word[LINK_BOARD_BYTES / 8];
};

struct shared {
    struct ring ring[2];                       /* [0]: from the side that dialled */
    _Alignas(LINE) _Atomic uint32_t asleep[2]; /* [side] is about to sleep: ring, once */
    struct board board[2];                     /* [side] writes it */
    _Alignas(4096) uint8_t bytes[2][LINK_RING_BYTES];
};
static_assert(sizeof(struct shared) == LINK_SHM_BYTES, "both sides map the same thing");
static_assert(offsetof(struct shared, bytes) == 4096, "boards take no more room");
static_assert(offsetof(struct shared, ring[1].head) == LINK_SHM_HEAD_OFFSET, "as told");
static_assert(offsetof(struct shared, ring[0].tail) == LINK_SHM_TAIL_OFFSET, "as told");
static_assert(2 * (LINK_PAYLOAD_MAX + LINK_HEADER_MAX + 3 * LINE) <= LINK_RING_BYTES,
              "a message and what is skipped before the end must fit");

struct link_shm {
    struct link link;
    struct shared *shared;
    struct ring *out, *in;
    uint8_t *out_bytes, *in_bytes;
    uint32_t side;
    int socket;
    uint64_t head, tail_seen; /* out */
    uint64_t tail, head_seen; /* in */
    uint64_t in_hand;         /* bytes of the message given out */
    uint32_t board_seen;      /* number of the peer's board, as read last */
    bool blocked;             /* a message found no room */
    bool gone;                /* the peer has closed: what it wrote before is still good */
    bool broken;              /* what stands in the memory makes no sense */
};

int link_shm_make(void)
{
    int memory = memfd_create("shoal-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0) return -1;
    if (ftruncate(memory, LINK_SHM_BYTES) == 0 && fcntl(memory, F_ADD_SEALS, SEALS) == 0)
        return memory;
    int why = errno;
    (void)close(memory); /* nothing was in it */
    errno = why;
    return -1;
}

static bool is_over(const struct link_shm *shm)
{
    return shm->gone || shm->broken;
}

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) & ~(size_t)(LINE - 1);
}

/* Wakes the peer if it sleeps as deep as `from` or deeper. One bell is enough: it looks at all. */
static void ring_bell(struct link_shm *shm, uint32_t from)
{
    _Atomic uint32_t *asleep = &shm->shared->asleep[1 - shm->side];
    /* The order "publish, then look" pairs with "lie down, then look" in arm(). */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(asleep, memory_order_relaxed) < from) return;
    if (atomic_exchange_explicit(asleep, AWAKE, memory_order_relaxed) == AWAKE) return;
    ssize_t sent = send(shm->socket, "!", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) shm->gone = true;
}

/* What the peer has given back. False: it tells nonsense. */
static bool see_tail(struct link_shm *shm)
{
    uint64_t tail = atomic_load_explicit(&shm->out->tail, memory_order_acquire);
    if (tail > shm->head || tail < shm->tail_seen) shm->broken = true;
    if (!shm->broken) shm->tail_seen = tail;
    return !shm->broken;
}

/* Bytes to leave out before a record of `total` bytes, so that it begins at the ring's start. */
static uint64_t skip(struct link_shm *shm, size_t total)
{
    uint64_t at = shm->head % LINK_RING_BYTES;
    bool wraps = at + total > LINK_RING_BYTES;
    if (!wraps && at >= HOT_BYTES && at >= total) /* what is left out and it fit the ring */
        wraps = see_tail(shm) && shm->tail_seen == shm->head; /* empty: nothing is in the way */
    return wraps ? LINK_RING_BYTES - at : 0;
}

/* Where a record of `total` bytes may start, wrapping if needed. False: no room now. */
static bool make_room(struct link_shm *shm, size_t total)
{
    uint64_t skipped = skip(shm, total), at = shm->head % LINK_RING_BYTES;
    if (shm->head + skipped + total - shm->tail_seen > LINK_RING_BYTES) {
        if (!see_tail(shm)) return false;
        if (shm->head + skipped + total - shm->tail_seen > LINK_RING_BYTES) return false;
    }
    if (skipped > 0) {
        struct record wrap = {.total_bytes = (uint32_t)skipped, .header_bytes = WRAP};
        memcpy(shm->out_bytes + at, &wrap, sizeof wrap);
        shm->head += skipped;
    }
    return true;
}

static bool needs_room(struct link_shm *shm, size_t total)
{
    _Atomic uint32_t *asleep = &shm->shared->asleep[shm->side];
    shm->blocked = shm->gone || !make_room(shm, total);
    if (!shm->blocked || atomic_load_explicit(asleep, memory_order_relaxed) != ASLEEP)
        return shm->blocked;
    /* Another thread of ours sleeps, and has said that it waits for messages alone. */
    atomic_store_explicit(asleep, ASLEEP_BLOCKED, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    shm->blocked = shm->gone || !make_room(shm, total);
    return shm->blocked;
}

static enum link_result shm_send(struct link *link, const uint8_t *header, size_t header_bytes,
                                 const struct span *span, uint32_t span_count)
{
    struct link_shm *shm = (struct link_shm *)link;
    size_t payload_bytes = 0, front = lines(sizeof(struct record) + header_bytes);
    for (uint32_t i = 0; i < span_count; i++) payload_bytes += span[i].count;
    ASSERT(header_bytes <= LINK_HEADER_MAX);
    ASSERT(payload_bytes <= LINK_PAYLOAD_MAX);
    size_t total = front + lines(payload_bytes);
    if (needs_room(shm, total)) return is_over(shm) ? LINK_LOST : LINK_AGAIN;
    uint8_t *at = shm->out_bytes + shm->head % LINK_RING_BYTES;
    struct record record = {.total_bytes = (uint32_t)total,
                            .payload_bytes = (uint32_t)payload_bytes,
                            .header_bytes = (uint16_t)header_bytes};
    memcpy(at, &record, sizeof record);
    memcpy(at + sizeof record, header, header_bytes);
    at += front;
    for (uint32_t i = 0; i < span_count; i++) {
        if (span[i].count > 0) memcpy(at, span[i].bytes, span[i].count);
        at += span[i].count;
    }
    shm->head += total;
    atomic_store_explicit(&shm->out->head, shm->head, memory_order_release);
    link->sent_bytes += payload_bytes;
    ring_bell(shm, ASLEEP);
    return LINK_DONE;
}

/* Everything was copied when it was taken. */
static enum link_result shm_flush(struct link *link)
{
    return is_over((struct link_shm *)link) ? LINK_LOST : LINK_DONE;
}

static void shm_void(struct link *link)
{
    (void)link; /* nothing is half sent here */
}

/* Empties the doorbell; only when the socket has something is there a system call that matters. */
static void hear_bell(struct link_shm *shm)
{
    char bells[256];
    ssize_t got;
    do {
        got = recv(shm->socket, bells, sizeof bells, MSG_DONTWAIT);
    } while (got > 0 || (got < 0 && errno == EINTR));
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) shm->gone = true;
}

/* The head as the peer tells it. False: nothing new, or nonsense. */
static bool see_head(struct link_shm *shm)
{
    uint64_t head = atomic_load_explicit(&shm->in->head, memory_order_acquire);
    if (head < shm->head_seen || head - shm->tail > LINK_RING_BYTES || head % LINE != 0)
        shm->broken = true;
    if (shm->broken || head == shm->tail) return false;
    shm->head_seen = head;
    return true;
}

/* Is the record at the tail one that can have been written there? */
static bool is_sound(const struct link_shm *shm, const struct record *record)
{
    uint64_t left = shm->head_seen - shm->tail, at = shm->tail % LINK_RING_BYTES;
    uint64_t to_end = LINK_RING_BYTES - at;
    if (record->header_bytes == WRAP) return record->total_bytes == to_end && to_end <= left;
    if (record->header_bytes > LINK_HEADER_MAX || record->payload_bytes > LINK_PAYLOAD_MAX)
        return false;
    size_t total = lines(sizeof *record + record->header_bytes) + lines(record->payload_bytes);
    return record->total_bytes == total && total <= left && total <= to_end;
}

static enum link_result shm_receive(struct link *link, struct link_message *ret_message)
{
    struct link_shm *shm = (struct link_shm *)link;
    ASSERT(shm->in_hand == 0);
    for (;;) {
        if (shm->broken) return LINK_LOST;
        if (shm->tail == shm->head_seen && !see_head(shm))
            return is_over(shm) ? LINK_LOST : LINK_AGAIN;
        const uint8_t *at = shm->in_bytes + shm->tail % LINK_RING_BYTES;
        struct record record;
        memcpy(&record, at, sizeof record); /* once: the peer could change it */
        if (!is_sound(shm, &record)) {
            shm->broken = true;
            return LINK_LOST;
        }
        if (record.header_bytes == WRAP) {
            shm->tail += record.total_bytes;
            continue;
        }
        ret_message->header = at + sizeof record;
        ret_message->header_bytes = record.header_bytes;
        ret_message->payload = at + lines(sizeof record + record.header_bytes);
        ret_message->payload_bytes = record.payload_bytes;
        shm->in_hand = record.total_bytes;
        link->received_bytes += record.payload_bytes;
        return LINK_DONE;
    }
}

static void shm_release(struct link *link)
{
    struct link_shm *shm = (struct link_shm *)link;
    ASSERT(shm->in_hand > 0);
    shm->tail += shm->in_hand;
    shm->in_hand = 0;
    atomic_store_explicit(&shm->in->tail, shm->tail, memory_order_release);
    ring_bell(shm, ASLEEP_BLOCKED);
}

static bool shm_has_input(const struct link *link)
{
    const struct link_shm *shm = (const struct link_shm *)link;
    if (atomic_load_explicit(&shm->in->head, memory_order_relaxed) != shm->tail) return true;
    return shm->blocked &&
           atomic_load_explicit(&shm->out->tail, memory_order_relaxed) != shm->tail_seen;
}

static bool shm_arm(struct link *link)
{
    struct link_shm *shm = (struct link_shm *)link;
    if (link->rung) hear_bell(shm);
    link->rung = false;
    atomic_store_explicit(&shm->shared->asleep[shm->side], shm->blocked ? ASLEEP_BLOCKED : ASLEEP,
                          memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return !is_over(shm) && !shm_has_input(link);
}

static void shm_disarm(struct link *link)
{
    struct link_shm *shm = (struct link_shm *)link;
    atomic_store_explicit(&shm->shared->asleep[shm->side], AWAKE, memory_order_relaxed);
}

static uint32_t shm_descriptors(const struct link *link, int fd[LINK_STREAMS_MAX])
{
    fd[0] = ((const struct link_shm *)link)->socket;
    return 1;
}

static void shm_close(struct link *link)
{
    struct link_shm *shm = (struct link_shm *)link;
    (void)munmap(shm->shared, sizeof *shm->shared); /* ours alone to unmap */
    (void)close(shm->socket);                       /* tells the peer */
    mem_free(shm);
}

void link_shm_post(struct link *link, const uint8_t *bytes, size_t count)
{
    struct link_shm *shm = (struct link_shm *)link;
    struct board *board = &shm->shared->board[shm->side];
    ASSERT(link->kind == LINK_SHM);
    ASSERT(count <= LINK_BOARD_BYTES);
    uint32_t number = atomic_load_explicit(&board->number, memory_order_relaxed) | 1;
    atomic_store_explicit(&board->number, number, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* the odd number before any word */
    atomic_store_explicit(&board->count, (uint32_t)count, memory_order_relaxed);
    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, count - i < 8 ? count - i : 8);
        atomic_store_explicit(&board->word[i / 8], word, memory_order_relaxed);
    }
    atomic_store_explicit(&board->number, number + 1, memory_order_release);
}

size_t link_shm_look(struct link *link, uint8_t *bytes)
{
    struct link_shm *shm = (struct link_shm *)link;
    struct board *board = &shm->shared->board[1 - shm->side];
    ASSERT(link->kind == LINK_SHM);
    uint32_t number = atomic_load_explicit(&board->number, memory_order_acquire);
    if (number % 2 != 0 || number == shm->board_seen) return 0;
    size_t count = atomic_load_explicit(&board->count, memory_order_relaxed);
    if (count > LINK_BOARD_BYTES) return 0;
    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = atomic_load_explicit(&board->word[i / 8], memory_order_relaxed);
        memcpy(bytes + i, &word, 8);
    }
    atomic_thread_fence(memory_order_acquire); /* all words before the number again */
    if (atomic_load_explicit(&board->number, memory_order_relaxed) != number) return 0;
    shm->board_seen = number;
    return count;
}

static const struct link_ops SHM_OPS = {
    .send = shm_send,
    .clear = shm_flush,
    .flush = shm_flush,
    .make_void = shm_void,
    .receive = shm_receive,
    .release = shm_release,
    .has_input = shm_has_input,
    .arm = shm_arm,
    .disarm = shm_disarm,
    .descriptors = shm_descriptors,
    .close = shm_close,
};

static bool is_ours_to_map(int memory)
{
    struct stat about;
    int seals = fcntl(memory, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(memory, &about) != 0 ||
        about.st_size != LINK_SHM_BYTES) {
        errno = EINVAL; /* could vanish while mapped: SIGBUS */
        return false;
    }
    return true;
}

struct link *link_shm_open(int socket, int memory, bool dials)
{
    if (!is_ours_to_map(memory)) return NULL;
    struct link_shm *shm = mem_zalloc(1, sizeof *shm);
    if (shm == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    shm->shared = mmap(NULL, LINK_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (shm->shared == MAP_FAILED) {
        mem_free(shm);
        return NULL;
    }
    shm->link.ops = &SHM_OPS;
    shm->link.kind = LINK_SHM;
    shm->link.streams = 1;
    shm->socket = socket;
    shm->side = dials ? 0 : 1;
    shm->out = &shm->shared->ring[shm->side];
    shm->in = &shm->shared->ring[1 - shm->side];
    shm->out_bytes = shm->shared->bytes[shm->side];
    shm->in_bytes = shm->shared->bytes[1 - shm->side];
    return &shm->link;
}
