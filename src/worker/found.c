/* Where a group begins: at the newest checkpoint, or at the weights that the program came with. */
#include "base/mem.h"
#include "worker/ckpt/ckpt_load.h"
#include "worker/ckpt/saver.h"
#include "worker/engine.h"
#include "worker/moments.h"
#include <stdio.h>
#include <string.h>

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

void engine_look(struct shoal *shoal)
{
    uint64_t step;
    if (shoal->saver == NULL || !ckpt_newest(saver_store(shoal->saver), &shoal->job, true, &step))
        return;
    member_sees(shoal->member, step);
}

/* With the others, if there are others and a checkpoint. Lock held, but not while it looks. */
static bool found_together(struct shoal *shoal)
{
    uint64_t step;
    if (shoal->saver == NULL || !member_may_load_together(shoal->member)) return false;
    engine_unlock(shoal);
    bool found = ckpt_newest(saver_store(shoal->saver), &shoal->job, false, &step);
    engine_lock(shoal);
    if (!found || step > shoal->job.steps) return false; /* why not is said by who tries it alone */
    member_found_together(shoal->member, step);
    return true;
}

/* This worker's moments of a LOAD, as they are to be read. NULL: out of memory. */
static struct ckpt_sink *moments_to_read(struct shoal *shoal, uint32_t *ret_count)
{
    const struct member *m = shoal->member;
    *ret_count = 0;
    if (shoal->job.moment_count > 0)
        *ret_count = moments_ranges(&shoal->job, &m->shards.cut.held, m->me, shoal->range);
    struct ckpt_sink *sink = mem_zalloc((size_t)*ret_count + 1, sizeof *sink);
    for (uint32_t i = 0; i < *ret_count && sink != NULL; i++) {
        const struct ckpt_range *range = &shoal->range[i];
        sink[i] = (struct ckpt_sink){range->tensor, range->first, range->count,
                                     (void *)(uintptr_t)range->bytes}; /* in job.moment[] */
    }
    return sink;
}

static uint64_t bytes_of(const struct ckpt_part *part)
{
    uint64_t bytes = part->end - part->first;
    for (uint32_t i = 0; i < part->moment_count; i++)
        bytes += part->moment[i].count * sizeof(float);
    return bytes;
}

void engine_load(struct shoal *shoal)
{
    struct error error = {.text = "out of memory for reading a part of a checkpoint"};
    struct member *m = shoal->member;
    struct ckpt_part part = {.step = m->turn.position};
    /* Another turn may have come since the work was taken: then there is nothing to read for. */
    bool fine = m->turn.kind != TURN_LOAD || wire_tag_compare(&m->turn.tag, &m->load.tag) != 0;
    if (!fine) {
        member_load_part(m, &part.first, &part.end);
        struct ckpt_sink *sink = moments_to_read(shoal, &part.moment_count);
        part.moment = sink;
        engine_unlock(shoal);
        fine = sink != NULL && shoal->saver != NULL &&
               ckpt_load_part(saver_store(shoal->saver), &shoal->job, &part, shoal->shadow, &error);
        if (fine)
            fprintf(stderr,
                    "resuming from the checkpoint of step %llu: this worker reads %llu bytes of "
                    "it\n",
                    (unsigned long long)part.step, (unsigned long long)bytes_of(&part));
        else
            fprintf(stderr, "%s; the checkpoint of step %llu is left to others\n", error.text,
                    (unsigned long long)part.step);
        engine_lock(shoal);
        mem_free(sink);
    }
    member_loaded(m, fine);
}

bool engine_found(struct shoal *shoal)
{
    uint64_t step = 0;
    struct error error;
    enum ckpt_load_result result = CKPT_NONE;
    bool fell_back = shoal->member->shards.fell_back;
    bool lost = fell_back && !shoal->member->shards.disputed; /* else that was said */
    if (lost && !shoal->member->load.alone)
        fprintf(stderr, "optimizer moments were lost with their owner and their mirror; going back "
                        "to the newest checkpoint\n");
    if (found_together(shoal)) return true;
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
