/* Training: the same bytes again, with any number of threads, and after a break; less loss where there is
 * something to win; files of another training and damaged ones. */
#include "base/io.h"
#include "base/mem.h"
#include "whatif/source.h"
#include "whatif/train.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Nodes of `low` are hardly cheaper and live an hour, those of `high` days; a loss costs an hour. */
static const char scenario[] =
    "name: t\n"
    "horizon: 4d\n"
    "offers:\n"
    "  - {name: low, kind: spot, model: A100-40GB, place: aws/east/east-a, stock: 8, on_demand: 4, "
    "price: 1, life: 3h}\n"
    "  - {name: high, kind: spot, model: A100-40GB, place: aws/east/east-b, stock: 8, on_demand: "
    "4, "
    "price: 1.2, life: 400h}\n"
    "jobs:\n"
    "  - {name: gang, devices: 4, work: 24, on_loss: restart, saves_on_notice: false, restart: 5m, "
    "checkpoint_every: 1h, count: 3, every: 3h}\n";

static char folder[] = "/tmp/train_test_XXXXXX";
static char file[128], out[128], state_file[160];

static int set_up(void **state)
{
    struct error error;
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    (void)snprintf(file, sizeof file, "%s/t.yaml", folder);
    (void)snprintf(out, sizeof out, "%s/net.yaml", folder);
    (void)snprintf(state_file, sizeof state_file, "%s.training", out);
    return io_write_file(file, scenario, sizeof scenario - 1, 0644, &error) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(file);
    (void)unlink(out);
    (void)unlink(state_file);
    return rmdir(folder);
}

static void forget(void)
{
    (void)unlink(out);
    (void)unlink(state_file);
}

static int train(uint32_t generations, uint32_t threads, uint32_t last_seed)
{
    struct arguments a = {.files = {file},
                          .file_count = 1,
                          .out = out,
                          .train = true,
                          .generations = generations,
                          .threads = threads,
                          .has_seeds = true,
                          .first_seed = 1,
                          .last_seed = last_seed};
    return train_main(&a);
}

/* What a training wrote, to be freed. */
static char *written(const char *path, size_t *ret_bytes)
{
    char *bytes;
    struct error error;
    if (!io_read_file(path, 1 << 20, &bytes, ret_bytes, &error)) fail_msg("%s", error.text);
    return bytes;
}

static void expect_same(const char *path, const char *bytes, size_t count)
{
    size_t now;
    char *again = written(path, &now);
    assert_int_equal(now, count);
    assert_memory_equal(again, bytes, count);
    mem_free(again);
}

static void the_same_training_gives_the_same_bytes(void **state)
{
    (void)state;
    size_t net_bytes, state_bytes;
    forget();
    assert_int_equal(train(3, 1, 2), 0);
    char *net = written(out, &net_bytes), *unbroken = written(state_file, &state_bytes);
    forget();
    assert_int_equal(train(3, 2, 2), 0); /* two threads */
    expect_same(out, net, net_bytes);
    expect_same(state_file, unbroken, state_bytes);
    forget();
    assert_int_equal(train(1, 2, 2), 0); /* broken off, and on */
    assert_int_equal(train(3, 1, 2), 0);
    expect_same(out, net, net_bytes);
    expect_same(state_file, unbroken, state_bytes);
    assert_int_equal(train(3, 1, 2), 0); /* done already */
    expect_same(out, net, net_bytes);
    mem_free(net);
    mem_free(unbroken);
}

static void a_state_of_another_training_or_a_damaged_one_is_refused(void **state)
{
    (void)state;
    size_t bytes;
    struct error error;
    forget();
    assert_int_equal(train(1, 1, 1), 0);
    assert_int_equal(train(2, 1, 2), 1); /* other seeds */
    char *good = written(state_file, &bytes);
    struct train_state read;
    bool found;
    for (size_t at = 0; at < bytes; at += 97) {
        good[at] ^= 4;
        assert_true(io_write_file(state_file, good, bytes, 0644, &error));
        assert_false(train_state_read(state_file, 1, &read, &found, &error));
        assert_non_null(strstr(error.text, "remove it"));
        good[at] ^= 4;
    }
    assert_true(io_write_file(state_file, good, bytes - 1, 0644, &error));
    assert_false(train_state_read(state_file, 1, &read, &found, &error));
    mem_free(good);
}

static void nothing_is_written_where_writing_fails(void **state)
{
    (void)state;
    forget();
    io_fail_at(1, 28);
    assert_int_equal(train(1, 1, 1), 1);
    io_fail_at(0, 0);
    assert_int_equal(access(state_file, F_OK), -1);
}

/* Dollars of the rule-based pool and of the learned one, in worlds of other seeds. */
static double cost(const char *policy, const struct rank_net *net)
{
    struct error error;
    struct source source = {0};
    struct scene_case c;
    double sum = 0;
    struct scene *scene = scene_new();
    assert_non_null(scene);
    if (!source_read(&source, file, NULL, 0, scene, &error)) fail_msg("%s", error.text);
    assert_true(scene_case_of_policy(scene, policy, &c));
    c.net = net;
    for (uint64_t seed = 101; seed <= 116; seed++) {
        struct outcome outcome;
        assert_true(world_run(scene, &c, seed, NULL, &outcome));
        assert_true(outcome.values[0][MEASURE_UNFINISHED] == 0);
        sum += outcome.values[0][MEASURE_COST];
    }
    scene_close(scene);
    source_free(&source);
    return sum;
}

/* What a loss costs a gang is more than the built-in surcharge knows. */
static void what_there_is_to_win_is_found(void **state)
{
    (void)state;
    size_t bytes;
    struct rank_net net;
    struct error error;
    forget();
    assert_int_equal(train(8, 2, 4), 0);
    char *text = written(out, &bytes);
    if (!rank_net_parse(out, text, bytes, &net, &error)) fail_msg("%s", error.text);
    mem_free(text);
    double before = cost("shoal", NULL), after = cost("learned", &net);
    print_message("%.2f dollars by rule, %.2f learned\n", before, after);
    assert_true(after < 0.9 * before);
}

/* Where all losses are the same no end of any direction is better: the weights stay. */
static void a_step_follows_the_order_of_the_losses(void **state)
{
    (void)state;
    struct train_state begun, stepped;
    double losses[TRAIN_CANDIDATES] = {0};
    int8_t ahead[RANK_WEIGHTS], now[RANK_WEIGHTS], first[RANK_WEIGHTS];
    train_begin(&begun);
    stepped = begun;
    train_step(&stepped, losses);
    assert_memory_equal(stepped.weights, begun.weights, sizeof begun.weights);
    for (uint32_t k = 0; k < TRAIN_CANDIDATES; k++) losses[k] = k == 0 ? 0 : k == 1 ? 2 : 1;
    stepped = begun;
    train_candidate(&begun, 0, ahead);
    train_step(&stepped, losses);
    train_round(begun.weights, first);
    train_round(stepped.weights, now);
    int32_t along = 0;
    for (uint32_t i = 0; i < RANK_WEIGHTS; i++)
        along += (ahead[i] - first[i]) * (now[i] - first[i]);
    assert_true(along > 0);
    assert_true(stepped.best_loss == 1 && stepped.generation == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_follows_the_order_of_the_losses),
        cmocka_unit_test(the_same_training_gives_the_same_bytes),
        cmocka_unit_test(a_state_of_another_training_or_a_damaged_one_is_refused),
        cmocka_unit_test(nothing_is_written_where_writing_fails),
        cmocka_unit_test(what_there_is_to_win_is_found),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
