#include "options.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>

const char options_help[] =
    "usage: lm --data FILE [OPTION...]\n"
    "Trains a byte-level GPT on a text, as a worker of an elastic job or alone.\n"
    "\n"
    "  --data FILE          the text\n"
    "  --steps N            optimizer steps (default: SHOAL_STEPS, set by the agent; alone 200)\n"
    "  --slots N            slots of a step (default: SHOAL_SLOTS, set by the agent; alone 32)\n"
    "  --layers N --width N --heads N --context N      the model (2, 96, 6, 64)\n"
    "  --untied             a head of its own instead of the token embedding\n"
    "  --batch N            samples of a slot (4)\n"
    "  --parts N            parts a slot's batch is computed in (2); changes the last bits\n"
    "  --threads N          threads, at most the parts (1); changes no bit\n"
    "  --lr X               learning rate after warm-up (0.003)\n"
    "  --seed N             of the weights and the order of the data (1)\n"
    "  --checkpoint DIR     where checkpoints go and are resumed from\n"
    "  --checkpoint-every N steps between them\n"
    "  --report N           steps between progress lines when alone (10)\n"
    "  --sample N           write N bytes of text by the trained model at the end (0)\n"
    "  --help\n"
    "\n"
    "example: examples/lm/text.sh text.txt && build/examples/lm/lm --data text.txt --threads 2 "
    "--sample 300\n";

static const struct lm_options defaults = {
    .model = {.layers = 2, .width = 96, .heads = 6, .context = 64, .vocabulary = 256, .tied = true},
    .slot = {.batch = 4, .parts = 2, .threads = 1},
    .rate = 3e-3f,
    .seed = 1,
    .report_every = 10,
};

enum option_key {
    KEY_DATA = 256,
    KEY_STEPS,
    KEY_SLOTS,
    KEY_LAYERS,
    KEY_WIDTH,
    KEY_HEADS,
    KEY_CONTEXT,
    KEY_UNTIED,
    KEY_BATCH,
    KEY_PARTS,
    KEY_THREADS,
    KEY_LR,
    KEY_SEED,
    KEY_CHECKPOINT,
    KEY_CHECKPOINT_EVERY,
    KEY_REPORT,
    KEY_SAMPLE,
    KEY_HELP,
};

static const struct option long_options[] = {
    {"data", required_argument, NULL, KEY_DATA},
    {"steps", required_argument, NULL, KEY_STEPS},
    {"slots", required_argument, NULL, KEY_SLOTS},
    {"layers", required_argument, NULL, KEY_LAYERS},
    {"width", required_argument, NULL, KEY_WIDTH},
    {"heads", required_argument, NULL, KEY_HEADS},
    {"context", required_argument, NULL, KEY_CONTEXT},
    {"untied", no_argument, NULL, KEY_UNTIED},
    {"batch", required_argument, NULL, KEY_BATCH},
    {"parts", required_argument, NULL, KEY_PARTS},
    {"threads", required_argument, NULL, KEY_THREADS},
    {"lr", required_argument, NULL, KEY_LR},
    {"seed", required_argument, NULL, KEY_SEED},
    {"checkpoint", required_argument, NULL, KEY_CHECKPOINT},
    {"checkpoint-every", required_argument, NULL, KEY_CHECKPOINT_EVERY},
    {"report", required_argument, NULL, KEY_REPORT},
    {"sample", required_argument, NULL, KEY_SAMPLE},
    {"help", no_argument, NULL, KEY_HELP},
    {NULL, 0, NULL, 0},
};

static bool parse_number(const char *name, const char *text, uint64_t min, uint64_t max,
                         uint64_t *ret_value, struct error *ret_error)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    bool plain = text[0] >= '0' && text[0] <= '9' && *end == '\0';
    if (!plain || errno != 0 || value < min || value > max)
        return error_set(ret_error, "--%s \"%s\": give a whole number from %llu to %llu", name,
                         text, (unsigned long long)min, (unsigned long long)max);
    *ret_value = value;
    return true;
}

static bool parse_rate(const char *text, float *ret_rate, struct error *ret_error)
{
    char *end = NULL;
    float value = strtof(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value <= 0 || value > 1)
        return error_set(ret_error, "--lr \"%s\": give a number above 0 and at most 1", text);
    *ret_rate = value;
    return true;
}

/* The options that are a uint32_t, with their limits. */
static bool parse_small(struct lm_options *options, enum option_key key, const char *name,
                        const char *text, struct error *ret_error)
{
    const struct {
        enum option_key key;
        uint32_t *place;
        uint64_t max;
    } fields[] = {
        {KEY_SLOTS, &options->slots, 1024},
        {KEY_LAYERS, &options->model.layers, MODEL_LAYERS_MAX},
        {KEY_WIDTH, &options->model.width, MODEL_WIDTH_MAX},
        {KEY_HEADS, &options->model.heads, MODEL_WIDTH_MAX},
        {KEY_CONTEXT, &options->model.context, MODEL_CONTEXT_MAX},
        {KEY_BATCH, &options->slot.batch, 1024},
        {KEY_PARTS, &options->slot.parts, SLOT_PARTS_MAX},
        {KEY_THREADS, &options->slot.threads, SLOT_PARTS_MAX},
        {KEY_CHECKPOINT_EVERY, &options->checkpoint_every, 1000000},
        {KEY_REPORT, &options->report_every, 1000000},
        {KEY_SAMPLE, &options->sample_bytes, 1000000},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].key != key) continue;
        uint64_t value = 0;
        if (!parse_number(name, text, 1, fields[i].max, &value, ret_error)) return false;
        *fields[i].place = (uint32_t)value;
    }
    return true;
}

static bool parse_one(struct lm_options *options, int key, int index, struct error *ret_error)
{
    if (key == KEY_DATA) options->data = optarg;
    if (key == KEY_CHECKPOINT) options->checkpoint = optarg;
    if (key == KEY_UNTIED) options->model.tied = false;
    if (key == KEY_STEPS)
        return parse_number("steps", optarg, 1, UINT64_C(1000000000), &options->steps, ret_error);
    if (key == KEY_SEED)
        return parse_number("seed", optarg, 0, UINT64_MAX, &options->seed, ret_error);
    if (key == KEY_LR) return parse_rate(optarg, &options->rate, ret_error);
    return parse_small(options, (enum option_key)key, long_options[index].name, optarg, ret_error);
}

enum options_result options_parse(int argc, char **argv, struct lm_options *ret_options,
                                  struct error *ret_error)
{
    struct lm_options options = defaults;
    int key = 0, index = 0;
    optind = 0; /* start over, also when called twice */
    opterr = 0;
    while ((key = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (key == KEY_HELP) return OPTIONS_HELP;
        if (key == '?') {
            (void)error_set(ret_error, "%s: unknown option, or its value is missing; see --help",
                            argv[optind - 1]);
            return OPTIONS_WRONG;
        }
        if (!parse_one(&options, key, index, ret_error)) return OPTIONS_WRONG;
    }
    if (optind < argc || options.data == NULL) {
        (void)error_set(ret_error,
                        optind < argc ? "%s: unexpected argument; see --help"
                                      : "%s FILE is needed; see --help",
                        optind < argc ? argv[optind] : "--data");
        return OPTIONS_WRONG;
    }
    *ret_options = options;
    return OPTIONS_RUN;
}
