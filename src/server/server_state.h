/* The parts of one running server, for the files of this folder only.
 *
 * Order of opening: config and catalog, lock, auth, journal, names, offers and jobs, pool, pump,
 * stream, http, providers. Closing goes the other way round, see server.c.
 */
#ifndef SHOAL_SERVER_STATE_H
#define SHOAL_SERVER_STATE_H

#include "codec/config.h"
#include "codec/view_json.h"
#include "server/agents.h"
#include "server/auth.h"
#include "server/http.h"
#include "server/jobs.h"
#include "server/journal.h"
#include "server/leases.h"
#include "server/lives.h"
#include "server/names.h"
#include "server/offers.h"
#include "server/providers.h"
#include "server/pump.h"
#include "server/ranking.h"
#include "server/stalls.h"
#include "server/stream.h"

enum { SERVER_PATH_BYTES = 4096 };

struct server {
    uv_loop_t loop;
    struct config *config;
    struct catalog *catalog;
    char config_file[SERVER_PATH_BYTES];
    char dir[SERVER_PATH_BYTES]; /* the data folder, absolute */
    int lock_fd;
    struct auth auth;
    journal *journal;
    names *names;
    struct offers offers;
    struct jobs jobs;
    struct agents agents;
    struct leases leases;
    struct stalls stalls;
    struct lives lives;
    pool *pool;
    void *pool_memory;
    pump *pump;
    stream *stream;
    http *http;
    struct providers providers;
    struct ranking ranking;
    uv_signal_t signals[2];
    uv_timer_t sweep;
    int64_t started_us, restart_us; /* monotonic; how long opening the journal took */
    uint64_t events_replayed;
    bool is_stopping, keep_nodes, has_small_handles;
};

/* For view_json.h. */
struct view_names server_view_names(struct server *s);

/* api.c: the one handler of http.h. */
void api_handle(void *host, request *r);

/* After this returns `done` will be called, or the request has been answered with 503. */
void api_wait(struct server *s, request *r, batch_done_fn *done, void *arg);
/* Answers a request whose commit failed: 507 when the disk is full, else 503. */
void api_commit_failed(struct server *s, request *r, const char *error);

/* api_agents_reply.c: what the agent of a node should be doing. */
void agent_answer(struct server *s, request *r, uint64_t node_key, uint64_t progress_after);
bool agent_is_unwanted(const struct node_view *node);
void agent_answer_leave(request *r);
/* api_agents.c: journals what has changed about stalls; self is the server. */
void server_stall_changed(void *self, const struct stall_change *change);

/* The calls, one file for each kind of thing. */
void api_plan(struct server *s, request *r);
void api_plan_ncu(struct server *s, request *r);
void api_job_submit(struct server *s, request *r);
void api_job_cancel(struct server *s, request *r);
void api_jobs(struct server *s, request *r);
void api_job(struct server *s, request *r);
void api_job_why(struct server *s, request *r);
void api_job_logs(struct server *s, request *r);
void api_job_progress(struct server *s, request *r);
void api_nodes(struct server *s, request *r);
void api_node_drain(struct server *s, request *r);
void api_offers(struct server *s, request *r);
void api_pools(struct server *s, request *r);
void api_cost(struct server *s, request *r);
void api_budget(struct server *s, request *r);
void api_ledger(struct server *s, request *r);
void api_decisions(struct server *s, request *r);
void api_market(struct server *s, request *r);
void api_market_changes(struct server *s, request *r);
void api_metrics(struct server *s, request *r);
void api_agent_report(struct server *s, request *r);

#endif
