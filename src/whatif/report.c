#include "whatif/report.h"
#include "base/io.h"
#include "base/mem.h"
#include "page/style.h"
#include "whatif/print.h"
#include "whatif/report_charts.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FIGURE_BYTES = 40, PATH_BYTES = 4096 };

static void add_head(const struct crowd *c, struct text *page)
{
    text_add(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>Shoal: ");
    text_add_html(page, c->scene->name);
    text_add(
        page,
        "</title>\n<style>%s%s</style></head>\n<body><main>\n<p class=\"brand\">Shoal</p>\n<h1>",
        style_page, style_charts);
    text_add_html(page, c->scene->name);
    text_add(
        page,
        ": what it would cost, how long it would take</h1>\n<p class=\"lead\">%u case%s of one "
        "scenario over the same prices, losses and jobs, in %u made-up world%s each. The pool "
        "decided as it does in production; the world is the scenario's, line by line. Charts "
        "are of seed %u, tables of all.</p>\n",
        c->case_count, c->case_count == 1 ? "" : "s", c->seed_count, c->seed_count == 1 ? "" : "s",
        c->first_seed);
}

static void add_section(struct text *page, const char *title, const char *note)
{
    text_add(page, "<section><h2>");
    text_add_html(page, title);
    text_add(page, "</h2><p class=\"note\">%s</p>\n", note);
}

static const char *case_name(const struct crowd *c, uint32_t index)
{
    return c->cases[index].name;
}

static void add_tiles(const struct crowd *c, struct text *page)
{
    text_add(page, "<div class=\"tiles\">\n");
    for (uint32_t i = 0; i < c->scene->claim_count; i++) {
        const struct scene_claim *claim = &c->scene->claims[i];
        char figure[FIGURE_BYTES], bound[FIGURE_BYTES];
        bool least = claim->at_least_ppm != INT64_MIN, good = crowd_holds(c, claim);
        print_figure(figure, sizeof figure, crowd_claimed(c, claim).mean);
        print_figure(bound, sizeof bound,
                     (double)(least ? claim->at_least_ppm : claim->at_most_ppm) / 1e6);
        text_add(page, "<div class=\"tile\"><span>");
        text_add_html(page, claim->text);
        text_add(page, "</span><b>%s</b><i class=\"%s\">%s, %s %s</i></div>\n", figure,
                 good ? "good" : "bad", good ? "holds" : "does not hold",
                 least ? "at least" : "at most", bound);
    }
    text_add(page, "</div>\n");
}

static void add_cell(struct text *page, struct estimate e, bool partial)
{
    char mean[FIGURE_BYTES], half[FIGURE_BYTES];
    print_figure(mean, sizeof mean, e.mean);
    print_figure(half, sizeof half, e.half);
    text_add(page, "<td>%s%s", partial ? "(" : "", mean);
    if (e.half != 0) text_add(page, " <small>± %s</small>", half);
    text_add(page, "%s</td>", partial ? ")" : "");
}

static void add_table(const struct crowd *c, const char *title, uint32_t row, struct text *page)
{
    add_section(page, title, "Mean over the seeds and half of its 95 % interval.");
    text_add(page, "<div class=\"wide\"><table><tr><th></th>");
    for (uint32_t i = 0; i < c->case_count; i++) {
        text_add(page, "<th>");
        text_add_html(page, case_name(c, i));
        text_add(page, "</th>");
    }
    text_add(page, "</tr>\n");
    for (uint32_t m = 0; m < MEASURE_COUNT; m++) {
        if (row > 0 && (m == MEASURE_PREEMPTIONS || m == MEASURE_BOUGHT)) continue;
        text_add(page, "<tr><td>%s <small>%s</small></td>", measure_names[m], measure_meanings[m]);
        for (uint32_t i = 0; i < c->case_count; i++)
            add_cell(page, crowd_estimate(c, i, row, (enum measure)m),
                     crowd_needs_all((enum measure)m) && crowd_unfinished(c, i, row) > 0);
        text_add(page, "</tr>\n");
    }
    text_add(page, "</table></div></section>\n");
}

static void add_unfinished(const struct crowd *c, struct text *page)
{
    char text[PRINT_UNFINISHED_BYTES];
    for (uint32_t i = 0; i < c->case_count; i++) {
        print_unfinished(c, i, text, sizeof text);
        if (text[0] == '\0') continue;
        text_add(page, "<p><b>Not finished:</b> ");
        text_add_html(page, c->cases[i].name);
        text_add(page, ": ");
        text_add_html(page, text);
        text_add(page, ". Its dollars and hours stand in brackets.</p>\n");
    }
}

static double longest_wait(const struct crowd *c)
{
    double longest = 0;
    for (uint32_t i = 0; i < c->case_count; i++)
        for (uint32_t class = 0; class < JOB_CLASS_END; class ++)
            if (crowd_class_wait(c, i, class, true) > longest)
                longest = crowd_class_wait(c, i, class, true);
    return longest > 0 ? longest : 1;
}

/* A bar for the mean, a thin one on to the 95th percentile. */
static void add_waits(const struct crowd *c, struct text *page)
{
    double longest = longest_wait(c);
    add_section(page, "Waiting by class",
                "Hours from submission to the first start: mean, and the thin line to the 95th "
                "percentile.");
    text_add(page,
             "<div class=\"wide\"><table><tr><th>class, case</th><th>mean h</th><th>p95 h</th>"
             "<th style=\"width:55%%\"></th></tr>\n");
    for (uint32_t class = 0; class < JOB_CLASS_END; class ++)
        for (uint32_t i = 0; i < c->case_count; i++) {
            uint32_t jobs = 0;
            for (uint32_t s = 0; s < c->seed_count; s++)
                jobs += c->outcomes[(size_t)i * c->seed_count + s].class_jobs[class];
            if (jobs == 0) continue;
            double mean = crowd_class_wait(c, i, class, false),
                   p95 = crowd_class_wait(c, i, class, true);
            text_add(page, "<tr><td>P%u, ", class);
            text_add_html(page, case_name(c, i));
            text_add(
                page,
                "</td><td>%.2f</td><td>%.2f</td><td><svg viewBox=\"0 0 400 12\" class=\"m%u\" "
                "preserveAspectRatio=\"none\"><rect fill=\"currentColor\" y=\"2\" height=\"8\" "
                "width=\"%.1f\"/><rect fill=\"currentColor\" y=\"5.5\" height=\"1\" "
                "width=\"%.1f\"/>"
                "</svg></td></tr>\n",
                mean, p95, i % 8, 400 * mean / longest, 400 * p95 / longest);
        }
    text_add(page, "</table></div></section>\n");
}

static void add_model_keys(const struct scene *scene, const struct scene_case *c, struct text *page)
{
    for (uint32_t m = 0; m < scene->catalog.model_count; m++) {
        bool used = false;
        for (uint32_t i = 0; i < scene->offer_count; i++)
            used |= scene->offers[i].model == m && scene_case_has_offer(c, i);
        if (!used) continue;
        text_add(page, "<li><span class=\"swatch m%u\"></span>", m % 8);
        text_add_html(page, scene->catalog.models[m].name);
        text_add(page, "</li>");
    }
}

static const char loss_key[] =
    "<li><svg viewBox=\"-7 -7 14 14\"><circle class=\"loss\" r=\"6\"/><path class=\"cross\" "
    "d=\"M-2.4 -2.4L2.4 2.4M-2.4 2.4L2.4 -2.4\"/></svg>taken by its provider</li>"
    "<li><svg viewBox=\"-7 -7 14 14\"><circle class=\"noticed\" r=\"5.5\"/><path "
    "class=\"cross-open\" "
    "d=\"M-2.2 -2.2L2.2 2.2M-2.2 2.2L2.2 -2.2\"/></svg>let go after a notice</li>";
static const char buy_key[] =
    "<li><svg viewBox=\"-7 -7 14 14\"><path class=\"buy\" d=\"M0 -5L5 4H-5Z\"/></svg>bought</li>"
    "<li><span class=\"dash\" style=\"color:var(--drain)\"></span>on-demand price</li>";

static void add_case_keys(const struct report_case *cases, uint32_t count, struct text *page)
{
    text_add(page, "<ul class=\"keys\">");
    for (uint32_t i = 0; i < count; i++) {
        text_add(page, "<li><span class=\"swatch m%u\"></span>", i % 8);
        text_add_html(page, cases[i].c->name);
        text_add(page, "</li>");
    }
    text_add(page, "</ul>\n");
}

static void add_case(const struct crowd *c, const struct report_case *rc, struct text *page)
{
    char title[SCENE_NAME_BYTES + 32], note[160];
    const struct scene *scene = c->scene;
    (void)snprintf(title, sizeof title, "%s: nodes", rc->c->name);
    (void)snprintf(
        note, sizeof note,
        "A line is a node that is up, a bar is a job on it, in the colour of its model. At most %d "
        "at once; a row is used again when its node has ended.",
        REPORT_ROWS_MAX);
    add_section(page, title, note);
    text_add(page, "<ul class=\"keys\">");
    add_model_keys(scene, rc->c, page);
    text_add(page, "%s</ul>\n", loss_key);
    report_chart_nodes(scene, rc, page);
    text_add(page, "</section>\n");
    (void)snprintf(title, sizeof title, "%s: jobs", rc->c->name);
    add_section(page, title,
                "The first jobs, from the bottom as they came: waiting or standing still "
                "(line), running (bar).");
    report_chart_jobs(scene, rc, page);
    text_add(page, "</section>\n");
    struct text prices = {0};
    report_charts_price(scene, rc, &prices);
    page->failed = page->failed || prices.failed;
    if (prices.count > 0) {
        (void)snprintf(title, sizeof title, "%s: prices and purchases", rc->c->name);
        add_section(page, title,
                    "Of the spot offers bought most often, dollars an hour of a node.");
        text_add(page, "<ul class=\"keys\">%s%s</ul>\n<div class=\"zones\">%s</div></section>\n",
                 buy_key, loss_key, text_get(&prices));
    }
    text_free(&prices);
}

static void add_lines(const struct scene *scene, struct text *page)
{
    text_add(page,
             "<section><details><summary>The %u numbers this rests on</summary><div class=\"wide\">"
             "<table><tr><th>line</th><th>value</th></tr>\n",
             scene->line_count);
    for (uint32_t i = 0; i < scene->line_count; i++) {
        const struct scene_line *l = &scene->lines[i];
        char figure[FIGURE_BYTES];
        double value = l->kind == LINE_INTEGER ? (double)l->value : (double)l->value / 1e6;
        print_figure(figure, sizeof figure, value);
        text_add(page, "<tr><td><code>");
        text_add_html(page, l->path);
        text_add(page, "</code></td><td>%s%s</td></tr>\n", figure,
                 l->kind == LINE_DURATION ? " s" : "");
    }
    text_add(page, "</table></div></details></section>\n");
}

static void add_all(const struct crowd *c, const struct report_case *cases, struct text *page)
{
    const struct scene *scene = c->scene;
    add_head(c, page);
    if (!c->cases[0].built_in) add_tiles(c, page);
    add_unfinished(c, page);
    add_table(c, "All jobs", 0, page);
    for (uint32_t g = 0; g < scene->group_count && scene->group_count > 1; g++)
        add_table(c, scene->groups[g], 1 + g, page);
    add_section(page, "Dollars spent", "What is reserved is paid from the beginning.");
    add_case_keys(cases, c->case_count, page);
    report_chart_cost(scene, cases, c->case_count, page);
    text_add(page, "</section>\n");
    add_section(page, "Useful share of what is paid",
                "Work done just then, by what all devices paid for could do, by NCU.");
    add_case_keys(cases, c->case_count, page);
    report_chart_use(scene, cases, c->case_count, page);
    text_add(page, "</section>\n");
    add_waits(c, page);
    for (uint32_t i = 0; i < c->case_count; i++) add_case(c, &cases[i], page);
    add_lines(scene, page);
    text_add(page,
             "<footer>Made by <code>shoal sim</code>. The same scenario and seeds give the same "
             "figures on every machine.</footer>\n</main></body></html>\n");
}

static bool record_all(const struct crowd *c, struct report_case *cases)
{
    for (uint32_t i = 0; i < c->case_count; i++) {
        struct outcome outcome;
        cases[i].c = &c->cases[i];
        if (!world_run(c->scene, cases[i].c, c->first_seed, &cases[i].recorder, &outcome))
            return false;
    }
    return true;
}

bool report_can_write(const char *folder, struct error *ret_error)
{
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/.report.html.new", folder) >= PATH_BYTES)
        return error_set(ret_error, "the path %s is too long", folder);
    if (!io_make_dirs(folder, ret_error)) return false;
    int fd = io_open_write(path, O_WRONLY | O_CREAT, 0644);
    if (fd < 0)
        return error_set(ret_error, "cannot write into %s: %s; name another folder for --report",
                         folder, strerror(errno));
    (void)close(fd);
    (void)unlink(path);
    return true;
}

bool report_write(const struct crowd *c, const char *folder, struct error *ret_error)
{
    struct report_case cases[SCENE_CASES_MAX] = {0};
    struct text page = {0};
    char path[PATH_BYTES];
    bool good = record_all(c, cases);
    if (good) add_all(c, cases, &page);
    good = (good && !page.failed) || error_set(ret_error, "out of memory for the report");
    int bytes = snprintf(path, sizeof path, "%s/report.html", folder);
    if (good && bytes >= PATH_BYTES) good = error_set(ret_error, "the path %s is too long", folder);
    good = good && io_make_dirs(folder, ret_error) &&
           io_write_file(path, page.bytes, page.count, 0644, ret_error);
    for (uint32_t i = 0; i < c->case_count; i++) record_free(&cases[i].recorder);
    text_free(&page);
    return good;
}
