#include "cli/launch.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/client.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <yaml.h>

enum { CONFIG_BYTES_MAX = 1024 * 1024, LOG_TAIL_BYTES = 400, LOOK_MS = 20 };

/* The scalar after `key` of the top-level mapping into ret_value; false: it is not there. */
static bool find_scalar(const char *yaml, size_t bytes, const char *key, char *ret_value,
                        size_t value_bytes)
{
    yaml_parser_t parser;
    yaml_document_t document;
    if (yaml_parser_initialize(&parser) == 0) return false;
    yaml_parser_set_input_string(&parser, (const unsigned char *)yaml, bytes);
    bool found = false;
    if (yaml_parser_load(&parser, &document) != 0) {
        yaml_node_t *root = yaml_document_get_root_node(&document);
        bool is_map = root != NULL && root->type == YAML_MAPPING_NODE;
        yaml_node_pair_t *pair = is_map ? root->data.mapping.pairs.start : NULL;
        for (; is_map && !found && pair < root->data.mapping.pairs.top; pair++) {
            const yaml_node_t *name = yaml_document_get_node(&document, pair->key);
            const yaml_node_t *value = yaml_document_get_node(&document, pair->value);
            if (name->type != YAML_SCALAR_NODE || value->type != YAML_SCALAR_NODE) continue;
            if (strcmp((const char *)name->data.scalar.value, key) != 0) continue;
            int length =
                snprintf(ret_value, value_bytes, "%s", (const char *)value->data.scalar.value);
            found = length > 0 && (size_t)length < value_bytes;
        }
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    return found;
}

bool launch_data_of(const char *config_path, char ret_data[LAUNCH_PATH_BYTES],
                    struct error *ret_error)
{
    char *yaml, name[LAUNCH_PATH_BYTES] = "shoal-data";
    size_t bytes;
    if (access(config_path, R_OK) != 0)
        return error_set(ret_error,
                         "%s: %s; name your configuration with --config (docs/config.md shows one)",
                         config_path, error_errno(errno));
    if (!io_read_file(config_path, CONFIG_BYTES_MAX, &yaml, &bytes, ret_error)) return false;
    (void)find_scalar(yaml, bytes, "data", name, sizeof name); /* else the default stays */
    mem_free(yaml);
    const char *slash = strrchr(config_path, '/');
    int folder = name[0] == '/' || slash == NULL ? 0 : (int)(slash - config_path) + 1;
    int length = snprintf(ret_data, LAUNCH_PATH_BYTES, "%.*s%s", folder, config_path, name);
    if (length < 0 || length >= LAUNCH_PATH_BYTES)
        return error_set(ret_error, "%s: the path of its data folder is too long", config_path);
    return true;
}

/* In the child: never returns. */
static void become_server(const char *program, const char *config_path, const char *log_path)
{
    (void)setsid(); /* cannot fail right after fork */
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (null_fd < 0 || log_fd < 0 || dup2(null_fd, 0) < 0 || dup2(log_fd, 1) < 0 ||
        dup2(log_fd, 2) < 0)
        _exit(127);
    execl(program, "shoal", "server", "--config", config_path, (char *)NULL);
    fprintf(stderr, "cannot run %s: %s\n", program, error_errno(errno));
    _exit(127);
}

/* What the log says last: the reason when a server has died. */
static void read_tail(const char *log_path, char text[LOG_TAIL_BYTES])
{
    text[0] = '\0';
    FILE *file = fopen(log_path, "re");
    if (file == NULL) return;
    char line[LOG_TAIL_BYTES];
    while (fgets(line, sizeof line, file) != NULL)
        if (line[0] != '\n') (void)snprintf(text, LOG_TAIL_BYTES, "%s", line); /* same size */
    text[strcspn(text, "\n")] = '\0';
    (void)fclose(file); /* only read */
}

bool launch_is_up(const char *data)
{
    char note[LAUNCH_PATH_BYTES + 16];
    (void)snprintf(note, sizeof note, "%s/server.json", data); /* fits */
    if (access(note, R_OK) != 0) return false; /* else another server at the default URL is found */
    struct client_options options = {.data = data};
    struct client *client = client_open(&options, NULL);
    bool is_up = client != NULL && client_is_up(client);
    client_close(client);
    return is_up;
}

static bool wait_until_up(pid_t pid, const char *data, const char *log_path, int timeout_ms,
                          struct error *ret_error)
{
    int64_t until_us = clock_monotonic_us() + timeout_ms * INT64_C(1000);
    while (clock_monotonic_us() < until_us) {
        char tail[LOG_TAIL_BYTES];
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid) {
            read_tail(log_path, tail);
            return error_set(ret_error, "the server did not start: %s (its log: %s)",
                             tail[0] != '\0' ? tail : "it said nothing", log_path);
        }
        if (launch_is_up(data)) return true;
        struct timespec span = {.tv_nsec = LOOK_MS * 1000000L};
        (void)nanosleep(&span, NULL); /* cut short by a signal is fine */
    }
    (void)kill(pid, SIGTERM); /* whatever it does, it is no server for us */
    (void)waitpid(pid, NULL, 0);
    return error_set(ret_error, "the server did not answer within %d s (its log: %s)",
                     timeout_ms / 1000, log_path);
}

bool launch_server(const char *program, const char *config_path, const char *data, int timeout_ms,
                   pid_t *ret_pid, struct error *ret_error)
{
    char log_path[LAUNCH_PATH_BYTES + 16], note[LAUNCH_PATH_BYTES + 16];
    if (!io_make_dirs(data, ret_error)) return false;
    (void)snprintf(log_path, sizeof log_path, "%s/server.log", data); /* fits */
    (void)snprintf(note, sizeof note, "%s/server.json", data);        /* fits */
    (void)unlink(note); /* of a server that is dead: callers looked before */
    pid_t pid = fork();
    if (pid < 0) return error_set(ret_error, "cannot start a process: %s", error_errno(errno));
    if (pid == 0)
        become_server(program != NULL ? program : "/proc/self/exe", config_path, log_path);
    if (!wait_until_up(pid, data, log_path, timeout_ms, ret_error)) return false;
    *ret_pid = pid;
    return true;
}

/* The process that the server noted about itself; 0: none. */
static pid_t noted_pid(const char *data)
{
    char path[LAUNCH_PATH_BYTES + 16], *bytes;
    size_t count;
    (void)snprintf(path, sizeof path, "%s/server.json", data); /* fits */
    if (!io_read_file(path, CONFIG_BYTES_MAX, &bytes, &count, NULL)) return 0;
    json_t *note = json_loads(bytes, 0, NULL);
    json_int_t pid = row_int(note, "pid");
    json_decref(note);
    mem_free(bytes);
    return pid > 1 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

/* A living server holds a lock on DATA/lock; its process number may outlive it as a zombie. */
static bool is_lock_free(const char *data)
{
    char path[LAUNCH_PATH_BYTES + 16];
    (void)snprintf(path, sizeof path, "%s/lock", data); /* fits */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return true;
    bool is_free = flock(fd, LOCK_SH | LOCK_NB) == 0;
    (void)close(fd); /* lets the lock go */
    return is_free;
}

bool launch_stop(const char *data, int timeout_ms, bool *ret_was_up, struct error *ret_error)
{
    pid_t pid = noted_pid(data);
    /* A server that does not answer may be long dead and its number another's. */
    *ret_was_up = pid != 0 && launch_is_up(data);
    if (!*ret_was_up) return true;
    if (kill(pid, SIGTERM) != 0)
        return error_set(ret_error, "cannot stop process %d: %s", (int)pid, error_errno(errno));
    int64_t until_us = clock_monotonic_us() + timeout_ms * INT64_C(1000);
    while (!is_lock_free(data)) {
        if (clock_monotonic_us() > until_us)
            return error_set(ret_error,
                             "process %d has not stopped within %d s; look at %s/server.log",
                             (int)pid, timeout_ms / 1000, data);
        struct timespec span = {.tv_nsec = LOOK_MS * 1000000L};
        (void)nanosleep(&span, NULL); /* cut short by a signal is fine */
    }
    return true;
}
