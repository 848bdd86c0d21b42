/* Real processes: who is not let into a group, and what is said about it.
 *
 *     worker_e2e_refuse_test TRAINER
 */
#include "worker/core/wire.h"
#include "worker/e2e_testing.h"
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A peer that shows another token is left alone: two groups of one secret each cannot mix. */
static void a_wrong_token_is_refused(void **state)
{
    (void)state;
    static struct agent agent;
    e2e_init(&agent);
    e2e_start(&agent);
    e2e_start(&agent);
    agent.may_stall = true;
    agent.extra[2] = "SHOAL_TOKEN=other";
    e2e_start(&agent);
    e2e_serve(&agent, STEPS, 1500);
    assert_int_equal(agent.last_step, -1); /* the gang of three never comes together */
    for (uint32_t i = 0; i < agent.worker_count; i++) kill(agent.worker[i].pid, SIGKILL);
    e2e_serve(&agent, STEPS, 120000);
}

/* Two workers, then a third with `setting`: it is not let in, and the log has the sentence. */
static void check_refused(const char *setting, const char *other, const char *sentence)
{
    static struct agent agent;
    char log[64], text[8192];
    snprintf(log, sizeof log, "e2e-log-%ld", (long)getpid());
    e2e_init(&agent);
    agent.may_stall = true;
    agent.log = log;
    agent.extra[2] = setting;
    e2e_start(&agent);
    e2e_start(&agent);
    agent.extra[2] = other;
    e2e_start(&agent);
    e2e_serve(&agent, STEPS, 1500);
    assert_int_equal(agent.last_step, -1);
    for (uint32_t i = 0; i < agent.worker_count; i++) kill(agent.worker[i].pid, SIGKILL);
    e2e_serve(&agent, STEPS, 120000);
    assert_true(e2e_read_log(log, text, sizeof text));
    assert_non_null(strstr(text, sentence));
}

/* Nor does a peer of another run get in, and the log says which two did not match. */
static void another_identity_is_refused(void **state)
{
    (void)state;
    check_refused("E2E_IDENTITY=1a", "E2E_IDENTITY=2b",
                  "it has identity 000000000000002b, this worker 000000000000001a");
}

static void another_tensor_is_named(void **state)
{
    (void)state;
    check_refused("E2E_IDENTITY=1a", "E2E_ELEMENTS=99",
                  "it has another tensor where this worker's tensor 1 is b [99993]");
}

/* It says so and ends; the two that fit go on waiting for their gang. */
static void who_is_refused_by_all_ends(void **state)
{
    (void)state;
    static struct agent agent;
    char log[64], text[8192];
    snprintf(log, sizeof log, "e2e-log-%ld", (long)getpid());
    e2e_init(&agent);
    agent.may_stall = true;
    agent.log = log;
    agent.extra[2] = "E2E_IDENTITY=1a";
    e2e_start(&agent);
    e2e_start(&agent);
    agent.extra[2] = "E2E_IDENTITY=2b";
    uint32_t odd = e2e_start(&agent);
    e2e_serve(&agent, STEPS, 13000);
    assert_int_equal(agent.worker[odd].pid, 0);
    assert_true(WIFEXITED(agent.worker[odd].exit_status));
    assert_int_not_equal(WEXITSTATUS(agent.worker[odd].exit_status), 0);
    for (uint32_t i = 0; i < odd; i++) assert_int_not_equal(agent.worker[i].pid, 0);
    for (uint32_t i = 0; i < odd; i++) kill(agent.worker[i].pid, SIGKILL);
    e2e_serve(&agent, STEPS, 120000);
    assert_true(e2e_read_log(log, text, sizeof text));
    assert_non_null(strstr(text, "no worker of this job lets this one in: of one of them, it has "
                                 "identity 000000000000001a, this worker 000000000000002b"));
}

static void an_agent_of_another_release_is_refused(void **state)
{
    (void)state;
    static struct agent agent;
    char log[64], text[8192];
    snprintf(log, sizeof log, "e2e-log-%ld", (long)getpid());
    e2e_init(&agent);
    agent.log = log;
    agent.extra[2] = "SHOAL_PROTOCOL=99";
    uint32_t odd = e2e_start(&agent);
    e2e_serve(&agent, STEPS, 120000);
    assert_true(WIFEXITED(agent.worker[odd].exit_status));
    assert_int_equal(WEXITSTATUS(agent.worker[odd].exit_status), 1);
    assert_true(e2e_read_log(log, text, sizeof text));
    assert_non_null(strstr(text, "the agent speaks protocol 99, this libshoal "));
    assert_non_null(strstr(text, "install the same release of shoal on both"));
}

static void say_hello(const char *address, uint32_t version)
{
    static uint8_t frame[WIRE_HEADER_BYTES + WIRE_PAYLOAD_MAX];
    struct wire_hello hello = {.version = version, .worker = 2, .place = {.port = 1}};
    struct sockaddr_in remote = {.sin_family = AF_INET};
    char host[64];
    unsigned port = 0;
    assert_int_equal(sscanf(address, "%63[0-9.]:%u", host, &port), 2);
    assert_int_equal(inet_pton(AF_INET, host, &remote.sin_addr), 1);
    remote.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&remote, sizeof remote), 0);
    size_t count = wire_put_hello(frame + WIRE_HEADER_BYTES, &hello);
    wire_put_header(frame, WIRE_HELLO, (uint32_t)count);
    assert_int_equal(send(fd, frame, WIRE_HEADER_BYTES + count, 0), WIRE_HEADER_BYTES + count);
    uint8_t answer[4096];
    while (recv(fd, answer, sizeof answer, 0) > 0) {} /* its own hello, and then the end */
    close(fd);
}

static void a_peer_of_another_release_is_named(void **state)
{
    (void)state;
    static struct agent agent;
    char log[64], text[8192], expected[128];
    snprintf(log, sizeof log, "e2e-log-%ld", (long)getpid());
    e2e_init(&agent);
    agent.log = log;
    agent.may_stall = true;
    e2e_start(&agent);
    for (int i = 0; i < 100 && agent.worker[0].addr[0] == '\0'; i++) e2e_serve(&agent, STEPS, 100);
    say_hello(agent.worker[0].addr, WIRE_VERSION + 1);
    kill(agent.worker[0].pid, SIGKILL);
    e2e_serve(&agent, STEPS, 120000);
    assert_true(e2e_read_log(log, text, sizeof text));
    snprintf(expected, sizeof expected,
             "it speaks version %d of the protocol between workers, this one %d; install the same "
             "release",
             WIRE_VERSION + 1, WIRE_VERSION);
    assert_non_null(strstr(text, expected));
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    e2e_trainer = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_of_another_release_is_refused),
        cmocka_unit_test(a_peer_of_another_release_is_named),
        cmocka_unit_test(a_wrong_token_is_refused),
        cmocka_unit_test(another_identity_is_refused),
        cmocka_unit_test(another_tensor_is_named),
        cmocka_unit_test(who_is_refused_by_all_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
