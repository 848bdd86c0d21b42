/* MIG placement against all arrangements of a GPU. */
#include "core/mig.h"
#include "core/testing.h"

enum { ONE, ONE_LARGE, TWO, THREE, FOUR, SEVEN };

static uint32_t mask_of(const struct mig_geometry *g, uint32_t profile, uint32_t start)
{
    return ((1U << g->profiles[profile].size) - 1) << start;
}

/* 1g at 0, 1 and 5: four slices are free behind each other nowhere that a 3g may lie. */
static void d13(void **state)
{
    (void)state;
    struct mig_gpu gpu = {.count = 3,
                          .instances = {{ONE, 0, false}, {ONE, 1, false}, {ONE, 5, true}}};
    struct mig_plan plan;
    uint32_t used = mig_used(&mig_seven, &gpu);
    assert_int_equal(mig_ask(&mig_seven, used, THREE), MIG_CONFLICT);
    assert_int_equal(mig_place(&mig_seven, used, THREE), MIG_SLICES_MAX);
    assert_true(mig_repack(&mig_seven, &gpu, THREE, &plan));
    assert_int_equal(plan.start, 4);
    assert_int_equal(plan.move_count, 1);
    assert_int_equal(plan.moves[0], 2);
    assert_true(plan.to[0] == 2 || plan.to[0] == 3);
    gpu.instances[2].movable = false;
    assert_false(mig_repack(&mig_seven, &gpu, THREE, &plan));
    /* The third 1g would never have gone to 5. */
    used = 0;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t start = mig_place(&mig_seven, used, ONE);
        used |= mask_of(&mig_seven, ONE, start);
    }
    assert_int_equal(mig_ask(&mig_seven, used, THREE), MIG_FITS);
    assert_int_equal(mig_ask(&mig_seven, 0xff, ONE), MIG_FULL);
}

static void counts_are_those_of_the_vendor(void **state)
{
    static const uint32_t most[] = {7, 4, 3, 2, 1, 1};
    (void)state;
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(mig_most(&mig_seven, 0, i), most[i]);
    assert_int_equal(mig_most(&mig_four, 0, 0), 4);
    assert_int_equal(mig_most(&mig_four, 0, 1), 2);
    assert_int_equal(mig_most(&mig_four, 0, 2), 1);
}

static uint32_t most_by_search(const struct mig_geometry *g, uint32_t used, uint32_t profile)
{
    uint32_t best = 0;
    for (uint32_t start = 0; start < g->slices; start++) {
        uint32_t mask = mask_of(g, profile, start);
        if ((g->profiles[profile].starts >> start & 1) == 0 || (used & mask) != 0) continue;
        uint32_t count = 1 + most_by_search(g, used | mask, profile);
        if (count > best) best = count;
    }
    return best;
}

/* For every set of used slices and every profile: the count, and that no other start leaves more. */
static void every_placement_leaves_the_most(void **state)
{
    (void)state;
    for (uint32_t used = 0; used < 256; used++) {
        for (uint32_t profile = 0; profile < 6; profile++) {
            assert_int_equal(mig_most(&mig_seven, used, profile),
                             most_by_search(&mig_seven, used, profile));
            uint32_t best = 0, start = mig_place(&mig_seven, used, profile), chosen = 0;
            bool any = false;
            for (uint32_t s = 0; s < 8; s++) {
                uint32_t mask = mask_of(&mig_seven, profile, s), left = 0;
                if ((mig_seven.profiles[profile].starts >> s & 1) == 0 || (used & mask) != 0)
                    continue;
                any = true;
                for (uint32_t i = 0; i < 6; i++)
                    left += most_by_search(&mig_seven, used | mask, i) * mig_seven.profiles[i].size;
                if (left > best) best = left;
                if (s == start) chosen = left;
            }
            assert_int_equal(any, start != MIG_SLICES_MAX);
            assert_int_equal(chosen, best);
        }
    }
}

/* Fewest slices moved, by trying every new place of every instance. */
static uint32_t least_by_search(const struct mig_gpu *gpu, uint32_t i, uint32_t used)
{
    if (i == gpu->count) return 0;
    uint32_t least = 100, profile = gpu->instances[i].profile;
    for (uint32_t start = 0; start < 8; start++) {
        uint32_t mask = mask_of(&mig_seven, profile, start);
        bool stays = start == gpu->instances[i].start;
        if ((mig_seven.profiles[profile].starts >> start & 1) == 0 || (used & mask) != 0) continue;
        if (!stays && !gpu->instances[i].movable) continue;
        uint32_t cost = least_by_search(gpu, i + 1, used | mask) +
                        (stays ? 0 : mig_seven.profiles[profile].size);
        if (cost < least) least = cost;
    }
    return least;
}

static void repacking_moves_the_fewest_slices(void **state)
{
    uint64_t random = 3;
    uint32_t found = 0;
    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        struct mig_gpu gpu = {0};
        uint32_t used = 0, wanted = (uint32_t)(round % 6), least = 100;
        for (uint32_t tries = 0; tries < 5; tries++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint32_t profile = (uint32_t)(random >> 40) % 4, start = (uint32_t)(random >> 50) % 8;
            uint32_t mask = mask_of(&mig_seven, profile, start);
            if ((mig_seven.profiles[profile].starts >> start & 1) == 0 || (used & mask) != 0)
                continue;
            used |= mask;
            gpu.instances[gpu.count++] = (struct mig_instance){
                .profile = (uint8_t)profile, .start = (uint8_t)start, .movable = random >> 62 != 0};
        }
        struct mig_plan plan;
        for (uint32_t start = 0; start < 8; start++) {
            if ((mig_seven.profiles[wanted].starts >> start & 1) == 0) continue;
            uint32_t cost = least_by_search(&gpu, 0, mask_of(&mig_seven, wanted, start));
            if (cost < least) least = cost;
        }
        bool ok = mig_repack(&mig_seven, &gpu, wanted, &plan);
        assert_int_equal(ok, least < 100);
        if (ok) assert_int_equal(plan.moved_slices, least);
        found += ok && least > 0;
    }
    assert_true(found > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d13),
        cmocka_unit_test(counts_are_those_of_the_vendor),
        cmocka_unit_test(every_placement_leaves_the_most),
        cmocka_unit_test(repacking_moves_the_fewest_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
