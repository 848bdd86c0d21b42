/* Where machines come from: what every provider looks like to the server.
 *
 * Role       Shell. A driver turns the core's node commands into a provider's calls and the
 *            provider's answers into observations. It decides nothing and retries nothing: the core
 *            asks again. docs/drivers.md is the page for people who write one.
 * Loop       Everything runs on the server's libuv loop, on its thread. Calls return at once.
 *            Callbacks come from the loop only, never from inside a call, so the host may journal
 *            in them.
 * Keys       The host names a node before it asks for it. ensure(), release() and observe() are
 *            idempotent by node key: asking twice buys once. An answer may come late, twice or
 *            never; it is always the level now ("node 7 is UP"), so an old one does no harm.
 * No return  After an answer GONE, ABSENT (to a release) or REFUSED no node with that key ever runs
 *            again, also when an ensure() for it arrives later than its release().
 * Names      Providers, regions, zones and models travel as names; the host gives them numbers. The
 *            tuple of struct driver_offer_name is the identity of an offer, now and after a
 *            restart.
 * Units      _us is wall-clock microseconds (clock_wall_us); money is micro-dollars of a node.
 * Ownership  Strings and structs handed over are borrowed for the call, in both directions.
 *            Strings of struct driver_options are copied by open().
 * Errors     open() fails with a sentence. Later faults of a provider are answers: REFUSED with a
 *            reason, or no answer and a log line.
 */
#ifndef SHOAL_DRIVER_DRIVER_H
#define SHOAL_DRIVER_DRIVER_H

#include "base/error.h"
#include "core/event.h"
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum { DRIVER_NAME_BYTES = 64 }; /* names longer than this are refused where they are read */

/* What identifies an offer. */
struct driver_offer_name {
    const char *provider; /* "aurora": one driver may speak for several providers */
    const char *region;
    const char *zone;  /* "aurora/east-a": unique over all providers */
    const char *model; /* device model of the catalog */
    uint32_t capacity; /* enum capacity_kind */
    uint32_t device_count;
    const char *rack; /* of the zone, where all its nodes stand; NULL or "": not known */
};

struct driver_offer {
    struct driver_offer_name name;
    int64_t usd_micros_per_hour;           /* of a whole node, now */
    int64_t on_demand_usd_micros_per_hour; /* the same node on demand */
    uint32_t stock_count;                  /* how many more could be had now */
    uint32_t hazard_ppm;                   /* expected losses per million node-hours */
    uint32_t billing_s; /* bills are of so many whole seconds, at most a day; 0: of one */
};

/* How one node stands: fields as in event.h node_observed. */
struct driver_node {
    uint64_t node_key;
    uint32_t phase, reason;    /* enum node_phase, enum node_reason */
    int64_t notice_us;         /* when the provider will take it; 0 = no notice */
    int64_t up_since_us;       /* billing began; 0 = not known */
    int64_t billed_usd_micros; /* the provider's meter so far, never decreases; -1 = not known */
};

/* A device model of the catalog, for drivers that emulate it. */
struct driver_model {
    const char *name;
    uint32_t ncu_milli, vram_mib;
};

struct driver_host {
    void *self; /* handed back in each callback */
    void (*offer_changed)(void *self, const struct driver_offer *offer);
    void (*node_observed)(void *self, const struct driver_node *node);
};

struct driver_options {
    const char *provider;         /* `name` of the entry under `providers` in shoal.yaml */
    const char *scenario_file;    /* driver local */
    const char *data_dir;         /* the driver keeps its own records in data_dir/PROVIDER/ */
    const char *server_url;       /* where agents dial to, "http://127.0.0.1:7070" */
    const char *agent_token_file; /* absolute path */
    const char *program;          /* the shoal binary machines run; NULL: the running one */
    const struct driver_model *models;
    uint32_t model_count;
    uv_loop_t *loop;
    struct driver_host host;
};

struct driver; /* drivers fill in driver_impl.h */

typedef void driver_closed_fn(void *self);

/* NULL and a sentence when the kind is not known or the driver cannot start. After it, the first
 * offers come by themselves, then every change of one. */
struct driver *driver_open(const char *kind, const struct driver_options *options,
                           struct error *ret_error) WARN_UNUSED;

/* Make a node of this offer exist under this key, or tell how the one with this key stands.
 * bid_usd_micros: of spot, the most it may cost an hour (the maximum price of a spot request); above it the
 * provider refuses the node, or takes it. 0 = any price. */
void driver_ensure(struct driver *d, uint64_t node_key, const struct driver_offer_name *offer,
                   int64_t bid_usd_micros);

/* Let it go. Answered GONE (it ran), or ABSENT (it never did); the key is used up either way. */
void driver_release(struct driver *d, uint64_t node_key);

/* Tell how it stands; ABSENT when the provider knows no such node. */
void driver_observe(struct driver *d, uint64_t node_key);

/* Tell about every offer and every node of ours that is not GONE: finds what we forgot. */
void driver_observe_all(struct driver *d);

/* News for emulated worlds whose script waits for a step; others ignore it. */
void driver_step_committed(struct driver *d, uint64_t job_id, uint64_t step);

/* Frees d. release_nodes: let every node go first (a clean end); false leaves them running for the
 * next open() with the same data_dir. `closed` is called from the loop when nothing of the driver
 * runs any more, at most DRIVER_CLOSE_MS_MAX later. No other callback comes after this call. */
enum { DRIVER_CLOSE_MS_MAX = 8000 };
void driver_close(struct driver *d, bool release_nodes, driver_closed_fn *closed, void *self);

#endif
