#include "server/ranking.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/json.h"
#include "codec/rank_answer.h"
#include "codec/rank_net.h"
#include "server/server_state.h"
#include <inttypes.h>
#include <signal.h>
#include <string.h>

enum { TICK_MS = 50 };
#define BACKOFF_MIN_US INT64_C(200000)
#define BACKOFF_MAX_US INT64_C(300000000)

struct ranking_child {
    struct ranking *ranking; /* NULL: it is being buried */
    uv_process_t process;
    uv_pipe_t input, output;
    uint32_t open_handles;
    int64_t asked_us; /* monotonic; 0 = no answer is due */
    char *answer;
    size_t answer_bytes;
};

struct ranking_write {
    uv_write_t request;
    char *text;
};

static const struct config_ranking *wanted(const struct ranking *r)
{
    return &r->server->config->ranking;
}

static bool is_wanted(const struct config_ranking *ranking)
{
    return ranking->program.count > 0 || ranking->command.count > 0 || ranking->net.version > 0;
}

/* Of a model that the ranking is for. */
static bool is_ranked(const struct ranking *r, const struct offer_view *view)
{
    return wanted(r)->model_mask >> view->model & 1;
}

/* ---- to the core ---- */

struct batch_of_ranks {
    struct ranking *ranking;
    struct pool_event event;
};

static void send_ranks(struct batch_of_ranks *b)
{
    if (b->event.u.offers_ranked.count == 0) return;
    (void)pump_push(b->ranking->server->pump, &b->event); /* a level: the next round has it again */
    b->event.u.offers_ranked.count = 0;
}

static void begin_ranks(struct batch_of_ranks *b, struct ranking *r)
{
    *b = (struct batch_of_ranks){
        .ranking = r,
        .event = {.kind = POOL_EVENT_OFFERS_RANKED, .u.offers_ranked = {.state = RANKING_OWN}}};
}

static void add_rank(struct batch_of_ranks *b, uint64_t offer_id, uint32_t factor_ppm)
{
    uint32_t at = b->event.u.offers_ranked.count++;
    b->event.u.offers_ranked.ranks[at] =
        (struct told_rank){.offer_id = offer_id,
                           .factor_ppm = factor_ppm,
                           .beside = wanted(b->ranking)->net.version > 0};
    if (at + 1 == RANKED_MAX) send_ranks(b);
}

static void push_state(struct ranking *r, uint32_t state)
{
    struct pool_event event = {.kind = POOL_EVENT_OFFERS_RANKED, .u.offers_ranked.state = state};
    if (r->state != state && pump_push(r->server->pump, &event) == NULL) r->state = state;
}

const char *ranking_begin(struct ranking *r, struct server *s)
{
    struct pool_event event = {.kind = POOL_EVENT_OFFERS_RANKED};
    *r = (struct ranking){.server = s, .backoff_us = BACKOFF_MIN_US};
    r->state = event.u.offers_ranked.state =
        is_wanted(&s->config->ranking) ? RANKING_OWN : RANKING_BUILT_IN;
    return pump_push(s->pump, &event);
}

/* ---- the expression, the network ---- */

static bool fields_at(const struct ranking *r, uint32_t index, struct offer_view *ret_view,
                      int64_t ret_fields[RANK_FIELD_COUNT])
{
    const pool *p = r->server->pool;
    if (!pool_offer_at(p, index, ret_view)) return false;
    rank_fields_of(ret_view, pool_model_ncu_milli(p, ret_view->model), ret_fields);
    return true;
}

static uint32_t factor_of(const struct ranking *r, const int64_t fields[RANK_FIELD_COUNT],
                          const struct rank_around *around)
{
    if (wanted(r)->net.version > 0) return rank_net_factor_ppm(&wanted(r)->net, fields, around);
    return rank_factor_ppm(rank_evaluate(&wanted(r)->program, fields), fields[RANK_PRICE]);
}

static void evaluate_all(struct ranking *r)
{
    struct batch_of_ranks ranks;
    struct rank_around around = {0};
    struct offer_view view;
    int64_t fields[RANK_FIELD_COUNT];
    uint32_t end = pool_offers_end(r->server->pool);
    begin_ranks(&ranks, r);
    r->rounds++;
    for (uint32_t i = 0; i < end && wanted(r)->net.version > 0; i++)
        if (fields_at(r, i, &view, fields)) rank_around_add(&around, fields);
    for (uint32_t i = 0; i < end; i++) {
        if (!fields_at(r, i, &view, fields)) continue;
        uint32_t factor = is_ranked(r, &view) ? factor_of(r, fields, &around) : 0;
        if (factor != view.rank_ppm) add_rank(&ranks, view.offer_id, factor);
    }
    send_ranks(&ranks);
}

/* ---- the program ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct ranking_child *child = handle->data;
    if (--child->open_handles > 0) return;
    mem_free(child->answer);
    mem_free(child);
}

/* Killed if it still runs; its memory goes when the loop has closed its handles. */
static void bury(struct ranking *r)
{
    struct ranking_child *child = r->child;
    if (child == NULL) return;
    r->child = NULL;
    child->ranking = NULL;
    uv_close((uv_handle_t *)&child->input, on_handle_closed);
    uv_close((uv_handle_t *)&child->output, on_handle_closed);
    if (uv_is_active((uv_handle_t *)&child->process))
        (void)uv_process_kill(&child->process, SIGKILL); /* on_ended() closes it */
    else
        uv_close((uv_handle_t *)&child->process, on_handle_closed);
}

static void fall_back(struct ranking *r, uint32_t state, const char *why)
{
    r->failures[state]++;
    log_line(LOG_WARN, "ranking", "the built-in ranking counts until the program answers again",
             "program=%s why=\"%s\" retry_ms=%" PRId64, text_list_at(&wanted(r)->command, 0), why,
             r->backoff_us / 1000);
    push_state(r, state);
    bury(r);
    r->retry_us = clock_monotonic_us() + r->backoff_us;
    r->backoff_us = r->backoff_us * 2 < BACKOFF_MAX_US ? r->backoff_us * 2 : BACKOFF_MAX_US;
}

static void on_ended(uv_process_t *process, int64_t status, int signal_number)
{
    struct ranking_child *child = process->data;
    char why[96];
    if (child->ranking != NULL) {
        (void)snprintf(why, sizeof why, "it ended with status %" PRId64 ", signal %d", status,
                       signal_number);
        fall_back(child->ranking, RANKING_FAILED, why); /* closes it, as it is not active */
        return;
    }
    uv_close((uv_handle_t *)process, on_handle_closed);
}

static void on_written(uv_write_t *written, int status)
{
    struct ranking_write *write = (struct ranking_write *)written;
    (void)status; /* a broken pipe: its end is told by on_ended(), or its silence by the timer */
    mem_free(write->text);
    mem_free(write);
}

static char *question(struct ranking *r)
{
    struct server *s = r->server;
    struct view_names view_names = server_view_names(s);
    bool failed = false;
    json_t *root = json_object(), *offers = json_array();
    for (uint32_t i = 0; i < pool_offers_end(s->pool); i++) {
        struct offer_view view;
        if (!pool_offer_at(s->pool, i, &view)) continue;
        failed |= json_array_append_new(offers, offer_view_json(&view_names, &view)) != 0;
    }
    json_set_u64(root, "round", r->round, &failed);
    json_set(root, "offers", offers, &failed);
    root = json_finish(root, failed);
    char *text = root == NULL ? NULL : json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static void ask(struct ranking *r)
{
    struct ranking_child *child = r->child;
    r->round++;
    char *text = question(r);
    struct ranking_write *write = mem_zalloc(1, sizeof *write);
    size_t bytes = text == NULL ? 0 : strlen(text);
    if (write != NULL) write->text = text == NULL ? NULL : mem_alloc(bytes + 2);
    if (write == NULL || write->text == NULL) {
        if (write != NULL) mem_free(write->text);
        mem_free(write);
        mem_free(text);
        return; /* the next round tries again */
    }
    memcpy(write->text, text, bytes);
    memcpy(write->text + bytes, "\n", 2);
    mem_free(text);
    uv_buf_t buffer = uv_buf_init(write->text, (unsigned)(bytes + 1));
    child->answer_bytes = 0;
    child->asked_us = clock_monotonic_us();
    if (uv_write(&write->request, (uv_stream_t *)&child->input, &buffer, 1, on_written) == 0)
        return;
    mem_free(write->text);
    mem_free(write);
}

struct taking {
    struct batch_of_ranks ranks;
    uint64_t *seen; /* bit = offer that was named */
    uint32_t words;
    uint32_t
        next; /* the slot behind the last one found: answers mostly go by the order of the question */
};

static bool find_view(struct taking *t, uint64_t offer_id, struct offer_view *ret_view)
{
    const pool *p = t->ranks.ranking->server->pool;
    uint32_t end = pool_offers_end(p);
    for (uint32_t i = 0; i < end; i++) {
        uint32_t slot = t->next + i < end ? t->next + i : t->next + i - end;
        if (!pool_offer_at(p, slot, ret_view) || ret_view->offer_id != offer_id) continue;
        t->next = slot + 1 < end ? slot + 1 : 0;
        return true;
    }
    return false;
}

static void take_count(void *self, uint64_t offer_id, int64_t usd_micros_per_hour)
{
    struct taking *t = self;
    struct offer_view view;
    if (!find_view(t, offer_id, &view)) return; /* it has just gone */
    if (!is_ranked(t->ranks.ranking, &view)) return;
    uint32_t factor = rank_factor_ppm(usd_micros_per_hour, view.usd_micros_per_hour);
    if (offer_id / 64 < t->words) t->seen[offer_id / 64] |= UINT64_C(1) << offer_id % 64;
    if (factor != view.rank_ppm) add_rank(&t->ranks, offer_id, factor);
}

/* What it says nothing about counts as built in again. */
static void drop_unnamed(struct taking *t)
{
    const struct server *s = t->ranks.ranking->server;
    for (uint32_t i = 0; i < pool_offers_end(s->pool); i++) {
        struct offer_view view;
        if (!pool_offer_at(s->pool, i, &view) || view.rank_ppm == 0) continue;
        bool named = view.offer_id / 64 < t->words &&
                     (t->seen[view.offer_id / 64] >> view.offer_id % 64 & 1) != 0;
        if (!named) add_rank(&t->ranks, view.offer_id, 0);
    }
}

static void take_answer(struct ranking *r, const char *line, size_t bytes)
{
    struct error error;
    struct taking taking = {.words = r->server->offers.infos.count / 64 + 1};
    begin_ranks(&taking.ranks, r);
    taking.seen = mem_zalloc(taking.words, sizeof taking.seen[0]);
    if (taking.seen == NULL) {
        r->child->asked_us = 0; /* it answered in time; the next round asks again */
        return;
    }
    if (rank_answer_read(line, bytes, r->round, take_count, &taking, &error)) {
        push_state(r, RANKING_OWN);
        drop_unnamed(&taking);
        send_ranks(&taking.ranks);
        r->rounds++;
        r->backoff_us = BACKOFF_MIN_US;
        r->child->asked_us = 0;
    } else
        fall_back(r, RANKING_NONSENSE, error.text);
    mem_free(taking.seen);
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct ranking_child *child = handle->data;
    (void)suggested;
    *ret_buffer = uv_buf_init(child->answer + child->answer_bytes,
                              (unsigned)(RANK_ANSWER_BYTES_MAX - child->answer_bytes));
}

static void on_read(uv_stream_t *from, ssize_t count, const uv_buf_t *buffer)
{
    struct ranking_child *child = from->data;
    struct ranking *r = child->ranking;
    (void)buffer;
    if (count <= 0 || r == NULL) return; /* its end is told by on_ended() */
    child->answer_bytes += (size_t)count;
    char *end = memchr(child->answer, '\n', child->answer_bytes);
    if (child->asked_us == 0)
        fall_back(r, RANKING_NONSENSE, "it spoke without being asked");
    else if (end != NULL)
        take_answer(r, child->answer, (size_t)(end - child->answer));
    else if (child->answer_bytes == RANK_ANSWER_BYTES_MAX)
        fall_back(r, RANKING_NONSENSE, "its line is longer than 4 MiB");
}

static struct ranking_child *make_child(struct ranking *r)
{
    struct ranking_child *child = mem_zalloc(1, sizeof *child);
    if (child == NULL) return NULL;
    child->answer = mem_alloc(RANK_ANSWER_BYTES_MAX);
    if (child->answer == NULL) {
        mem_free(child);
        return NULL;
    }
    child->ranking = r;
    child->open_handles = 3;
    (void)uv_pipe_init(&r->server->loop, &child->input, 0); /* these inits always work */
    (void)uv_pipe_init(&r->server->loop, &child->output, 0);
    child->process.data = child->input.data = child->output.data = child;
    return child;
}

static int spawn(struct ranking *r, struct ranking_child *child)
{
    const struct text_list *command = &wanted(r)->command;
    char *argv[TEXT_LIST_ITEMS_MAX + 1], folder[SERVER_PATH_BYTES];
    for (uint32_t i = 0; i < command->count; i++)
        argv[i] = (char *)(uintptr_t)text_list_at(command, i); /* uv_spawn() does not write there */
    argv[command->count] = NULL;
    const char *slash = strrchr(r->server->config_file, '/');
    int length = slash == NULL ? 1 : (int)(slash - r->server->config_file) + 1;
    (void)snprintf(folder, sizeof folder, "%.*s", length,
                   slash == NULL ? "." : r->server->config_file);
    uv_stdio_container_t stdio[] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&child->input},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&child->output},
        {.flags = UV_INHERIT_FD, .data.fd = 2},
    };
    uv_process_options_t options = {.exit_cb = on_ended,
                                    .file = argv[0],
                                    .args = argv,
                                    .cwd = folder,
                                    .stdio_count = 3,
                                    .stdio = stdio};
    return uv_spawn(&r->server->loop, &child->process, &options);
}

static void start(struct ranking *r)
{
    r->child = make_child(r);
    if (r->child == NULL) return; /* out of memory: the next tick tries again */
    int failed = spawn(r, r->child);
    if (failed == 0) failed = uv_read_start((uv_stream_t *)&r->child->output, give_room, on_read);
    if (failed != 0) fall_back(r, RANKING_FAILED, uv_strerror(failed));
}

/* ---- time ---- */

static void run_program(struct ranking *r, int64_t now_us)
{
    if (r->child == NULL) {
        if (now_us < r->retry_us) return;
        start(r);
        r->next_us = now_us;
    }
    if (r->child == NULL) return;
    if (r->child->asked_us != 0 && now_us - r->child->asked_us > wanted(r)->timeout_us)
        fall_back(r, RANKING_LATE, "no answer in time");
    else if (r->child->asked_us == 0 && now_us >= r->next_us) {
        r->next_us = now_us + wanted(r)->every_us;
        ask(r);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct ranking *r = timer->data;
    int64_t now_us = clock_monotonic_us();
    if (wanted(r)->command.count > 0)
        run_program(r, now_us);
    else if (now_us >= r->next_us) {
        r->next_us = now_us + wanted(r)->every_us;
        evaluate_all(r);
    }
}

void ranking_open(struct ranking *r)
{
    if (!is_wanted(wanted(r))) return;
    (void)uv_timer_init(&r->server->loop, &r->timer); /* always works */
    r->timer.data = r;
    r->is_open = true;
    (void)uv_timer_start(&r->timer, on_tick, TICK_MS, TICK_MS);
}

void ranking_close(struct ranking *r)
{
    if (!r->is_open) return;
    r->is_open = false;
    uv_close((uv_handle_t *)&r->timer, NULL);
    bury(r);
}
