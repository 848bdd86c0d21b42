#include "base/io.h"
#include "base/mem.h"
#include "whatif/train.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC UINT64_C(0x31306e6961727473) /* "strain01" */

static_assert(sizeof(struct train_state) == 8 * 5 + (3 * RANK_WEIGHTS + 1) * 4, "no padding");

static uint64_t checksum_of(const struct train_state *state)
{
    const uint8_t *bytes = (const uint8_t *)state;
    uint64_t sum = 0;
    for (size_t i = 0; i < offsetof(struct train_state, checksum); i++)
        sum = (sum ^ bytes[i] ^ sum >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    return sum;
}

static bool is_there(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

bool train_state_read(const char *path, uint64_t identity, struct train_state *ret_state,
                      bool *ret_found, struct error *ret_error)
{
    char *bytes;
    size_t count;
    struct train_state state;
    *ret_found = false;
    if (!is_there(path)) return true;
    if (!io_read_file(path, sizeof state, &bytes, &count, ret_error)) return false;
    bool whole = count == sizeof state;
    if (whole) memcpy(&state, bytes, sizeof state);
    mem_free(bytes);
    if (!whole || state.magic != MAGIC || state.checksum != checksum_of(&state))
        return error_set(ret_error,
                         "%s is no state of a training, or damaged; remove it to begin anew", path);
    if (state.identity != identity)
        return error_set(ret_error,
                         "%s is of another training: other scenarios, traces, seeds or another "
                         "program; remove it, or write to another --out",
                         path);
    *ret_state = state;
    *ret_found = true;
    return true;
}

bool train_state_write(const char *path, struct train_state *state, struct error *ret_error)
{
    state->magic = MAGIC;
    state->checksum = checksum_of(state);
    return io_write_file(path, state, sizeof *state, 0644, ret_error);
}
