/* Power cuts and failing calls at every write, sync, rename, folder and removal of whole scenarios,
 * on a made-up disk that loses whatever was not synced (disk_sim.h).
 *
 *     worker_ckpt_crash_test [POINTS [SEED]]     3,000 points from seed 1 without arguments
 *
 * Scenario   A job of odd tensors (empty, scalar, smaller than the group) goes on for some
 *            checkpoints; each is written by 1 to 5 members with unequal cuts in any order, some
 *            are abandoned half way, some find their step taken by a damaged one.
 * Point      The scenario with the power cut in its n-th changing call, for every n; then a power
 *            cut once more in the recovery; then it goes on.
 * Holds      The newest manifest there is verifies. What loads is of the step it says, bit for bit,
 *            and no older than the newest checkpoint that was reported written.
 */
#include "base/mem.h"
#include "base/splitmix.h"
#include "worker/ckpt/ckpt_image.h"
#include "worker/ckpt/ckpt_read.h"
#include "worker/ckpt/ckpt_load.h"
#include "worker/store/disk_sim.h"
#include "worker/store/store_backend.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { TENSORS = 6, MEMBERS_MAX = 5, ELEMENTS = 40 + 1 + 0 + 3 + 21 + 7, CHECKPOINTS = 5 };

struct world {
    struct disk_sim *sim;
    struct disk disk;
    struct store *store;
    struct job job;
    float weights[ELEMENTS];
    int16_t scale[TENSORS + 2];
    uint64_t random, reported, turn; /* reported: newest step that publish called written */
};

static uint64_t seed_now, point_now;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s does not hold: seed %" PRIu64 " point %" PRIu64 "\n", __FILE__,      \
                   __LINE__, #condition, seed_now, point_now);                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t draw(struct world *w, uint64_t below)
{
    return splitmix_next(&w->random) % below;
}

static void set_up(struct world *w, uint64_t seed)
{
    static const uint64_t counts[TENSORS] = {40, 1, 0, 3, 21, 7};
    struct shoal_tensor tensor[TENSORS];
    static const char *const names[TENSORS] = {"a", "scalar", "none", "tiny", "m", "v"};
    *w = (struct world){.sim = disk_sim_new(seed), .random = seed};
    w->disk = disk_sim_disk(w->sim);
    w->store = store_dir_open("/host/ckpt", &w->disk, NULL);
    uint64_t at = 0;
    for (int i = 0; i < TENSORS; i++) {
        tensor[i] = (struct shoal_tensor){names[i], w->weights + at, {counts[i]}, counts[i] != 1};
        at += counts[i];
    }
    struct shoal_options options = {.params = tensor,
                                    .param_count = 4,
                                    .state = tensor + 4,
                                    .state_count = 2,
                                    .slots = 4,
                                    .steps = 1000,
                                    .checkpoint_dir = "/host/ckpt"};
    CHECK(w->store != NULL);
    CHECK(job_init(&w->job, &options, NULL));
    CHECK(w->job.layout.block_count <= TENSORS + 2);
}

static void tear_down(struct world *w)
{
    job_free(&w->job);
    store_close(w->store);
    disk_sim_free(w->sim);
}

/* The state is a function of the step. */
static void train_to(struct world *w, uint64_t step)
{
    for (uint64_t i = 0; i < ELEMENTS; i++) {
        uint64_t word = (step * 1000 + i) * UINT64_C(0x9e3779b97f4a7c15);
        w->weights[i] = (float)(word >> 40);
    }
    for (uint32_t i = 0; i < w->job.layout.block_count; i++) w->scale[i] = (int16_t)(step * 7 + i);
}

/* One member's cut: unequal, often empty. cut[] are elements of the weights. */
static uint32_t cut_ranges(struct world *w, const uint64_t *cut, uint32_t index,
                           struct ckpt_range *range)
{
    uint64_t at = 0;
    uint32_t used = 0;
    for (uint32_t i = 0; i < w->job.tensor_count; i++) {
        const struct job_tensor *tensor = &w->job.tensors[i];
        uint64_t from = cut[index] > at ? cut[index] : at;
        uint64_t past = at + tensor->element_count;
        if (past > cut[index + 1]) past = cut[index + 1];
        if (from < past)
            range[used++] =
                (struct ckpt_range){i, from - at, past - from, tensor->data + (from - at)};
        at += tensor->element_count;
    }
    if (index == 0)
        range[used++] =
            (struct ckpt_range){w->job.tensor_count, 0, w->job.layout.block_count, w->scale};
    return used;
}

static bool write_shard(struct world *w, uint64_t step, const char *name,
                        const struct ckpt_range *range, uint32_t ranges, struct ckpt_file *ret_file)
{
    struct ckpt_image image = {0};
    struct ckpt_tensor *tensor;
    uint32_t tensors;
    const uint8_t *bytes;
    char object[STORE_NAME_BYTES];
    CHECK(ckpt_tensors_of(&w->job, &tensor, &tensors, NULL));
    CHECK(ckpt_image_plan(&image, tensor, range, ranges, NULL));
    for (uint32_t i = 0; i < image.part_count; i++) ckpt_image_copy(&image, i);
    CHECK(ckpt_image_seal(&image, NULL));
    bool written = true;
    *ret_file =
        (struct ckpt_file){.bytes = image.file_bytes, .header_checksum = image.header_checksum};
    snprintf(ret_file->name, sizeof ret_file->name, "%s", name);
    if (image.file_bytes > 0) {
        size_t count = ckpt_image_part(&image, 0, &bytes);
        ckpt_object_name(step, name, object);
        struct store_writer *writer = store_create(w->store, object, image.file_bytes, NULL);
        written = writer != NULL;
        if (written && !store_put_part(writer, 0, bytes, count, NULL)) {
            store_abort(writer);
            written = false;
        } else if (written)
            written = store_commit(writer, NULL);
    }
    ckpt_image_free(&image);
    mem_free(tensor);
    return written;
}

static bool publish(struct world *w, uint64_t step, const struct ckpt_file *file, uint32_t files)
{
    struct ckpt_manifest manifest = {.step = step,
                                     .steps = w->job.steps,
                                     .model = w->job.model,
                                     .slots = w->job.slots,
                                     .identity = w->job.identity};
    manifest.file = mem_zalloc(MEMBERS_MAX, sizeof *manifest.file);
    CHECK(manifest.file != NULL);
    for (uint32_t i = 0; i < files; i++)
        if (file[i].bytes > 0) manifest.file[manifest.file_count++] = file[i];
    CHECK(ckpt_tensors_of(&w->job, &manifest.tensor, &manifest.tensor_count, NULL));
    bool written =
        ckpt_gather(w->store, &manifest, NULL) && ckpt_publish(w->store, &manifest, NULL);
    ckpt_manifest_free(&manifest);
    return written;
}

/* A whole checkpoint of `step`, by a drawn group. */
static void save(struct world *w, uint64_t step)
{
    struct ckpt_file file[MEMBERS_MAX];
    struct ckpt_range range[TENSORS + 1];
    uint64_t cut[MEMBERS_MAX + 1] = {0};
    uint32_t members = 1 + (uint32_t)draw(w, MEMBERS_MAX), first = (uint32_t)draw(w, members);
    bool gives_up = draw(w, 8) == 0, fine = true;
    w->turn++;
    for (uint32_t i = 1; i < members; i++)
        cut[i] = cut[i - 1] + draw(w, (ELEMENTS - cut[i - 1]) / 2 + 1);
    cut[members] = ELEMENTS;
    train_to(w, step);
    for (uint32_t k = 0; k < members && fine; k++) {
        uint32_t i = (k + first) % members;
        char name[CKPT_FILE_NAME_BYTES];
        snprintf(name, sizeof name, "shard-%04u-t%" PRIu64 "w1.safetensors", i, w->turn);
        fine = write_shard(w, step, name, range, cut_ranges(w, cut, i, range), &file[i]);
        if (gives_up && k + 1 == members) fine = false;
    }
    char suffix[64];
    snprintf(suffix, sizeof suffix, "-t%" PRIu64 "w1.safetensors", w->turn);
    if (fine && publish(w, step, file, members)) {
        CHECK(step >= w->reported);
        w->reported = step;
        ckpt_prune(w->store, &w->job, step, &step, 1);
    } else
        (void)ckpt_abandon(w->store, step, suffix, NULL);
}

/* The rules; returns the step that loads, 0: none. */
static uint64_t look(struct world *w)
{
    struct ckpt_listing listing;
    struct ckpt_manifest manifest;
    struct error error = {.text = ""};
    uint8_t state[sizeof w->weights + sizeof w->scale];
    uint64_t step = 0;
    CHECK(ckpt_list(w->store, &listing, &error));
    if (listing.count > 0) {
        bool sound = ckpt_read_manifest(w->store, listing.step[0], &manifest, &error) &&
                     ckpt_verify(w->store, &manifest, 1, &error);
        if (!sound) printf("%s\n", error.text);
        CHECK(sound);
        ckpt_manifest_free(&manifest);
    }
    ckpt_listing_free(&listing);
    enum ckpt_load_result result = ckpt_load(w->store, &w->job, state, &step, &error);
    CHECK(result != CKPT_REFUSED);
    CHECK(step >= w->reported);
    if (result != CKPT_LOADED) return 0;
    train_to(w, step);
    CHECK(memcmp(state, w->weights, sizeof w->weights) == 0);
    CHECK(memcmp(state + sizeof w->weights, w->scale, w->job.layout.block_count * 2) == 0);
    return step;
}

/* A bit rots in the newest checkpoint, which is then passed over and written anew. */
static void rot(struct world *w)
{
    struct ckpt_manifest manifest;
    char path[256], name[STORE_NAME_BYTES];
    if (w->reported == 0 || !ckpt_read_manifest(w->store, w->reported, &manifest, NULL)) return;
    ckpt_object_name(w->reported, manifest.file[0].name, name);
    snprintf(path, sizeof path, "/host/ckpt/%s", name);
    CHECK(disk_sim_rot(w->sim, path, manifest.file[0].bytes - 1));
    ckpt_manifest_free(&manifest);
}

static void run(struct world *w, uint64_t from)
{
    uint64_t step = from;
    for (int i = 0; i < CHECKPOINTS; i++) {
        step += 1 + draw(w, 3);
        save(w, step);
    }
}

/* A finished scenario whose newest checkpoint rots: the one before is what there is to lose now. */
static uint64_t run_and_rot(struct world *w)
{
    uint8_t state[sizeof w->weights + sizeof w->scale];
    uint64_t older = 0;
    run(w, 0);
    rot(w);
    (void)ckpt_load(w->store, &w->job, state, &older, NULL);
    w->reported = older;
    return older;
}

/* The rotten one may still be there as the newest, until its place is taken. */
static uint64_t look_past_rot(struct world *w, bool rotten)
{
    uint8_t state[sizeof w->weights + sizeof w->scale];
    uint64_t step = 0;
    if (!rotten) return look(w);
    CHECK(ckpt_load(w->store, &w->job, state, &step, NULL) != CKPT_REFUSED);
    CHECK(step >= w->reported);
    return step;
}

static void try_point(uint64_t seed, uint64_t point, bool rotten, int fault)
{
    struct world w;
    set_up(&w, seed);
    uint64_t from = rotten ? run_and_rot(&w) : 0;
    if (fault == 0)
        disk_sim_cut_at(w.sim, point);
    else
        disk_sim_fail_at(w.sim, point, fault);
    run(&w, from);
    if (fault == 0) disk_sim_crash(w.sim);
    disk_sim_fail_at(w.sim, 0, 0);
    uint64_t step = look_past_rot(&w, rotten);
    if (fault == 0) { /* once more, in the recovery */
        disk_sim_cut_at(w.sim, 1 + point % 37);
        save(&w, step + 1);
        disk_sim_crash(w.sim);
        step = look_past_rot(&w, rotten);
    }
    for (uint64_t more = 1; more <= 3; more++) save(&w, step + 2 * more); /* and on */
    (void)look_past_rot(&w, rotten);
    tear_down(&w);
}

static uint64_t count_calls(uint64_t seed, bool rotten)
{
    struct world w;
    set_up(&w, seed);
    uint64_t from = rotten ? run_and_rot(&w) : 0, before = disk_sim_calls(w.sim);
    run(&w, from);
    (void)look_past_rot(&w, rotten);
    uint64_t calls = disk_sim_calls(w.sim) - before;
    tear_down(&w);
    return calls;
}

int main(int argc, char **argv)
{
    uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 3000, done = 0, cuts = 0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static const int faults[] = {0, 0, 0, ENOSPC, EIO};
    /* What the loader says about each damaged checkpoint is not wanted thousands of times. */
    if (freopen("/dev/null", "w", stderr) == NULL) return 2;
    for (; done < wanted; seed++) {
        bool rotten = seed % 4 == 3;
        uint64_t calls = count_calls(seed, rotten);
        for (uint64_t point = 1; point <= calls && done < wanted; point++) {
            int fault = faults[seed % 5];
            seed_now = seed;
            point_now = point;
            try_point(seed, point, rotten, fault);
            done++;
            cuts += fault == 0;
        }
    }
    printf("%" PRIu64 " crash points: %" PRIu64 " power cuts, %" PRIu64
           " failing calls; no unreadable newest checkpoint, none lost that was reported\n",
           done, cuts, done - cuts);
    return 0;
}
