/* Real processes, with kill -9, leaves and joins in mid-run: the final hash must be that of a run on one
 * worker.
 *
 *     worker_e2e_test TRAINER
 */
#include "worker/e2e_testing.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void run_through_churn(const char *moments)
{
    static struct agent agent;
    char expected[65];
    e2e_standalone_hash(expected, moments);
    e2e_init(&agent);
    if (moments[0] != '\0') agent.extra[2] = moments;
    for (int i = 0; i < 4; i++) e2e_start(&agent);
    e2e_serve(&agent, 5, 120000);
    kill(agent.worker[2].pid, SIGKILL);
    e2e_serve(&agent, 10, 120000);
    e2e_start(&agent);
    e2e_start(&agent);
    kill(agent.worker[0].pid, SIGKILL); /* the leader */
    e2e_serve(&agent, 18, 120000);
    e2e_send(&agent.worker[1], "{\"t\":\"leave\",\"reason\":\"price\",\"deadline_ms\":3000}\n");
    e2e_start(&agent);
    e2e_serve(&agent, 26, 120000);
    kill(agent.worker[3].pid, SIGKILL);
    kill(agent.worker[4].pid, SIGTERM);
    e2e_serve(&agent, STEPS, 120000);
    assert_string_equal(agent.hash, expected);
    for (int step = 0; step < STEPS; step++) assert_true(agent.step_seen[step]);
    assert_true(WIFSIGNALED(agent.worker[0].exit_status));
    assert_int_equal(agent.worker[1].exit_status, 0); /* left as told */
    assert_int_equal(agent.worker[4].exit_status, 0);
    assert_int_equal(agent.worker[5].exit_status, 0);
    assert_int_equal(agent.worker[6].exit_status, 0);
    assert_int_equal(agent.done_count, 2);
}

/* Two workers, one three times as fast: 64 slots settle at 48 and 16 within three steps. The speeds
 * are emulated (slots are padded by sleeping); a loaded machine adds a little to both. */
static void slots_follow_the_speed_of_real_processes(void **state)
{
    (void)state;
    static struct agent agent;
    e2e_init(&agent);
    agent.extra[2] = "SHOAL_SLOTS=64";
    agent.extra[3] = "SHOAL_GANG=2";
    agent.extra[0] = "E2E_ELEMENTS=1000";
    agent.extra[1] = "SHOAL_EMULATE_SLOT_US=7000";
    e2e_start(&agent);
    agent.extra[1] = "SHOAL_EMULATE_SLOT_US=21000";
    e2e_start(&agent);
    e2e_serve(&agent, 8, 120000);
    for (uint32_t i = 0; i < 2; i++) kill(agent.worker[i].pid, SIGKILL);
    agent.may_stall = true;
    e2e_serve(&agent, STEPS, 120000);
    for (int step = 0; step <= 8; step++)
        print_message("step %d: %u and %u slots\n", step, agent.owned[step][0],
                      agent.owned[step][1]);
    assert_int_equal(agent.owned[0][0], 32);
    assert_in_range(agent.owned[3][0], 45, 51);
    assert_in_range(agent.owned[8][0], 45, 51);
}

static void survivors_end_with_the_bits_of_one_worker(void **state)
{
    (void)state;
    run_through_churn("");
}

static void so_do_those_with_sharded_moments(void **state)
{
    (void)state;
    run_through_churn("E2E_MOMENTS=1");
}

/* Four workers alike hold half of the moments each: an owned quarter and a mirrored one. */
static void a_worker_holds_its_share_of_the_moments(void **state)
{
    (void)state;
    static struct agent agent;
    static char text[1 << 20];
    char log[64];
    snprintf(log, sizeof log, "e2e-held-%ld", (long)getpid());
    e2e_init(&agent);
    agent.log = log;
    agent.extra[2] = "E2E_MOMENTS=1";
    agent.extra[3] = "SHOAL_MEMORY_MIB=1000";
    agent.extra[4] = "SHOAL_GANG=4";
    for (int i = 0; i < 4; i++) e2e_start(&agent);
    e2e_serve(&agent, STEPS, 120000);
    assert_true(e2e_read_log(log, text, sizeof text));
    unsigned long long sum = 0, held;
    int count = 0;
    char last[32];
    snprintf(last, sizeof last, "step %d: ", STEPS - 1);
    for (const char *at = text; (at = strstr(at, last)) != NULL; count++) {
        at += strlen(last);
        assert_int_equal(sscanf(at, "%llu elements held", &held), 1);
        assert_in_range(held, 50000 * 7 / 8, 50000 * 9 / 8);
        sum += held;
    }
    assert_int_equal(count, 4);
    assert_int_equal(sum, 200000);
}

/* Two of four die at once: some moments lose owner and mirror. The others say so, go back to the
 * newest checkpoint, which is at most an interval old, and still end with the same bits. */
static void owner_and_mirror_lost_at_once(void **state)
{
    (void)state;
    static struct agent agent;
    static char text[1 << 20];
    char expected[65], folder[64], variable[96], command[128], log[64];
    e2e_standalone_hash(expected, "E2E_MOMENTS=1");
    e2e_init(&agent);
    snprintf(log, sizeof log, "e2e-lost-%ld", (long)getpid());
    snprintf(folder, sizeof folder, "e2e-lost-ckpt-%ld", (long)getpid());
    snprintf(variable, sizeof variable, "SHOAL_CHECKPOINT_DIR=%s", folder);
    agent.log = log;
    agent.extra[2] = "E2E_MOMENTS=1";
    agent.extra[3] = variable;
    agent.extra[4] = "SHOAL_CHECKPOINT_EVERY=5";
    for (int i = 0; i < 4; i++) e2e_start(&agent);
    e2e_serve(&agent, 17, 120000);
    int64_t saved = agent.saved_step, reached = agent.last_step;
    assert_true(saved >= 5);
    kill(agent.worker[1].pid, SIGKILL);
    kill(agent.worker[2].pid, SIGKILL);
    e2e_serve(&agent, STEPS, 120000);
    assert_string_equal(agent.hash, expected);
    assert_int_equal(agent.done_count, 2);
    assert_true(e2e_read_log(log, text, sizeof text));
    const char *back = strstr(text, "going back to the newest checkpoint");
    assert_non_null(back);
    const char said[] = "resuming from the checkpoint of step ", *resumed = strstr(back, said);
    assert_non_null(resumed);
    int64_t from = strtoll(resumed + strlen(said), NULL, 10);
    assert_in_range(from, saved, reached + 1);
    print_message("step %lld reached, went on from %lld\n", (long long)reached, (long long)from);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* The same element, which one worker owns and the other mirrors: a bit of it flips in either. The log
 * names both and the range, and the end has the bits of one worker; without checkpoints the mirror takes
 * the owner's, and training goes on. */
static void a_moment_that_differs_is_named_and_gone_back_from(void **state)
{
    (void)state;
    static struct agent agent;
    static char text[1 << 20];
    char expected[65], folder[64], variable[96], command[128], log[64], flip[64];
    unsigned owner[2], mirror;
    e2e_standalone_hash(expected, "E2E_MOMENTS=1");
    snprintf(log, sizeof log, "e2e-flip-%ld", (long)getpid());
    snprintf(folder, sizeof folder, "e2e-flip-ckpt-%ld", (long)getpid());
    snprintf(variable, sizeof variable, "SHOAL_CHECKPOINT_DIR=%s", folder);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    for (uint32_t who = 1; who <= 2; who++) {
        e2e_init(&agent);
        agent.log = log;
        agent.extra[1] = "SHOAL_EMULATE_SLOT_US=1000";
        agent.extra[2] = "E2E_MOMENTS=1";
        agent.extra[3] = variable;
        agent.extra[4] = "SHOAL_CHECKPOINT_EVERY=10";
        agent.extra[5] = "SHOAL_GANG=2";
        agent.extra[6] = flip;
        snprintf(flip, sizeof flip, "E2E_FLIP_MOMENT=%u:23", who);
        for (int i = 0; i < 2; i++) e2e_start(&agent);
        e2e_serve(&agent, STEPS, 120000);
        assert_int_equal(system(command), 0);
        assert_true(e2e_read_log(log, text, sizeof text));
        const char *said = strstr(text, "owner and mirror hold other moments; going back");
        assert_non_null(said);
        said = strstr(said, "owner=");
        assert_non_null(said);
        assert_int_equal(sscanf(said, "owner=%u mirror=%u", &owner[who - 1], &mirror), 2);
        assert_int_equal(owner[who - 1] + mirror, 3);
        assert_non_null(strstr(said, "step=30"));
        assert_non_null(strstr(said, "resuming from the checkpoint of step 20"));
        assert_string_equal(agent.hash, expected);
        assert_int_equal(agent.done_count, 2);
    }
    assert_int_equal(owner[0], owner[1]); /* once the owner's copy was wrong, once the mirror's */
}

/* Nothing to go back to: a joiner brings the vote, and the two agree again after it. */
static void without_checkpoints_the_mirror_takes_the_owners(void **state)
{
    (void)state;
    static struct agent agent;
    static char text[1 << 20];
    char log[64];
    snprintf(log, sizeof log, "e2e-mend-%ld", (long)getpid());
    e2e_init(&agent);
    agent.log = log;
    agent.extra[2] = "E2E_MOMENTS=1";
    agent.extra[3] = "SHOAL_GANG=2";
    agent.extra[4] = "E2E_FLIP_MOMENT=1:6";
    for (int i = 0; i < 2; i++) e2e_start(&agent);
    e2e_serve(&agent, 10, 120000);
    e2e_start(&agent);
    e2e_serve(&agent, 24, 120000);
    e2e_start(&agent); /* another vote */
    e2e_serve(&agent, STEPS, 120000);
    assert_int_equal(agent.done_count, 4);
    assert_true(e2e_read_log(log, text, sizeof text));
    const char *said = strstr(text, "the mirror takes the owner's");
    assert_non_null(said);
    said = strstr(said, "step=");
    assert_non_null(said);
    int64_t step = strtoll(said + 5, NULL, 10);
    for (; said != NULL; said = strstr(said, "the mirror takes the owner's")) {
        said = strstr(said, "step=");
        assert_non_null(said);
        assert_int_equal(strtoll(said + 5, NULL, 10), step); /* said by each, in one vote */
    }
}

/* One NaN in one slot of step 6, under each policy. */
static void a_nan_is_skipped_stopped_at_or_passed_on(void **state)
{
    (void)state;
    static const char *const policies[] = {"SHOAL_ON_NAN=skip", "SHOAL_ON_NAN=continue",
                                           "SHOAL_ON_NAN=stop"};
    char skipped[65], sharded[65];
    for (int p = 0; p < 4; p++) { /* the last one: skip, with the moments sharded */
        static struct agent agent;
        e2e_init(&agent);
        agent.extra[0] = "E2E_ELEMENTS=1000";
        agent.extra[1] = "SHOAL_EMULATE_SLOT_US=300";
        agent.extra[2] = "E2E_NAN_STEP=6";
        agent.extra[3] = policies[p % 3];
        agent.extra[4] = p == 3 ? "E2E_MOMENTS=1" : NULL;
        for (int i = 0; i < 3; i++) e2e_start(&agent);
        e2e_serve(&agent, STEPS, 120000);
        assert_string_equal(agent.not_finite, p == 1 ? "applied" : p == 2 ? "" : "skipped");
        assert_int_equal(agent.not_finite_count, p == 1 ? STEPS - 6 : p != 2);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(WEXITSTATUS(agent.worker[i].exit_status), p == 2 ? 1 : 0);
        assert_int_equal(agent.last_step, p == 2 ? 5 : STEPS - 1);
        if (p == 0) memcpy(skipped, agent.hash, sizeof skipped);
        if (p == 3) memcpy(sharded, agent.hash, sizeof sharded);
        assert_true(p != 1 || strcmp(agent.hash, skipped) != 0);
    }
    print_message("skipped: %s, with sharded moments: %s\n", skipped, sharded);
}

struct resume {
    const char *moments; /* NAME=VALUE or "" */
    uint32_t before, after;
    bool blind; /* the first of the new group, of the lowest id, has a folder of its own */
};

/* Bytes of the checkpoint that the workers of the log said they read, and how many did. */
static uint64_t read_together(const char *log, uint32_t *ret_readers)
{
    static char text[1 << 20];
    unsigned long long sum = 0, bytes;
    assert_true(e2e_read_log(log, text, sizeof text));
    *ret_readers = 0;
    for (const char *at = text; (at = strstr(at, "this worker reads ")) != NULL; ++*ret_readers) {
        at += strlen("this worker reads ");
        assert_int_equal(sscanf(at, "%llu bytes of it", &bytes), 1);
        sum += bytes;
    }
    return sum;
}

/* Everybody dies at once; the next group begins at the newest checkpoint, each byte of which is read by
 * one of those who see the folder, and goes on with the bits of a run on one worker. */
static void check_resume(const struct resume *r)
{
    static struct agent agent;
    char expected[65], folder[64], variable[96], other[96], command[128], log[64], gang[32];
    e2e_standalone_hash(expected, r->moments);
    e2e_init(&agent);
    snprintf(folder, sizeof folder, "e2e-ckpt-%ld", (long)getpid());
    snprintf(log, sizeof log, "e2e-resume-%ld", (long)getpid());
    snprintf(variable, sizeof variable, "SHOAL_CHECKPOINT_DIR=%s/all", folder);
    snprintf(other, sizeof other, "SHOAL_CHECKPOINT_DIR=%s/own", folder);
    agent.extra[2] = variable;
    agent.extra[3] = "SHOAL_CHECKPOINT_EVERY=5";
    agent.extra[4] = gang;
    if (r->moments[0] != '\0') agent.extra[5] = r->moments;
    snprintf(gang, sizeof gang, "SHOAL_GANG=%u", r->before);
    for (uint32_t i = 0; i < r->before; i++) e2e_start(&agent);
    e2e_serve(&agent, 23, 120000);
    assert_true(agent.saved_step >= 5);
    for (uint32_t i = 0; i < agent.worker_count; i++) kill(agent.worker[i].pid, SIGKILL);
    e2e_serve(&agent, STEPS, 120000);
    agent.log = log;
    int64_t saved = agent.saved_step;
    agent.first_step = STEPS;
    snprintf(gang, sizeof gang, "SHOAL_GANG=%u", r->after);
    for (uint32_t i = 0; i < r->after; i++) {
        agent.extra[2] = i == 0 && r->blind ? other : variable;
        e2e_start(&agent);
    }
    e2e_serve(&agent, STEPS, 120000);
    uint32_t readers;
    uint64_t elements = r->moments[0] != '\0' ? 300000 : 200000,
             bytes = read_together(log, &readers);
    assert_string_equal(agent.hash, expected);
    assert_int_equal(agent.done_count, r->after);
    assert_true(agent.first_step >= saved);
    assert_int_equal(readers, r->after - r->blind);
    assert_in_range(bytes, elements * sizeof(float), elements * sizeof(float) + 2000); /* scales */
    if (!r->blind) assert_int_equal(agent.saved_step, STEPS);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

static void a_new_group_reads_the_newest_checkpoint_together(void **state)
{
    (void)state;
    check_resume(&(struct resume){"", 4, 3, false});
    check_resume(&(struct resume){"E2E_MOMENTS=1", 3, 5, false});
}

static void who_sees_no_checkpoint_gets_it_from_the_others(void **state)
{
    (void)state;
    check_resume(&(struct resume){"E2E_MOMENTS=1", 3, 3, true});
}

/* Four workers with these values in their environment; a member and then the leader are killed, mostly
 * in the middle of a transfer, and replaced. The survivors end with the bits of one worker, and the
 * log names the kinds that must have been used. */
static void survive_on_links(const char *const link[4], const char *const used[3])
{
    static struct agent agent;
    static char text[1 << 17];
    char expected[65], log[64];
    e2e_standalone_hash(expected, "");
    e2e_init(&agent);
    snprintf(log, sizeof log, "e2e-links-%ld", (long)getpid());
    agent.log = log;
    agent.extra[1] = "SHOAL_EMULATE_SLOT_US=500";
    for (int i = 0; i < 4; i++) {
        agent.extra[2] = link[i];
        e2e_start(&agent);
    }
    e2e_serve(&agent, 8, 120000);
    kill(agent.worker[1].pid, SIGKILL);
    agent.extra[2] = link[1];
    e2e_start(&agent);
    e2e_serve(&agent, 20, 120000);
    kill(agent.worker[0].pid, SIGKILL); /* the leader */
    agent.extra[2] = link[0];
    e2e_start(&agent);
    e2e_serve(&agent, STEPS, 120000);
    assert_string_equal(agent.hash, expected);
    assert_true(e2e_read_log(log, text, sizeof text));
    for (int i = 0; i < 3 && used[i] != NULL; i++) assert_non_null(strstr(text, used[i]));
}

static void every_kind_of_link_survives_kills(void **state)
{
    (void)state;
    const char *const shm[4] = {"SHOAL_LINK=shm", "SHOAL_LINK=shm", "SHOAL_LINK=auto",
                                "SHOAL_LINK="};
    const char *const tcp[4] = {"SHOAL_LINK=tcp", "SHOAL_LINK=tcp", "SHOAL_LINK=tcp",
                                "SHOAL_LINK=tcp"};
    const char *const tls[4] = {"SHOAL_LINK=tls", "SHOAL_LINK=tls", "SHOAL_LINK=tls",
                                "SHOAL_LINK=tls"};
    survive_on_links(shm, (const char *const[3]){"link=shm"});
    survive_on_links(tcp, (const char *const[3]){"link=tcp"});
    survive_on_links(tls, (const char *const[3]){"link=tls"});
}

/* Two zones of two: parts merge within a zone before they cross. */
static void zones_merge_before_they_cross(void **state)
{
    (void)state;
    const char *const zones[4] = {"SHOAL_ZONE=east", "SHOAL_ZONE=west", "SHOAL_ZONE=east",
                                  "SHOAL_ZONE=west"};
    survive_on_links(zones, (const char *const[3]){"link=shm"});
}

/* Each pair takes the stricter of its two wishes, all in one exchange. */
static void links_of_several_kinds_in_one_group(void **state)
{
    (void)state;
    const char *const mixed[4] = {"SHOAL_LINK=auto", "SHOAL_LINK=tcp", "SHOAL_LINK=auto",
                                  "SHOAL_LINK=tls"};
    survive_on_links(mixed, (const char *const[3]){"link=shm", "link=tcp", "link=tls"});
}

/* What it computed with would else go into all later gradients. */
static void a_joiner_whose_weights_changed_is_outvoted(void **state)
{
    (void)state;
    static struct agent agent;
    char expected[65], log[64], text[65536];
    snprintf(log, sizeof log, "e2e-log-%ld", (long)getpid());
    e2e_standalone_hash(expected, "");
    e2e_init(&agent);
    agent.log = log;
    agent.extra[2] = "E2E_FLIP=4";
    for (int i = 0; i < 3; i++) e2e_start(&agent);
    e2e_serve(&agent, 5, 120000);
    e2e_start(&agent);
    e2e_serve(&agent, STEPS, 120000);
    assert_true(e2e_read_log(log, text, sizeof text));
    assert_non_null(strstr(text, "the weights of a worker are not those of the others; it gets "
                                 "them anew\" worker=4"));
    assert_string_equal(agent.hash, expected);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    e2e_trainer = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_end_with_the_bits_of_one_worker),
        cmocka_unit_test(slots_follow_the_speed_of_real_processes),
        cmocka_unit_test(a_nan_is_skipped_stopped_at_or_passed_on),
        cmocka_unit_test(so_do_those_with_sharded_moments),
        cmocka_unit_test(a_moment_that_differs_is_named_and_gone_back_from),
        cmocka_unit_test(without_checkpoints_the_mirror_takes_the_owners),
        cmocka_unit_test(a_worker_holds_its_share_of_the_moments),
        cmocka_unit_test(owner_and_mirror_lost_at_once),
        cmocka_unit_test(a_new_group_reads_the_newest_checkpoint_together),
        cmocka_unit_test(who_sees_no_checkpoint_gets_it_from_the_others),
        cmocka_unit_test(every_kind_of_link_survives_kills),
        cmocka_unit_test(zones_merge_before_they_cross),
        cmocka_unit_test(links_of_several_kinds_in_one_group),
        cmocka_unit_test(a_joiner_whose_weights_changed_is_outvoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
