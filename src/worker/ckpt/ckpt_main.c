#include "worker/ckpt/ckpt_main.h"
#include "base/number.h"
#include "worker/ckpt/ckpt_verbs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HF_SHARD_BYTES UINT64_C(5000000000) /* where Hugging Face's writers begin a new file */

static const struct verb {
    const char *name, *usage, *summary, *help, *example;
    int (*run)(const struct ckpt_arguments *arguments);
    bool takes_other, needs_out, needs_shards;
} verbs[] = {
    {.name = "ls",
     .usage = "DIR [--step N] [--json]",
     .summary = "checkpoints, newest first; with --step the tensors of one",
     .help = "  Looks at manifests alone; `verify` reads the files.\n",
     .example = "shoal ckpt ls ./checkpoints",
     .run = ckpt_verb_ls},
    {.name = "verify",
     .usage = "DIR [--step N] [--json]",
     .summary = "read every byte and check it; names the piece that is wrong",
     .help = "  Exit 1 if any checkpoint (or the one of --step) is damaged.\n",
     .example = "shoal ckpt verify ./checkpoints --step 1200",
     .run = ckpt_verb_verify},
    {.name = "diff",
     .usage = "DIR [OTHER] [--step N] [--other-step M] [--json]",
     .summary = "which tensors differ, in how many elements, by how much at most",
     .help =
         "  Without OTHER both steps are of DIR. Steps default to the newest. Exit 1 if anything\n"
         "  differs; two NaNs of the same bits do not.\n",
     .example = "shoal ckpt diff ./checkpoints --step 1000 --other-step 1200",
     .run = ckpt_verb_diff,
     .takes_other = true},
    {.name = "merge",
     .usage = "DIR --out FILE|FOLDER [--step N] [--with-state] [--max-bytes N] [--json]",
     .summary = "one safetensors file of the weights, for other programs to load",
     .help =
         "  Above --max-bytes (5000000000) the weights go to FILE-00001-of-0000N.safetensors with\n"
         "  an index, as Hugging Face writes them. --with-state adds optimizer state. Every piece\n"
         "  is checked as it is read.\n",
     .example = "shoal ckpt merge ./checkpoints --out model.safetensors",
     .run = ckpt_verb_merge,
     .needs_out = true},
    {.name = "reshard",
     .usage = "DIR --out FOLDER --shards M [--step N] [--json]",
     .summary = "the same checkpoint in M files, in another folder",
     .help =
         "  Loading needs no resharding: any number of workers loads any number of files. This is\n"
         "  for people who want few large files, or many small ones.\n",
     .example = "shoal ckpt reshard ./checkpoints --out ./eight --shards 8",
     .run = ckpt_verb_reshard,
     .needs_out = true,
     .needs_shards = true},
    {.name = "digest",
     .usage = "DIR [--step N] [--json]",
     .summary = "SHA-256 of weights and optimizer state, whatever the number of files",
     .help =
         "  Equals the `weights sha256` that workers print at the end. Of a job whose moments the\n"
         "  library keeps, a second line has the digest with them. Verifies first.\n",
     .example = "shoal ckpt digest ./checkpoints",
     .run = ckpt_verb_digest},
    {.name = "gc",
     .usage = "DIR [--dry-run] [--all] [--json]",
     .summary = "remove what no checkpoint needs: leftovers of crashes and failures",
     .help = "  Steps newer than the newest checkpoint are left alone, a job may be writing them; "
             "--all\n"
             "  removes those too. Checkpoints are never removed, damaged ones neither.\n",
     .example = "shoal ckpt gc ./checkpoints --dry-run",
     .run = ckpt_verb_gc},
};

enum { VERBS = sizeof verbs / sizeof verbs[0] };

static void print_help(const struct verb *verb)
{
    if (verb != NULL) {
        printf("usage: shoal ckpt %s %s\n\n  %s\n%s\nexample: %s\n", verb->name, verb->usage,
               verb->summary, verb->help, verb->example);
        return;
    }
    fputs("usage: shoal ckpt VERB DIR [OPTION...]\n\n", stdout);
    for (int i = 0; i < VERBS; i++) printf("  %-8s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\nDIR is the job's checkpoint folder (it holds step-NNNNNN folders), as /path or\n"
          "file:///path. Without --step the newest checkpoint is meant; verify takes all.\n"
          "shoal ckpt VERB --help tells more.\n\nexample: shoal ckpt verify ./checkpoints --json\n",
          stdout);
}

static bool complain(const char *what, const char *where)
{
    fprintf(stderr, "shoal ckpt: %s \"%s\"; see shoal ckpt --help\n", what, where);
    return false;
}

static bool parse_number(const char *option, const char *text, uint64_t *ret_number)
{
    if (number_read(text, 0, UINT64_MAX, ret_number)) return true;
    fprintf(stderr, "shoal ckpt: %s takes a whole number, not \"%s\"; see shoal ckpt --help\n",
            option, text);
    return false;
}

/* An option with a value, or 0; 1: taken, -1: told. */
static int take_value(const char *option, const char *value, struct ckpt_arguments *arguments)
{
    struct {
        const char *name;
        uint64_t *number;
        bool *given;
    } numbers[] = {
        {"--step", &arguments->step, &arguments->has_step},
        {"--other-step", &arguments->other_step, &arguments->has_other_step},
        {"--shards", &arguments->shards, NULL},
        {"--max-bytes", &arguments->max_bytes, NULL},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(option, numbers[i].name) != 0) continue;
        if (!parse_number(option, value, numbers[i].number)) return -1;
        if (numbers[i].given != NULL) *numbers[i].given = true;
        return 1;
    }
    if (strcmp(option, "--out") != 0) return 0;
    arguments->out = value;
    return 1;
}

static bool *flag_of(const char *option, struct ckpt_arguments *arguments)
{
    if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) return &arguments->help;
    if (strcmp(option, "--json") == 0) return &arguments->json;
    if (strcmp(option, "--dry-run") == 0) return &arguments->dry_run;
    if (strcmp(option, "--all") == 0) return &arguments->all;
    if (strcmp(option, "--with-state") == 0) return &arguments->with_state;
    return NULL;
}

static bool take_word(const char *word, struct ckpt_arguments *arguments)
{
    if (arguments->verb == NULL)
        arguments->verb = word;
    else if (arguments->address == NULL)
        arguments->address = word;
    else if (arguments->other == NULL)
        arguments->other = word;
    else
        return complain("too many folders; what is", word);
    return true;
}

static bool parse(int argc, char **argv, struct ckpt_arguments *arguments)
{
    for (int i = 1; i < argc; i++) {
        bool *flag = flag_of(argv[i], arguments);
        int taken = flag != NULL ? 1
                    : i + 1 < argc && argv[i][0] == '-'
                        ? take_value(argv[i], argv[i + 1], arguments)
                        : 0;
        if (taken < 0) return false;
        if (flag != NULL)
            *flag = true;
        else if (taken > 0)
            i++;
        else if (argv[i][0] == '-')
            return complain("unknown option or one without its value", argv[i]);
        else if (!take_word(argv[i], arguments))
            return false;
    }
    return true;
}

static const struct verb *find_verb(const char *name)
{
    for (int i = 0; i < VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    return NULL;
}

static bool check(const struct verb *verb, const struct ckpt_arguments *arguments)
{
    if (arguments->address == NULL) {
        fprintf(stderr, "shoal ckpt %s: a folder is needed; see shoal ckpt %s --help\n", verb->name,
                verb->name);
        return false;
    }
    if (arguments->other != NULL && !verb->takes_other)
        return complain("one folder at a time; what is", arguments->other);
    if (verb->needs_out && arguments->out == NULL) {
        fprintf(stderr, "shoal ckpt %s: --out is needed; see shoal ckpt %s --help\n", verb->name,
                verb->name);
        return false;
    }
    if (verb->needs_shards && (arguments->shards == 0 || arguments->shards > CKPT_FILES_MAX)) {
        fprintf(stderr, "shoal ckpt %s: --shards takes 1 to %d; see shoal ckpt %s --help\n",
                verb->name, CKPT_FILES_MAX, verb->name);
        return false;
    }
    return true;
}

int ckpt_main(int argc, char **argv)
{
    struct ckpt_arguments arguments = {.max_bytes = HF_SHARD_BYTES};
    struct error error;
    if (!parse(argc, argv, &arguments)) return 2;
    const struct verb *verb = arguments.verb == NULL ? NULL : find_verb(arguments.verb);
    if (arguments.verb != NULL && verb == NULL) {
        (void)complain("verbs are ls, verify, diff, merge, reshard, digest and gc, not",
                       arguments.verb);
        return 2;
    }
    if (arguments.help) {
        print_help(verb);
        return 0;
    }
    if (verb == NULL) {
        fputs("shoal ckpt: a verb and a folder are needed; see shoal ckpt --help\n", stderr);
        return 2;
    }
    if (!check(verb, &arguments)) return 2;
    arguments.store = store_open(arguments.address, &error);
    int status = arguments.store == NULL ? ckpt_refuse(&error) : verb->run(&arguments);
    store_close(arguments.store);
    return status;
}
