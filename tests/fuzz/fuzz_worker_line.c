/* What a worker says on its socket and writes to its output: any bytes at all. Whatever they are,
 * the lines stay within their limit, and a report with them can be written.
 */
#include "agent/line_reader.h"
#include "agent/log_queue.h"
#include "base/mem.h"
#include "codec/worker_line.h"
#include "core/assert.h"
#include "core/event.h"
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINE_BYTES_MAX = 512 }; /* small, so that short inputs reach it */

struct harness {
    struct log_queue logs;
    struct log_source source;
};

static void on_line(void *self, const char *line, size_t bytes, bool cut)
{
    struct harness *h = self;
    struct worker_line parsed;
    ASSERT(bytes <= LINE_BYTES_MAX);
    ASSERT(line[bytes] == '\0');
    if (worker_line_parse(line, bytes, &parsed, NULL)) worker_line_close(&parsed);
    log_queue_add(&h->logs, &h->source, 1, 2, "out", line, bytes, cut, 1000000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct harness h = {0};
    struct line_reader reader = {.line_bytes_max = LINE_BYTES_MAX};
    struct report_log lines[64];
    if (!log_queue_open(&h.logs)) return 0;
    size_t half = size / 2; /* two reads: lines straddle them */
    line_reader_feed(&reader, (const char *)data, half, on_line, &h);
    line_reader_feed(&reader, (const char *)data + half, size - half, on_line, &h);
    line_reader_end(&reader, on_line, &h);
    struct agent_report report = {
        .phase = AGENT_PHASE_JOINED,
        .started = "",
        .device_model = "",
        .log_count = log_queue_send(&h.logs, lines, 64),
        .logs = lines,
    };
    char *text = agent_report_write(&report);
    ASSERT(text != NULL); /* all is UTF-8 by now */
    mem_free(text);
    line_reader_close(&reader);
    log_queue_close(&h.logs);
    return 0;
}
