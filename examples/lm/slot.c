#include "slot.h"
#include "base/mem.h"
#include "ops.h"
#include "pass.h"
#include <pthread.h>
#include <string.h>

struct part {
    struct pass *pass;
    float *gradient; /* own buffer; NULL for the first part, which writes the caller's */
    uint32_t first, count;
    double loss_sum;
};

struct slot {
    const struct model *model;
    struct slot_options options;
    struct part parts[SLOT_PARTS_MAX];
    /* the work at hand, set before `round` is raised */
    const float *params;
    const uint16_t *sequences;
    float *gradient;
    /* threads 1 .. threads-1 wait for a new round, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t started, finished;
    uint64_t round;
    uint32_t running;
    bool closing, lock_made;
    struct helper {
        struct slot *slot;
        uint32_t index;
        pthread_t thread;
        bool started;
    } helpers[SLOT_PARTS_MAX];
};

static void compute_part(const struct slot *slot, uint32_t index, struct part *part)
{
    const struct model_config *config = &slot->model->config;
    float *gradient = index == 0 ? slot->gradient : part->gradient;
    if (index != 0) memset(gradient, 0, slot->model->param_count * sizeof *gradient);
    part->loss_sum =
        pass_forward(part->pass, slot->params,
                     slot->sequences + (size_t)part->first * (config->context + 1), part->count);
    float positions = (float)slot->options.batch * (float)config->context;
    pass_backward(part->pass, 1.0f / positions, gradient);
}

static void compute_share(struct slot *slot, uint32_t thread)
{
    for (uint32_t i = thread; i < slot->options.parts; i += slot->options.threads)
        compute_part(slot, i, &slot->parts[i]);
}

static void *helper_run(void *argument)
{
    struct helper *helper = argument;
    struct slot *slot = helper->slot;
    uint64_t seen = 0;
    for (;;) {
        (void)pthread_mutex_lock(&slot->lock); /* a plain mutex: cannot fail */
        while (slot->round == seen && !slot->closing)
            (void)pthread_cond_wait(&slot->started, &slot->lock);
        bool closing = slot->closing;
        seen = slot->round;
        (void)pthread_mutex_unlock(&slot->lock);
        if (closing) return NULL;
        compute_share(slot, helper->index);
        (void)pthread_mutex_lock(&slot->lock);
        slot->running--;
        (void)pthread_cond_signal(&slot->finished);
        (void)pthread_mutex_unlock(&slot->lock);
    }
}

static bool make_parts(struct slot *slot, struct error *ret_error)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < slot->options.parts; i++) {
        struct part *part = &slot->parts[i];
        part->first = first;
        part->count = (slot->options.batch - first) / (slot->options.parts - i);
        first += part->count;
        part->pass = pass_make(slot->model, part->count, ret_error);
        if (part->pass == NULL) return false;
        if (i == 0) continue;
        part->gradient = mem_zalloc(slot->model->param_count, sizeof *part->gradient);
        if (part->gradient == NULL)
            return error_set(ret_error, "out of memory for a gradient: use a smaller --width");
    }
    return true;
}

static bool start_helpers(struct slot *slot, struct error *ret_error)
{
    (void)pthread_mutex_init(&slot->lock, NULL); /* cannot fail with default attributes on Linux */
    (void)pthread_cond_init(&slot->started, NULL);
    (void)pthread_cond_init(&slot->finished, NULL);
    slot->lock_made = true;
    for (uint32_t i = 1; i < slot->options.threads; i++) {
        struct helper *helper = &slot->helpers[i];
        *helper = (struct helper){.slot = slot, .index = i};
        int failed = pthread_create(&helper->thread, NULL, helper_run, helper);
        if (failed != 0)
            return error_set(ret_error, "cannot start a thread: %s; use fewer --threads",
                             error_errno(failed));
        helper->started = true;
    }
    return true;
}

struct slot *slot_make(const struct model *model, const struct slot_options *options,
                       struct error *ret_error)
{
    if (options->parts < 1 || options->parts > SLOT_PARTS_MAX || options->parts > options->batch) {
        (void)error_set(ret_error, "--parts %u: use 1 to %d, and at most --batch %u",
                        options->parts, SLOT_PARTS_MAX, options->batch);
        return NULL;
    }
    if (options->threads < 1 || options->threads > options->parts) {
        (void)error_set(ret_error, "--threads %u: use 1 to --parts %u", options->threads,
                        options->parts);
        return NULL;
    }
    struct slot *slot = mem_zalloc(1, sizeof *slot);
    if (slot == NULL) {
        (void)error_set(ret_error, "out of memory");
        return NULL;
    }
    slot->model = model;
    slot->options = *options;
    if (make_parts(slot, ret_error) && start_helpers(slot, ret_error)) return slot;
    slot_free(slot);
    return NULL;
}

static void stop_helpers(struct slot *slot)
{
    (void)pthread_mutex_lock(&slot->lock);
    slot->closing = true;
    (void)pthread_cond_broadcast(&slot->started);
    (void)pthread_mutex_unlock(&slot->lock);
    for (uint32_t i = 1; i < slot->options.threads; i++)
        if (slot->helpers[i].started) (void)pthread_join(slot->helpers[i].thread, NULL);
    (void)pthread_cond_destroy(&slot->finished);
    (void)pthread_cond_destroy(&slot->started);
    (void)pthread_mutex_destroy(&slot->lock);
}

void slot_free(struct slot *slot)
{
    if (slot == NULL) return;
    if (slot->lock_made) stop_helpers(slot);
    for (uint32_t i = 0; i < slot->options.parts; i++) {
        pass_free(slot->parts[i].pass);
        mem_free(slot->parts[i].gradient);
    }
    mem_free(slot);
}

static void run_all(struct slot *slot)
{
    (void)pthread_mutex_lock(&slot->lock);
    slot->round++;
    slot->running = slot->options.threads - 1;
    (void)pthread_cond_broadcast(&slot->started);
    (void)pthread_mutex_unlock(&slot->lock);
    compute_share(slot, 0);
    (void)pthread_mutex_lock(&slot->lock);
    while (slot->running > 0) (void)pthread_cond_wait(&slot->finished, &slot->lock);
    (void)pthread_mutex_unlock(&slot->lock);
}

float slot_compute(struct slot *slot, const float *params, const uint16_t *sequences,
                   float *gradient)
{
    slot->params = params;
    slot->sequences = sequences;
    slot->gradient = gradient;
    run_all(slot);
    double loss_sum = 0;
    for (uint32_t i = 0; i < slot->options.parts; i++) {
        loss_sum += slot->parts[i].loss_sum;
        if (i > 0) add_rows(slot->model->param_count, slot->parts[i].gradient, gradient);
    }
    return (float)(loss_sum / ((double)slot->options.batch * slot->model->config.context));
}
