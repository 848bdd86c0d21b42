#include "whatif/ranker.h"
#include "base/mem.h"
#include "core/assert.h"
#include <string.h>

enum { QUEUE_ROOM = 1024 };

/* The queue is an array of the caller; a full one is given a larger one. */
static bool queue_grow(struct world *w)
{
    uint32_t room = w->queue.capacity == 0 ? QUEUE_ROOM : w->queue.capacity * 2;
    struct sim_occurrence *items = mem_realloc(w->queue.items, room * sizeof *items);
    if (items == NULL) return false;
    w->queue.items = items;
    w->queue.capacity = room;
    return true;
}

void world_later(struct world *w, int64_t at_us, enum what what, uint32_t index, uint32_t version)
{
    if (w->failed || at_us > w->end_us) return;
    if (w->queue.count == w->queue.capacity && !queue_grow(w)) {
        w->failed = true;
        return;
    }
    struct sim_occurrence o = {.at_us = at_us < w->now_us ? w->now_us : at_us,
                               .what = what,
                               .key = index,
                               .value = version};
    bool fits = sim_queue_push(&w->queue, o);
    ASSERT(fits);
}

static void happen(struct world *w, const struct sim_occurrence *o)
{
    uint32_t index = (uint32_t)o->key, version = (uint32_t)o->value;
    switch ((enum what)o->what) {
    case ON_TICK: feed_tick(w); return;
    case ON_SUBMIT: drive_submit(w, index); return;
    case ON_DONE: work_done(w, index, version); return;
    case ON_PRICE:
    case ON_SPIKE:
    case ON_MARKET:
    case ON_SOLD: market_on(w, (enum what)o->what, index, version); return;
    case ON_UP:
    case ON_NOTICE:
    case ON_TAKE:
    case ON_SLOW:
    case ON_RUNS:
    case ON_STOPS: site_on(w, (enum what)o->what, index, version); return;
    case ON_SAYS: said_on(w, index); return;
    case ON_RANK: ranker_on(w); return;
    }
    UNREACHABLE();
}

static bool open_tables(struct world *w)
{
    w->offers = mem_zalloc(w->scene->offer_count, sizeof *w->offers);
    return w->offers != NULL && queue_grow(w) && feed_open(w) && drive_open(w);
}

static void close(struct world *w)
{
    feed_close(w);
    mem_free(w->queue.items);
    mem_free(w->offers);
    mem_free(w->nodes);
    mem_free(w->workers);
    mem_free(w->jobs);
    mem_free(w->id_jobs);
}

static void settle(struct world *w)
{
    feed_settle(w);
    if (!w->rank_due) return;
    ranker_tell(w);
    feed_settle(w);
}

static void run(struct world *w)
{
    struct sim_occurrence o;
    feed_configure(w);
    market_open(w);
    ranker_on(w);
    settle(w);
    while (!w->failed && w->live_jobs > 0 && sim_queue_pop(&w->queue, &o)) {
        w->now_us = o.at_us;
        w->events++;
        happen(w, &o);
        settle(w);
    }
    if (w->live_jobs > 0) w->now_us = w->end_us;
    for (uint32_t j = 0; j < w->job_count; j++) work_advance(w, j);
    site_close_all(w);
}

bool world_run(const struct scene *scene, const struct scene_case *c, uint64_t seed,
               struct recorder *recorder, struct outcome *ret_outcome)
{
    struct world w = {.scene = scene,
                      .c = c,
                      .seed = seed,
                      .now_us = START_US,
                      .end_us = START_US + scene->horizon_us,
                      .trace_us = scene->trace_shift_us * (int64_t)(seed > 0 ? seed - 1 : 0),
                      .tick_us = NEVER_US,
                      .recorder = recorder};
    bool good = open_tables(&w);
    if (good) {
        run(&w);
        if (recorder != NULL) recorder->end_us = w.now_us - START_US;
        good = !w.failed && (recorder == NULL || !recorder->failed) && outcome_of(&w, ret_outcome);
    }
    close(&w);
    return good;
}
