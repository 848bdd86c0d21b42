#include "codec/stall_json.h"
#include "codec/agent_report.h"
#include <string.h>

static const char *take_word(const struct json_map *map, const char *key, const char *const *words,
                             const char *sentence)
{
    const char *word = json_take_text(map, key, REPORT_TEXT_MAX, JSON_REQUIRED);
    for (uint32_t i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], word) == 0) return words[i]; /* a constant, outlives the document */
    json_mistake(map, key, sentence);
    return words[0];
}

static const char *const phases[] = {"outside",    "data", "compute", "reduce", "apply",
                                     "checkpoint", "sync", "unknown", NULL};

static void take_culprit(struct report_culprit *culprit, const struct json_map *map)
{
    static const char *const keys[] = {"worker", "peer",    "slot",   "step",     "kind",
                                       "phase",  "host",    "for_us", "usual_us", "cpu_us",
                                       "slow",   "dropped", NULL};
    static const char *const kinds[] = {"silent", "host",    "data",     "compute", "storage",
                                        "link",   "network", "diverged", NULL};
    static const char *const hosts[] = {"unknown", "runs", "reads",   "sleeps", "locked",
                                        "disk",    "call", "stopped", NULL};
    json_known_keys(map, keys);
    culprit->worker = json_take_u64(map, "worker", INT64_MAX, JSON_REQUIRED);
    culprit->peer = json_take_u64(map, "peer", INT64_MAX, JSON_OPTIONAL);
    culprit->slot = json_take_u64(map, "slot", UINT32_MAX, JSON_OPTIONAL);
    culprit->step = json_take_u64(map, "step", INT64_MAX, JSON_OPTIONAL);
    culprit->kind = take_word(map, "kind", kinds,
                              "expected silent, host, data, compute, storage, "
                              "link, network or diverged");
    culprit->phase = take_word(map, "phase", phases, "expected a phase of a step");
    culprit->host = take_word(map, "host", hosts, "expected what a thread does");
    culprit->for_us = json_take_i64(map, "for_us", 0, STALL_TIME_US_MAX, JSON_OPTIONAL);
    culprit->usual_us = json_take_i64(map, "usual_us", 0, STALL_TIME_US_MAX, JSON_OPTIONAL);
    culprit->cpu_us = json_take_i64(map, "cpu_us", 0, STALL_TIME_US_MAX, JSON_OPTIONAL);
    culprit->slow = json_take_flag(map, "slow");
    culprit->dropped = json_take_flag(map, "dropped");
}

void stall_take(struct report_stall *stall, const struct json_map *map, enum json_need job,
                const char *const *more_keys)
{
    const char *keys[12] = {"job",     "step",    "waited_us", "victims",
                            "workers", "stalled", "culprits"};
    uint32_t count = 7;
    for (; more_keys != NULL && *more_keys != NULL; more_keys++) keys[count++] = *more_keys;
    json_known_keys(map, keys);
    stall->job = json_take_u64(map, "job", UINT64_MAX, job);
    stall->step = json_take_u64(map, "step", INT64_MAX, JSON_REQUIRED);
    stall->waited_us = json_take_i64(map, "waited_us", 0, STALL_TIME_US_MAX, JSON_OPTIONAL);
    stall->victims = (uint32_t)json_take_u64(map, "victims", UINT32_MAX, JSON_OPTIONAL);
    stall->workers = (uint32_t)json_take_u64(map, "workers", UINT32_MAX, JSON_OPTIONAL);
    stall->stalled = json_take_flag(map, "stalled");
    void *structs;
    json_t *list = json_take_list(map, "culprits", STALL_CULPRITS_MAX,
                                  sizeof(struct report_culprit), &structs, &stall->culprit_count);
    stall->culprits = structs;
    for (uint32_t i = 0; i < stall->culprit_count; i++) {
        struct json_map element = json_at(map, "culprits", list, i);
        take_culprit(&((struct report_culprit *)structs)[i], &element);
    }
}

static json_t *culprit_json(const struct report_culprit *culprit, bool *failed)
{
    json_t *object = json_object();
    json_set_u64(object, "worker", culprit->worker, failed);
    json_set_u64(object, "peer", culprit->peer, failed);
    json_set_u64(object, "slot", culprit->slot, failed);
    json_set_u64(object, "step", culprit->step, failed);
    json_set_text(object, "kind", culprit->kind, failed);
    json_set_text(object, "phase", culprit->phase, failed);
    json_set_text(object, "host", culprit->host, failed);
    json_set_i64(object, "for_us", culprit->for_us, failed);
    json_set_i64(object, "usual_us", culprit->usual_us, failed);
    json_set_i64(object, "cpu_us", culprit->cpu_us, failed);
    json_set(object, "slow", json_boolean(culprit->slow), failed);
    json_set(object, "dropped", json_boolean(culprit->dropped), failed);
    return object;
}

json_t *stall_json(const struct report_stall *stall, bool *failed)
{
    json_t *object = json_object(), *culprits = json_array();
    for (uint32_t i = 0; i < stall->culprit_count; i++)
        json_append(culprits, culprit_json(&stall->culprits[i], failed), failed);
    json_set_u64(object, "job", stall->job, failed);
    json_set_u64(object, "step", stall->step, failed);
    json_set_i64(object, "waited_us", stall->waited_us, failed);
    json_set_u64(object, "victims", stall->victims, failed);
    json_set_u64(object, "workers", stall->workers, failed);
    json_set(object, "stalled", json_boolean(stall->stalled), failed);
    json_set(object, "culprits", culprits, failed);
    return object;
}

void stall_take_stuck(struct report_stuck *stuck, const struct json_map *map)
{
    static const char *const keys[] = {"for_us", "usual_us", "step",  "slot",  "pid", "phase",
                                       "state",  "call",     "wchan", "stack", NULL};
    if (map->object == NULL) return;
    json_known_keys(map, keys);
    stuck->is = true;
    stuck->for_us = json_take_i64(map, "for_us", 0, STALL_TIME_US_MAX, JSON_OPTIONAL);
    stuck->usual_us = json_take_i64(map, "usual_us", 0, STALL_TIME_US_MAX, JSON_OPTIONAL);
    stuck->step = json_take_u64(map, "step", INT64_MAX, JSON_OPTIONAL);
    stuck->slot = json_take_u64(map, "slot", UINT32_MAX, JSON_OPTIONAL);
    stuck->pid = json_take_u64(map, "pid", INT32_MAX, JSON_OPTIONAL);
    stuck->phase = take_word(map, "phase", phases, "expected a phase of a step");
    stuck->state = json_take_text(map, "state", 4, JSON_OPTIONAL);
    stuck->call = json_take_text(map, "call", REPORT_TEXT_MAX, JSON_OPTIONAL);
    stuck->wchan = json_take_text(map, "wchan", REPORT_TEXT_MAX, JSON_OPTIONAL);
    stuck->stack = json_take_text(map, "stack", STALL_STACK_MAX, JSON_OPTIONAL);
}

json_t *stall_stuck_json(const struct report_stuck *stuck, bool *failed)
{
    json_t *object = json_object();
    json_set_i64(object, "for_us", stuck->for_us, failed);
    json_set_i64(object, "usual_us", stuck->usual_us, failed);
    json_set_u64(object, "step", stuck->step, failed);
    json_set_u64(object, "slot", stuck->slot, failed);
    json_set_u64(object, "pid", stuck->pid, failed);
    json_set_text(object, "phase", stuck->phase, failed);
    json_set_text(object, "state", stuck->state, failed);
    json_set_text(object, "call", stuck->call, failed);
    json_set_text(object, "wchan", stuck->wchan, failed);
    json_set(object, "stack", json_clean_string(stuck->stack == NULL ? "" : stuck->stack), failed);
    return object;
}
