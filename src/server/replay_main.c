/* shoal replay: the journal of a data folder once more, beside what was recorded. */
#include "base/number.h"
#include "base/mem.h"
#include "codec/json.h"
#include "codec/names.h"
#include "codec/utc.h"
#include "server/replay.h"
#include "server/rerun_main.h"
#include "server/server.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE_BYTES = 256, PATH_BYTES = 4096 };

static const char usage[] =
    "usage: shoal replay [--data DIR] [--from T] [--to T] [--json]\n"
    "       shoal replay [--policy P] [--price F] [--pool FILE] [--seeds N] [--from T] [--to T]\n"
    "\n"
    "Steps the journal of a server once more and compares every decision and ledger entry with\n"
    "what was recorded. Reads from the oldest snapshot on and writes nothing; the server may run.\n"
    "Exit status 0: all as recorded; 1: differences, or a journal that cannot be read.\n"
    "\n"
    "With --policy, --price or --pool: what would have happened, job by job, beside what did. Prices\n"
    "and arrivals are the recorded ones; how long a node that was not bought would have lived is\n"
    "modelled, in many worlds.\n"
    "\n"
    "flags:\n"
    "  --data DIR         the data folder of the server (default: shoal-data)\n"
    "  --from T, --to T   an event's number or a time in UTC (2026-11-30T17:00); a replay steps what\n"
    "                     lies before, and does not compare it\n"
    "  --policy P         as_recorded, on_demand (jobs do without spot), spot (without on-demand), own\n"
    "                     (without both); table, greedy, uniform-progress, on-demand (buying for deadlines)\n"
    "  --price F          all prices times F; spot=F or on_demand=F; or a file of prices, as shoal\n"
    "                     market record writes it\n"
    "  --pool FILE        pools, classes, tenants and timing of this shoal.yaml\n"
    "  --seeds N          how many worlds are modelled (default 20)\n"
    "  --json             one JSON object\n"
    "\n"
    "example:\n"
    "  shoal replay --data shoal-data\n"
    "  shoal replay --policy on_demand --price 1.2\n";

struct wanted {
    const char *data;
    struct replay_options options;
    struct rerun_words rerun;
    bool json, help;
};

/* An event, or a time. */
static bool read_moment(const char *text, uint64_t *ret_seq, int64_t *ret_us)
{
    return number_read(text, 1, UINT64_MAX, ret_seq) || (strchr(text, '-') != NULL && utc_parse(text, ret_us));
}

static bool read_seeds(const char *text, uint64_t *ret_seeds)
{
    return number_read(text, 1, RERUN_SEEDS_MAX, ret_seeds);
}

/* A flag with a value. false: there is no such flag, or its value is none. */
static bool read_value(const char *flag, const char *value, struct wanted *ret)
{
    struct facts_options *stretch = &ret->rerun.stretch;
    if (strcmp(flag, "--data") == 0) ret->data = value;
    else if (strcmp(flag, "--policy") == 0) ret->rerun.policy = value;
    else if (strcmp(flag, "--price") == 0) ret->rerun.price = value;
    else if (strcmp(flag, "--pool") == 0) ret->rerun.pool = value;
    else if (strcmp(flag, "--seeds") == 0) return read_seeds(value, &ret->rerun.seeds);
    else if (strcmp(flag, "--from") == 0)
        return read_moment(value, &stretch->from_seq, &stretch->from_us);
    else if (strcmp(flag, "--to") == 0)
        return read_moment(value, &stretch->to_seq, &stretch->to_us);
    else return false;
    return true;
}

static bool read_words(int argc, char **argv, struct wanted *ret)
{
    *ret = (struct wanted){.data = "shoal-data",
                           .rerun = {.seeds = RERUN_SEEDS_DEFAULT,
                                     .stretch = {.from_us = INT64_MIN, .to_us = INT64_MAX}}};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            ret->help = true;
        else if (strcmp(argv[i], "--json") == 0)
            ret->json = ret->rerun.json = true;
        else if (i + 1 < argc && read_value(argv[i], argv[i + 1], ret))
            i++;
        else {
            fprintf(stderr,
                    "shoal replay: \"%s\" is not an option, or its value is missing or wrong; see "
                    "shoal replay --help\n",
                    argv[i]);
            return false;
        }
    }
    ret->options = (struct replay_options){.last_seq = ret->rerun.stretch.to_seq,
                                           .first_seq = ret->rerun.stretch.from_seq,
                                           .from_us = ret->rerun.stretch.from_us,
                                           .to_us = ret->rerun.stretch.to_us};
    return true;
}

static const char *decision_text(const struct pool_decision *d, char text[SENTENCE_BYTES])
{
    char sentence[SENTENCE_BYTES / 2];
    if (d->kind == 0) return "nothing";
    (void)snprintf(text, SENTENCE_BYTES,
                   "%s job %" PRIu64 " node %" PRIu64 ": %s", /* cut is fine */
                   name_decision_kind(d->kind), d->job_id, d->node_key,
                   reason_format(d->reason, d->a, d->b, d->c, sentence, sizeof sentence));
    return text;
}

static const char *fault_text(enum replay_fault fault)
{
    static const char *const faults[] = {[REPLAY_OTHER] = "differs from what was recorded",
                                         [REPLAY_NOT_SAID] = "was recorded, and is not said now",
                                         [REPLAY_NOT_RECORDED] =
                                             "is said now, and was not recorded"};
    return faults[fault];
}

static void print_difference(const struct replay_difference *d)
{
    char text[SENTENCE_BYTES];
    printf("event %" PRIu64 ": %s %s\n", d->id >> 16, d->is_entry ? "a ledger entry" : "a decision",
           fault_text(d->fault));
    if (d->is_entry) return;
    printf("  recorded: %s\n", decision_text(&d->recorded, text));
    printf("  said now: %s\n", decision_text(&d->said, text));
}

static void print_count(const char *what, const struct replay_count *count)
{
    printf("%" PRIu64 " %s: %" PRIu64 " as recorded, %" PRIu64 " not recorded yet, %" PRIu64
           " different\n",
           count->said, what, count->same, count->unrecorded, count->differences);
}

static void print(const struct replay_result *r)
{
    char money[NAMES_NUMBER_BYTES];
    if (r->last_seq < r->first_seq) {
        printf("no events after %" PRIu64 "\n", r->first_seq - 1);
        return;
    }
    printf("events %" PRIu64 " to %" PRIu64 ", %.1f h, %s spent\n", r->first_seq, r->last_seq,
           (double)(r->to_us - r->from_us) / 3.6e9, money_format(r->usd_micros, money));
    print_count("decisions", &r->decisions);
    print_count("ledger entries", &r->entries);
    for (uint32_t i = 0; i < r->kept; i++) print_difference(&r->kept_differences[i]);
}

static json_t *count_json(const struct replay_count *count)
{
    bool failed = false;
    json_t *object = json_object();
    json_set_u64(object, "said", count->said, &failed);
    json_set_u64(object, "same", count->same, &failed);
    json_set_u64(object, "unrecorded", count->unrecorded, &failed);
    json_set_u64(object, "differences", count->differences, &failed);
    return json_finish(object, failed);
}

static json_t *difference_json(const struct replay_difference *d)
{
    bool failed = false;
    char text[SENTENCE_BYTES];
    json_t *object = json_object();
    json_set_u64(object, "event", d->id >> 16, &failed);
    json_set_text(object, "of", d->is_entry ? "entry" : "decision", &failed);
    json_set_text(object, "text", fault_text(d->fault), &failed);
    if (!d->is_entry) {
        json_set_text(object, "recorded", decision_text(&d->recorded, text), &failed);
        json_set_text(object, "said", decision_text(&d->said, text), &failed);
    }
    return json_finish(object, failed);
}

static json_t *differences_json(const struct replay_result *r)
{
    bool failed = false;
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->kept; i++)
        json_append(list, difference_json(&r->kept_differences[i]), &failed);
    return json_finish(list, failed);
}

static bool print_json(const struct replay_result *r)
{
    bool failed = false;
    char digest[20];
    json_t *object = json_object();
    (void)snprintf(digest, sizeof digest, "%016" PRIx64, r->digest); /* fits */
    json_set_u64(object, "first_event", r->first_seq, &failed);
    json_set_u64(object, "last_event", r->last_seq, &failed);
    json_set_i64(object, "from_us", r->from_us, &failed);
    json_set_i64(object, "to_us", r->to_us, &failed);
    json_set_i64(object, "usd_micros", r->usd_micros, &failed);
    json_set_text(object, "digest", digest, &failed);
    json_set(object, "decisions", count_json(&r->decisions), &failed);
    json_set(object, "entries", count_json(&r->entries), &failed);
    json_set(object, "differences", differences_json(r), &failed); /* the first of them */
    char *text = json_finish_text(object, failed);
    if (text != NULL) puts(text);
    mem_free(text);
    return text != NULL;
}

static bool is_what_if(const struct wanted *wanted)
{
    const struct rerun_words *w = &wanted->rerun;
    return w->policy != NULL || w->price != NULL || w->pool != NULL;
}

static int replay(const struct wanted *wanted)
{
    char path[PATH_BYTES];
    struct error error;
    struct replay_result result;
    if (wanted->rerun.policy != NULL && !rerun_knows_policy(wanted->rerun.policy, &error)) {
        fprintf(stderr, "shoal replay: %s\n", error.text);
        return 2; /* wrong usage, journal or not */
    }
    if (snprintf(path, sizeof path, "%s/journal.db", wanted->data) >= (int)sizeof path) {
        fprintf(stderr, "shoal replay: the path of the data folder is too long\n");
        return EXIT_FAILURE;
    }
    journal *j = journal_open_to_read(path, &error);
    if (j != NULL && is_what_if(wanted)) {
        int code = rerun_main(j, &wanted->rerun);
        journal_close(j);
        return code;
    }
    bool done = j != NULL && replay_journal(j, &wanted->options, &result, &error);
    journal_close(j);
    if (done && wanted->json && !print_json(&result)) done = error_set(&error, "out of memory");
    if (!done) {
        fprintf(stderr, "shoal replay: %s\n", error.text);
        return EXIT_FAILURE;
    }
    if (!wanted->json) print(&result);
    bool same = result.decisions.differences + result.entries.differences == 0;
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

int replay_main(int argc, char **argv)
{
    struct wanted wanted;
    if (!read_words(argc, argv, &wanted)) return 2;
    if (wanted.help) {
        fputs(usage, stdout);
        return EXIT_SUCCESS;
    }
    return replay(&wanted);
}
