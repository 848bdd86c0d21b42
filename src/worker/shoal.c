#include "shoal.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/pages.h"
#include "core/assert.h"
#include "worker/ckpt/ckpt_store.h"
#include "worker/ckpt/saver.h"
#include "worker/core/quant_isa.h"
#include "worker/engine.h"
#include "worker/host.h"
#include "worker/leave_signal.h"
#include "worker/moments.h"
#include "worker/protocol.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { COMMITS_KEPT = 4096 }; /* an hour of one step a second, and some more */

static void release(struct shoal *shoal)
{
    if (shoal == NULL) return;
    saver_stop(shoal->saver);
    status_close(shoal->page);
    if (shoal->member != NULL) {
        (void)pthread_mutex_destroy(&shoal->lock); /* nobody holds them: threads have ended */
        (void)pthread_cond_destroy(&shoal->changed);
    }
    mem_free(shoal->member);
    mem_free(shoal->scale);
    mem_free(shoal->gradient);
    pages_unmap(shoal->exchange_memory, exchange_size(&shoal->job.layout));
    mem_free(shoal->final_count);
    mem_free(shoal->shadow);
    mem_free(shoal->commits);
    mem_free(shoal->segment);
    mem_free(shoal->range);
    moments_free(&shoal->job);
    job_free(&shoal->job);
    mem_free(shoal);
}

static uint64_t state_bytes(const struct job *job)
{
    return job->weight_count * sizeof(float) + job->layout.block_count * sizeof(int16_t);
}

static bool allocate(struct shoal *shoal, struct error *ret_error)
{
    const struct job *job = &shoal->job;
    const struct layout *layout = &job->layout;
    shoal->scale = mem_zalloc(layout->block_count, sizeof *shoal->scale);
    shoal->gradient = mem_zalloc(layout->element_count, sizeof *shoal->gradient);
    shoal->exchange_memory = pages_map(exchange_size(layout));
    shoal->final_count = mem_zalloc(layout->block_count, sizeof *shoal->final_count);
    shoal->shadow = mem_zalloc(state_bytes(job), 1); /* touched only when a sync fills it */
    shoal->segment = mem_zalloc((size_t)job->tensor_count + 1, sizeof *shoal->segment);
    shoal->commits = mem_zalloc(COMMITS_KEPT, sizeof *shoal->commits);
    shoal->member = mem_zalloc(1, sizeof *shoal->member);
    if (shoal->scale == NULL || shoal->gradient == NULL || shoal->exchange_memory == NULL ||
        shoal->final_count == NULL || shoal->shadow == NULL || shoal->segment == NULL ||
        shoal->commits == NULL || shoal->member == NULL) {
        mem_free(shoal->member);
        shoal->member = NULL;
        return error_set(ret_error, "out of memory for the gradients of %llu elements",
                         (unsigned long long)layout->element_count);
    }
    if (!moments_reserve(&shoal->job, ret_error)) return false;
    for (uint32_t i = 0; i < layout->block_count; i++) shoal->scale[i] = QUANT_SCALE_UNSET;
    for (uint32_t i = 0; i < job->tensor_count; i++)
        shoal->segment[i] = (struct transfer_segment){
            (uint8_t *)job->tensors[i].data, job->tensors[i].element_count * sizeof(float)};
    shoal->segment[job->tensor_count] =
        (struct transfer_segment){(uint8_t *)shoal->scale, layout->block_count * sizeof(int16_t)};
    return true;
}

static uint64_t hash_of(const char *text)
{
    return text == NULL ? 0 : XXH3_64bits(text, strlen(text));
}

static bool set_up_member(struct shoal *shoal, struct error *ret_error)
{
    const struct job *job = &shoal->job;
    uint64_t memory = 0;
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1); /* unnamed hosts are one host */
    if (job->moment_count > 0 && !moments_memory(&memory, ret_error)) return false;
    struct member_config config = {
        .id = job->worker_id == 0 ? 1 : job->worker_id,
        .steps = job->steps,
        .weights_hash = job_weights_hash(job),
        .zone = job->zone,
        .slot_count = job->slots,
        .gang = job->gang,
        .save_every = job->checkpoint_every,
        .has_store = job->checkpoint_dir != NULL,
        .layout = &job->layout,
        .scale = shoal->scale,
        .mean = shoal->gradient,
        .exchange_memory = shoal->exchange_memory,
        .isa = quant_isa_best(),
        .norm_end = job->layout.tensor_block[job->param_count],
        .state = {shoal->segment, job->tensor_count + 1, state_bytes(job)},
        .shadow = shoal->shadow,
        .moment_count = job->moment_count,
        .next_weights = (float *)(void *)shoal->shadow, /* params come first in it */
        .memory = memory,
        .host = hash_of(host),
        .recorder = shoal->page != NULL ? status_recorder(shoal->page) : &shoal->recorder,
        .log = shoal->commits,
        .log_max = COMMITS_KEPT,
    };
    memcpy(config.moment, job->moment, sizeof config.moment);
    member_init(shoal->member, &config);
    return true;
}

static void on_line(void *self, const char *line)
{
    report_take_line(self, line);
}

static void on_agent_gone(void *self)
{
    struct shoal *shoal = self;
    member_leave(shoal->member); /* without its agent nobody pays for or stops this worker */
}

/* Orders that the machine has for the writer of checkpoints. Lock held. */
static void order_saves(struct shoal *shoal)
{
    struct member_saves *saves = &shoal->member->saves;
    if (shoal->saver == NULL) return;
    for (uint32_t i = 0; i < MEMBER_SAVES_MAX; i++) {
        struct member_save *save = &saves->save[i];
        if (save->active && save->manifest_due) saver_manifest(shoal->saver, save);
        save->manifest_due = false;
    }
    if (saves->given_up.failed) saver_abandon(shoal->saver, &saves->given_up);
    saves->given_up.failed = false;
}

static void on_change(void *self)
{
    struct shoal *shoal = self;
    order_saves(shoal);
    moments_release(&shoal->job, shoal->member);
    report_changes(shoal);
    /* Waking the program's thread for nothing would cost a switch for every frame. */
    bool wake = shoal->waits_for_work ? member_want(shoal->member) != MEMBER_WANT_WAIT
                                      : member_slot_is_void(shoal->member);
    if (wake) (void)pthread_cond_broadcast(&shoal->changed); /* cannot fail */
    if (wake && shoal->net != NULL) net_interrupt(shoal->net);
}

static void tell_difference(void *self, const struct wire_hello *theirs, char *ret_text,
                            size_t text_bytes)
{
    const struct shoal *shoal = self;
    job_difference(&shoal->job, theirs, ret_text, text_bytes);
}

/* Those who train already go on without whom they refuse. */
static void on_refused(void *self, const char *why)
{
    struct shoal *shoal = self;
    if (shoal->failed || shoal->member->self.has_state || shoal->member->founding) return;
    (void)error_set(&shoal->failure,
                    "no worker of this job lets this one in: of one of them, %s; this worker ends",
                    why);
    fprintf(stderr, "%s\n", shoal->failure.text);
    shoal->failed = true;
    (void)pthread_cond_broadcast(&shoal->changed); /* cannot fail */
    net_interrupt(shoal->net);
}

static bool wants_to_leave(void *self)
{
    const struct shoal *shoal = self;
    return shoal->can_leave && leave_signal_came();
}

static void on_copied(void *self)
{
    struct shoal *shoal = self;
    engine_lock(shoal);
    member_save_copied(shoal->member);
    on_change(shoal);
    engine_unlock(shoal);
}

static void on_shard(void *self, const struct wire_tag *tag, bool ok, uint64_t bytes,
                     uint64_t checksum)
{
    struct shoal *shoal = self;
    engine_lock(shoal);
    member_shard_written(shoal->member, tag, ok, bytes, checksum);
    on_change(shoal);
    engine_unlock(shoal);
}

static void on_manifest(void *self, const struct wire_tag *tag, bool ok, uint64_t step)
{
    struct shoal *shoal = self;
    engine_lock(shoal);
    if (ok && shoal->net != NULL) report_checkpoint(shoal, step);
    member_manifest_done(shoal->member, tag);
    on_change(shoal);
    engine_unlock(shoal);
}

static bool start_saver(struct shoal *shoal, struct error *ret_error)
{
    if (shoal->job.checkpoint_dir == NULL) return true;
    struct saver_hooks hooks = {shoal, on_copied, on_shard, on_manifest};
    shoal->saver = saver_start(&shoal->job, &hooks, ret_error);
    if (shoal->saver == NULL) return false;
    shoal->range = mem_zalloc((size_t)shoal->job.tensor_count + 1 + moments_ranges_max(&shoal->job),
                              sizeof *shoal->range);
    return shoal->range != NULL || error_set(ret_error, "out of memory for the checkpoint's cut");
}

static bool start_network(struct shoal *shoal, const char *fd_text, struct error *ret_error)
{
    char *end;
    long fd = strtol(fd_text, &end, 10);
    const char *listen = getenv("SHOAL_LISTEN"), *zone = getenv("SHOAL_ZONE");
    uint64_t streams = 0;
    if (*end != '\0' || fd < 0 || fd > 1 << 20)
        return error_set(ret_error, "SHOAL_AGENT_FD=%s: expected a descriptor number", fd_text);
    if (shoal->job.worker_id == 0)
        return error_set(ret_error, "SHOAL_WORKER is not set; start the program through an agent");
    if (!job_read_number("SHOAL_STREAMS", LINK_STREAMS_MAX, &streams, ret_error)) return false;
    const char *protocol = getenv("SHOAL_PROTOCOL");
    if (protocol != NULL && strtol(protocol, NULL, 10) != WORKER_PROTOCOL)
        return error_set(ret_error,
                         "the agent speaks protocol %.20s, this libshoal %d: install the same "
                         "release of shoal on both",
                         protocol, WORKER_PROTOCOL);
    struct net_options options = {
        .member = shoal->member,
        .lock = &shoal->lock,
        .hello = {.version = WIRE_VERSION,
                  .job = shoal->job.job_id,
                  .worker = shoal->job.worker_id,
                  .plan = shoal->job.plan,
                  .identity = shoal->job.identity,
                  .steps = shoal->job.steps,
                  .slots = shoal->job.slots,
                  .samples_per_slot = shoal->job.samples_per_slot,
                  .tensor_count = shoal->job.tensor_count,
                  .tensor_marks = shoal->job.marks},
        .listen = listen == NULL || listen[0] == '\0' ? "127.0.0.1" : listen,
        .door = {.listen = listen == NULL || listen[0] == 0 ? "127.0.0.1" : listen,
                 .worker = shoal->job.worker_id,
                 .token = shoal->job.token,
                 .zone = zone == NULL ? "" : zone,
                 .link = getenv("SHOAL_LINK"),
                 .streams = (uint32_t)streams},
        .agent_fd = (int)fd,
        .self = shoal,
        .on_line = on_line,
        .on_agent_gone = on_agent_gone,
        .on_change = on_change,
        .on_refused = on_refused,
        .wants_to_leave = wants_to_leave,
        .tell_difference = tell_difference,
    };
    (void)pthread_mutex_lock(&shoal->lock);
    member_start(shoal->member, clock_monotonic_us());
    shoal->net = net_start(&options, ret_error);
    if (shoal->net != NULL) report_hello(shoal);
    (void)pthread_mutex_unlock(&shoal->lock);
    return shoal->net != NULL;
}

static void start_alone(struct shoal *shoal)
{
    shoal->member->config.gang = 1;
    member_start(shoal->member, clock_monotonic_us());
    member_peers_settled(shoal->member, true);
}

static void open_page(struct shoal *shoal)
{
    struct error error;
    const char *path = getenv("SHOAL_STATUS");
    shoal->page = status_open(path, &error);
    if (shoal->page == NULL && path != NULL && path[0] != '\0')
        fprintf(stderr, "%s; going on without it\n", error.text);
    recorder_init(&shoal->recorder);
}

static bool start(struct shoal *shoal, const struct shoal_options *options, struct error *ret_error)
{
    if (!job_init(&shoal->job, options, ret_error)) return false;
    if (!allocate(shoal, ret_error)) return false;
    open_page(shoal);
    (void)pthread_mutex_init(&shoal->lock, NULL); /* no attributes: cannot fail on Linux */
    (void)pthread_cond_init(&shoal->changed, NULL);
    if (!set_up_member(shoal, ret_error)) return false;
    if (!start_saver(shoal, ret_error)) return false;
    shoal->can_leave = leave_signal_catch();
    const char *fd = getenv("SHOAL_AGENT_FD");
    if (fd != NULL && fd[0] != '\0') return start_network(shoal, fd, ret_error);
    start_alone(shoal);
    return true;
}

/* A limit on the size of files (ulimit -f) is to fail a checkpoint with its reason: by default its
 * signal ends the program. */
static void outlive_file_limit(void)
{
    struct sigaction set;
    if (sigaction(SIGXFSZ, NULL, &set) == 0 && set.sa_handler == SIG_DFL)
        (void)signal(SIGXFSZ, SIG_IGN); /* cannot fail: the signal is a known one */
}

struct shoal *shoal_join(const struct shoal_options *options, char *ret_error, size_t error_bytes)
{
    struct error error = {.text = "out of memory for the job"};
    outlive_file_limit();
    host_watch(); /* before the program puts its own handler on top */
    struct shoal *shoal = mem_zalloc(1, sizeof *shoal);
    if (shoal != NULL && start(shoal, options, &error)) return shoal;
    if (error_bytes > 0) snprintf(ret_error, error_bytes, "%s", error.text);
    release(shoal);
    return NULL;
}

/* Waits until the machine has work for this thread. Lock held. */
static enum member_want wait_for_work(struct shoal *shoal)
{
    enum member_want want = member_park(shoal->member);
    on_change(shoal);
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

/* Once a step, however many ranges it is applied in. */
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

static void place_state(struct shoal *shoal)
{
    const uint8_t *from = shoal->shadow;
    for (uint32_t i = 0; i <= shoal->job.tensor_count; i++) {
        const struct transfer_segment *segment = &shoal->segment[i];
        if (segment->count > 0) memcpy(segment->bytes, from, segment->count);
        from += segment->count;
    }
    quant_check_scales(shoal->scale, shoal->job.layout.block_count);
}

/* First of the group: newest checkpoint, or the weights the program came with. Lock held; reading
 * goes on without it. False: the folder is not to be used, the reason is on stderr. */
static bool found(struct shoal *shoal)
{
    uint64_t step = 0;
    struct error error;
    enum ckpt_load_result result = CKPT_NONE;
    bool fell_back = shoal->member->shards.fell_back;
    if (fell_back)
        fprintf(stderr, "optimizer moments were lost with their owner and their mirror; going back "
                        "to the newest checkpoint\n");
    if (shoal->saver != NULL) {
        engine_unlock(shoal);
        result = ckpt_load(saver_store(shoal->saver), &shoal->job, shoal->shadow, &step, &error);
        engine_lock(shoal);
    }
    if (result == CKPT_LOADED && step > shoal->job.steps) {
        result = CKPT_REFUSED;
        (void)error_set(&error,
                        "%s: the newest checkpoint is of step %llu, beyond the %llu asked "
                        "for; ask for more steps or use another folder",
                        shoal->job.checkpoint_dir, (unsigned long long)step,
                        (unsigned long long)shoal->job.steps);
    }
    if (result == CKPT_NONE && fell_back) {
        result = CKPT_REFUSED;
        (void)error_set(&error,
                        "there is no checkpoint to go back to; start the job again, and set "
                        "checkpoint_dir and checkpoint_every");
    }
    if (result == CKPT_NONE) moments_clear(&shoal->job); /* of a checkpoint that was no good */
    if (result == CKPT_REFUSED) {
        fprintf(stderr, "%s\n", error.text);
        shoal->failed = true;
        shoal->failure = error;
        return false;
    }
    if (result == CKPT_LOADED) {
        place_state(shoal);
        saver_trust(shoal->saver, step);
        fprintf(stderr, "resuming from the checkpoint of step %llu\n", (unsigned long long)step);
    }
    member_founded(shoal->member, step);
    return true;
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
        if (want == MEMBER_WANT_APPLY || want == MEMBER_WANT_PLACE || want == MEMBER_WANT_FOUND)
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
        if (want == MEMBER_WANT_FOUND && !found(shoal)) {
            engine_unlock(shoal);
            return false;
        }
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
    release(shoal);
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
