#include "whatif/advise_main.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/number.h"
#include "codec/job_spec.h"
#include "codec/json.h"
#include "codec/names.h"
#include "codec/price_feed.h"
#include "core/limits.h"
#include "whatif/advise.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARKET_BYTES_MAX = 1 << 30, LIST_DEVICES = 8, FILE_STOCK = 4 };
/* Where nothing is known of an offer: a spot node is lost once in ten hours. */
#define LOSSES_DEFAULT 0.1

enum { USAGE = 2 }; /* exit status of a wrong value, as of all verbs */

struct advice {
    bool is_misused; /* a flag has a wrong value */
    const struct advise_words *words;
    struct catalog *catalog;
    struct job_spec *spec;
    struct advise_job job;
    struct advise_market market;
    struct advise_answer answer;
    const char *source;
    uint32_t left_out; /* offers of the market that the catalog or the table has no room for */
    bool has_regions;  /* the market tells them */
    uint64_t declared_mask, measured_mask; /* models whose speed for this work is known so */
};

/* ---- the job ---- */

static bool read_number(struct advice *a, const char *flag, const char *text, double low,
                        double high, double *ret, struct error *ret_error)
{
    if (text == NULL || number_read_real(text, low, high, ret)) return true;
    a->is_misused = true;
    return error_set(ret_error, "%s takes %g to %g, not \"%s\"", flag, low, high, text);
}

/* As hours from now: it would be submitted now. */
static bool read_deadline(struct advice *a, struct error *ret_error)
{
    int64_t deadline_us = a->spec->terms.deadline_us;
    if (deadline_us > TERMS_US_MAX) deadline_us -= clock_wall_us();
    a->job.deadline_h = (double)deadline_us / 3.6e9;
    return deadline_us > 0 || a->spec->terms.deadline_us == 0 ||
           error_set(ret_error, "%s: the deadline is over; give one that is to come",
                     a->words->job_file);
}

static bool read_job(struct advice *a, struct error *ret_error)
{
    const char *file = a->words->job_file;
    char *text;
    size_t bytes;
    if (!io_read_file(file, YAML_BYTES_MAX, &text, &bytes, ret_error)) return false;
    bool ok = job_spec_parse(a->catalog, NULL, file, text, bytes, a->spec, ret_error);
    mem_free(text);
    if (!ok) return false;
    const struct job_spec *spec = a->spec;
    double work_s = (double)job_spec_work_us(spec) / 1e6, billions = 0, percent = 5;
    advise_defaults(&a->job);
    if (spec->steps == 0 || work_s <= 0)
        return error_set(ret_error,
                         "%s: needs elastic.steps and elastic.work_per_slot (seconds of a slot on one "
                         "NCU), to know how much work there is",
                         file);
    if (spec->terms.ncu_milli != 0)
        return error_set(ret_error,
                         "%s: asks for NCU; advice compares counts of devices: give devices: {min: "
                         "1, max: N} instead of ncu, or see the cheapest mix with shoal plan",
                         file);
    a->job.parameters = (double)spec->parameters;
    a->job.steps = (double)spec->steps;
    a->job.ncu_s_per_step = work_s / (double)spec->steps;
    a->job.devices_min = spec->devices_min;
    a->job.devices_max = spec->devices_max;
    a->job.capability_mask = spec->need.capability_mask;
    a->job.vram_min_mib = spec->need.vram_min_mib;
    a->job.capacity_mask = spec->capacity_mask;
    a->job.usd_per_hour_max = (double)spec->budget_usd_micros_per_hour / 1e6;
    a->job.usd_max = (double)spec->budget_usd_micros / 1e6;
    if (!read_deadline(a, ret_error) ||
        !read_number(a, "--parameters", a->words->parameters, 0.001, 1e6, &billions, ret_error) ||
        !read_number(a, "--overhead", a->words->overhead, 0, 90, &percent, ret_error) ||
        !read_number(a, "--network", a->words->network, 0.01, 1e5, &a->job.network_gbit, ret_error))
        return false;
    if (billions > 0) a->job.parameters = billions * 1e9;
    a->job.overhead = percent / 100;
    return true;
}

/* ---- how fast this work runs where (as core/rate.h has it) ---- */

/* Over the models that are told they come to what these were before: rates of a source need no unit. */
static void scale_speeds(struct catalog *catalog, const double *rates, uint64_t mask)
{
    double told = 0, ncu_milli = 0;
    for (uint32_t i = 0; i < catalog->model_count; i++) {
        if ((mask >> i & 1) == 0) continue;
        told += rates[i];
        ncu_milli += catalog->models[i].ncu_milli;
    }
    for (uint32_t i = 0; i < catalog->model_count && told > 0; i++)
        if ((mask >> i & 1) != 0)
            catalog->models[i].ncu_milli = (uint32_t)lround(rates[i] * ncu_milli / told);
}

static void take_declared(struct advice *a)
{
    double rates[CATALOG_MODELS_MAX] = {0};
    for (uint32_t i = 0; i < a->spec->rate_count; i++) {
        rates[a->spec->rates[i].model] = (double)a->spec->rates[i].rate_micro;
        a->declared_mask |= UINT64_C(1) << a->spec->rates[i].model;
    }
    scale_speeds(a->catalog, rates, a->declared_mask);
}

static void take_measured(struct advice *a)
{
    double rates[CATALOG_MODELS_MAX] = {0};
    json_t *answer = a->words->rates_json == NULL ? NULL : json_loads(a->words->rates_json, 0, NULL);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "rates"), i, row)
    {
        uint32_t model;
        const char *name = json_string_value(json_object_get(row, "model"));
        json_int_t milli = json_integer_value(json_object_get(row, "measured_milli"));
        if (name == NULL || milli <= 0 || !catalog_find_model(a->catalog, name, &model)) continue;
        rates[model] = (double)milli;
        a->measured_mask |= UINT64_C(1) << model;
    }
    json_decref(answer);
    scale_speeds(a->catalog, rates, a->measured_mask);
}

/* ---- the market ---- */

static void add_offer(struct advice *a, const struct advise_offer *offer)
{
    a->has_regions |= offer->region[0] != '\0';
    if (a->market.count < ADVISE_OFFERS_MAX)
        a->market.offers[a->market.count++] = *offer;
    else
        a->left_out++;
}

static void list_prices(struct advice *a)
{
    for (uint32_t i = 0; i < a->catalog->model_count; i++) {
        const struct catalog_model *model = &a->catalog->models[i];
        if (model->ncu_milli == 0 || model->usd_micros_per_hour == 0) continue;
        add_offer(a, &(struct advise_offer){
                         .zone = "list price",
                         .model = i,
                         .capacity = CAPACITY_ON_DEMAND,
                         .devices = LIST_DEVICES,
                         .stock = 64,
                         .usd_per_hour = (double)model->usd_micros_per_hour / 1e6 * LIST_DEVICES});
    }
    a->source = "the list prices of the catalog, nodes of eight devices on demand";
}

/* "H100", "H100 x8" */
static bool read_type(const struct catalog *catalog, const char *type, uint32_t *ret_model,
                      uint32_t *ret_devices)
{
    char name[FEED_NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s", type); /* fits: of the same size */
    char *times = strstr(name, " x");
    uint64_t devices = 1;
    if (times != NULL && !number_read(times + 2, 1, 1024, &devices)) return false;
    if (times != NULL) *times = '\0';
    *ret_devices = (uint32_t)devices;
    return catalog_find_model(catalog, name, ret_model);
}

static bool market_of_file(struct advice *a, struct error *ret_error)
{
    char *text;
    size_t bytes;
    struct price_feed feed;
    struct error why;
    if (!io_read_file(a->words->market_file, MARKET_BYTES_MAX, &text, &bytes, ret_error))
        return false;
    bool ok = price_feed_read(text, bytes, &feed, &why);
    mem_free(text);
    if (!ok) return error_set(ret_error, "%s: %s", a->words->market_file, why.text);
    for (uint32_t first = 0; first < feed.point_count; first = price_feed_series_end(&feed, first)) {
        const struct feed_point *last = &feed.points[price_feed_series_end(&feed, first) - 1];
        struct advise_offer offer = {
            .capacity = last->is_spot ? CAPACITY_SPOT : CAPACITY_ON_DEMAND,
            .stock = FILE_STOCK,
            .usd_per_hour = (double)last->usd_micros_per_hour / 1e6,
            .losses_per_hour = last->is_spot ? LOSSES_DEFAULT : 0};
        (void)snprintf(offer.zone, sizeof offer.zone, "%s", last->zone); /* cut is fine */
        if (read_type(a->catalog, last->instance, &offer.model, &offer.devices))
            add_offer(a, &offer);
        else
            a->left_out++;
    }
    price_feed_close(&feed);
    a->source = a->words->market_file;
    return a->market.count > 0 ||
           error_set(ret_error,
                     "%s: no type in it is a model of the catalog (\"H100\", or \"H100 x8\" for a "
                     "node of eight)",
                     a->words->market_file);
}

static void take_row(struct advice *a, const json_t *row)
{
    const json_t *survival = json_object_get(row, "survival");
    json_int_t hour_ppm = json_integer_value(json_object_get(survival, "hour_ppm"));
    const char *model = json_string_value(json_object_get(row, "model"));
    const char *capacity = json_string_value(json_object_get(row, "capacity"));
    const char *zone = json_string_value(json_object_get(row, "zone"));
    const char *region = json_string_value(json_object_get(row, "region"));
    struct advise_offer offer = {.capacity = CAPACITY_OWNED};
    if (model == NULL || capacity == NULL || zone == NULL || region == NULL ||
        !catalog_find_model(a->catalog, model, &offer.model)) {
        a->left_out++;
        return;
    }
    while (offer.capacity < CAPACITY_SPOT && strcmp(name_capacity(offer.capacity), capacity) != 0)
        offer.capacity++;
    offer.devices = (uint32_t)json_integer_value(json_object_get(row, "devices"));
    offer.stock = (uint32_t)json_integer_value(json_object_get(row, "stock"));
    offer.usd_per_hour =
        (double)json_integer_value(json_object_get(row, "usd_micros_per_hour")) / 1e6;
    if (offer.capacity == CAPACITY_SPOT)
        offer.losses_per_hour = hour_ppm > 0 ? -log((double)hour_ppm / 1e6) : 10;
    (void)snprintf(offer.zone, sizeof offer.zone, "%s", zone);       /* cut is fine */
    (void)snprintf(offer.region, sizeof offer.region, "%s", region); /* likewise */
    add_offer(a, &offer);
}

/* A region is a limit where the market tells regions; where it does not, that is said. */
static void keep_region(struct advice *a)
{
    if (a->has_regions)
        (void)snprintf(a->job.region, sizeof a->job.region, "%s", a->spec->region); /* fits */
}

static bool region_is_open(const struct advice *a)
{
    return a->spec->region[0] != '\0' && !a->has_regions;
}

static bool read_market(struct advice *a, struct error *ret_error)
{
    a->market.catalog = a->catalog;
    if (a->words->market_file != NULL) return market_of_file(a, ret_error);
    json_t *answer =
        a->words->market_json == NULL ? NULL : json_loads(a->words->market_json, 0, NULL);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "offers"), i, row) take_row(a, row);
    json_decref(answer);
    a->source = "the running server's market";
    if (a->market.count == 0) list_prices(a);
    return true;
}

/* ---- for people ---- */

static const char *const kind_names[ADVISE_KINDS + 1] = {"a swarm", "one node", "a fixed cluster",
                                                         "nothing"};

static const char *made_of(const struct advice *a, const struct advise_option *option,
                           char text[512])
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < option->line_count && used < 400; i++) {
        const struct advise_offer *o = &a->market.offers[option->lines[i]];
        used += (size_t)snprintf(text + used, 512 - used, "%s%u× %s", i == 0 ? "" : ", ",
                                 option->nodes[i], a->catalog->models[o->model].name);
        if (o->devices > 1) used += (size_t)snprintf(text + used, 512 - used, " x%u", o->devices);
        used += (size_t)snprintf(text + used, 512 - used, " %s %.40s", name_capacity(o->capacity),
                                 o->zone);
    }
    return text;
}

static void print_option(const struct advice *a, int kind)
{
    char made[512];
    const struct advise_option *o = &a->answer.options[kind];
    printf("%s %-15s ", (int)a->answer.verdict == kind ? "→" : " ", kind_names[kind]);
    if (!o->is_possible) {
        printf("%s\n", o->why);
        return;
    }
    printf("%7u %7.1f  $%8.2f  %7.1f h  $%9.2f  %6.1f s + %5.1f s  %s%s%s\n", o->devices, o->ncu,
           o->usd_per_hour, o->hours, o->usd, a->job.ncu_s_per_step / o->ncu,
           o->step_s - a->job.ncu_s_per_step / o->ncu, made_of(a, o, made),
           o->is_late ? "; " : "", o->is_late ? o->why : "");
}

static void print_turns(const struct advice *a)
{
    bool swarm = a->answer.verdict == ADVISE_SWARM;
    printf("\nwhat would change it to %s:\n", swarm ? "no swarm" : "a swarm");
    for (int i = 0; i < ADVISE_KNOBS; i++) {
        const struct advise_turn *t = &a->answer.turns[i];
        if (!(t->value > 0)) continue;
        printf("  %-36s %10.4g %-22s", t->what, t->value, t->unit);
        if (t->below > 0) printf(" below %.3g", t->below);
        if (t->below > 0 && t->above > 0) printf(" or");
        if (t->above > 0) printf(" above %.3g", t->above);
        printf("%s\n", t->below > 0 || t->above > 0 ? "" : " nothing within a factor of 64");
    }
}

static void print_reason(const struct advice *a)
{
    enum advise_kind verdict = a->answer.verdict;
    const struct advise_option *s = &a->answer.options[ADVISE_SWARM];
    const struct advise_option *n = &a->answer.options[ADVISE_NODE];
    const struct advise_option *c = &a->answer.options[ADVISE_CLUSTER];
    const struct advise_option *o =
        verdict == ADVISE_NODE || (verdict == ADVISE_SWARM && n->is_possible && !n->is_late) ? n : c;
    printf("\n→ %s", kind_names[verdict]);
    if (verdict == ADVISE_KINDS)
        printf(" on sale does it");
    else if (s->is_possible && o->is_possible)
        printf(": a swarm takes %.2f of the time of %s and %.2f of its cost; %s", s->hours / o->hours,
               o == n ? kind_names[ADVISE_NODE] : kind_names[ADVISE_CLUSTER], s->usd / o->usd,
               a->job.deadline_h > 0 ? "with a deadline it has to cost 0.9 or less"
                                     : "it is worth it when the product is 0.75 or less");
    printf("\n");
}

static void print_speeds(const struct advice *a)
{
    const char *before = "speeds of this work: ";
    for (uint32_t i = 0; i < a->catalog->model_count; i++) {
        bool measured = a->measured_mask >> i & 1;
        if (!measured && (a->declared_mask >> i & 1) == 0) continue;
        printf("%s%s %.3g NCU (%s)", before, a->catalog->models[i].name,
               a->catalog->models[i].ncu_milli / 1000.0, measured ? "measured" : "declared");
        before = ", ";
    }
    if (before[0] == ',') printf("; others by their NCU\n");
}

static void print(const struct advice *a)
{
    const struct advise_job *job = &a->job;
    printf("%s: %g steps of %.4g NCU-seconds", a->spec->name, job->steps, job->ncu_s_per_step);
    if (job->parameters > 0) printf(", %.3gB parameters", job->parameters / 1e9);
    if (job->deadline_h > 0) printf(", in %.1f h", job->deadline_h);
    if (job->usd_per_hour_max > 0) printf(", for $%.2f/h", job->usd_per_hour_max);
    if (job->usd_max > 0) printf(", for $%.2f in all", job->usd_max);
    if (job->region[0] != '\0') printf(", in %s", job->region);
    printf("; market: %s", a->source);
    if (a->left_out > 0) printf(" (%u offers left out)", a->left_out);
    printf("\n");
    print_speeds(a);
    printf("\n  %-15s %7s %7s  %9s  %9s  %10s  %17s  %s\n", "", "devices", "NCU", "$/h", "time",
           "cost", "step + exchange", "made of");
    for (int i = 0; i < ADVISE_KINDS; i++) print_option(a, i);
    print_reason(a);
    if (a->answer.verdict != ADVISE_KINDS) print_turns(a);
    if (region_is_open(a))
        printf("\nnot looked at: market.region %s; these prices tell no regions\n", a->spec->region);
    printf("\nassumed: %.0f %% orchestration and %.1f h of setup for a swarm, %.2g h from a loss to its "
           "replacement, checkpoints every %.2g h, %.3g Gbit/s between nodes, %.3g within, half of "
           "the computing hides an exchange\n",
           job->overhead * 100, job->setup_h, job->changeover_h, job->checkpoint_h,
           job->network_gbit, job->nvlink_gbit);
}

/* ---- JSON ---- */

static json_t *option_json(const struct advice *a, int kind)
{
    static const char *const keys[] = {"swarm", "node", "cluster"};
    bool failed = false;
    const struct advise_option *o = &a->answer.options[kind];
    json_t *object = json_object(), *lines = json_array();
    for (uint32_t i = 0; i < o->line_count; i++) {
        const struct advise_offer *offer = &a->market.offers[o->lines[i]];
        json_t *line = json_object();
        json_set_u64(line, "nodes", o->nodes[i], &failed);
        json_set_u64(line, "devices", offer->devices, &failed);
        json_set_text(line, "model", a->catalog->models[offer->model].name, &failed);
        json_set_text(line, "zone", offer->zone, &failed);
        json_set_text(line, "capacity", name_capacity(offer->capacity), &failed);
        json_append(lines, line, &failed);
    }
    json_set_text(object, "kind", keys[kind], &failed);
    json_set(object, "possible", json_boolean(o->is_possible), &failed);
    json_set(object, "late", json_boolean(o->is_late), &failed);
    json_set_text(object, "why", o->why, &failed);
    json_set_u64(object, "devices", o->devices, &failed);
    json_set_real(object, "ncu", o->ncu, &failed);
    json_set_real(object, "step_s", o->step_s, &failed);
    json_set_real(object, "exchange_s", o->exchange_s, &failed);
    json_set_real(object, "hours", o->hours, &failed);
    json_set_real(object, "usd", o->usd, &failed);
    json_set_real(object, "usd_per_hour", o->usd_per_hour, &failed);
    json_set(object, "lines", lines, &failed);
    return json_finish(object, failed);
}

static bool print_json(const struct advice *a)
{
    static const char *const verdicts[] = {"swarm", "node", "cluster", "none"};
    bool failed = false;
    json_t *object = json_object(), *options = json_array(), *turns = json_array();
    for (int i = 0; i < ADVISE_KINDS; i++) json_append(options, option_json(a, i), &failed);
    for (int i = 0; i < ADVISE_KNOBS; i++) {
        const struct advise_turn *t = &a->answer.turns[i];
        if (!(t->value > 0)) continue;
        json_t *row = json_object();
        json_set_text(row, "what", t->what, &failed);
        json_set_text(row, "unit", t->unit, &failed);
        json_set_real(row, "value", t->value, &failed);
        json_set_real(row, "below", t->below, &failed);
        json_set_real(row, "above", t->above, &failed);
        json_append(turns, row, &failed);
    }
    json_set_text(object, "verdict", verdicts[a->answer.verdict], &failed);
    json_set_text(object, "market", a->source, &failed);
    json_set(object, "region_looked_at", json_boolean(!region_is_open(a)), &failed);
    json_set(object, "options", options, &failed);
    json_set(object, "turns", turns, &failed);
    char *text = json_finish_text(object, failed);
    if (text != NULL) puts(text);
    mem_free(text);
    return text != NULL;
}

int advise_main(const struct advise_words *words)
{
    struct error error;
    struct advice *a = mem_zalloc(1, sizeof *a);
    struct catalog *catalog = mem_zalloc(1, sizeof *catalog);
    struct job_spec *spec = mem_zalloc(1, sizeof *spec);
    bool ok = (a != NULL && catalog != NULL && spec != NULL) || error_set(&error, "out of memory");
    if (ok) {
        *a = (struct advice){.words = words, .catalog = catalog, .spec = spec};
        ok = catalog_parse_shipped(catalog, &error) && read_job(a, &error) &&
             read_market(a, &error);
    }
    if (ok) keep_region(a);
    if (ok) take_declared(a);
    if (ok) take_measured(a);
    if (ok) advise(&a->job, &a->market, &a->answer);
    if (ok && words->json)
        ok = print_json(a) || error_set(&error, "out of memory");
    else if (ok)
        print(a);
    bool is_found = ok && a->answer.verdict != ADVISE_KINDS,
         is_misused = a != NULL && a->is_misused;
    mem_free(spec);
    mem_free(catalog);
    mem_free(a);
    if (!ok) fprintf(stderr, "shoal: %s\n", error.text);
    return is_misused ? USAGE : is_found ? EXIT_SUCCESS : EXIT_FAILURE;
}
