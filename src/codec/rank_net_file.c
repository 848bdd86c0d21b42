/* The file of a learned ranking, read and written. */
#include "codec/rank_net.h"
#include "codec/yaml_tree.h"
#include "core/assert.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of all numbers in the order of the file; no secret, it finds what was changed by hand. */
static uint32_t checksum_of(const struct rank_net *net)
{
    uint64_t sum = net->version;
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++) {
        sum = (sum ^ (uint32_t)net->ranges[i].from) * UINT64_C(0x9e3779b97f4a7c15);
        sum = (sum ^ (uint32_t)net->ranges[i].to) * UINT64_C(0x9e3779b97f4a7c15);
    }
    for (uint32_t i = 0; i < RANK_WEIGHTS; i++)
        sum = (sum ^ (uint8_t)net->weights[i] ^ sum >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(sum >> 32);
}

static void read_range(yaml_item *inputs, uint32_t i, struct rank_range *range)
{
    if (!yaml_require(inputs, rank_input_names[i])) return;
    yaml_item *map = yaml_map(inputs, rank_input_names[i]);
    (void)yaml_require(map, "from");
    (void)yaml_require(map, "to");
    range->from = (int32_t)yaml_integer(map, "from", -RANK_INPUT_MAX, RANK_INPUT_MAX, 0);
    range->to = (int32_t)yaml_integer(map, "to", -RANK_INPUT_MAX, RANK_INPUT_MAX, 0);
    if (range->from > range->to)
        yaml_mistake(map, "%s: from is above to, so nothing is within", rank_input_names[i]);
}

static void read_row(yaml_item *list, uint32_t count, int8_t *weights)
{
    if (list == NULL) return;
    if (yaml_count(list) != count)
        yaml_mistake(list, "a row of %u numbers, a bias and the weights, not of %u", count,
                     yaml_count(list));
    for (uint32_t i = 0; i < yaml_count(list); i++) {
        int64_t weight = yaml_item_integer(yaml_at(list, i), -RANK_WEIGHT_MAX, RANK_WEIGHT_MAX);
        if (i < count) weights[i] = (int8_t)weight;
    }
}

static void read_hidden(yaml_item *list, struct rank_net *net)
{
    if (list == NULL) return;
    if (yaml_count(list) != RANK_HIDDEN)
        yaml_mistake(list, "%d rows, one for each hidden unit, not %u", RANK_HIDDEN,
                     yaml_count(list));
    for (uint32_t j = 0; j < yaml_count(list); j++) {
        int8_t row[RANK_ROW] = {0};
        read_row(yaml_at(list, j), RANK_ROW, row);
        if (j < RANK_HIDDEN) memcpy(net->weights + j * RANK_ROW, row, sizeof row);
    }
}

static void read_net(yaml_item *root, struct rank_net *net)
{
    static const char *const keys[] = {"version", "inputs", "hidden", "output", "checksum"};
    for (uint32_t i = 0; i < sizeof keys / sizeof keys[0]; i++) (void)yaml_require(root, keys[i]);
    net->version = (uint32_t)yaml_integer(root, "version", 1, INT32_MAX, RANK_NET_VERSION);
    if (net->version != RANK_NET_VERSION)
        yaml_mistake(yaml_any(root, "version"),
                     "a ranking of version %u, this program reads version %d: train it anew",
                     net->version, RANK_NET_VERSION);
    yaml_copy(root, "trained", net->note, sizeof net->note, "");
    yaml_item *inputs = yaml_map(root, "inputs");
    for (uint32_t i = 0; i < RANK_INPUT_COUNT && inputs != NULL; i++)
        read_range(inputs, i, &net->ranges[i]);
    read_hidden(yaml_list(root, "hidden"), net);
    read_row(yaml_list(root, "output"), 1 + RANK_HIDDEN, net->weights + RANK_HIDDEN * RANK_ROW);
    int64_t checksum = yaml_integer(root, "checksum", 0, UINT32_MAX, 0);
    if (checksum != checksum_of(net))
        yaml_mistake(yaml_any(root, "checksum"),
                     "the checksum is not that of the numbers: the file was changed or cut off; "
                     "fetch or train it anew");
}

bool rank_net_parse(const char *file, const char *text, size_t bytes, struct rank_net *ret_net,
                    struct error *ret_error)
{
    struct rank_net net = {0};
    yaml_tree *tree = yaml_open(file, text, bytes, ret_error);
    if (tree == NULL) return false;
    read_net(yaml_root(tree), &net);
    bool good = yaml_finish(tree, ret_error);
    yaml_close(tree);
    if (good) *ret_net = net;
    return good;
}

bool rank_net_shipped(struct rank_net *ret_net, struct error *ret_error)
{
    return rank_net_parse("catalog/ranking.yaml", ranking_shipped_text, ranking_shipped_bytes,
                          ret_net, ret_error);
}

/* ---- writing ---- */

struct text {
    char *at;
    size_t used, bytes;
};

static void PRINTF_LIKE(2, 3) put(struct text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(t->at + t->used, t->bytes - t->used, format, arguments);
    va_end(arguments);
    ASSERT(written >= 0 && t->used + (size_t)written < t->bytes);
    t->used += (size_t)written;
}

static void put_row(struct text *t, const int8_t *weights, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) put(t, "%s%d", i == 0 ? "[" : ", ", weights[i]);
    put(t, "]\n");
}

size_t rank_net_print(const struct rank_net *net, char *ret_text, size_t bytes)
{
    struct text t = {.at = ret_text, .bytes = bytes};
    static const char *const meanings[RANK_INPUT_COUNT] = {
#define X(name, word, meaning) meaning,
        RANK_INPUTS(X)
#undef X
    };
    put(&t, "# A learned ranking of offers (docs/market.md), written by `shoal sim --train`. "
            "Inputs are in\n"
            "# 256ths, from the least to the most that training met; weights in 64ths, the bias "
            "first.\n");
    put(&t, "version: %u\ntrained: \"%s\"\ninputs:\n", net->version, net->note);
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++)
        put(&t, "  %s: {from: %d, to: %d} # %s\n", rank_input_names[i], net->ranges[i].from,
            net->ranges[i].to, meanings[i]);
    put(&t, "hidden:\n");
    for (uint32_t j = 0; j < RANK_HIDDEN; j++) {
        put(&t, "  - ");
        put_row(&t, net->weights + j * RANK_ROW, RANK_ROW);
    }
    put(&t, "output: ");
    put_row(&t, net->weights + RANK_HIDDEN * RANK_ROW, 1 + RANK_HIDDEN);
    put(&t, "checksum: %u\n", checksum_of(net));
    return t.used;
}
