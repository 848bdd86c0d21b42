#include "data.h"
#include "base/mem.h"
#include "model.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FEISTEL_ROUNDS = 4 };

static bool map_file(struct data *data, int fd, const char *path, struct error *ret_error)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return error_set(ret_error, "%s: cannot stat: %s", path, error_errno(errno));
    if (!S_ISREG(facts.st_mode))
        return error_set(ret_error, "%s: not a file; give --data a plain text file", path);
    data->count = (size_t)facts.st_size;
    if (data->count == 0)
        return error_set(ret_error, "%s: is empty; give --data a text file", path);
    void *map = mmap(NULL, data->count, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return error_set(ret_error, "%s: cannot map: %s", path, error_errno(errno));
    data->bytes = map;
    return true;
}

static bool encode_part(const struct data *data, const uint8_t *bytes, size_t count,
                        struct data_part *ret_part, struct error *ret_error)
{
    *ret_part = (struct data_part){.bytes = bytes, .count = count};
    if (data->options.vocabulary > TOKENIZER_BYTES && count > 0) {
        ret_part->tokens = mem_alloc(count * sizeof *ret_part->tokens);
        if (ret_part->tokens == NULL)
            return error_set(ret_error, "out of memory for the tokens of the text");
        ret_part->bytes = NULL;
        ret_part->count = tokenizer_encode(&data->tokenizer, bytes, count, ret_part->tokens);
        uint16_t *fit = mem_realloc(ret_part->tokens, ret_part->count * sizeof *fit);
        if (fit != NULL) ret_part->tokens = fit; /* else it stays larger than it must be */
    }
    uint64_t context = data->options.context;
    ret_part->window_count = ret_part->count == 0 ? 0 : (ret_part->count - 1) / context;
    return true;
}

/* A text that has no window for training, or none that is held out though some should be. */
static bool check_parts(const struct data *data, const char *path, struct error *ret_error)
{
    uint32_t context = data->options.context, percent = data->options.held_out_percent;
    if (data->training.window_count == 0)
        return error_set(ret_error,
                         "%s: %zu tokens to train on are too few for --context %u; give a text of "
                         "more than %u tokens or a smaller --context",
                         path, data->training.count, context, context);
    if (percent > 0 && data->held_out.window_count == 0)
        return error_set(ret_error,
                         "%s: --held-out %u %% are %zu tokens, too few for --context %u; give a "
                         "longer text, a smaller --context, another --held-out, or --held-out 0 "
                         "for no evaluation",
                         path, percent, data->held_out.count, context);
    return true;
}

static bool cut_and_encode(struct data *data, const char *path, struct error *ret_error)
{
    size_t percent = data->options.held_out_percent;
    size_t held_out = data->count / 100 * percent + data->count % 100 * percent / 100;
    size_t training = data->count - held_out;
    if (!tokenizer_learn(&data->tokenizer, data->options.vocabulary, data->bytes, training,
                         ret_error))
        return error_prefix(ret_error, "%s", path);
    return encode_part(data, data->bytes, training, &data->training, ret_error) &&
           encode_part(data, data->bytes + training, held_out, &data->held_out, ret_error) &&
           check_parts(data, path, ret_error);
}

bool data_open(struct data *ret_data, const char *path, const struct data_options *options,
               struct error *ret_error)
{
    struct data data = {.options = *options};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a named pipe would wait */
    if (fd < 0)
        return error_set(ret_error,
                         "%s: cannot open: %s; give --data a readable text file, or make one with "
                         "examples/lm/text.sh FILE",
                         path, error_errno(errno));
    bool opened = map_file(&data, fd, path, ret_error);
    (void)close(fd); /* read only; the map stays */
    opened = opened && cut_and_encode(&data, path, ret_error);
    if (opened)
        *ret_data = data;
    else
        data_close(&data);
    return opened;
}

void data_close(struct data *data)
{
    mem_free(data->held_out.tokens);
    mem_free(data->training.tokens);
    tokenizer_free(&data->tokenizer);
    if (data->bytes != NULL) (void)munmap((void *)(uintptr_t)data->bytes, data->count);
    *data = (struct data){0};
}

/* Two halves of `half_bits` bits; each round adds a function of one half to the other. */
static uint64_t feistel(uint64_t seed, uint64_t epoch, uint32_t half_bits, uint64_t value)
{
    uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint64_t stream = epoch * FEISTEL_ROUNDS + round;
        uint64_t mixed = left ^ (counter_bits(seed, stream, right) & mask);
        left = right;
        right = mixed;
    }
    return left << half_bits | right;
}

uint64_t data_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index)
{
    uint32_t half_bits = 1;
    while (half_bits < 31 && (UINT64_C(1) << 2 * half_bits) < count) half_bits++;
    /* The network permutes [0, 4^half_bits), less than 4 times the range: following it from a
     * point inside must come back inside, after 4 steps on average at worst. */
    do index = feistel(seed, epoch, half_bits, index);
    while (index >= count);
    return index;
}

uint64_t data_window(const struct data *data, uint64_t sample)
{
    uint64_t count = data->training.window_count;
    return data_permute(data->options.seed, sample / count, count, sample % count);
}

static void copy_window(const struct data *data, const struct data_part *part, uint64_t window,
                        uint16_t *ret_tokens)
{
    size_t first = (size_t)window * data->options.context;
    for (size_t i = 0; i <= data->options.context; i++)
        ret_tokens[i] = part->bytes != NULL ? part->bytes[first + i] : part->tokens[first + i];
}

void data_sample(const struct data *data, uint64_t sample, uint16_t *ret_tokens)
{
    copy_window(data, &data->training, data_window(data, sample), ret_tokens);
}

void data_held_out(const struct data *data, uint64_t window, uint16_t *ret_tokens)
{
    copy_window(data, &data->held_out, window, ret_tokens);
}
