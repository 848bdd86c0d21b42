/* Slots follow speed: the leader's policy and the members' measuring together, step by step. */
#include "worker/core/slots.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS_MAX = 8, SLOTS_MAX = 512 };

struct group {
    uint32_t members, slots;
    double slot_us[MEMBERS_MAX]; /* true ones */
    struct slot_speed speed[MEMBERS_MAX];
    uint32_t told_us[MEMBERS_MAX], gain_steps, moves;
    uint8_t owner[SLOTS_MAX];
    bool dealt;
    uint64_t random;
    double noise; /* of each slot, relative, either way */
};

static double draw(struct group *g) /* -1 .. 1 */
{
    g->random = g->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(g->random >> 33) * 0x1p-30 - 1;
}

static void deal(struct group *g)
{
    uint8_t fresh[SLOTS_MAX];
    slots_assign(fresh, g->slots, g->told_us, g->members);
    if (g->dealt &&
        !slots_should_move(slots_gain_ppm(fresh, g->owner, g->slots, g->told_us, g->members),
                           &g->gain_steps))
        return;
    if (g->dealt) g->moves++;
    g->dealt = true;
    memcpy(g->owner, fresh, g->slots);
}

static uint32_t count(const struct group *g, uint32_t member)
{
    uint32_t slots = 0;
    for (uint32_t s = 0; s < g->slots; s++) slots += g->owner[s] == member;
    return slots;
}

/* One step; returns its throughput as a share of the sum of the members' speeds. */
static double step(struct group *g, uint32_t odd_member)
{
    double longest_us = 0, speeds = 0;
    deal(g);
    for (uint32_t i = 0; i < g->members; i++) {
        double busy_us = 0;
        for (uint32_t k = count(g, i); k > 0; k--) {
            double us = g->slot_us[i] * (1 + g->noise * draw(g)) * (i == odd_member ? 8 : 1);
            slot_speed_add(&g->speed[i], (uint64_t)us);
            busy_us += us;
        }
        g->told_us[i] = slot_speed_end_step(&g->speed[i]);
        if (busy_us > longest_us) longest_us = busy_us;
        speeds += 1 / g->slot_us[i];
    }
    return g->slots / longest_us / speeds;
}

enum { NOBODY = MEMBERS_MAX };

static void three_to_one_is_48_to_16_within_three_steps(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct group g = {
            .members = 2, .slots = 64, .slot_us = {10000, 30000}, .random = seed, .noise = 0.02};
        for (int i = 0; i < 3; i++) (void)step(&g, NOBODY);
        assert_int_equal(count(&g, 0), 48);
        assert_int_equal(count(&g, 1), 16);
        for (int i = 0; i < 50; i++) (void)step(&g, NOBODY);
        assert_int_equal(g.moves, 1); /* and there they stay */
    }
}

/* From the third step after a change on, at least 95 % of what the workers could do together. */
static void throughput_follows_a_slowdown(void **state)
{
    (void)state;
    double worst = 1;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct group g = {.members = 2 + (uint32_t)(seed % 3), .random = seed, .noise = 0.02};
        g.slots = g.members * 64;
        for (uint32_t i = 0; i < g.members; i++) g.slot_us[i] = 20000 + 12000 * draw(&g);
        for (int i = 0; i < 10; i++) (void)step(&g, NOBODY);
        g.slot_us[seed % g.members] *= 3 + 2 * draw(&g);
        for (int i = 0; i < 3; i++) (void)step(&g, NOBODY);
        double sum = 0; /* mean over ten steps: one alone is mostly the noise of its slots */
        for (int i = 0; i < 10; i++) sum += step(&g, NOBODY) / 10;
        if (sum < worst) worst = sum;
    }
    print_message("worst throughput after a slowdown: %.1f %% of the sum of speeds\n", worst * 100);
    assert_true(worst >= 0.95);
}

static void one_odd_step_moves_nothing(void **state)
{
    (void)state;
    struct group g = {
        .members = 3, .slots = 96, .slot_us = {9000, 14000, 22000}, .random = 1, .noise = 0.02};
    for (int i = 0; i < 20; i++) (void)step(&g, NOBODY);
    uint32_t moves = g.moves;
    for (int i = 0; i < 60; i++) (void)step(&g, i % 20 == 7 ? (uint32_t)i % 3 : NOBODY);
    assert_int_equal(g.moves, moves);
}

/* A member too slow for a slot is tried again, and gets its share when it is fast again. */
static void a_member_without_slots_is_tried_again(void **state)
{
    (void)state;
    struct group g = {.members = 2, .slots = 8, .slot_us = {1000, 1000}, .random = 1};
    for (int i = 0; i < 3; i++) (void)step(&g, NOBODY);
    g.slot_us[1] = 100000;
    for (int i = 0; i < 4; i++) (void)step(&g, NOBODY);
    assert_int_equal(count(&g, 1), 0);
    g.slot_us[1] = 1000;
    for (int i = 0; i < 60; i++) (void)step(&g, NOBODY);
    assert_int_equal(count(&g, 1), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_to_one_is_48_to_16_within_three_steps),
        cmocka_unit_test(throughput_follows_a_slowdown),
        cmocka_unit_test(one_odd_step_moves_nothing),
        cmocka_unit_test(a_member_without_slots_is_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
