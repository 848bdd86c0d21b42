#include "whatif/print.h"
#include "codec/names.h"
#include <inttypes.h>
#include <string.h>

enum { FIGURE_BYTES = 40, CELL = 20 };

void print_figure(char *ret_text, size_t bytes, double value)
{
    double size = value < 0 ? -value : value;
    int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
    if (value == (double)(int64_t)value && size < 1e15) decimals = 0;
    (void)snprintf(ret_text, bytes, "%.*f", decimals, value);
}

/* partial: not all jobs were done for it. */
static void print_cell(FILE *stream, struct estimate e, bool partial)
{
    char mean[FIGURE_BYTES], half[FIGURE_BYTES], both[2 * FIGURE_BYTES + 8];
    print_figure(mean, sizeof mean, e.mean);
    print_figure(half, sizeof half, e.half);
    (void)snprintf(both, sizeof both, "%s%s%s%s%s", partial ? "(" : "", mean,
                   e.half == 0 ? "" : " +-", e.half == 0 ? "" : half, partial ? ")" : "");
    (void)fprintf(stream, " %*s", CELL, both);
}

void print_unfinished(const struct crowd *c, uint32_t i, char *ret_text, size_t bytes)
{
    const struct unfinished *u = crowd_first_unfinished(c, i);
    char count[FIGURE_BYTES], jobs[FIGURE_BYTES], why[NAMES_SENTENCE_BYTES] = "";
    ret_text[0] = '\0';
    if (u == NULL) return;
    print_figure(count, sizeof count, crowd_unfinished(c, i, 0));
    print_figure(jobs, sizeof jobs, crowd_estimate(c, i, c->scene->stop_group, MEASURE_JOBS).mean);
    bool says = u->refused || u->waited;
    if (u->reason != 0)
        (void)reason_format(u->reason, u->a, u->b, u->c, why, sizeof why);
    else if (u->refused)
        (void)snprintf(why, sizeof why, "no offer of this case can ever give it its devices");
    (void)snprintf(ret_text, bytes,
                   "%s of %s jobs did not end; the first, %s number %u, %s%s", count, jobs,
                   c->scene->jobs[u->entry].name, u->number + 1,
                   u->refused                          ? "was refused: "
                   : !says                             ? "still runs"
                   : strncmp(why, "waits", 5) == 0 ? ""
                                                       : "waits: ",
                   says ? why : "");
}

static void print_late(const struct crowd *c, FILE *stream, uint32_t i)
{
    char missed[FIGURE_BYTES], jobs[FIGURE_BYTES];
    print_figure(missed, sizeof missed, crowd_estimate(c, i, 0, MEASURE_MISSED).mean);
    print_figure(jobs, sizeof jobs, crowd_estimate(c, i, 0, MEASURE_JOBS).mean);
    (void)fprintf(stream, "LATE  %s: %s of %s jobs missed their deadline, more than need be\n",
                  c->cases[i].name, missed, jobs);
}

/* A case that did not do the work, or not in time, is told, and never called cheapest. */
static void print_finish(const struct crowd *c, FILE *stream)
{
    char text[PRINT_UNFINISHED_BYTES], figure[FIGURE_BYTES];
    uint32_t cheapest = crowd_cheapest(c);
    bool is_late = false;
    for (uint32_t i = 0; i < c->case_count; i++) {
        print_unfinished(c, i, text, sizeof text);
        if (text[0] != '\0')
            (void)fprintf(stream, "%s%s: %s\n",
                          "NOT FINISHED (its dollars and hours, in brackets, are not those of the "
                          "work)  ",
                          c->cases[i].name, text);
        else if (crowd_later(c, i) > 0)
            print_late(c, stream, i);
        is_late |= crowd_later(c, i) > 0;
    }
    if (cheapest == c->case_count || c->case_count == 1) return;
    print_figure(figure, sizeof figure, crowd_estimate(c, cheapest, 0, MEASURE_COST).mean);
    (void)fprintf(stream, "cheapest of those that finished%s: %s, %s dollars\n",
                  is_late ? " with the fewest deadlines missed" : "", c->cases[cheapest].name, figure);
}

static void print_row(const struct crowd *c, FILE *stream, const char *name, uint32_t row,
                      enum measure measure)
{
    (void)fprintf(stream, "%-14s", name);
    for (uint32_t i = 0; i < c->case_count; i++)
        print_cell(stream, crowd_estimate(c, i, row, measure),
                   crowd_needs_all(measure) && crowd_unfinished(c, i, row) > 0);
    (void)fprintf(stream, "\n");
}

static void print_head(const struct crowd *c, FILE *stream, const char *name)
{
    (void)fprintf(stream, "%-14s", name);
    for (uint32_t i = 0; i < c->case_count; i++)
        (void)fprintf(stream, " %*.*s", CELL, CELL, c->cases[i].name);
    (void)fprintf(stream, "\n");
}

static void print_classes(const struct crowd *c, FILE *stream)
{
    for (uint32_t class = 0; class < JOB_CLASS_END; class ++) {
        uint32_t jobs = 0;
        char name[32];
        for (uint32_t i = 0; i < c->case_count * c->seed_count; i++)
            jobs += c->outcomes[i].class_jobs[class];
        if (jobs == 0) continue;
        for (int p95 = 0; p95 < 2; p95++) {
            (void)snprintf(name, sizeof name, "wait P%u %s", class, p95 ? "p95" : "mean");
            (void)fprintf(stream, "%-14s", name);
            for (uint32_t i = 0; i < c->case_count; i++)
                print_cell(stream,
                           (struct estimate){.mean = crowd_class_wait(c, i, class, p95 == 1)}, false);
            (void)fprintf(stream, "\n");
        }
    }
}

static const char *group_name(const struct crowd *c, const struct scene_claim *claim)
{
    return claim->group == 0 ? "all" : c->scene->groups[claim->group - 1];
}

static bool is_there(const struct crowd *c, const struct scene_claim *claim)
{
    return claim->a < c->case_count && !c->cases[0].built_in &&
           (claim->b == SCENE_CASES_MAX || claim->b < c->case_count);
}

static void print_claims(const struct crowd *c, FILE *stream)
{
    bool first = true;
    for (uint32_t i = 0; i < c->scene->claim_count; i++) {
        const struct scene_claim *claim = &c->scene->claims[i];
        char figure[FIGURE_BYTES], half[FIGURE_BYTES], bound[FIGURE_BYTES];
        if (!is_there(c, claim)) continue;
        if (first) (void)fprintf(stream, "\nclaims\n");
        first = false;
        bool least = claim->at_least_ppm != INT64_MIN;
        struct estimate e = crowd_claimed(c, claim);
        print_figure(figure, sizeof figure, e.mean);
        print_figure(half, sizeof half, e.half);
        print_figure(bound, sizeof bound,
                     (double)(least ? claim->at_least_ppm : claim->at_most_ppm) / 1e6);
        (void)fprintf(stream, "  %-14s %s: %s of %s, %s%s%s = %s +-%s, %s %s\n",
                      crowd_holds(c, claim) ? "holds" : "DOES NOT HOLD", claim->text, claim->metric,
                      group_name(c, claim), c->cases[claim->a].name,
                      claim->b == SCENE_CASES_MAX ? "" : " over ",
                      claim->b == SCENE_CASES_MAX ? "" : c->cases[claim->b].name, figure, half,
                      least ? "at least" : "at most", bound);
    }
}

void print_table(const struct crowd *c, FILE *stream)
{
    const struct scene *s = c->scene;
    (void)fprintf(stream, "%s: %u case%s, seeds %u..%u, mean and half of the 95%% interval\n\n",
                  s->name, c->case_count, c->case_count == 1 ? "" : "s", c->first_seed,
                  c->first_seed + c->seed_count - 1);
    for (uint32_t i = 0; i < s->told_count; i++) (void)fprintf(stream, "%s\n", s->told[i]);
    if (s->told_count > 0) (void)fprintf(stream, "\n");
    print_head(c, stream, "all jobs");
    for (uint32_t m = 0; m < MEASURE_COUNT; m++)
        print_row(c, stream, measure_names[m], 0, (enum measure)m);
    print_classes(c, stream);
    print_finish(c, stream);
    for (uint32_t g = 0; g < s->group_count && s->group_count > 1; g++) {
        (void)fprintf(stream, "\n");
        print_head(c, stream, s->groups[g]);
        for (uint32_t m = 0; m < MEASURE_COUNT; m++)
            if (m != MEASURE_PREEMPTIONS && m != MEASURE_BOUGHT)
                print_row(c, stream, measure_names[m], 1 + g, (enum measure)m);
    }
    print_claims(c, stream);
}

static void json_text(FILE *stream, const char *text)
{
    (void)fputc('"', stream);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') (void)fputc('\\', stream);
        (void)fputc((unsigned char)*text < ' ' ? ' ' : *text, stream);
    }
    (void)fputc('"', stream);
}

static void json_row(const struct crowd *c, FILE *stream, uint32_t i, uint32_t row)
{
    (void)fprintf(stream, "{");
    for (uint32_t m = 0; m < MEASURE_COUNT; m++) {
        struct estimate e = crowd_estimate(c, i, row, (enum measure)m);
        (void)fprintf(stream, "%s\"%s\":{\"mean\":%.9g,\"half\":%.9g}", m == 0 ? "" : ",",
                      measure_names[m], e.mean, e.half);
    }
    (void)fprintf(stream, "}");
}

static void json_case(const struct crowd *c, FILE *stream, uint32_t i)
{
    char text[PRINT_UNFINISHED_BYTES];
    uint64_t digest = 0, events = 0;
    for (uint32_t s = 0; s < c->seed_count; s++) {
        const struct outcome *o = &c->outcomes[(size_t)i * c->seed_count + s];
        digest = digest * UINT64_C(31) + o->digest;
        events += o->events;
    }
    (void)fprintf(stream, "%s{\"case\":", i == 0 ? "" : ",");
    json_text(stream, c->cases[i].name);
    (void)fprintf(
        stream, ",\"policy\":\"%s\",\"events\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "\",\"all\":",
        scene_policy_names[c->cases[i].policy], events, digest);
    json_row(c, stream, i, 0);
    print_unfinished(c, i, text, sizeof text);
    (void)fprintf(stream, ",\"finished\":%s,\"unfinished_text\":",
                  text[0] == '\0' ? "true" : "false");
    json_text(stream, text);
    (void)fprintf(stream, ",\"groups\":{");
    for (uint32_t g = 0; g < c->scene->group_count; g++) {
        (void)fprintf(stream, "%s", g == 0 ? "" : ",");
        json_text(stream, c->scene->groups[g]);
        (void)fprintf(stream, ":");
        json_row(c, stream, i, 1 + g);
    }
    (void)fprintf(stream, "},\"wait_h_by_class\":{");
    for (uint32_t class = 0; class < JOB_CLASS_END; class ++)
        (void)fprintf(stream, "%s\"P%u\":{\"mean\":%.9g,\"p95\":%.9g}", class == 0 ? "" : ",",
                      class, crowd_class_wait(c, i, class, false),
                      crowd_class_wait(c, i, class, true));
    (void)fprintf(stream, "}}");
}

void print_json(const struct crowd *c, FILE *stream)
{
    (void)fprintf(stream, "{\"scenario\":");
    json_text(stream, c->scene->name);
    (void)fprintf(stream, ",\"traces\":[");
    for (uint32_t i = 0; i < c->scene->told_count; i++) {
        (void)fprintf(stream, "%s", i == 0 ? "" : ",");
        json_text(stream, c->scene->told[i]);
    }
    (void)fprintf(stream, "],\"first_seed\":%u,\"last_seed\":%u,\"cases\":[", c->first_seed,
                  c->first_seed + c->seed_count - 1);
    for (uint32_t i = 0; i < c->case_count; i++) json_case(c, stream, i);
    uint32_t cheapest = crowd_cheapest(c);
    (void)fprintf(stream, "],\"cheapest\":");
    json_text(stream, cheapest == c->case_count ? "" : c->cases[cheapest].name);
    (void)fprintf(stream, ",\"claims\":[");
    bool first = true;
    for (uint32_t i = 0; i < c->scene->claim_count; i++) {
        const struct scene_claim *claim = &c->scene->claims[i];
        if (!is_there(c, claim)) continue;
        struct estimate e = crowd_claimed(c, claim);
        bool least = claim->at_least_ppm != INT64_MIN;
        (void)fprintf(stream, "%s{\"text\":", first ? "" : ",");
        first = false;
        json_text(stream, claim->text);
        (void)fprintf(stream,
                      ",\"metric\":\"%s\",\"mean\":%.9g,\"half\":%.9g,\"%s\":%.9g,\"holds\":%s}",
                      claim->metric, e.mean, e.half, least ? "at_least" : "at_most",
                      (double)(least ? claim->at_least_ppm : claim->at_most_ppm) / 1e6,
                      crowd_holds(c, claim) ? "true" : "false");
    }
    (void)fprintf(stream, "]");
}
