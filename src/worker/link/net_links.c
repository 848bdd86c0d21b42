#include "worker/link/net_links.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "worker/link/flow.h"
#include "worker/link/link_shm.h"
#include "worker/link/link_slow.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { STEPS_AT_ONCE = 16, WAIT_MS = 1000 };
static_assert((int)WIRE_BOARD_BYTES <= (int)LINK_BOARD_BYTES, "a beat fits");

struct near_peer { /* of this host: its process wants a core of the same ones */
    uint64_t id;
};

struct net_links {
    struct member *member;
    struct door *door;
    struct flow *flow;
    struct wire_tag turn; /* that the messages under way belong to */
    int epoll;            /* door and flow; the flow only while this side is to be woken */
    bool watches_flow;
    bool said[LINK_TLS + 1], said_failed;
    struct near_peer near[GROUP_PEERS_MAX];
    uint32_t near_count;
    struct link_slow slow; /* emulated */
};

void net_links_sync(struct net_links *links)
{
    if (wire_tag_compare(&links->turn, &links->member->turn.tag) == 0) return;
    links->turn = links->member->turn.tag;
    flow_void(links->flow);
}

static bool next(void *self, uint64_t peer, struct exchange_message *ret_message)
{
    struct net_links *links = self;
    int64_t now_us = links->member->now_us; /* of the last tick: good enough for an emulation */
    if (!link_slow_may_send(&links->slow, links->member->config.id, peer, now_us)) return false;
    if (!member_next(links->member, peer, ret_message)) return false;
    link_slow_sent(&links->slow, peer, ret_message->payload_bytes, now_us);
    return true;
}

static bool take(void *self, uint64_t peer, const struct link_message *message)
{
    struct net_links *links = self;
    if (message->header_bytes != EXCHANGE_HEADER_BYTES) return false;
    bool fine = member_take(links->member, peer, message->header, message->payload,
                            message->payload_bytes, clock_monotonic_us());
    if (!fine && links->member->exchange.corrupt != GROUP_NOBODY)
        log_line(LOG_WARN, "worker",
                 "a message of the sum was damaged on its way, or in its sender's memory; the sum "
                 "begins again without it",
                 "worker=%" PRIu64, peer);
    net_links_sync(links);
    return fine;
}

struct net_links *net_links_open(struct member *member, pthread_mutex_t *lock,
                                 const struct door_options *options, struct error *ret_error)
{
    struct net_links *links = mem_zalloc(1, sizeof *links);
    if (links == NULL) {
        (void)error_set(ret_error, "out of memory for the links to peers");
        return NULL;
    }
    links->member = member;
    links->epoll = -1;
    struct flow_source source = {links, next, take};
    links->door = door_open(options, ret_error);
    if (links->door != NULL) links->flow = flow_open(&source, lock, ret_error);
    if (links->flow != NULL) links->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (links->epoll >= 0) {
        struct epoll_event door = {.events = EPOLLIN}, flow = {0};
        bool fine = epoll_ctl(links->epoll, EPOLL_CTL_ADD, door_fd(links->door), &door) == 0 &&
                    epoll_ctl(links->epoll, EPOLL_CTL_ADD, flow_fd(links->flow), &flow) == 0;
        if (fine) return links;
    }
    if (links->flow != NULL)
        (void)error_set(ret_error, "cannot set up the links to peers: %s", error_errno(errno));
    net_links_close(links);
    return NULL;
}

void net_links_close(struct net_links *links)
{
    if (links == NULL) return;
    flow_close(links->flow);
    door_close(links->door);
    if (links->epoll >= 0) (void)close(links->epoll); /* nothing to lose in it */
    mem_free(links);
}

const struct wire_place *net_links_place(const struct net_links *links)
{
    return door_place(links->door);
}

static void count_near(struct net_links *links)
{
    flow_set_crowd(links->flow, links->near_count + 1);
}

void net_links_peer_up(struct net_links *links, const struct wire_hello *hello, uint64_t key,
                       const char *host, bool dials)
{
    const struct wire_place *ours = door_place(links->door);
    net_links_peer_down(links, hello->worker);
    if (memcmp(ours->host, hello->place.host, sizeof ours->host) == 0 &&
        links->near_count < GROUP_PEERS_MAX)
        links->near[links->near_count++].id = hello->worker;
    count_near(links);
    if (!door_expect(links->door, hello->worker, key, &hello->place, host, dials,
                     clock_monotonic_us()))
        log_line(LOG_WARN, "worker", "no memory for a link to a peer", "worker=%" PRIu64,
                 hello->worker);
}

void net_links_peer_down(struct net_links *links, uint64_t peer)
{
    door_forget(links->door, peer);
    flow_remove(links->flow, peer);
    for (uint32_t i = 0; i < links->near_count; i++)
        if (links->near[i].id == peer) links->near[i] = links->near[--links->near_count];
    count_near(links);
}

/* Each kind is told once; the rest is for those who debug. */
static void tell_link(struct net_links *links, uint64_t peer, const struct link *link)
{
    enum log_level level = links->said[link->kind] ? LOG_DEBUG : LOG_INFO;
    links->said[link->kind] = true;
    log_line(level, "worker", "linked to a peer", "worker=%" PRIu64 " link=%s streams=%u", peer,
             link_kind_name(link->kind), link->streams);
}

static void take_links(struct net_links *links)
{
    uint64_t peer;
    struct link *link;
    while (door_take(links->door, &peer, &link)) {
        bool shares_memory = link->kind == LINK_SHM; /* the flow takes it over */
        tell_link(links, peer, link);
        bool added = flow_add(links->flow, peer, link);
        if (added && shares_memory) member_peer_board(links->member, peer);
        if (!added)
            log_line(LOG_WARN, "worker", "no memory for a link to a peer", "worker=%" PRIu64, peer);
    }
}

void net_links_look(struct net_links *links, int64_t now_us)
{
    _Alignas(8) uint8_t bytes[LINK_BOARD_BYTES];
    uint32_t at = 0;
    uint64_t peer;
    size_t count;
    while (flow_look(links->flow, &at, &peer, bytes, &count))
        if (!member_take_board(links->member, peer, bytes, count, now_us))
            flow_lose(links->flow, peer);
}

void net_links_post(struct net_links *links)
{
    uint8_t bytes[WIRE_BOARD_BYTES];
    size_t count = member_fill_board(links->member, bytes);
    if (count > 0) flow_post(links->flow, bytes, count);
}

bool net_links_take_lost(struct net_links *links, uint64_t *ret_peer)
{
    const char *why;
    if (door_take_failed(links->door, ret_peer, &why)) {
        log_line(links->said_failed ? LOG_DEBUG : LOG_WARN, "worker", "no link to a peer",
                 "worker=%" PRIu64 " why=\"%s\"", *ret_peer, why);
        links->said_failed = true;
        return true;
    }
    return flow_take_lost(links->flow, ret_peer);
}

static void watch_flow(struct net_links *links, bool watches)
{
    struct epoll_event event = {.events = watches ? EPOLLIN : 0};
    if (links->watches_flow == watches) return;
    links->watches_flow = watches;
    (void)epoll_ctl(links->epoll, EPOLL_CTL_MOD, flow_fd(links->flow), &event); /* was added */
}

bool net_links_step(struct net_links *links, int64_t now_us)
{
    struct epoll_event events[2];
    net_links_sync(links);
    if (epoll_wait(links->epoll, events, 2, 0) != 0) door_step(links->door, now_us);
    take_links(links);
    if (flow_is_driven(links->flow)) {
        watch_flow(links, false);
        return false;
    }
    flow_hush(links->flow);
    for (int i = 0; i < STEPS_AT_ONCE; i++) {
        if (flow_step(links->flow)) continue;
        watch_flow(links, true);
        return !flow_arm(links->flow) && !flow_has_lost(links->flow);
    }
    return true;
}

bool net_links_offer(struct net_links *links)
{
    uint64_t peer;
    bool more = false;
    net_links_sync(links);
    if (links->slow.to != 0) more = flow_offer(links->flow, links->slow.to); /* may go by now */
    while (member_take_data_due(links->member, &peer)) more = flow_offer(links->flow, peer) || more;
    return more;
}

int net_links_fd(const struct net_links *links)
{
    return links->epoll;
}

void net_links_lock(struct net_links *links)
{
    flow_lock(links->flow);
}

bool net_links_all_sent(struct net_links *links)
{
    net_links_sync(links);
    return flow_is_idle(links->flow);
}

void net_links_drive(struct net_links *links)
{
    net_links_sync(links);
    if (flow_step(links->flow))
        flow_make_way(links->flow); /* orders are to come through within a message's time */
    else
        flow_wait(links->flow, WAIT_MS);
}

void net_links_wake(struct net_links *links)
{
    flow_wake(links->flow);
}
