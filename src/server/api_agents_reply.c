/* What an agent should be doing: the reply to its report, made from the core's leases. */
#include "base/mem.h"
#include "codec/names.h"
#include "server/server_state.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_MS = 250 };

struct reply_memory { /* lists of one reply, grown as needed, freed when it is written */
    struct array workers, peers;
    struct array texts; /* char *, owned */
};

static const char *keep_text(struct reply_memory *m, char *text)
{
    char **slot = text == NULL ? NULL : array_push(&m->texts);
    if (slot == NULL) {
        mem_free(text);
        return NULL;
    }
    return *slot = text;
}

static void reply_memory_init(struct reply_memory *m)
{
    array_init(&m->workers, sizeof(struct reply_worker));
    array_init(&m->peers, sizeof(struct reply_peers));
    array_init(&m->texts, sizeof(char *));
}

static void reply_memory_free(struct reply_memory *m)
{
    for (uint32_t i = 0; i < m->texts.count; i++) mem_free(((char **)m->texts.items)[i]);
    for (uint32_t i = 0; i < m->peers.count; i++) {
        const struct reply_peers *peers = array_at(&m->peers, i);
        mem_free((void *)(uintptr_t)peers->peers); /* ours: see add_peers */
    }
    struct array *const lists[] = {&m->workers, &m->peers, &m->texts};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) array_free(lists[i]);
}

static void put_stop(struct server *s, const struct lease_view *lease, struct reply_worker *worker)
{
    int64_t left_us = lease->deadline_us - pump_now_us(s->pump);
    worker->want = REPLY_STOP;
    worker->reason = name_reason(lease->stop_reason);
    worker->deadline_ms = left_us <= 0 ? 0 : left_us / 1000;
}

/* Texts of a spec live in a cache that the next spec may push out: everything is copied. */
static bool put_list(struct reply_memory *m, const struct text_list *list,
                     const char *const **ret_items)
{
    const char **items = mem_zalloc(list->count + 1, sizeof *items);
    if (keep_text(m, (char *)items) == NULL) return false;
    for (uint32_t i = 0; i < list->count; i++) {
        items[i] = keep_text(m, mem_strdup(text_list_at(list, i)));
        if (items[i] == NULL) return false;
    }
    *ret_items = items;
    return true;
}

/* Relative folders are seen from where the server runs: agents may run anywhere. */
static char *absolute(const char *dir)
{
    if (dir[0] == '/') return mem_strdup(dir);
    char *real = realpath(dir[0] == '\0' ? "." : dir, NULL);
    char *copy = mem_strdup(real == NULL ? dir : real);
    free(real); /* of realpath(3), not of base/mem.h */
    return copy;
}

/* "": none; NULL: out of memory */
static const char *checkpoint_dir(struct server *s, struct reply_memory *m,
                                  const struct job_spec *spec, uint64_t job_id)
{
    const char *dir = spec->checkpoint_dir;
    if (spec->checkpoint_every == 0) return "";
    if (dir[0] == '\0') return keep_text(m, mem_printf("%s/checkpoints/%" PRIu64, s->dir, job_id));
    return keep_text(m, strstr(dir, "://") == NULL ? absolute(dir) : mem_strdup(dir));
}

static bool put_run(struct server *s, struct reply_memory *m, const struct lease_view *lease,
                    struct reply_worker *worker)
{
    const struct job_info *info = jobs_find(&s->jobs, lease->job_id);
    const struct job_spec *spec = info == NULL ? NULL : jobs_spec(&s->jobs, info->spec_hash);
    if (spec == NULL) return false;
    worker->want = REPLY_RUN;
    worker->device_mask = lease->device_mask;
    worker->device_milli = lease->device_milli;
    worker->mig_compute = lease->mig_compute;
    worker->mig_start = lease->mig_start;
    worker->slots = spec->slots;
    worker->steps = spec->steps;
    worker->gang = spec->devices_min;
    worker->checkpoint_every = spec->checkpoint_every;
    worker->token = info->secret;
    worker->arg_count = spec->command.count;
    worker->env_count = spec->env.count / 2;
    worker->dir = keep_text(m, absolute(spec->dir));
    worker->checkpoint_dir = checkpoint_dir(s, m, spec, lease->job_id);
    return worker->dir != NULL && worker->checkpoint_dir != NULL &&
           put_list(m, &spec->command, &worker->args) && put_list(m, &spec->env, &worker->env);
}

/* The other workers of a job whose addresses are known. */
static bool add_peers(struct server *s, struct reply_memory *m, uint64_t job_id)
{
    for (uint32_t i = 0; i < m->peers.count; i++)
        if (((const struct reply_peers *)array_at(&m->peers, i))->job == job_id) return true;
    struct lease_range range = leases_of_job(&s->leases, job_id);
    struct reply_peers *peers = array_push(&m->peers);
    if (peers == NULL) return false;
    peers->job = job_id;
    struct job_info *info = jobs_find(&s->jobs, job_id);
    peers->told = info == NULL ? 0 : jobs_told(&s->jobs, info);
    struct reply_peer *items = mem_zalloc(range.count, sizeof *items);
    if (items == NULL) return false;
    peers->peers = items;
    for (uint32_t i = 0; i < range.count; i++) {
        const struct lease_view *lease = &range.items[i];
        const struct agent_info *agent = agents_find(&s->agents, lease->node_key);
        const struct agent_worker *worker =
            agent == NULL ? NULL : agent_find_worker(agent, job_id, lease->worker_id);
        bool is_there =
            worker != NULL && worker->address[0] != '\0' && worker->phase <= WORKER_PHASE_RUNNING;
        if (!is_there || peers->peer_count == REPLY_PEERS_MAX) continue;
        items[peers->peer_count++] =
            (struct reply_peer){.worker = lease->worker_id, .addr = worker->address};
    }
    return true;
}

static bool add_leases(struct server *s, struct reply_memory *m, uint64_t node_key)
{
    struct lease_range range = leases_of_node(&s->leases, node_key);
    for (uint32_t i = 0; i < range.count && i < REPORT_WORKERS_MAX; i++) {
        const struct lease_view *lease = &range.items[i];
        struct reply_worker *worker = array_push(&m->workers);
        if (worker == NULL) return false;
        worker->job = lease->job_id;
        worker->worker = lease->worker_id;
        if (lease->stop_reason != 0)
            put_stop(s, lease, worker);
        else if (!put_run(s, m, lease, worker))
            return false;
        if (!add_peers(s, m, lease->job_id)) return false;
    }
    return true;
}

/* Workers that run although no lease wants them: the core forgot them, so they must end. */
static bool add_strays(struct server *s, struct reply_memory *m, const struct agent_info *agent)
{
    struct lease_range range = leases_of_node(&s->leases, agent->node_key);
    for (uint32_t i = 0; i < agent->workers.count; i++) {
        const struct agent_worker *worker = array_at(&agent->workers, i);
        bool is_wanted = worker->phase > WORKER_PHASE_RUNNING;
        for (uint32_t k = 0; k < range.count; k++)
            is_wanted = is_wanted || (range.items[k].job_id == worker->job_id &&
                                      range.items[k].worker_id == worker->worker_id);
        if (is_wanted) continue;
        struct reply_worker *stop = array_push(&m->workers);
        if (stop == NULL) return false;
        *stop = (struct reply_worker){.job = worker->job_id,
                                      .worker = worker->worker_id,
                                      .want = REPLY_STOP,
                                      .reason = name_reason(REASON_JOB_ENDED)};
    }
    return true;
}

void agent_answer_leave(request *r)
{
    char *text = agent_reply_write(&(struct agent_reply){.leave = true});
    if (text == NULL)
        request_fail(r, 503, "out of memory; try again");
    else
        request_reply(r, 200, "application/json", text, strlen(text));
}

bool agent_is_unwanted(const struct node_view *node)
{
    return node->state == NODE_RELEASING || node->phase == NODE_PHASE_GONE ||
           node->phase == NODE_PHASE_REFUSED;
}

static char *write_reply(struct server *s, const struct node_view *node,
                         const struct agent_info *agent, uint64_t progress_after,
                         struct reply_memory *m)
{
    int64_t left_us = node->notice_us - pump_now_us(s->pump);
    if (!leases_refresh(&s->leases, s->pool) || !add_leases(s, m, node->node_key) ||
        !add_strays(s, m, agent))
        return NULL;
    const struct agent_reply reply = {.lease_ms = s->config->lease_us / 1000,
                                      .report_ms = REPORT_MS,
                                      .logs_after = agent->logs_after,
                                      .progress_after = progress_after,
                                      .worker_count = m->workers.count,
                                      .workers = m->workers.items,
                                      .peers_count = m->peers.count,
                                      .peers = m->peers.items,
                                      .notice_ms = node->notice_us == 0 ? 0
                                                   : left_us < 1000     ? 1
                                                                        : left_us / 1000};
    return agent_reply_write(&reply);
}

void agent_answer(struct server *s, request *r, uint64_t node_key, uint64_t progress_after)
{
    struct node_view node;
    const struct agent_info *agent = agents_find(&s->agents, node_key);
    if (agent == NULL || !pool_node_find(s->pool, node_key, &node) || agent_is_unwanted(&node)) {
        agent_answer_leave(r);
        return;
    }
    struct reply_memory memory;
    reply_memory_init(&memory);
    char *text = write_reply(s, &node, agent, progress_after, &memory);
    reply_memory_free(&memory);
    if (text == NULL)
        request_fail(r, 503, "out of memory; try again");
    else
        request_reply(r, 200, "application/json", text, strlen(text));
}
