/* How two members that know each other come to a link: knocking, proving, choosing the kind.
 *
 * Role       A door listens for peers' links and dials theirs: on TCP (tcp and tls), and on a Unix
 *            socket in the abstract namespace with a random name, where the memory of shm links is
 *            passed. Peers learn of each other's door, host and zone from their hellos (struct
 *            wire_place); the control connection (net.c) tells when to begin and when to forget.
 * Choice     The stricter of the kinds forced (SHOAL_LINK) on both sides; else shm on one host (same
 *            boot id; if its door cannot be reached, as between containers with networks of their
 *            own, tcp), tcp in one zone, tls between zones. The side that dials decides by the same
 *            rule that the other checks: a peer cannot talk its way out of tls.
 * Proof      The first message of a link names both workers, the key of their control connection
 *            and the stream, under an HMAC of the job's token; it is answered in kind. So neither
 *            an old nor a strange connection becomes a link, and the token does not travel.
 * Non-goals  Secrecy and integrity of what follows on tcp and shm: see link_tls.h.
 * Limits     DOOR_KNOCKS_MAX connections being made at once; DOOR_PATIENCE_US for each.
 * Threads    One, with the owner's lock.
 */
#ifndef SHOAL_WORKER_LINK_LINK_DOOR_H
#define SHOAL_WORKER_LINK_LINK_DOOR_H

#include "base/error.h"
#include "worker/core/wire.h"
#include "worker/link/link.h"

enum { DOOR_KNOCKS_MAX = 4 * GROUP_PEERS_MAX, DOOR_KNOCK_BYTES = 80 };
#define DOOR_PATIENCE_US INT64_C(5000000)

struct door;

struct door_options {
    const char *listen; /* IPv4 address */
    uint64_t worker;
    const char *token, *zone;
    const char *link; /* "auto", or a kind to force; NULL: auto */
    uint32_t streams; /* per tcp or tls link; 0: 1 within a host, else 4 */
};

/* The address a peer was told to reach us at plus what it needs to choose; see wire_place. */
struct door *door_open(const struct door_options *options, struct error *ret_error);
void door_close(struct door *door);
const struct wire_place *door_place(const struct door *door);

/* A control connection with `peer` stands: make a link, under its key. `host` is the address it is
 * seen from, "10.0.0.1". False: no room, or no kind that both can do. */
bool door_expect(struct door *door, uint64_t peer, uint64_t key, const struct wire_place *theirs,
                 const char *host, bool dials, int64_t now_us);
void door_forget(struct door *door, uint64_t peer); /* nothing expected: nothing happens */

int door_fd(const struct door *door); /* for epoll: readable when door_step() has work */
void door_step(struct door *door, int64_t now_us);
/* Links that are made, and peers with whom none can be; false: none now. */
bool door_take(struct door *door, uint64_t *ret_peer, struct link **ret_link);
bool door_take_failed(struct door *door, uint64_t *ret_peer, const char **ret_why);

#endif
