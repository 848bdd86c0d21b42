/* A real but tiny training program for the end-to-end test: gradients that depend on weights, step
 * and slot; momentum as optimizer state. E2E_ELEMENTS sets the size, E2E_IDENTITY the identity.
 * E2E_FLIP: after the first step that the worker of this id applies, a bit of its weights flips.
 * E2E_FLIP_MOMENT=WORKER:STEP: after that step a bit flips in the last moment it has applied.
 * With E2E_MOMENTS the library keeps the optimizer's state, as two moments.
 *
 * E2E_STALLS names a folder: while it holds a file "WORKER.data" the worker of that id waits for
 * data in its slot, and says so; with "WORKER.sleep" it sleeps and says nothing, with "WORKER.loop"
 * it computes on and on, with "WORKER.slow" each slot takes 30 ms longer. */
#include "shoal.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool wanted(const char *what)
{
    char path[1024];
    const char *folder = getenv("E2E_STALLS"), *worker = getenv("SHOAL_WORKER");
    if (folder == NULL || worker == NULL) return false;
    snprintf(path, sizeof path, "%s/%s.%s", folder, worker, what);
    return access(path, F_OK) == 0;
}

static void doze(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {}
}

static __attribute__((noinline)) void wait_for_data(struct shoal *job)
{
    shoal_phase(job, SHOAL_PHASE_DATA);
    while (wanted("data")) doze(50);
    shoal_phase(job, SHOAL_PHASE_COMPUTE);
}

static __attribute__((noinline)) void sleep_in_slot(void)
{
    while (wanted("sleep")) doze(500);
}

static __attribute__((noinline)) void compute_on_and_on(void)
{
    volatile double sum = 0;
    while (wanted("loop"))
        for (int i = 0; i < 10000000; i++) sum = sum + 1.0 / (1 + i);
}

static void stall(struct shoal *job)
{
    if (wanted("data")) wait_for_data(job);
    if (wanted("sleep")) sleep_in_slot();
    if (wanted("loop")) compute_on_and_on();
    if (wanted("slow")) doze(30);
}

static float noise(uint64_t step, uint32_t slot, uint64_t i)
{
    return (float)(shoal_random(7, step, slot, i) >> 40) * 0x1p-24f - 0.5f;
}

/* Backwards, as a real program does. Every third slot hands its gradient in piece by piece. */
/* E2E_NAN_STEP: in this step, slot 3 makes one element NaN. */
static bool is_odd(const struct shoal_work *work)
{
    const char *step = getenv("E2E_NAN_STEP");
    return step != NULL && work->slot == 3 && work->step == strtoull(step, NULL, 10);
}

static float compute(struct shoal *job, const float *weights, size_t count,
                     const struct shoal_work *work)
{
    float loss = 0;
    bool odd = is_odd(work);
    size_t piece = 1 + (size_t)(shoal_random(8, work->step, work->slot, 0) % 7000), ready = count;
    for (size_t i = count; i-- > 0;) {
        work->gradient[i] = noise(work->step, work->slot, i) + 0.1f * weights[i];
        loss += weights[i] * weights[i];
        if (odd && i == count / 2) work->gradient[i] = NAN;
        if ((work->step + work->slot) % 3 != 0 || (ready - i < piece && i > 0)) continue;
        shoal_ready(job, i, ready - i);
        ready = i;
    }
    return loss;
}

/* Clipped by the norm, which must have the same bits everywhere. */
static void apply(float *weights, float *momentum, size_t count, const struct shoal_work *work)
{
    float clip = work->gradient_norm > 20 ? (float)(20 / work->gradient_norm) : 1;
    for (size_t i = 0; i < count; i++) {
        momentum[i] = 0.9f * momentum[i] + clip * work->gradient[i];
        weights[i] -= 0.01f * momentum[i];
    }
}

static void apply_range(const struct shoal_work *work)
{
    float clip = work->gradient_norm > 20 ? (float)(20 / work->gradient_norm) : 1;
    for (uint64_t i = 0; i < work->count; i++) {
        float *first = &work->moment[0][i], *second = &work->moment[1][i],
              mean = clip * work->gradient[i];
        *first = 0.9f * *first + 0.1f * mean;
        *second = 0.99f * *second + 0.01f * (mean < 0 ? -mean : mean);
        work->weights[i] -= 0.01f * *first / (*second + 1e-6f);
    }
}

static void flip_once(float *weights)
{
    static bool done;
    const char *who = getenv("E2E_FLIP"), *worker = getenv("SHOAL_WORKER");
    if (done || who == NULL || worker == NULL || strcmp(who, worker) != 0) return;
    uint32_t bits;
    memcpy(&bits, weights, sizeof bits);
    bits ^= 1;
    memcpy(weights, &bits, sizeof bits);
    done = true;
}

static void flip_moment(const struct shoal_work *work)
{
    const char *when = getenv("E2E_FLIP_MOMENT"), *worker = getenv("SHOAL_WORKER");
    unsigned who, bits;
    unsigned long long step;
    static bool done;
    if (done || when == NULL || worker == NULL || work->last == 0) return;
    if (sscanf(when, "%u:%llu", &who, &step) != 2 || step != work->step) return;
    if (strtoul(worker, NULL, 10) != who) return;
    memcpy(&bits, &work->moment[0][work->count - 1], sizeof bits);
    bits ^= 1u << 20;
    memcpy(&work->moment[0][work->count - 1], &bits, sizeof bits);
    done = true;
}

int main(void)
{
    const char *text = getenv("E2E_ELEMENTS"), *identity = getenv("E2E_IDENTITY");
    size_t count = text == NULL ? 100000 : strtoull(text, NULL, 10);
    float *weights = calloc(count, sizeof *weights), *momentum = calloc(count, sizeof *momentum);
    if (weights == NULL || momentum == NULL) return 1;
    for (size_t i = 0; i < count; i++) weights[i] = noise(0, 0, i);
    struct shoal_tensor params[2] = {{"a", weights, {7}, 1}, {"b", weights + 7, {count - 7}, 1}};
    struct shoal_tensor state[1] = {{"momentum", momentum, {count}, 1}};
    struct shoal_options options = {.params = params,
                                    .param_count = 2,
                                    .state = state,
                                    .state_count = 1,
                                    .samples_per_slot = 1,
                                    .identity =
                                        identity == NULL ? 0 : strtoull(identity, NULL, 16)};
    const char *const moments[] = {"exp_avg", "exp_abs"};
    bool sharded = getenv("E2E_MOMENTS") != NULL;
    if (sharded) {
        options.state_count = 0;
        options.moment_count = 2;
        options.moment_names = moments;
    }
    char error[512];
    struct shoal *job = shoal_join(&options, error, sizeof error);
    if (job == NULL) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    struct shoal_work work;
    uint64_t held = 0;
    while (shoal_next(job, &work)) {
        if (work.kind == SHOAL_COMPUTE) {
            stall(job);
            shoal_submit(job, compute(job, weights, count, &work));
        } else if (sharded) {
            apply_range(&work);
            flip_moment(&work);
            held += work.count;
            if (work.last != 0)
                fprintf(stderr, "step %llu: %llu elements held\n", (unsigned long long)work.step,
                        (unsigned long long)held);
            if (work.last != 0) held = 0;
        } else {
            apply(weights, momentum, count, &work);
            flip_once(weights);
        }
    }
    int status = shoal_close(job);
    free(weights);
    free(momentum);
    return status;
}
