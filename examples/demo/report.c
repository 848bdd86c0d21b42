#include "demo/report.h"
#include "base/io.h"
#include "cli/client.h"
#include "cli/format.h"
#include "demo/report_charts.h"
#include "page/style.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_head(const struct record *record, const struct summary *summary, struct text *page)
{
    text_add(page,
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
             "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
             "<title>Shoal: one training run on a market that takes machines away</title>\n"
             "<style>%s%s</style></head>\n<body><main>\n<p class=\"brand\">Shoal</p>\n",
             style_page, style_charts);
    text_add(
        page,
        "<h1>%" PRIu64 " machines taken away, %" PRIu64
        " steps trained, %s.</h1>\n<p class=\"lead\">One byte-level language model, trained by "
        "up to %u workers on spot machines of three emulated clouds, while prices moved, "
        "machines vanished and the server itself was killed. Then the same training once more "
        "on one worker that nobody disturbed.</p>\n",
        summary->churn.losses_total, record->options.steps,
        record_is_same(record) ? "not one bit of the weights different" : "and the weights differ",
        summary->workers_max);
}

static void add_tile(struct text *page, const char *value, const char *what, bool good,
                     const char *more)
{
    text_add(page, "<div class=\"tile\"><span>%s</span><b>%s</b><i class=\"%s\">%s</i></div>\n",
             what, value, good ? "good" : "bad", more);
}

static void add_tiles(const struct record *record, const struct summary *summary, struct text *page)
{
    char value[FORMAT_BYTES * 2], more[FORMAT_BYTES * 2], one[FORMAT_BYTES];
    const struct audit *audit = &summary->audit;
    const struct churn *churn = &summary->churn;
    text_add(page, "<div class=\"tiles\">\n");
    (void)snprintf(more, sizeof more, "SHA-256 %.12s…", record->swarm.weights_sha256); /* fits */
    add_tile(page, record_is_same(record) ? "identical" : "different",
             "final weights, swarm and single worker", record_is_same(record), more);
    (void)snprintf(value, sizeof value, "%" PRIu64, churn->losses_total); /* fits */
    (void)snprintf(more, sizeof more, "%" PRIu64 " without notice, %" PRIu64 " steps lost",
                   churn->losses_without_notice, audit->steps_lost); /* fits */
    add_tile(page, value, "machines lost while training", audit->steps_lost == 0, more);
    (void)snprintf(more, sizeof more, "of %s, each exactly once",
                   format_count(one, (int64_t)audit->samples_expected)); /* fits */
    add_tile(page, format_count(value, (int64_t)audit->samples_used_once), "samples used",
             audit->samples_used_once == audit->samples_expected, more);
    (void)snprintf(value, sizeof value, "%.2f → %.2f", audit->loss_first,
                   audit->loss_last); /* fits */
    add_tile(page, value, "loss, first and last step", audit->loss_last < audit->loss_first,
             "it learns");
    int64_t fixed = summary->static_cost_usd_micros;
    int64_t saved_ppm = fixed <= 0 ? 0 : (fixed - summary->cost_usd_micros) * 1000000 / fixed;
    (void)snprintf(more, sizeof more, "%s %s than on demand (computed)",
                   format_share(one, saved_ppm < 0 ? -saved_ppm : saved_ppm),
                   saved_ppm < 0 ? "more" : "less"); /* fits */
    add_tile(page, format_usd(value, summary->cost_usd_micros, 2), "cost, at emulated prices",
             saved_ppm > 0, more);
    text_add(page, "</div>\n");
}

static void add_section(struct text *page, const char *title, const char *note)
{
    text_add(page, "<section><h2>%s</h2><p class=\"note\">%s</p>\n", title, note);
}

static void add_model_keys(const struct record *record, struct text *page)
{
    for (uint32_t i = 0; i < record->model_count; i++) {
        text_add(page, "<li><span class=\"swatch m%u\"></span>", i);
        text_add_html(page, record->models[i].name);
        text_add(page, "</li>");
    }
}

static const char loss_keys[] =
    "<li><svg viewBox=\"-7 -7 14 14\"><circle class=\"loss\" r=\"6\"/><path class=\"cross\" "
    "d=\"M-2.4 -2.4L2.4 2.4M-2.4 2.4L2.4 -2.4\"/></svg>lost without notice</li>"
    "<li><svg viewBox=\"-7 -7 14 14\"><circle class=\"noticed\" r=\"5.5\"/><path "
    "class=\"cross-open\" d=\"M-2.2 -2.2L2.2 2.2M-2.2 2.2L2.2 -2.2\"/></svg>lost after a notice"
    "</li>";
static const char restart_key[] =
    "<li><svg viewBox=\"-7 -7 14 14\"><path class=\"restart\" d=\"M0 -6L6 0L0 6L-6 0Z\"/></svg>"
    "server killed and restarted</li>";
static const char trade_keys[] =
    "<li><svg viewBox=\"-7 -7 14 14\"><path class=\"buy\" d=\"M0 -5L5 4H-5Z\"/></svg>bought</li>"
    "<li><svg viewBox=\"-7 -7 14 14\"><path class=\"drain\" d=\"M0 5L5 -4H-5Z\"/></svg>"
    "drained: price above the threshold</li>";

static void add_charts(const struct record *record, const struct summary *summary,
                       struct text *page)
{
    char note[256], redone[FORMAT_BYTES], slots[FORMAT_BYTES];
    uint64_t all = record->options.steps * record->options.slots;
    (void)snprintf(note, sizeof note,
                   "Who computed each step. A lost worker costs its share of one step, the others "
                   "never stop: %s of %s slots were computed again.",
                   format_count(redone, (int64_t)summary->churn.redone_slots),
                   format_count(slots, (int64_t)all)); /* fits */
    add_section(page, "Workers", note);
    text_add(page, "<ul class=\"keys\">");
    add_model_keys(record, page);
    text_add(page, "%s%s</ul>\n", loss_keys, restart_key);
    report_chart_workers(record, page);
    text_add(page, "</section>\n");
    add_section(page, "Loss",
                "The curve does not know about the market: it is the curve of one "
                "undisturbed worker, bit for bit.");
    report_chart_loss(record, page);
    text_add(page, "</section>\n");
    add_section(page, "Spot prices by zone",
                "As a share of the on-demand price of the same machine (emulated market).");
    text_add(page, "<ul class=\"keys\">");
    add_model_keys(record, page);
    text_add(page,
             "%s%s<li><span class=\"dash\" style=\"color:var(--drain)\"></span>threshold"
             "</li></ul>\n<div class=\"zones\">\n",
             trade_keys, loss_keys);
    report_charts_price(record, page);
    text_add(page, "</div></section>\n");
    add_section(
        page, "Cost",
        "Every device-second is in the ledger, to the micro-dollar, booting and idling too.");
    text_add(page, "<ul class=\"keys\"><li><span class=\"swatch accent\"></span>swarm, from the "
                   "ledger</li><li><span class=\"dash m8\"></span>static on-demand cluster of the "
                   "same NCU (computed)</li></ul>\n");
    report_chart_cost(record, summary, page);
    text_add(page, "</section>\n");
}

static void add_row(struct text *page, const char *what, const char *swarm, const char *fixed,
                    const char *control)
{
    text_add(page, "<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", what, swarm, fixed,
             control);
}

static void add_table(const struct record *record, const struct summary *summary, struct text *page)
{
    char a[FORMAT_BYTES], b[FORMAT_BYTES], c[FORMAT_BYTES];
    add_section(
        page, "The bill",
        "<small>m</small> measured, <small>e</small> at emulated prices or speeds, "
        "<small>c</small> computed: the same job on a static cluster of the swarm's "
        "mean NCU and mix of models, at its median step time, never interrupted, each model at "
        "the lowest on-demand price of any cloud.");
    text_add(page, "<div class=\"wide\"><table><tr><th></th><th>swarm</th><th>static on-demand, "
                   "same NCU</th><th>one worker, undisturbed</th></tr>\n");
    (void)snprintf(c, sizeof c, "-");
    text_add(page, "<tr><td>time</td><td>%s <small>m</small></td>",
             format_duration(a, summary->swarm_wall_us));
    text_add(page, "<td>%s <small>c</small></td><td>%s <small>m</small></td></tr>\n",
             format_duration(a, summary->static_wall_us),
             format_duration(b, record->control.wall_us));
    text_add(page, "<tr><td>cost</td><td>%s <small>e</small></td>",
             format_usd(a, summary->cost_usd_micros, 4));
    text_add(page, "<td>%s <small>c</small></td><td>-</td></tr>\n",
             format_usd(a, summary->static_cost_usd_micros, 4));
    text_add(page, "<tr><td>utilization of the devices paid for</td><td>%s <small>e</small></td>",
             format_share(a, summary->utilization_ppm));
    text_add(page, "<td>%s <small>c</small></td><td>-</td></tr>\n",
             format_share(a, summary->static_utilization_ppm));
    (void)snprintf(a, sizeof a, "%.1f", (double)summary->mean_ncu_milli / 1e3); /* fits */
    add_row(page, "mean NCU held", a, a, "-");
    (void)snprintf(a, sizeof a, "%" PRIu64, summary->churn.losses_total); /* fits */
    (void)snprintf(b, sizeof b, "%.4f", summary->audit.loss_last);        /* fits */
    (void)snprintf(c, sizeof c, "%.4f", record->control.loss_last);       /* fits */
    add_row(page, "machines lost", a, "0", "0");
    add_row(page, "loss of the last step", b, "-", c);
    text_add(page,
             "</table></div>\n<p><small>SHA-256 of weights and optimizer "
             "state</small><br><code>%s</code> "
             "swarm<br><code>%s</code> one worker</p></section>\n",
             record->swarm.weights_sha256, record->control.weights_sha256);
}

static void add_story(const struct record *record, struct text *page)
{
    size_t i;
    json_t *row;
    text_add(page, "<section><details><summary>Every decision, with its reason</summary>\n"
                   "<div class=\"wide\"><table class=\"story\"><tr><th>time</th><th></th><th></th>"
                   "</tr>\n");
    json_array_foreach(record->decisions, i, row)
    {
        double seconds = record_seconds(record, row_int(row, "t"));
        text_add(page, "<tr><td>%.1f s</td><td>%s</td><td>", seconds, row_text(row, "kind"));
        text_add_html(page, row_text(row, "model"));
        text_add(page, " ");
        text_add_html(page, row_text(row, "zone"));
        text_add(page, " <small>");
        text_add_html(page, row_text(row, "text"));
        text_add(page, "</small></td></tr>\n");
    }
    text_add(page, "</table></div></details></section>\n");
}

static const char foot[] =
    "<footer><b>What is real here.</b> The scheduler and its journal, the server that was killed, "
    "one agent and one worker process per machine, kill -9 for a machine that vanishes, the "
    "training, the checkpoints, the ledger. <b>What is emulated.</b> Three clouds with their "
    "zones, "
    "stock and prices, the device models and their relative speeds: all of it runs on this one "
    "machine, and each slot is stretched to the time its device model would take."
    "</footer>\n</main></body></html>\n";

void report_text(const struct record *record, const struct summary *summary, struct text *ret_page)
{
    add_head(record, summary, ret_page);
    add_tiles(record, summary, ret_page);
    add_charts(record, summary, ret_page);
    add_table(record, summary, ret_page);
    add_story(record, ret_page);
    text_add(ret_page, "%s", foot);
}

bool report_write(const struct record *record, const struct summary *summary, const char *path,
                  struct error *ret_error)
{
    struct text page = {0};
    report_text(record, summary, &page);
    bool ok = page.failed ? error_set(ret_error, "no memory for %s", path)
                          : io_write_file(path, page.bytes, page.count, 0644, ret_error);
    text_free(&page);
    return ok;
}
