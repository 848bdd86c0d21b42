#include "demo/show.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/market_show.h"
#include "cli/table.h"
#include <inttypes.h>
#include <string.h>

enum { CHAPTER_COLUMNS = 78, SOON_US = 100000 };

void show_promise(const struct term *term)
{
    const char *bold = term_style(term, TERM_BOLD), *plain = term_style(term, TERM_PLAIN);
    fprintf(
        term->stream,
        "%sShoal demo%s: one training run on machines that a market takes away.\n\n"
        "%sEmulated on this machine%s  three clouds with zones, stock and prices; the GPU models\n"
        "                          and their relative speeds (every slot is stretched to the\n"
        "                          time its model would take).\n"
        "%sReal%s                      scheduler and journal, one agent and one worker process "
        "per\n"
        "                          machine, preemptions (kill -9), the training, checkpoints,\n"
        "                          the ledger.\n",
        bold, plain, bold, plain, bold, plain);
}

void show_chapter(const struct term *term, const char *title)
{
    uint32_t used = term_columns(title) + 4;
    fprintf(term->stream, "\n%s── %s ", term_style(term, TERM_BOLD), title);
    for (; used < CHAPTER_COLUMNS; used++) fputs("─", term->stream);
    fprintf(term->stream, "%s\n", term_style(term, TERM_PLAIN));
    (void)fflush(term->stream); /* output that nobody reads is no fault of ours */
}

/* What a node is doing, in one word. */
static const char *doing_of(const json_t *node)
{
    const json_t *lease = json_array_get(json_object_get(node, "leases"), 0);
    const char *doing = row_text(lease, "doing");
    if (row_text(node, "drain_reason")[0] != '\0') return "leaving";
    if (doing[0] != '\0') return doing;
    return lease == NULL ? "" : row_text(lease, "phase");
}

static enum term_style style_of_state(const char *state)
{
    if (strcmp(state, "ready") == 0) return TERM_GREEN;
    if (strcmp(state, "ordered") == 0 || strcmp(state, "booting") == 0) return TERM_YELLOW;
    return TERM_RED;
}

static struct table *nodes_table(const json_t *nodes)
{
    static const struct table_column columns[] = {
        {"machine", TABLE_LEFT}, {"zone", TABLE_LEFT},  {"kind", TABLE_LEFT},
        {"$/h", TABLE_RIGHT},    {"state", TABLE_LEFT}, {"doing", TABLE_LEFT},
    };
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    char text[FORMAT_BYTES];
    size_t i;
    json_t *row;
    json_array_foreach(nodes, i, row)
    {
        table_row_style(table, style_of_state(row_text(row, "state")));
        table_cell(table, "%s", row_text(row, "model"));
        table_cell(table, "%s", row_text(row, "zone"));
        table_cell(table, "%s", row_text(row, "capacity"));
        table_cell(table, "%s", format_usd(text, row_int(row, "usd_micros_per_hour"), 2));
        table_cell(table, "%s", row_text(row, "state"));
        table_cell(table, "%s", doing_of(row));
    }
    return table;
}

static void add_text(struct text *block, char *text)
{
    if (text == NULL)
        block->failed = true;
    else
        text_add(block, "%s", text);
    mem_free(text);
}

static void add_table(struct text *block, struct table *table, const struct term *term)
{
    add_text(block, table_text(table, term));
    table_close(table);
}

void show_pool(const json_t *nodes, const json_t *offers, const struct term *term,
               struct text *ret_block)
{
    if (offers != NULL) {
        text_add(ret_block, "%sMarket%s (emulated)\n", term_style(term, TERM_BOLD),
                 term_style(term, TERM_PLAIN));
        add_text(ret_block, market_text(offers, clock_wall_us(), term));
        return;
    }
    text_add(ret_block, "%sPool%s %zu machines\n", term_style(term, TERM_BOLD),
             term_style(term, TERM_PLAIN), json_array_size(nodes));
    if (json_array_size(nodes) > 0) add_table(ret_block, nodes_table(nodes), term);
}

/* " · 11 workers: 2 H100, 5 A100-40GB, 4 A10" */
static void add_workers(const json_t *last, const struct record *record, struct text *line)
{
    uint32_t counts[RECORD_MODELS_MAX + 1] = {0};
    size_t i;
    json_t *worker;
    json_array_foreach(json_object_get(last, "workers"), i, worker)
        counts[record_model_of(record, row_text(worker, "model"))]++;
    text_add(line, " · %zu workers", json_array_size(json_object_get(last, "workers")));
    const char *before = " (";
    for (uint32_t model = 0; model < record->model_count; model++) {
        if (counts[model] == 0) continue;
        text_add(line, "%s%u %s", before, counts[model], record->models[model].name);
        before = ", ";
    }
    if (before[0] == ',') text_add(line, ")");
}

void show_progress_line(const struct show_progress *progress, const struct record *record,
                        struct text *ret_line)
{
    char text[FORMAT_BYTES];
    const json_t *job = progress->job;
    json_int_t done = progress->last == NULL ? 0 : row_int(progress->last, "step") + 1;
    bool is_over = row_int(job, "ended_us") > 0; /* nobody works and nothing is paid any more */
    text_add(ret_line, "step %" JSON_INTEGER_FORMAT "/%" PRIu64, done, record->options.steps);
    if (progress->last != NULL) {
        text_add(ret_line, " · loss %.3f", row_real(progress->last, "loss"));
        if (progress->tokens_per_s > 0 && !is_over)
            text_add(ret_line, " · %s tokens/s",
                     format_count(text, (int64_t)progress->tokens_per_s));
        if (!is_over) add_workers(progress->last, record, ret_line);
    }
    if (!is_over)
        text_add(ret_line, " · %s/h", format_usd(text, row_int(job, "usd_micros_per_hour"), 2));
    text_add(ret_line, " · spent %s", format_usd(text, row_int(job, "usd_micros"), 3));
    if (progress->left_us >= 0 && !is_over)
        text_add(ret_line, " · %s left", format_duration(text, progress->left_us));
    if (progress->is_away) text_add(ret_line, " · server away");
}

static void add_time(struct text *line, double seconds)
{
    int whole = seconds > 0 ? (int)seconds : 0;
    text_add(line, "  %2d:%02d  ", whole / 60, whole % 60);
}

/* Labels are eight columns wide, so that what follows them lines up. */
static void add_label(struct text *line, const struct term *term, enum term_style style,
                      const char *label)
{
    text_add(line, "%s%s%s  ", term_style(term, style), label, term_style(term, TERM_PLAIN));
}

static void add_machine(struct text *line, const json_t *decision)
{
    text_add(line, "%s in %s", row_text(decision, "model"), row_text(decision, "zone"));
}

static void add_drain(struct text *line, const json_t *decision, const struct term *term)
{
    char price[FORMAT_BYTES], threshold[FORMAT_BYTES];
    bool is_price = audit_is_price_drain(decision), has_notice = audit_has_notice(decision);
    bool is_cheaper = strcmp(row_text(decision, "reason"), "CHEAPEST") == 0;
    add_label(line, term, TERM_YELLOW,
              is_price     ? "▼ price "
              : has_notice ? "▼ notice"
                           : "▼ drain ");
    add_machine(line, decision);
    if (is_price)
        text_add(line, " costs %s/h, threshold %s/h", format_usd(price, row_int(decision, "a"), 2),
                 format_usd(threshold, row_int(decision, "b"), 2));
    else if (has_notice && row_int(decision, "a") < SOON_US)
        text_add(line, " is being taken");
    else if (has_notice)
        text_add(line, " will be taken in %s", format_duration(price, row_int(decision, "a")));
    else if (is_cheaper)
        text_add(line, " gives way to spot at %s/h", format_usd(price, row_int(decision, "a"), 2));
    else
        text_add(line, ": %s", row_text(decision, "text"));
}

static void add_loss(struct text *line, const json_t *decision, const struct term *term)
{
    add_label(line, term, TERM_RED, "✕ lost  ");
    add_machine(line, decision);
    if (audit_has_notice(decision))
        text_add(line, ", after its notice");
    else if (strcmp(row_text(decision, "reason"), "PREEMPTED") == 0)
        text_add(line, ", without notice (kill -9)");
    else
        text_add(line, ": %s", row_text(decision, "text"));
}

static void add_order(struct text *line, const json_t *decision, const struct term *term)
{
    char price[FORMAT_BYTES];
    bool is_fallback = strcmp(row_text(decision, "reason"), "FALLBACK") == 0;
    add_label(line, term, TERM_BLUE, "○ order ");
    add_machine(line, decision);
    text_add(line, " for %s/h%s", format_usd(price, row_int(decision, "a"), 2),
             is_fallback ? ", on demand: no spot" : "");
}

bool show_decision(const json_t *decision, const struct record *record, const struct term *term,
                   struct text *ret_line)
{
    const char *kind = row_text(decision, "kind");
    bool is_loss = strcmp(kind, "lost") == 0, is_drain = strcmp(kind, "drain") == 0;
    bool is_order = strcmp(kind, "buy") == 0, is_end = strcmp(kind, "finish") == 0;
    if (!is_loss && !is_drain && !is_order && !is_end) return false;
    if (strcmp(row_text(decision, "reason"), "JOB_ENDED") == 0) return false;
    add_time(ret_line, record_seconds(record, row_int(decision, "t")));
    if (is_loss) add_loss(ret_line, decision, term);
    if (is_drain) add_drain(ret_line, decision, term);
    if (is_order) add_order(ret_line, decision, term);
    if (is_end) add_label(ret_line, term, TERM_GREEN, "✓ done  ");
    if (is_end) text_add(ret_line, "%s", row_text(decision, "text"));
    return true;
}

void show_join(const json_t *worker, double seconds, const struct term *term, struct text *ret_line)
{
    add_time(ret_line, seconds);
    add_label(ret_line, term, TERM_GREEN, "+ joined");
    text_add(ret_line, "worker %" JSON_INTEGER_FORMAT " on %s", row_short(worker, "worker"),
             row_text(worker, "model"));
}

static void add_figure(struct table *table, const char *what, const char *swarm, const char *fixed,
                       const char *note)
{
    table_cell(table, "%s", what);
    table_cell(table, "%s", swarm);
    table_cell(table, "%s", fixed);
    table_cell(table, "%s", note);
}

/* What the run can be held to, in lines that fit 80 columns. */
static void show_facts(const struct record *record, const struct summary *summary,
                       const struct term *term)
{
    const struct audit *audit = &summary->audit;
    const struct churn *churn = &summary->churn;
    fprintf(term->stream,
            "\nsteps    %" PRIu64 ", lost %" PRIu64 "; loss %.3f → %.3f\nsamples  %" PRIu64
            " of %" PRIu64 " used exactly once\n",
            record->options.steps, audit->steps_lost, audit->loss_first, audit->loss_last,
            audit->samples_used_once, audit->samples_expected);
    fprintf(term->stream,
            "losses   %" PRIu64 ": %" PRIu64 " without notice, %" PRIu64
            " in the middle of a reduction\nchanges  %" PRIu64 " drained for their price, %" PRIu64
            " joined while it ran; server restarts: %" PRIu64 "\n",
            churn->losses_total, churn->losses_without_notice, churn->losses_during_reduction,
            churn->drains_for_price, churn->joins, churn->server_restarts);
}

bool show_summary(const struct record *record, const struct summary *summary,
                  const struct term *term, struct error *ret_error)
{
    static const struct table_column columns[] = {
        {"", TABLE_LEFT},
        {"swarm", TABLE_RIGHT},
        {"static on-demand", TABLE_RIGHT},
        {"", TABLE_LEFT},
    };
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    char a[FORMAT_BYTES], b[FORMAT_BYTES];
    add_figure(table, "time of the job", format_duration(a, summary->swarm_wall_us),
               format_duration(b, summary->static_wall_us), "measured; computed");
    add_figure(table, "cost", format_usd(a, summary->cost_usd_micros, 4),
               format_usd(b, summary->static_cost_usd_micros, 4), "emulated prices; computed");
    add_figure(table, "utilization", format_share(a, summary->utilization_ppm),
               format_share(b, summary->static_utilization_ppm), "emulated speeds; computed");
    (void)snprintf(a, sizeof a, "%.1f", (double)summary->mean_ncu_milli / 1e3); /* fits */
    add_figure(table, "mean NCU", a, a, "emulated; the same on purpose");
    (void)snprintf(a, sizeof a, "%" PRIu64, summary->churn.losses_total); /* fits */
    add_figure(table, "machines lost", a, "0", "real processes; assumed");
    bool ok = table_print(table, term, ret_error);
    table_close(table);
    if (!ok) return false;
    fprintf(term->stream,
            "\nThe static cluster is computed: as many NCU of the same mix of models, each at\n"
            "the lowest on-demand price, at the swarm's median time of a step, undisturbed.\n");
    show_facts(record, summary, term);
    return true;
}
