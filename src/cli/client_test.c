/* The client against a small server of its own: answers, refusals, no server, bad URLs. */
#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/follow.h"
#include <microhttpd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fake {
    struct MHD_Daemon *daemon;
    char url[64];
    char folder[64];
    uint32_t looks; /* at the job */
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static const char *const job_rows[] = {
    "{\"job\":7,\"state\":\"running\",\"step\":1,\"steps\":4,\"devices_up\":2,\"devices_wanted\":"
    "2}",
    "{\"job\":7,\"state\":\"running\",\"step\":3,\"steps\":4,\"devices_up\":2,\"devices_wanted\":"
    "2}",
    "{\"job\":7,\"state\":\"done\",\"step\":4,\"steps\":4,\"usd_micros\":1234}",
};

static enum MHD_Result serve(void *self, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *body,
                             size_t *body_bytes, void **state)
{
    static int seen_headers;
    struct fake *fake = self;
    (void)version;
    (void)body;
    if (*state == NULL) { /* the body comes with later calls */
        *state = &seen_headers;
        return MHD_YES;
    }
    if (*body_bytes > 0) {
        *body_bytes = 0;
        return MHD_YES;
    }
    const char *bearer = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (strcmp(url, "/healthz") == 0) return answer(connection, 200, "{\"ok\":true}");
    if (bearer == NULL || strcmp(bearer, "Bearer secret") != 0)
        return answer(connection, 401, "{\"error\":\"no\"}");
    if (strcmp(url, "/v1/refused") == 0)
        return answer(connection, 422, "{\"error\":\"job.yaml:3: no, since so\"}");
    if (strcmp(url, "/v1/broken") == 0) return answer(connection, 500, "<html>");
    if (strcmp(url, "/v1/text") == 0) return answer(connection, 200, "no json");
    if (strcmp(url, "/v1/jobs/7") == 0) return answer(connection, 200, job_rows[fake->looks++ % 3]);
    if (strcmp(url, "/v1/jobs") == 0 && strcmp(method, "GET") == 0)
        return answer(connection, 200,
                      "{\"jobs\":[{\"job\":3,\"name\":\"a\"},{\"job\":7,\"name\":\"a\"}]}");
    if (strcmp(url, "/v1/jobs") == 0) {
        const char *key =
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Idempotency-Key");
        return answer(connection, 201, key == NULL ? "{\"job\":7}" : "{\"job\":7,\"key\":true}");
    }
    return answer(connection, 404, "{\"error\":\"no such page\"}");
}

static void write_file(const struct fake *fake, const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", fake->folder, name);
    assert_true(io_write_file(path, text, strlen(text), 0600, NULL));
}

static int start(void **state)
{
    struct fake *fake = calloc(1, sizeof *fake);
    (void)snprintf(fake->folder, sizeof fake->folder, "/tmp/shoal-client-XXXXXX");
    assert_non_null(mkdtemp(fake->folder));
    fake->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, serve, fake,
                                    MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_END);
    assert_non_null(fake->daemon);
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(fake->daemon, MHD_DAEMON_INFO_BIND_PORT);
    (void)snprintf(fake->url, sizeof fake->url, "http://127.0.0.1:%u", info->port);
    char note[128];
    (void)snprintf(note, sizeof note, "{\"url\":\"%s/\",\"pid\":1}", fake->url);
    write_file(fake, "server.json", note);
    write_file(fake, "token", "secret\n");
    (void)unsetenv("SHOAL_SERVER");
    (void)unsetenv("SHOAL_TOKEN_FILE");
    *state = fake;
    return 0;
}

static int stop(void **state)
{
    struct fake *fake = *state;
    char path[128];
    MHD_stop_daemon(fake->daemon);
    (void)snprintf(path, sizeof path, "%s/token", fake->folder);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/server.json", fake->folder);
    (void)unlink(path);
    (void)rmdir(fake->folder);
    free(fake);
    return 0;
}

static struct client *open_fake(const struct fake *fake)
{
    struct client_options options = {.data = fake->folder};
    struct client *client = client_open(&options, NULL);
    assert_non_null(client);
    return client;
}

static void finds_server_and_token(void **state)
{
    struct fake *fake = *state;
    struct client *client = open_fake(fake);
    assert_string_equal(client_url(client), fake->url); /* without the slash at its end */
    assert_true(client_is_up(client));
    json_t *rows = client_get(client, "/v1/jobs", NULL);
    assert_int_equal(json_array_size(row_list(rows, "jobs")), 2);
    json_decref(rows);
    int64_t job = 0;
    struct error error;
    assert_true(cli_find_job(client, "a", &job, &error)); /* the newest of that name */
    assert_int_equal(job, 7);
    assert_true(cli_find_job(client, "12", &job, &error));
    assert_int_equal(job, 12);
    assert_false(cli_find_job(client, "b", &job, &error));
    assert_string_equal(error.text, "no job \"b\"; see: shoal jobs");
    client_close(client);
}

static void posts(void **state)
{
    struct client *client = open_fake(*state);
    json_t *answer_row = client_post(client, "/v1/jobs", "application/yaml", "name: x\n", NULL);
    assert_int_equal(row_int(answer_row, "job"), 7);
    json_decref(answer_row);
    struct client_request request = {.method = "POST", .path = "/v1/jobs", .idempotency_key = "k"};
    struct client_reply reply;
    assert_true(client_call(client, &request, &reply, NULL));
    assert_int_equal(reply.status, 201);
    assert_non_null(strstr(reply.text, "key"));
    client_reply_free(&reply);
    json_t *rows = client_get(client, "/v1/jobs", NULL); /* nothing of the POST is left over */
    assert_non_null(row_list(rows, "jobs"));
    json_decref(rows);
    client_close(client);
}

static void tells_what_went_wrong(void **state)
{
    struct client *client = open_fake(*state);
    struct error error;
    assert_null(client_get(client, "/v1/refused", &error));
    assert_string_equal(error.text, "job.yaml:3: no, since so");
    assert_null(client_get(client, "/v1/broken", &error));
    assert_non_null(strstr(error.text, "answered with status 500"));
    assert_null(client_get(client, "/v1/text", &error));
    assert_non_null(strstr(error.text, "no JSON"));
    client_close(client);
    write_file(*state, "token", "another\n");
    client = open_fake(*state);
    assert_null(client_get(client, "/v1/jobs", &error));
    assert_non_null(strstr(error.text, "does not accept the token"));
    client_close(client);
}

static void tells_that_nobody_is_there(void **state)
{
    (void)state;
    struct error error;
    struct client_options options = {.server = "http://127.0.0.1:1"};
    struct client *client = client_open(&options, NULL);
    assert_null(client_get(client, "/v1/jobs", &error));
    assert_string_equal(error.text, "no server at http://127.0.0.1:1; start one with: shoal up");
    assert_false(client_is_up(client));
    client_close(client);
    options.server = "nonsense://x";
    client = client_open(&options, NULL);
    assert_null(client_get(client, "/v1/jobs", &error));
    assert_non_null(strstr(error.text, "no URL of a server"));
    client_close(client);
}

static void follows_to_the_end(void **state)
{
    struct client *client = open_fake(*state);
    char *bytes = NULL;
    size_t count = 0;
    FILE *stream = open_memstream(&bytes, &count);
    struct term term = {.stream = stream};
    assert_true(follow_job(client, 7, &term, NULL));
    (void)fclose(stream);
    assert_non_null(strstr(bytes, "step 1/4 · 2 of 2 devices"));
    assert_non_null(strstr(bytes, "done: job 7 took 0.0 s and cost $0.0012"));
    free(bytes);
    client_close(client);
}

static void estimates(void **state)
{
    (void)state;
    struct follow follow = {0};
    assert_int_equal(follow_estimate_us(&follow, 1000, 0, 10), -1);
    assert_int_equal(follow_estimate_us(&follow, 1000, 4, 10), -1); /* the first look */
    assert_int_equal(follow_estimate_us(&follow, 3000, 6, 10), 4000);
    assert_int_equal(follow_estimate_us(&follow, 5000, 10, 10), 0);
}

/* No allocation that fails may crash, leak or look like success. */
static void survives_failing_memory(void **state)
{
    struct fake *fake = *state;
    for (uint64_t nth = 1; nth < 24; nth++) {
        struct client_options options = {.data = fake->folder};
        mem_fail_at(nth);
        struct client *client = client_open(&options, NULL);
        struct error error = {0};
        json_t *rows = client == NULL ? NULL : client_get(client, "/v1/jobs", &error);
        mem_fail_at(0);
        assert_true(rows == NULL || row_list(rows, "jobs") != NULL);
        json_decref(rows);
        client_close(client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_server_and_token, start, stop),
        cmocka_unit_test_setup_teardown(posts, start, stop),
        cmocka_unit_test_setup_teardown(tells_what_went_wrong, start, stop),
        cmocka_unit_test(tells_that_nobody_is_there),
        cmocka_unit_test_setup_teardown(follows_to_the_end, start, stop),
        cmocka_unit_test(estimates),
        cmocka_unit_test_setup_teardown(survives_failing_memory, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
