#define XXH_STATIC_LINKING_ONLY /* the state of XXH3 on the stack */
#include "worker/ckpt/ckpt_read.h"
#include "base/mem.h"
#include "base/pages.h"
#include "worker/ckpt/ckpt_store.h"
#include "worker/ckpt/safetensors.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    BLOCK_BYTES = 128 << 10, /* hashed, then copied while it is in the cache */
    BUFFER_ALIGN = 2 << 20,  /* whole large pages; a multiple of STORE_ALIGN */
};

/* A piece that is to be read, and whose. */
struct wanted {
    const struct ckpt_piece *piece;
    uint32_t tensor;
};

struct reading {
    struct store *store;
    const struct ckpt_manifest *manifest;
    struct ckpt_sink *sink; /* by tensor and first element */
    uint32_t sink_count;
    struct wanted *wanted; /* by file and offset */
    uint32_t wanted_count;
    uint32_t *unit; /* first wanted of each read, and the end: what lies in one part of a file */
    uint32_t unit_count;
    _Atomic uint32_t next_unit;
    pthread_mutex_t lock;
    uint32_t failed_unit; /* UINT32_MAX: none */
    struct error error;
};

static int compare_sinks(const void *left, const void *right)
{
    const struct ckpt_sink *a = left, *b = right;
    if (a->tensor != b->tensor) return a->tensor < b->tensor ? -1 : 1;
    return a->first == b->first ? 0 : a->first < b->first ? -1 : 1;
}

static int compare_wanted(const void *left, const void *right)
{
    const struct ckpt_piece *a = ((const struct wanted *)left)->piece,
                            *b = ((const struct wanted *)right)->piece;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return a->offset == b->offset ? 0 : a->offset < b->offset ? -1 : 1;
}

/* The first sink that ends behind `first` of the tensor; sinks do not overlap. */
static uint32_t find_sink(const struct reading *r, uint32_t tensor, uint64_t first)
{
    uint32_t low = 0, high = r->sink_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct ckpt_sink *sink = &r->sink[middle];
        bool before =
            sink->tensor < tensor || (sink->tensor == tensor && sink->first + sink->count <= first);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_needed(const struct reading *r, uint32_t tensor, const struct ckpt_piece *piece)
{
    if (r->sink == NULL) return true;
    uint32_t at = find_sink(r, tensor, piece->first);
    while (at < r->sink_count && r->sink[at].count == 0) at++;
    return at < r->sink_count && r->sink[at].tensor == tensor &&
           r->sink[at].first < piece->first + piece->count;
}

static void list_wanted(struct reading *r)
{
    const struct ckpt_manifest *manifest = r->manifest;
    for (uint32_t i = 0; i < manifest->tensor_count; i++)
        for (uint32_t k = 0; k < manifest->tensor[i].piece_count; k++) {
            const struct ckpt_piece *piece = &manifest->piece[manifest->tensor[i].first_piece + k];
            if (is_needed(r, i, piece)) r->wanted[r->wanted_count++] = (struct wanted){piece, i};
        }
    if (r->wanted_count > 1) qsort(r->wanted, r->wanted_count, sizeof *r->wanted, compare_wanted);
    for (uint32_t i = 0; i < r->wanted_count; i++) {
        const struct ckpt_piece *piece = r->wanted[i].piece;
        const struct ckpt_piece *last = i == 0 ? NULL : r->wanted[i - 1].piece;
        bool same = last != NULL && last->file == piece->file &&
                    last->offset / STORE_PART_BYTES == piece->offset / STORE_PART_BYTES;
        if (!same) r->unit[r->unit_count++] = i;
    }
    r->unit[r->unit_count] = r->wanted_count;
}

/* Copies what the sinks want of elements [begin, past) of a tensor. */
static void hand_out(const struct reading *r, uint32_t tensor, uint64_t begin, uint64_t past,
                     const uint8_t *bytes)
{
    uint32_t unit_bytes = r->manifest->tensor[tensor].unit_bytes;
    for (uint32_t i = find_sink(r, tensor, begin); i < r->sink_count; i++) {
        const struct ckpt_sink *sink = &r->sink[i];
        if (sink->tensor != tensor || sink->first >= past) return;
        uint64_t first = sink->first > begin ? sink->first : begin;
        uint64_t end = sink->first + sink->count < past ? sink->first + sink->count : past;
        if (first < end)
            pages_copy_past_cache((uint8_t *)sink->bytes + (first - sink->first) * unit_bytes,
                                  bytes + (first - begin) * unit_bytes, (end - first) * unit_bytes);
    }
}

/* Hands a piece out and says whether it was sound: sinks hold rubbish if it was not. */
static bool take_piece(const struct reading *r, const struct wanted *wanted, const uint8_t *bytes)
{
    const struct ckpt_piece *piece = wanted->piece;
    uint32_t unit_bytes = r->manifest->tensor[wanted->tensor].unit_bytes;
    XXH3_state_t state;
    (void)XXH3_64bits_reset(&state); /* fails on NULL alone, as does update */
    for (uint64_t at = 0; at < piece->bytes; at += BLOCK_BYTES) {
        uint64_t count = piece->bytes - at < BLOCK_BYTES ? piece->bytes - at : BLOCK_BYTES;
        uint64_t begin = piece->first + at / unit_bytes;
        (void)XXH3_64bits_update(&state, bytes + at, count);
        hand_out(r, wanted->tensor, begin, begin + count / unit_bytes, bytes + at);
    }
    return XXH3_64bits_digest(&state) == piece->checksum;
}

/* One thread's: the file it is at, and a buffer that any unit fits in. */
struct hand {
    struct reading *reading;
    struct store_reader *reader;
    uint32_t file;
    void *memory;
    uint8_t *buffer;
};

static bool turn_to(struct hand *hand, uint32_t index, struct error *ret_error)
{
    struct reading *r = hand->reading;
    const struct ckpt_file *file = &r->manifest->file[index];
    char name[STORE_NAME_BYTES];
    uint64_t bytes;
    if (hand->reader != NULL && hand->file == index) return true;
    store_close_object(hand->reader);
    hand->reader = NULL;
    ckpt_object_name(r->manifest->step, file->name, name);
    hand->reader = store_open_object(r->store, name, &bytes, ret_error);
    hand->file = index;
    if (hand->reader == NULL) return false;
    return bytes == file->bytes ||
           error_set(ret_error,
                     "%s/%s: %" PRIu64 " bytes, the manifest says %" PRIu64 " (truncated?)",
                     store_url(r->store), name, bytes, file->bytes);
}

static bool say_damaged(const struct reading *r, const struct wanted *wanted,
                        struct error *ret_error)
{
    const struct ckpt_piece *piece = wanted->piece;
    char name[STORE_NAME_BYTES];
    ckpt_object_name(r->manifest->step, r->manifest->file[piece->file].name, name);
    return error_set(ret_error,
                     "%s/%s: tensor %s, elements %" PRIu64 " to %" PRIu64 ", at byte %" PRIu64
                     ": the checksum does not match (damaged)",
                     store_url(r->store), name, r->manifest->tensor[wanted->tensor].name,
                     piece->first, piece->first + piece->count, piece->offset);
}

static bool read_unit(struct hand *hand, uint32_t unit, struct error *ret_error)
{
    const struct reading *r = hand->reading;
    const struct wanted *first = &r->wanted[r->unit[unit]], *end = &r->wanted[r->unit[unit + 1]];
    const struct ckpt_file *file = &r->manifest->file[first->piece->file];
    uint64_t from = first->piece->offset / STORE_ALIGN * STORE_ALIGN;
    uint64_t to = end[-1].piece->offset + end[-1].piece->bytes;
    to = (to + STORE_ALIGN - 1) / STORE_ALIGN * STORE_ALIGN;
    if (to > file->bytes) to = file->bytes;
    if (to - from > STORE_PART_BYTES) return say_damaged(r, first, ret_error); /* cut elsewhere */
    if (!turn_to(hand, first->piece->file, ret_error) ||
        !store_read(hand->reader, from, hand->buffer, to - from, ret_error))
        return false;
    for (const struct wanted *at = first; at < end; at++) {
        if (!take_piece(r, at, hand->buffer + (at->piece->offset - from)))
            return say_damaged(r, at, ret_error);
    }
    return true;
}

static void note_failure(struct reading *r, uint32_t unit, const struct error *error)
{
    (void)pthread_mutex_lock(&r->lock); /* fails on misuse only */
    if (unit < r->failed_unit) {
        r->failed_unit = unit;
        r->error = *error;
    }
    (void)pthread_mutex_unlock(&r->lock);
    atomic_store(&r->next_unit, r->unit_count); /* the others need not go on */
}

static void *read_units(void *self)
{
    struct reading *r = self;
    struct hand hand = {.reading = r, .memory = mem_alloc(STORE_PART_BYTES + BUFFER_ALIGN)};
    struct error error;
    if (hand.memory == NULL) {
        (void)error_set(&error, "out of memory for reading a checkpoint");
        note_failure(r, 0, &error);
        return NULL;
    }
    size_t skip = (BUFFER_ALIGN - (uintptr_t)hand.memory % BUFFER_ALIGN) % BUFFER_ALIGN;
    hand.buffer = (uint8_t *)hand.memory + skip;
    pages_will_fill(hand.buffer, STORE_PART_BYTES);
    for (;;) {
        uint32_t unit = atomic_load(&r->next_unit);
        while (unit < r->unit_count &&
               !atomic_compare_exchange_weak(&r->next_unit, &unit, unit + 1)) {}
        if (unit >= r->unit_count) break;
        if (!read_unit(&hand, unit, &error)) note_failure(r, unit, &error);
    }
    store_close_object(hand.reader);
    mem_free(hand.memory);
    return NULL;
}

/* This thread, and as many more as start. */
static void read_in_parallel(struct reading *r, uint32_t threads)
{
    pthread_t more[64];
    uint32_t started = 0;
    if (threads > 64) threads = 64;
    if (threads > r->unit_count) threads = r->unit_count;
    while (started + 1 < threads && pthread_create(&more[started], NULL, read_units, r) == 0)
        started++;
    (void)read_units(r);
    for (uint32_t i = 0; i < started; i++) (void)pthread_join(more[i], NULL);
}

static bool set_up(struct reading *r, const struct ckpt_sink *sink, struct error *ret_error)
{
    uint32_t pieces = r->manifest->piece_count;
    r->wanted = mem_zalloc((size_t)pieces + 1, sizeof *r->wanted);
    r->unit = mem_zalloc((size_t)pieces + 1, sizeof *r->unit);
    if (sink != NULL) r->sink = mem_zalloc((size_t)r->sink_count + 1, sizeof *r->sink);
    if (r->wanted == NULL || r->unit == NULL || (sink != NULL && r->sink == NULL))
        return error_set(ret_error, "out of memory for reading %u pieces", pieces);
    if (sink != NULL && r->sink_count > 0) {
        memcpy(r->sink, sink, r->sink_count * sizeof *sink);
        qsort(r->sink, r->sink_count, sizeof *r->sink, compare_sinks);
    }
    list_wanted(r);
    return true;
}

bool ckpt_read(struct store *store, const struct ckpt_manifest *manifest,
               const struct ckpt_sink *sink, uint32_t sink_count, uint32_t threads,
               struct error *ret_error)
{
    struct reading r = {.store = store,
                        .manifest = manifest,
                        .sink_count = sink_count,
                        .failed_unit = UINT32_MAX,
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    bool fine = set_up(&r, sink, ret_error);
    if (fine && r.unit_count > 0) read_in_parallel(&r, threads);
    if (fine && r.failed_unit != UINT32_MAX) {
        fine = false;
        if (ret_error != NULL) *ret_error = r.error;
    }
    mem_free(r.wanted);
    mem_free(r.unit);
    mem_free(r.sink);
    return fine;
}

static bool verify_header(struct store *store, const struct ckpt_manifest *manifest,
                          const struct ckpt_file *file, struct error *ret_error)
{
    char name[STORE_NAME_BYTES];
    struct safetensors tensors;
    uint64_t bytes;
    ckpt_object_name(manifest->step, file->name, name);
    struct store_reader *reader = store_open_object(store, name, &bytes, ret_error);
    char *header = reader == NULL ? NULL : mem_alloc(file->header_bytes + 1);
    bool fine = header != NULL;
    if (reader != NULL && header == NULL)
        (void)error_set(ret_error, "%s: out of memory for its header", name);
    if (fine && bytes != file->bytes)
        fine = error_set(ret_error,
                         "%s/%s: %" PRIu64 " bytes, the manifest says %" PRIu64 " (truncated?)",
                         store_url(store), name, bytes, file->bytes);
    fine = fine && store_read(reader, 0, header, file->header_bytes, ret_error);
    if (fine && XXH3_64bits(header, file->header_bytes) != file->header_checksum)
        fine =
            error_set(ret_error, "%s/%s: header, at byte 0: the checksum does not match (damaged)",
                      store_url(store), name);
    if (fine) {
        fine = safetensors_parse(header, file->header_bytes, bytes, &tensors, ret_error);
        if (fine)
            safetensors_free(&tensors);
        else
            (void)error_prefix(ret_error, "%s/%s", store_url(store), name);
    }
    mem_free(header);
    store_close_object(reader);
    return fine;
}

bool ckpt_verify(struct store *store, const struct ckpt_manifest *manifest, uint32_t threads,
                 struct error *ret_error)
{
    for (uint32_t i = 0; i < manifest->file_count; i++)
        if (!verify_header(store, manifest, &manifest->file[i], ret_error)) return false;
    return ckpt_read(store, manifest, NULL, 0, threads, ret_error);
}
