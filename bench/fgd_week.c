#include "fgd_week.h"
#include "base/mem.h"
#include "base/splitmix.h"
#include "published.h"
#include <stdlib.h>

#define DAY_S    INT64_C(86400)
#define WEEK_S   (7 * DAY_S)
#define SHIFT_S  (DAY_S / 2)
#define SAMPLE_S INT64_C(600)
enum { FORMS_MAX = 1024 };

struct event {
    int64_t at_s;
    uint64_t tie; /* even: leaves; odd: arrives */
    uint32_t run;
};

struct list {
    struct fgd_run *runs;
    struct event *events;
    uint32_t run_count, event_count, room;
};

static int64_t overlap(int64_t from_s, int64_t to_s, int64_t start_s)
{
    int64_t first = from_s > start_s ? from_s : start_s;
    int64_t last = to_s < start_s + WEEK_S ? to_s : start_s + WEEK_S;
    return last > first ? last - first : 0;
}

bool fgd_week_told(const struct fgd_world *world)
{
    for (uint32_t i = 0; i < world->pod_count; i++)
        if (world->pods[i].to_s > world->pods[i].from_s) return true;
    return false;
}

static double asked_in(const struct fgd_world *world, int64_t start_s)
{
    double milli_s = 0;
    for (uint32_t i = 0; i < world->pod_count; i++) {
        const struct fgd_pod *pod = &world->pods[i];
        milli_s +=
            (double)pack_form_milli(&pod->form) * (double)overlap(pod->from_s, pod->to_s, start_s);
    }
    return milli_s;
}

/* The start of the seven days in which most is asked for. */
static int64_t busiest(const struct fgd_world *world)
{
    int64_t last_s = 0, best_s = 0;
    for (uint32_t i = 0; i < world->pod_count; i++)
        if (world->pods[i].to_s > last_s) last_s = world->pods[i].to_s;
    double most = asked_in(world, 0);
    for (int64_t start_s = DAY_S; start_s + WEEK_S <= last_s; start_s += DAY_S) {
        double asked = asked_in(world, start_s);
        if (asked <= most) continue;
        most = asked;
        best_s = start_s;
    }
    return best_s;
}

static void add_run(struct list *list, const struct fgd_pod *pod, int64_t shift_s, int64_t start_s,
                    uint64_t *random)
{
    struct fgd_run run = {
        .form = pod->form, .from_s = pod->from_s + shift_s, .to_s = pod->to_s + shift_s};
    if (overlap(run.from_s, run.to_s, start_s) == 0) return;
    if (list->run_count == list->room) {
        list->room = list->room == 0 ? 4096 : 2 * list->room;
        list->runs = mem_realloc(list->runs, list->room * sizeof *list->runs);
        list->events = mem_realloc(list->events, 2 * (size_t)list->room * sizeof *list->events);
        if (list->runs == NULL || list->events == NULL) published_fail("no memory for the week");
    }
    uint64_t tie = splitmix_next(random);
    int64_t arrives_s = run.from_s > start_s ? run.from_s : start_s;
    list->events[list->event_count++] = (struct event){arrives_s, tie | 1, list->run_count};
    list->events[list->event_count++] =
        (struct event){run.to_s, tie & ~UINT64_C(1), list->run_count};
    list->runs[list->run_count++] = run;
}

static int compare_events(const void *a, const void *b)
{
    const struct event *left = a, *right = b;
    if (left->at_s != right->at_s) return left->at_s < right->at_s ? -1 : 1;
    bool leaves = (left->tie & 1) == 0, other = (right->tie & 1) == 0;
    if (leaves != other) return leaves ? -1 : 1;
    return (left->tie > right->tie) - (left->tie < right->tie);
}

static void make_list(struct list *list, const struct fgd_world *world, int64_t start_s,
                      double load_pct)
{
    uint64_t random = world->seed;
    double asked = asked_in(world, start_s);
    if (asked <= 0) published_fail("no week with pods that ask for devices");
    double copies = load_pct / 100 * (double)world->capacity_milli * (double)WEEK_S / asked;
    for (uint32_t i = 0; i < world->pod_count; i++) {
        double left = copies;
        for (; left > 0; left -= 1) {
            int64_t shift_s = (int64_t)(splitmix_next(&random) % (uint64_t)(2 * SHIFT_S)) - SHIFT_S;
            bool whole = left >= 1 || (double)(splitmix_next(&random) >> 11) < left * 0x1p53;
            if (whole) add_run(list, &world->pods[i], shift_s, start_s, &random);
        }
    }
    qsort(list->events, list->event_count, sizeof *list->events, compare_events);
}

static double fragments(const struct fgd_world *world, const struct pack_mix *mix)
{
    double sum = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        const struct fgd_node *node = &world->nodes[i];
        struct pack_levels levels;
        pack_mix_levels(mix, node->free_milli, node->devices, &levels);
        sum +=
            pack_mix_fragment(mix, node->model, node->cpu_milli, &levels, (struct pack_change){0});
    }
    return 100 * sum / 65536 / (double)world->capacity_milli;
}

/* What has been measured up to a moment. */
struct meter {
    struct pack_mix mix;
    double milli_s, fragment_sum, asked, refused;
    int64_t now_s, sample_s, half_s;
    uint32_t samples;
};

static void advance(struct meter *meter, const struct fgd_world *world,
                    const struct fgd_policy *policy, void *self, int64_t to_s)
{
    meter->milli_s += (double)world->used_milli * (double)(to_s - meter->now_s);
    meter->now_s = to_s;
    for (; meter->sample_s <= to_s; meter->sample_s += SAMPLE_S) {
        meter->fragment_sum += fragments(world, &meter->mix);
        meter->samples++;
    }
    for (; meter->half_s <= to_s; meter->half_s += FGD_WINDOW_S / 2)
        if (policy->half_window != NULL) policy->half_window(self);
}

static void arrive(struct meter *meter, struct fgd_world *world, const struct fgd_policy *policy,
                   void *self, struct fgd_run *run, int64_t start_s)
{
    double milli_s =
        (double)pack_form_milli(&run->form) * (double)overlap(run->from_s, run->to_s, start_s);
    meter->asked += milli_s;
    run->placed = fgd_submit(world, policy, self, run);
    if (run->placed) return;
    meter->refused += milli_s;
    if (policy->refused != NULL) policy->refused(self, run);
}

struct fgd_week fgd_week_run(struct fgd_world *world, const struct fgd_policy *policy,
                             double load_pct)
{
    int64_t start_s = busiest(world);
    struct list list = {0};
    make_list(&list, world, start_s, load_pct);
    struct meter meter = {
        .now_s = start_s, .sample_s = start_s + SAMPLE_S, .half_s = start_s + FGD_WINDOW_S / 2};
    void *memory = published_alloc(1, pack_mix_bytes(FORMS_MAX, world->model_count));
    pack_mix_init(&meter.mix, memory, FORMS_MAX, world->model_count);
    for (uint32_t i = 0; i < world->pod_count; i++)
        (void)pack_mix_arrived(&meter.mix, &world->pods[i].form);
    (void)pack_mix_learn(&meter.mix);
    void *self = policy->open(world);
    for (uint32_t i = 0; i < list.event_count && list.events[i].at_s < start_s + WEEK_S; i++) {
        const struct event *event = &list.events[i];
        struct fgd_run *run = &list.runs[event->run];
        advance(&meter, world, policy, self, event->at_s);
        if ((event->tie & 1) != 0)
            arrive(&meter, world, policy, self, run, start_s);
        else if (run->placed)
            fgd_remove(world, policy, self, run);
    }
    advance(&meter, world, policy, self, start_s + WEEK_S);
    policy->close(self);
    struct fgd_week week = {.alloc_pct = 100 * meter.milli_s / (double)WEEK_S /
                                         (double)world->capacity_milli,
                            .fragment_pct = meter.fragment_sum / meter.samples,
                            .refused_pct = 100 * meter.refused / meter.asked,
                            .arrivals = list.run_count};
    mem_free(memory);
    mem_free(list.runs);
    mem_free(list.events);
    return week;
}
