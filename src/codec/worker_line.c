#include "codec/worker_line.h"
#include "codec/agent_parts.h"
#include "codec/stall_json.h"
#include <string.h>

static void take_stack(struct report_stuck *stuck, const struct json_map *top)
{
    stuck->phase = "unknown";
    stuck->state = json_take_text(top, "state", 4, JSON_OPTIONAL);
    stuck->call = json_take_text(top, "call", REPORT_TEXT_MAX, JSON_OPTIONAL);
    stuck->wchan = json_take_text(top, "wchan", REPORT_TEXT_MAX, JSON_OPTIONAL);
    stuck->stack = json_take_text(top, "stack", STALL_STACK_MAX, JSON_OPTIONAL);
    stuck->is = stuck->stack[0] != '\0';
}

static void take_line(struct worker_line *line, const struct json_map *top)
{
    line->addr = "";
    const char *kind = json_take_text(top, "t", REPORT_TEXT_MAX, JSON_REQUIRED);
    if (strcmp(kind, "hello") == 0) {
        line->kind = WORKER_LINE_HELLO;
        line->addr = json_take_text(top, "addr", REPORT_TEXT_MAX, JSON_REQUIRED);
        line->version = json_take_u64(top, "version", UINT32_MAX, JSON_OPTIONAL);
        if (line->version == 0) line->version = 1;
    } else if (strcmp(kind, "joined") == 0) {
        line->kind = WORKER_LINE_JOINED;
        line->generation = json_take_u64(top, "generation", UINT64_MAX, JSON_REQUIRED);
        line->step = json_take_u64(top, "step", UINT64_MAX, JSON_REQUIRED);
    } else if (strcmp(kind, "progress") == 0) {
        line->kind = WORKER_LINE_PROGRESS;
        agent_take_progress(&line->progress, top, JSON_OPTIONAL);
        line->step = line->progress.step;
        line->generation = line->progress.generation;
    } else if (strcmp(kind, "ckpt") == 0) {
        line->kind = WORKER_LINE_CKPT;
        line->step = json_take_u64(top, "step", UINT64_MAX, JSON_REQUIRED);
    } else if (strcmp(kind, "stats") == 0) {
        line->kind = WORKER_LINE_STATS;
        line->step = json_take_u64(top, "step", UINT64_MAX, JSON_OPTIONAL);
        line->tokens_per_s = json_take_real(top, "tokens_per_s");
    } else if (strcmp(kind, "done") == 0) {
        line->kind = WORKER_LINE_DONE;
        line->step = json_take_u64(top, "step", UINT64_MAX, JSON_REQUIRED);
    } else if (strcmp(kind, "stall") == 0) {
        static const char *const also[] = {"t", NULL};
        line->kind = WORKER_LINE_STALL;
        stall_take(&line->stall, top, JSON_OPTIONAL, also);
        line->step = line->stall.step;
    } else if (strcmp(kind, "stack") == 0) {
        line->kind = WORKER_LINE_STACK;
        take_stack(&line->stuck, top);
    } else {
        json_mistake(top, "t",
                     "expected hello, joined, progress, ckpt, stats, stall, stack or done");
    }
}

bool worker_line_parse(const char *text, size_t bytes, struct worker_line *ret_line,
                       struct error *ret_error)
{
    struct json_reader *reader =
        json_reader_open("worker line", false, text, bytes, WORKER_LINE_BYTES_MAX, ret_error);
    if (reader == NULL) return false;
    struct worker_line line = {.owner = reader};
    struct json_map top = json_top(reader);
    take_line(&line, &top);
    if (reader->failed) {
        (void)error_set(ret_error, "%s", reader->error.text);
        json_reader_close(reader);
        return false;
    }
    *ret_line = line;
    return true;
}

void worker_line_close(struct worker_line *line)
{
    json_reader_close(line->owner);
    *line = (struct worker_line){0};
}

char *worker_line_write_peers(const struct reply_peers *peers)
{
    bool failed = false;
    json_t *root = json_object();
    json_set_text(root, "t", "peers", &failed);
    json_set(root, "workers", agent_peers_json(peers, &failed), &failed);
    return json_finish_text(root, failed);
}

char *worker_line_write_told(uint64_t steps)
{
    bool failed = false;
    json_t *root = json_object();
    json_set_text(root, "t", "told", &failed);
    json_set_u64(root, "steps", steps, &failed);
    return json_finish_text(root, failed);
}

char *worker_line_write_leave(const char *reason, int64_t deadline_ms)
{
    bool failed = false;
    json_t *root = json_object();
    json_set_text(root, "t", "leave", &failed);
    json_set_text(root, "reason", reason, &failed);
    json_set_i64(root, "deadline_ms", deadline_ms, &failed);
    return json_finish_text(root, failed);
}

char *worker_line_write_notice(int64_t in_ms)
{
    bool failed = false;
    json_t *root = json_object();
    json_set_text(root, "t", "notice", &failed);
    json_set_i64(root, "in_ms", in_ms, &failed);
    return json_finish_text(root, failed);
}
