/* What recording and judging costs a worker of 64, against a thousandth of a step of 100 ms: the
 * records of one step (8 slots, sums from 63 peers), the summaries of its heartbeats and the looks
 * at the group that fall into it. */
#include "median.h"
#include "worker/core/diagnose.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MEMBERS = 64, SLOTS = 8, ROUNDS = 2000, RUNS = 5, PARTS = 4 };
#define STEP_US INT64_C(100000)

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void record_step(struct recorder *r, uint64_t step, int64_t at_us)
{
    struct record_place place = {.step = step, .attempt = 1};
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        place.detail = slot;
        place.phase = RECORD_DATA;
        (void)recorder_enter(r, &place, at_us += 100);
        place.phase = RECORD_COMPUTE;
        (void)recorder_enter(r, &place, at_us += 10000);
    }
    place.phase = RECORD_REDUCE;
    place.detail = 0;
    (void)recorder_enter(r, &place, at_us);
    for (uint32_t peer = 1; peer < MEMBERS; peer++)
        for (int i = 0; i < PARTS; i++) recorder_part(r, peer, 1000, at_us += 50);
    place.phase = RECORD_APPLY;
    (void)recorder_enter(r, &place, at_us);
}

static int64_t records_ns(struct recorder *r)
{
    int64_t began = now_ns();
    for (uint64_t step = 0; step < ROUNDS; step++) record_step(r, step, (int64_t)step * STEP_US);
    return (now_ns() - began) / ROUNDS;
}

static int64_t look_ns(struct diagnose_input *input)
{
    static struct diagnose_verdict verdict;
    int64_t began = now_ns();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        input->rank[i % MEMBERS].age_us = i % 1000;
        diagnose(input, &verdict);
    }
    return (now_ns() - began) / ROUNDS;
}

int main(void)
{
    static struct recorder recorder;
    static struct diagnose_input input;
    int64_t ns[RUNS];
    for (int run = 0; run < RUNS; run++) {
        recorder_init(&recorder);
        ns[run] = records_ns(&recorder);
        memset(&input, 0, sizeof input);
        input.count = MEMBERS;
        for (uint32_t i = 0; i < MEMBERS; i++)
            input.rank[i] = (struct diagnose_rank){
                .heard = true, .silent_us = 1000000, .told = recorder_tell(&recorder, STEP_US)};
        ns[run] += look_ns(&input); /* one each 100 ms */
    }
    double us = (double)median_of_integers(ns, RUNS) / 1e3;
    printf(
        "{\"name\": \"diagnosis.cost_us.r64\", \"value\": %.1f, \"unit\": \"us/step\", \"peer\": "
        "\"a thousandth of 100 ms\", \"peer_value\": 100, \"ratio\": %.3f, \"better\": \"lower\", "
        "\"runs\": %d}\n",
        us, us / 100, RUNS);
    return 0;
}
