#include "worker/job.h"
#include "base/mem.h"
#include "worker/core/limits.h"
#include "worker/core/member.h"
#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "wire and files are little-endian");

/* Names go into JSON and file keys: printable ASCII without quote and backslash. */
static bool name_is_fine(const char *name)
{
    if (name == NULL || name[0] == '\0' || strlen(name) >= JOB_NAME_BYTES) return false;
    for (const char *at = name; *at != '\0'; at++)
        if (*at < 0x21 || *at > 0x7e || *at == '"' || *at == '\\') return false;
    return strncmp(name, "shoal.", 6) != 0 && strchr(name, '@') == NULL;
}

static bool copy_tensor(struct job_tensor *into, const struct shoal_tensor *from, bool is_param,
                        struct error *ret_error)
{
    if (!name_is_fine(from->name))
        return error_set(ret_error,
                         "tensor name \"%s\": use 1 to %d printable characters without quotes, "
                         "backslash and @, not beginning with shoal.",
                         from->name == NULL ? "" : from->name, JOB_NAME_BYTES - 1);
    if (from->dims > SHOAL_DIMS_MAX)
        return error_set(ret_error, "tensor %s: %u dimensions are more than the limit of %d",
                         from->name, from->dims, SHOAL_DIMS_MAX);
    uint64_t count = 1;
    for (uint32_t i = 0; i < from->dims; i++)
        if (__builtin_mul_overflow(count, from->shape[i], &count) || count > UINT64_C(1) << 40)
            return error_set(ret_error, "tensor %s: more than 2^40 elements", from->name);
    if (count > 0 && from->data == NULL)
        return error_set(ret_error, "tensor %s: data is NULL", from->name);
    memcpy(into->name, from->name, strlen(from->name) + 1);
    memcpy(into->shape, from->shape, sizeof into->shape);
    into->data = from->data;
    into->dims = from->dims;
    into->element_count = count;
    into->is_param = is_param;
    return true;
}

static int compare_names(const void *left, const void *right)
{
    const struct job_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static bool names_differ(const struct job *job, struct error *ret_error)
{
    const struct job_tensor **sorted = mem_zalloc(job->tensor_count, sizeof(struct job_tensor *));
    if (sorted == NULL) return error_set(ret_error, "out of memory for tensor names");
    for (uint32_t i = 0; i < job->tensor_count; i++) sorted[i] = &job->tensors[i];
    qsort(sorted, job->tensor_count, sizeof *sorted, compare_names);
    bool differ = true;
    for (uint32_t i = 1; i < job->tensor_count && differ; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            differ = error_set(ret_error, "tensor %s is given twice", sorted[i]->name);
    mem_free(sorted);
    return differ;
}

static bool copy_tensors(struct job *job, const struct shoal_options *options,
                         struct error *ret_error)
{
    uint64_t count = (uint64_t)options->param_count + options->state_count;
    if (options->param_count == 0 || options->params == NULL)
        return error_set(ret_error, "shoal_options.params: at least one tensor is needed");
    if (count > JOB_TENSORS_MAX || (options->state_count > 0 && options->state == NULL))
        return error_set(ret_error, "shoal_options: %llu tensors, or state is NULL; at most %d",
                         (unsigned long long)count, JOB_TENSORS_MAX);
    job->tensors = mem_zalloc(count, sizeof *job->tensors);
    if (job->tensors == NULL) return error_set(ret_error, "out of memory for the tensor list");
    job->tensor_count = (uint32_t)count;
    job->param_count = options->param_count;
    for (uint32_t i = 0; i < count; i++) {
        bool is_param = i < options->param_count;
        const struct shoal_tensor *from =
            is_param ? &options->params[i] : &options->state[i - options->param_count];
        if (!copy_tensor(&job->tensors[i], from, is_param, ret_error)) return false;
        job->weight_count += job->tensors[i].element_count;
        if (is_param) job->gradient_count += job->tensors[i].element_count;
    }
    return names_differ(job, ret_error);
}

/* In checkpoints the moment of a param is called "moment/param". */
static bool moment_fits(const struct job *job, const char *moment, struct error *ret_error)
{
    size_t length = strlen(moment);
    for (uint32_t i = 0; i < job->tensor_count; i++) {
        const char *name = job->tensors[i].name;
        if (length + 1 + strlen(name) >= JOB_NAME_BYTES)
            return error_set(ret_error, "moment %s of tensor %s: together longer than %d", moment,
                             name, JOB_NAME_BYTES - 2);
        if (strncmp(name, moment, length) == 0 && name[length] == '/')
            return error_set(ret_error, "tensor %s: a name of moment %s; rename one", name, moment);
    }
    return true;
}

static bool copy_moments(struct job *job, const struct shoal_options *options,
                         struct error *ret_error)
{
    uint32_t count = options->moment_count;
    if (count == 0) return true;
    if (count > SHOAL_MOMENTS_MAX || options->moment_names == NULL)
        return error_set(ret_error, "moment_count %u: at most %d, each with a name in moment_names",
                         count, SHOAL_MOMENTS_MAX);
    if (options->state_count > 0)
        return error_set(ret_error,
                         "state_count %u: a program gives either state or moments, as "
                         "state must change on all workers alike",
                         options->state_count);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = options->moment_names[i];
        if (!name_is_fine(name) || strchr(name, '/') != NULL)
            return error_set(ret_error, "moment name \"%s\": as tensor names, and without /",
                             name == NULL ? "" : name);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(name, job->moment_name[k]) == 0)
                return error_set(ret_error, "moment %s is given twice", name);
        if (!moment_fits(job, name, ret_error)) return false;
        memcpy(job->moment_name[i], name, strlen(name) + 1);
    }
    job->moment_count = count;
    return true;
}

static bool make_layout(struct job *job, struct error *ret_error)
{
    uint32_t tensors = job->param_count + 1;
    uint64_t *counts = mem_zalloc(tensors, sizeof *counts);
    if (counts == NULL) return error_set(ret_error, "out of memory for the gradient layout");
    for (uint32_t i = 0; i < job->param_count; i++) counts[i] = job->tensors[i].element_count;
    counts[job->param_count] = 1; /* the loss */
    uint64_t blocks = layout_blocks(counts, tensors);
    uint64_t *start = mem_zalloc(blocks + 1, sizeof *start);
    uint32_t *tensor_block = mem_zalloc((size_t)tensors + 1, sizeof *tensor_block);
    if (start == NULL || tensor_block == NULL || blocks >= UINT32_MAX) {
        mem_free(counts);
        mem_free(start);
        mem_free(tensor_block);
        return error_set(ret_error, "out of memory for the gradient layout");
    }
    layout_init(&job->layout, counts, tensors, start, tensor_block);
    job->layout.part_blocks_min = LAYOUT_PART_BLOCKS_MIN;
    mem_free(counts);
    return true;
}

bool job_read_number(const char *name, uint64_t maximum, uint64_t *value, struct error *ret_error)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') return true;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || text[0] == '-' || number > maximum)
        return error_set(ret_error, "%s=%s: expected a whole number up to %llu", name, text,
                         (unsigned long long)maximum);
    *value = number;
    return true;
}

/* What options and environment say: steps, 0 for never, or MEMBER_SAVE_AUTO. */
static bool read_every(struct job *job, uint32_t asked, struct error *ret_error)
{
    const char *text = getenv("SHOAL_CHECKPOINT_EVERY");
    uint64_t every = asked;
    job->checkpoint_every = 0;
    if (asked == SHOAL_CHECKPOINT_NEVER) return true;
    bool unset = text == NULL || text[0] == '\0';
    if (asked == SHOAL_CHECKPOINT_AUTO || (asked == 0 && (unset || strcmp(text, "auto") == 0))) {
        job->checkpoint_every = MEMBER_SAVE_AUTO;
        return true;
    }
    if (asked == 0 && strcmp(text, "never") == 0) return true;
    if (asked == 0 &&
        !job_read_number("SHOAL_CHECKPOINT_EVERY", SHOAL_CHECKPOINT_AUTO - 1, &every, NULL))
        return error_set(ret_error,
                         "SHOAL_CHECKPOINT_EVERY=%.60s: expected a number of steps, auto or never",
                         text);
    job->checkpoint_every = (uint32_t)every;
    return true;
}

static bool read_on_nan(struct job *job, uint32_t option, struct error *ret_error)
{
    static const char *const names[] = {"", "continue", "skip", "stop"};
    const char *text = getenv("SHOAL_ON_NAN");
    job->on_nan = (enum shoal_on_nan)option;
    if (option > SHOAL_NAN_STOP)
        return error_set(ret_error, "shoal_options.on_nan: %u is not of enum shoal_on_nan", option);
    if (option != SHOAL_NAN_UNSET) return true;
    job->on_nan = SHOAL_NAN_CONTINUE;
    if (text == NULL || text[0] == '\0') return true;
    for (uint32_t i = SHOAL_NAN_CONTINUE; i <= SHOAL_NAN_STOP; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        job->on_nan = (enum shoal_on_nan)i;
        return true;
    }
    return error_set(ret_error, "SHOAL_ON_NAN=%.40s: expected continue, skip or stop", text);
}

static bool read_counts(struct job *job, const struct shoal_options *options,
                        struct error *ret_error)
{
    uint64_t slots = options->slots, steps = options->steps;
    uint64_t gang = 1;
    if (slots == 0 && !job_read_number("SHOAL_SLOTS", SHOAL_SLOTS_MAX, &slots, ret_error))
        return false;
    if (steps == 0 && !job_read_number("SHOAL_STEPS", INT64_MAX, &steps, ret_error)) return false;
    if (!read_every(job, options->checkpoint_every, ret_error)) return false;
    if (!read_on_nan(job, options->on_nan, ret_error)) return false;
    if (!job_read_number("SHOAL_GANG", GROUP_MEMBERS_MAX, &gang, ret_error) ||
        !job_read_number("SHOAL_JOB", INT64_MAX, &job->job_id, ret_error) ||
        !job_read_number("SHOAL_WORKER", INT64_MAX, &job->worker_id, ret_error) ||
        !job_read_number("SHOAL_EMULATE_SLOT_US", 1000000000, &job->emulate_slot_us, ret_error))
        return false;
    if (gang == 0)
        return error_set(ret_error, "SHOAL_GANG=0: a job begins with one worker or more; leave it "
                                    "unset for one");
    if (slots == 0 || slots > SHOAL_SLOTS_MAX)
        return error_set(ret_error, "slots: set shoal_options.slots or SHOAL_SLOTS to 1 .. %d",
                         SHOAL_SLOTS_MAX);
    if (gang > slots)
        return error_set(ret_error,
                         "slots: %llu are fewer than the %llu workers the job begins with "
                         "(SHOAL_GANG); give at least one slot a worker",
                         (unsigned long long)slots, (unsigned long long)gang);
    if (steps == 0)
        return error_set(ret_error, "steps: set shoal_options.steps or SHOAL_STEPS to 1 or more");
    job->slots = (uint32_t)slots;
    job->steps = steps;
    job->gang = (uint32_t)gang;
    job->samples_per_slot = options->samples_per_slot;
    job->tokens_per_sample = options->tokens_per_sample == 0 ? 1 : options->tokens_per_sample;
    return true;
}

static bool read_texts(struct job *job, const struct shoal_options *options,
                       struct error *ret_error)
{
    const char *dir = options->checkpoint_dir;
    if (dir == NULL) dir = getenv("SHOAL_CHECKPOINT_DIR");
    if (dir != NULL && dir[0] != '\0') {
        job->checkpoint_dir = mem_strdup(dir);
        if (job->checkpoint_dir == NULL) return error_set(ret_error, "out of memory for a path");
    }
    const char *zone = getenv("SHOAL_ZONE");
    if (zone != NULL && zone[0] != '\0') job->zone = XXH3_64bits(zone, strlen(zone));
    const char *token = getenv("SHOAL_TOKEN");
    if (token == NULL) return true;
    if (strlen(token) >= sizeof job->token)
        return error_set(ret_error, "SHOAL_TOKEN: longer than %d characters", JOB_TOKEN_BYTES - 1);
    memcpy(job->token, token, strlen(token) + 1);
    return true;
}

static uint64_t model_of(const struct job *job)
{
    uint64_t hash = job->param_count;
    for (uint32_t i = 0; i < job->tensor_count; i++) {
        const struct job_tensor *tensor = &job->tensors[i];
        hash = XXH3_64bits_withSeed(tensor->name, strlen(tensor->name), hash);
        hash = XXH3_64bits_withSeed(tensor->shape, tensor->dims * sizeof tensor->shape[0], hash);
        hash = XXH3_64bits_withSeed(&tensor->is_param, sizeof tensor->is_param, hash);
    }
    for (uint32_t i = 0; i < job->moment_count; i++)
        hash = XXH3_64bits_withSeed(job->moment_name[i], strlen(job->moment_name[i]), hash);
    return hash;
}

static_assert(JOB_TENSORS_MAX * 4 + 1024 <= WIRE_PAYLOAD_MAX, "all marks fit a hello");

static bool mark_tensors(struct job *job, struct error *ret_error)
{
    job->marks = mem_alloc((size_t)job->tensor_count * 4);
    if (job->marks == NULL) return error_set(ret_error, "out of memory for the tensor list");
    for (uint32_t i = 0; i < job->tensor_count; i++) {
        const struct job_tensor *tensor = &job->tensors[i];
        uint64_t hash = XXH3_64bits_withSeed(tensor->name, strlen(tensor->name), tensor->dims);
        hash = XXH3_64bits_withSeed(tensor->shape, tensor->dims * sizeof tensor->shape[0],
                                    hash + tensor->is_param);
        memcpy(job->marks + (size_t)i * 4, &hash, 4);
    }
    return true;
}

static void describe(const struct job_tensor *tensor, char *text, size_t bytes)
{
    int at = snprintf(text, bytes, "%s [", tensor->name);
    for (uint32_t d = 0; d < tensor->dims && at > 0 && (size_t)at < bytes; d++)
        at += snprintf(text + at, bytes - (size_t)at, d == 0 ? "%llu" : ", %llu",
                       (unsigned long long)tensor->shape[d]);
    if (at > 0 && (size_t)at < bytes) (void)snprintf(text + at, bytes - (size_t)at, "]");
}

void job_difference(const struct job *job, const struct wire_hello *theirs, char *ret_text,
                    size_t text_bytes)
{
    static const char cure[] = "run the same program with the same options";
    char name[JOB_NAME_BYTES + 100];
    uint32_t same = 0;
    while (same < job->tensor_count && same < theirs->tensor_count &&
           memcmp(job->marks + (size_t)same * 4, theirs->tensor_marks + (size_t)same * 4, 4) == 0)
        same++;
    if (same < job->tensor_count) {
        describe(&job->tensors[same], name, sizeof name);
        (void)snprintf(ret_text, text_bytes,
                       "has %s tensor where this worker's tensor %u is %s; %s",
                       same < theirs->tensor_count ? "another" : "no", same, name, cure);
    } else if (same < theirs->tensor_count) {
        describe(&job->tensors[same - 1], name, sizeof name);
        (void)snprintf(ret_text, text_bytes, "has %u more tensors behind %s, the last one here; %s",
                       theirs->tensor_count - same, name, cure);
    } else if (theirs->slots != job->slots) {
        (void)snprintf(ret_text, text_bytes, "has %u slots, this worker %u; %s", theirs->slots,
                       job->slots, cure);
    } else if (theirs->samples_per_slot != job->samples_per_slot) {
        (void)snprintf(ret_text, text_bytes, "has %u samples a slot, this worker %u; %s",
                       theirs->samples_per_slot, job->samples_per_slot, cure);
    } else {
        (void)snprintf(ret_text, text_bytes, "trains for %llu steps, this worker for %llu; %s",
                       (unsigned long long)theirs->steps, (unsigned long long)job->steps, cure);
    }
}

static uint64_t plan_of(const struct job *job)
{
    const uint64_t words[] = {job->slots, job->samples_per_slot, job->steps, job->on_nan};
    return XXH3_64bits_withSeed(words, sizeof words, job->model);
}

bool job_init(struct job *job, const struct shoal_options *options, struct error *ret_error)
{
    *job = (struct job){0};
    if (read_counts(job, options, ret_error) && read_texts(job, options, ret_error) &&
        copy_tensors(job, options, ret_error) && copy_moments(job, options, ret_error) &&
        make_layout(job, ret_error) && mark_tensors(job, ret_error)) {
        job->identity = options->identity;
        job->model = model_of(job);
        job->plan = plan_of(job);
        return true;
    }
    job_free(job);
    return false;
}

void job_free(struct job *job)
{
    mem_free(job->tensors);
    mem_free(job->marks);
    mem_free(job->checkpoint_dir);
    mem_free(job->layout.start);
    mem_free(job->layout.tensor_block);
    *job = (struct job){0};
}

void job_weights_sha256(const struct job *job, char text[65])
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool fine = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (uint32_t i = 0; i < job->tensor_count && fine; i++)
        fine = EVP_DigestUpdate(context, job->tensors[i].data,
                                job->tensors[i].element_count * sizeof(float)) == 1;
    fine = fine && EVP_DigestFinal_ex(context, digest, NULL) == 1;
    EVP_MD_CTX_free(context);
    text[0] = '\0';
    for (int i = 0; fine && i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

uint64_t job_weights_hash(const struct job *job)
{
    uint64_t hash = job->model;
    for (uint32_t i = 0; i < job->tensor_count; i++)
        hash = XXH3_64bits_withSeed(job->tensors[i].data,
                                    job->tensors[i].element_count * sizeof(float), hash);
    return hash;
}
