#include "driver/driver.h"
#include "driver/driver_impl.h"
#include "driver/local.h"
#include <string.h>

static const struct driver_ops *const kinds[] = {&driver_local_ops};

struct driver *driver_open(const char *kind, const struct driver_options *options,
                           struct error *ret_error)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i]->kind, kind) == 0) return kinds[i]->open(options, ret_error);
    (void)error_set(ret_error, "unknown driver \"%s\"; the known ones are: local", kind);
    return NULL;
}

void driver_ensure(struct driver *d, uint64_t node_key, const struct driver_offer_name *offer,
                   int64_t bid_usd_micros)
{
    d->ops->ensure(d, node_key, offer, bid_usd_micros);
}

void driver_release(struct driver *d, uint64_t node_key)
{
    d->ops->release(d, node_key);
}

void driver_observe(struct driver *d, uint64_t node_key)
{
    d->ops->observe(d, node_key);
}

void driver_observe_all(struct driver *d)
{
    d->ops->observe_all(d);
}

void driver_step_committed(struct driver *d, uint64_t job_id, uint64_t step)
{
    if (d->ops->step_committed != NULL) d->ops->step_committed(d, job_id, step);
}

void driver_close(struct driver *d, bool release_nodes, driver_closed_fn *closed, void *self)
{
    d->ops->close(d, release_nodes, closed, self);
}
