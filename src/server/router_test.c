/* The table of routes: what matches, what is refused and how, and that docs/openapi.json lists
 * exactly these calls. */
#include "server/router.h"
#include "server/web.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

static void paths_find_their_route(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        enum route_id id;
        uint64_t number;
    } cases[] = {
        {"GET", "/", ROUTE_PAGE, 0},
        {"GET", "/v1/jobs", ROUTE_JOBS, 0},
        {"POST", "/v1/jobs", ROUTE_JOB_SUBMIT, 0},
        {"GET", "/v1/jobs/7", ROUTE_JOB, 7},
        {"POST", "/v1/jobs/7/cancel", ROUTE_JOB_CANCEL, 7},
        {"GET", "/v1/jobs/18446744073709551615/why", ROUTE_JOB_WHY, UINT64_MAX},
        {"POST", "/v1/agents/4294967297/report", ROUTE_AGENT_REPORT, 4294967297u},
        {"POST", "/v1/nodes/0/drain", ROUTE_NODE_DRAIN, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct route_match match;
        assert_int_equal(route_match(cases[i].method, cases[i].path, &match), ROUTE_FOUND);
        assert_int_equal(match.route->id, cases[i].id);
        assert_int_equal(match.id, cases[i].number);
    }
}

static void other_paths_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        enum route_result result;
    } cases[] = {
        {"GET", "", ROUTE_NO_PATH},
        {"GET", "//", ROUTE_NO_PATH},
        {"GET", "/v1", ROUTE_NO_PATH},
        {"GET", "/v1/", ROUTE_NO_PATH},
        {"GET", "/v1/jobs/", ROUTE_NO_PATH},
        {"GET", "/v1/jobs/7/", ROUTE_NO_PATH},
        {"GET", "/v1/jobs/7/whyy", ROUTE_NO_PATH},
        {"GET", "/v1/jobs//why", ROUTE_NO_PATH},
        {"GET", "/V1/jobs", ROUTE_NO_PATH},
        {"GET", "/v1/jobs/x", ROUTE_BAD_ID},
        {"GET", "/v1/jobs/-1", ROUTE_BAD_ID},
        {"GET", "/v1/jobs/1.5", ROUTE_BAD_ID},
        {"GET", "/v1/jobs/18446744073709551616", ROUTE_BAD_ID},
        {"GET", "/v1/jobs/99999999999999999999999", ROUTE_BAD_ID},
        {"GET", "/v1/jobs/../why", ROUTE_BAD_ID},
        {"DELETE", "/v1/jobs", ROUTE_NO_METHOD},
        {"get", "/v1/jobs", ROUTE_NO_METHOD},
        {"PUT", "/v1/jobs/7", ROUTE_NO_METHOD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct route_match match;
        assert_int_equal(route_match(cases[i].method, cases[i].path, &match), cases[i].result);
    }
}

static void the_methods_of_a_path_are_listed(void **state)
{
    (void)state;
    struct route_match match;
    assert_int_equal(route_match("PUT", "/v1/jobs", &match), ROUTE_NO_METHOD);
    assert_string_equal(match.methods, "POST, GET");
}

static void query_names_are_whole_words(void **state)
{
    (void)state;
    const struct route *logs = route_at(ROUTE_JOB_LOGS);
    assert_true(route_takes_query(logs, "after"));
    assert_true(route_takes_query(logs, "limit"));
    assert_false(route_takes_query(logs, "aft"));
    assert_false(route_takes_query(logs, "afterx"));
    assert_false(route_takes_query(logs, ""));
    assert_false(route_takes_query(route_at(ROUTE_NODES), "after"));
}

/* Documents. */

static const char *security_of(const json_t *operation)
{
    const json_t *need = json_array_get(json_object_get(operation, "security"), 0);
    return need == NULL ? "" : json_object_iter_key(json_object_iter((json_t *)(uintptr_t)need));
}

static void check_query_listed(const struct route *route, const json_t *operation)
{
    size_t i;
    const json_t *parameter;
    uint32_t listed = 0, taken = route->query[0] == '\0' ? 0 : 1;
    for (const char *at = route->query; *at != '\0'; at++) taken += *at == ' ';
    json_array_foreach(json_object_get(operation, "parameters"), i, parameter)
    {
        if (strcmp(json_string_value(json_object_get(parameter, "in")), "query") != 0) continue;
        const char *name = json_string_value(json_object_get(parameter, "name"));
        if (!route_takes_query(route, name)) fail_msg("%s: %s", route->path, name);
        listed++;
    }
    if (listed != taken) fail_msg("%s: %u query arguments of %u", route->path, listed, taken);
}

static void every_route_is_in_the_openapi_page(void **state)
{
    (void)state;
    static const char *const schemes[] = {"?", "", "token", "agent-token"};
    json_t *page = json_loadb(web_openapi_text, web_openapi_bytes, 0, NULL);
    for (int id = 0; id < ROUTE_END; id++) {
        const struct route *route = route_at((enum route_id)id);
        char method[8] = {0};
        for (size_t i = 0; route->method[i] != '\0'; i++)
            method[i] = (char)(route->method[i] | 0x20);
        const json_t *path = json_object_get(json_object_get(page, "paths"), route->path);
        const json_t *operation = json_object_get(path, method);
        if (operation == NULL) fail_msg("not in docs/openapi.json: %s %s", method, route->path);
        assert_string_equal(security_of(operation), schemes[route->access]);
        assert_int_equal(json_object_get(operation, "requestBody") != NULL,
                         route->body_bytes_max > 0);
        check_query_listed(route, operation);
    }
    json_decref(page);
}

static void the_openapi_page_has_no_other_call(void **state)
{
    (void)state;
    size_t calls = 0;
    const char *name;
    json_t *path, *page = json_loadb(web_openapi_text, web_openapi_bytes, 0, NULL);
    assert_non_null(page);
    json_object_foreach(json_object_get(page, "paths"), name, path) calls += json_object_size(path);
    assert_int_equal(calls, ROUTE_END);
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_find_their_route),
        cmocka_unit_test(other_paths_are_told_apart),
        cmocka_unit_test(the_methods_of_a_path_are_listed),
        cmocka_unit_test(query_names_are_whole_words),
        cmocka_unit_test(every_route_is_in_the_openapi_page),
        cmocka_unit_test(the_openapi_page_has_no_other_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
