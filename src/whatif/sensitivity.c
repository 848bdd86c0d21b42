#include "whatif/sensitivity.h"
#include "base/mem.h"
#include "whatif/print.h"
#include "whatif/scene_get.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALUE_BYTES = 48, SHOWN_MAX = 40, FIGURE_BYTES = 32 };

#define WORTH_SAYING 1.03 /* smaller changes are counted, not shown */

static void write_value(const struct scene_line *line, int64_t value, char text[VALUE_BYTES])
{
    switch ((enum scene_line_kind)line->kind) {
    case LINE_INTEGER: (void)snprintf(text, VALUE_BYTES, "%" PRId64, value); return;
    case LINE_MICROS:
        (void)snprintf(text, VALUE_BYTES, "%" PRId64 ".%06" PRId64, value / 1000000,
                       value % 1000000);
        return;
    case LINE_DURATION: (void)snprintf(text, VALUE_BYTES, "%" PRId64 "us", value); return;
    }
}

/* False: there is no such value in the range. */
static bool swung_value(const struct scene_line *line, int way, int64_t *ret_value)
{
    int64_t value = way == SWING_HALF ? line->value / 2 : line->value * 2;
    if (line->value > INT64_MAX / 2) return false;
    if (value < line->min) value = line->min;
    if (value > line->max) value = line->max;
    *ret_value = value;
    return value != line->value;
}

static const struct scene_case *case_named(const struct scene *scene, const char *name)
{
    for (uint32_t i = 0; i < scene->case_count; i++)
        if (strcmp(scene->cases[i].name, name) == 0) return &scene->cases[i];
    return NULL;
}

/* A line about an offer or job that the case does not have changes nothing there. */
static bool concerns(const struct scene *scene, const struct scene_case *c, const char *path)
{
    for (uint32_t i = 0; i < scene->offer_count; i++) {
        size_t bytes = strlen(scene->offers[i].name);
        if (strncmp(path, "offers.", 7) == 0 &&
            strncmp(path + 7, scene->offers[i].name, bytes) == 0 && path[7 + bytes] == '.')
            return scene_case_has_offer(c, i);
    }
    for (uint32_t i = 0; i < scene->job_count; i++) {
        size_t bytes = strlen(scene->jobs[i].name);
        if (strncmp(path, "jobs.", 5) == 0 && strncmp(path + 5, scene->jobs[i].name, bytes) == 0 &&
            path[5 + bytes] == '.')
            return scene_case_has_job(c, i);
    }
    return true;
}

/* Outcomes of all cases: those that are concerned from their own runs, the others as they were. */
static bool run_cases(const struct crowd *base, const struct scene *scene, const char *path,
                      struct crowd *ret_crowd)
{
    struct error error;
    size_t bytes = base->seed_count * sizeof *base->outcomes;
    *ret_crowd = *base;
    ret_crowd->scene = scene;
    ret_crowd->outcomes = mem_alloc(base->case_count * bytes);
    if (ret_crowd->outcomes == NULL) return false;
    for (uint32_t i = 0; i < base->case_count; i++) {
        struct outcome *to = ret_crowd->outcomes + (size_t)i * base->seed_count;
        const struct scene_case *c = case_named(scene, base->cases[i].name);
        struct crowd one = *base;
        one.scene = scene;
        struct scene_case same = c == NULL ? base->cases[i] : *c;
        same.net = base->cases[i].net;
        one.cases = &same;
        one.case_count = 1;
        one.progress = NULL;
        one.outcomes = NULL;
        bool changes = concerns(base->scene, &base->cases[i], path);
        if (c == NULL || (changes && !crowd_run(&one, &error))) {
            crowd_free(&one);
            return false;
        }
        memcpy(to, changes ? one.outcomes : base->outcomes + (size_t)i * base->seed_count, bytes);
        crowd_free(&one);
    }
    return true;
}

/* False: it cannot be run so, which is an answer, too. */
static bool run_changed(const struct crowd *base, const struct sensitivity_source *source,
                        const struct scene_set *sets, struct scene *scene, double *values)
{
    struct error error;
    struct crowd crowd;
    if (!scene_read(scene, source->file, source->folder, source->text, source->bytes, sets,
                    source->set_count + 1, &error))
        return false;
    bool good = run_cases(base, scene, sets[source->set_count].path, &crowd);
    for (uint32_t i = 0; good && i < scene->claim_count; i++)
        values[i] = crowd_claimed(&crowd, &scene->claims[i]).mean;
    crowd_free(&crowd);
    return good;
}

static double change(double a, double b)
{
    if (a <= 0 || b <= 0) return a == b ? 1 : 100; /* from nothing to something */
    return a > b ? a / b : b / a;
}

/* False: out of memory. */
static bool run_swing(const struct crowd *base, const struct sensitivity_source *source,
                      struct scene_set *sets, const double *base_values, struct swing *swing)
{
    const struct scene_line *line = &base->scene->lines[swing->line];
    char text[VALUE_BYTES];
    swing->effect = 1;
    for (int way = 0; way < SWING_COUNT; way++) {
        int64_t value;
        memcpy(swing->values[way], base_values, sizeof swing->values[way]);
        if (!swung_value(line, way, &value)) continue;
        write_value(line, value, text);
        sets[source->set_count] = (struct scene_set){.path = line->path, .value = text};
        struct scene *scene = scene_new();
        if (scene == NULL) return false;
        swing->impossible[way] = !run_changed(base, source, sets, scene, swing->values[way]);
        scene_close(scene);
        if (swing->impossible[way]) continue;
        for (uint32_t i = 0; i < base->scene->claim_count; i++) {
            double now = change(swing->values[way][i], base_values[i]);
            if (now > swing->effect) swing->effect = now;
        }
    }
    return true;
}

static int by_effect(const void *a, const void *b)
{
    const struct swing *x = a, *y = b;
    if (x->effect != y->effect) return x->effect > y->effect ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static void show_progress(const struct crowd *base, uint32_t done)
{
    if (base->progress == NULL || !isatty(STDERR_FILENO)) return;
    uint32_t count = base->scene->line_count;
    (void)fprintf(stderr, "\r%s: line %u of %u", base->progress, done, count);
    if (done == count) (void)fprintf(stderr, "\r%60s\r", "");
    (void)fflush(stderr);
}

bool sensitivity_run(const struct crowd *base, const struct sensitivity_source *source,
                     struct sensitivity *s, struct error *ret_error)
{
    const struct scene *scene = base->scene;
    struct scene_set *sets = mem_zalloc(source->set_count + 1, sizeof *sets);
    *s = (struct sensitivity){.swings = mem_zalloc(scene->line_count + 1, sizeof *s->swings)};
    bool good = sets != NULL && s->swings != NULL;
    if (!good) (void)error_set(ret_error, "out of memory for the sensitivity table");
    if (good && source->set_count > 0) memcpy(sets, source->sets, source->set_count * sizeof *sets);
    for (uint32_t i = 0; good && i < scene->claim_count; i++)
        s->base[i] = crowd_claimed(base, &scene->claims[i]).mean;
    for (uint32_t i = 0; good && i < scene->line_count; i++) {
        struct swing *swing = &s->swings[s->swing_count++];
        swing->line = i;
        good = run_swing(base, source, sets, s->base, swing) ||
               error_set(ret_error, "out of memory for the sensitivity table");
        show_progress(base, i + 1);
    }
    if (good) qsort(s->swings, s->swing_count, sizeof *s->swings, by_effect);
    mem_free(sets);
    if (!good) sensitivity_free(s);
    return good;
}

void sensitivity_free(struct sensitivity *s)
{
    mem_free(s->swings);
    *s = (struct sensitivity){0};
}

static bool holds(const struct scene_claim *claim, double value)
{
    if (claim->at_least_ppm != INT64_MIN) return value >= (double)claim->at_least_ppm / 1e6;
    return value <= (double)claim->at_most_ppm / 1e6;
}

/* "9.1 .. 14.2", with a mark where the claim turns. */
static void print_swing_cell(const struct scene_claim *claim, const struct swing *swing, uint32_t i,
                             double base, FILE *stream)
{
    char part[SWING_COUNT][FIGURE_BYTES], cell[3 * FIGURE_BYTES];
    for (int way = 0; way < SWING_COUNT; way++) {
        char figure[FIGURE_BYTES - 2];
        double value = swing->values[way][i];
        bool turns = holds(claim, value) != holds(claim, base);
        print_figure(figure, sizeof figure, value);
        (void)snprintf(part[way], sizeof part[way], "%s%s", swing->impossible[way] ? "-" : figure,
                       turns && !swing->impossible[way] ? "!" : "");
    }
    (void)snprintf(cell, sizeof cell, "%s .. %s", part[SWING_HALF], part[SWING_DOUBLE]);
    (void)fprintf(stream, " %18s", cell);
}

static void print_heads(const struct crowd *base, const struct sensitivity *s, FILE *stream)
{
    const struct scene *scene = base->scene;
    (void)fprintf(
        stream,
        "\nsensitivity: each claim with a line halved .. doubled; ! where the claim turns, - where "
        "it cannot run\n\n");
    for (uint32_t i = 0; i < scene->claim_count; i++) {
        char figure[FIGURE_BYTES];
        print_figure(figure, sizeof figure, s->base[i]);
        (void)fprintf(stream, "  (%u) %s, as written: %s\n", i + 1, scene->claims[i].text, figure);
    }
    (void)fprintf(stream, "\n%-34s %12s", "line", "as written");
    for (uint32_t i = 0; i < scene->claim_count; i++) (void)fprintf(stream, " %15s(%u)", "", i + 1);
    (void)fprintf(stream, "\n");
}

static void write_short(const struct scene_line *line, char text[VALUE_BYTES])
{
    char figure[FIGURE_BYTES];
    double value = (double)line->value;
    if (line->kind == LINE_INTEGER) {
        (void)snprintf(text, VALUE_BYTES, "%" PRId64, line->value);
        return;
    }
    const char *unit = "";
    value /= 1e6;
    if (line->kind == LINE_DURATION) {
        unit = value >= 3600 ? "h" : value >= 1 ? "s" : "ms";
        value = value >= 3600 ? value / 3600 : value >= 1 ? value : value * 1000;
    }
    print_figure(figure, sizeof figure, value);
    (void)snprintf(text, VALUE_BYTES, "%s%s", figure, unit);
}

void sensitivity_print(const struct crowd *base, const struct sensitivity *s, FILE *stream)
{
    const struct scene *scene = base->scene;
    uint32_t shown = 0;
    print_heads(base, s, stream);
    for (uint32_t k = 0; k < s->swing_count && shown < SHOWN_MAX; k++, shown++) {
        const struct swing *swing = &s->swings[k];
        const struct scene_line *line = &scene->lines[swing->line];
        char value[VALUE_BYTES];
        if (swing->effect < WORTH_SAYING && !swing->impossible[0] && !swing->impossible[1]) break;
        write_short(line, value);
        (void)fprintf(stream, "%-34s %12s", line->path, value);
        for (uint32_t i = 0; i < scene->claim_count; i++)
            print_swing_cell(&scene->claims[i], swing, i, s->base[i], stream);
        (void)fprintf(stream, "\n");
    }
    (void)fprintf(stream, "%u more lines change no claim by 3 %%, or are not among the first %d\n",
                  s->swing_count - shown, SHOWN_MAX);
}

void sensitivity_json(const struct crowd *base, const struct sensitivity *s, FILE *stream)
{
    const struct scene *scene = base->scene;
    (void)fprintf(stream, "[");
    for (uint32_t k = 0; k < s->swing_count; k++) {
        const struct swing *swing = &s->swings[k];
        (void)fprintf(stream, "%s{\"line\":\"%s\",\"effect\":%.6g", k == 0 ? "" : ",",
                      scene->lines[swing->line].path, swing->effect);
        for (int way = 0; way < SWING_COUNT; way++) {
            (void)fprintf(stream, ",\"%s\":", way == SWING_HALF ? "half" : "double");
            if (swing->impossible[way]) {
                (void)fprintf(stream, "null");
                continue;
            }
            (void)fprintf(stream, "[");
            for (uint32_t i = 0; i < scene->claim_count; i++)
                (void)fprintf(stream, "%s%.9g", i == 0 ? "" : ",", swing->values[way][i]);
            (void)fprintf(stream, "]");
        }
        (void)fprintf(stream, "}");
    }
    (void)fprintf(stream, "]");
}
