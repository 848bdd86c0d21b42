/* The frame of the `shoal` command: verbs, their arguments, exit codes.
 *
 * A verb is one row of the table in main.c and one function verb_NAME(). Every verb takes --help
 * (with an example), --json (the answer of the API, unchanged), --server URL and --data DIR.
 * cli_read() parses them all, so a verb only names its own flags:
 *
 *     struct cli_args args;
 *     int code = cli_read(verb, argc, argv, NULL, 0, &args);
 *     if (code != CLI_GO_ON) return code;
 *     return cli_show(&args, "/v1/nodes", nodes_print);
 *
 * Exit codes 0 done, 1 refused or failed (one line on stderr: what, where, what to do), 2 usage.
 * Ownership  struct cli_args borrows from argv.
 */
#ifndef SHOAL_CLI_CLI_H
#define SHOAL_CLI_CLI_H

#include "base/error.h"
#include "cli/client.h"
#include "cli/term.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_GO_ON = -1 };
enum { CLI_WORDS_MAX = 4 };

struct cli_verb {
    const char *name, *summary; /* summary: one line of `shoal --help` */
    const char *words;          /* the arguments as the usage line shows them; NULL: none */
    uint32_t words_min, words_max;
    const char *about;   /* a paragraph of --help */
    const char *example; /* commands, one a line; %s is never used */
    int (*run)(const struct cli_verb *verb, int argc, char **argv);
};

struct cli_flag {
    const char *name;       /* "--detach" */
    const char *value_name; /* NULL: a switch */
    const char *about;
    bool *ret_set;          /* a switch: set to true */
    const char **ret_value; /* a value: the word after it */
};

struct cli_args {
    struct client_options client;
    bool json;
    uint32_t word_count;
    const char *words[CLI_WORDS_MAX];
};

/* Reads argv[1..]. CLI_GO_ON, or the exit code: 0 after --help, 2 after a usage error (printed). */
int cli_read(const struct cli_verb *verb, int argc, char **argv, const struct cli_flag *flags,
             uint32_t flag_count, struct cli_args *ret_args);

/* Prints "shoal: sentence" to stderr and returns CLI_FAILED. */
int cli_fail(const struct error *error);

typedef bool cli_print_fn(const json_t *answer, const struct term *term, struct error *ret_error);

/* GET path; prints the raw answer with --json, else print(answer). Returns the exit code. */
int cli_show(const struct cli_args *args, const char *path, cli_print_fn *print);

typedef bool cli_call_fn(struct client *client, const struct cli_args *args,
                         struct error *ret_error);

/* Opens a client for the call and closes it. Returns the exit code. */
int cli_call(const struct cli_args *args, cli_call_fn *call);

/* POST path, no body; prints the raw answer with --json, else the line `done`. */
bool cli_post(struct client *client, const struct cli_args *args, const char *path,
              const char *done, struct error *ret_error) WARN_UNUSED;

/* A job by number, or the newest of that name. false: no such job. */
bool cli_find_job(struct client *client, const char *word, int64_t *ret_job,
                  struct error *ret_error) WARN_UNUSED;

/* Raw answer to stdout, ending in exactly one newline. */
void cli_print_raw(const char *text);

#endif
