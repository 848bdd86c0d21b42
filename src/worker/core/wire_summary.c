/* The summary of a rank as a frame; see record_summary. */
#include "worker/core/recorder.h"
#include "worker/core/wire.h"

size_t wire_put_summary(uint8_t *bytes, const struct record_summary *told)
{
    struct wire_cursor cursor = {.at = bytes, .end = bytes + WIRE_PAYLOAD_MAX};
    const uint64_t words[] = {told->step,       told->collective, told->await_part,
                              told->await_mean, told->unheard,    told->slow_from};
    const uint32_t halves[] = {
        told->attempt,       told->detail, told->slots_left, told->in_phase_us,   told->usual_us,
        told->spread_us,     told->cpu_us, told->slow_us,    told->slow_usual_us, told->idle_us,
        told->pace_permille, told->moves,  told->work_us};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) wire_write_u64(&cursor, words[i]);
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++)
        wire_write_u32(&cursor, halves[i]);
    wire_write_u32(&cursor, told->work_phase);
    wire_write_u32(&cursor, (uint32_t)told->phase | (uint32_t)told->host << 8 |
                                (uint32_t)told->slow_phase << 16 | (uint32_t)told->samples << 24);
    return (size_t)(cursor.at - bytes);
}

bool wire_get_summary(const uint8_t *bytes, size_t count, struct record_summary *ret_told)
{
    struct wire_cursor cursor = wire_reader(bytes, count);
    struct record_summary told = {0};
    uint64_t *const words[] = {&told.step,       &told.collective, &told.await_part,
                               &told.await_mean, &told.unheard,    &told.slow_from};
    uint32_t *const halves[] = {
        &told.attempt,       &told.detail, &told.slots_left, &told.in_phase_us,   &told.usual_us,
        &told.spread_us,     &told.cpu_us, &told.slow_us,    &told.slow_usual_us, &told.idle_us,
        &told.pace_permille, &told.moves,  &told.work_us};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) *words[i] = wire_read_u64(&cursor);
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++)
        *halves[i] = wire_read_u32(&cursor);
    uint32_t work_phase = wire_read_u32(&cursor), small = wire_read_u32(&cursor);
    told.phase = (uint8_t)small;
    told.host = (uint8_t)(small >> 8);
    told.slow_phase = (uint8_t)(small >> 16);
    told.samples = (uint8_t)(small >> 24);
    if (cursor.failed || cursor.at != cursor.end || work_phase >= RECORD_PHASE_END) return false;
    told.work_phase = (uint8_t)work_phase;
    if (told.phase >= RECORD_PHASE_END || told.host >= HOST_END ||
        told.slow_phase >= RECORD_PHASE_END || told.step > WIRE_TURN_MAX)
        return false;
    *ret_told = told;
    return true;
}
