#include "server/agents.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

void agents_init(struct agents *agents)
{
    array_init(&agents->infos, sizeof(struct agent_info));
}

void agents_free(struct agents *agents)
{
    for (uint32_t i = 0; i < agents->infos.count; i++)
        array_free(&((struct agent_info *)array_at(&agents->infos, i))->workers);
    array_free(&agents->infos);
}

struct agent_info *agents_find(const struct agents *agents, uint64_t node_key)
{
    struct agent_info *infos = agents->infos.items;
    for (uint32_t i = 0; i < agents->infos.count; i++)
        if (infos[i].node_key == node_key) return &infos[i];
    return NULL;
}

struct agent_info *agents_get(struct agents *agents, uint64_t node_key)
{
    struct agent_info *info = agents_find(agents, node_key);
    if (info != NULL) return info;
    info = agents_find(agents, 0 /* a free row */);
    if (info == NULL) {
        info = array_push(&agents->infos);
        if (info == NULL) return NULL;
        array_init(&info->workers, sizeof(struct agent_worker));
    }
    info->node_key = node_key;
    return info;
}

const struct agent_worker *agent_find_worker(const struct agent_info *info, uint64_t job_id,
                                             uint64_t worker_id)
{
    const struct agent_worker *workers = info->workers.items;
    for (uint32_t i = 0; i < info->workers.count; i++)
        if (workers[i].job_id == job_id && workers[i].worker_id == worker_id) return &workers[i];
    return NULL;
}

uint64_t agent_boot_of(const struct agent_report *report)
{
    uint64_t hash = XXH3_64bits_withSeed(report->started, strlen(report->started), report->pid);
    return hash >> 1; /* fits SQLite's signed integers */
}

bool agent_note_workers(struct agent_info *info, const struct agent_report *report)
{
    array_clear(&info->workers);
    if (!array_reserve(&info->workers, report->worker_count)) return false;
    for (uint32_t i = 0; i < report->worker_count; i++) {
        const struct report_worker *from = &report->workers[i];
        struct agent_worker *to = array_push(&info->workers); /* reserved */
        to->job_id = from->job;
        to->worker_id = from->worker;
        to->step = from->step;
        to->phase = from->phase;
        to->exit_code = from->exit_code;
        to->tokens_per_s = from->tokens_per_s;
        (void)snprintf(to->address, sizeof to->address, "%s", from->addr);
        (void)snprintf(to->doing, sizeof to->doing, "%.15s", from->doing); /* a word of the page */
    }
    return true;
}

void agents_sweep(struct agents *agents, int64_t before_us)
{
    struct agent_info *infos = agents->infos.items;
    for (uint32_t i = 0; i < agents->infos.count; i++) {
        if (infos[i].node_key == 0 || infos[i].heard_us >= before_us) continue;
        struct array workers = infos[i].workers;
        array_clear(&workers);
        infos[i] = (struct agent_info){.workers = workers};
    }
}
