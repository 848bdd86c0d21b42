/* The memory of sharded moments: only what is held has pages, what is given back reads as zero. */
#include "base/mem.h"
#include "worker/moments.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { ELEMENTS = 4 << 20, MEMBERS = 8 };

static struct job job;
static float value[1];

static void make_job(void)
{
    const struct shoal_tensor params[] = {{"w", value, {1}, 1}};
    const char *const moments[] = {"exp_avg", "exp_avg_sq"};
    const struct shoal_options options = {.params = params,
                                          .param_count = 1,
                                          .moment_count = 2,
                                          .moment_names = moments,
                                          .slots = 1,
                                          .steps = 1,
                                          .samples_per_slot = 1};
    struct error error;
    if (!job_init(&job, &options, &error)) fail_msg("%s", error.text);
    const uint64_t counts[] = {ELEMENTS, 1}; /* as if w were that large */
    uint64_t blocks = layout_blocks(counts, 2);
    mem_free(job.layout.start);
    job.layout.start = mem_zalloc(blocks + 1, sizeof *job.layout.start);
    assert_non_null(job.layout.start);
    layout_init(&job.layout, counts, 2, job.layout.start, job.layout.tensor_block);
    job.gradient_count = job.tensors[0].element_count = ELEMENTS;
    assert_true(moments_reserve(&job, &error));
}

/* Worker 1 of 8 alike holds 2/8: after all was written, a release leaves just that. */
static void only_what_is_held_has_pages(void **state)
{
    (void)state;
    static struct member m;
    struct shard_member member[MEMBERS];
    struct shard_map none = {.unit_count = shard_unit_count(job.layout.block_count)};
    memset(&m, 0, sizeof m);
    m.config.id = 1;
    m.config.layout = &job.layout;
    m.config.moment_count = 2;
    m.shards.base = (struct member_base){.tag = {1, 1}, .member_count = MEMBERS};
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member[i] = (struct shard_member){i % 2, i, 5};
        m.shards.base.member[i] = i + 1;
    }
    memset(none.owner, SHARD_NONE, sizeof none.owner);
    memset(none.mirror, SHARD_NONE, sizeof none.mirror);
    shard_plan(member, MEMBERS, &none, &m.shards.base.map);
    for (uint32_t i = 0; i < 2; i++)
        for (uint64_t e = 0; e < ELEMENTS; e++) job.moment[i][e] = 1;
    uint64_t all = moments_resident_bytes(&job);
    m.shards.release_due = true;
    m.saves.copying = 1; /* somebody still reads them */
    moments_release(&job, &m);
    assert_int_equal(moments_resident_bytes(&job), all);
    m.saves.copying = 0;
    moments_release(&job, &m);
    uint64_t left = moments_resident_bytes(&job);
    print_message("%llu of %llu bytes left: %.3f, 2/%d are %.3f\n", (unsigned long long)left,
                  (unsigned long long)all, (double)left / (double)all, MEMBERS, 2.0 / MEMBERS);
    assert_in_range(left, all * 24 / 100, all * 27 / 100);
    for (uint32_t b = 0; b < job.layout.block_count - 1; b += 5) {
        float seen = job.moment[1][job.layout.start[b] + 100];
        assert_true(seen == 1 || !member_needs_block(&m, b));
    }
    moments_clear(&job);
    assert_true(job.moment[0][77] == 0);
}

/* Ranges for a shard: all of what a member owns, once, and not the loss. */
static void ranges_cover_what_is_owned(void **state)
{
    (void)state;
    struct shard_map map = {.unit_count = shard_unit_count(job.layout.block_count)};
    struct ckpt_range *range = calloc(moments_ranges_max(&job), sizeof *range);
    assert_non_null(range);
    uint64_t total = 0;
    for (uint32_t u = 0; u < map.unit_count; u++) map.owner[u] = (uint8_t)(u * 7 % 3);
    for (uint32_t m = 0; m < 3; m++) {
        uint32_t used = moments_ranges(&job, &map, m, range);
        for (uint32_t i = 0; i < used; i++) {
            assert_in_range(range[i].tensor, 1, 2);
            assert_true(range[i].first + range[i].count <= ELEMENTS);
            assert_ptr_equal(range[i].bytes, job.moment[range[i].tensor - 1] + range[i].first);
            total += range[i].count;
        }
    }
    assert_int_equal(total, 2 * (uint64_t)ELEMENTS);
    free(range);
}

static void no_address_space_is_a_sentence(void **state)
{
    (void)state;
    struct rlimit before, none;
    struct error error;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    moments_free(&job);
    none = before;
    none.rlim_cur = 1 << 20;
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    bool reserved = moments_reserve(&job, &error);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_false(reserved);
    assert_non_null(strstr(error.text, "no address space for moment exp_avg"));
    moments_free(&job);
    job_free(&job);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    const struct {
        uint32_t count, states;
        const char *names[2], *says;
    } cases[] = {
        {9, 0, {"a", "b"}, "moment_count 9: at most 4"}, {1, 1, {"a"}, "either state or moments"},
        {2, 0, {"a", "a"}, "moment a is given twice"},   {1, 0, {"a/b"}, "without /"},
        {1, 0, {"x"}, "tensor x/w: a name of moment x"},
    };
    const struct shoal_tensor params[] = {{"x/w", value, {1}, 1}};
    const struct shoal_tensor states[] = {{"s", value, {1}, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct shoal_options options = {.params = params,
                                              .param_count = 1,
                                              .state = states,
                                              .state_count = cases[i].states,
                                              .moment_count = cases[i].count,
                                              .moment_names = cases[i].names,
                                              .slots = 1,
                                              .steps = 1};
        struct job other;
        struct error error = {.text = ""};
        assert_false(job_init(&other, &options, &error));
        if (strstr(error.text, cases[i].says) == NULL) fail_msg("said: %s", error.text);
    }
}

int main(void)
{
    make_job();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(only_what_is_held_has_pages),
        cmocka_unit_test(ranges_cover_what_is_owned),
        cmocka_unit_test(no_address_space_is_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
