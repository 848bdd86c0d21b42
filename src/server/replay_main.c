/* shoal replay: the journal of a data folder once more, beside what was recorded. */
#include "base/mem.h"
#include "codec/json.h"
#include "codec/names.h"
#include "server/replay.h"
#include "server/server.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE_BYTES = 256, PATH_BYTES = 4096 };

static const char usage[] =
    "usage: shoal replay [--data DIR] [--to EVENT] [--json]\n"
    "\n"
    "Steps the journal of a server once more and compares every decision and ledger entry with\n"
    "what was recorded. Reads from the oldest snapshot on and writes nothing; the server may run.\n"
    "Exit status 0: all as recorded; 1: differences, or a journal that cannot be read.\n"
    "\n"
    "flags:\n"
    "  --data DIR         the data folder of the server (default: shoal-data)\n"
    "  --to EVENT         stop behind this event\n"
    "  --json             one JSON object\n"
    "\n"
    "example:\n"
    "  shoal replay --data shoal-data\n";

struct wanted {
    const char *data;
    struct replay_options options;
    bool json, help;
};

static bool read_number(const char *text, uint64_t *ret_number)
{
    char *end;
    errno = 0;
    *ret_number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *ret_number > 0;
}

static bool read_words(int argc, char **argv, struct wanted *ret)
{
    *ret = (struct wanted){.data = "shoal-data"};
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            ret->help = true;
        else if (strcmp(argv[i], "--json") == 0)
            ret->json = true;
        else if (strcmp(argv[i], "--data") == 0 && has_value)
            ret->data = argv[++i];
        else if (strcmp(argv[i], "--to") == 0 && has_value &&
                 read_number(argv[i + 1], &ret->options.last_seq))
            i++;
        else {
            fprintf(stderr,
                    "shoal replay: \"%s\" is not an option, or its value is missing or wrong; see "
                    "shoal replay --help\n",
                    argv[i]);
            return false;
        }
    }
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

static int replay(const struct wanted *wanted)
{
    char path[PATH_BYTES];
    struct error error;
    struct replay_result result;
    if (snprintf(path, sizeof path, "%s/journal.db", wanted->data) >= (int)sizeof path) {
        fprintf(stderr, "shoal replay: the path of the data folder is too long\n");
        return EXIT_FAILURE;
    }
    journal *j = journal_open_to_read(path, &error);
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
