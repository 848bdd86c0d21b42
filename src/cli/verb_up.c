/* shoal up: a server in the background, if none is running yet. */
#include "cli/launch.h"
#include "cli/verbs.h"
#include <stdio.h>
#include <string.h>

enum { START_TIMEOUT_MS = 30000 };

static void tell(const struct cli_args *args, struct client *client, pid_t pid, const char *data)
{
    if (args->json && pid != 0)
        printf("{\"url\":\"%s\",\"pid\":%d}\n", client_url(client), (int)pid);
    else if (args->json)
        printf("{\"url\":\"%s\"}\n", client_url(client));
    else if (pid != 0)
        printf("server is up at %s (process %d, log %s/server.log)\nstop it with: kill %d\n",
               client_url(client), (int)pid, data, (int)pid);
    else
        printf("server is already up at %s\n", client_url(client));
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
    if (ok) tell(args, client, pid, data);
    client_close(client);
    return ok;
}

int verb_up(const struct cli_verb *verb, int argc, char **argv)
{
    const char *config = "shoal.yaml";
    const struct cli_flag flags[] = {
        {"--config", "FILE", "the server's configuration (default shoal.yaml)", NULL, &config}};
    struct cli_args args;
    int code = cli_read(verb, argc, argv, flags, 1, &args);
    if (code != CLI_GO_ON) return code;
    struct error error;
    return bring_up(&args, config, &error) ? CLI_DONE : cli_fail(&error);
}
