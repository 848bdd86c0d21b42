/* Checkpoints through the real library, standalone: whatever write, fsync, rename or allocation
 * fails, the newest checkpoint stays readable and training ends with the right weights. */
#include "base/io.h"
#include "base/mem.h"
#include "shoal.h"
#include "worker/ckpt/ckpt_load.h"
#include "worker/ckpt/ckpt_main.h"
#include "worker/ckpt/ckpt_read.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { COUNT = 1000, SLOTS = 4, PATH_BYTES = 256 };

struct model {
    float weights[COUNT], momentum[COUNT];
    struct shoal_tensor params[2], state[1];
    struct shoal_options options;
};

static char folder[64];
static struct store *store; /* of that folder */

static void model_init(struct model *model, uint64_t steps, const char *dir)
{
    *model = (struct model){0};
    for (int i = 0; i < COUNT; i++) model->weights[i] = (float)i * 0.001f;
    model->params[0] = (struct shoal_tensor){"a", model->weights, {300}, 1};
    model->params[1] = (struct shoal_tensor){"b", model->weights + 300, {35, 20}, 2};
    model->state[0] = (struct shoal_tensor){"m", model->momentum, {COUNT}, 1};
    model->options = (struct shoal_options){.params = model->params,
                                            .state = model->state,
                                            .param_count = 2,
                                            .state_count = 1,
                                            .slots = SLOTS,
                                            .steps = steps,
                                            .checkpoint_dir = dir,
                                            .checkpoint_every = 2};
}

static void train_work(struct model *model, struct shoal *job, const struct shoal_work *work)
{
    for (int i = 0; i < COUNT; i++) {
        float *momentum = &model->momentum[i];
        if (work->kind == SHOAL_COMPUTE) {
            uint64_t bits = shoal_random(1, work->step, work->slot, (uint64_t)i);
            work->gradient[i] = (float)(bits >> 40) * 0x1p-24f + model->weights[i] * 0.1f;
            continue;
        }
        *momentum = 0.9f * *momentum + work->gradient[i];
        model->weights[i] -= 0.01f * *momentum;
    }
    if (work->kind == SHOAL_COMPUTE) shoal_submit(job, 1);
}

/* Trains to the end. Returns the status; -1: join refused. */
static int train(struct model *model)
{
    char error[512];
    struct shoal_work work;
    struct shoal *job = shoal_join(&model->options, error, sizeof error);
    if (job == NULL) return -1;
    while (shoal_next(job, &work)) train_work(model, job, &work);
    return shoal_close(job);
}

static void empty_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

static bool newest_loads(uint64_t *ret_step)
{
    struct model model;
    struct job job;
    struct error error;
    model_init(&model, 1, folder);
    assert_true(job_init(&job, &model.options, &error));
    uint8_t *state = mem_zalloc(job.weight_count * 4 + job.layout.block_count * 2, 1);
    bool loaded = ckpt_load(store, &job, state, ret_step, &error) == CKPT_LOADED;
    mem_free(state);
    job_free(&job);
    return loaded;
}

static void resume_gives_the_same_bits(void **state)
{
    (void)state;
    static struct model straight, first, second;
    empty_folder();
    model_init(&straight, 9, NULL);
    assert_int_equal(train(&straight), 0);
    model_init(&first, 5, folder);
    assert_int_equal(train(&first), 0);
    model_init(&second, 9, folder);
    assert_int_equal(train(&second), 0);
    assert_memory_equal(straight.weights, second.weights, sizeof second.weights);
    assert_memory_equal(straight.momentum, second.momentum, sizeof second.momentum);
    struct ckpt_listing listing;
    assert_true(ckpt_list(store, &listing, NULL));
    assert_int_equal(listing.count, CKPT_KEEP + 1); /* and one older */
    assert_int_equal(listing.step[0], 9);
    ckpt_listing_free(&listing);
}

static void damage(uint64_t step, bool truncate_it)
{
    struct ckpt_manifest manifest;
    char path[PATH_BYTES];
    assert_true(ckpt_read_manifest(store, step, &manifest, NULL));
    snprintf(path, sizeof path, "%s/step-%06llu/%s", folder, (unsigned long long)step,
             manifest.file[0].name);
    if (truncate_it)
        assert_int_equal(truncate(path, (off_t)manifest.file[0].bytes - 5), 0);
    else {
        int fd = open(path, O_WRONLY);
        assert_int_equal(pwrite(fd, "x", 1, (off_t)manifest.file[0].bytes - 100), 1);
        close(fd);
    }
    ckpt_manifest_free(&manifest);
}

static void damaged_checkpoints_are_passed_over(void **state)
{
    (void)state;
    for (int truncated = 0; truncated < 2; truncated++) {
        static struct model straight, first, second;
        uint64_t newest, older;
        empty_folder();
        model_init(&straight, 9, NULL);
        assert_int_equal(train(&straight), 0);
        model_init(&first, 5, folder);
        assert_int_equal(train(&first), 0);
        assert_true(newest_loads(&newest));
        assert_int_equal(newest, 5);
        damage(newest, truncated == 1);
        assert_true(newest_loads(&older));
        assert_true(older < newest);
        char *verify[] = {(char *)"ckpt", (char *)"verify", folder, NULL};
        assert_int_equal(ckpt_main(3, verify), 1);
        model_init(&second, 9, folder);
        assert_int_equal(train(&second), 0);
        assert_memory_equal(straight.weights, second.weights, sizeof second.weights);
    }
}

static void vary(struct model *model, int which)
{
    if (which == 0) model->params[0].name = "other";
    if (which == 1) model->options.slots = SLOTS + 1;
    if (which == 2) model->options.samples_per_slot = 2;
    if (which == 3) model->options.identity = 78;
    if (which == 4) model->options.identity = 0;
}

/* Begins anew instead of going on from weights of another run, and leaves that run's checkpoints:
 * newer ones do not count as its own when old ones are removed. */
static void checkpoints_of_another_run_are_left_alone(void **state)
{
    (void)state;
    static struct model model, straight;
    for (int which = 0; which < 5; which++) {
        empty_folder();
        for (uint64_t steps = 21; steps <= 20 + CKPT_KEEP; steps++) {
            model_init(&model, steps, folder);
            model.options.identity = 77;
            model.options.checkpoint_every = SHOAL_CHECKPOINT_NEVER; /* the last one alone */
            assert_int_equal(train(&model), 0);
        }
        model_init(&straight, 9, NULL);
        vary(&straight, which);
        assert_int_equal(train(&straight), 0);
        model_init(&model, 9, folder);
        model.options.identity = 77;
        vary(&model, which);
        assert_int_equal(train(&model), 0);
        assert_memory_equal(model.weights, straight.weights, sizeof model.weights);
        struct ckpt_listing after;
        assert_true(ckpt_list(store, &after, NULL));
        assert_in_range(after.count, CKPT_KEEP + 1, 2 * CKPT_KEEP + 1);
        assert_int_equal(after.step[0], 20 + CKPT_KEEP);
        assert_int_equal(after.step[CKPT_KEEP - 1], 21);
        assert_int_equal(after.step[CKPT_KEEP], 9);
        ckpt_listing_free(&after);
    }
}

/* With the same identity, other steps are no other run: a program whose schedule looks at them puts
 * them into its identity. */
static void a_run_of_the_same_identity_is_gone_on_from(void **state)
{
    (void)state;
    static struct model model;
    struct job job;
    struct ckpt_manifest manifest;
    struct error why;
    empty_folder();
    model_init(&model, 4, folder);
    model.options.identity = 77;
    assert_int_equal(train(&model), 0);
    assert_true(ckpt_read_manifest(store, 4, &manifest, NULL));
    assert_int_equal(manifest.identity, 77);
    assert_int_equal(manifest.steps, 4);
    model.options.steps = 9;
    assert_true(job_init(&job, &model.options, NULL));
    assert_false(ckpt_is_foreign(&manifest, &job, &why));
    job_free(&job);
    model.options.identity = 78;
    model.options.slots = 8;
    assert_true(job_init(&job, &model.options, NULL));
    assert_true(ckpt_is_foreign(&manifest, &job, &why));
    assert_string_equal(why.text, "slots 4, not 8; steps 4, not 9; identity 000000000000004d, not "
                                  "000000000000004e");
    job_free(&job);
    model.params[1].dims = 1;
    model.options.slots = SLOTS;
    model.options.identity = 77;
    assert_true(job_init(&job, &model.options, NULL));
    assert_true(ckpt_is_foreign(&manifest, &job, &why));
    assert_string_equal(why.text, "another model: tensor 2 is param b [35, 20], not param b [35]");
    job_free(&job);
    ckpt_manifest_free(&manifest);
}

static void another_run_in_the_same_folder_loses_nothing(void **state)
{
    (void)state;
    static struct model first, second;
    struct ckpt_manifest manifest;
    struct ckpt_listing listing;
    empty_folder();
    model_init(&first, 4, folder);
    first.options.identity = 77;
    assert_int_equal(train(&first), 0);
    model_init(&second, 5, folder); /* checkpoints of 2, 4 and, at the end, 5 */
    second.options.identity = 78;
    assert_int_equal(train(&second), 0);
    assert_true(ckpt_list(store, &listing, NULL));
    assert_int_equal(listing.step[0], 5);
    ckpt_listing_free(&listing);
    for (uint64_t step = 2; step <= 4; step += 2) {
        assert_true(ckpt_read_manifest(store, step, &manifest, NULL));
        assert_int_equal(manifest.identity, 77);
        assert_true(ckpt_verify(store, &manifest, 1, NULL));
        ckpt_manifest_free(&manifest);
    }
}

/* Fails the n-th I/O call, for every n of a run. */
static void every_io_failure_leaves_the_older_checkpoint(void **state)
{
    (void)state;
    static struct model model, straight;
    model_init(&straight, 7, NULL);
    assert_int_equal(train(&straight), 0);
    bool reached = true;
    for (uint64_t nth = 1; reached; nth++) {
        uint64_t before, after;
        empty_folder();
        model_init(&model, 3, folder);
        assert_int_equal(train(&model), 0);
        assert_true(newest_loads(&before));
        uint64_t calls = io_calls();
        io_fail_at(nth, ENOSPC);
        model_init(&model, 7, folder);
        assert_int_equal(train(&model), 0);
        reached = io_calls() - calls >= nth;
        io_fail_at(0, 0);
        assert_memory_equal(model.weights, straight.weights, sizeof model.weights);
        assert_true(newest_loads(&after));
        assert_true(after >= before);
    }
}

/* The folder is away for a while, as a shared one can be; later checkpoints go on. */
static void a_store_that_is_gone_for_a_while(void **state)
{
    (void)state;
    static struct model model, straight;
    char error[512], away[80];
    struct shoal_work work;
    uint64_t step;
    empty_folder();
    model_init(&straight, 12, NULL);
    assert_int_equal(train(&straight), 0);
    model_init(&model, 12, folder);
    snprintf(away, sizeof away, "%s-away", folder);
    struct shoal *job = shoal_join(&model.options, error, sizeof error);
    assert_non_null(job);
    while (shoal_next(job, &work)) {
        if (work.kind == SHOAL_APPLY && work.step == 4) {
            while (!newest_loads(&step) || step < 4) (void)usleep(1000); /* nothing under way */
            assert_int_equal(rename(folder, away), 0);
            int fd = open(folder, O_WRONLY | O_CREAT, 0600); /* a file: no folder can be made */
            assert_true(fd >= 0);
            close(fd);
        }
        if (work.kind == SHOAL_APPLY && work.step == 9) {
            assert_int_equal(unlink(folder), 0);
            assert_int_equal(rename(away, folder), 0);
        }
        train_work(&model, job, &work);
    }
    assert_int_equal(shoal_close(job), 0);
    assert_memory_equal(model.weights, straight.weights, sizeof model.weights);
    assert_true(newest_loads(&step));
    assert_int_equal(step, 12);
}

static void every_allocation_failure_is_survived(void **state)
{
    (void)state;
    static struct model model;
    bool reached = true;
    empty_folder();
    model_init(&model, 3, folder);
    assert_int_equal(train(&model), 0);
    for (uint64_t nth = 1; reached; nth++) {
        uint64_t step, calls = mem_calls();
        mem_fail_at(nth);
        model_init(&model, 7, folder);
        (void)train(&model); /* may refuse to start; must not crash or harm what is there */
        reached = mem_calls() - calls >= nth;
        mem_fail_at(0);
        assert_true(newest_loads(&step));
    }
}

/* Any cut of the state into parts reads what loading all of it does; a wrong piece is named; a failing
 * allocation is an error. */
static void parts_make_the_whole(void **state)
{
    (void)state;
    static struct model model;
    struct job job;
    struct error error;
    uint64_t step = 0;
    empty_folder();
    model_init(&model, 4, folder);
    assert_int_equal(train(&model), 0);
    assert_true(job_init(&job, &model.options, NULL));
    uint64_t bytes = job.weight_count * 4 + job.layout.block_count * 2;
    uint8_t *whole = mem_zalloc(bytes, 1), *parts = mem_zalloc(bytes, 1);
    assert_true(ckpt_newest(store, &job, true, &step));
    assert_int_equal(step, 4);
    assert_int_equal(ckpt_load(store, &job, whole, &step, &error), CKPT_LOADED);
    for (uint64_t stripe = 64; stripe < 2 * bytes; stripe *= 3) {
        memset(parts, 0, bytes);
        for (uint64_t at = 0; at < bytes; at += stripe) {
            struct ckpt_part part = {4, at, at + stripe < bytes ? at + stripe : bytes, NULL, 0};
            assert_true(ckpt_load_part(store, &job, &part, parts, &error));
        }
        assert_memory_equal(parts, whole, bytes);
    }
    struct ckpt_part all = {4, 0, bytes, NULL, 0}, none = {3, 0, bytes, NULL, 0};
    bool reached = true;
    for (uint64_t nth = 1; reached; nth++) {
        uint64_t calls = mem_calls();
        mem_fail_at(nth);
        bool read = ckpt_load_part(store, &job, &all, parts, &error);
        reached = mem_calls() - calls >= nth;
        mem_fail_at(0);
        if (!read) assert_true(reached); /* a thread of several may do without */
    }
    assert_false(ckpt_load_part(store, &job, &none, parts, &error));
    damage(4, false);
    assert_false(ckpt_load_part(store, &job, &all, parts, &error));
    assert_non_null(strstr(error.text, "the checksum does not match (damaged)"));
    mem_free(whole);
    mem_free(parts);
    job_free(&job);
}

static void hash_is_free_of_shards(void **state)
{
    (void)state;
    static struct model model;
    struct job job;
    struct ckpt_manifest manifest;
    char expected[65], text[65];
    empty_folder();
    model_init(&model, 4, folder);
    assert_int_equal(train(&model), 0);
    assert_true(job_init(&job, &model.options, NULL));
    job_weights_sha256(&job, expected);
    assert_true(ckpt_read_manifest(store, 4, &manifest, NULL));
    assert_true(ckpt_digest(store, &manifest, false, text, NULL));
    assert_string_equal(text, expected);
    ckpt_manifest_free(&manifest);
    job_free(&job);
}

int main(void)
{
    snprintf(folder, sizeof folder, "ckpt-test-%ld", (long)getpid());
    store = store_open(folder, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resume_gives_the_same_bits),
        cmocka_unit_test(damaged_checkpoints_are_passed_over),
        cmocka_unit_test(checkpoints_of_another_run_are_left_alone),
        cmocka_unit_test(a_run_of_the_same_identity_is_gone_on_from),
        cmocka_unit_test(another_run_in_the_same_folder_loses_nothing),
        cmocka_unit_test(every_io_failure_leaves_the_older_checkpoint),
        cmocka_unit_test(a_store_that_is_gone_for_a_while),
        cmocka_unit_test(every_allocation_failure_is_survived),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(hash_is_free_of_shards),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    empty_folder();
    store_close(store);
    return failed;
}
