/* The server's half of agent_report.h. */
#include "codec/agent_parts.h"
#include "codec/agent_report.h"
#include "core/limits.h"
#include <string.h>

enum { ENV_MAX = 128 };
#define TIME_MAX_MS (30 * INT64_C(86400000)) /* 30 days */

static void take_args(struct reply_worker *worker, const struct json_map *spec)
{
    void *structs;
    json_t *list = json_take_list(spec, "argv", REPLY_ARGS_MAX, sizeof(const char *), &structs,
                                  &worker->arg_count);
    const char **args = structs;
    for (uint32_t i = 0; i < worker->arg_count; i++)
        args[i] = json_text_at(spec, "argv", list, i, REPLY_TEXT_MAX);
    worker->args = args;
    if (worker->arg_count == 0) json_mistake(spec, "argv", "expected the program to run");
}

static void take_env(struct reply_worker *worker, const struct json_map *spec)
{
    struct json_map env = json_take_map(spec, "env", JSON_OPTIONAL);
    size_t count = json_object_size(env.object);
    if (count > ENV_MAX) json_mistake(spec, "env", "too many variables");
    if (count == 0 || count > ENV_MAX) return;
    const char **texts = json_reader_alloc(spec->reader, 2 * count, sizeof *texts);
    const char *key;
    json_t *value;
    if (texts == NULL) return;
    json_object_foreach(env.object, key, value)
    {
        texts[2 * worker->env_count] = key;
        texts[2 * worker->env_count + 1] = json_take_text(&env, key, REPLY_TEXT_MAX, JSON_REQUIRED);
        worker->env_count++;
    }
    worker->env = texts;
}

static void take_devices(struct reply_worker *worker, const struct json_map *map)
{
    void *structs;
    uint32_t count;
    json_t *list = json_take_list(map, "devices", DEVICES_NAMED_MAX, 1, &structs, &count);
    for (uint32_t i = 0; i < count; i++) {
        json_t *number = json_array_get(list, i);
        json_int_t device = json_is_integer(number) ? json_integer_value(number) : -1;
        if (device < 0 || device >= DEVICES_NAMED_MAX)
            json_mistake(map, "devices", "expected numbers of devices, 0 to 31");
        else
            worker->device_mask |= UINT32_C(1) << device;
    }
    worker->device_milli = 1000;
    if (json_object_get(map->object, "device_milli") != NULL)
        worker->device_milli = (uint32_t)json_take_u64(map, "device_milli", 1000, JSON_REQUIRED);
    worker->mig_compute = (uint32_t)json_take_u64(map, "mig_compute", 7, JSON_OPTIONAL);
    worker->mig_start = (uint32_t)json_take_u64(map, "mig_start", 7, JSON_OPTIONAL);
}

static void take_run(struct reply_worker *worker, const struct json_map *map)
{
    struct json_map spec = json_take_map(map, "spec", JSON_REQUIRED);
    if (spec.object != NULL) take_args(worker, &spec);
    take_env(worker, &spec);
    worker->dir = json_take_text(&spec, "dir", REPORT_TEXT_MAX, JSON_OPTIONAL);
    worker->token = json_take_text(map, "token", REPORT_TEXT_MAX, JSON_OPTIONAL);
    worker->checkpoint_dir = json_take_text(map, "checkpoint_dir", REPORT_TEXT_MAX, JSON_OPTIONAL);
    worker->slots = (uint32_t)json_take_u64(map, "slots", UINT32_MAX, JSON_OPTIONAL);
    worker->gang = (uint32_t)json_take_u64(map, "gang", UINT32_MAX, JSON_OPTIONAL);
    worker->checkpoint_every =
        (uint32_t)json_take_u64(map, "checkpoint_every", UINT32_MAX, JSON_OPTIONAL);
    worker->steps = json_take_u64(map, "steps", UINT64_MAX, JSON_OPTIONAL);
    take_devices(worker, map);
}

static void take_worker(struct reply_worker *worker, const struct json_map *map)
{
    worker->job = json_take_u64(map, "job", UINT64_MAX, JSON_REQUIRED);
    worker->worker = json_take_u64(map, "worker", UINT64_MAX, JSON_REQUIRED);
    worker->dir = worker->token = worker->checkpoint_dir = worker->reason = "";
    const char *want = json_take_text(map, "want", REPORT_TEXT_MAX, JSON_REQUIRED);
    if (strcmp(want, "run") == 0) {
        worker->want = REPLY_RUN;
        take_run(worker, map);
    } else if (strcmp(want, "stop") == 0) {
        worker->want = REPLY_STOP;
        worker->reason = json_take_text(map, "reason", REPORT_TEXT_MAX, JSON_OPTIONAL);
        worker->deadline_ms = json_take_i64(map, "deadline_ms", 0, TIME_MAX_MS, JSON_OPTIONAL);
    } else {
        json_mistake(map, "want", "expected run or stop");
    }
}

static void take_peers(struct reply_peers *peers, const struct json_map *map)
{
    peers->job = json_take_u64(map, "job", UINT64_MAX, JSON_REQUIRED);
    peers->told = json_take_u64(map, "told", UINT64_MAX, JSON_OPTIONAL);
    void *structs;
    json_t *list = json_take_list(map, "workers", REPLY_PEERS_MAX, sizeof(struct reply_peer),
                                  &structs, &peers->peer_count);
    struct reply_peer *rows = structs;
    for (uint32_t i = 0; i < peers->peer_count; i++) {
        struct json_map element = json_at(map, "workers", list, i);
        rows[i].worker = json_take_u64(&element, "worker", UINT64_MAX, JSON_REQUIRED);
        rows[i].addr = json_take_text(&element, "addr", REPORT_TEXT_MAX, JSON_REQUIRED);
    }
    peers->peers = rows;
}

static void take_reply(struct agent_reply *reply, const struct json_map *top)
{
    void *structs;
    reply->lease_ms = json_take_i64(top, "lease_ms", 1, TIME_MAX_MS, JSON_REQUIRED);
    reply->report_ms = json_take_i64(top, "report_ms", 1, TIME_MAX_MS, JSON_REQUIRED);
    reply->notice_ms = json_take_i64(top, "notice_ms", 0, TIME_MAX_MS, JSON_OPTIONAL);
    reply->logs_after = json_take_u64(top, "logs_after", UINT64_MAX, JSON_OPTIONAL);
    reply->progress_after = json_take_u64(top, "progress_after", UINT64_MAX, JSON_OPTIONAL);
    reply->leave = json_take_flag(top, "leave");
    json_t *list = json_take_list(top, "workers", REPORT_WORKERS_MAX, sizeof(struct reply_worker),
                                  &structs, &reply->worker_count);
    reply->workers = structs;
    for (uint32_t i = 0; i < reply->worker_count; i++) {
        struct json_map element = json_at(top, "workers", list, i);
        take_worker(&((struct reply_worker *)structs)[i], &element);
    }
    list = json_take_list(top, "peers", REPORT_WORKERS_MAX, sizeof(struct reply_peers), &structs,
                          &reply->peers_count);
    reply->peers = structs;
    for (uint32_t i = 0; i < reply->peers_count; i++) {
        struct json_map element = json_at(top, "peers", list, i);
        take_peers(&((struct reply_peers *)structs)[i], &element);
    }
}

bool agent_reply_parse(const char *text, size_t bytes, struct agent_reply *ret_reply,
                       struct error *ret_error)
{
    struct json_reader *reader =
        json_reader_open("reply", false, text, bytes, REPORT_BYTES_MAX, ret_error);
    if (reader == NULL) return false;
    struct agent_reply reply = {.owner = reader};
    struct json_map top = json_top(reader);
    take_reply(&reply, &top);
    if (reader->failed) {
        (void)error_set(ret_error, "%s", reader->error.text);
        json_reader_close(reader);
        return false;
    }
    *ret_reply = reply;
    return true;
}

void agent_reply_close(struct agent_reply *reply)
{
    json_reader_close(reply->owner);
    *reply = (struct agent_reply){0};
}

static json_t *spec_json(const struct reply_worker *worker, bool *failed)
{
    json_t *spec = json_object(), *argv = json_array(), *env = json_object();
    for (uint32_t i = 0; i < worker->arg_count; i++)
        json_append(argv, json_clean_string(worker->args[i]), failed);
    for (uint32_t i = 0; i < worker->env_count; i++)
        json_set_text(env, worker->env[2 * i], worker->env[2 * i + 1], failed);
    json_set(spec, "argv", argv, failed);
    json_set(spec, "env", env, failed);
    json_set_text(spec, "dir", worker->dir, failed);
    return spec;
}

static json_t *devices_json(uint32_t mask, bool *failed)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < DEVICES_NAMED_MAX; i++)
        if (mask >> i & 1) json_append(list, json_integer((json_int_t)i), failed);
    return list;
}

static json_t *worker_json(const struct reply_worker *worker, bool *failed)
{
    json_t *object = json_object();
    json_set_u64(object, "job", worker->job, failed);
    json_set_u64(object, "worker", worker->worker, failed);
    json_set_text(object, "want", worker->want == REPLY_RUN ? "run" : "stop", failed);
    if (worker->want != REPLY_RUN) {
        json_set_text(object, "reason", worker->reason, failed);
        json_set_i64(object, "deadline_ms", worker->deadline_ms, failed);
        return object;
    }
    json_set(object, "spec", spec_json(worker, failed), failed);
    json_set_text(object, "token", worker->token, failed);
    json_set_u64(object, "slots", worker->slots, failed);
    json_set_u64(object, "steps", worker->steps, failed);
    json_set_u64(object, "gang", worker->gang, failed);
    json_set_text(object, "checkpoint_dir", worker->checkpoint_dir, failed);
    json_set_u64(object, "checkpoint_every", worker->checkpoint_every, failed);
    json_set(object, "devices", devices_json(worker->device_mask, failed), failed);
    json_set_u64(object, "device_milli", worker->device_milli, failed);
    if (worker->mig_compute != 0) {
        json_set_u64(object, "mig_compute", worker->mig_compute, failed);
        json_set_u64(object, "mig_start", worker->mig_start, failed);
    }
    return object;
}

char *agent_reply_write(const struct agent_reply *reply)
{
    bool failed = false;
    json_t *root = json_object(), *workers = json_array(), *peers = json_array();
    for (uint32_t i = 0; i < reply->worker_count; i++)
        json_append(workers, worker_json(&reply->workers[i], &failed), &failed);
    for (uint32_t i = 0; i < reply->peers_count; i++) {
        json_t *job = json_object();
        json_set_u64(job, "job", reply->peers[i].job, &failed);
        json_set_u64(job, "told", reply->peers[i].told, &failed);
        json_set(job, "workers", agent_peers_json(&reply->peers[i], &failed), &failed);
        json_append(peers, job, &failed);
    }
    json_set_i64(root, "lease_ms", reply->lease_ms, &failed);
    json_set_i64(root, "report_ms", reply->report_ms, &failed);
    json_set_u64(root, "logs_after", reply->logs_after, &failed);
    json_set_u64(root, "progress_after", reply->progress_after, &failed);
    json_set(root, "workers", workers, &failed);
    json_set(root, "peers", peers, &failed);
    json_set_i64(root, "notice_ms", reply->notice_ms, &failed);
    json_set(root, "leave", json_boolean(reply->leave), &failed);
    return json_finish_text(root, failed);
}
