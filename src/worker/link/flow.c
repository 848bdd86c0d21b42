#include "worker/link/flow.h"
#include "base/mem.h"
#include "core/assert.h"
#include "worker/link/link_shm.h"
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 16, YIELDS = 32, MAKE_WAY_MAX = 1000, OFFERED_AT_ONCE = 4 };
#define SPIN_NS INT64_C(100000) /* a sleep and a wake cost some 10 us: a few times that */

/* A yield that took longer gave the core to somebody who computes, not to a peer that moves its
 * messages: a sleeper is served sooner. For how long nothing is yielded then doubles each time and
 * shrinks with each short yield, so that one odd yield costs little and few are wasted. */
#define CONTENDED_NS INT64_C(500000)
#define CALM_MIN_NS  INT64_C(1000000)
#define CALM_MAX_NS  INT64_C(100000000)

struct flow_peer {
    uint64_t id;
    struct link *link;
    bool lost, refused;                /* refused: message[turn] found no room */
    uint32_t turn;                     /* whose stream is next */
    struct exchange_message message[]; /* one per stream: its extra bytes are read while it goes */
};

struct flow {
    struct flow_source source;
    pthread_mutex_t *lock;
    int epoll, bell;
    uint32_t cores, crowd;
    struct flow_peer *peer[GROUP_PEERS_MAX]; /* by id, so that all begin at another one */
    uint32_t peer_count, first;
    _Atomic bool woken;
    _Atomic uint32_t wanted; /* threads that wait for the lock */
    bool waiting, asleep, has_streams;
    /* What the waiter looks at while it does not hold the lock; closed only when it is back. */
    struct link *watch[GROUP_PEERS_MAX];
    uint32_t watch_count;
    bool watch_crowded, watch_hopeless, watch_streams;
    struct link *grave[GROUP_PEERS_MAX];
    uint32_t grave_count;
    int64_t contended_ns; /* until then somebody else computes here */
    int64_t calm_ns;      /* how long that is to be thought the next time */
    int64_t idle_ns;      /* since when nothing moved, 0: something did */
    uint32_t yields;
};

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Makes way: a mutex alone would be taken again before another thread is awake. */
static void lock(struct flow *flow)
{
    if (flow->lock == NULL) return;
    for (int i = 0; i < MAKE_WAY_MAX && atomic_load(&flow->wanted) > 0; i++)
        (void)sched_yield();              /* always succeeds */
    (void)pthread_mutex_lock(flow->lock); /* fails only on misuse */
}

void flow_lock(struct flow *flow)
{
    atomic_fetch_add(&flow->wanted, 1);
    (void)pthread_mutex_lock(flow->lock); /* fails only on misuse */
    atomic_fetch_sub(&flow->wanted, 1);
}

static void unlock(struct flow *flow)
{
    if (flow->lock != NULL) (void)pthread_mutex_unlock(flow->lock);
}

void flow_make_way(struct flow *flow)
{
    if (atomic_load(&flow->wanted) == 0) return;
    unlock(flow);
    lock(flow);
}

static void close_quietly(int fd)
{
    if (fd >= 0) (void)close(fd); /* nothing to lose in it */
}

struct flow *flow_open(const struct flow_source *source, pthread_mutex_t *lock_,
                       struct error *ret_error)
{
    struct flow *flow = mem_zalloc(1, sizeof *flow);
    if (flow == NULL) {
        (void)error_set(ret_error, "out of memory for the links to peers");
        return NULL;
    }
    flow->source = *source;
    flow->lock = lock_;
    flow->epoll = epoll_create1(EPOLL_CLOEXEC);
    flow->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    if (flow->epoll < 0 || flow->bell < 0 ||
        epoll_ctl(flow->epoll, EPOLL_CTL_ADD, flow->bell, &event) != 0) {
        (void)error_set(ret_error, "cannot set up the links to peers: %s", error_errno(errno));
        flow_close(flow);
        return NULL;
    }
    cpu_set_t cpus;
    bool known = sched_getaffinity(0, sizeof cpus, &cpus) == 0;
    flow->cores = known ? (uint32_t)CPU_COUNT(&cpus) : 1;
    flow->crowd = 1;
    flow->calm_ns = CALM_MIN_NS;
    return flow;
}

static void drop_peer(struct flow *flow, uint32_t index)
{
    struct flow_peer *peer = flow->peer[index];
    if (flow->waiting)
        flow->grave[flow->grave_count++] = peer->link; /* the waiter may look at it now */
    else
        link_close(peer->link);
    mem_free(peer);
    flow->peer_count--;
    memmove(flow->peer + index, flow->peer + index + 1,
            (flow->peer_count - index) * sizeof(struct flow_peer *));
}

static void bury(struct flow *flow)
{
    while (flow->grave_count > 0) link_close(flow->grave[--flow->grave_count]);
}

void flow_close(struct flow *flow)
{
    if (flow == NULL) return;
    ASSERT(!flow->waiting);
    while (flow->peer_count > 0) drop_peer(flow, flow->peer_count - 1);
    close_quietly(flow->epoll);
    close_quietly(flow->bell);
    mem_free(flow);
}

static uint32_t index_of(const struct flow *flow, uint64_t id)
{
    uint32_t index = 0;
    while (index < flow->peer_count && flow->peer[index]->id < id) index++;
    return index;
}

static struct flow_peer *find(const struct flow *flow, uint64_t id)
{
    uint32_t index = index_of(flow, id);
    bool here = index < flow->peer_count && flow->peer[index]->id == id;
    return here ? flow->peer[index] : NULL;
}

static bool watch_link(struct flow *flow, struct link *link)
{
    int fd[LINK_STREAMS_MAX];
    uint32_t count = link->ops->descriptors(link, fd);
    /* A doorbell has room: asking about that would wake us each time the peer has heard it. */
    uint32_t room = link->kind == LINK_SHM ? 0 : EPOLLOUT;
    struct epoll_event event = {.events = EPOLLIN | room | EPOLLET, .data.ptr = link};
    for (uint32_t i = 0; i < count; i++) /* closing the link takes them out again */
        if (epoll_ctl(flow->epoll, EPOLL_CTL_ADD, fd[i], &event) != 0) return false;
    return true;
}

static void note_streams(struct flow *flow)
{
    flow->has_streams = false;
    for (uint32_t i = 0; i < flow->peer_count; i++)
        if (flow->peer[i]->link->kind != LINK_SHM) flow->has_streams = true;
}

bool flow_add(struct flow *flow, uint64_t peer, struct link *link)
{
    flow_remove(flow, peer);
    struct flow_peer *entry =
        mem_alloc(sizeof *entry + link->streams * sizeof(struct exchange_message));
    bool room = flow->peer_count + flow->grave_count < GROUP_PEERS_MAX;
    if (entry == NULL || !room || !watch_link(flow, link)) {
        mem_free(entry);
        link_close(link);
        return false;
    }
    *entry = (struct flow_peer){.id = peer, .link = link};
    uint32_t index = index_of(flow, peer);
    memmove(flow->peer + index + 1, flow->peer + index,
            (flow->peer_count - index) * sizeof(struct flow_peer *));
    flow->peer[index] = entry;
    flow->peer_count++;
    note_streams(flow);
    flow_wake(flow); /* there is something new to look at */
    return true;
}

void flow_remove(struct flow *flow, uint64_t peer)
{
    if (find(flow, peer) == NULL) return;
    drop_peer(flow, index_of(flow, peer));
    note_streams(flow);
}

void flow_set_crowd(struct flow *flow, uint32_t processes)
{
    flow->crowd = processes;
}

/* One message out. True: something left, or may leave now. */
static bool send_one(struct flow *flow, struct flow_peer *peer)
{
    struct exchange_message *message = &peer->message[peer->turn];
    enum link_result result = link_clear(peer->link);
    if (result == LINK_DONE && !peer->refused &&
        !flow->source.next(flow->source.self, peer->id, message))
        result = link_flush(peer->link) == LINK_LOST ? LINK_LOST : LINK_AGAIN;
    if (result == LINK_DONE) {
        result = link_send(peer->link, message->header, sizeof message->header, message->span,
                           message->span_count);
        peer->refused = result == LINK_AGAIN;
        if (!peer->refused) peer->turn = (peer->turn + 1) % peer->link->streams;
    }
    peer->lost = result == LINK_LOST;
    return result == LINK_DONE;
}

static bool receive_one(struct flow *flow, struct flow_peer *peer)
{
    struct link_message message;
    enum link_result result = link_receive(peer->link, &message);
    peer->lost = result == LINK_LOST;
    if (result != LINK_DONE) return false;
    bool fine = flow->source.take(flow->source.self, peer->id, &message);
    link_release(peer->link);
    peer->lost = !fine;
    return fine;
}

bool flow_step(struct flow *flow)
{
    bool moved = false;
    for (uint32_t i = 0; i < flow->peer_count; i++) {
        struct flow_peer *peer = flow->peer[i];
        if (!peer->lost && send_one(flow, peer)) moved = true;
    }
    for (uint32_t i = 0; i < flow->peer_count; i++) {
        struct flow_peer *peer = flow->peer[i];
        if (!peer->lost && receive_one(flow, peer)) moved = true;
    }
    if (moved) flow->idle_ns = flow->yields = 0;
    return moved;
}

bool flow_offer(struct flow *flow, uint64_t peer)
{
    struct flow_peer *to = find(flow, peer);
    bool moved = to != NULL && !to->lost;
    if (flow->waiting && !flow->asleep) { /* it looks at the links right now */
        flow->woken = true;
        return false;
    }
    for (int i = 0; i < OFFERED_AT_ONCE && moved; i++) moved = send_one(flow, to);
    if (moved && flow->waiting) flow_wake(flow);
    return moved && !flow->waiting;
}

void flow_post(struct flow *flow, const uint8_t *bytes, size_t count)
{
    for (uint32_t i = 0; i < flow->peer_count; i++)
        if (flow->peer[i]->link->kind == LINK_SHM) link_shm_post(flow->peer[i]->link, bytes, count);
}

bool flow_look(struct flow *flow, uint32_t *at, uint64_t *ret_peer, uint8_t *bytes,
               size_t *ret_count)
{
    while (*at < flow->peer_count) {
        const struct flow_peer *peer = flow->peer[(*at)++];
        if (peer->link->kind != LINK_SHM) continue;
        *ret_peer = peer->id;
        *ret_count = link_shm_look(peer->link, bytes);
        if (*ret_count > 0) return true;
    }
    return false;
}

void flow_lose(struct flow *flow, uint64_t peer)
{
    struct flow_peer *of = find(flow, peer);
    if (of != NULL) of->lost = true;
}

void flow_void(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->peer_count; i++) {
        struct flow_peer *peer = flow->peer[i];
        peer->refused = false; /* never begun, and void now */
        link_void(peer->link);
    }
}

bool flow_has_lost(const struct flow *flow)
{
    for (uint32_t i = 0; i < flow->peer_count; i++)
        if (flow->peer[i]->lost) return true;
    return false;
}

bool flow_is_idle(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->peer_count; i++) {
        struct flow_peer *peer = flow->peer[i];
        if (peer->lost) continue;
        if (peer->refused || link_flush(peer->link) == LINK_AGAIN) return false;
    }
    return true;
}

bool flow_take_lost(struct flow *flow, uint64_t *ret_peer)
{
    for (uint32_t i = 0; i < flow->peer_count; i++) {
        if (!flow->peer[i]->lost) continue;
        *ret_peer = flow->peer[i]->id;
        flow_remove(flow, *ret_peer);
        return true;
    }
    return false;
}

int flow_fd(const struct flow *flow)
{
    return flow->epoll;
}

bool flow_is_driven(const struct flow *flow)
{
    return flow->waiting;
}

/* All are stepped anyway; but a doorbell is to be emptied. */
static void note_rung(const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        struct link *link = events[i].data.ptr;
        if (link != NULL) link->rung = true; /* NULL: our own bell */
    }
}

void flow_hush(struct flow *flow)
{
    struct epoll_event events[EVENTS];
    int count;
    do {
        count = epoll_wait(flow->epoll, events, EVENTS, 0);
        note_rung(events, count);
    } while (count == EVENTS);
}

bool flow_arm(struct flow *flow)
{
    bool quiet = true;
    for (uint32_t i = 0; i < flow->peer_count; i++)
        if (!flow->peer[i]->lost && !flow->peer[i]->link->ops->arm(flow->peer[i]->link))
            quiet = false;
    return quiet;
}

static void disarm(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->peer_count; i++)
        flow->peer[i]->link->ops->disarm(flow->peer[i]->link);
}

void flow_wake(struct flow *flow)
{
    uint64_t one = 1;
    flow->woken = true;
    if (!flow->asleep) return;
    ssize_t written = write(flow->bell, &one, sizeof one);
    (void)written; /* full counter: it is awake anyway */
}

static bool has_news(const struct flow *flow)
{
    if (atomic_load_explicit(&flow->woken, memory_order_acquire)) return true;
    for (uint32_t i = 0; i < flow->watch_count; i++)
        if (link_has_input(flow->watch[i])) return true;
    return false;
}

static void pause_a_little(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* False: it took so long that the next ones had better be left. */
static bool note_yield(struct flow *flow, int64_t before_ns, int64_t after_ns)
{
    if (after_ns - before_ns <= CONTENDED_NS) {
        flow->calm_ns -= (flow->calm_ns - CALM_MIN_NS) / 16;
        return true;
    }
    flow->contended_ns = after_ns + flow->calm_ns;
    flow->calm_ns = flow->calm_ns * 2 < CALM_MAX_NS ? flow->calm_ns * 2 : CALM_MAX_NS;
    return false;
}

/* Without the lock. True: look again; false: it is time to sleep. With streams each look is a
 * system call of flow_step(), so this returns after one round. */
static bool spin(struct flow *flow)
{
    if (flow->watch_hopeless) return has_news(flow);
    for (;;) {
        if (has_news(flow)) return true;
        if (flow->watch_crowded) {
            int64_t before_ns = now_ns();
            if (before_ns < flow->contended_ns) return false;
            (void)sched_yield(); /* always succeeds */
            int64_t after_ns = now_ns();
            if (!note_yield(flow, before_ns, after_ns)) return false;
            if (++flow->yields > YIELDS && after_ns - flow->idle_ns > SPIN_NS) return false;
        } else {
            for (int i = 0; i < 16; i++) {
                pause_a_little();
                if (has_news(flow)) return true;
            }
            if (now_ns() - flow->idle_ns > SPIN_NS) return false;
        }
        if (flow->watch_streams) return true;
    }
}

static void sleep_on_links(struct flow *flow, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    uint64_t count;
    if (!flow_arm(flow) || flow->woken) {
        disarm(flow);
        return;
    }
    flow->asleep = true;
    unlock(flow);
    int got = epoll_wait(flow->epoll, events, EVENTS, timeout_ms);
    lock(flow);
    note_rung(events, got); /* links taken out meanwhile lie in the grave */
    if (got == EVENTS) flow_hush(flow);
    flow->asleep = false;
    disarm(flow);
    ssize_t cleared = read(flow->bell, &count, sizeof count);
    (void)cleared; /* only to clear it */
}

void flow_wait(struct flow *flow, int timeout_ms)
{
    ASSERT(!flow->waiting);
    flow->waiting = true;
    flow->watch_count = flow->peer_count;
    flow->watch_crowded = flow->crowd > flow->cores;
    flow->watch_hopeless = flow->crowd > 8 * flow->cores; /* others need the core more */
    flow->watch_streams = flow->has_streams;
    for (uint32_t i = 0; i < flow->peer_count; i++) flow->watch[i] = flow->peer[i]->link;
    if (flow->idle_ns == 0) flow->idle_ns = now_ns();
    unlock(flow);
    bool again = spin(flow);
    lock(flow);
    if (!again) sleep_on_links(flow, timeout_ms);
    flow->woken = false;
    flow->waiting = false;
    bury(flow);
}
