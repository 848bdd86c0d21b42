/* Which call of the API a method and a path mean. Pure; the table is docs/protocol.md's.
 *
 * Patterns   Fixed segments, and at most one {id}: a decimal number of 64 bits. A path that differs
 *            from a pattern only by a bad number is told apart from one that does not exist.
 * ORDER      route_id, the table in router.c, the handlers in api.c, the paths in
 *            docs/openapi.json (a test compares).
 */
#ifndef SHOAL_SERVER_ROUTER_H
#define SHOAL_SERVER_ROUTER_H

#include "server/auth.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum route_id {
    ROUTE_PAGE,
    ROUTE_OPENAPI,
    ROUTE_HEALTH,
    ROUTE_METRICS,
    ROUTE_EVENTS,
    ROUTE_PLAN,
    ROUTE_PLAN_NCU,
    ROUTE_JOB_SUBMIT,
    ROUTE_JOBS,
    ROUTE_JOB,
    ROUTE_JOB_CANCEL,
    ROUTE_JOB_WHY,
    ROUTE_JOB_LOGS,
    ROUTE_JOB_PROGRESS,
    ROUTE_NODES,
    ROUTE_NODE_DRAIN,
    ROUTE_OFFERS,
    ROUTE_POOLS,
    ROUTE_COST,
    ROUTE_BUDGET,
    ROUTE_LEDGER,
    ROUTE_DECISIONS,
    ROUTE_AGENT_REPORT,
    ROUTE_MARKET,
    ROUTE_MARKET_CHANGES,
    ROUTE_END
};

enum route_access { ROUTE_OPEN = 1, ROUTE_PEOPLE, ROUTE_AGENTS };

struct route {
    enum route_id id;
    const char *method, *path; /* "/v1/jobs/{id}/cancel" */
    enum route_access access;
    size_t body_bytes_max; /* 0: no body is taken */
    const char *query;     /* names of query arguments, separated by spaces; others are refused */
};

enum route_result {
    ROUTE_FOUND = 1,
    ROUTE_NO_PATH,
    ROUTE_NO_METHOD, /* the path exists, not with this method */
    ROUTE_BAD_ID,    /* {id} is no number */
};

enum { ROUTE_METHODS_BYTES = 32 };

struct route_match {
    const struct route *route;         /* ROUTE_FOUND */
    uint64_t id;                       /* of {id}; 0 if the route has none */
    char methods[ROUTE_METHODS_BYTES]; /* ROUTE_NO_METHOD: "GET, POST" */
};

bool route_takes_query(const struct route *route, const char *name);
enum route_result route_match(const char *method, const char *path, struct route_match *ret_match);
const struct route *route_at(enum route_id id);

#endif
