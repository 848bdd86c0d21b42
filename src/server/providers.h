/* The drivers of shoal.yaml, and which of them an offer or a node belongs to.
 *
 * Role       Opens one driver for each entry under `providers`; turns the core's node commands into
 *            driver calls. Answers and offers come back through the host of driver.h, which the
 *            server fills in (server.c).
 */
#ifndef SHOAL_SERVER_PROVIDERS_H
#define SHOAL_SERVER_PROVIDERS_H

#include "codec/config.h"
#include "core/pool.h"
#include "driver/driver.h"
#include "server/offers.h"

struct provider {
    struct driver *driver;
    const char *name; /* of the config */
    void *server;
    void (*offer_changed)(struct provider *provider, const struct driver_offer *offer);
    void (*node_observed)(struct provider *provider, const struct driver_node *node);
};

struct providers {
    struct provider items[CONFIG_PROVIDERS_MAX];
    uint32_t count;
    uint32_t closing_count;
    void (*closed)(void *arg);
    void *closed_arg;
};

struct providers_options {
    const struct config *config;
    const struct catalog *catalog;
    const char *config_file, *data_dir, *server_url;
    uv_loop_t *loop;
    void *server;
    void (*offer_changed)(struct provider *provider, const struct driver_offer *offer);
    void (*node_observed)(struct provider *provider, const struct driver_node *node);
};

bool providers_open(struct providers *p, const struct providers_options *options,
                    struct error *ret_error) WARN_UNUSED;

/* ENSURE, RELEASE and OBSERVE of nodes; worker commands are not for drivers. */
void providers_run(struct providers *p, const struct offers *offers, const pool *world,
                   const struct pool_command *command);
void providers_observe_all(struct providers *p);
void providers_step_committed(struct providers *p, uint64_t job_id, uint64_t step);

/* `closed` from the loop when every driver is. */
void providers_close(struct providers *p, bool release_nodes, void (*closed)(void *arg), void *arg);

#endif
