/* Calls about jobs: submit, cancel, plan, and the rows of one or all. */
#include "base/mem.h"
#include "codec/json.h"
#include "codec/names.h"
#include "codec/yaml.h"
#include "core/quote.h"
#include "server/server_state.h"
#include <stdio.h>
#include <string.h>

enum { JOBS_LIMIT = 10000, JOBS_LIMIT_DEFAULT = 1000 };

/* Submit. */

struct submission {
    struct server *s;
    request *r;
    uint64_t job_id;
    bool is_repeat; /* the same Idempotency-Key was there before: nothing new was written */
};

static void answer_submission(struct server *s, request *r, const struct job_info *info,
                              unsigned status)
{
    char text[NAMES_SENTENCE_BYTES];
    json_int_t id = (json_int_t)info->job_id;
    if (!info->is_refused) {
        request_reply_json(r, status, json_pack("{s:I,s:s}", "job", id, "name", info->name));
        return;
    }
    const int64_t *numbers = info->refused_numbers;
    (void)reason_format(info->refused_reason, numbers[0], numbers[1], numbers[2], text,
                        sizeof text);
    (void)s;
    request_reply_json(r, 422,
                       json_pack("{s:o,s:I,s:s}", "error",
                                 json_sprintf("job \"%s\" is refused: %s", info->name, text), "job",
                                 id, "reason", name_reason(info->refused_reason)));
}

static void on_submitted(void *arg, const char *error)
{
    struct submission *sub = arg;
    struct job_info *info = jobs_find(&sub->s->jobs, sub->job_id);
    if (error != NULL) {
        if (!sub->is_repeat) jobs_give_up(&sub->s->jobs, sub->job_id);
        api_commit_failed(sub->s, sub->r, error);
    } else if (info == NULL) {
        request_fail(sub->r, 503, "the first request with this Idempotency-Key failed; try again");
    } else {
        info->is_pending = false;
        answer_submission(sub->s, sub->r, info, sub->is_repeat ? 200 : 201);
    }
    mem_free(sub);
}

static bool is_good_key(const char *key)
{
    size_t length = strlen(key);
    if (length == 0 || length > JOB_KEY_BYTES_MAX) return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)key[i] <= 0x20 || (unsigned char)key[i] >= 0x7f) return false;
    return true;
}

static bool push_rows(struct batch *b, const struct job_info *info, char *spec_text)
{
    if (!array_reserve(&b->specs, 1) || !array_reserve(&b->jobs, 1)) return false;
    struct batch_job job = {.job_id = info->job_id, .spec_hash = info->spec_hash};
    job.name = mem_strdup(info->name);
    job.secret = mem_strdup(info->secret);
    job.idempotency_key = info->key == NULL ? NULL : mem_strdup(info->key);
    if (job.name == NULL || job.secret == NULL || (info->key != NULL && !job.idempotency_key)) {
        mem_free(job.name);
        mem_free(job.secret);
        mem_free(job.idempotency_key);
        return false;
    }
    struct batch_spec *spec = array_push(&b->specs); /* both reserved above */
    *spec = (struct batch_spec){.hash = info->spec_hash, .text = spec_text};
    *(struct batch_job *)array_push(&b->jobs) = job;
    return true;
}

/* Takes spec_text over when it succeeds. */
static bool push_job(struct server *s, const struct job_spec *spec, char *spec_text,
                     const char *key, uint64_t *ret_job_id, struct error *ret_error)
{
    struct job_events events;
    uint64_t hash = job_spec_text_hash(spec_text);
    const struct job_info *info = jobs_add(&s->jobs, spec->name, hash, key, ret_error);
    if (info == NULL) return false;
    uint64_t job_id = info->job_id;
    const char *trouble = NULL;
    if (!job_spec_event(spec, &s->catalog->links, job_id, hash, names_id_of, s->names, &events,
                        ret_error))
        goto fail;
    /* Rows first: an event without its job row could not be undone, rows without event can. */
    if (!push_rows(pump_batch(s->pump), info, spec_text)) {
        (void)error_set(ret_error, "out of memory; try again");
        goto fail;
    }
    for (uint32_t i = 0; i < events.rate_count && trouble == NULL; i++)
        trouble = pump_push(s->pump, &events.rates[i]);
    for (uint32_t i = 0; i < events.link_count && trouble == NULL; i++)
        trouble = pump_push(s->pump, &events.links[i]);
    if (trouble == NULL && events.terms.kind != 0) trouble = pump_push(s->pump, &events.terms);
    if (trouble == NULL) trouble = pump_push(s->pump, &events.submitted);
    if (trouble != NULL) {
        struct batch *b = pump_batch(s->pump);
        struct batch_job *row = array_at(&b->jobs, --b->jobs.count);
        mem_free(row->name);
        mem_free(row->secret);
        mem_free(row->idempotency_key);
        b->specs.count--; /* its text stays the caller's */
        (void)error_set(ret_error, "%s", trouble);
        goto fail;
    }
    *ret_job_id = job_id;
    return true;
fail:
    jobs_give_up(&s->jobs, job_id);
    return false;
}

enum { KNOWN_REGIONS_MAX = LINK_REGIONS_MAX + 2 * LINK_PAIRS_MAX + 64 };

static void add_region(const char *known[KNOWN_REGIONS_MAX], uint32_t *count, const char *name)
{
    for (uint32_t i = 0; i < *count; i++)
        if (strcmp(known[i], name) == 0) return;
    if (*count < KNOWN_REGIONS_MAX) known[(*count)++] = name;
}

/* Of the catalog's links, or one where something is on sale: a misspelt one would cost egress from nowhere,
 * or never be found on sale. */
static bool is_region(struct server *s, const char *key, const char *region, struct error *ret_error)
{
    const char *known[KNOWN_REGIONS_MAX];
    const struct links *links = &s->catalog->links;
    struct offer_view offer;
    uint32_t count = 0;
    if (region[0] == '\0') return true;
    for (uint32_t i = 0; i < pool_offers_end(s->pool); i++)
        if (pool_offer_at(s->pool, i, &offer))
            add_region(known, &count, names_text(s->names, ID_REGION, offer.region));
    for (uint32_t i = 0; i < links->region_count; i++)
        add_region(known, &count, links->regions[i].name);
    for (uint32_t i = 0; i < links->pair_count; i++) {
        add_region(known, &count, links->pairs[i].from);
        add_region(known, &count, links->pairs[i].to);
    }
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(known[i], region) == 0) return true;
    const char *nearest = yaml_nearest(region, known, count);
    if (nearest != NULL)
        return error_set(ret_error, "job.yaml: %s \"%s\" is not known; did you mean \"%s\"?", key,
                         region, nearest);
    return error_set(ret_error,
                     "job.yaml: %s \"%s\" is not known: nothing is on sale there, and the "
                     "catalog's links do not name it; add it to the links of your catalog",
                     key, region);
}

static struct job_spec *parse_spec(struct server *s, request *r)
{
    size_t bytes;
    struct error error;
    const char *text = request_body(r, &bytes);
    struct job_spec *spec = mem_alloc(sizeof *spec);
    if (spec == NULL) {
        request_fail(r, 503, "out of memory; try again");
        return NULL;
    }
    if (bytes == 0)
        request_fail(r, 400, "the body is empty; send the text of job.yaml");
    else if (!job_spec_parse(s->catalog, s->config, "job.yaml", text, bytes, spec, &error))
        request_fail(r, 400, "%s", error.text);
    else if (!is_region(s, "data.region", spec->data_region, &error) ||
             !is_region(s, "market.region", spec->region, &error))
        request_fail(r, 400, "%s", error.text);
    else
        return spec;
    mem_free(spec);
    return NULL;
}

static void submit_parsed(struct server *s, request *r, const struct job_spec *spec,
                          const char *key, struct submission *sub)
{
    struct error error;
    char *text = job_spec_text(s->catalog, spec);
    if (text == NULL) {
        request_fail(r, 503, "out of memory; try again");
        mem_free(sub);
    } else if (!push_job(s, spec, text, key, &sub->job_id, &error)) {
        request_fail(r, 400, "%s", error.text);
        mem_free(text);
        mem_free(sub);
    } else if (!pump_wait(s->pump, on_submitted, sub)) {
        request_fail(r, 503,
                     "the server is stopping or out of memory; the job may have been taken");
        mem_free(sub);
    }
}

void api_job_submit(struct server *s, request *r)
{
    const char *key = request_header(r, "Idempotency-Key");
    if (key != NULL && !is_good_key(key)) {
        request_fail(r, 400, "Idempotency-Key: expected 1 to %d printable characters",
                     JOB_KEY_BYTES_MAX);
        return;
    }
    const struct job_info *earlier = key == NULL ? NULL : jobs_find_key(&s->jobs, key);
    if (earlier != NULL && !earlier->is_pending) {
        answer_submission(s, r, earlier, 200);
        return;
    }
    struct submission *sub = mem_zalloc(1, sizeof *sub);
    if (sub == NULL) {
        request_fail(r, 503, "out of memory; try again");
        return;
    }
    *sub = (struct submission){.s = s, .r = r};
    if (earlier != NULL) { /* the first one is being committed: wait for what becomes of it */
        sub->job_id = earlier->job_id;
        sub->is_repeat = true;
        if (pump_wait(s->pump, on_submitted, sub)) return;
        request_fail(r, 503, "the server is stopping or out of memory; try again");
        mem_free(sub);
        return;
    }
    struct job_spec *spec = parse_spec(s, r);
    if (spec != NULL)
        submit_parsed(s, r, spec, key, sub);
    else
        mem_free(sub);
    mem_free(spec);
}

/* Plan. */

void api_plan(struct server *s, request *r)
{
    struct error error;
    struct job_events events;
    struct job_spec *spec = parse_spec(s, r);
    if (spec == NULL) return;
    struct quote *quote = mem_zalloc(1, sizeof *quote);
    if (quote == NULL) {
        request_fail(r, 503, "out of memory; try again");
    } else if (!job_spec_event(spec, &s->catalog->links, 1 /* any id: nothing is kept */, 1,
                               names_id_of, s->names, &events, &error)) {
        request_fail(r, 400, "%s", error.text);
    } else {
        struct view_names view_names = server_view_names(s);
        const struct quote_ask ask = {.submitted = &events.submitted,
                                      .terms = &events.terms.u.terms_defined.terms,
                                      .rates = events.rates,
                                      .links = events.links,
                                      .rate_count = events.rate_count,
                                      .link_count = events.link_count};
        pool_quote(s->pool, &ask, quote);
        request_reply_json(r, 200, quote_json(&view_names, quote, spec));
    }
    mem_free(quote);
    mem_free(spec);
}

/* Cancel. */

static void on_cancelled(void *arg, const char *error)
{
    request *r = arg;
    if (error != NULL)
        api_commit_failed(request_host(r), r, error);
    else
        request_reply_json(r, 200, json_object());
}

static bool find_job(struct server *s, request *r, struct job_view *ret_view)
{
    uint64_t id = request_id(r);
    if (pool_job_find(s->pool, id, ret_view)) return true;
    if (jobs_find(&s->jobs, id) == NULL)
        request_fail(r, 404, "there is no job %llu; see: shoal jobs (GET /v1/jobs)",
                     (unsigned long long)id);
    else
        request_fail(r, 404, "job %llu ended long ago; only its cost and decisions are kept",
                     (unsigned long long)id);
    return false;
}

void api_job_cancel(struct server *s, request *r)
{
    struct job_view view;
    if (!find_job(s, r, &view)) return;
    struct pool_event event = {.kind = POOL_EVENT_JOB_CANCELLED};
    event.u.job_cancelled.job_id = view.job_id;
    const char *trouble = pump_push(s->pump, &event);
    if (trouble != NULL)
        request_fail(r, 503, "%s", trouble);
    else
        api_wait(s, r, on_cancelled, r);
}

/* Rows. */

static double tokens_per_s(struct server *s, uint64_t job_id)
{
    double sum = 0;
    struct lease_range range = leases_of_job(&s->leases, job_id);
    for (uint32_t i = 0; i < range.count; i++) {
        const struct agent_info *agent = agents_find(&s->agents, range.items[i].node_key);
        const struct agent_worker *worker =
            agent == NULL ? NULL : agent_find_worker(agent, job_id, range.items[i].worker_id);
        if (worker != NULL && worker->phase == WORKER_PHASE_RUNNING) sum += worker->tokens_per_s;
    }
    return sum;
}

static json_t *job_row(struct server *s, const struct job_view *view)
{
    struct view_names view_names = server_view_names(s);
    const struct job_info *info = jobs_find(&s->jobs, view->job_id);
    json_t *row = job_view_json(&view_names, view, jobs_spec(&s->jobs, view->spec_hash));
    if (row == NULL) return NULL;
    bool failed = false;
    char stall[STALL_SENTENCE_BYTES];
    json_set_text(row, "stall", stalls_text(&s->stalls, view->job_id, stall), &failed);
    json_set_real(row, "loss", info == NULL ? 0 : info->loss, &failed);
    json_set_real(row, "tokens_per_s", tokens_per_s(s, view->job_id), &failed);
    return json_finish(row, failed);
}

void api_job(struct server *s, request *r)
{
    struct job_view view;
    if (!find_job(s, r, &view)) return;
    (void)leases_refresh(&s->leases, s->pool); /* without: tokens_per_s is 0 */
    request_reply_json(r, 200, job_row(s, &view));
}

static bool read_state(request *r, uint32_t *ret_state)
{
    const char *text = request_query(r, "state");
    *ret_state = 0;
    if (text == NULL || find_job_state(text, ret_state)) return true;
    request_fail(r, 400, "query state=%.40s: expected a state like queued, running or done", text);
    return false;
}

static bool is_listed(struct server *s, uint64_t id, uint32_t state, struct job_view *ret_view)
{
    return pool_job_find(s->pool, id, ret_view) && (state == 0 || ret_view->state == state);
}

/* The id before the newest `limit` jobs. */
static uint64_t before_newest(struct server *s, uint32_t state, uint64_t limit)
{
    struct job_view view;
    uint64_t id = s->jobs.infos.count;
    for (uint64_t found = 0; id > 0 && found < limit; id--) found += is_listed(s, id, state, &view);
    return id;
}

/* In order of id, a page at a time from `after` on; without it, the newest page. */
void api_jobs(struct server *s, request *r)
{
    uint64_t after, limit;
    uint32_t state;
    if (!request_query_u64(r, "after", 0, INT64_MAX, &after) ||
        !request_query_u64(r, "limit", JOBS_LIMIT_DEFAULT, JOBS_LIMIT, &limit) ||
        !read_state(r, &state))
        return;
    if (request_query(r, "after") == NULL) after = before_newest(s, state, limit);
    (void)leases_refresh(&s->leases, s->pool); /* without: tokens_per_s is 0 */
    json_t *rows = json_array();
    uint64_t last = s->jobs.infos.count;
    for (uint64_t id = after; id < last && json_array_size(rows) < limit; id++) {
        struct job_view view;
        if (!is_listed(s, id + 1, state, &view)) continue;
        if (json_array_append_new(rows, job_row(s, &view)) == 0) continue;
        json_decref(rows); /* out of memory: no half answer */
        rows = NULL;
        break;
    }
    request_reply_json(r, 200, rows == NULL ? NULL : json_pack("{s:o}", "jobs", rows));
}
