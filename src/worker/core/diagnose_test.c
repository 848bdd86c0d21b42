/* Injected stalls and slowdowns (diagnose_sim.h): the verdicts of two observers are held against what
 * was injected.
 *
 *     worker_diagnose_test [RUNS [FIRST_SEED]]     also prints its figures as benchmark rows
 *
 * Right: until the end nobody innocent is ever named, and everybody guilty is, for the right
 * reason, within 10 s (a stall), or when the third slow step ends (and heartbeats have told of it).
 * Controls with nothing wrong (unequal speeds, short pauses, everybody slower, slots that move) are
 * right when nobody is named.
 */
#include "base/splitmix.h"
#include "worker/core/diagnose_sim.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct score {
    uint32_t runs, right, innocent, late, wrong_drops, drops;
    int64_t slowest_stall_us;
    uint32_t by_kind[FAULT_KINDS], right_by_kind[FAULT_KINDS];
};

static bool is_right(const struct world *w)
{
    if (w->innocent > 0) return false;
    if (diagnose_sim_is_control(w)) return true;
    if (w->named_us == 0) return false;
    /* Flagged when the third slow step ends; then heartbeats carry it and the verdict settles. */
    if (diagnose_sim_is_slow(w)) return w->named_us - w->third_us <= TELL_US;
    return w->named_us - w->onset_us <= NAME_US;
}

static void run_one(uint64_t seed, struct score *score)
{
    static struct world w;
    diagnose_sim_init(&w, seed, splitmix_next);
    diagnose_sim_run(&w);
    bool right = is_right(&w);
    score->runs++;
    score->right += right;
    score->drops += w.drops > 0;
    score->wrong_drops += w.wrong_drops > 0;
    score->by_kind[w.fault[0].kind]++;
    score->right_by_kind[w.fault[0].kind] += right;
    if (!diagnose_sim_is_control(&w) && !diagnose_sim_is_slow(&w) && right &&
        w.named_us - w.onset_us > score->slowest_stall_us)
        score->slowest_stall_us = w.named_us - w.onset_us;
    if (!right)
        printf("seed %llu: %u ranks, %s of rank %u (peer %u)%s: %s\n", (unsigned long long)seed,
               w.count, diagnose_sim_fault_name(w.fault[0].kind), w.fault[0].rank, w.fault[0].peer,
               w.fault_count > 1 ? " and others" : "",
               w.story[0] != '\0' ? w.story : "not named in time");
}

static uint64_t runs = 200, first_seed = 1;

static void injected_stalls_are_named(void **state)
{
    (void)state;
    struct score score = {0};
    for (uint64_t seed = first_seed; seed < first_seed + runs; seed++) run_one(seed, &score);
    for (uint32_t i = 0; i < FAULT_KINDS; i++)
        printf("%-13s %4u of %4u right\n", diagnose_sim_fault_name((enum fault_kind)i),
               score.right_by_kind[i], score.by_kind[i]);
    printf(
        "{\"name\":\"diagnosis.right_ppm\",\"value\":%llu,\"unit\":\"ppm\",\"peer\":\"injected\","
        "\"peer_value\":1000000,\"ratio\":%.4f,\"better\":\"higher\",\"runs\":%u}\n",
        (unsigned long long)score.right * 1000000 / score.runs, (double)score.right / score.runs,
        score.runs);
    printf("{\"name\":\"diagnosis.stall_named_ms.max\",\"value\":%lld,\"unit\":\"ms\",\"peer\":"
           "\"limit\",\"peer_value\":10000,\"ratio\":%.4f,\"better\":\"lower\",\"runs\":%u}\n",
           (long long)(score.slowest_stall_us / MS), (double)score.slowest_stall_us / 1e7,
           score.runs);
    printf("{\"name\":\"diagnosis.wrong_evictions\",\"value\":%u,\"unit\":\"runs\",\"peer\":"
           "\"right ones\",\"peer_value\":%u,\"ratio\":0,\"better\":\"lower\",\"runs\":%u}\n",
           score.wrong_drops, score.drops, score.runs);
    assert_true((uint64_t)score.right * 100 >= (uint64_t)score.runs * 99);
    assert_int_equal(score.wrong_drops, 0);
    assert_true(score.drops > 0); /* the check of wrong ones would pass without any */
}

int main(int argc, char **argv)
{
    if (argc > 1) runs = strtoull(argv[1], NULL, 10);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(injected_stalls_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
