#include "codec/agent_report.h"
#include "codec/agent_parts.h"
#include "codec/device_groups.h"
#include "codec/names.h"
#include "codec/stall_json.h"
#include <string.h>

/* ---- parts that worker_line.c uses too ---- */

static void take_slots(struct report_slots *slots, const struct json_map *map)
{
    static const char *const keys[] = {"worker", "slots", NULL};
    json_known_keys(map, keys);
    slots->worker = json_take_u64(map, "worker", UINT64_MAX, JSON_REQUIRED);
    slots->slots = json_take_text(map, "slots", REPORT_SLOTS_TEXT_MAX, JSON_REQUIRED);
    if (strspn(slots->slots, "0123456789abcdef") != strlen(slots->slots))
        json_mistake(map, "slots", "expected lower-case hexadecimal digits");
}

void agent_take_progress(struct report_progress *progress, const struct json_map *map,
                         enum json_need job)
{
    static const char *const keys[] = {"job",        "step",       "loss",
                                       "generation", "attempt",    "redone_slots",
                                       "workers",    "not_finite", NULL};
    json_known_keys(map, keys);
    progress->job = json_take_u64(map, "job", UINT64_MAX, job);
    progress->step = json_take_u64(map, "step", UINT64_MAX, JSON_REQUIRED);
    progress->generation = json_take_u64(map, "generation", UINT64_MAX, JSON_OPTIONAL);
    progress->attempt = json_take_u64(map, "attempt", UINT64_MAX, JSON_OPTIONAL);
    progress->redone_slots = json_take_u64(map, "redone_slots", UINT64_MAX, JSON_OPTIONAL);
    progress->loss = json_take_real(map, "loss");
    const char *odd = json_take_text(map, "not_finite", REPORT_TEXT_MAX, JSON_OPTIONAL);
    if (odd[0] != '\0' && strcmp(odd, "applied") != 0 && strcmp(odd, "skipped") != 0)
        json_mistake(map, "not_finite", "expected applied or skipped");
    progress->not_finite = odd[0] == '\0' ? NULL : odd;
    void *slots;
    json_t *list = json_take_list(map, "workers", REPORT_PROGRESS_WORKERS_MAX,
                                  sizeof(struct report_slots), &slots, &progress->worker_count);
    progress->workers = slots;
    for (uint32_t i = 0; i < progress->worker_count; i++) {
        struct json_map element = json_at(map, "workers", list, i);
        take_slots(&((struct report_slots *)slots)[i], &element);
    }
}

static json_t *progress_json(const struct report_progress *progress, bool *failed)
{
    json_t *object = json_object(), *list = json_array();
    json_set_u64(object, "job", progress->job, failed);
    json_set_u64(object, "step", progress->step, failed);
    json_set_real(object, "loss", progress->loss, failed);
    json_set_u64(object, "generation", progress->generation, failed);
    json_set_u64(object, "attempt", progress->attempt, failed);
    json_set_u64(object, "redone_slots", progress->redone_slots, failed);
    if (progress->not_finite != NULL)
        json_set_text(object, "not_finite", progress->not_finite, failed);
    for (uint32_t i = 0; i < progress->worker_count; i++) {
        json_t *slots = json_object();
        json_set_u64(slots, "worker", progress->workers[i].worker, failed);
        json_set_text(slots, "slots", progress->workers[i].slots, failed);
        json_append(list, slots, failed);
    }
    json_set(object, "workers", list, failed);
    return object;
}

json_t *agent_peers_json(const struct reply_peers *peers, bool *failed)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < peers->peer_count; i++) {
        json_t *peer = json_object();
        json_set_u64(peer, "worker", peers->peers[i].worker, failed);
        json_set_text(peer, "addr", peers->peers[i].addr, failed);
        json_append(list, peer, failed);
    }
    return list;
}

/* ---- report ---- */

static void take_worker(struct report_worker *worker, const struct json_map *map)
{
    static const char *const keys[] = {"job",  "worker",       "phase", "exit_code", "step",
                                       "addr", "tokens_per_s", "doing", "stuck",     NULL};
    json_known_keys(map, keys);
    worker->job = json_take_u64(map, "job", UINT64_MAX, JSON_REQUIRED);
    worker->worker = json_take_u64(map, "worker", UINT64_MAX, JSON_REQUIRED);
    worker->step = json_take_u64(map, "step", UINT64_MAX, JSON_OPTIONAL);
    worker->exit_code =
        (int32_t)json_take_i64(map, "exit_code", INT32_MIN, INT32_MAX, JSON_OPTIONAL);
    worker->addr = json_take_text(map, "addr", REPORT_TEXT_MAX, JSON_OPTIONAL);
    worker->doing = json_take_text(map, "doing", REPORT_TEXT_MAX, JSON_OPTIONAL);
    worker->tokens_per_s = json_take_real(map, "tokens_per_s");
    struct json_map stuck = json_take_map(map, "stuck", JSON_OPTIONAL);
    stall_take_stuck(&worker->stuck, &stuck);
    const char *phase = json_take_text(map, "phase", REPORT_TEXT_MAX, JSON_REQUIRED);
    if (!find_worker_phase(phase, &worker->phase))
        json_mistake(map, "phase", "expected starting, running, finished, failed or stopped");
}

static void take_log(struct report_log *log, const struct json_map *map)
{
    static const char *const keys[] = {"job", "worker", "t", "stream", "line", NULL};
    json_known_keys(map, keys);
    log->job = json_take_u64(map, "job", UINT64_MAX, JSON_REQUIRED);
    log->worker = json_take_u64(map, "worker", UINT64_MAX, JSON_REQUIRED);
    log->time = json_take_text(map, "t", REPORT_TEXT_MAX, JSON_OPTIONAL);
    log->line = json_take_text(map, "line", REPORT_LINE_MAX, JSON_REQUIRED);
    log->stream = json_take_text(map, "stream", REPORT_TEXT_MAX, JSON_REQUIRED);
    if (strcmp(log->stream, "out") != 0 && strcmp(log->stream, "err") != 0)
        json_mistake(map, "stream", "expected out or err");
}

static void take_ckpt(struct report_ckpt *ckpt, const struct json_map *map)
{
    static const char *const keys[] = {"job", "step", NULL};
    json_known_keys(map, keys);
    ckpt->job = json_take_u64(map, "job", UINT64_MAX, JSON_REQUIRED);
    ckpt->step = json_take_u64(map, "step", UINT64_MAX, JSON_REQUIRED);
}

static void take_lists(struct agent_report *report, const struct json_map *top)
{
    void *structs;
    json_t *list = json_take_list(top, "workers", REPORT_WORKERS_MAX, sizeof(struct report_worker),
                                  &structs, &report->worker_count);
    report->workers = structs;
    for (uint32_t i = 0; i < report->worker_count; i++) {
        struct json_map element = json_at(top, "workers", list, i);
        take_worker(&((struct report_worker *)structs)[i], &element);
    }
    list = json_take_list(top, "progress", REPORT_PROGRESS_MAX, sizeof(struct report_progress),
                          &structs, &report->progress_count);
    report->progress = structs;
    for (uint32_t i = 0; i < report->progress_count; i++) {
        struct json_map element = json_at(top, "progress", list, i);
        agent_take_progress(&((struct report_progress *)structs)[i], &element, JSON_REQUIRED);
    }
    list = json_take_list(top, "ckpts", REPORT_CKPTS_MAX, sizeof(struct report_ckpt), &structs,
                          &report->ckpt_count);
    report->ckpts = structs;
    for (uint32_t i = 0; i < report->ckpt_count; i++) {
        struct json_map element = json_at(top, "ckpts", list, i);
        take_ckpt(&((struct report_ckpt *)structs)[i], &element);
    }
    list = json_take_list(top, "logs", REPORT_LOGS_MAX, sizeof(struct report_log), &structs,
                          &report->log_count);
    report->logs = structs;
    for (uint32_t i = 0; i < report->log_count; i++) {
        struct json_map element = json_at(top, "logs", list, i);
        take_log(&((struct report_log *)structs)[i], &element);
    }
    list = json_take_list(top, "stalls", REPORT_STALLS_MAX, sizeof(struct report_stall), &structs,
                          &report->stall_count);
    report->stalls = structs;
    for (uint32_t i = 0; i < report->stall_count; i++) {
        struct json_map element = json_at(top, "stalls", list, i);
        stall_take(&((struct report_stall *)structs)[i], &element, JSON_REQUIRED, NULL);
    }
}

static void take_report(struct agent_report *report, const struct json_map *top)
{
    static const char *const keys[] = {"agent", "phase", "device",     "workers", "progress",
                                       "ckpts", "logs",  "logs_after", "stalls",  NULL};
    static const char *const agent_keys[] = {"pid", "started", NULL};
    static const char *const device_keys[] = {"model",    "count",  "vram_mib", "rack",
                                              "emulated", "groups", NULL};
    json_known_keys(top, keys);
    struct json_map agent = json_take_map(top, "agent", JSON_REQUIRED);
    json_known_keys(&agent, agent_keys);
    report->pid = json_take_u64(&agent, "pid", UINT64_MAX, JSON_REQUIRED);
    report->started = json_take_text(&agent, "started", REPORT_TEXT_MAX, JSON_OPTIONAL);
    struct json_map device = json_take_map(top, "device", JSON_REQUIRED);
    json_known_keys(&device, device_keys);
    report->device_model = json_take_text(&device, "model", REPORT_TEXT_MAX, JSON_REQUIRED);
    report->device_count = (uint32_t)json_take_u64(&device, "count", UINT32_MAX, JSON_REQUIRED);
    report->device_vram_mib =
        (uint32_t)json_take_u64(&device, "vram_mib", UINT32_MAX, JSON_OPTIONAL);
    report->rack = json_take_text(&device, "rack", REPORT_RACK_MAX, JSON_OPTIONAL);
    report->emulated = json_take_flag(&device, "emulated");
    device_groups_take(&report->groups, &device, "groups");
    const char *phase = json_take_text(top, "phase", REPORT_TEXT_MAX, JSON_REQUIRED);
    if (!find_agent_phase(phase, &report->phase))
        json_mistake(top, "phase", "expected joined or leaving");
    report->logs_after = json_take_u64(top, "logs_after", UINT64_MAX, JSON_OPTIONAL);
    take_lists(report, top);
}

bool agent_report_parse(const char *text, size_t bytes, struct agent_report *ret_report,
                        struct error *ret_error)
{
    struct json_reader *reader =
        json_reader_open("report", true, text, bytes, REPORT_BYTES_MAX, ret_error);
    if (reader == NULL) return false;
    struct agent_report report = {.owner = reader};
    struct json_map top = json_top(reader);
    take_report(&report, &top);
    if (reader->failed) {
        (void)error_set(ret_error, "%s", reader->error.text);
        json_reader_close(reader);
        return false;
    }
    *ret_report = report;
    return true;
}

void agent_report_close(struct agent_report *report)
{
    json_reader_close(report->owner);
    *report = (struct agent_report){0};
}

static json_t *worker_json(const struct report_worker *worker, bool *failed)
{
    json_t *object = json_object();
    json_set_u64(object, "job", worker->job, failed);
    json_set_u64(object, "worker", worker->worker, failed);
    json_set_text(object, "phase", name_worker_phase(worker->phase), failed);
    json_set_i64(object, "exit_code", worker->exit_code, failed);
    json_set_u64(object, "step", worker->step, failed);
    json_set_text(object, "addr", worker->addr, failed);
    json_set_real(object, "tokens_per_s", worker->tokens_per_s, failed);
    json_set_text(object, "doing", worker->doing, failed);
    if (worker->stuck.is)
        json_set(object, "stuck", stall_stuck_json(&worker->stuck, failed), failed);
    return object;
}

static json_t *log_json(const struct report_log *log, bool *failed)
{
    json_t *object = json_object();
    json_set_u64(object, "job", log->job, failed);
    json_set_u64(object, "worker", log->worker, failed);
    json_set_text(object, "t", log->time, failed);
    json_set_text(object, "stream", log->stream, failed);
    json_set_text(object, "line", log->line, failed);
    return object;
}

static json_t *ckpt_json(const struct report_ckpt *ckpt, bool *failed)
{
    json_t *object = json_object();
    json_set_u64(object, "job", ckpt->job, failed);
    json_set_u64(object, "step", ckpt->step, failed);
    return object;
}

char *agent_report_write(const struct agent_report *report)
{
    bool failed = false;
    json_t *root = json_object(), *agent = json_object(), *device = json_object();
    json_t *workers = json_array(), *progress = json_array();
    json_t *ckpts = json_array(), *logs = json_array(), *stalls = json_array();
    json_set_u64(agent, "pid", report->pid, &failed);
    json_set_text(agent, "started", report->started, &failed);
    json_set_text(device, "model", report->device_model, &failed);
    json_set_u64(device, "count", report->device_count, &failed);
    json_set_u64(device, "vram_mib", report->device_vram_mib, &failed);
    if (report->rack != NULL && report->rack[0] != '\0')
        json_set_text(device, "rack", report->rack, &failed);
    if (report->emulated) json_set(device, "emulated", json_true(), &failed);
    if (report->groups.form != 0)
        json_set(device, "groups", device_groups_json(&report->groups, &failed), &failed);
    for (uint32_t i = 0; i < report->worker_count; i++)
        json_append(workers, worker_json(&report->workers[i], &failed), &failed);
    for (uint32_t i = 0; i < report->progress_count; i++)
        json_append(progress, progress_json(&report->progress[i], &failed), &failed);
    for (uint32_t i = 0; i < report->ckpt_count; i++)
        json_append(ckpts, ckpt_json(&report->ckpts[i], &failed), &failed);
    for (uint32_t i = 0; i < report->log_count; i++)
        json_append(logs, log_json(&report->logs[i], &failed), &failed);
    for (uint32_t i = 0; i < report->stall_count; i++)
        json_append(stalls, stall_json(&report->stalls[i], &failed), &failed);
    json_set(root, "agent", agent, &failed);
    json_set_text(root, "phase", name_agent_phase(report->phase), &failed);
    json_set(root, "device", device, &failed);
    json_set(root, "workers", workers, &failed);
    json_set(root, "progress", progress, &failed);
    json_set(root, "ckpts", ckpts, &failed);
    json_set(root, "logs", logs, &failed);
    json_set(root, "stalls", stalls, &failed);
    json_set_u64(root, "logs_after", report->logs_after, &failed);
    return json_finish_text(root, failed);
}
