/* Plans over thousands of random memberships: sequences of joins, leaves with and without notice,
 * zones that go dark, memories from 1 to 16.
 *
 * Properties  Every unit has an owner; owner and mirror differ; domains differ where two are there;
 *             copies held are within the slack of the targets; roles are halved within
 *             SHARD_ROLE_SLACK; every move has a source that holds the unit. Copies moved are at
 *             most 1.1 x the least that these shares allow: in every plan where members are their
 *             own domains, in sum and in nearly all plans where zones forbid some moves. And in
 *             every plan of up to four members at most 1.1 x what their zones leave possible.
 * Reproduce   worker_shard_test SEED
 */
#include "base/splitmix.h"
#include "worker/core/shard.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct crowd {
    uint64_t random;
    uint32_t count, unit_count;
    uint64_t id[GROUP_MEMBERS_MAX], next_id;
    struct shard_member member[GROUP_MEMBERS_MAX];
    struct shard_map map; /* over id[] */
};

static uint64_t first_seed = 1, seed_count = 20;

static uint32_t below(struct crowd *c, uint32_t end)
{
    return (uint32_t)(splitmix_next(&c->random) % end);
}

static struct shard_member somebody(struct crowd *c, uint32_t zones, bool alike)
{
    uint32_t zone = below(c, zones);
    return (struct shard_member){.zone = zone,
                                 .host = zones == 1 ? 0 : zone * 100 + below(c, 5),
                                 .memory = alike ? 8 : (1 + below(c, 16)) * UINT64_C(1000000000)};
}

struct tally {
    uint64_t plans, moved, least, runs_max, role_off_max, over_plans, over_free;
    double worst;
};

static bool apart(const struct crowd *c, uint32_t a, uint32_t b, bool zones, bool hosts)
{
    if (zones) return c->member[a].zone != c->member[b].zone;
    if (hosts) return c->member[a].host != c->member[b].host;
    return a != b;
}

static void check_roles(const struct crowd *c, const uint32_t *target, struct tally *tally)
{
    uint32_t own[GROUP_MEMBERS_MAX] = {0}, hold[GROUP_MEMBERS_MAX] = {0};
    for (uint32_t u = 0; u < c->unit_count; u++) {
        own[c->map.owner[u]]++, hold[c->map.owner[u]]++;
        if (c->map.mirror[u] != SHARD_NONE) hold[c->map.mirror[u]]++;
    }
    bool alone = c->map.mirror[0] == SHARD_NONE;
    for (uint32_t i = 0; i < c->count; i++) {
        int64_t over = (int64_t)hold[i] - target[i];
        assert_in_range(over < 0 ? -over : over, 0, target[i] / SHARD_SLACK_PART + 1);
        int64_t off = alone ? 0 : 2 * (int64_t)own[i] - hold[i];
        if (off < 0) off = -off;
        if ((uint64_t)off > 2 * tally->role_off_max) tally->role_off_max = (uint64_t)(off + 1) / 2;
    }
}

static void check_map(const struct crowd *c, struct tally *tally)
{
    bool zones = false, hosts = false;
    uint32_t willing = 0, runs = 1;
    const struct shard_member *first = NULL;
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->member[i].memory == 0) continue;
        if (first == NULL) first = &c->member[i];
        zones = zones || c->member[i].zone != first->zone;
        hosts = hosts || c->member[i].host != first->host;
        willing++;
    }
    assert_true(shard_map_is_sound(&c->map, c->count));
    for (uint32_t u = 0; u < c->unit_count; u++) {
        uint8_t a = c->map.owner[u], b = c->map.mirror[u];
        if (u > 0) runs += a != c->map.owner[u - 1] || b != c->map.mirror[u - 1];
        if (willing == 1) assert_int_equal(b, SHARD_NONE);
        if (willing > 1) assert_true(b != SHARD_NONE && apart(c, a, b, zones, hosts));
    }
    if (runs > tally->runs_max) tally->runs_max = runs;
}

static bool has_domains(const struct crowd *c)
{
    for (uint32_t i = 1; i < c->count; i++)
        if (c->member[i].zone != c->member[0].zone || c->member[i].host != c->member[0].host)
            return true;
    return false;
}

static void check_moves(const struct crowd *c, const struct shard_map *held, const uint32_t *target,
                        struct tally *tally)
{
    static struct shard_moves moves;
    shard_moves(held, &c->map, c->count, &moves);
    uint32_t hold[256] = {0};
    (void)target;
    for (uint32_t u = 0; u < c->unit_count; u++) hold[c->map.owner[u]]++, hold[c->map.mirror[u]]++;
    uint32_t least = shard_least_moves(held, hold, c->count);
    for (uint32_t u = 0; u < c->unit_count; u++) {
        for (int side = 0; side < 2; side++) {
            uint8_t to = side == 0 ? c->map.owner[u] : c->map.mirror[u];
            uint8_t from = side == 0 ? moves.to_owner[u] : moves.to_mirror[u];
            bool has = to == SHARD_NONE || held->owner[u] == to || held->mirror[u] == to;
            bool none = held->owner[u] == SHARD_NONE && held->mirror[u] == SHARD_NONE;
            assert_int_equal(from == SHARD_NONE, has || none);
            if (from != SHARD_NONE) assert_true(held->owner[u] == from || held->mirror[u] == from);
        }
    }
    tally->plans++;
    tally->moved += moves.moved_units;
    tally->least += least;
    double ratio = least == 0 ? moves.moved_units == 0 ? 1 : 99 : (double)moves.moved_units / least;
    if (ratio > tally->worst) tally->worst = ratio;
    tally->over_plans += ratio > 1.1;
    tally->over_free += ratio > 1.1 && !has_domains(c);
}

/* What a leaver still held after a cut, it could never go. */
static void check_leavers(const struct crowd *c)
{
    bool stayers = false;
    for (uint32_t i = 0; i < c->count; i++) stayers = stayers || c->member[i].memory > 0;
    for (uint32_t u = 0; u < c->unit_count && stayers; u++) {
        assert_true(c->member[c->map.owner[u]].memory > 0);
        if (c->map.mirror[u] != SHARD_NONE) assert_true(c->member[c->map.mirror[u]].memory > 0);
    }
}

/* Plans for who is there now; old_*: who was there when c->map was made. */
static void replan(struct crowd *c, const uint64_t *old_id, uint32_t old_count, struct tally *tally)
{
    static struct shard_map held;
    uint32_t target[GROUP_MEMBERS_MAX];
    shard_translate(&c->map, old_id, old_count, c->id, c->count, &held);
    if (shard_lost_units(&held) > 0) { /* the group starts over from a checkpoint */
        memset(held.owner, SHARD_NONE, sizeof held.owner);
        memset(held.mirror, SHARD_NONE, sizeof held.mirror);
    }
    shard_plan(c->member, c->count, &held, &c->map);
    shard_targets(c->member, c->count, c->unit_count, target);
    check_map(c, tally);
    check_leavers(c);
    check_roles(c, target, tally);
    bool fresh = shard_lost_units(&held) > 0;
    if (!fresh) check_moves(c, &held, target, tally);
}

static void remove_member(struct crowd *c, uint32_t at)
{
    for (uint32_t i = at + 1; i < c->count; i++)
        c->id[i - 1] = c->id[i], c->member[i - 1] = c->member[i];
    c->count--;
}

static void remove_leavers(struct crowd *c)
{
    for (uint32_t i = c->count; i-- > 0;)
        if (c->member[i].memory == 0) remove_member(c, i);
}

static void change(struct crowd *c, uint32_t zones, bool alike)
{
    uint32_t what = below(c, 10), victim = below(c, c->count), zone = below(c, zones);
    remove_leavers(c);
    if (what < 4 || c->count == 1) {
        for (uint32_t n = 1 + below(c, 3); n > 0 && c->count < GROUP_MEMBERS_MAX; n--) {
            c->id[c->count] = c->next_id++;
            c->member[c->count++] = somebody(c, zones, alike);
        }
    } else if (what < 7) {
        remove_member(c, victim % c->count);
    } else if (what < 9) {
        c->member[victim % c->count].memory = 0; /* notice: a source in this plan, gone after */
    } else {
        for (uint32_t i = c->count; i-- > 0 && c->count > 1;)
            if (c->member[i].zone == zone) remove_member(c, i);
    }
}

static void run(uint64_t seed, struct tally *tally)
{
    static struct crowd c;
    memset(&c, 0, sizeof c);
    c.random = seed;
    c.unit_count = c.map.unit_count = below(&c, 3) == 0 ? 1 + below(&c, 300) : SHARD_UNITS_MAX;
    if (seed % 4 == 0) c.unit_count = c.map.unit_count = 1 + (uint32_t)seed % 9;
    memset(c.map.owner, SHARD_NONE, sizeof c.map.owner);
    memset(c.map.mirror, SHARD_NONE, sizeof c.map.mirror);
    uint32_t zones = 1 + below(&c, 5), start = 1 + below(&c, below(&c, 2) == 0 ? 6 : 64);
    bool alike = below(&c, 2) == 0;
    for (c.next_id = 1; c.count < start; c.count++) {
        c.id[c.count] = c.next_id++;
        c.member[c.count] = somebody(&c, zones, alike);
    }
    replan(&c, NULL, 0, tally);
    for (int i = 0; i < 30; i++) {
        uint64_t old[GROUP_MEMBERS_MAX];
        uint32_t old_count = c.count;
        memcpy(old, c.id, sizeof old);
        change(&c, zones, alike);
        replan(&c, old, old_count, tally);
    }
}

static void plans_move_little_and_cover_all(void **state)
{
    (void)state;
    struct tally tally = {0};
    for (uint64_t seed = first_seed; seed < first_seed + seed_count; seed++) run(seed, &tally);
    print_message("%llu plans: %llu copies moved, least %llu (x %.4f); worst plan x %.3f, %llu "
                  "above 1.1; at most %llu runs, roles off by %llu\n",
                  (unsigned long long)tally.plans, (unsigned long long)tally.moved,
                  (unsigned long long)tally.least,
                  tally.least == 0 ? 1 : (double)tally.moved / (double)tally.least, tally.worst,
                  (unsigned long long)tally.over_plans, (unsigned long long)tally.runs_max,
                  (unsigned long long)tally.role_off_max);
    assert_int_equal(tally.over_free, 0);
    assert_true(20 * tally.over_plans < tally.plans);
    assert_true((double)tally.moved < 1.02 * (double)tally.least);
    assert_true(tally.role_off_max <= SHARD_ROLE_SLACK);
}

/* ---- the least that domains allow, by trying all ---- */

enum {
    FEW = 4,
    FEW_UNITS = 32,
    LEFT_END = FEW_UNITS + 1,
    STATES_MAX = LEFT_END * LEFT_END * LEFT_END
};

/* Copies that must travel until each member of a small crowd holds `hold` units, two holders a unit, apart.
 * A state is what is left to the first three; what is left to the fourth follows. */
static uint32_t least_apart(const struct crowd *c, const struct shard_map *held,
                            const uint32_t *hold)
{
    static uint16_t best[2][STATES_MAX];
    bool zones = false, hosts = false;
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t k = 0; k < i; k++) {
            if (c->member[i].memory == 0 || c->member[k].memory == 0) continue;
            zones = zones || c->member[i].zone != c->member[k].zone;
            hosts = hosts || c->member[i].host != c->member[k].host;
        }
    uint32_t step[FEW] = {1, LEFT_END, LEFT_END * LEFT_END, 0}, at = 0;
    for (uint32_t i = 0; i < 3; i++) at += step[i] * (i < c->count ? hold[i] : 0);
    memset(best, 0xff, sizeof best);
    best[0][at] = 0;
    for (uint32_t u = 0; u < c->unit_count; u++) {
        uint16_t *now = best[u % 2], *next = best[(u + 1) % 2];
        memset(next, 0xff, sizeof best[0]);
        for (uint32_t state = 0; state < STATES_MAX; state++) {
            if (now[state] == UINT16_MAX) continue;
            uint32_t left[FEW] = {state % LEFT_END, state / LEFT_END % LEFT_END,
                                  state / (LEFT_END * LEFT_END), 0};
            left[3] = 2 * (c->unit_count - u) - left[0] - left[1] - left[2];
            for (uint32_t a = 1; a < c->count; a++)
                for (uint32_t b = 0; b < a; b++) {
                    if (left[a] == 0 || left[b] == 0 || !apart(c, a, b, zones, hosts)) continue;
                    uint32_t cost = now[state];
                    cost += held->owner[u] != a && held->mirror[u] != a;
                    cost += held->owner[u] != b && held->mirror[u] != b;
                    uint16_t *there = &next[state - step[a] - step[b]];
                    if (cost < *there) *there = (uint16_t)cost;
                }
        }
    }
    return best[c->unit_count % 2][0];
}

struct few {
    uint64_t plans, moved, least, dearer;
    double worst;
};

static void compare_few(const struct crowd *c, const struct shard_map *held, struct few *few)
{
    static struct shard_moves moves;
    uint32_t hold[FEW] = {0};
    if (c->map.mirror[0] == SHARD_NONE || shard_lost_units(held) > 0) return;
    shard_moves(held, &c->map, c->count, &moves);
    for (uint32_t u = 0; u < c->unit_count; u++) hold[c->map.owner[u]]++, hold[c->map.mirror[u]]++;
    uint32_t least = least_apart(c, held, hold);
    assert_true(least <= moves.moved_units);
    few->plans++;
    few->moved += moves.moved_units;
    few->least += least;
    few->dearer += moves.moved_units * 10 > least * 11;
    double ratio = least == 0 ? 1 : (double)moves.moved_units / least;
    if (ratio > few->worst) few->worst = ratio;
}

static void run_few(uint64_t seed, struct few *few)
{
    static struct crowd c;
    static struct shard_map held;
    memset(&c, 0, sizeof c);
    memset(c.map.owner, SHARD_NONE, sizeof c.map.owner);
    memset(c.map.mirror, SHARD_NONE, sizeof c.map.mirror);
    c.random = seed;
    c.unit_count = c.map.unit_count = FEW_UNITS - below(&c, FEW_UNITS * 3 / 4);
    for (c.count = 0; c.count < FEW - 1; c.count++) {
        c.id[c.count] = c.next_id++;
        c.member[c.count] = somebody(&c, /* zones */ 3, /* alike */ false);
    }
    held = c.map;
    shard_plan(c.member, c.count, &held, &c.map);
    for (int i = 0; i < 10; i++) {
        uint64_t old[GROUP_MEMBERS_MAX];
        uint32_t old_count = c.count;
        memcpy(old, c.id, sizeof old);
        change(&c, /* zones */ 3, /* alike */ false);
        while (c.count > FEW) remove_member(&c, c.count - 1);
        shard_translate(&c.map, old, old_count, c.id, c.count, &held);
        shard_plan(c.member, c.count, &held, &c.map);
        compare_few(&c, &held, few);
    }
}

static void no_more_moves_than_domains_ask_for(void **state)
{
    (void)state;
    struct few few = {.worst = 1};
    for (uint64_t seed = first_seed; seed < first_seed + 5 * seed_count; seed++)
        run_few(seed, &few);
    print_message("%llu plans of few: %llu copies moved, least possible %llu; worst plan x %.3f\n",
                  (unsigned long long)few.plans, (unsigned long long)few.moved,
                  (unsigned long long)few.least, few.worst);
    assert_true(few.plans > 10 * seed_count);
    assert_int_equal(few.dearer, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) first_seed = strtoull(argv[1], NULL, 10), seed_count = 1;
    if (argc > 2) seed_count = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_move_little_and_cover_all),
                                       cmocka_unit_test(no_more_moves_than_domains_ask_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
