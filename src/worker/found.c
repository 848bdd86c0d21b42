/* Where a group begins: at the newest checkpoint, or at the weights that the program came with. */
#include "worker/ckpt/ckpt_store.h"
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

/* First of the group: newest checkpoint, or the weights the program came with. Lock held; reading
 * goes on without it. False: the folder is not to be used, the reason is on stderr. */
bool engine_found(struct shoal *shoal)
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
