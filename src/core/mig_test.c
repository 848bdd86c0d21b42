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
                          .instances = {{.profile = ONE, .start = 0},
                                        {.profile = ONE, .start = 1},
                                        {.profile = ONE, .start = 5, .movable = true, .cost = 1}}};
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

/* Least cost, by trying every new place of every instance, and other GPUs for one of them. */
static uint64_t least_by_search(const struct mig_gpu *gpu, uint32_t i, uint32_t used, bool left)
{
    if (i == gpu->count) return 0;
    const struct mig_instance *own = &gpu->instances[i];
    uint64_t least = UINT32_MAX;
    for (uint32_t start = 0; start < 8; start++) {
        uint32_t mask = mask_of(&mig_seven, own->profile, start);
        bool stays = start == own->start;
        if ((mig_seven.profiles[own->profile].starts >> start & 1) == 0 || (used & mask) != 0)
            continue;
        if (!stays && !own->movable) continue;
        uint64_t cost = least_by_search(gpu, i + 1, used | mask, left) + (stays ? 0 : own->cost);
        if (cost < least) least = cost;
    }
    if (!own->movable || !own->leaves || left) return least;
    uint64_t cost = least_by_search(gpu, i + 1, used, true) + own->cost;
    return cost < least ? cost : least;
}

static struct mig_gpu random_gpu(uint64_t *random, uint32_t *ret_used)
{
    struct mig_gpu gpu = {0};
    *ret_used = 0;
    for (uint32_t tries = 0; tries < 5; tries++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        uint32_t profile = (uint32_t)(*random >> 40) % 4, start = (uint32_t)(*random >> 50) % 8;
        uint32_t mask = mask_of(&mig_seven, profile, start);
        if ((mig_seven.profiles[profile].starts >> start & 1) == 0 || (*ret_used & mask) != 0)
            continue;
        *ret_used |= mask;
        gpu.instances[gpu.count++] = (struct mig_instance){.profile = (uint8_t)profile,
                                                           .start = (uint8_t)start,
                                                           .movable = *random >> 62 != 0,
                                                           .leaves = (*random >> 58 & 3) == 0,
                                                           .cost = 1 + (*random >> 30) % 100};
    }
    return gpu;
}

/* Every move of the plan is legal, and with all of them the instance fits. */
static void check_plan(const struct mig_gpu *gpu, const struct mig_plan *plan, uint32_t wanted)
{
    struct mig_gpu after = {0};
    for (uint32_t i = 0; i < gpu->count; i++) {
        struct mig_instance instance = gpu->instances[i];
        bool leaves = false;
        for (uint32_t m = 0; m < plan->move_count; m++) {
            if (plan->moves[m] != i) continue;
            assert_true(instance.movable);
            leaves = plan->to[m] == MIG_SLICES_MAX;
            assert_true(!leaves || instance.leaves);
            instance.start = plan->to[m];
        }
        if (leaves) continue;
        assert_true(mig_seven.profiles[instance.profile].starts >> instance.start & 1);
        assert_int_equal(mig_used(&mig_seven, &after) &
                             mask_of(&mig_seven, instance.profile, instance.start),
                         0);
        after.instances[after.count++] = instance;
    }
    assert_int_equal(mig_used(&mig_seven, &after) & mask_of(&mig_seven, wanted, plan->start), 0);
}

static void repacking_costs_least(void **state)
{
    uint64_t random = 3;
    uint32_t found = 0, left = 0;
    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        uint32_t used, wanted = round % 6;
        uint64_t least = UINT32_MAX;
        struct mig_gpu gpu = random_gpu(&random, &used);
        struct mig_plan plan;
        for (uint32_t start = 0; start < 8; start++) {
            if ((mig_seven.profiles[wanted].starts >> start & 1) == 0) continue;
            uint64_t cost = least_by_search(&gpu, 0, mask_of(&mig_seven, wanted, start), false);
            if (cost < least) least = cost;
        }
        bool ok = mig_repack(&mig_seven, &gpu, wanted, &plan);
        assert_int_equal(ok, least < UINT32_MAX);
        if (!ok) continue;
        assert_int_equal(plan.cost, least);
        check_plan(&gpu, &plan, wanted);
        found += least > 0;
        left += plan.left_count;
    }
    assert_true(found > 100 && left > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d13),
        cmocka_unit_test(counts_are_those_of_the_vendor),
        cmocka_unit_test(every_placement_leaves_the_most),
        cmocka_unit_test(repacking_costs_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
