#include "shoal.h"
#include "base/clock.h"
#include "core/assert.h"
#include "worker/ckpt/saver.h"
#include "worker/engine.h"
#include "worker/host.h"
#include "worker/leave_signal.h"
#include "worker/moments.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Waits until the machine has work for this thread. Lock held. */
static enum member_want wait_for_work(struct shoal *shoal)
{
    enum member_want want = member_park(shoal->member);
    engine_changed(shoal);
    if (want == MEMBER_WANT_WAIT && shoal->net != NULL) net_wake(shoal->net);
    shoal->waits_for_work = true;
    while (want == MEMBER_WANT_WAIT && !shoal->failed) {
        ASSERT(shoal->net != NULL || shoal->saver != NULL); /* else nothing could ever come */
        if (shoal->net != NULL)
            net_drive(shoal->net);
        else
            (void)pthread_cond_wait(&shoal->changed, &shoal->lock);
        want = member_want(shoal->member);
    }
    shoal->waits_for_work = false;
    return want;
}

/* A range of one tensor to apply; the old weights go where the new ones are wanted. */
static void fill_range(struct shoal *shoal, struct shoal_work *work)
{
    const struct job *job = &shoal->job;
    uint64_t at, first_of_tensor = 0;
    member_range(shoal->member, &at, &work->count);
    while (at >= first_of_tensor + job->tensors[work->tensor].element_count)
        first_of_tensor += job->tensors[work->tensor++].element_count;
    work->first = at - first_of_tensor;
    work->gradient = shoal->gradient + at;
    work->weights = shoal->member->config.next_weights + at;
    for (uint32_t i = 0; i < job->moment_count; i++) work->moment[i] = job->moment[i] + at;
    work->last = member_range_is_last(shoal->member);
    memcpy(work->weights, job->tensors[work->tensor].data + work->first,
           work->count * sizeof *work->weights);
}

/* The mean gradient of the step being applied has NaN or Inf: said once, kept for the record. */
static void note_finite(struct shoal *shoal, double norm)
{
    static const char *const doing[] = {"", "applied all the same", "skipped", "stopping"};
    struct member *m = shoal->member;
    m->commit.not_finite = !isfinite(norm);
    if (isfinite(norm) || shoal->odd_step == m->self.position + 1) return;
    shoal->odd_step = m->self.position + 1;
    fprintf(stderr, "step %llu: the mean gradient holds NaN or Inf: %s (on_nan)\n",
            (unsigned long long)m->self.position, doing[shoal->job.on_nan]);
}

static double norm_of(struct shoal *shoal)
{
    const struct member *m = shoal->member;
    if (shoal->norm_step != m->self.position + 1)
        shoal->norm = sqrt(exchange_norm_squared(&m->exchange));
    shoal->norm_step = m->self.position + 1;
    note_finite(shoal, shoal->norm);
    return shoal->norm;
}

static void fill_work(struct shoal *shoal, struct shoal_work *ret_work)
{
    const struct member *m = shoal->member;
    bool apply = shoal->doing == MEMBER_WANT_APPLY;
    *ret_work = (struct shoal_work){
        .kind = apply ? SHOAL_APPLY : SHOAL_COMPUTE,
        .step = m->self.position,
        .slot = apply ? 0 : m->slot,
        .gradient = shoal->gradient,
        .loss = apply ? shoal->gradient[shoal->job.gradient_count] : 0,
        .gradient_norm = apply ? norm_of(shoal) : 0,
    };
    if (apply && shoal->job.moment_count > 0) fill_range(shoal, ret_work);
}

/* The new weights of the step are whole: over the old ones. Lock held, but not while it copies. */
static void place_weights(struct shoal *shoal)
{
    const float *from = shoal->member->config.next_weights;
    engine_unlock(shoal);
    for (uint32_t i = 0; i < shoal->job.param_count; i++) {
        const struct job_tensor *tensor = &shoal->job.tensors[i];
        if (tensor->element_count > 0)
            memcpy(tensor->data, from, tensor->element_count * sizeof *from);
        from += tensor->element_count;
    }
    engine_lock(shoal);
    (void)norm_of(shoal); /* who applied no range has not looked yet */
    member_applied(shoal->member);
}

/* Lock held; the writer is told without it, so that the network does not wait. */
static void save_share(struct shoal *shoal)
{
    if (!shoal->member->saves.wanted) return;
    struct wire_turn turn = shoal->member->saves.turn;
    struct shard_map map = shoal->member->saves.map;
    uint32_t index = 0;
    while (turn.member[index] != shoal->member->config.id) index++;
    member_save_taken(shoal->member);
    engine_unlock(shoal);
    uint32_t ranges =
        saver_share(shoal->saver, shoal->scale, index, turn.member_count, shoal->range);
    if (shoal->job.moment_count > 0)
        ranges += moments_ranges(&shoal->job, &map, index, shoal->range + ranges);
    saver_order(shoal->saver, &turn, index, shoal->range, ranges);
    engine_lock(shoal);
}

/* The state is about to change: what the writer has not copied yet is copied now. */
static void finish_copies(struct shoal *shoal)
{
    if (shoal->saver == NULL) return;
    engine_unlock(shoal);
    uint64_t us = saver_barrier(shoal->saver);
    engine_lock(shoal);
    if (us > 0) member_save_stalled(shoal->member, us);
}

void shoal_phase(struct shoal *shoal, enum shoal_phase phase)
{
    if (shoal->doing != MEMBER_WANT_COMPUTE) return; /* only a slot has data to wait for */
    engine_lock(shoal);
    member_wait_for_data(shoal->member, phase == SHOAL_PHASE_DATA, clock_monotonic_us());
    (void)pthread_mutex_unlock(&shoal->lock);
}

static void applied(struct shoal *shoal)
{
    if (shoal->job.moment_count > 0)
        member_range_applied(shoal->member);
    else
        member_applied(shoal->member);
}

static void stop_for_nan(struct shoal *shoal)
{
    (void)error_set(
        &shoal->failure,
        "step %llu: the mean gradient holds NaN or Inf, and on_nan is stop; the weights "
        "are those before this step",
        (unsigned long long)shoal->member->self.position);
    fprintf(stderr, "%s\n", shoal->failure.text);
    shoal->failed = true;
}

bool shoal_next(struct shoal *shoal, struct shoal_work *ret_work)
{
    host_watch();
    engine_lock(shoal);
    if (shoal->net == NULL) member_tick(shoal->member, clock_monotonic_us()); /* else net.c does */
    if (shoal->can_leave && leave_signal_came()) member_leave(shoal->member);
    if (shoal->doing == MEMBER_WANT_APPLY) applied(shoal);
    shoal->doing = MEMBER_WANT_WAIT;
    for (;;) {
        enum member_want want = wait_for_work(shoal);
        if (shoal->failed) {
            engine_unlock(shoal);
            return false;
        }
        if (want == MEMBER_WANT_EXIT_DONE || want == MEMBER_WANT_EXIT_LEFT) {
            shoal->doing = want;
            finish_copies(shoal);
            engine_unlock(shoal);
            return false;
        }
        member_unpark(shoal->member);
        shoal->doing = want;
        report_changes(shoal);
        /* All that changes the state; FOUND, because a group that lost moments goes back. */
        if (want == MEMBER_WANT_APPLY || want == MEMBER_WANT_PLACE || want == MEMBER_WANT_FOUND ||
            want == MEMBER_WANT_LOAD)
            finish_copies(shoal);
        if (want == MEMBER_WANT_PLACE) place_weights(shoal);
        if (want == MEMBER_WANT_COMPUTE) break;
        if (want == MEMBER_WANT_APPLY) {
            if (isfinite(norm_of(shoal)) || shoal->job.on_nan == SHOAL_NAN_CONTINUE) break;
            if (shoal->job.on_nan == SHOAL_NAN_STOP) {
                stop_for_nan(shoal);
                engine_unlock(shoal);
                return false;
            }
            fill_work(shoal, ret_work); /* of a range: copies the old weights to where they stay */
            applied(shoal);
        }
        if (want == MEMBER_WANT_FOUND && !engine_found(shoal)) {
            engine_unlock(shoal);
            return false;
        }
        if (want == MEMBER_WANT_LOAD) engine_load(shoal);
        if (want == MEMBER_WANT_SAVE) save_share(shoal);
    }
    fill_work(shoal, ret_work);
    engine_unlock(shoal);
    if (ret_work->kind == SHOAL_COMPUTE) slot_start(shoal);
    return true;
}

enum shoal_end shoal_ended(const struct shoal *shoal, const char **ret_reason)
{
    *ret_reason = shoal->failure.text;
    if (shoal->failed) return SHOAL_FAILED;
    if (shoal->doing == MEMBER_WANT_EXIT_DONE) return SHOAL_DONE;
    return shoal->doing == MEMBER_WANT_EXIT_LEFT ? SHOAL_LEFT : SHOAL_RUNNING;
}

int shoal_close(struct shoal *shoal)
{
    if (shoal == NULL) return 1;
    bool done = shoal->doing == MEMBER_WANT_EXIT_DONE, left = shoal->doing == MEMBER_WANT_EXIT_LEFT;
    engine_lock(shoal);
    if (done) {
        job_weights_sha256(&shoal->job, shoal->weights_sha256);
        report_changes(shoal);
        if (shoal->net != NULL) report_done(shoal);
    }
    engine_unlock(shoal);
    saver_stop(shoal->saver); /* its last result may still be owed to the leader */
    engine_lock(shoal);
    shoal->saver = NULL;
    engine_unlock(shoal);
    net_stop(shoal->net);
    if (done) {
        printf("weights sha256 %s\n", shoal->weights_sha256);
        fflush(stdout);
    }
    if (left)
        fprintf(stderr, "left as told after step %llu\n",
                (unsigned long long)(shoal->member->self.position));
    int status = (done || left) && !shoal->failed ? 0 : 1;
    engine_release(shoal);
    return status;
}

uint64_t shoal_sample(const struct shoal *shoal, uint64_t step, uint32_t slot, uint32_t i)
{
    return (step * shoal->job.slots + slot) * shoal->job.samples_per_slot + i;
}

static uint64_t mix(uint64_t word)
{
    word += UINT64_C(0x9e3779b97f4a7c15);
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

uint64_t shoal_random(uint64_t seed, uint64_t step, uint32_t slot, uint64_t counter)
{
    return mix(mix(mix(mix(seed) ^ step) ^ slot) ^ counter);
}
