#include "agent/log_queue.h"
#include "base/clock.h"
#include "base/mem.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_US  (INT64_C(1000000) / LOG_QUEUE_PER_S)
#define BURST_US (LINE_US * LOG_QUEUE_BURST)

bool log_queue_open(struct log_queue *queue)
{
    *queue = (struct log_queue){.first = 1, .end = 1};
    queue->lines = mem_zalloc(LOG_QUEUE_LINES_MAX, sizeof *queue->lines);
    queue->times = mem_zalloc(LOG_QUEUE_LINES_MAX, sizeof *queue->times);
    if (queue->lines != NULL && queue->times != NULL) return true;
    log_queue_close(queue);
    return false;
}

static void drop_first(struct log_queue *queue)
{
    struct report_log *slot = &queue->lines[queue->first % LOG_QUEUE_LINES_MAX];
    mem_free((void *)(uintptr_t)slot->line);
    slot->line = NULL;
    queue->first++;
}

void log_queue_close(struct log_queue *queue)
{
    while (queue->lines != NULL && queue->first < queue->end) drop_first(queue);
    mem_free(queue->lines);
    mem_free(queue->times);
    *queue = (struct log_queue){0};
}

/* Length of the valid UTF-8 sequence at text, 0 if there is none. */
static size_t utf8_length(const unsigned char *text, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = text[0] < 0x80           ? 1
                    : (text[0] >> 5) == 0x06 ? 2
                    : (text[0] >> 4) == 0x0e ? 3
                    : (text[0] >> 3) == 0x1e ? 4
                                             : 0;
    if (length == 0 || length > left) return 0;
    if (length == 1) return 1;
    uint32_t code = text[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < least[length] || code > 0x10ffff || surrogate ? 0 : length;
}

static char *clean_copy(const char *line, size_t bytes, bool cut)
{
    static const char remark[] = " ... (cut, the line is longer)";
    char *copy = mem_alloc(bytes + sizeof remark);
    if (copy == NULL) return NULL;
    const unsigned char *from = (const unsigned char *)line;
    size_t at = 0;
    for (size_t i = 0; i < bytes;) {
        size_t length = utf8_length(from + i, bytes - i);
        bool control = from[i] < 0x20 ? from[i] != '\t' : from[i] == 0x7f;
        if (length == 0 || control) {
            copy[at++] = '?';
            i++;
            continue;
        }
        memcpy(copy + at, from + i, length);
        at += length;
        i += length;
    }
    memcpy(copy + at, cut ? remark : "", cut ? sizeof remark : 1);
    return copy;
}

static void append(struct log_queue *queue, uint64_t job, uint64_t worker, const char *stream,
                   char *line, int64_t wall_us)
{
    if (line == NULL) {
        queue->dropped_count++;
        return;
    }
    if (queue->end - queue->first == LOG_QUEUE_LINES_MAX) {
        drop_first(queue);
        queue->dropped_count++;
    }
    uint64_t index = queue->end++ % LOG_QUEUE_LINES_MAX;
    clock_format(wall_us, queue->times[index]);
    queue->lines[index] = (struct report_log){
        .job = job, .worker = worker, .time = queue->times[index], .stream = stream, .line = line};
}

static bool within_rate(struct log_source *source, int64_t wall_us)
{
    if (source->seen_us == 0)
        source->tokens_us = BURST_US;
    else if (wall_us > source->seen_us)
        source->tokens_us += wall_us - source->seen_us;
    if (source->tokens_us > BURST_US) source->tokens_us = BURST_US;
    source->seen_us = wall_us;
    if (source->tokens_us < LINE_US) return false;
    source->tokens_us -= LINE_US;
    return true;
}

void log_queue_add(struct log_queue *queue, struct log_source *source, uint64_t job,
                   uint64_t worker, const char *stream, const char *line, size_t bytes, bool cut,
                   int64_t wall_us)
{
    if (!within_rate(source, wall_us)) {
        source->dropped_count++;
        return;
    }
    if (source->dropped_count > 0) {
        append(queue, job, worker, "err",
               mem_printf("(shoal: %" PRIu64 " lines dropped, more than %d a second)",
                          source->dropped_count, LOG_QUEUE_PER_S),
               wall_us);
        source->dropped_count = 0;
    }
    if (queue->dropped_count > 0 && queue->end - queue->first < LOG_QUEUE_LINES_MAX / 2) {
        append(queue, job, worker, "err",
               mem_printf("(shoal: %" PRIu64 " older lines dropped while the server was away)",
                          queue->dropped_count),
               wall_us);
        queue->dropped_count = 0;
    }
    append(queue, job, worker, stream, clean_copy(line, bytes, cut), wall_us);
}

uint32_t log_queue_send(struct log_queue *queue, struct report_log *ret_lines, uint32_t lines_max)
{
    uint32_t count = 0;
    size_t bytes = 0;
    for (uint64_t n = queue->first; n < queue->end && count < lines_max; n++) {
        const struct report_log *line = &queue->lines[n % LOG_QUEUE_LINES_MAX];
        bytes += strlen(line->line);
        if (count > 0 && bytes > LOG_QUEUE_REPORT_BYTES) break;
        ret_lines[count++] = *line;
    }
    if (queue->sent_end < queue->first + count) queue->sent_end = queue->first + count;
    return count;
}

void log_queue_acknowledge(struct log_queue *queue, uint64_t after)
{
    while (queue->first < queue->sent_end && queue->first < queue->end && queue->first <= after)
        drop_first(queue);
}
