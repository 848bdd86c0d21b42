/* The demo: one training run on an emulated spot market, told as it happens, then checked.
 *
 *     build/examples/demo/demo [--data FILE] [--fast]
 *
 * The story  promise, market, swarm (with losses, drains, joins and a killed server), the same run
 *            on one worker, comparison, figures, report. Every part is a function below, in this
 *            order.
 * Ending     However it ends, nothing that it started is left running.
 */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/launch.h"
#include "demo/children.h"
#include "demo/control.h"
#include "demo/report.h"
#include "demo/show.h"
#include "demo/stage.h"
#include "demo/watch.h"
#include <curl/curl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MARKET_US  INT64_C(4000000)  /* how long the market is shown before the job */
#define FILL_US    INT64_C(40000000) /* the pool must be filling by then */
#define RELEASE_US INT64_C(20000000) /* machines are let go within this after the job */
enum {
    LOOK_MS = 250,
    START_TIMEOUT_MS = 20000,
    FULL_STEPS = 200,
    FAST_STEPS = 40,
    SLOTS = 32,
    SAMPLES_PER_SLOT = 4, /* the trainer's --batch */
    CHECKPOINT_EVERY = 20,
    DEVICES_MIN = 4,
    DEVICES_MAX = 12,
    JOB_BYTES_MAX = 65536,
};

struct demo {
    struct stage stage;
    struct stage_options options;
    struct term term;
    struct record record;
    struct watch watch;
    struct client *client;
    pid_t server;
    bool is_fast;
    int64_t began_us;
};

static const char usage[] =
    "usage: ./do demo [--data FILE] [--fast]\n"
    "Trains a small language model on an emulated spot market, through losses of machines, and\n"
    "compares the result with an undisturbed run. Results: out/demo/report.html, summary.json.\n\n"
    "  --data FILE  train on this text instead of the King James Bible\n"
    "  --fast       fewer steps; does not ask for a rough market\n\n"
    "example: ./do demo --data mytext.txt\n";

/* CLI_GO_ON, or the exit status. */
static int read_arguments(int argc, char **argv, struct demo *demo)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            printf("%s", usage);
            return 0;
        }
        if (strcmp(argv[i], "--fast") == 0) {
            demo->is_fast = true;
        } else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc) {
            demo->options.text = argv[++i];
        } else {
            fprintf(stderr, "demo: what is \"%s\"?\n%s", argv[i], usage);
            return 2;
        }
    }
    demo->options.steps = demo->is_fast ? FAST_STEPS : FULL_STEPS;
    demo->options.slots = SLOTS;
    demo->options.checkpoint_every = CHECKPOINT_EVERY;
    demo->options.devices_min = DEVICES_MIN;
    demo->options.devices_max = DEVICES_MAX;
    return -1;
}

static bool start_server(struct demo *demo, struct error *ret_error)
{
    return launch_server(demo->stage.shoal, demo->stage.config, demo->stage.data, START_TIMEOUT_MS,
                         &demo->server, ret_error);
}

static bool open_client(struct demo *demo, struct error *ret_error)
{
    struct client_options options = {.data = demo->stage.data};
    char url[64];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u", demo->stage.port); /* fits */
    options.server = url; /* the same after the restart, whatever the environment says */
    (void)unsetenv("SHOAL_TOKEN_FILE"); /* a valid name: cannot fail */
    demo->client = client_open(&options, ret_error);
    return demo->client != NULL;
}

static void show_block(struct demo *demo, struct live *live, const json_t *nodes,
                       const json_t *offers)
{
    struct text block = {0};
    show_pool(nodes, offers, &demo->term, &block);
    live_show(live, text_get(&block));
    text_free(&block);
}

static json_t *fetch_list(struct demo *demo, const char *path, const char *list,
                          struct error *ret_error)
{
    json_t *answer = client_get(demo->client, path, ret_error);
    json_t *rows = json_incref(json_object_get(answer, list));
    json_decref(answer);
    return rows;
}

static bool take_offers(struct demo *demo, struct error *ret_error)
{
    json_t *offers = fetch_list(demo, "/v1/offers", "offers", ret_error);
    if (offers == NULL) return false;
    json_decref(demo->record.offers);
    demo->record.offers = offers;
    record_index(&demo->record);
    return true;
}

/* Offers of the three clouds, prices moving, before anything is bought. */
static bool tell_market(struct demo *demo, struct error *ret_error)
{
    struct live live = {.term = &demo->term};
    int64_t until_us = clock_monotonic_us() + MARKET_US;
    bool ok = true;
    show_chapter(&demo->term, "The market");
    while (ok && clock_monotonic_us() < until_us && !children_must_stop()) {
        ok = take_offers(demo, ret_error);
        if (ok && demo->term.is_terminal) show_block(demo, &live, NULL, demo->record.offers);
        children_pause_ms(LOOK_MS);
    }
    if (ok && !demo->term.is_terminal) show_block(demo, &live, NULL, demo->record.offers);
    live_end(&live);
    return ok;
}

static bool submit(struct demo *demo, struct error *ret_error)
{
    char *yaml;
    size_t bytes;
    if (!io_read_file(demo->stage.job, JOB_BYTES_MAX, &yaml, &bytes, ret_error)) return false;
    json_t *answer = client_post(demo->client, "/v1/jobs", "application/yaml", yaml, ret_error);
    mem_free(yaml);
    if (answer == NULL) return false;
    demo->watch.job = row_int(answer, "job");
    demo->record.submitted_us = clock_wall_us();
    json_decref(answer);
    return true;
}

static void show_pool_now(struct demo *demo, struct live *live)
{
    json_t *nodes = fetch_list(demo, "/v1/nodes", "nodes", NULL);
    show_block(demo, live, nodes, NULL);
    json_decref(nodes);
}

/* The pool fills up: a table that grows until the first steps are done. */
static bool tell_filling(struct demo *demo, struct error *ret_error)
{
    struct live *live = &demo->watch.live; /* events are printed above the table */
    int64_t until_us = clock_monotonic_us() + FILL_US;
    show_chapter(&demo->term, "The pool fills up");
    while (watch_steps_done(&demo->watch) < 2 && !children_must_stop()) {
        if (!watch_look(&demo->watch, ret_error)) return false;
        if (demo->term.is_terminal) show_pool_now(demo, live);
        if (clock_monotonic_us() > until_us)
            return error_set(ret_error,
                             "no training step within %d s; see out/demo/data/server.log",
                             (int)(FILL_US / 1000000));
        children_pause_ms(LOOK_MS);
    }
    if (!demo->term.is_terminal) show_pool_now(demo, live);
    live_end(live);
    return true;
}

/* kill -9 of the server and a new one on the same data: the machines must not notice. */
static bool restart_server(struct demo *demo, struct error *ret_error)
{
    char line[128];
    int64_t killed_us = clock_monotonic_us();
    watch_tell(&demo->watch, "kill -9 of the server itself; the machines go on training");
    if (demo->record.restart_count < RECORD_RESTARTS_MAX)
        demo->record.restarts_us[demo->record.restart_count++] = clock_wall_us();
    (void)kill(demo->server, SIGKILL);    /* ours, and not waited for yet */
    (void)waitpid(demo->server, NULL, 0); /* its child: ends at once */
    if (!start_server(demo, ret_error)) return error_prefix(ret_error, "the server's restart");
    (void)snprintf(line, sizeof line, "the server is back after %.2f s, from its journal",
                   (double)(clock_monotonic_us() - killed_us) / 1e6); /* fits */
    watch_tell(&demo->watch, line);
    return true;
}

static bool tell_training(struct demo *demo, struct error *ret_error)
{
    json_int_t restart_at = (json_int_t)(demo->options.steps * 3 / 10);
    show_chapter(&demo->term, "Training, while the market takes machines away");
    demo->watch.tells_orders = true;
    while (!watch_is_done(&demo->watch) && !children_must_stop()) {
        if (!watch_look(&demo->watch, ret_error)) return false;
        watch_show(&demo->watch);
        if (demo->record.restart_count == 0 && watch_steps_done(&demo->watch) >= restart_at &&
            !restart_server(demo, ret_error))
            return false;
        children_pause_ms(LOOK_MS);
    }
    live_end(&demo->watch.live);
    return true;
}

static bool tell_swarm(struct demo *demo, struct error *ret_error)
{
    return watch_open(&demo->watch, demo->client, &demo->record, &demo->term, ret_error) &&
           tell_market(demo, ret_error) && submit(demo, ret_error) &&
           tell_filling(demo, ret_error) && tell_training(demo, ret_error);
}

static bool tell_control(struct demo *demo, struct error *ret_error)
{
    if (children_must_stop()) return true;
    show_chapter(&demo->term, "The same run on one worker that nobody disturbs");
    return control_run(&demo->stage, &demo->options, &demo->term, &demo->record.control, ret_error);
}

/* Until every machine is let go: then the ledger is complete. */
static bool wait_for_release(struct demo *demo, struct error *ret_error)
{
    int64_t until_us = clock_monotonic_us() + RELEASE_US;
    size_t count = 1;
    while (count > 0 && !children_must_stop()) {
        json_t *nodes = fetch_list(demo, "/v1/nodes", "nodes", ret_error);
        if (nodes == NULL) return false;
        count = json_array_size(nodes);
        json_decref(nodes);
        if (clock_monotonic_us() > until_us)
            return error_set(ret_error, "%zu machines are still held after the job", count);
        if (count > 0) children_pause_ms(LOOK_MS);
    }
    return true;
}

/* The emulated clouds' own record tells what a killed worker was doing. */
static void count_reduction_losses(struct demo *demo)
{
    char path[STAGE_PATH_BYTES + 32], line[2048];
    (void)snprintf(path, sizeof path, "%s/local/history.jsonl", demo->stage.data); /* fits */
    FILE *file = fopen(path, "re");
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *row = json_loads(line, 0, NULL);
        demo->record.losses_during_reduction += strcmp(row_text(row, "what"), "gone") == 0 &&
                                                strcmp(row_text(row, "page"), "reduce") == 0;
        json_decref(row);
    }
    (void)fclose(file); /* only read */
}

/* The hash that the workers of the last step printed; all must be the same. */
static bool read_swarm_state(struct demo *demo, struct error *ret_error)
{
    char path[96], hash[RECORD_SHA_BYTES];
    struct record_state *state = &demo->record.swarm;
    (void)snprintf(path, sizeof path, "/v1/jobs/%" JSON_INTEGER_FORMAT "/logs?limit=10000",
                   demo->watch.job); /* fits */
    json_t *lines = fetch_list(demo, path, "lines", ret_error);
    bool same = lines != NULL;
    size_t i;
    json_t *row;
    json_array_foreach(lines, i, row)
    {
        if (!control_read_hash(row_text(row, "line"), hash)) continue;
        if (state->weights_sha256[0] == '\0') memcpy(state->weights_sha256, hash, sizeof hash);
        same = same && strcmp(state->weights_sha256, hash) == 0;
    }
    json_decref(lines);
    if (lines == NULL) return false;
    if (state->weights_sha256[0] == '\0')
        return error_set(ret_error, "no worker of the swarm printed its hash");
    return same ? true : error_set(ret_error, "the workers of the swarm differ in their weights");
}

static bool read_checkpoints(struct demo *demo, struct error *ret_error)
{
    char folder[STAGE_PATH_BYTES + 48];
    (void)snprintf(folder, sizeof folder, "%s/checkpoints/%" JSON_INTEGER_FORMAT, demo->stage.data,
                   demo->watch.job); /* fits */
    return control_hash_checkpoint(&demo->stage, folder, &demo->record.swarm, ret_error) &&
           control_hash_checkpoint(&demo->stage, demo->stage.control, &demo->record.control,
                                   ret_error);
}

/* true: all is as promised. */
static bool tell_verdict(struct demo *demo, const struct summary *summary)
{
    const struct term *term = &demo->term;
    const struct record *record = &demo->record;
    struct text faults = {0};
    uint32_t count = audit_tell_faults(&summary->audit, &record->options, &faults);
    if (!demo->is_fast) count += audit_tell_calm(&summary->churn, &faults);
    bool same = record_is_same(record);
    fprintf(term->stream,
            "\nSHA-256 of weights, in memory and back from the checkpoint; with optimizer moments\n"
            "  swarm       %s\n              %s\n              %s\n"
            "  one worker  %s\n              %s\n              %s\n",
            record->swarm.weights_sha256, record->swarm.checkpoint_sha256,
            record->swarm.moments_sha256, record->control.weights_sha256,
            record->control.checkpoint_sha256, record->control.moments_sha256);
    if (same)
        fprintf(term->stream, "%s✓ identical to the last bit%s\n", term_style(term, TERM_GREEN),
                term_style(term, TERM_PLAIN));
    else
        text_add(&faults, "the weights of the swarm and of the single worker differ\n");
    if (!same || count > 0)
        fprintf(term->stream, "%sThe demo failed:%s\n%s", term_style(term, TERM_RED),
                term_style(term, TERM_PLAIN), text_get(&faults));
    text_free(&faults);
    return same && count == 0;
}

static bool tell_end(struct demo *demo, struct error *ret_error)
{
    if (children_must_stop()) return true;
    if (!wait_for_release(demo, ret_error) || !watch_collect(&demo->watch, ret_error)) return false;
    count_reduction_losses(demo);
    demo->record.slot_us_at_1_ncu = demo->stage.slot_us;
    if (!read_swarm_state(demo, ret_error) || !read_checkpoints(demo, ret_error)) return false;
    struct summary summary = summary_of(&demo->record, clock_monotonic_us() - demo->began_us);
    show_chapter(&demo->term, "What it took");
    if (!show_summary(&demo->record, &summary, &demo->term, ret_error)) return false;
    bool ok = tell_verdict(demo, &summary);
    if (!report_write(&demo->record, &summary, demo->stage.report, ret_error) ||
        !summary_write(&demo->record, &summary, demo->stage.summary, ret_error))
        return false;
    fprintf(demo->term.stream, "\nreport: out/demo/report.html   figures: out/demo/summary.json\n");
    return ok ? true : error_set(ret_error, "the run is not what was promised; see above");
}

static bool play(struct demo *demo, struct error *ret_error)
{
    show_promise(&demo->term);
    return stage_set(&demo->stage, &demo->options, ret_error) && start_server(demo, ret_error) &&
           open_client(demo, ret_error) && tell_swarm(demo, ret_error) &&
           tell_control(demo, ret_error) && tell_end(demo, ret_error);
}

static int finish(struct demo *demo, bool ok, const struct error *error)
{
    watch_close(&demo->watch);
    bool was_stopped = children_must_stop();
    (void)fflush(stdout); /* what was told comes before what went wrong */
    if (was_stopped) fprintf(stderr, "\nstopping everything ...\n");
    children_end_all();
    client_close(demo->client);
    record_free(&demo->record);
    stage_close(&demo->stage);
    if (was_stopped) return 130;
    if (!ok) fprintf(stderr, "demo: %s\n", error->text);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct demo demo = {.stage.lock_fd = -1, .began_us = clock_monotonic_us()};
    struct error error = {0};
    int code = read_arguments(argc, argv, &demo);
    if (code >= 0) return code;
    demo.term = term_open(stdout);
    if (!stage_open(&demo.stage, &error)) {
        fprintf(stderr, "demo: %s\n", error.text);
        stage_close(&demo.stage);
        return 1;
    }
    json_set_alloc_funcs(mem_alloc, mem_free);
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* client_open() tells if it did not work */
    children_adopt();
    demo.record.options =
        (struct audit_options){demo.options.steps, demo.options.slots, SAMPLES_PER_SLOT};
    demo.record.price_threshold = STAGE_PRICE_THRESHOLD;
    bool ok = play(&demo, &error);
    return finish(&demo, ok, &error);
}
