#include "options.h"
#include "crew.h"
#include "slot.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <shoal.h>
#include <stdlib.h>
#include <string.h>

const char options_help[] =
    "usage: lm --data FILE [OPTION...]                 train, as a worker of a job or alone\n"
    "       lm --generate N --checkpoint DIR [OPTION...]   write text by the newest checkpoint\n"
    "Trains a GPT on a text. In parentheses what is used when an option is not given.\n"
    "\n"
    "  --data FILE          the text\n"
    "  --tokenizer bytes|bpe  tokens: bytes, or byte pairs learned from the text (bytes)\n"
    "  --vocab N            tokens that bpe learns, the 256 bytes included (1024)\n"
    "  --eval-every N       steps between evaluations on the held-out end of the text (never)\n"
    "  --held-out P         percent of the text that is held out (5 with --eval-every, else 0)\n"
    "  --steps N            optimizer steps (SHOAL_STEPS, set by the agent; alone 200)\n"
    "  --slots N            slots of a step (SHOAL_SLOTS, set by the agent; alone 32)\n"
    "  --layers N --width N --heads N --context N      the model (2, 96, 6, 64)\n"
    "  --untied             a head of its own instead of the token embedding\n"
    "  --batch N            samples of a slot (4)\n"
    "  --parts N            parts a slot's batch is computed in (2); changes the last bits\n"
    "  --threads N          threads, at most the parts (1); changes no bit\n"
    "  --lr X               learning rate after warm-up (0.003)\n"
    "  --warmup N           steps of warm-up (a fifth of the steps, at most 100)\n"
    "  --lr-end X           share of the rate that is left at the end of the cosine (0.1)\n"
    "  --beta1 X --beta2 X --weight-decay X            of AdamW (0.9, 0.95, 0.1)\n"
    "  --clip X             largest norm of the gradient, 0 for any (1)\n"
    "  --dropout X          share of activations that is dropped (0)\n"
    "  --seed N             of weights, order of the data, dropout and text (1)\n"
    "  --checkpoint DIR     where checkpoints go and are resumed from\n"
    "  --checkpoint-every N|auto|never   steps between them (auto: as often as pays; never: only "
    "at\n"
    "                       the end)\n"
    "  --report N           steps between progress lines when alone (10)\n"
    "  --sample N           write N tokens of text by the trained model at the end (0)\n"
    "  --generate N         write N tokens of text by the newest checkpoint in DIR and exit\n"
    "  --prompt TEXT        what the text goes on from (a line break)\n"
    "  --temperature X      0: always the likeliest token; 1: as the model thinks (0.8)\n"
    "  --top-k N            draw among the N likeliest tokens (all)\n"
    "  --help\n"
    "\n"
    "example: examples/lm/text.sh text.txt && build/examples/lm/lm --data text.txt --threads 2 "
    "--sample 300\n";

enum option_key {
    KEY_DATA = 256,
    KEY_TOKENIZER,
    KEY_VOCAB,
    KEY_EVAL_EVERY,
    KEY_HELD_OUT,
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
    KEY_WARMUP,
    KEY_LR_END,
    KEY_BETA1,
    KEY_BETA2,
    KEY_WEIGHT_DECAY,
    KEY_CLIP,
    KEY_DROPOUT,
    KEY_SEED,
    KEY_CHECKPOINT,
    KEY_CHECKPOINT_EVERY,
    KEY_REPORT,
    KEY_SAMPLE,
    KEY_GENERATE,
    KEY_PROMPT,
    KEY_TEMPERATURE,
    KEY_TOP_K,
    KEY_HELP,
};

static const struct option long_options[] = {
    {"data", required_argument, NULL, KEY_DATA},
    {"tokenizer", required_argument, NULL, KEY_TOKENIZER},
    {"vocab", required_argument, NULL, KEY_VOCAB},
    {"eval-every", required_argument, NULL, KEY_EVAL_EVERY},
    {"held-out", required_argument, NULL, KEY_HELD_OUT},
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
    {"warmup", required_argument, NULL, KEY_WARMUP},
    {"lr-end", required_argument, NULL, KEY_LR_END},
    {"beta1", required_argument, NULL, KEY_BETA1},
    {"beta2", required_argument, NULL, KEY_BETA2},
    {"weight-decay", required_argument, NULL, KEY_WEIGHT_DECAY},
    {"clip", required_argument, NULL, KEY_CLIP},
    {"dropout", required_argument, NULL, KEY_DROPOUT},
    {"seed", required_argument, NULL, KEY_SEED},
    {"checkpoint", required_argument, NULL, KEY_CHECKPOINT},
    {"checkpoint-every", required_argument, NULL, KEY_CHECKPOINT_EVERY},
    {"report", required_argument, NULL, KEY_REPORT},
    {"sample", required_argument, NULL, KEY_SAMPLE},
    {"generate", required_argument, NULL, KEY_GENERATE},
    {"prompt", required_argument, NULL, KEY_PROMPT},
    {"temperature", required_argument, NULL, KEY_TEMPERATURE},
    {"top-k", required_argument, NULL, KEY_TOP_K},
    {"help", no_argument, NULL, KEY_HELP},
    {NULL, 0, NULL, 0},
};

/* While parsing: the options, and what decides defaults at the end. */
struct parse {
    struct lm_options options;
    bool bpe, vocabulary_given, held_out_given;
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

/* The options that are a uint32_t, with their limits. */
static bool parse_small(struct parse *parse, enum option_key key, const char *name,
                        const char *text, struct error *ret_error)
{
    struct lm_options *options = &parse->options;
    const struct {
        enum option_key key;
        uint32_t *place;
        uint64_t min, max;
    } fields[] = {
        {KEY_VOCAB, &options->model.vocabulary, TOKENIZER_BYTES, MODEL_VOCABULARY_MAX},
        {KEY_EVAL_EVERY, &options->eval_every, 1, 1000000},
        {KEY_HELD_OUT, &options->held_out_percent, 0, 90},
        {KEY_SLOTS, &options->slots, 1, 1024},
        {KEY_LAYERS, &options->model.layers, 1, MODEL_LAYERS_MAX},
        {KEY_WIDTH, &options->model.width, 1, MODEL_WIDTH_MAX},
        {KEY_HEADS, &options->model.heads, 1, MODEL_WIDTH_MAX},
        {KEY_CONTEXT, &options->model.context, 1, MODEL_CONTEXT_MAX},
        {KEY_BATCH, &options->batch, 1, 1024},
        {KEY_PARTS, &options->parts, 1, SLOT_PARTS_MAX},
        {KEY_THREADS, &options->threads, 1, CREW_MAX},
        {KEY_CHECKPOINT_EVERY, &options->checkpoint_every, 1, 1000000}, /* or a word */
        {KEY_REPORT, &options->report_every, 1, 1000000},
        {KEY_SAMPLE, &options->sample_count, 1, 1000000},
        {KEY_GENERATE, &options->generate.count, 1, 1000000},
        {KEY_TOP_K, &options->generate.top_k, 1, MODEL_VOCABULARY_MAX},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].key != key) continue;
        uint64_t value = 0;
        if (!parse_number(name, text, fields[i].min, fields[i].max, &value, ret_error))
            return false;
        *fields[i].place = (uint32_t)value;
    }
    return true;
}

/* The options that are reals: from `min` up to and with `max`, but not `min` itself if `above`. */
static bool parse_real(struct parse *parse, enum option_key key, const char *name, const char *text,
                       bool *ret_known, struct error *ret_error)
{
    struct lm_options *options = &parse->options;
    float dropout = 0;
    const struct {
        enum option_key key;
        float *place;
        double min, max;
        bool above;
    } fields[] = {
        {KEY_LR, &options->adamw.peak_rate, 0, 1, true},
        {KEY_LR_END, &options->adamw.final_share, 0, 1, false},
        {KEY_BETA1, &options->adamw.beta1, 0, 0.9999, false},
        {KEY_BETA2, &options->adamw.beta2, 0, 0.99999, false},
        {KEY_WEIGHT_DECAY, &options->adamw.decay, 0, 10, false},
        {KEY_CLIP, &options->adamw.clip, 0, 1e6, false},
        {KEY_DROPOUT, &dropout, 0, 0.9, false},
        {KEY_TEMPERATURE, &options->generate.temperature, 0, 100, false},
    };
    *ret_known = false;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].key != key) continue;
        *ret_known = true;
        char *end = NULL;
        double value = strtod(text, &end);
        bool inside = value >= fields[i].min && value <= fields[i].max; /* NaN is not */
        if (end == text || *end != '\0' || !inside || (fields[i].above && value <= fields[i].min))
            return error_set(ret_error,
                             fields[i].above ? "--%s \"%s\": give a number above %g and at most %g"
                                             : "--%s \"%s\": give a number from %g to %g",
                             name, text, fields[i].min, fields[i].max);
        *fields[i].place = (float)value;
        if (key == KEY_DROPOUT) options->dropout = value;
    }
    return true;
}

static bool parse_tokenizer(struct parse *parse, const char *text, struct error *ret_error)
{
    parse->bpe = strcmp(text, "bpe") == 0;
    if (parse->bpe || strcmp(text, "bytes") == 0) return true;
    return error_set(ret_error, "--tokenizer \"%s\": give bytes or bpe", text);
}

static bool parse_one(struct parse *parse, int key, int index, struct error *ret_error)
{
    struct lm_options *options = &parse->options;
    const char *name = long_options[index].name;
    bool real;
    switch (key) {
    case KEY_DATA: options->data = optarg; return true;
    case KEY_CHECKPOINT: options->checkpoint = optarg; return true;
    case KEY_PROMPT: options->generate.prompt = optarg; return true;
    case KEY_UNTIED: options->model.tied = false; return true;
    case KEY_TOKENIZER: return parse_tokenizer(parse, optarg, ret_error);
    case KEY_CHECKPOINT_EVERY:
        if (strcmp(optarg, "auto") != 0 && strcmp(optarg, "never") != 0) break;
        options->checkpoint_every =
            optarg[0] == 'a' ? SHOAL_CHECKPOINT_AUTO : SHOAL_CHECKPOINT_NEVER;
        return true;
    case KEY_VOCAB: parse->vocabulary_given = true; break;
    case KEY_HELD_OUT: parse->held_out_given = true; break;
    case KEY_STEPS:
        return parse_number(name, optarg, 1, UINT64_C(1000000000), &options->steps, ret_error);
    case KEY_WARMUP:
        return parse_number(name, optarg, 0, UINT64_C(1000000000), &options->adamw.warmup_steps,
                            ret_error);
    case KEY_SEED: return parse_number(name, optarg, 0, UINT64_MAX, &options->seed, ret_error);
    default: break;
    }
    if (!parse_real(parse, (enum option_key)key, name, optarg, &real, ret_error)) return false;
    return real || parse_small(parse, (enum option_key)key, name, optarg, ret_error);
}

/* What depends on several options. */
static bool settle(struct parse *parse, struct error *ret_error)
{
    struct lm_options *options = &parse->options;
    options->generate.seed = options->seed;
    if (parse->vocabulary_given && !parse->bpe)
        return error_set(ret_error, "--vocab is the size that --tokenizer bpe learns; bytes are "
                                    "always 256");
    if (!parse->bpe) options->model.vocabulary = TOKENIZER_BYTES;
    if (options->eval_every > 0 && !parse->held_out_given) options->held_out_percent = 5;
    if (options->eval_every > 0 && options->held_out_percent == 0)
        return error_set(ret_error, "--eval-every with --held-out 0: nothing to evaluate on");
    if (options->generate.count == 0)
        return options->data != NULL || error_set(ret_error, "--data FILE is needed; see --help");
    if (options->checkpoint == NULL)
        return error_set(ret_error, "--generate needs --checkpoint DIR; see --help");
    return true;
}

enum options_result options_parse(int argc, char **argv, struct lm_options *ret_options,
                                  struct error *ret_error)
{
    struct parse parse = {
        .options = {.model = {.layers = 2,
                              .width = 96,
                              .heads = 6,
                              .context = 64,
                              .vocabulary = 1024,
                              .tied = true},
                    .batch = 4,
                    .parts = 2,
                    .threads = 1,
                    .adamw = adamw_defaults(3e-3f),
                    .seed = 1,
                    .report_every = 10,
                    .generate = {.temperature = 0.8f}},
    };
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
        if (!parse_one(&parse, key, index, ret_error)) return OPTIONS_WRONG;
    }
    if (optind < argc) {
        (void)error_set(ret_error, "%s: unexpected argument; see --help", argv[optind]);
        return OPTIONS_WRONG;
    }
    if (!settle(&parse, ret_error)) return OPTIONS_WRONG;
    *ret_options = parse.options;
    return OPTIONS_RUN;
}
