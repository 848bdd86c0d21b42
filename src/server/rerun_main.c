#include "server/rerun_main.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/number.h"
#include "codec/json.h"
#include "codec/names.h"
#include "server/definitions.h"
#include "server/rerun_sums.h"
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRICES_BYTES_MAX = 1 << 30, CONFIG_BYTES_MAX = 1 << 20, NAME_BYTES = 64, FACTOR_MAX = 1000 };

#define UNDONE_MIN 0.01 /* jobs; less is rounding */

/* As recorded (from the journal), as the model has that, as it would have been. */
enum { MODELLED, CHANGED, SIDES };

struct rerun {
    bool is_misused; /* there is no such policy, or factor */
    journal *journal;
    const struct rerun_words *words;
    struct facts facts;
    names *names;
    struct survival_curve *curves;
    struct survival_seen spot;
    struct price_feed prices;
    bool has_prices;
    struct array definitions;
    struct config *config;
    struct rerun_change changes[SIDES];
    struct rerun_plan plans[SIDES];
    struct rerun_outcome *outcomes[SIDES]; /* by seed */
    uint32_t done[SIDES];
};

/* ---- what is asked ---- */

static const struct {
    const char *name;
    uint32_t forbidden_mask, buying;
} policies[] = {
    {"as_recorded", 0, 0},
    {"on_demand", 1U << CAPACITY_SPOT, 0},
    {"spot", 1U << CAPACITY_ON_DEMAND, 0},
    {"own", 1U << CAPACITY_SPOT | 1U << CAPACITY_ON_DEMAND, 0},
    {"table", 0, BUYING_TABLE},
    {"greedy", 0, BUYING_GREEDY},
    {"uniform-progress", 0, BUYING_UNIFORM_PROGRESS},
    {"uniform_progress", 0, BUYING_UNIFORM_PROGRESS}, /* as shoal sim calls it */
    {"on-demand", 0, BUYING_ON_DEMAND},
};

static bool read_policy(const char *name, struct rerun_change *change, struct error *ret_error)
{
    for (uint32_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        if (strcmp(name, policies[i].name) != 0) continue;
        change->forbidden_mask = policies[i].forbidden_mask;
        change->buying = policies[i].buying;
        return true;
    }
    return error_set(ret_error,
                     "no policy \"%s\"; there are as_recorded, on_demand (no spot), spot (no "
                     "on-demand), own (neither), and for jobs with a deadline table, greedy, "
                     "uniform-progress and on-demand",
                     name);
}

bool rerun_knows_policy(const char *name, struct error *ret_error)
{
    struct rerun_change change;
    return read_policy(name, &change, ret_error);
}

static const char *after(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

static bool read_prices(struct rerun *r, struct error *ret_error)
{
    const char *text = r->words->price;
    char *bytes;
    size_t count;
    if (!io_read_file(text, PRICES_BYTES_MAX, &bytes, &count, ret_error)) return false;
    struct error why;
    r->has_prices = price_feed_read(bytes, count, &r->prices, &why);
    mem_free(bytes);
    r->changes[CHANGED].prices = &r->prices;
    return r->has_prices ||
           error_set(ret_error,
                     "--price %s: no factor (1.3, spot=1.3, on_demand=0.8), and as a "
                     "file of prices: %s",
                     text, why.text);
}

/* "1.3", "spot=1.3", "on_demand=0.8", or a file of prices. */
static bool read_price(struct rerun *r, struct error *ret_error)
{
    const char *text = r->words->price;
    const char *spot = after(text, "spot="), *on_demand = after(text, "on_demand=");
    struct rerun_change *change = &r->changes[CHANGED];
    double factor;
    if (!number_read_real(spot != NULL ? spot : on_demand != NULL ? on_demand : text, -HUGE_VAL,
                          HUGE_VAL, &factor))
        return read_prices(r, ret_error);
    r->is_misused = !(factor > 0 && factor <= FACTOR_MAX); /* nor NAN */
    if (r->is_misused)
        return error_set(ret_error, "--price %s: a factor is above 0 and at most %d", text,
                         FACTOR_MAX);
    if (on_demand == NULL) change->spot_factor = factor;
    if (spot == NULL) change->on_demand_factor = factor;
    return true;
}

static const char *keep_definition(void *arg, const struct pool_event *event)
{
    struct pool_event *row = array_push(arg);
    if (row == NULL) return "out of memory";
    *row = *event;
    row->version = POOL_CORE_VERSION;
    return pool_event_check(row);
}

static bool read_pool(struct rerun *r, struct error *ret_error)
{
    const char *file = r->words->pool;
    char *text;
    size_t bytes;
    if (!io_read_file(file, CONFIG_BYTES_MAX, &text, &bytes, ret_error)) return false;
    struct catalog *catalog = mem_zalloc(1, sizeof *catalog);
    r->config = mem_zalloc(1, sizeof *r->config);
    bool ok = (catalog != NULL && r->config != NULL) || error_set(ret_error, "out of memory");
    ok = ok && definitions_reserve(r->names, catalog, ret_error) &&
         definitions_catalog(catalog, file, text, bytes, ret_error) &&
         config_parse(catalog, file, text, bytes, r->config, ret_error);
    if (ok) {
        const char *trouble =
            definitions_tell(r->config, catalog, r->names, keep_definition, &r->definitions);
        ok = trouble == NULL || error_set(ret_error, "%s: %s", file, trouble);
        r->config->pool.incarnation = r->facts.start.config.incarnation;
        r->changes[CHANGED].config = &r->config->pool;
        r->changes[CHANGED].definitions = &r->definitions;
    }
    mem_free(catalog);
    mem_free(text);
    return ok;
}

static bool read_change(struct rerun *r, struct error *ret_error)
{
    const struct rerun_words *w = r->words;
    r->is_misused = w->policy != NULL && !read_policy(w->policy, &r->changes[CHANGED], ret_error);
    return !r->is_misused && (w->price == NULL || read_price(r, ret_error)) &&
           (w->pool == NULL || read_pool(r, ret_error));
}

/* ---- runs ---- */

static bool run_all(struct rerun *r, struct error *ret_error)
{
    for (int side = 0; side < SIDES; side++) {
        if (!rerun_prepare(&r->facts, &r->changes[side], r->names, &r->plans[side], ret_error))
            return false;
        r->outcomes[side] = mem_zalloc((size_t)r->words->seeds, sizeof **r->outcomes);
        if (r->outcomes[side] == NULL) return error_set(ret_error, "out of memory for the runs");
        for (uint32_t i = 0; i < r->words->seeds; i++, r->done[side]++)
            if (!rerun_run(&r->facts, &r->changes[side], &r->plans[side], r->curves, i + 1,
                           &r->outcomes[side][i], ret_error)) {
                tally_free(&r->outcomes[side][i].tally);
                return false;
            }
    }
    return true;
}

static bool check_prices(const struct rerun *r, struct error *ret_error)
{
    if (!r->has_prices || r->plans[CHANGED].priced_offers > 0) return true;
    const struct feed_point *first = r->prices.points;
    return error_set(ret_error,
                     "--price %s: none of its series is of an offer of the journal (the first is "
                     "%s in %s); zones and types are named as `shoal market record` names them",
                     r->words->price, r->prices.point_count == 0 ? "nothing" : first->instance,
                     r->prices.point_count == 0 ? "no zone" : first->zone);
}

/* ---- numbers ---- */

static struct rerun_spread spread(const struct rerun *r, int side, enum rerun_sum kind,
                                  double *room)
{
    for (uint32_t i = 0; i < r->done[side]; i++)
        room[i] = rerun_sum_of(&r->outcomes[side][i].tally, kind);
    return rerun_spread_of(room, r->done[side]);
}

/* World by world: they share their luck. */
static struct rerun_spread difference(const struct rerun *r, enum rerun_sum kind, double *room)
{
    for (uint32_t i = 0; i < r->done[CHANGED]; i++)
        room[i] = rerun_sum_of(&r->outcomes[CHANGED][i].tally, kind) -
                  rerun_sum_of(&r->outcomes[MODELLED][i].tally, kind);
    return rerun_spread_of(room, r->done[CHANGED]);
}

struct job_mean {
    double usd_micros, waited_us, lost, preempted, done;
};

static struct job_mean job_mean(const struct rerun *r, int side, uint64_t job_id)
{
    struct job_mean mean = {0, 0, 0, 0, 0};
    double share = 1.0 / r->done[side];
    for (uint32_t i = 0; i < r->done[side]; i++) {
        const struct tally_job *job = tally_find(&r->outcomes[side][i].tally, job_id);
        if (job == NULL) continue;
        mean.usd_micros += (double)job->usd_micros * share;
        mean.waited_us += (double)job->waited_us * share;
        mean.lost += job->lost * share;
        mean.preempted += job->preempted * share;
        mean.done += (job->state == JOB_DONE) * share;
    }
    return mean;
}

static double known_share(const struct rerun *r, int side)
{
    double known = 0, all = 0;
    for (uint32_t i = 0; i < r->done[side]; i++) {
        const struct world_sums *fate = &r->outcomes[side][i].fate;
        known += (double)fate->known_us;
        all += (double)fate->known_us + (double)fate->modelled_us;
    }
    return all > 0 ? known / all : 1;
}

static const char *job_name(const struct rerun *r, uint64_t job_id, char name[NAME_BYTES])
{
    struct sqlite3_stmt *query =
        journal_query(r->journal, "SELECT name FROM jobs WHERE job = ?1", NULL);
    name[0] = '\0';
    if (query == NULL) return name;
    (void)sqlite3_bind_int64(query, 1, (sqlite3_int64)job_id); /* the position is right */
    while (journal_row(query))
        (void)snprintf(name, NAME_BYTES, "%s", (const char *)sqlite3_column_text(query, 0));
    return name;
}

/* Jobs that end in the model of what was, and not in the changed run: what these would still cost and
 * wait for is in no sum. 0: none. */
static double left_undone(const struct rerun *r)
{
    double left = 0;
    for (uint32_t i = 0; i < r->facts.recorded.jobs.count; i++) {
        const struct tally_job *job = array_at(&r->facts.recorded.jobs, i);
        double fewer = job_mean(r, MODELLED, job->job_id).done - job_mean(r, CHANGED, job->job_id).done;
        if (fewer > 0) left += fewer;
    }
    return left > UNDONE_MIN ? left : 0;
}

/* Sums that mean nothing beside each other when less was done. */
static bool needs_all(enum rerun_sum kind)
{
    return kind == SUM_COST || kind == SUM_WAITED;
}

/* ---- for people ---- */

static const char *value_text(enum rerun_sum kind, double value, bool is_signed, char text[32])
{
    const char *sign = is_signed && value >= 0 ? "+" : value < 0 ? "-" : "";
    double size = fabs(value);
    if (kind == SUM_COST)
        (void)snprintf(text, 32, "%s$%.*f", sign, size < 1e6 ? 4 : 2, size / 1e6);
    else if (kind == SUM_WAITED)
        (void)snprintf(text, 32, size < 6e8 ? "%s%.0f s" : "%s%.1f h", sign,
                       size < 6e8 ? size / 1e6 : size / 3.6e9);
    else
        (void)snprintf(text, 32, "%s%.*f", sign, size == floor(size) ? 0 : 1, size);
    return text;
}

static const char *spread_text(enum rerun_sum kind, struct rerun_spread s, bool is_signed,
                               char text[128])
{
    char mean[32], low[32], high[32];
    (void)value_text(kind, s.mean, is_signed, mean);
    (void)value_text(kind, s.low, is_signed, low);
    (void)value_text(kind, s.high, is_signed, high);
    if (strcmp(low, high) == 0)
        (void)snprintf(text, 128, "%s", mean);
    else
        (void)snprintf(text, 128, "%s (%s to %s)", mean, low, high);
    return text;
}

static const char *const sum_names[SUM_KINDS] = {
    [SUM_COST] = "cost",       [SUM_WAITED] = "waiting",
    [SUM_LOST] = "nodes lost", [SUM_PREEMPTED] = "preemptions",
    [SUM_DONE] = "jobs done",  [SUM_BOUGHT] = "nodes bought"};

static void print_sums(const struct rerun *r, double *room)
{
    double undone = left_undone(r);
    printf("%-13s %-12s %-30s %-30s %s\n", "", "recorded", "the model of that", "what if",
           "difference");
    for (enum rerun_sum kind = 0; kind < SUM_KINDS; kind++) {
        char recorded[32], modelled[128], changed[128], differs[128];
        printf("%-13s %-12s %-30s %-30s %s\n", sum_names[kind],
               value_text(kind, rerun_sum_of(&r->facts.recorded, kind), false, recorded),
               spread_text(kind, spread(r, MODELLED, kind, room), false, modelled),
               spread_text(kind, spread(r, CHANGED, kind, room), false, changed),
               undone > 0 && needs_all(kind)
                   ? "not to be compared, see below"
                   : spread_text(kind, difference(r, kind, room), true, differs));
    }
}

static void print_job(const struct rerun *r, const struct tally_job *job)
{
    char name[NAME_BYTES], cells[3][3][32];
    const struct job_mean means[] = {{(double)job->usd_micros, (double)job->waited_us, job->lost,
                                      job->preempted, job->state == JOB_DONE},
                                     job_mean(r, MODELLED, job->job_id),
                                     job_mean(r, CHANGED, job->job_id)};
    for (int i = 0; i < 3; i++) {
        (void)value_text(SUM_COST, means[i].usd_micros, false, cells[0][i]);
        (void)value_text(SUM_WAITED, means[i].waited_us, false, cells[1][i]);
        (void)value_text(SUM_LOST, means[i].lost, false, cells[2][i]);
    }
    printf("%4" PRIu64
           "  %-16.16s  %9s %9s %9s  %9s %9s %9s  %5s %5s %5s  %4.0f %% %4.0f %% %4.0f %%\n",
           job->job_id, job_name(r, job->job_id, name), cells[0][0], cells[0][1], cells[0][2],
           cells[1][0], cells[1][1], cells[1][2], cells[2][0], cells[2][1], cells[2][2],
           means[0].done * 100, means[1].done * 100, means[2].done * 100);
}

static void print_jobs(const struct rerun *r)
{
    printf(
        "\n job  name                   cost: recorded, model, if        waited                  "
        "        lost workers     done\n");
    for (uint32_t i = 0; i < r->facts.recorded.jobs.count; i++)
        print_job(r, array_at(&r->facts.recorded.jobs, i));
}

static void print_known(const struct rerun *r)
{
    uint32_t jobs = 0, prices = 0;
    for (uint32_t i = 0; i < r->facts.events.count; i++) {
        const struct pool_event *event =
            &((const struct fact_event *)array_at(&r->facts.events, i))->event;
        jobs += event->kind == POOL_EVENT_JOB_SUBMITTED;
        prices +=
            event->kind == POOL_EVENT_OFFER_CHANGED || event->kind == POOL_EVENT_OFFERS_PRICED;
    }
    printf("\nknown:    %" PRIu32 " submission%s and %" PRIu32
           " words about offers, when they came%s; "
           "the fate of %.0f %% of the node time\n          (%.0f %% in the model of what was), of "
           "nodes that ran when the record held one of the same offer\n",
           jobs, jobs == 1 ? "" : "s", prices, r->words->price != NULL ? " (prices as asked)" : "",
           100 * known_share(r, CHANGED), 100 * known_share(r, MODELLED));
    printf("modelled: how long the other nodes live, from %" PRIu32 " lives of spot nodes in the "
           "journal, %" PRIu32
           " of them lost;\n          boots and starts as recorded ones; work in "
           "proportion to NCU; nine in ten of the %" PRIu64
           " worlds lie\n          between the numbers in "
           "brackets, differences are world by world\n",
           r->spot.lives, r->spot.losses, r->words->seeds);
    if (left_undone(r) > 0)
        printf("note:     %.1f jobs that ended (in the model of what was) have not ended in the changed "
               "run when the\n          stretch does: its cost and waiting are of less work, and no "
               "difference is told\n",
               left_undone(r));
    if (r->plans[CHANGED].kept_jobs > 0)
        printf("note:     %" PRIu32 " jobs allow only what the policy forbids, and keep it\n",
               r->plans[CHANGED].kept_jobs);
}

static void print(const struct rerun *r, double *room)
{
    printf("events %" PRIu64 " to %" PRIu64 ", %.2f h\n", r->facts.first_seq, r->facts.last_seq,
           (double)(r->facts.to_us - r->facts.from_us) / 3.6e9);
    print_sums(r, room);
    print_jobs(r);
    print_known(r);
}

/* ---- JSON ---- */

static json_t *spread_json(struct rerun_spread s)
{
    bool failed = false;
    json_t *object = json_object();
    json_set_real(object, "mean", s.mean, &failed);
    json_set_real(object, "low", s.low, &failed);
    json_set_real(object, "high", s.high, &failed);
    return json_finish(object, failed);
}

static const char *const sum_keys[SUM_KINDS] = {
    [SUM_COST] = "usd_micros",     [SUM_WAITED] = "waited_us", [SUM_LOST] = "nodes_lost",
    [SUM_PREEMPTED] = "preempted", [SUM_DONE] = "jobs_done",   [SUM_BOUGHT] = "nodes_bought"};

static json_t *sums_json(const struct rerun *r, double *room)
{
    bool failed = false;
    double undone = left_undone(r);
    json_t *object = json_object();
    for (enum rerun_sum kind = 0; kind < SUM_KINDS; kind++) {
        json_t *row = json_object();
        json_set_real(row, "recorded", rerun_sum_of(&r->facts.recorded, kind), &failed);
        json_set(row, "modelled", spread_json(spread(r, MODELLED, kind, room)), &failed);
        json_set(row, "what_if", spread_json(spread(r, CHANGED, kind, room)), &failed);
        json_set(row, "difference",
                 undone > 0 && needs_all(kind) ? json_null() : spread_json(difference(r, kind, room)),
                 &failed);
        json_set(object, sum_keys[kind], row, &failed);
    }
    return json_finish(object, failed);
}

static json_t *mean_json(const struct job_mean *mean)
{
    bool failed = false;
    json_t *object = json_object();
    json_set_real(object, "usd_micros", mean->usd_micros, &failed);
    json_set_real(object, "waited_us", mean->waited_us, &failed);
    json_set_real(object, "workers_lost", mean->lost, &failed);
    json_set_real(object, "preempted", mean->preempted, &failed);
    json_set_real(object, "done", mean->done, &failed);
    return json_finish(object, failed);
}

static json_t *jobs_json(const struct rerun *r)
{
    bool failed = false;
    char name[NAME_BYTES];
    json_t *rows = json_array();
    for (uint32_t i = 0; i < r->facts.recorded.jobs.count; i++) {
        const struct tally_job *job = array_at(&r->facts.recorded.jobs, i);
        const struct job_mean recorded = {(double)job->usd_micros, (double)job->waited_us,
                                          job->lost, job->preempted, job->state == JOB_DONE};
        struct job_mean modelled = job_mean(r, MODELLED, job->job_id);
        struct job_mean changed = job_mean(r, CHANGED, job->job_id);
        json_t *row = json_object();
        json_set_u64(row, "job", job->job_id, &failed);
        json_set(row, "name", json_clean_string(job_name(r, job->job_id, name)), &failed);
        json_set(row, "recorded", mean_json(&recorded), &failed);
        json_set(row, "modelled", mean_json(&modelled), &failed);
        json_set(row, "what_if", mean_json(&changed), &failed);
        json_append(rows, row, &failed);
    }
    return json_finish(rows, failed);
}

static bool print_json(const struct rerun *r, double *room)
{
    bool failed = false;
    json_t *object = json_object();
    json_set_u64(object, "first_event", r->facts.first_seq, &failed);
    json_set_u64(object, "last_event", r->facts.last_seq, &failed);
    json_set_i64(object, "from_us", r->facts.from_us, &failed);
    json_set_i64(object, "to_us", r->facts.to_us, &failed);
    json_set_u64(object, "seeds", r->words->seeds, &failed);
    json_set(object, "sums", sums_json(r, room), &failed);
    json_set(object, "jobs", jobs_json(r), &failed);
    json_set_real(object, "jobs_undone", left_undone(r), &failed);
    json_set_real(object, "known_share", known_share(r, CHANGED), &failed);
    json_set_real(object, "known_share_modelled", known_share(r, MODELLED), &failed);
    json_set_u64(object, "spot_lives", r->spot.lives, &failed);
    json_set_u64(object, "spot_losses", r->spot.losses, &failed);
    char *text = json_finish_text(object, failed);
    if (text != NULL) puts(text);
    mem_free(text);
    return text != NULL;
}

static void close_all(struct rerun *r)
{
    for (int side = 0; side < SIDES; side++) {
        for (uint32_t i = 0; i < r->done[side]; i++) tally_free(&r->outcomes[side][i].tally);
        mem_free(r->outcomes[side]);
        rerun_plan_free(&r->plans[side]);
    }
    if (r->has_prices) price_feed_close(&r->prices);
    array_free(&r->definitions);
    mem_free(r->config);
    mem_free(r->curves);
    names_close(r->names);
    facts_free(&r->facts);
    mem_free(r);
}

static bool open_all(struct rerun *r, struct error *ret_error)
{
    r->names = names_open();
    if (r->names == NULL) return error_set(ret_error, "out of memory");
    if (!names_load(r->names, r->journal, ret_error) ||
        !facts_read(r->journal, &r->words->stretch, &r->facts, ret_error))
        return false;
    r->curves = rerun_curves(&r->facts, r->journal, &r->spot, ret_error);
    return r->curves != NULL && read_change(r, ret_error);
}

int rerun_main(journal *j, const struct rerun_words *words)
{
    struct error error;
    struct rerun *r = mem_zalloc(1, sizeof *r);
    double *room = mem_zalloc((size_t)words->seeds, sizeof *room);
    bool ok = (r != NULL && room != NULL) || error_set(&error, "out of memory"), is_misused = false;
    if (r != NULL) {
        r->journal = j;
        r->words = words;
        array_init(&r->definitions, sizeof(struct pool_event));
        ok = ok && open_all(r, &error) && run_all(r, &error) && check_prices(r, &error);
        if (ok && words->json)
            ok = print_json(r, room) || error_set(&error, "out of memory");
        else if (ok)
            print(r, room);
        is_misused = r->is_misused;
        close_all(r);
    }
    mem_free(room);
    if (!ok) fprintf(stderr, "shoal replay: %s\n", error.text);
    return is_misused ? 2 : ok ? EXIT_SUCCESS : EXIT_FAILURE; /* 2: wrong usage */
}
