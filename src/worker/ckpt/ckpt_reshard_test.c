/* Any N writers, any M readers, 1 to 128 of each: every element of every tensor comes back bit for
 * bit, whatever the cuts. And a manifest that does not hold every element once is refused.
 *
 *     worker_ckpt_reshard_test [ROUNDS]     60 without an argument
 */
#include "base/mem.h"
#include "base/splitmix.h"
#include "worker/ckpt/ckpt_image.h"
#include "worker/ckpt/ckpt_read.h"
#include "worker/ckpt/ckpt_store.h"
#include "worker/store/disk_sim.h"
#include "worker/store/store_backend.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TENSORS_MAX = 10, MEMBERS_MAX = 128, BYTES_MAX = 24 << 20 };

struct model {
    struct ckpt_tensor tensor[TENSORS_MAX];
    uint32_t tensor_count;
    uint64_t elements; /* of all tensors together */
    uint64_t offset[TENSORS_MAX + 1];
    uint8_t *bytes, *again; /* all tensors, one after another */
};

static uint64_t random_state;
static uint64_t rounds = 60;

static uint64_t below(uint64_t end)
{
    return splitmix_next(&random_state) % end;
}

static void shape_tensor(struct ckpt_tensor *tensor, uint32_t index, bool large)
{
    static const char *const kinds[] = {"param", "state", "moment", "scales"};
    const char *kind = kinds[below(4)];
    *tensor = (struct ckpt_tensor){.unit_bytes = strcmp(kind, "scales") == 0 ? 2 : 4};
    snprintf(tensor->name, sizeof tensor->name, "layer.%u.weight", index);
    snprintf(tensor->kind, sizeof tensor->kind, "%s", kind);
    tensor->elements = 1;
    tensor->dims = (uint32_t)below(4); /* 0: a scalar */
    for (uint32_t i = 0; i < tensor->dims; i++) {
        tensor->shape[i] = below(12) == 0 ? 0 : 1 + below(tensor->dims == 1 ? 3000 : 14);
        tensor->elements *= tensor->shape[i];
    }
    if (!large) return; /* over several parts of a file */
    tensor->dims = 2;
    tensor->shape[0] = 3;
    tensor->shape[1] = 1000003;
    tensor->elements = 3 * UINT64_C(1000003);
}

static void make_model(struct model *model)
{
    model->tensor_count = 1 + (uint32_t)below(TENSORS_MAX);
    model->elements = model->offset[0] = 0;
    uint64_t large = below(8) == 0 ? below(model->tensor_count) : TENSORS_MAX;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        struct ckpt_tensor *tensor = &model->tensor[i];
        shape_tensor(tensor, i, i == large);
        model->offset[i + 1] = model->offset[i] + tensor->elements * tensor->unit_bytes;
        model->elements += tensor->elements;
    }
    assert_true(model->offset[model->tensor_count] <= BYTES_MAX);
    for (uint64_t i = 0; i + 8 <= model->offset[model->tensor_count] + 8; i += 8) {
        uint64_t word = below(UINT64_MAX); /* NaNs and all */
        memcpy(model->bytes + i, &word, 8);
    }
}

/* Cuts all elements in `count` runs, many of them empty. */
static void draw_cuts(const struct model *model, uint32_t count, uint64_t *cut)
{
    cut[0] = 0;
    for (uint32_t i = 1; i < count; i++) {
        uint64_t left = model->elements - cut[i - 1], most = 2 * left / (count - i + 1) + 1;
        cut[i] = cut[i - 1] + (below(3) == 0 ? 0 : below((most < left ? most : left) + 1));
    }
    cut[count] = model->elements;
}

/* Tensor, first and count of what run [first, end) has of each tensor, in a drawn order. */
static uint32_t ranges_of(const struct model *model, uint64_t first, uint64_t end,
                          struct ckpt_range *range)
{
    uint64_t at = 0;
    uint32_t used = 0;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        uint64_t from = first > at ? first : at, past = at + model->tensor[i].elements;
        if (past > end) past = end;
        if (from < past) range[used++] = (struct ckpt_range){i, from - at, past - from, NULL};
        at += model->tensor[i].elements;
    }
    if (used > 1 && below(2) == 0) {
        struct ckpt_range first_range = range[0];
        range[0] = range[used - 1];
        range[used - 1] = first_range;
    }
    return used;
}

static uint8_t *place(const struct model *model, uint8_t *bytes, const struct ckpt_range *range)
{
    return bytes + model->offset[range->tensor] +
           range->first * model->tensor[range->tensor].unit_bytes;
}

static void write_shard(struct store *store, const struct model *model, uint64_t first,
                        uint64_t end, struct ckpt_manifest *manifest, uint32_t index)
{
    struct ckpt_image image = {0};
    struct ckpt_range range[TENSORS_MAX];
    char name[STORE_NAME_BYTES];
    uint32_t ranges = ranges_of(model, first, end, range);
    for (uint32_t i = 0; i < ranges; i++) range[i].bytes = place(model, model->bytes, &range[i]);
    assert_true(ckpt_image_plan(&image, model->tensor, range, ranges, NULL));
    for (uint32_t i = image.part_count; i-- > 0;) ckpt_image_copy(&image, i);
    assert_true(ckpt_image_seal(&image, NULL));
    if (image.file_bytes > 0) {
        struct ckpt_file *file = &manifest->file[manifest->file_count++];
        *file =
            (struct ckpt_file){.bytes = image.file_bytes, .header_checksum = image.header_checksum};
        snprintf(file->name, sizeof file->name, "shard-%04u", index);
        ckpt_object_name(manifest->step, file->name, name);
        struct store_writer *writer = store_create(store, name, image.file_bytes, NULL);
        assert_non_null(writer);
        for (uint32_t i = 0; i < image.part_count; i++) {
            const uint8_t *bytes;
            size_t count = ckpt_image_part(&image, i, &bytes);
            assert_true(store_put_part(writer, i, bytes, count, NULL));
        }
        assert_true(store_commit(writer, NULL));
    }
    ckpt_image_free(&image);
}

static void write_checkpoint(struct store *store, const struct model *model, uint32_t members)
{
    uint64_t cut[MEMBERS_MAX + 1];
    struct ckpt_manifest manifest = {.step = 5, .steps = 9, .slots = 4};
    struct error error = {.text = ""};
    draw_cuts(model, members, cut);
    manifest.file = mem_zalloc(members, sizeof *manifest.file);
    manifest.tensor = mem_zalloc(model->tensor_count, sizeof *manifest.tensor);
    memcpy(manifest.tensor, model->tensor, model->tensor_count * sizeof *manifest.tensor);
    manifest.tensor_count = model->tensor_count;
    for (uint32_t i = 0; i < members; i++)
        write_shard(store, model, cut[i], cut[i + 1], &manifest, i);
    bool gathered = ckpt_gather(store, &manifest, &error);
    if (!gathered) printf("%s\n", error.text);
    assert_true(gathered);
    assert_true(ckpt_publish(store, &manifest, NULL));
    ckpt_manifest_free(&manifest);
}

static void read_checkpoint(struct store *store, const struct model *model, uint32_t members)
{
    uint64_t cut[MEMBERS_MAX + 1], bytes = model->offset[model->tensor_count];
    struct ckpt_manifest manifest;
    struct ckpt_range range[TENSORS_MAX];
    struct ckpt_sink sink[TENSORS_MAX];
    assert_true(ckpt_read_manifest(store, 5, &manifest, NULL));
    assert_true(ckpt_verify(store, &manifest, 1, NULL));
    draw_cuts(model, members, cut);
    memset(model->again, 0xa5, bytes);
    for (uint32_t k = 0; k < members; k++) {
        uint32_t ranges = ranges_of(model, cut[k], cut[k + 1], range);
        for (uint32_t i = 0; i < ranges; i++)
            sink[i] = (struct ckpt_sink){range[i].tensor, range[i].first, range[i].count,
                                         place(model, model->again, &range[i])};
        assert_true(ckpt_read(store, &manifest, sink, ranges, 1, NULL));
    }
    assert_memory_equal(model->again, model->bytes, bytes);
    ckpt_manifest_free(&manifest);
}

static void any_cut_reads_as_any_other(void **state)
{
    (void)state;
    static struct model model;
    model.bytes = mem_alloc(BYTES_MAX + 16);
    model.again = mem_alloc(BYTES_MAX + 16);
    for (uint64_t seed = 1; seed <= rounds; seed++) {
        random_state = seed;
        struct disk_sim *sim = disk_sim_new(seed);
        struct disk disk = disk_sim_disk(sim);
        struct store *store = store_dir_open("/d", &disk, NULL);
        make_model(&model);
        bool few = below(2) == 0;
        write_checkpoint(store, &model, 1 + (uint32_t)below(few ? 4 : MEMBERS_MAX));
        for (int again = 0; again < 3; again++)
            read_checkpoint(store, &model, 1 + (uint32_t)below(few ? MEMBERS_MAX : 4));
        store_close(store);
        disk_sim_free(sim);
    }
    mem_free(model.bytes);
    mem_free(model.again);
}

/* A manifest of two tensors in one file, before it is spoilt. */
static void small_manifest(struct ckpt_manifest *manifest, struct ckpt_tensor *tensor,
                           struct ckpt_piece *piece, struct ckpt_file *file)
{
    tensor[0] = (struct ckpt_tensor){"a", "param", {6}, 6, 1, 4, 0, 2};
    tensor[1] = (struct ckpt_tensor){"b", "moment", {2, 2}, 4, 2, 4, 2, 1};
    piece[0] = (struct ckpt_piece){0, 2, 8, 8, 0, 0};
    piece[1] = (struct ckpt_piece){2, 4, 16, 16, 0, 0};
    piece[2] = (struct ckpt_piece){0, 4, 32, 16, 0, 0};
    *file = (struct ckpt_file){"shard-0", 48, 8, 0};
    *manifest = (struct ckpt_manifest){.tensor = tensor,
                                       .piece = piece,
                                       .file = file,
                                       .tensor_count = 2,
                                       .piece_count = 3,
                                       .file_count = 1};
}

static void every_element_must_be_held_once(void **state)
{
    (void)state;
    static const char *const says[] = {
        NULL,
        "tensor a: elements 2 to 3 are in no piece",
        "tensor a: elements 1 to 2 are held twice",
        "tensor b: elements 3 to 4 are in no piece",
        "shard-0: the byte at 16 is in no piece or in two",
        "shard-0: the byte at 48 is in no piece or in two",
    };
    for (int spoilt = 0; spoilt < 6; spoilt++) {
        struct ckpt_manifest manifest;
        struct ckpt_tensor tensor[2];
        struct ckpt_piece piece[3];
        struct ckpt_file file;
        struct error error = {.text = ""};
        small_manifest(&manifest, tensor, piece, &file);
        if (spoilt == 1) piece[1].first = 3;
        if (spoilt == 2) piece[1].first = 1;
        if (spoilt == 3) piece[2].count = 3;
        if (spoilt == 4) piece[1].offset = 12;
        if (spoilt == 5) file.bytes = 52;
        assert_int_equal(ckpt_manifest_check(&manifest, &error), spoilt == 0);
        if (spoilt > 0) assert_string_equal(error.text, says[spoilt]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_reads_as_any_other),
        cmocka_unit_test(every_element_must_be_held_once),
    };
    if (argc > 1) rounds = strtoull(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
