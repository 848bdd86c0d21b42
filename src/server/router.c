#include "server/router.h"
#include "core/assert.h"
#include <stdio.h>
#include <string.h>

enum { YAML_BODY_MAX = 1 << 20, REPORT_BODY_MAX = 4 << 20 };

static const struct route routes[] = {
    {ROUTE_PAGE, "GET", "/", ROUTE_OPEN, 0, ""},
    {ROUTE_OPENAPI, "GET", "/openapi.json", ROUTE_OPEN, 0, ""},
    {ROUTE_HEALTH, "GET", "/healthz", ROUTE_OPEN, 0, ""},
    {ROUTE_METRICS, "GET", "/metrics", ROUTE_PEOPLE, 0, ""},
    {ROUTE_EVENTS, "GET", "/v1/events", ROUTE_PEOPLE, 0, ""},
    {ROUTE_PLAN, "POST", "/v1/plan", ROUTE_PEOPLE, YAML_BODY_MAX, ""},
    {ROUTE_PLAN_NCU, "GET", "/v1/plan/ncu", ROUTE_PEOPLE, 0, "ncu_milli usd_micros_per_hour list"},
    {ROUTE_JOB_SUBMIT, "POST", "/v1/jobs", ROUTE_PEOPLE, YAML_BODY_MAX, ""},
    {ROUTE_JOBS, "GET", "/v1/jobs", ROUTE_PEOPLE, 0, "after limit state"},
    {ROUTE_JOB, "GET", "/v1/jobs/{id}", ROUTE_PEOPLE, 0, ""},
    {ROUTE_JOB_CANCEL, "POST", "/v1/jobs/{id}/cancel", ROUTE_PEOPLE, 0, ""},
    {ROUTE_JOB_WHY, "GET", "/v1/jobs/{id}/why", ROUTE_PEOPLE, 0, "limit"},
    {ROUTE_JOB_LOGS, "GET", "/v1/jobs/{id}/logs", ROUTE_PEOPLE, 0, "after limit"},
    {ROUTE_JOB_PROGRESS, "GET", "/v1/jobs/{id}/progress", ROUTE_PEOPLE, 0, "after limit"},
    {ROUTE_NODES, "GET", "/v1/nodes", ROUTE_PEOPLE, 0, ""},
    {ROUTE_NODE_DRAIN, "POST", "/v1/nodes/{id}/drain", ROUTE_PEOPLE, 0, ""},
    {ROUTE_OFFERS, "GET", "/v1/offers", ROUTE_PEOPLE, 0, ""},
    {ROUTE_POOLS, "GET", "/v1/pools", ROUTE_PEOPLE, 0, ""},
    {ROUTE_COST, "GET", "/v1/cost", ROUTE_PEOPLE, 0, "by"},
    {ROUTE_BUDGET, "GET", "/v1/budget", ROUTE_PEOPLE, 0, ""},
    {ROUTE_LEDGER, "GET", "/v1/ledger", ROUTE_PEOPLE, 0, "after limit"},
    {ROUTE_DECISIONS, "GET", "/v1/decisions", ROUTE_PEOPLE, 0, "after limit"},
    {ROUTE_AGENT_REPORT, "POST", "/v1/agents/{id}/report", ROUTE_AGENTS, REPORT_BODY_MAX, ""},
    {ROUTE_MARKET, "GET", "/v1/market", ROUTE_PEOPLE, 0, "model zone region hours"},
    {ROUTE_MARKET_CHANGES, "GET", "/v1/market/changes", ROUTE_PEOPLE, 0, "after limit"},
};
_Static_assert(sizeof routes / sizeof *routes == ROUTE_END, "ORDER: route_id");

const struct route *route_at(enum route_id id)
{
    ASSERT(id < ROUTE_END);
    ASSERT(routes[id].id == id);
    return &routes[id];
}

/* Decimal digits up to the next '/' or the end; false if there is anything else or too much. */
static bool read_id(const char *text, size_t length, uint64_t *ret_id)
{
    uint64_t id = 0;
    if (length == 0 || length > 20) return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (id > (UINT64_MAX - digit) / 10) return false;
        id = id * 10 + digit;
    }
    *ret_id = id;
    return true;
}

enum path_fit { PATH_OTHER = 1, PATH_FITS, PATH_BAD_ID };

static enum path_fit fit_path(const char *pattern, const char *path, uint64_t *ret_id)
{
    bool bad_id = false;
    while (*pattern != '\0') {
        if (*pattern != '{') {
            if (*pattern++ != *path++) return PATH_OTHER;
            continue;
        }
        size_t length = strcspn(path, "/");
        if (length == 0) return PATH_OTHER;
        if (!read_id(path, length, ret_id)) bad_id = true;
        path += length;
        pattern += strlen("{id}");
    }
    if (*path != '\0') return PATH_OTHER;
    return bad_id ? PATH_BAD_ID : PATH_FITS;
}

static void add_method(struct route_match *match, const char *method)
{
    size_t used = strlen(match->methods);
    (void)snprintf(match->methods + used, sizeof match->methods - used, "%s%s",
                   used == 0 ? "" : ", ", method); /* two methods at most share a path */
}

enum route_result route_match(const char *method, const char *path, struct route_match *ret_match)
{
    struct route_match match = {0};
    bool bad_id = false;
    for (int i = 0; i < ROUTE_END; i++) {
        const struct route *route = &routes[i];
        uint64_t id = 0;
        enum path_fit fit = fit_path(route->path, path, &id);
        if (fit == PATH_OTHER) continue;
        if (fit == PATH_BAD_ID) {
            bad_id = true;
        } else if (strcmp(method, route->method) == 0) {
            *ret_match = (struct route_match){.route = route, .id = id};
            return ROUTE_FOUND;
        } else {
            add_method(&match, route->method);
        }
    }
    *ret_match = match;
    if (match.methods[0] != '\0') return ROUTE_NO_METHOD;
    return bad_id ? ROUTE_BAD_ID : ROUTE_NO_PATH;
}

bool route_takes_query(const struct route *route, const char *name)
{
    size_t length = strlen(name);
    const char *at = route->query;
    while (*at != '\0') {
        size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, name, length) == 0) return true;
        at += word;
        at += strspn(at, " ");
    }
    return false;
}
