/* shoal advise job.yaml */
#include "cli/verbs.h"
#include "whatif/advise_main.h"

/* The market of the running server; NULL when there is none, which is fine. */
static char *market_of_server(const struct cli_args *args)
{
    struct error error;
    struct client_reply reply;
    const struct client_request request = {.method = "GET", .path = "/v1/market?hours=1"};
    struct client *client = client_open(&args->client, &error);
    bool ok = client != NULL && client_call(client, &request, &reply, &error);
    client_close(client);
    return ok ? reply.text : NULL;
}

/* What the server has measured of a job's work; NULL after a sentence. */
static char *rates_of_job(const struct cli_args *args, const char *word, struct error *ret_error)
{
    char path[64];
    int64_t job;
    struct client_reply reply = {.text = NULL};
    struct client *client = client_open(&args->client, ret_error);
    if (client != NULL && cli_find_job(client, word, &job, ret_error)) {
        (void)snprintf(path, sizeof path, "/v1/jobs/%lld/why", (long long)job); /* fits */
        const struct client_request request = {.method = "GET", .path = path};
        if (!client_call(client, &request, &reply, ret_error)) reply.text = NULL;
    }
    client_close(client);
    return reply.text;
}

int verb_advise(const struct cli_verb *verb, int argc, char **argv)
{
    struct advise_words words = {0};
    const char *job = NULL;
    struct error error;
    const struct cli_flag flags[] = {
        {"--market", "FILE", "prices, as shoal market record and import --out write them", NULL,
         &words.market_file},
        {"--parameters", "BILLIONS", "of the model (default: work.parameters of the file)", NULL,
         &words.parameters},
        {"--overhead", "PERCENT", "what a swarm's orchestration takes (default 5)", NULL,
         &words.overhead},
        {"--network", "GBIT", "between nodes, a second (default 25)", NULL, &words.network},
        {"--measured", "JOB", "speeds that the server measured of this job's work", NULL, &job}};
    struct cli_args args;
    int code = cli_read(verb, argc, argv, flags, sizeof flags / sizeof flags[0], &args);
    if (code != CLI_GO_ON) return code;
    struct client_reply rates = {.text = job == NULL ? NULL : rates_of_job(&args, job, &error)};
    if (job != NULL && rates.text == NULL) return cli_fail(&error);
    words.rates_json = rates.text;
    struct client_reply market = {.text = words.market_file == NULL ? market_of_server(&args) : NULL};
    words.job_file = args.words[0];
    words.market_json = market.text;
    words.json = args.json;
    code = advise_main(&words);
    client_reply_free(&market);
    client_reply_free(&rates);
    return code;
}
