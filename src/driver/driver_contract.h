/* The contract of driver.h as tests, the same for every driver.
 *
 * A driver's test gives a way to open it on a scripted provider and an offer that can be had; the
 * cases here do the rest. Each returns nothing and fails by cmocka's asserts. Waiting is for an
 * observation, bounded by CONTRACT_WAIT_MS; nothing sleeps.
 */
#ifndef SHOAL_DRIVER_DRIVER_CONTRACT_H
#define SHOAL_DRIVER_DRIVER_CONTRACT_H

#include "driver/driver.h"

enum { CONTRACT_WAIT_MS = 15000, CONTRACT_NODES_MAX = 64, CONTRACT_OFFERS_MAX = 64 };

struct contract_offer {
    char provider[DRIVER_NAME_BYTES], region[DRIVER_NAME_BYTES], zone[DRIVER_NAME_BYTES],
        model[DRIVER_NAME_BYTES];
    uint32_t capacity, device_count, stock_count;
    int64_t usd_micros_per_hour, on_demand_usd_micros_per_hour;
};

struct contract_node {
    struct driver_node last;
    uint32_t answers_count;
    uint32_t phases_seen; /* bit = enum node_phase */
    bool notice_seen;
};

struct contract {
    uv_loop_t loop;
    struct driver *driver;
    bool closed;
    struct contract_offer offers[CONTRACT_OFFERS_MAX];
    uint32_t offer_count, offers_told;
    struct contract_node nodes[CONTRACT_NODES_MAX];
    uint32_t node_count;
    /* Given by the driver's test. */
    struct driver *(*open)(struct contract *c);
    struct driver_offer_name wanted; /* an offer with stock 2 at least */
    int (*processes_left)(struct contract *c);
};

/* Live processes other than this one whose environment holds the text; zombies have none. */
int contract_processes_with(const char *text);

void contract_open(struct contract *c);
void contract_close(struct contract *c, bool release_nodes);
struct driver_host contract_host(struct contract *c);
const struct contract_node *contract_node(const struct contract *c, uint64_t key);
const struct contract_offer *contract_offer(const struct contract *c, const char *zone,
                                            const char *model, uint32_t capacity);
/* Runs the loop until the test says yes; fails after CONTRACT_WAIT_MS. */
typedef bool contract_test_fn(struct contract *c, uint64_t argument);
void contract_wait(struct contract *c, contract_test_fn *test, uint64_t argument);
bool contract_is_up(struct contract *c, uint64_t key);
bool contract_is_over(struct contract *c, uint64_t key); /* GONE, ABSENT or REFUSED */
bool contract_has_offers(struct contract *c, uint64_t count);

void contract_case_offers(struct contract *c);
void contract_case_ensure_is_idempotent(struct contract *c);
void contract_case_release_uses_the_key_up(struct contract *c);
void contract_case_release_of_unknown(struct contract *c);
void contract_case_observe(struct contract *c);
void contract_case_restart_finds_nodes(struct contract *c);
void contract_case_meter(struct contract *c);
void contract_case_close_releases(struct contract *c);

#endif
