/* bench/weeks: weeks of real clusters under four orders of the queue, in one simulator.
 *
 * Traces    philly_week_*.csv: submission, devices, run time, virtual cluster (the tenant) of each job.
 *           helios_venus_10min.csv, first week: how many jobs and devices were submitted in each bin of
 *           10 minutes; single jobs are not in the data, so a bin's devices are spread evenly over its jobs
 *           and run times are drawn from the first Philly week. Said in the row: helios_philly_times.
 * Cluster   Devices of one type in one room, as many as make the week's work the --load of their time. Jobs
 *           are gangs: all devices or none. Ticks of 60 s.
 * Classes   Not in the data: drawn by job, P0 5 %, P1 15 %, P2 40 %, P3 40 %, whatever size and tenant.
 * Policies  fifo_backfill   EASY: oldest first, the head reserves, others start if they do not delay it;
 *                           knows run times. fair_share: the tenant with the least decayed use first.
 *           srtf            shortest remaining time first, preempts anything; knows run times
 *           shoal           class first, then the weights of core/match_weight.h, sizes learnt from jobs that
 *                           ended (core/match_size.h); P2 and P3 can be preempted. One type, so the matching
 *                           of core/match.h is an order here.  shoal_known    the same with run times known
 *           A preempted job keeps its progress and pays RESTART_S when it starts again.
 */
#include "base/mem.h"
#include "base/splitmix.h"
#include "core/match_size.h"
#include "core/match_weight.h"
#include "published.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TICK_S = 60,
    RESTART_S = 60,
    WEEK_S = 604800,
    TENANTS_MAX = 64,
    CLASSES = 4,
    HELIOS_BINS = 1008
};

struct job {
    int64_t submit_s, duration_s, left_s, owes_s; /* owes: of a restart */
    int64_t start_s, finish_s;                    /* -1 = not yet */
    uint32_t devices, tenant, job_class;
    bool runs;
    double rank; /* lowest first; of the last decision */
};

struct week {
    char name[48];
    struct job *jobs; /* by submission */
    uint32_t count, tenants;
    char tenant_names[TENANTS_MAX][32];
};

struct sim {
    struct job *jobs;
    struct job **active; /* by submission */
    struct job **order;
    uint32_t active_count, free;
    int64_t now_s;
    double used[TENANTS_MAX];
    struct match_size size;
    uint64_t preemptions;
};

struct policy {
    const char *name;
    void (*decide)(struct sim *sim);
};

static void draw_classes(struct week *week)
{
    uint64_t state = 1;
    for (uint32_t i = 0; i < week->count; i++) {
        uint64_t percent = splitmix_next(&state) % 100;
        week->jobs[i].job_class = percent < 5 ? 0 : percent < 20 ? 1 : percent < 60 ? 2 : 3;
    }
}

static uint32_t tenant_of(struct week *week, const char *name)
{
    for (uint32_t i = 0; i < week->tenants; i++)
        if (strcmp(week->tenant_names[i], name) == 0) return i;
    if (week->tenants == TENANTS_MAX) return TENANTS_MAX - 1; /* the rest is one */
    snprintf(week->tenant_names[week->tenants], sizeof week->tenant_names[0], "%s", name);
    return week->tenants++;
}

static int by_submission(const void *a, const void *b)
{
    const struct job *x = a;
    const struct job *y = b;
    return (x->submit_s > y->submit_s) - (x->submit_s < y->submit_s);
}

static void read_philly(struct week *week, const char *folder, const char *name)
{
    struct csv csv;
    char file[96];
    snprintf(file, sizeof file, "philly_week_%s.csv", name);
    csv_open(&csv, folder, file, ',');
    uint32_t submit = csv_column(&csv, "submit_s");
    uint32_t devices = csv_column(&csv, "num_gpus");
    uint32_t duration = csv_column(&csv, "duration_s");
    uint32_t tenant = csv_column(&csv, "vc");
    snprintf(week->name, sizeof week->name, "philly_%s", name);
    week->jobs = published_alloc(csv.rows, sizeof *week->jobs);
    for (uint32_t row = 0; row < csv.rows; row++) {
        struct job *job = &week->jobs[week->count];
        *job = (struct job){.submit_s = csv_integer(&csv, row, submit),
                            .duration_s = csv_integer(&csv, row, duration),
                            .devices = (uint32_t)csv_integer(&csv, row, devices),
                            .tenant = tenant_of(week, csv_text(&csv, row, tenant))};
        if (job->devices > 0 && job->duration_s > 0) week->count++;
    }
    csv_close(&csv);
    qsort(week->jobs, week->count, sizeof *week->jobs, by_submission);
    draw_classes(week);
}

static void read_helios(struct week *week, const struct week *times, const char *folder)
{
    struct csv csv;
    uint64_t state = 2;
    csv_open(&csv, folder, "helios_venus_10min.csv", ',');
    uint32_t jobs = csv_column(&csv, "submit_gpu_job");
    uint32_t devices = csv_column(&csv, "submit_gpu_num");
    uint32_t bins = csv.rows < HELIOS_BINS ? csv.rows : HELIOS_BINS;
    uint32_t count = 0;
    snprintf(week->name, sizeof week->name, "helios_philly_times");
    for (uint32_t bin = 0; bin < bins; bin++) count += (uint32_t)csv_integer(&csv, bin, jobs);
    week->jobs = published_alloc(count, sizeof *week->jobs);
    week->tenants = 1;
    for (uint32_t bin = 0; bin < bins; bin++) {
        int64_t in_bin = csv_integer(&csv, bin, jobs);
        int64_t wanted = csv_integer(&csv, bin, devices);
        for (int64_t i = 0; i < in_bin; i++) {
            int64_t share = (wanted * (i + 1)) / in_bin - (wanted * i) / in_bin;
            uint64_t pick = splitmix_next(&state) % times->count;
            week->jobs[week->count++] = (struct job){.submit_s = bin * 600 + 600 * i / in_bin,
                                                     .duration_s = times->jobs[pick].duration_s,
                                                     .devices = share > 0 ? (uint32_t)share : 1};
        }
    }
    csv_close(&csv);
    draw_classes(week);
}

/* ---- decisions ---- */

static void start(struct sim *sim, struct job *job)
{
    sim->free -= job->devices;
    job->runs = true;
    if (job->start_s < 0)
        job->start_s = sim->now_s;
    else
        job->owes_s = RESTART_S;
}

static void stop(struct sim *sim, struct job *job)
{
    sim->free += job->devices;
    job->runs = false;
    sim->preemptions++;
}

static int by_rank(const void *a, const void *b)
{
    const struct job *x = *(struct job *const *)a;
    const struct job *y = *(struct job *const *)b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x > y) - (x < y); /* by submission */
}

static void put_in_order(struct sim *sim)
{
    memcpy(sim->order, sim->active, sim->active_count * sizeof *sim->order);
    qsort(sim->order, sim->active_count, sizeof *sim->order, by_rank);
}

/* Whoever comes first by rank runs, whatever ran before; a job that does not fit is passed over. */
static void run_the_first(struct sim *sim, uint32_t devices)
{
    uint32_t room = devices;
    put_in_order(sim);
    for (uint32_t i = 0; i < sim->active_count; i++) {
        struct job *job = sim->order[i];
        bool fits = job->devices <= room;
        if (fits) room -= job->devices;
        if (!fits && job->runs) stop(sim, job);
        job->rank = fits ? 0 : 1;
    }
    for (uint32_t i = 0; i < sim->active_count; i++)
        if (sim->order[i]->rank == 0 && !sim->order[i]->runs) start(sim, sim->order[i]);
}

static uint32_t all_devices(const struct sim *sim)
{
    uint32_t devices = sim->free;
    for (uint32_t i = 0; i < sim->active_count; i++)
        if (sim->active[i]->runs) devices += sim->active[i]->devices;
    return devices;
}

/* When the head can start if nothing else does, and what is left over then. */
static int64_t reserve(struct sim *sim, const struct job *head, uint32_t *ret_extra)
{
    uint32_t room = sim->free;
    for (uint32_t i = 0; i < sim->active_count; i++)
        sim->active[i]->rank = sim->active[i]->runs ? (double)(sim->active[i]->left_s) : INFINITY;
    put_in_order(sim);
    for (uint32_t i = 0; i < sim->active_count && sim->order[i]->runs; i++) {
        room += sim->order[i]->devices;
        if (room < head->devices) continue;
        *ret_extra = room - head->devices;
        return sim->now_s + sim->order[i]->left_s;
    }
    *ret_extra = 0;
    return INT64_MAX;
}

static void fifo_backfill(struct sim *sim)
{
    struct job *head = NULL;
    int64_t shadow_s = 0;
    uint32_t extra = 0;
    for (uint32_t i = 0; i < sim->active_count && sim->free > 0; i++) {
        struct job *job = sim->active[i];
        if (job->runs) continue;
        bool fits = job->devices <= sim->free;
        if (head == NULL && !fits) {
            head = job;
            shadow_s = reserve(sim, head, &extra);
        }
        if (!fits) continue;
        bool ends = head == NULL || sim->now_s + job->left_s <= shadow_s;
        if (!ends && job->devices > extra) continue;
        if (!ends) extra -= job->devices;
        start(sim, job);
    }
}

static void fair_share(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->active_count; i++) {
        struct job *job = sim->active[i];
        job->rank = sim->used[job->tenant];
    }
    put_in_order(sim);
    for (uint32_t i = 0; i < sim->active_count && sim->free > 0; i++)
        if (!sim->order[i]->runs && sim->order[i]->devices <= sim->free) start(sim, sim->order[i]);
}

static void srtf(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->active_count; i++)
        sim->active[i]->rank = (double)sim->active[i]->left_s;
    run_the_first(sim, all_devices(sim));
}

/* One type, nothing to match: here short jobs first is right, and age protects the long. */
static void by_weight(struct sim *sim, bool known)
{
    const struct match_aim aim = {.exponent_milli = -1000, .offset_s = 600, .age_gain_milli = 300};
    for (uint32_t i = 0; i < sim->active_count; i++) {
        struct job *job = sim->active[i];
        int64_t attained_s = job->duration_s - job->left_s;
        int64_t left_s = known ? job->left_s : match_size_expected_s(&sim->size, attained_s);
        int64_t size_s = known ? job->duration_s : attained_s + left_s;
        int64_t weight =
            match_weight(&aim, left_s, sim->now_s - job->submit_s, 3 * size_s, 3 * size_s);
        bool stays = job->runs && job->job_class < 2;
        if (job->runs) weight *= 2; /* who is preempted must be worth half as much */
        job->rank = stays ? -1e30 : 1e12 * job->job_class - (double)weight;
    }
    run_the_first(sim, all_devices(sim));
}

static void shoal(struct sim *sim)
{
    by_weight(sim, /* known */ false);
}
static void shoal_known(struct sim *sim)
{
    by_weight(sim, /* known */ true);
}

static const struct policy policies[] = {{"fifo_backfill", fifo_backfill},
                                         {"fair_share", fair_share},
                                         {"srtf", srtf},
                                         {"shoal", shoal},
                                         {"shoal_known", shoal_known}};
enum { POLICIES = sizeof policies / sizeof policies[0] };

/* ---- the week ---- */

/* Time until `now + TICK_S`: jobs run, some end. Returns whether one did. */
static bool run_tick(struct sim *sim)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < TENANTS_MAX; i++) sim->used[i] *= 0.99952; /* half in a day */
    for (uint32_t i = 0; i < sim->active_count; i++) {
        struct job *job = sim->active[i];
        int64_t time_s = TICK_S;
        if (job->runs) {
            int64_t paid_s = job->owes_s < time_s ? job->owes_s : time_s;
            job->owes_s -= paid_s;
            time_s -= paid_s;
            sim->used[job->tenant] += (double)job->devices * TICK_S;
        }
        if (job->runs && job->left_s <= time_s) {
            job->finish_s = sim->now_s + TICK_S - time_s + job->left_s;
            sim->free += job->devices;
            match_size_ended(&sim->size, job->duration_s);
            continue;
        }
        if (job->runs) job->left_s -= time_s;
        sim->active[kept++] = job;
    }
    bool ended = kept < sim->active_count;
    sim->active_count = kept;
    sim->now_s += TICK_S;
    return ended;
}

struct result {
    double jct_mean_h, jct_p99_h, utilization_pct, guaranteed_wait_min, guaranteed_p99_min,
        p0_wait_min;
    uint64_t preemptions;
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const struct week *week, const struct job *jobs, struct result *result)
{
    double *jct = published_alloc(week->count, sizeof *jct);
    double *wait = published_alloc(week->count, sizeof *wait);
    uint32_t guaranteed = 0;
    uint32_t p0 = 0;
    for (uint32_t i = 0; i < week->count; i++) {
        double wait_min = (double)(jobs[i].start_s - jobs[i].submit_s) / 60;
        jct[i] = (double)(jobs[i].finish_s - jobs[i].submit_s) / 3600;
        result->jct_mean_h += jct[i] / week->count;
        if (jobs[i].job_class == 0) {
            result->p0_wait_min += wait_min;
            p0++;
        }
        if (jobs[i].job_class <= 1) {
            wait[guaranteed++] = wait_min;
            result->guaranteed_wait_min += wait_min;
        }
    }
    qsort(jct, week->count, sizeof *jct, by_size);
    qsort(wait, guaranteed, sizeof *wait, by_size);
    result->jct_p99_h = jct[(size_t)(0.99 * week->count)];
    if (guaranteed > 0) {
        result->guaranteed_wait_min /= guaranteed;
        result->guaranteed_p99_min = wait[(size_t)(0.99 * guaranteed)];
    }
    if (p0 > 0) result->p0_wait_min /= p0;
    mem_free(jct);
    mem_free(wait);
}

static void run_week(const struct week *week, const struct policy *policy, uint32_t devices,
                     struct result *ret_result)
{
    struct sim sim = {.free = devices};
    double busy = 0;
    uint32_t next = 0;
    sim.jobs = published_alloc(week->count, sizeof *sim.jobs);
    sim.active = published_alloc(week->count, sizeof(struct job *));
    sim.order = published_alloc(week->count, sizeof(struct job *));
    memcpy(sim.jobs, week->jobs, week->count * sizeof *sim.jobs);
    match_size_clear(&sim.size);
    memset(ret_result, 0, sizeof *ret_result);
    bool changed = false;
    while (next < week->count || sim.active_count > 0) {
        for (; next < week->count && sim.jobs[next].submit_s <= sim.now_s; next++) {
            struct job *job = &sim.jobs[next];
            job->left_s = job->duration_s;
            job->start_s = -1;
            sim.active[sim.active_count++] = job;
            changed = true;
        }
        if (changed) policy->decide(&sim);
        if (sim.free > devices)
            published_fail("weeks: %s: more devices used than there are", policy->name);
        if (sim.now_s < WEEK_S) busy += devices - sim.free;
        changed = run_tick(&sim);
    }
    ret_result->utilization_pct = 100 * busy / ((double)devices * (WEEK_S / TICK_S));
    ret_result->preemptions = sim.preemptions;
    measure(week, sim.jobs, ret_result);
    mem_free(sim.jobs);
    mem_free(sim.active);
    mem_free(sim.order);
}

static uint32_t devices_for(const struct week *week, double load)
{
    double work = 0;
    uint32_t widest = 1;
    for (uint32_t i = 0; i < week->count; i++) {
        work += (double)week->jobs[i].devices * (double)week->jobs[i].duration_s;
        if (week->jobs[i].devices > widest) widest = week->jobs[i].devices;
    }
    uint32_t devices = (uint32_t)ceil(work / WEEK_S / load);
    return devices > widest ? devices : widest;
}

static void rows_of_week(struct rows *rows, const struct week *week, double load,
                         const struct published_list *names)
{
    uint32_t devices = devices_for(week, load);
    for (uint32_t i = 0; i < POLICIES; i++) {
        struct result result;
        if (names->count > 0 && !published_has(names, policies[i].name)) continue;
        run_week(week, &policies[i], devices, &result);
        rows_text(rows, "trace", week->name);
        rows_text(rows, "policy", policies[i].name);
        rows_real(rows, "load", load, 2);
        rows_integer(rows, "devices", devices);
        rows_real(rows, "jct_mean_h", result.jct_mean_h, 3);
        rows_real(rows, "jct_p99_h", result.jct_p99_h, 1);
        rows_real(rows, "utilization_pct", result.utilization_pct, 2);
        rows_real(rows, "p0_wait_min", result.p0_wait_min, 2);
        rows_real(rows, "p0_p1_wait_min", result.guaranteed_wait_min, 2);
        rows_real(rows, "p0_p1_wait_p99_min", result.guaranteed_p99_min, 1);
        rows_integer(rows, "preemptions", (int64_t)result.preemptions);
        rows_end(rows);
    }
}

static struct published_list names = {.option = "--policy",
                                      .word = "NAME",
                                      .meaning =
                                          "fifo_backfill, fair_share, srtf, shoal, shoal_known"};
static struct published_list loads = {
    .option = "--load", .word = "SHARE", .meaning = "work over the devices' time (default 0.9)"};
static struct published options = {
    .program = "bench/weeks",
    .purpose = "Weeks of the Philly and Helios clusters under four orders of the queue.",
    .example = "bench/weeks --load 0.8 1.0 --json",
    .lists = {&names, &loads},
};

int main(int argc, char **argv)
{
    const char *known[POLICIES];
    for (uint32_t i = 0; i < POLICIES; i++) known[i] = policies[i].name;
    published_parse(&options, argc, argv);
    published_check(&options, &names, known, POLICIES);
    if (loads.count == 0) loads.words[loads.count++] = "0.9";
    static const char *folder; /* both live for good */
    static const char *const *weeks;
    folder = published_data("cluster_traces");
    uint32_t count = published_names(folder, "philly_week_", ".csv", &weeks);
    struct rows rows;
    rows_open(&rows, options.json);
    for (uint32_t n = 0; n < loads.count; n++) {
        double load = strtod(loads.words[n], NULL);
        if (!(load >= 0.01 && load <= 10)) published_fail("bench/weeks: a load is from 0.01 to 10");
        struct week philly = {0};
        for (uint32_t i = count; i > 0; i--) { /* the first stays for the times */
            mem_free(philly.jobs);
            memset(&philly, 0, sizeof philly);
            read_philly(&philly, folder, weeks[i - 1]);
            rows_of_week(&rows, &philly, load, &names);
        }
        if (count == 0) break;
        struct week helios = {0};
        read_helios(&helios, &philly, folder);
        rows_of_week(&rows, &helios, load, &names);
        mem_free(helios.jobs);
        mem_free(philly.jobs);
    }
    rows_close(&rows);
    return PUBLISHED_OK;
}
