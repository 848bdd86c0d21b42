#include "data.h"
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
    data->window_count = data->count == 0 ? 0 : (data->count - 1) / data->context;
    if (data->window_count == 0)
        return error_set(ret_error,
                         "%s: %zu bytes is too short for --context %u; give a text of at least %u "
                         "bytes or a smaller --context",
                         path, data->count, data->context, data->context + 1);
    void *map = mmap(NULL, data->count, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return error_set(ret_error, "%s: cannot map: %s", path, error_errno(errno));
    data->bytes = map;
    return true;
}

bool data_open(struct data *ret_data, const char *path, uint32_t context, uint64_t seed,
               struct error *ret_error)
{
    struct data data = {.context = context, .seed = seed};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a named pipe would wait */
    if (fd < 0)
        return error_set(ret_error,
                         "%s: cannot open: %s; give --data a readable text file, or make one with "
                         "examples/lm/text.sh FILE",
                         path, error_errno(errno));
    bool mapped = map_file(&data, fd, path, ret_error);
    (void)close(fd); /* read only; the map stays */
    if (mapped) *ret_data = data;
    return mapped;
}

void data_close(struct data *data)
{
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
    return data_permute(data->seed, sample / data->window_count, data->window_count,
                        sample % data->window_count);
}

void data_sample(const struct data *data, uint64_t sample, uint16_t *ret_tokens)
{
    const uint8_t *from = data->bytes + data_window(data, sample) * data->context;
    for (uint32_t i = 0; i <= data->context; i++) ret_tokens[i] = from[i];
}
