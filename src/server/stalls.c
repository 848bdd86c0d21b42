#include "server/stalls.h"
#include "base/mem.h"
#include "codec/json.h"
#include "core/limits.h"
#include <stdio.h>
#include <string.h>

struct stall_verdict {
    struct report_stall stall; /* culprits: own copy; 0 job: free row */
    uint64_t node_key, told_key;
    int64_t heard_us, since_us, told_us;
};

struct stall_stuck {
    uint64_t job_id, worker_id, node_key; /* 0 job: free row */
    struct report_stuck stuck;            /* phase is a constant; the rest points below */
    char state[4], call[64], wchan[64];
    char *stack; /* owned */
    int64_t heard_us, since_us, told_us;
    bool told_stopped;
};

void stalls_init(struct stalls *stalls)
{
    array_init(&stalls->verdicts, sizeof(struct stall_verdict));
    array_init(&stalls->stucks, sizeof(struct stall_stuck));
}

static struct stall_verdict *verdict_at(const struct stalls *stalls, uint32_t i)
{
    return array_at(&stalls->verdicts, i);
}

static struct stall_stuck *stuck_at(const struct stalls *stalls, uint32_t i)
{
    return array_at(&stalls->stucks, i);
}

static void clear_verdict(struct stall_verdict *verdict)
{
    mem_free((void *)(uintptr_t)verdict->stall.culprits); /* ours */
    *verdict = (struct stall_verdict){0};
}

static void clear_stuck(struct stall_stuck *stuck)
{
    mem_free(stuck->stack);
    *stuck = (struct stall_stuck){0};
}

void stalls_free(struct stalls *stalls)
{
    for (uint32_t i = 0; i < stalls->verdicts.count; i++) clear_verdict(verdict_at(stalls, i));
    for (uint32_t i = 0; i < stalls->stucks.count; i++) clear_stuck(stuck_at(stalls, i));
    array_free(&stalls->verdicts);
    array_free(&stalls->stucks);
}

/* ---- verdicts ---- */

static struct stall_verdict *find_verdict(const struct stalls *stalls, uint64_t job_id)
{
    for (uint32_t i = 0; i < stalls->verdicts.count; i++)
        if (verdict_at(stalls, i)->stall.job == job_id) return verdict_at(stalls, i);
    return NULL;
}

static struct stall_stuck *find_stuck(const struct stalls *stalls, uint64_t job_id,
                                      uint64_t worker_id)
{
    for (uint32_t i = 0; i < stalls->stucks.count; i++)
        if (stuck_at(stalls, i)->job_id == job_id && stuck_at(stalls, i)->worker_id == worker_id)
            return stuck_at(stalls, i);
    return NULL;
}

static bool is_stopped(const struct stall_stuck *stuck)
{
    return stuck != NULL && (stuck->state[0] == 'T' || stuck->state[0] == 't');
}

static void note_stopped(struct stall_stuck *stuck, int64_t now_us)
{
    stuck->told_stopped = true;
    stuck->told_us = now_us;
}

/* The same culprits for the same reasons give the same number, whatever their order. */
static uint64_t key_of(const struct report_stall *stall)
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < stall->culprit_count; i++) {
        const struct report_culprit *culprit = &stall->culprits[i];
        uint64_t word = culprit->worker * 31 + culprit->peer * 1009 + stall_kind_of(culprit);
        key += (word + 1) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return key;
}

static void tell_verdict(struct stalls *stalls, struct stall_verdict *verdict, int64_t now_us,
                         stalls_changed_fn *changed, void *self)
{
    uint64_t key = key_of(&verdict->stall);
    if (key == verdict->told_key && now_us < verdict->told_us + STALL_TOLD_AGAIN_US) return;
    verdict->told_key = key;
    verdict->told_us = now_us;
    for (uint32_t i = 0; i < verdict->stall.culprit_count; i++) {
        const struct report_culprit *culprit = &verdict->stall.culprits[i];
        struct stall_stuck *stuck = find_stuck(stalls, verdict->stall.job, culprit->worker);
        if (stuck != NULL && is_stopped(stuck)) note_stopped(stuck, now_us);
        const struct stall_change change = {.job_id = verdict->stall.job,
                                            .worker_id = culprit->worker,
                                            .step = verdict->stall.step,
                                            .lasted_us = culprit->for_us,
                                            .culprit = culprit,
                                            .is_stopped = is_stopped(stuck)};
        changed(self, &change);
    }
}

static void end_verdict(struct stall_verdict *verdict, int64_t now_us, stalls_changed_fn *changed,
                        void *self)
{
    const struct stall_change change = {.job_id = verdict->stall.job,
                                        .step = verdict->stall.step,
                                        .lasted_us = now_us - verdict->since_us};
    clear_verdict(verdict);
    changed(self, &change);
}

static bool take_verdict(struct stalls *stalls, uint64_t node_key, const struct report_stall *stall,
                         int64_t now_us, stalls_changed_fn *changed, void *self)
{
    if (stall->culprit_count == 0 || stall->job == 0) return true;
    size_t bytes = stall->culprit_count * sizeof *stall->culprits;
    struct report_culprit *culprits = mem_alloc(bytes);
    if (culprits == NULL) return false;
    memcpy(culprits, stall->culprits, bytes);
    struct stall_verdict *verdict = find_verdict(stalls, stall->job);
    if (verdict == NULL) verdict = find_verdict(stalls, 0 /* a free row */);
    if (verdict == NULL) verdict = array_push(&stalls->verdicts);
    if (verdict == NULL) {
        mem_free(culprits);
        return false;
    }
    if (verdict->stall.job == 0) verdict->since_us = now_us - stall->waited_us;
    mem_free((void *)(uintptr_t)verdict->stall.culprits); /* ours */
    verdict->stall = *stall;
    verdict->stall.culprits = culprits;
    verdict->node_key = node_key;
    verdict->heard_us = now_us;
    tell_verdict(stalls, verdict, now_us, changed, self);
    return true;
}

/* ---- workers that do not move ---- */

static void end_stuck(struct stall_stuck *stuck, int64_t now_us, stalls_changed_fn *changed,
                      void *self)
{
    const struct stall_change change = {.job_id = stuck->job_id,
                                        .worker_id = stuck->worker_id,
                                        .step = stuck->stuck.step,
                                        .lasted_us = now_us - stuck->since_us};
    bool told = stuck->told_stopped;
    clear_stuck(stuck);
    if (told) changed(self, &change);
}

static bool fill_stuck(struct stall_stuck *row, const struct report_stuck *stuck)
{
    char *stack = mem_strdup(stuck->stack);
    if (stack == NULL) return false;
    mem_free(row->stack);
    row->stack = stack;
    (void)snprintf(row->state, sizeof row->state, "%s", stuck->state);
    (void)snprintf(row->call, sizeof row->call, "%.60s", stuck->call);
    (void)snprintf(row->wchan, sizeof row->wchan, "%.60s", stuck->wchan);
    row->stuck = *stuck;
    row->stuck.state = row->state;
    row->stuck.call = row->call;
    row->stuck.wchan = row->wchan;
    row->stuck.stack = row->stack;
    return true;
}

static bool take_stuck(struct stalls *stalls, uint64_t node_key, const struct report_worker *worker,
                       int64_t now_us, stalls_changed_fn *changed, void *self)
{
    struct stall_stuck *row = find_stuck(stalls, worker->job, worker->worker);
    if (row == NULL) row = find_stuck(stalls, 0, 0); /* a free row */
    if (row == NULL) row = array_push(&stalls->stucks);
    if (row == NULL || !fill_stuck(row, &worker->stuck)) return false;
    if (row->job_id == 0) row->since_us = now_us;
    row->job_id = worker->job;
    row->worker_id = worker->worker;
    row->node_key = node_key;
    row->heard_us = now_us;
    bool told = row->told_stopped && now_us < row->told_us + STALL_TOLD_AGAIN_US;
    if (!is_stopped(row) || told) return true;
    note_stopped(row, now_us);
    const struct stall_change change = {.job_id = row->job_id,
                                        .worker_id = row->worker_id,
                                        .step = row->stuck.step,
                                        .lasted_us = row->stuck.for_us,
                                        .is_stopped = true};
    changed(self, &change);
    return true;
}

static void end_unheard(struct stalls *stalls, uint64_t node_key, int64_t before_us, int64_t now_us,
                        stalls_changed_fn *changed, void *self)
{
    for (uint32_t i = 0; i < stalls->verdicts.count; i++) {
        struct stall_verdict *row = verdict_at(stalls, i);
        bool ours = node_key == 0 || row->node_key == node_key;
        if (row->stall.job != 0 && ours && row->heard_us < before_us)
            end_verdict(row, now_us, changed, self);
    }
    for (uint32_t i = 0; i < stalls->stucks.count; i++) {
        struct stall_stuck *row = stuck_at(stalls, i);
        bool ours = node_key == 0 || row->node_key == node_key;
        if (row->job_id != 0 && ours && row->heard_us < before_us)
            end_stuck(row, now_us, changed, self);
    }
}

bool stalls_take(struct stalls *stalls, uint64_t node_key, const struct agent_report *report,
                 int64_t now_us, stalls_changed_fn *changed, void *self)
{
    bool fits = true;
    for (uint32_t i = 0; i < report->worker_count; i++)
        if (report->workers[i].stuck.is && report->workers[i].job != 0)
            fits &= take_stuck(stalls, node_key, &report->workers[i], now_us, changed, self);
    for (uint32_t i = 0; i < report->stall_count; i++)
        fits &= take_verdict(stalls, node_key, &report->stalls[i], now_us, changed, self);
    if (fits) end_unheard(stalls, node_key, now_us, now_us, changed, self);
    return fits;
}

void stalls_expire(struct stalls *stalls, int64_t now_us, stalls_changed_fn *changed, void *self)
{
    end_unheard(stalls, 0, now_us - STALLS_LEASE_US, now_us, changed, self);
}

/* ---- answers ---- */

static json_t *lines_json(const char *text, bool *failed)
{
    json_t *lines = json_array();
    while (text != NULL && text[0] != '\0') {
        size_t length = strcspn(text, "\n");
        char *line = mem_printf("%.*s", (int)length, text);
        json_append(lines, line == NULL ? NULL : json_clean_string(line), failed);
        mem_free(line);
        text += length + (text[length] == '\n');
    }
    return lines;
}

static void set_stuck(json_t *object, const struct report_stuck *stuck, bool *failed)
{
    json_set_text(object, "state", stuck == NULL ? "" : stuck->state, failed);
    json_set_text(object, "call", stuck == NULL ? "" : stuck->call, failed);
    json_set_text(object, "wchan", stuck == NULL ? "" : stuck->wchan, failed);
    json_set_u64(object, "pid", stuck == NULL ? 0 : stuck->pid, failed);
    json_set(object, "stack", lines_json(stuck == NULL ? "" : stuck->stack, failed), failed);
}

static json_t *culprit_row(const struct stalls *stalls, uint64_t job_id,
                           const struct report_culprit *culprit, stalls_node_fn *node, void *self,
                           bool *failed)
{
    char text[STALL_SENTENCE_BYTES];
    const struct stall_stuck *row = find_stuck(stalls, job_id, culprit->worker);
    const struct report_stuck *stuck = row == NULL ? NULL : &row->stuck;
    uint64_t node_key = node(self, job_id, culprit->worker);
    uint64_t peer_node = culprit->peer == 0 ? 0 : node(self, job_id, culprit->peer);
    json_t *object = json_object();
    json_set_u64(object, "worker", culprit->worker, failed);
    json_set_u64(object, "node", node_key, failed);
    json_set_u64(object, "peer", culprit->peer, failed);
    json_set_u64(object, "peer_node", peer_node, failed);
    json_set_text(object, "kind", is_stopped(row) ? "stopped" : culprit->kind, failed);
    json_set_text(object, "phase", culprit->phase, failed);
    json_set_text(object, "host", culprit->host, failed);
    json_set_u64(object, "step", culprit->step, failed);
    json_set_u64(object, "slot", culprit->slot, failed);
    json_set_i64(object, "for_us", culprit->for_us, failed);
    json_set_i64(object, "usual_us", culprit->usual_us, failed);
    json_set_i64(object, "cpu_us", culprit->cpu_us, failed);
    json_set(object, "slow", json_boolean(culprit->slow), failed);
    json_set(object, "dropped", json_boolean(culprit->dropped), failed);
    json_set_text(object, "text", stall_culprit_text(culprit, stuck, node_key, peer_node, text),
                  failed);
    set_stuck(object, stuck, failed);
    return object;
}

/* One that only its agent speaks of: frozen, and the group went on without it. */
static json_t *stuck_row(const struct stall_stuck *row, bool *failed)
{
    char text[STALL_SENTENCE_BYTES];
    json_t *object = json_object();
    json_set_u64(object, "worker", row->worker_id, failed);
    json_set_u64(object, "node", row->node_key, failed);
    json_set_u64(object, "peer", 0, failed);
    json_set_u64(object, "peer_node", 0, failed);
    json_set_text(object, "kind", is_stopped(row) ? "stopped" : "stuck", failed);
    json_set_text(object, "phase", row->stuck.phase, failed);
    json_set_text(object, "host", "unknown", failed);
    json_set_u64(object, "step", row->stuck.step, failed);
    json_set_u64(object, "slot", row->stuck.slot, failed);
    json_set_i64(object, "for_us", row->stuck.for_us, failed);
    json_set_i64(object, "usual_us", row->stuck.usual_us, failed);
    json_set_i64(object, "cpu_us", 0, failed);
    json_set(object, "slow", json_false(), failed);
    json_set(object, "dropped", json_boolean(is_stopped(row)), failed);
    json_set_text(object, "text",
                  stall_stuck_text(row->worker_id, row->node_key, &row->stuck, text), failed);
    set_stuck(object, &row->stuck, failed);
    return object;
}

static bool is_culprit(const struct stall_verdict *verdict, uint64_t worker_id)
{
    for (uint32_t i = 0; verdict != NULL && i < verdict->stall.culprit_count; i++)
        if (verdict->stall.culprits[i].worker == worker_id) return true;
    return false;
}

/* Stopped workers of the job that no verdict names. */
static const struct stall_stuck *next_alone(const struct stalls *stalls, uint64_t job_id,
                                            const struct stall_verdict *verdict, uint32_t *at)
{
    for (; *at < stalls->stucks.count; ++*at) {
        const struct stall_stuck *row = stuck_at(stalls, *at);
        if (row->job_id == job_id && is_stopped(row) && !is_culprit(verdict, row->worker_id))
            return row;
    }
    return NULL;
}

const char *stalls_text(const struct stalls *stalls, uint64_t job_id,
                        char ret_text[STALL_SENTENCE_BYTES])
{
    const struct stall_verdict *verdict = find_verdict(stalls, job_id);
    uint32_t at = 0;
    ret_text[0] = '\0';
    if (job_id == 0) return ret_text;
    if (verdict != NULL) return stall_text(&verdict->stall, ret_text);
    const struct stall_stuck *row = next_alone(stalls, job_id, NULL, &at);
    if (row == NULL) return ret_text;
    return stall_stuck_text(row->worker_id, row->node_key, &row->stuck, ret_text);
}

json_t *stalls_json(const struct stalls *stalls, uint64_t job_id, stalls_node_fn *node, void *self)
{
    char text[STALL_SENTENCE_BYTES];
    bool failed = false;
    const struct stall_verdict *verdict = find_verdict(stalls, job_id);
    if (stalls_text(stalls, job_id, text)[0] == '\0') return json_null();
    const struct report_stall none = {.job = job_id};
    const struct report_stall *stall = verdict == NULL ? &none : &verdict->stall;
    json_t *object = json_object(), *culprits = json_array();
    for (uint32_t i = 0; i < stall->culprit_count; i++)
        json_append(culprits, culprit_row(stalls, job_id, &stall->culprits[i], node, self, &failed),
                    &failed);
    const struct stall_stuck *row;
    for (uint32_t at = 0; (row = next_alone(stalls, job_id, verdict, &at)) != NULL; at++)
        json_append(culprits, stuck_row(row, &failed), &failed);
    json_set_text(object, "text", text, &failed);
    json_set(object, "stalled", json_boolean(stall->stalled), &failed);
    json_set_u64(object, "step", stall->step, &failed);
    json_set_i64(object, "waited_us", stall->waited_us, &failed);
    json_set_u64(object, "workers", stall->workers, &failed);
    json_set_u64(object, "victims", stall->victims, &failed);
    json_set(object, "culprits", culprits, &failed);
    return json_finish(object, failed);
}
