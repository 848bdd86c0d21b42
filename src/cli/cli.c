#include "cli/cli.h"
#include "base/mem.h"
#include "cli/suggest.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMON_FLAGS = 4, FLAGS_MAX = 16 };

struct reader {
    const struct cli_verb *verb;
    const struct cli_flag *flags[FLAGS_MAX];
    uint32_t flag_count;
    struct cli_args *args;
};

int cli_fail(const struct error *error)
{
    fprintf(stderr, "shoal: %s\n", error->text);
    return CLI_FAILED;
}

static int usage_error(const struct cli_verb *verb, const char *what, const char *word,
                       const char *nearest)
{
    fprintf(stderr, "shoal %s: %s \"%s\"", verb->name, what, word);
    if (nearest != NULL) fprintf(stderr, "; did you mean \"%s\"?", nearest);
    fprintf(stderr, "\nsee: shoal %s --help\n", verb->name);
    return CLI_USAGE;
}

static void print_help(const struct reader *reader)
{
    const struct cli_verb *verb = reader->verb;
    printf("usage: shoal %s%s%s [FLAG...]\n\n%s\n\nflags:\n", verb->name,
           verb->words == NULL ? "" : " ", verb->words == NULL ? "" : verb->words, verb->about);
    for (uint32_t i = 0; i < reader->flag_count; i++) {
        const struct cli_flag *flag = reader->flags[i];
        char left[64];
        (void)snprintf(left, sizeof left, "%s %s", flag->name, /* short by construction */
                       flag->value_name == NULL ? "" : flag->value_name);
        printf("  %-18s %s\n", left, flag->about);
    }
    printf("\nexample:\n%s", verb->example);
}

static int read_flag(struct reader *reader, int argc, char **argv, int *position)
{
    const char *word = argv[*position];
    const char *names[FLAGS_MAX];
    for (uint32_t i = 0; i < reader->flag_count; i++) {
        const struct cli_flag *flag = reader->flags[i];
        names[i] = flag->name;
        if (strcmp(word, flag->name) != 0) continue;
        if (flag->value_name == NULL) {
            *flag->ret_set = true;
            return CLI_GO_ON;
        }
        if (*position + 1 >= argc)
            return usage_error(reader->verb, "a value is missing after", word, NULL);
        *flag->ret_value = argv[++*position];
        return CLI_GO_ON;
    }
    return usage_error(reader->verb, "unknown flag", word,
                       suggest_nearest(word, names, reader->flag_count));
}

static int read_words(struct reader *reader, int argc, char **argv)
{
    struct cli_args *args = reader->args;
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        bool is_flag = !only_words && argv[i][0] == '-' && argv[i][1] != '\0';
        if (is_flag && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (is_flag) {
            int code = read_flag(reader, argc, argv, &i);
            if (code != CLI_GO_ON) return code;
        } else if (args->word_count >= reader->verb->words_max) {
            return usage_error(reader->verb, "unexpected argument", argv[i], NULL);
        } else {
            args->words[args->word_count++] = argv[i];
        }
    }
    return CLI_GO_ON;
}

int cli_read(const struct cli_verb *verb, int argc, char **argv, const struct cli_flag *flags,
             uint32_t flag_count, struct cli_args *ret_args)
{
    struct cli_args args = {0};
    bool help = false;
    const struct cli_flag common[COMMON_FLAGS] = {
        {"--json", NULL, "print the answer of the API as it is", &args.json, NULL},
        {"--server", "URL", "the server to talk to (default: the one of the data folder)", NULL,
         &args.client.server},
        {"--data", "DIR", "the server's data folder, with its url and token (default shoal-data)",
         NULL, &args.client.data},
        {"--help", NULL, "this text", &help, NULL},
    };
    struct reader reader = {.verb = verb, .args = &args};
    for (uint32_t i = 0; i < flag_count; i++) reader.flags[reader.flag_count++] = &flags[i];
    for (uint32_t i = 0; i < COMMON_FLAGS; i++) reader.flags[reader.flag_count++] = &common[i];
    int code = read_words(&reader, argc, argv);
    if (help) { /* whatever else is wrong, whoever asks for help gets it */
        print_help(&reader);
        return CLI_DONE;
    }
    if (code != CLI_GO_ON) return code;
    if (args.word_count < verb->words_min) {
        fprintf(stderr, "shoal %s: needs %s\nsee: shoal %s --help\n", verb->name, verb->words,
                verb->name);
        return CLI_USAGE;
    }
    *ret_args = args;
    return CLI_GO_ON;
}

void cli_print_raw(const char *text)
{
    size_t length = strlen(text);
    printf("%s%s", text, length > 0 && text[length - 1] == '\n' ? "" : "\n");
}

static bool show_raw(struct client *client, const char *path, struct error *ret_error)
{
    struct client_request request = {.method = "GET", .path = path};
    struct client_reply reply;
    if (!client_call(client, &request, &reply, ret_error)) return false;
    cli_print_raw(reply.text);
    client_reply_free(&reply);
    return true;
}

int cli_show(const struct cli_args *args, const char *path, cli_print_fn *print)
{
    struct error error;
    struct client *client = client_open(&args->client, &error);
    if (client == NULL) return cli_fail(&error);
    bool ok;
    if (args->json) {
        ok = show_raw(client, path, &error);
    } else {
        json_t *answer = client_get(client, path, &error);
        struct term term = term_open(stdout);
        ok = answer != NULL && print(answer, &term, &error);
        json_decref(answer);
    }
    client_close(client);
    return ok ? CLI_DONE : cli_fail(&error);
}

int cli_call(const struct cli_args *args, cli_call_fn *call)
{
    struct error error;
    struct client *client = client_open(&args->client, &error);
    bool ok = client != NULL && call(client, args, &error);
    client_close(client);
    return ok ? CLI_DONE : cli_fail(&error);
}

bool cli_post(struct client *client, const struct cli_args *args, const char *path,
              const char *done, struct error *ret_error)
{
    struct client_request request = {.method = "POST", .path = path};
    struct client_reply reply;
    if (!client_call(client, &request, &reply, ret_error)) return false;
    cli_print_raw(args->json ? reply.text : done);
    client_reply_free(&reply);
    return true;
}

static bool is_number(const char *word)
{
    return word[0] != '\0' && strspn(word, "0123456789") == strlen(word) && strlen(word) < 19;
}

bool cli_find_job(struct client *client, const char *word, int64_t *ret_job,
                  struct error *ret_error)
{
    if (is_number(word)) {
        *ret_job = strtoll(word, NULL, 10);
        return true;
    }
    json_t *answer = client_get(client, "/v1/jobs", ret_error);
    if (answer == NULL) return false;
    int64_t found = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "jobs"), i, row)
    {
        if (strcmp(row_text(row, "name"), word) == 0 && row_int(row, "job") > found)
            found = row_int(row, "job");
    }
    json_decref(answer);
    if (found == 0) return error_set(ret_error, "no job \"%s\"; see: shoal jobs", word);
    *ret_job = found;
    return true;
}
