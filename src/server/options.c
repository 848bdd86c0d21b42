#include "server/options.h"
#include "base/number.h"
#include "server/http_listen.h"
#include <string.h>

const char server_usage[] =
    "usage: shoal server [--config FILE] [--data DIR] [--listen HOST:PORT]\n"
    "\n"
    "  --config FILE          shoal.yaml (default: ./shoal.yaml if it is there)\n"
    "  --data DIR             journal and tokens (default: the file's `data`, shoal-data)\n"
    "  --listen HOST:PORT     default: the file's `listen`, 127.0.0.1:7070; port 0: any free one\n"
    "  --allow-remote         let --listen be an address that other machines reach (no TLS yet)\n"
    "  --keep-nodes           on SIGTERM leave the nodes running for the next start\n"
    "  --journal-max-bytes N  refuse new work instead of growing journal.db beyond N bytes\n"
    "\n"
    "example: shoal server --config examples/quickstart/shoal.yaml --data /var/lib/shoal\n";

/* One option with a value, "--name value" or "--name=value"; NULL: not this one. */
static const char *value_of(const char *name, int argc, char **argv, int *at)
{
    size_t length = strlen(name);
    if (strncmp(argv[*at], name, length) != 0) return NULL;
    if (argv[*at][length] == '=') return argv[*at] + length + 1;
    if (argv[*at][length] != '\0' || *at + 1 >= argc) return NULL;
    return argv[++*at];
}

static bool read_flag(const char *text, struct server_options *options)
{
    if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0)
        options->help = true;
    else if (strcmp(text, "--allow-remote") == 0)
        options->allow_remote = true;
    else if (strcmp(text, "--keep-nodes") == 0)
        options->keep_nodes = true;
    else
        return false;
    return true;
}

bool server_options_read(int argc, char **argv, struct server_options *ret_options,
                         struct error *ret_error)
{
    struct server_options options = {0};
    for (int i = 1; i < argc; i++) {
        const char *value, *given = argv[i];
        uint64_t bytes;
        if ((value = value_of("--config", argc, argv, &i)) != NULL) {
            options.config_file = value;
        } else if ((value = value_of("--data", argc, argv, &i)) != NULL) {
            options.data_dir = value;
        } else if ((value = value_of("--listen", argc, argv, &i)) != NULL) {
            options.listen = value;
            if (!http_listen_check(value, ret_error)) return false;
        } else if ((value = value_of("--journal-max-bytes", argc, argv, &i)) != NULL) {
            if (!number_read(value, 65536, INT64_MAX, &bytes))
                return error_set(ret_error,
                                 "--journal-max-bytes %s: expected a number of bytes, "
                                 "at least 65536",
                                 value);
            options.journal_bytes_max = (int64_t)bytes;
        } else if (!read_flag(given, &options)) {
            return error_set(ret_error, "server: \"%s\" is not an option, or its value is missing",
                             given);
        }
    }
    *ret_options = options;
    return true;
}
