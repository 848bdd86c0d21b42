/* `shoal ckpt diff`: two checkpoints, tensor by tensor, in windows of WINDOW_BYTES of each. */
#include "base/mem.h"
#include "worker/ckpt/ckpt_read.h"
#include "worker/ckpt/ckpt_verbs.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WINDOW_BYTES = 64 << 20 };

struct difference {
    uint64_t elements, unordered; /* that differ; of those, with a NaN on either side */
    double largest;
};

static void compare_window(const struct ckpt_tensor *tensor, const uint8_t *left,
                           const uint8_t *right, uint64_t count, struct difference *difference)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *a = left + i * tensor->unit_bytes, *b = right + i * tensor->unit_bytes;
        if (memcmp(a, b, tensor->unit_bytes) == 0) continue;
        difference->elements++;
        float x, y;
        int16_t m, n;
        memcpy(&x, a, tensor->unit_bytes == 4 ? 4 : 0);
        memcpy(&y, b, tensor->unit_bytes == 4 ? 4 : 0);
        memcpy(&m, a, 2);
        memcpy(&n, b, 2);
        double gap = tensor->unit_bytes == 4 ? fabs((double)x - (double)y) : fabs((double)m - n);
        if (isnan(gap))
            difference->unordered++;
        else if (gap > difference->largest)
            difference->largest = gap;
    }
}

struct side {
    struct store *store;
    struct ckpt_manifest manifest;
    uint8_t *window;
};

static bool read_window(struct side *side, uint32_t tensor, uint64_t first, uint64_t count,
                        struct error *ret_error)
{
    struct ckpt_sink sink = {tensor, first, count, side->window};
    return ckpt_read(side->store, &side->manifest, &sink, 1, CKPT_READ_THREADS, ret_error);
}

static const struct ckpt_tensor *find_tensor(const struct ckpt_manifest *manifest, const char *name)
{
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        if (strcmp(manifest->tensor[i].name, name) == 0) return &manifest->tensor[i];
    return NULL;
}

static bool same_shape(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
    return a->dims == b->dims && a->unit_bytes == b->unit_bytes &&
           memcmp(a->shape, b->shape, a->dims * sizeof a->shape[0]) == 0;
}

static bool diff_tensor(struct side *left, struct side *right, const struct ckpt_tensor *a,
                        const struct ckpt_tensor *b, struct difference *ret_difference,
                        struct error *ret_error)
{
    uint64_t step = WINDOW_BYTES / a->unit_bytes;
    *ret_difference = (struct difference){0};
    for (uint64_t first = 0; first < a->elements; first += step) {
        uint64_t count = a->elements - first < step ? a->elements - first : step;
        if (!read_window(left, (uint32_t)(a - left->manifest.tensor), first, count, ret_error) ||
            !read_window(right, (uint32_t)(b - right->manifest.tensor), first, count, ret_error))
            return false;
        compare_window(a, left->window, right->window, count, ret_difference);
    }
    return true;
}

/* One line or row: the tensor is only on one side, of another shape, or holds other values. */
static void tell_difference(bool json, json_t *rows, const char *name, const char *how,
                            const struct difference *difference)
{
    if (json)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:I, s:I, s:f}", "name", name, "how", how,
                                              "elements", (json_int_t)difference->elements,
                                              "with_nan", (json_int_t)difference->unordered,
                                              "largest", difference->largest));
    else if (difference->elements == 0)
        printf("%s: %s\n", name, how);
    else
        printf("%s: %" PRIu64 " elements differ, by %.9g at most%s\n", name, difference->elements,
               difference->largest, difference->unordered > 0 ? ", some are NaN" : "");
}

/* Returns how many tensors differ, or -1. */
static int diff_tensors(struct side *left, struct side *right, bool json, json_t *rows,
                        struct error *ret_error)
{
    static const struct difference none;
    int differing = 0;
    for (uint32_t i = 0; i < left->manifest.tensor_count; i++) {
        const struct ckpt_tensor *a = &left->manifest.tensor[i];
        const struct ckpt_tensor *b = find_tensor(&right->manifest, a->name);
        struct difference difference = none;
        const char *how = b == NULL ? "only in the first" : "values";
        if (b != NULL && !same_shape(a, b)) how = "of another shape";
        bool comparable = b != NULL && same_shape(a, b);
        if (comparable && !diff_tensor(left, right, a, b, &difference, ret_error)) return -1;
        if (comparable && difference.elements == 0) continue;
        tell_difference(json, rows, a->name, how, &difference);
        differing++;
    }
    for (uint32_t i = 0; i < right->manifest.tensor_count; i++) {
        const char *name = right->manifest.tensor[i].name;
        if (find_tensor(&left->manifest, name) != NULL) continue;
        tell_difference(json, rows, name, "only in the second", &none);
        differing++;
    }
    return differing;
}

static int diff_sides(const struct ckpt_arguments *arguments, struct side *left, struct side *right,
                      struct error *ret_error)
{
    left->window = mem_alloc(WINDOW_BYTES);
    right->window = mem_alloc(WINDOW_BYTES);
    json_t *rows = json_array();
    int differing = -1;
    if (left->window == NULL || right->window == NULL)
        (void)error_set(ret_error, "out of memory for comparing");
    else
        differing = diff_tensors(left, right, arguments->json, rows, ret_error);
    if (differing >= 0 && arguments->json)
        ckpt_print_json(json_pack("{s:I, s:I, s:O}", "step", (json_int_t)left->manifest.step,
                                  "other_step", (json_int_t)right->manifest.step, "tensors", rows));
    else if (differing >= 0)
        printf("%d of %u tensors differ between step %" PRIu64 " and step %" PRIu64 "\n", differing,
               left->manifest.tensor_count, left->manifest.step, right->manifest.step);
    json_decref(rows);
    mem_free(left->window);
    mem_free(right->window);
    return differing;
}

int ckpt_verb_diff(const struct ckpt_arguments *arguments)
{
    struct error error;
    struct side left = {.store = arguments->store}, right = {0};
    const char *other = arguments->other == NULL ? arguments->address : arguments->other;
    right.store = store_open(other, &error);
    int differing = -1;
    if (right.store != NULL &&
        ckpt_pick(left.store, arguments->has_step, arguments->step, &left.manifest, &error) &&
        ckpt_pick(right.store, arguments->has_other_step, arguments->other_step, &right.manifest,
                  &error))
        differing = diff_sides(arguments, &left, &right, &error);
    ckpt_manifest_free(&left.manifest);
    ckpt_manifest_free(&right.manifest);
    store_close(right.store);
    if (differing < 0) return ckpt_refuse(&error);
    return differing == 0 ? 0 : 1;
}
