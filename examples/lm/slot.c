#include "slot.h"
#include "base/mem.h"
#include "pass.h"
#include <stdatomic.h>

struct part {
    struct slot *slot;
    struct pass *pass;
    float *gradient; /* own buffer; NULL for the first part, which writes the caller's */
    uint32_t first, count;
    bool on_caller; /* computed on the caller's thread in this round */
    double loss_sum;
};

/* A run of the gradient on its way: counted by parts that are done with it; whoever comes last adds
 * them up and marks it. */
struct stage {
    atomic_uint parts_done;
    atomic_bool added;
};

struct slot {
    const struct model *model;
    struct crew *crew;
    struct slot_options options;
    struct part parts[SLOT_PARTS_MAX];
    struct stage *stages;
    /* the work at hand */
    const float *params;
    const uint16_t *sequences;
    float *gradient;
    uint64_t noise_key;
    uint32_t loss_count; /* of slot_loss() */
    const struct slot_watch *watch;
    uint32_t told; /* stages that the watch was told of */
};

static float *part_gradient(const struct slot *slot, uint32_t index)
{
    return index == 0 ? slot->gradient : slot->parts[index].gradient;
}

/* Always in the order of the parts. */
static void add_parts(struct slot *slot, uint32_t stage)
{
    size_t first, count;
    model_stage(slot->model, stage, &first, &count);
    for (uint32_t i = 1; i < slot->options.parts; i++)
        add_rows(count, part_gradient(slot, i) + first, slot->gradient + first);
}

static void tell_watch(struct slot *slot)
{
    for (; slot->watch != NULL && slot->told < model_stages(slot->model); slot->told++) {
        if (!atomic_load(&slot->stages[slot->told].added)) return;
        size_t first, count;
        model_stage(slot->model, slot->told, &first, &count);
        slot->watch->ready(slot->watch->context, first, count);
    }
}

static void stage_done(void *context, uint32_t stage)
{
    struct part *part = context;
    struct slot *slot = part->slot;
    if (atomic_fetch_add(&slot->stages[stage].parts_done, 1) + 1 == slot->options.parts) {
        add_parts(slot, stage);
        atomic_store(&slot->stages[stage].added, true);
    }
    if (part->on_caller) tell_watch(slot);
}

static void compute_share(void *context, uint32_t member)
{
    struct slot *slot = context;
    size_t length = slot->model->config.context + 1;
    float positions = (float)slot->options.batch * (float)slot->model->config.context;
    for (uint32_t i = member; i < slot->options.parts; i += crew_count(slot->crew)) {
        struct part *part = &slot->parts[i];
        struct pass_noise noise = {slot->options.dropout, slot->noise_key, part->first};
        struct pass_watch watch = {stage_done, part};
        part->on_caller = member == 0;
        part->loss_sum = pass_forward(part->pass, slot->params,
                                      slot->sequences + part->first * length, part->count, &noise);
        pass_backward(part->pass, 1.0f / positions, part_gradient(slot, i), &watch);
    }
}

static void loss_share(void *context, uint32_t member)
{
    struct slot *slot = context;
    size_t length = slot->model->config.context + 1;
    for (uint32_t i = member; i < slot->options.parts; i += crew_count(slot->crew)) {
        struct part *part = &slot->parts[i];
        uint32_t count = slot->loss_count <= part->first ? 0 : slot->loss_count - part->first;
        if (count > part->count) count = part->count;
        part->loss_sum = 0;
        if (count > 0)
            part->loss_sum =
                pass_forward(part->pass, slot->params, slot->sequences + part->first * length,
                             count, NULL /* no dropout */);
    }
}

static bool make_parts(struct slot *slot, struct error *ret_error)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < slot->options.parts; i++) {
        struct part *part = &slot->parts[i];
        part->slot = slot;
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
    slot->stages = mem_zalloc(model_stages(slot->model), sizeof *slot->stages);
    return slot->stages != NULL || error_set(ret_error, "out of memory");
}

struct slot *slot_make(const struct model *model, const struct slot_options *options,
                       struct crew *crew, struct error *ret_error)
{
    if (options->parts < 1 || options->parts > SLOT_PARTS_MAX || options->parts > options->batch) {
        (void)error_set(ret_error, "--parts %u: use 1 to %d, and at most --batch %u",
                        options->parts, SLOT_PARTS_MAX, options->batch);
        return NULL;
    }
    struct slot *slot = mem_zalloc(1, sizeof *slot);
    if (slot == NULL) {
        (void)error_set(ret_error, "out of memory");
        return NULL;
    }
    slot->model = model;
    slot->crew = crew;
    slot->options = *options;
    if (make_parts(slot, ret_error)) return slot;
    slot_free(slot);
    return NULL;
}

void slot_free(struct slot *slot)
{
    if (slot == NULL) return;
    for (uint32_t i = 0; i < slot->options.parts; i++) {
        pass_free(slot->parts[i].pass);
        mem_free(slot->parts[i].gradient);
    }
    mem_free(slot->stages);
    mem_free(slot);
}

static double sum_of_losses(const struct slot *slot)
{
    double sum = 0;
    for (uint32_t i = 0; i < slot->options.parts; i++) sum += slot->parts[i].loss_sum;
    return sum;
}

float slot_compute(struct slot *slot, const float *params, const uint16_t *sequences,
                   uint64_t noise_key, float *gradient, const struct slot_watch *watch)
{
    slot->params = params;
    slot->sequences = sequences;
    slot->noise_key = noise_key;
    slot->gradient = gradient;
    slot->watch = watch;
    slot->told = 0;
    for (uint32_t i = 0; i < model_stages(slot->model); i++) {
        atomic_store(&slot->stages[i].parts_done, 0);
        atomic_store(&slot->stages[i].added, false);
    }
    crew_run(slot->crew, compute_share, slot);
    tell_watch(slot);
    double positions = (double)slot->options.batch * slot->model->config.context;
    return (float)(sum_of_losses(slot) / positions);
}

double slot_loss(struct slot *slot, const float *params, const uint16_t *sequences, uint32_t count)
{
    slot->params = params;
    slot->sequences = sequences;
    slot->loss_count = count;
    crew_run(slot->crew, loss_share, slot);
    return sum_of_losses(slot);
}
