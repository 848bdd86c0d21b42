/* shoal_join(): what a worker is made of, and what its threads tell each other. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/pages.h"
#include "shoal.h"
#include "worker/ckpt/saver.h"
#include "worker/core/quant_isa.h"
#include "worker/engine.h"
#include "worker/host.h"
#include "worker/leave_signal.h"
#include "worker/moments.h"
#include "worker/protocol.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* An hour of 18 steps a second, whose slots move every 4 seconds. */
enum { STEPS_KEPT = 65536, TURNS_KEPT = 1024 };

void engine_release(struct shoal *shoal)
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
    mem_free(shoal->log_step);
    mem_free(shoal->log_turn);
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
    shoal->log_step = mem_zalloc(STEPS_KEPT, sizeof *shoal->log_step);
    shoal->log_turn = mem_zalloc(TURNS_KEPT, sizeof *shoal->log_turn);
    shoal->member = mem_zalloc(1, sizeof *shoal->member);
    if (shoal->scale == NULL || shoal->gradient == NULL || shoal->exchange_memory == NULL ||
        shoal->final_count == NULL || shoal->shadow == NULL || shoal->segment == NULL ||
        shoal->log_step == NULL || shoal->log_turn == NULL || shoal->member == NULL) {
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
        .log = {.step = shoal->log_step,
                .turn = shoal->log_turn,
                .step_max = STEPS_KEPT,
                .turn_max = TURNS_KEPT},
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

void engine_changed(void *self)
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
    engine_changed(shoal);
    engine_unlock(shoal);
}

static void on_shard(void *self, const struct wire_tag *tag, bool ok, uint64_t bytes,
                     uint64_t checksum)
{
    struct shoal *shoal = self;
    engine_lock(shoal);
    member_shard_written(shoal->member, tag, ok, bytes, checksum);
    engine_changed(shoal);
    engine_unlock(shoal);
}

static void on_manifest(void *self, const struct wire_tag *tag, bool ok, uint64_t step)
{
    struct shoal *shoal = self;
    engine_lock(shoal);
    if (ok && shoal->net != NULL) report_checkpoint(shoal, step);
    member_manifest_done(shoal->member, tag);
    engine_changed(shoal);
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
        .on_change = engine_changed,
        .on_refused = on_refused,
        .wants_to_leave = wants_to_leave,
        .tell_difference = tell_difference,
    };
    engine_look(shoal);
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
    engine_release(shoal);
    return NULL;
}
