/* Tokens are made once, private, and open only their own calls. The lock lets one server in. */
#include "base/io.h"
#include "server/auth.h"
#include "server/lock.h"
#include "server/test_dir.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

static int setup(void **state)
{
    *state = malloc(TEST_PATH_BYTES);
    test_dir_make(*state);
    return 0;
}

static int teardown(void **state)
{
    test_dir_remove(*state);
    free(*state);
    return 0;
}

static void tokens_are_made_once_and_private(void **state)
{
    struct auth first, second;
    struct stat facts;
    char path[TEST_PATH_BYTES];
    assert_true(auth_load(*state, &first, NULL));
    assert_true(auth_load(*state, &second, NULL));
    assert_string_equal(first.person, second.person);
    assert_string_equal(first.agent, second.agent);
    assert_string_not_equal(first.person, first.agent);
    assert_int_equal(stat(test_dir_path(*state, "token", path), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(stat(test_dir_path(*state, "agent-token", path), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
}

static void a_token_that_others_read_is_refused(void **state)
{
    struct auth auth;
    struct error error = {""};
    char path[TEST_PATH_BYTES];
    assert_true(auth_load(*state, &auth, NULL));
    assert_int_equal(chmod(test_dir_path(*state, "token", path), 0644), 0);
    assert_false(auth_load(*state, &auth, &error));
    assert_non_null(strstr(error.text, "chmod 600"));
}

static void a_broken_token_file_is_refused(void **state)
{
    struct auth auth;
    struct error error = {""};
    char path[TEST_PATH_BYTES];
    assert_true(
        io_write_file(test_dir_path(*state, "agent-token", path), "short\n", 6, 0600, NULL));
    assert_false(auth_load(*state, &auth, &error));
    assert_non_null(strstr(error.text, "remove the file"));
}

static void a_full_disk_makes_no_half_token(void **state)
{
    struct auth auth;
    struct error error = {""};
    char path[TEST_PATH_BYTES];
    for (uint64_t nth = 1; nth <= 5; nth++) {
        io_fail_at(nth, ENOSPC);
        bool made = auth_load(*state, &auth, &error);
        io_fail_at(0, 0);
        if (made) continue;
        assert_true(access(test_dir_path(*state, "token", path), F_OK) != 0 ||
                    auth_load(*state, &auth, NULL));
    }
    assert_true(auth_load(*state, &auth, NULL));
}

static void roles_come_from_the_header(void **state)
{
    struct auth auth;
    char header[256];
    assert_true(auth_load(*state, &auth, NULL));
    (void)snprintf(header, sizeof header, "Bearer %s", auth.person);
    assert_int_equal(auth_role_of(&auth, header), AUTH_PERSON);
    (void)snprintf(header, sizeof header, "bearer  %s", auth.agent);
    assert_int_equal(auth_role_of(&auth, header), AUTH_AGENT);
    (void)snprintf(header, sizeof header, "Bearer %sx", auth.person);
    assert_int_equal(auth_role_of(&auth, header), AUTH_NOBODY);
    (void)snprintf(header, sizeof header, "Bearer %.63s", auth.person);
    assert_int_equal(auth_role_of(&auth, header), AUTH_NOBODY);
    (void)snprintf(header, sizeof header, "Basic %s", auth.person);
    assert_int_equal(auth_role_of(&auth, header), AUTH_NOBODY);
    header[0] = '\0';
    assert_int_equal(auth_role_of(&auth, header), AUTH_NOBODY);
    assert_int_equal(auth_role_of(&auth, NULL), AUTH_NOBODY);
}

static void one_digit_off_is_nobody(void **state)
{
    struct auth auth;
    char header[256];
    assert_true(auth_load(*state, &auth, NULL));
    for (int i = 0; i < AUTH_TOKEN_DIGITS; i++) {
        int at = snprintf(header, sizeof header, "Bearer %s", auth.person) - AUTH_TOKEN_DIGITS + i;
        header[at] = header[at] == 'a' ? 'b' : 'a';
        assert_int_equal(auth_role_of(&auth, header), AUTH_NOBODY);
    }
}

static void a_second_server_hears_who_is_first(void **state)
{
    struct error error = {""};
    int fd = lock_take(*state, NULL);
    assert_true(fd >= 0);
    assert_int_equal(lock_take(*state, &error), -1);
    assert_non_null(strstr(error.text, "starting or stopping"));
    assert_true(lock_write_server(*state, "http://127.0.0.1:7070", NULL));
    assert_int_equal(lock_take(*state, &error), -1);
    assert_non_null(strstr(error.text, "http://127.0.0.1:7070"));
    lock_release(fd);
    fd = lock_take(*state, &error);
    assert_true(fd >= 0);
    lock_release(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(tokens_are_made_once_and_private),   TEST(a_token_that_others_read_is_refused),
        TEST(a_broken_token_file_is_refused),     TEST(a_full_disk_makes_no_half_token),
        TEST(roles_come_from_the_header),         TEST(one_digit_off_is_nobody),
        TEST(a_second_server_hears_who_is_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
