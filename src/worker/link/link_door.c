#include "worker/link/link_door.h"
#include "base/mem.h"
#include "core/assert.h"
#include "worker/link/link_knock.h"
#include "worker/link/link_shm.h"
#include "worker/link/link_tcp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { EVENTS = 32, STREAMS_APART = 4, BACKLOG = 256 };

/* A peer with whom a link is being made. */
struct guest {
    uint64_t peer, key;
    struct wire_place place;
    struct sockaddr_in address; /* of its door, when we dial */
    bool dials;
    enum link_kind kind; /* being made now */
    uint32_t streams, made;
    int fd[LINK_STREAMS_MAX];
    void *ssl[LINK_STREAMS_MAX];
    int memory;
    int64_t since_us;
    struct link *link;      /* done */
    const char *why_failed; /* done, in vain */
};

struct door {
    struct wire_place place;
    uint64_t worker;
    char token[WIRE_TOKEN_BYTES];
    struct tls_keys *keys; /* NULL: no token */
    uint32_t streams;
    int epoll, tcp, local;
    struct guest *guest[GROUP_PEERS_MAX];
    uint32_t guest_count;
    struct knock *knock[DOOR_KNOCKS_MAX];
    uint32_t knock_count;
};

static bool is_same_host(const struct wire_place *a, const struct wire_place *b)
{
    static const uint8_t unknown[WIRE_HOST_BYTES];
    return memcmp(a->host, unknown, sizeof unknown) != 0 &&
           memcmp(a->host, b->host, sizeof a->host) == 0;
}

static enum link_kind choose(const struct wire_place *ours, const struct wire_place *theirs)
{
    /* The higher kind is the stricter one; both sides come to the same. */
    uint32_t forced = ours->forced > theirs->forced ? ours->forced : theirs->forced;
    if (forced != 0) return (enum link_kind)forced;
    if (is_same_host(ours, theirs)) return LINK_SHM;
    return strcmp(ours->zone, theirs->zone) == 0 ? LINK_TCP : LINK_TLS;
}

const struct wire_place *door_place(const struct door *door)
{
    return &door->place;
}

int door_fd(const struct door *door)
{
    return door->epoll;
}

/* The boot id names the running kernel: one host, whatever the containers. Unknown: zeros. */
static void read_host(uint8_t host[WIRE_HOST_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    char text[64];
    uint32_t digits = 0;
    memset(host, 0, WIRE_HOST_BYTES);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? 0 : read(fd, text, sizeof text);
    if (fd >= 0) (void)close(fd); /* only read */
    for (ssize_t i = 0; i < count && digits < 2 * WIRE_HOST_BYTES; i++) {
        const char *digit = text[i] == '\0' ? NULL : strchr(hex, text[i]);
        if (digit == NULL) continue; /* dashes */
        host[digits / 2] = (uint8_t)(host[digits / 2] << 4 | (digit - hex));
        digits++;
    }
}

static socklen_t local_address(const uint8_t name[WIRE_DOOR_BYTES], struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX}; /* first byte 0: abstract, no file */
    int count = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "shoal-");
    for (int i = 0; i < WIRE_DOOR_BYTES; i++)
        count += snprintf(address->sun_path + 1 + count,
                          sizeof address->sun_path - 1 - (size_t)count, "%02x", name[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)count);
}

static bool watch(const struct door *door, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events};
    return epoll_ctl(door->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool listen_tcp(struct door *door, const char *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        errno = EINVAL;
        return false;
    }
    door->tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (door->tcp < 0 || bind(door->tcp, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(door->tcp, BACKLOG) != 0 ||
        getsockname(door->tcp, (struct sockaddr *)&address, &bytes) != 0)
        return false;
    door->place.port = ntohs(address.sin_port);
    return watch(door, door->tcp, EPOLLIN);
}

static bool listen_local(struct door *door)
{
    struct sockaddr_un address;
    socklen_t bytes = local_address(door->place.door, &address);
    door->local = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return door->local >= 0 && bind(door->local, (struct sockaddr *)&address, bytes) == 0 &&
           listen(door->local, BACKLOG) == 0 && watch(door, door->local, EPOLLIN);
}

static bool read_options(struct door *door, const struct door_options *options,
                         struct error *ret_error)
{
    const char *link = options->link;
    enum link_kind kind;
    if (strlen(options->zone) >= WIRE_ZONE_BYTES)
        return error_set(ret_error, "SHOAL_ZONE=%s: longer than %d characters", options->zone,
                         WIRE_ZONE_BYTES - 1);
    for (const char *at = options->zone; *at != '\0'; at++)
        if (*at < 0x21 || *at > 0x7e)
            return error_set(ret_error, "SHOAL_ZONE=%s: use printable characters without spaces",
                             options->zone);
    if (strlen(options->token) >= sizeof door->token)
        return error_set(ret_error, "SHOAL_TOKEN: longer than %d characters", WIRE_TOKEN_BYTES - 1);
    memcpy(door->place.zone, options->zone, strlen(options->zone));
    memcpy(door->token, options->token, strlen(options->token));
    if (link == NULL || link[0] == '\0' || strcmp(link, "auto") == 0) return true;
    if (!link_parse_kind(link, &kind))
        return error_set(ret_error, "SHOAL_LINK=%s: expected auto, shm, tcp or tls", link);
    door->place.forced = kind;
    if (kind == LINK_TLS && options->token[0] == '\0')
        return error_set(ret_error, "SHOAL_LINK=tls: SHOAL_TOKEN is empty; links by TLS need it");
    return true;
}

struct door *door_open(const struct door_options *options, struct error *ret_error)
{
    struct door *door = mem_zalloc(1, sizeof *door);
    if (door == NULL) {
        (void)error_set(ret_error, "out of memory for the links to peers");
        return NULL;
    }
    door->epoll = door->tcp = door->local = -1;
    door->worker = options->worker;
    door->streams = options->streams;
    bool fine = read_options(door, options, ret_error);
    if (fine) {
        read_host(door->place.host);
        door->keys = tls_keys_open(door->token);
        door->epoll = epoll_create1(EPOLL_CLOEXEC);
        fine = getrandom(door->place.door, WIRE_DOOR_BYTES, 0) == WIRE_DOOR_BYTES &&
               door->epoll >= 0 && listen_tcp(door, options->listen) && listen_local(door);
        if (!fine)
            (void)error_set(ret_error, "%s: cannot listen for links of peers: %s", options->listen,
                            error_errno(errno));
    }
    if (fine) return door;
    door_close(door);
    return NULL;
}

/* Takes connections that are part of the guest's link out of it. */
static void turn_out(struct guest *guest)
{
    for (uint32_t i = 0; i < LINK_STREAMS_MAX; i++) {
        if (guest->ssl[i] != NULL) tls_end(guest->ssl[i]);
        if (guest->fd[i] >= 0) (void)close(guest->fd[i]); /* half a link is of no use */
        guest->ssl[i] = NULL;
        guest->fd[i] = -1;
    }
    if (guest->memory >= 0) (void)close(guest->memory); /* a mapping keeps it */
    guest->memory = -1;
    guest->made = 0;
}

static void drop_knock(struct door *door, uint32_t index)
{
    knock_end(door->knock[index]);
    mem_free(door->knock[index]);
    door->knock[index] = door->knock[--door->knock_count];
}

static void drop_guest(struct door *door, uint32_t index)
{
    struct guest *guest = door->guest[index];
    for (uint32_t i = 0; i < door->knock_count;)
        if (door->knock[i]->words.key == guest->key)
            drop_knock(door, i);
        else
            i++;
    turn_out(guest);
    link_close(guest->link);
    mem_free(guest);
    door->guest[index] = door->guest[--door->guest_count];
}

void door_close(struct door *door)
{
    if (door == NULL) return;
    while (door->guest_count > 0) drop_guest(door, 0);
    while (door->knock_count > 0) drop_knock(door, 0);
    if (door->tcp >= 0) (void)close(door->tcp); /* nothing to lose in any of these */
    if (door->local >= 0) (void)close(door->local);
    if (door->epoll >= 0) (void)close(door->epoll);
    tls_keys_close(door->keys);
    mem_free(door);
}

/* False: fd is closed. */
static struct knock *add_knock(struct door *door, int fd, bool dials, bool is_local, int64_t now_us)
{
    struct knock *knock = NULL;
    if (fd >= 0 && door->knock_count < DOOR_KNOCKS_MAX) knock = mem_alloc(sizeof *knock);
    if (knock == NULL || !watch(door, fd, EPOLLIN | EPOLLOUT | EPOLLET)) {
        mem_free(knock);
        if (fd >= 0) (void)close(fd); /* nothing was said */
        return NULL;
    }
    knock_begin(knock, fd, dials, is_local, now_us);
    door->knock[door->knock_count++] = knock;
    return knock;
}

static bool is_of_our_user(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

static void accept_all(struct door *door, int listener, bool is_local, int64_t now_us)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        if (is_local && !is_of_our_user(fd))
            (void)close(fd); /* shared memory is for one user alone */
        else
            (void)add_knock(door, fd, false, is_local, now_us);
    }
}

static int dial_local(const struct guest *guest)
{
    struct sockaddr_un address;
    socklen_t bytes = local_address(guest->place.door, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, bytes) == 0) return fd;
    (void)close(fd); /* other network namespace, or its queue is full */
    return -1;
}

static int dial_tcp(const struct guest *guest)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const struct sockaddr *address = (const struct sockaddr *)&guest->address;
    if (fd < 0 || connect(fd, address, sizeof guest->address) == 0 || errno == EINPROGRESS)
        return fd;
    (void)close(fd); /* never connected */
    return -1;
}

static bool dial_stream(struct door *door, struct guest *guest, uint32_t stream, int64_t now_us)
{
    bool is_local = guest->kind == LINK_SHM;
    int fd = is_local ? dial_local(guest) : dial_tcp(guest);
    struct knock *knock = add_knock(door, fd, true, is_local, now_us);
    if (knock == NULL) return false;
    knock->words = (struct knock_words){.from = door->worker,
                                        .to = guest->peer,
                                        .key = guest->key,
                                        .kind = guest->kind,
                                        .stream = stream,
                                        .streams = guest->streams};
    if (is_local) knock->memory = link_shm_make();
    return !is_local || knock->memory >= 0;
}

static void fail_guest(struct guest *guest, const char *why)
{
    turn_out(guest);
    guest->why_failed = why;
}

/* Begins to make a link of guest->kind; falls back from shm to tcp where that is allowed. */
static void dial_guest(struct door *door, struct guest *guest, int64_t now_us)
{
    bool far = guest->kind != LINK_SHM && !is_same_host(&door->place, &guest->place);
    guest->streams = guest->kind == LINK_SHM ? 1 : door->streams;
    if (guest->streams == 0) guest->streams = far ? STREAMS_APART : 1;
    if (guest->kind == LINK_TLS && door->keys == NULL) {
        fail_guest(guest, "SHOAL_TOKEN is empty; TLS between zones needs it");
        return;
    }
    for (uint32_t i = 0; i < guest->streams; i++) {
        if (dial_stream(door, guest, i, now_us)) continue;
        if (guest->kind == LINK_SHM && (door->place.forced | guest->place.forced) == 0) {
            guest->kind = LINK_TCP;
            dial_guest(door, guest, now_us);
        } else {
            fail_guest(guest, "cannot connect to it");
        }
        return;
    }
}

bool door_expect(struct door *door, uint64_t peer, uint64_t key, const struct wire_place *theirs,
                 const char *host, bool dials, int64_t now_us)
{
    door_forget(door, peer);
    struct guest *guest = NULL;
    if (door->guest_count < GROUP_PEERS_MAX) guest = mem_zalloc(1, sizeof *guest);
    if (guest == NULL) return false;
    guest->peer = peer;
    guest->key = key;
    guest->place = *theirs;
    guest->dials = dials;
    guest->since_us = now_us;
    guest->memory = -1;
    for (uint32_t i = 0; i < LINK_STREAMS_MAX; i++) guest->fd[i] = -1;
    guest->kind = choose(&door->place, theirs);
    guest->address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)theirs->port)};
    if (inet_pton(AF_INET, host, &guest->address.sin_addr) != 1) guest->address.sin_port = 0;
    door->guest[door->guest_count++] = guest;
    if (dials) dial_guest(door, guest, now_us);
    door_step(door, now_us); /* it may have knocked already */
    return true;
}

void door_forget(struct door *door, uint64_t peer)
{
    for (uint32_t i = 0; i < door->guest_count; i++)
        if (door->guest[i]->peer == peer) {
            drop_guest(door, i);
            return;
        }
}

static struct guest *guest_of(struct door *door, uint64_t peer, uint64_t key)
{
    for (uint32_t i = 0; i < door->guest_count; i++)
        if (door->guest[i]->peer == peer && door->guest[i]->key == key) return door->guest[i];
    return NULL;
}

/* May the guest come in this way? Never by a weaker one than both would choose. */
static bool is_welcome(const struct door *door, const struct guest *guest,
                       const struct knock_words *words)
{
    if (guest->dials || words->to != door->worker || guest->link != NULL) return false;
    bool falls_back = guest->kind == LINK_SHM && words->kind == LINK_TCP &&
                      (door->place.forced | guest->place.forced) == 0;
    if (words->kind != guest->kind && !falls_back) return false;
    bool fits = guest->made == 0 || (guest->streams == words->streams);
    return fits && guest->fd[words->stream] < 0;
}

static void complete(struct guest *guest)
{
    switch (guest->kind) {
    case LINK_SHM: guest->link = link_shm_open(guest->fd[0], guest->memory, guest->dials); break;
    case LINK_TCP: guest->link = link_tcp_open(guest->fd, guest->streams); break;
    case LINK_TLS: guest->link = link_tls_open(guest->fd, guest->ssl, guest->streams); break;
    }
    if (guest->link == NULL) {
        fail_guest(guest, "the link could not be opened");
        return;
    }
    for (uint32_t i = 0; i < LINK_STREAMS_MAX; i++) {
        guest->fd[i] = -1; /* the link's now */
        guest->ssl[i] = NULL;
    }
}

/* A proven connection becomes one stream of its guest's link. */
static void let_in(struct door *door, struct knock *knock)
{
    uint64_t peer = knock->dials ? knock->words.to : knock->words.from;
    struct guest *guest = guest_of(door, peer, knock->words.key);
    if (guest == NULL || guest->link != NULL || guest->fd[knock->words.stream] >= 0) {
        knock_end(knock);
        return;
    }
    struct epoll_event none = {0};
    (void)epoll_ctl(door->epoll, EPOLL_CTL_DEL, knock->fd, &none); /* it is watched: was added */
    guest->kind = (enum link_kind)knock->words.kind;
    guest->streams = knock->words.streams;
    guest->fd[knock->words.stream] = knock->fd;
    guest->ssl[knock->words.stream] = knock->ssl;
    guest->memory = knock->memory;
    knock->fd = knock->memory = -1;
    knock->ssl = NULL;
    knock->state = KNOCK_FAILED; /* nothing left of it */
    if (++guest->made == guest->streams) complete(guest);
}

static void step_knock(struct door *door, struct knock *knock, int64_t now_us)
{
    knock_step(knock, door->keys, door->token);
    if (knock->state == KNOCK_WAITING) {
        struct guest *guest = guest_of(door, knock->words.from, knock->words.key);
        if (guest == NULL) return; /* its hello is still on the way, or never comes */
        knock_answer(knock, door->token, is_welcome(door, guest, &knock->words));
        knock_step(knock, door->keys, door->token);
    }
    if (knock->state == KNOCK_MADE) let_in(door, knock);
    if (knock->state != KNOCK_FAILED || !knock->dials || knock->fd < 0) return;
    struct guest *guest = guest_of(door, knock->words.to, knock->words.key);
    if (guest == NULL || guest->why_failed != NULL) return;
    if (guest->kind == LINK_SHM && (door->place.forced | guest->place.forced) == 0) {
        guest->kind = LINK_TCP;
        dial_guest(door, guest, now_us);
    } else {
        fail_guest(guest, guest->kind == LINK_TLS
                              ? "TLS failed: it ended, or has another SHOAL_TOKEN"
                              : "it refused the connection");
    }
}

void door_step(struct door *door, int64_t now_us)
{
    struct epoll_event events[EVENTS];
    while (epoll_wait(door->epoll, events, EVENTS, 0) == EVENTS) {} /* all are stepped anyway */
    accept_all(door, door->tcp, false, now_us);
    accept_all(door, door->local, true, now_us);
    for (uint32_t i = 0; i < door->knock_count;) {
        struct knock *knock = door->knock[i];
        step_knock(door, knock, now_us);
        if (knock->state == KNOCK_FAILED || now_us - knock->since_us > DOOR_PATIENCE_US)
            drop_knock(door, i);
        else
            i++;
    }
    for (uint32_t i = 0; i < door->guest_count; i++) {
        struct guest *guest = door->guest[i];
        if (guest->link == NULL && guest->why_failed == NULL &&
            now_us - guest->since_us > DOOR_PATIENCE_US)
            fail_guest(guest, "no link came about in time");
    }
}

bool door_take(struct door *door, uint64_t *ret_peer, struct link **ret_link)
{
    for (uint32_t i = 0; i < door->guest_count; i++) {
        struct guest *guest = door->guest[i];
        if (guest->link == NULL) continue;
        *ret_peer = guest->peer;
        *ret_link = guest->link;
        guest->link = NULL;
        drop_guest(door, i);
        return true;
    }
    return false;
}

bool door_take_failed(struct door *door, uint64_t *ret_peer, const char **ret_why)
{
    for (uint32_t i = 0; i < door->guest_count; i++) {
        if (door->guest[i]->why_failed == NULL) continue;
        *ret_peer = door->guest[i]->peer;
        *ret_why = door->guest[i]->why_failed;
        drop_guest(door, i);
        return true;
    }
    return false;
}
