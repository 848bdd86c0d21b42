/* shoal market, shoal cost */
#include "base/mem.h"
#include "cli/format.h"
#include "cli/market_import.h"
#include "cli/market_record.h"
#include "cli/market_show.h"
#include "cli/table.h"
#include "base/text.h"
#include "cli/verbs.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* "&key=value", the value escaped. */
static void add_query(struct text *path, const char *key, const char *value)
{
    if (value == NULL) return;
    text_add(path, "%s%s=", strchr(path->bytes, '?') == NULL ? "?" : "&", key);
    for (const char *at = value; *at != '\0'; at++)
        text_add(path, isalnum((unsigned char)*at) ? "%c" : "%%%02X", (unsigned char)*at);
}

enum { HOURS_MAX = 8760 }; /* as the server's */

struct market_words {
    const char *model, *zone, *region, *hours;
};

static int show_market(const struct cli_args *args, const struct market_words *words)
{
    struct text path = {0};
    char *end = NULL;
    unsigned long hours = words->hours == NULL ? 1 : strtoul(words->hours, &end, 10);
    if (hours < 1 || hours > HOURS_MAX ||
        (end != NULL && (*end != '\0' || words->hours[0] == '-'))) {
        fprintf(stderr, "shoal market: --hours takes 1 to %d, not \"%s\"\n", HOURS_MAX,
                words->hours);
        return CLI_USAGE;
    }
    text_add(&path, "/v1/market");
    if (!path.failed) {
        add_query(&path, "model", words->model);
        add_query(&path, "zone", words->zone);
        add_query(&path, "region", words->region);
        add_query(&path, "hours", words->hours);
    }
    struct error error;
    bool ok = !path.failed || error_set(&error, "out of memory");
    int code = ok ? cli_show(args, path.bytes, market_show) : cli_fail(&error);
    text_free(&path);
    return code;
}

static int verb_import(const struct cli_verb *verb, int argc, char **argv)
{
    const char *out = NULL;
    const struct cli_flag flags[] = {
        {"--out", "FILE", "write what was read as CSV, by zone, type and time", NULL, &out}};
    struct cli_args args;
    int code = cli_read(verb, argc, argv, flags, sizeof flags / sizeof flags[0], &args);
    return code != CLI_GO_ON ? code : market_import(args.words[0], out, args.json);
}

static int verb_record(const struct cli_verb *verb, int argc, char **argv)
{
    struct market_record record = {0};
    const struct cli_flag flags[] = {
        {"--out", "PATH", "the file, or the folder with a file a day, to add to", NULL,
         &record.out},
        {"--every", "SECONDS", "how often to look (default 10)", NULL, &record.every},
        {"--wait", "SECONDS", "how long a server that is away is waited for (default 600)", NULL,
         &record.wait},
        {"--once", NULL, "take what there is and end", &record.once, NULL}};
    struct cli_args args;
    int code = cli_read(verb, argc, argv, flags, sizeof flags / sizeof flags[0], &args);
    if (code != CLI_GO_ON) return code;
    if (record.out != NULL) return market_record(&args, &record);
    fprintf(stderr, "shoal market record: where to? shoal market record --out FILE|DIR\n");
    return CLI_USAGE;
}

static const struct cli_verb parts[] = {
    {"market import", "read a history of prices", "FILE", 1, 1,
     "Reads a history of prices: the JSON of `aws ec2 describe-spot-price-history`, of Azure retail\n"
     "prices or of Google's SKUs, or CSV. Prints a line for each zone and type, and tells each row it\n"
     "cannot read, with its number and why.",
     "  shoal market import prices.json --out prices.csv\n", verb_import},
    {"market record", "keep the history of the server's market", NULL, 0, 0,
     "Adds every change of what the running server's providers sell to a file of prices, or to a file\n"
     "a day in a folder, until Ctrl-C. Goes on where the record ends; a server that is away is waited\n"
     "for, and given up after --wait. `shoal market import` reads it.",
     "  shoal market record --out prices/\n  shoal market record --out prices/ --once\n", verb_record}};

/* Where `import` or `record` stands: not after a flag, whose value it would be. 0: nowhere. */
static int part_at(int argc, char **argv, const struct cli_verb **ret_part)
{
    for (int i = 1; i < argc; i++)
        for (uint32_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
            bool value = argv[i - 1][0] == '-' && strcmp(argv[i - 1], "--json") != 0;
            if (value || strcmp(argv[i], parts[p].name + strlen("market ")) != 0) continue;
            *ret_part = &parts[p];
            return i;
        }
    return 0;
}

int verb_market(const struct cli_verb *verb, int argc, char **argv)
{
    struct market_words w = {0};
    const struct cli_flag flags[] = {
        {"--model", "MODEL", "only offers of this device model", NULL, &w.model},
        {"--zone", "ZONE", "only offers of this zone", NULL, &w.zone},
        {"--region", "REGION", "only offers of this region", NULL, &w.region},
        {"--hours", "N", "how far back prices are shown (default 24)", NULL, &w.hours}};
    const struct cli_verb *part = NULL;
    int at = part_at(argc, argv, &part);
    if (at > 0) { /* the rest is the part's */
        memmove(&argv[at], &argv[at + 1], (size_t)(argc - at) * sizeof argv[0]);
        return part->run(part, argc - 1, argv);
    }
    struct cli_args args;
    int code = cli_read(verb, argc, argv, flags, sizeof flags / sizeof flags[0], &args);
    if (code != CLI_GO_ON) return code;
    if (args.word_count == 0) return show_market(&args, &w);
    fprintf(stderr, "shoal market: no \"%s\"; there are shoal market, shoal market import FILE and "
                    "shoal market record --out FILE|DIR\n",
            args.words[0]);
    return CLI_USAGE;
}

/* The name of a node is its whole key; people see the counting part, as in `shoal nodes`. */
static void cost_name(struct table *table, const json_t *row, bool is_node)
{
    const char *name = row_text(row, "name");
    char *end;
    int64_t key = strtoll(name, &end, 10);
    if (is_node && name[0] != '\0' && *end == '\0')
        table_cell(table, "node %" PRId64, key_short(key));
    else
        table_cell(table, "%s", name);
}

static bool cost_table(const json_t *answer, bool by_node, const struct term *term,
                       struct error *ret_error)
{
    static const struct table_column columns[] = {{"", TABLE_LEFT},
                                                  {"device time", TABLE_RIGHT},
                                                  {"cost", TABLE_RIGHT},
                                                  {"share", TABLE_RIGHT}};
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    char text[FORMAT_BYTES];
    json_int_t total = row_int(answer, "total_usd_micros");
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "rows"), i, row)
    {
        json_int_t cost = row_int(row, "usd_micros");
        cost_name(table, row, by_node);
        table_cell(table, "%s", format_duration(text, row_int(row, "device_us")));
        table_cell(table, "%s", format_usd(text, cost, 4));
        table_cell(table, "%s", total <= 0 ? "-" : format_share(text, cost * 1000000 / total));
    }
    bool ok = table_print(table, term, ret_error);
    table_close(table);
    if (!ok) return false;
    char billed[FORMAT_BYTES];
    fprintf(term->stream, "total %s; billed by the providers so far %s\n",
            format_usd(text, total, 6),
            format_usd(billed, row_int(answer, "billed_usd_micros"), 6));
    return true;
}

static bool cost_print(const json_t *answer, const struct term *term, struct error *ret_error)
{
    return cost_table(answer, false, term, ret_error);
}

static bool cost_print_nodes(const json_t *answer, const struct term *term, struct error *ret_error)
{
    return cost_table(answer, true, term, ret_error);
}

int verb_cost(const struct cli_verb *verb, int argc, char **argv)
{
    static const char *const groups[] = {"job", "tenant", "project", "team", "experiment", "node"};
    const char *by = "job";
    const struct cli_flag flags[] = {
        {"--by", "WHAT", "job, tenant, project, team, experiment or node (default job)", NULL,
         &by}};
    struct cli_args args;
    int code = cli_read(verb, argc, argv, flags, 1, &args);
    if (code != CLI_GO_ON) return code;
    for (uint32_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (strcmp(by, groups[i]) != 0) continue;
        char path[64];
        (void)snprintf(path, sizeof path, "/v1/cost?by=%s", by); /* fits: one of the groups */
        return cli_show(&args, path, strcmp(by, "node") == 0 ? cost_print_nodes : cost_print);
    }
    fprintf(stderr,
            "shoal cost: no grouping \"%s\"; --by takes job, tenant, project, team, experiment or "
            "node\n",
            by);
    return CLI_USAGE;
}
