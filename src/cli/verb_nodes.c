/* shoal nodes, shoal drain, shoal pools */
#include "base/clock.h"
#include "base/text.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_MAX = 15 }; /* of one level in a node; docs/protocol.md */

static enum term_style style_of(const char *state)
{
    if (strcmp(state, "ready") == 0) return TERM_GREEN;
    if (strcmp(state, "ordered") == 0 || strcmp(state, "booting") == 0) return TERM_YELLOW;
    return TERM_RED;
}

/* "1:5 compute" for each lease: job, worker, what it is doing. */
static void add_leases(struct table *table, const json_t *row)
{
    struct text text = {0};
    size_t i;
    json_t *lease;
    json_array_foreach(json_object_get(row, "leases"), i, lease)
    {
        const char *doing = row_text(lease, "doing");
        text_add(&text, "%sjob %" JSON_INTEGER_FORMAT " %s", i == 0 ? "" : ", ",
                 row_int(lease, "job"), doing[0] != '\0' ? doing : row_text(lease, "phase"));
    }
    if (row_text(row, "drain_reason")[0] != '\0')
        text_add(&text, "%sdraining: %s", text.count > 0 ? ", " : "",
                 row_text(row, "drain_reason"));
    bool is_up = strcmp(row_text(row, "state"), "ready") == 0;
    table_cell(table, "%s", text.count > 0 ? text_get(&text) : is_up ? "idle" : "-");
    text_free(&text);
}

/* "4+4": devices in each group, of a list of each device's group; false: not all are known. */
static bool sizes_of(struct text *text, const json_t *list, json_int_t devices)
{
    uint32_t counts[GROUPS_MAX + 1] = {0};
    size_t i;
    json_t *group;
    json_array_foreach(list, i, group)
    {
        json_int_t number = json_integer_value(group);
        if (number <= 0 || number > GROUPS_MAX) return false;
        counts[number]++;
    }
    if (devices == 0 || json_array_size(list) != (size_t)devices) return false;
    for (uint32_t number = 1; number <= GROUPS_MAX && counts[number] > 0; number++)
        text_add(text, "%s%" PRIu32, number == 1 ? " " : "+", counts[number]);
    return true;
}

/* The tightest level at which it is known which devices lie together, and how many do. */
static void add_groups(struct table *table, const json_t *row)
{
    static const char *const levels[] = {"nvlink", "pcie", "numa"};
    const json_t *groups = json_object_get(row, "groups");
    struct text text = {0};
    for (size_t i = 0; i < 3 && text.count == 0; i++) {
        struct text sizes = {0};
        if (sizes_of(&sizes, json_object_get(groups, levels[i]), row_int(row, "devices")))
            text_add(&text, "%s%s", levels[i], text_get(&sizes));
        text_free(&sizes);
    }
    const char *otherwise = json_is_true(json_object_get(row, "emulated")) ? "emulated" : "unknown";
    table_cell(table, "%s", text.count > 0 ? text_get(&text) : otherwise);
    text_free(&text);
}

static void add_node(struct table *table, const json_t *row)
{
    char text[FORMAT_BYTES];
    json_int_t up_us = row_int(row, "up_since_us");
    table_row_style(table, style_of(row_text(row, "state")));
    table_cell(table, "%" JSON_INTEGER_FORMAT, row_short(row, "node"));
    table_cell(table, "%s", row_text(row, "model"));
    const char *rack = row_text(row, "rack");
    table_cell(table, "%s%s%s", row_text(row, "zone"), rack[0] == '\0' ? "" : " ", rack);
    add_groups(table, row);
    table_cell(table, "%s", row_text(row, "capacity"));
    table_cell(table, "%s", row_text(row, "state"));
    table_cell(table, "%s", up_us == 0 ? "-" : format_duration(text, clock_wall_us() - up_us));
    table_cell(table, "%s", format_usd(text, row_int(row, "usd_micros_per_hour"), 2));
    table_cell(table, "%s", format_usd(text, row_int(row, "usd_micros"), 4));
    add_leases(table, row);
}

static bool nodes_print(const json_t *answer, const struct term *term, struct error *ret_error)
{
    static const struct table_column columns[] = {
        {"node", TABLE_RIGHT},  {"model", TABLE_LEFT}, {"zone", TABLE_LEFT}, {"topology", TABLE_LEFT},
        {"kind", TABLE_LEFT},   {"state", TABLE_LEFT}, {"up", TABLE_RIGHT},  {"$/h", TABLE_RIGHT},
        {"spent", TABLE_RIGHT}, {"doing", TABLE_LEFT},
    };
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "nodes"), i, row) add_node(table, row);
    return table_finish(table, term, "no nodes: nothing is bought until a job needs it", ret_error);
}

int verb_nodes(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_args args;
    int code = cli_read(verb, argc, argv, NULL, 0, &args);
    if (code != CLI_GO_ON) return code;
    return cli_show(&args, "/v1/nodes", nodes_print);
}

static bool is_node_number(const char *word)
{
    size_t digits = strspn(word, "0123456789");
    return digits > 0 && digits <= 18 && word[digits] == '\0';
}

/* The key of a node by its key or by the short number that `shoal nodes` shows. */
static bool find_node(struct client *client, const char *word, json_int_t *ret_node,
                      struct error *ret_error)
{
    json_int_t number = strtoll(word, NULL, 10), found = 0;
    json_t *answer = client_get(client, "/v1/nodes", ret_error);
    if (answer == NULL) return false;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "nodes"), i, row)
    {
        if (row_int(row, "node") == number || row_short(row, "node") == number)
            found = row_int(row, "node");
    }
    json_decref(answer);
    if (found == 0) return error_set(ret_error, "no node %s is held; see: shoal nodes", word);
    *ret_node = found;
    return true;
}

static bool drain_node(struct client *client, const struct cli_args *args, struct error *ret_error)
{
    json_int_t key = 0;
    if (!find_node(client, args->words[0], &key, ret_error)) return false;
    char path[96], done[128]; /* the word is a number of at most 18 digits: both fit */
    (void)snprintf(path, sizeof path, "/v1/nodes/%" JSON_INTEGER_FORMAT "/drain", key);
    (void)snprintf(done, sizeof done,
                   "node %.18s is being emptied; its workers hand over, then it is let go",
                   args->words[0]);
    return cli_post(client, args, path, done, ret_error);
}

int verb_drain(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_args args;
    int code = cli_read(verb, argc, argv, NULL, 0, &args);
    if (code != CLI_GO_ON) return code;
    if (is_node_number(args.words[0])) return cli_call(&args, drain_node);
    fprintf(stderr, "shoal drain: \"%s\" is no node number; see: shoal nodes\n", args.words[0]);
    return CLI_USAGE;
}

static void add_list(struct table *table, const json_t *list)
{
    struct text text = {0};
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
        text_add(&text, "%s%s", i == 0 ? "" : " ", json_string_value(item));
    table_cell(table, "%s", text_get(&text));
    text_free(&text);
}

static bool is_listed(const json_t *list, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) if (strcmp(json_string_value(item), name) == 0) return true;
    return false;
}

/* What a pool lists but cannot use stands in parentheses. */
static void add_hardware(struct table *table, const json_t *row)
{
    struct text text = {0};
    size_t i;
    json_t *item;
    json_array_foreach(row_list(row, "hardware"), i, item)
    {
        const char *name = json_string_value(item);
        bool lacks = is_listed(row_list(row, "lacking"), name);
        text_add(&text, lacks ? "%s(%s lacks a capability)" : "%s%s", i == 0 ? "" : " ", name);
    }
    table_cell(table, "%s", text_get(&text));
    text_free(&text);
}

static bool pools_print(const json_t *answer, const struct term *term, struct error *ret_error)
{
    static const struct table_column columns[] = {
        {"pool", TABLE_LEFT},         {"nodes", TABLE_RIGHT},     {"devices", TABLE_RIGHT},
        {"free", TABLE_RIGHT},        {"threshold", TABLE_RIGHT}, {"hardware", TABLE_LEFT},
        {"capabilities", TABLE_LEFT},
    };
    struct table *table = table_open(columns, sizeof columns / sizeof columns[0]);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "pools"), i, row)
    {
        double threshold = row_real(row, "price_threshold");
        table_cell(table, "%s", row_text(row, "name"));
        table_cell(table, "%" JSON_INTEGER_FORMAT, row_int(row, "nodes"));
        table_cell(table, "%" JSON_INTEGER_FORMAT, row_int(row, "devices"));
        table_cell(table, "%" JSON_INTEGER_FORMAT, row_int(row, "devices_free"));
        table_cell(table, "%.0f %%", threshold > 0 ? threshold * 100 : 100.0);
        add_hardware(table, row);
        add_list(table, row_list(row, "capabilities"));
    }
    return table_finish(table, term, "no pools: name some under \"pools:\" in shoal.yaml",
                        ret_error);
}

int verb_pools(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_args args;
    int code = cli_read(verb, argc, argv, NULL, 0, &args);
    if (code != CLI_GO_ON) return code;
    return cli_show(&args, "/v1/pools", pools_print);
}
