/* shoal up: a server in the background, if none is running yet. */
#include "cli/launch.h"
#include "cli/verbs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { START_TIMEOUT_MS = 30000, STOP_TIMEOUT_MS = 30000 };

static const char standard_config[] = "shoal.yaml";

/* How to stop it, in words that can be typed as they are. */
static void tell_stop(const char *config)
{
    bool is_standard = strcmp(config, standard_config) == 0;
    printf("stop it with: shoal up --stop%s%s\n", is_standard ? "" : " --config ",
           is_standard ? "" : config);
}

static void tell(const struct cli_args *args, struct client *client, pid_t pid, const char *data,
                 const char *config)
{
    if (args->json && pid != 0)
        printf("{\"url\":\"%s\",\"pid\":%d}\n", client_url(client), (int)pid);
    else if (args->json)
        printf("{\"url\":\"%s\"}\n", client_url(client));
    else if (pid != 0)
        printf("server is up at %s (process %d, log %s/server.log)\n", client_url(client), (int)pid,
               data);
    else
        printf("server is already up at %s\n", client_url(client));
    if (!args->json) tell_stop(config);
}

/* Without the ".." of a path that is relative to the configuration's folder. */
static void tidy_path(char path[LAUNCH_PATH_BYTES])
{
    char *whole = realpath(path, NULL);
    if (whole != NULL && strlen(whole) < LAUNCH_PATH_BYTES)
        (void)snprintf(path, LAUNCH_PATH_BYTES, "%s", whole); /* fits */
    free(whole);                                              /* of realpath */
}

static bool bring_up(struct cli_args *args, const char *config, struct error *ret_error)
{
    char data[LAUNCH_PATH_BYTES];
    if (args->client.data != NULL || args->client.server != NULL)
        return error_set(ret_error, "the configuration says where; set `listen` and `data` in %s",
                         config);
    if (!launch_data_of(config, data, ret_error)) return false;
    args->client.data = data;
    struct client *client = client_open(&args->client, ret_error);
    if (client == NULL) return false;
    pid_t pid = 0;
    bool ok =
        launch_is_up(data) || launch_server(NULL, config, data, START_TIMEOUT_MS, &pid, ret_error);
    if (ok && pid != 0) { /* its port may be a new one */
        client_close(client);
        client = client_open(&args->client, ret_error);
        ok = client != NULL;
    }
    tidy_path(data);
    if (ok) tell(args, client, pid, data, config);
    client_close(client);
    return ok;
}

static bool bring_down(const char *config, struct error *ret_error)
{
    char data[LAUNCH_PATH_BYTES];
    bool was_up;
    if (!launch_data_of(config, data, ret_error)) return false;
    if (!launch_stop(data, STOP_TIMEOUT_MS, &was_up, ret_error)) return false;
    printf(was_up ? "server is stopped\n" : "no server is running\n");
    return true;
}

int verb_up(const struct cli_verb *verb, int argc, char **argv)
{
    const char *config = standard_config;
    bool stop = false;
    const struct cli_flag flags[] = {
        {"--config", "FILE", "the server's configuration (default shoal.yaml)", NULL, &config},
        {"--stop", NULL, "stop the server instead; machines it holds are let go", &stop, NULL}};
    struct cli_args args;
    int code = cli_read(verb, argc, argv, flags, 2, &args);
    if (code != CLI_GO_ON) return code;
    struct error error;
    bool ok = stop ? bring_down(config, &error) : bring_up(&args, config, &error);
    return ok ? CLI_DONE : cli_fail(&error);
}
