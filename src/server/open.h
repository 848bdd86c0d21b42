/* Opening and freeing the parts of a server, in the order of server_state.h.
 *
 * server_open() ends with everything but the loop running; on failure it leaves what it opened to
 * server.c, which closes in the order of a stop. server_free() frees what has no handles in the
 * loop, after the loop has ended.
 */
#ifndef SHOAL_SERVER_OPEN_H
#define SHOAL_SERVER_OPEN_H

#include "server/options.h"
#include "server/server_state.h"

bool server_open(struct server *s, const struct server_options *options,
                 struct error *ret_error) WARN_UNUSED;
void server_free(struct server *s);

/* step.c: what follows from a step, and what drivers say. */
void server_stepped(void *host, const struct pool_event *event, const struct pool_output *out);
void server_replayed(void *host, const struct pool_event *event);
void server_offer_changed(struct provider *provider, const struct driver_offer *offer);
void server_node_observed(struct provider *provider, const struct driver_node *node);

#endif
