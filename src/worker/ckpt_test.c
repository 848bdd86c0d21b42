/* Checkpoints through the real library, standalone: whatever write, fsync, rename or allocation
 * fails, the newest checkpoint stays readable and training ends with the right weights. */
#include "base/io.h"
#include "base/mem.h"
#include "shoal.h"
#include "worker/ckpt_main.h"
#include "worker/ckpt_store.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { COUNT = 1000, SLOTS = 4 };

struct model {
    float weights[COUNT], momentum[COUNT];
    struct shoal_tensor params[2], state[1];
    struct shoal_options options;
};

static char folder[64];

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

/* Trains to the end. Returns the status; -1: join refused. */
static int train(struct model *model)
{
    char error[512];
    struct shoal_work work;
    struct shoal *job = shoal_join(&model->options, error, sizeof error);
    if (job == NULL) return -1;
    while (shoal_next(job, &work)) {
        for (int i = 0; i < COUNT; i++) {
            float *momentum = &model->momentum[i];
            if (work.kind == SHOAL_COMPUTE) {
                uint64_t bits = shoal_random(1, work.step, work.slot, (uint64_t)i);
                work.gradient[i] = (float)(bits >> 40) * 0x1p-24f + model->weights[i] * 0.1f;
                continue;
            }
            *momentum = 0.9f * *momentum + work.gradient[i];
            model->weights[i] -= 0.01f * *momentum;
        }
        if (work.kind == SHOAL_COMPUTE) shoal_submit(job, 1);
    }
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
    bool loaded = ckpt_load(folder, &job, state, ret_step, &error) == CKPT_LOADED;
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
    assert_true(ckpt_list(folder, &listing, NULL));
    assert_int_equal(listing.count, CKPT_KEEP);
    assert_int_equal(listing.step[0], 9);
    ckpt_listing_free(&listing);
}

static void damage(uint64_t step, bool truncate_it)
{
    struct ckpt_manifest manifest;
    char path[CKPT_PATH_BYTES];
    assert_true(ckpt_read_manifest(folder, step, &manifest, NULL));
    assert_true(ckpt_step_path(folder, step, manifest.file[0].name, path, NULL));
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

static void another_model_is_refused(void **state)
{
    (void)state;
    static struct model model;
    empty_folder();
    model_init(&model, 4, folder);
    assert_int_equal(train(&model), 0);
    model_init(&model, 4, folder);
    model.params[0].name = "other";
    assert_int_equal(train(&model), 1);
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
    assert_true(ckpt_read_manifest(folder, 4, &manifest, NULL));
    assert_true(ckpt_hash(folder, &manifest, text, NULL));
    assert_string_equal(text, expected);
    ckpt_manifest_free(&manifest);
    job_free(&job);
}

/* Cuts a job into every number of shards and checks that manifest and shards cover it exactly. */
static void shares_cover_for_any_count(void **state)
{
    (void)state;
    static struct model model;
    struct job job;
    model_init(&model, 1, NULL);
    assert_true(job_init(&job, &model.options, NULL));
    for (uint32_t count = 1; count <= 64; count++) {
        struct ckpt_manifest manifest, again;
        char *text;
        size_t bytes;
        assert_true(ckpt_manifest_of(&manifest, &job, count, 1, NULL));
        for (uint32_t i = 0; i < count; i++)
            snprintf(manifest.file[i].name, sizeof manifest.file[i].name, "shard-%u", i);
        assert_true(ckpt_manifest_format(&manifest, &text, &bytes, NULL));
        assert_true(ckpt_manifest_parse(text, bytes, &again, NULL)); /* checks exact cover */
        assert_int_equal(again.tensor_count, 4);
        mem_free(text);
        ckpt_manifest_free(&manifest);
        ckpt_manifest_free(&again);
    }
    job_free(&job);
}

int main(void)
{
    snprintf(folder, sizeof folder, "ckpt-test-%ld", (long)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resume_gives_the_same_bits),
        cmocka_unit_test(damaged_checkpoints_are_passed_over),
        cmocka_unit_test(another_model_is_refused),
        cmocka_unit_test(every_io_failure_leaves_the_older_checkpoint),
        cmocka_unit_test(every_allocation_failure_is_survived),
        cmocka_unit_test(hash_is_free_of_shards),
        cmocka_unit_test(shares_cover_for_any_count),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    empty_folder();
    return failed;
}
