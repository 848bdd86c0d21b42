/* What a driver provides behind driver.h; only drivers include this. */
#ifndef SHOAL_DRIVER_DRIVER_IMPL_H
#define SHOAL_DRIVER_DRIVER_IMPL_H

#include "driver/driver.h"

/* The table of one kind. Each entry keeps the contract of the call of the same name. */
struct driver_ops {
    const char *kind; /* `driver:` in shoal.yaml */
    struct driver *(*open)(const struct driver_options *options, struct error *ret_error);
    void (*ensure)(struct driver *d, uint64_t node_key, const struct driver_offer_name *offer,
                   int64_t bid_usd_micros);
    void (*release)(struct driver *d, uint64_t node_key);
    void (*observe)(struct driver *d, uint64_t node_key);
    void (*observe_all)(struct driver *d);
    void (*step_committed)(struct driver *d, uint64_t job_id, uint64_t step); /* or NULL */
    void (*close)(struct driver *d, bool release_nodes, driver_closed_fn *closed, void *self);
};

/* First member of every driver's own struct. */
struct driver {
    const struct driver_ops *ops;
};

#endif
