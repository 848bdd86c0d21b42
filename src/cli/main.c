/* The `shoal` command: one table of verbs, one line of dispatch each. */
#include "agent/agent.h"
#include "base/mem.h"
#include "cli/suggest.h"
#include "cli/verbs.h"
#include "server/server.h"
#include "sim/sim.h"
#include "whatif/whatif.h"
#include "worker/ckpt/ckpt_main.h"
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

static int run_agent(const struct cli_verb *verb, int argc, char **argv)
{
    (void)verb;
    return agent_main(argc, argv);
}

static int run_server(const struct cli_verb *verb, int argc, char **argv)
{
    (void)verb;
    return server_main(argc, argv);
}

static int run_replay(const struct cli_verb *verb, int argc, char **argv)
{
    (void)verb;
    return replay_main(argc, argv);
}

static int run_ckpt(const struct cli_verb *verb, int argc, char **argv)
{
    (void)verb;
    return ckpt_main(argc, argv);
}

static int run_sim(const struct cli_verb *verb, int argc, char **argv)
{
    (void)verb;
    return whatif_is_meant(argc, argv) ? whatif_main(argc, argv) : sim_main(argc, argv);
}

static const struct cli_verb verbs[] = {
    {"up", "start the server in the background and wait until it answers", NULL, 0, 0,
     "Starts the server of a configuration file in the background, unless it runs already, waits\n"
     "until it answers and prints where it is.",
     "  shoal up --config shoal.yaml\n  shoal up --stop\n", verb_up},
    {"run", "submit a job and follow it to its end", "job.yaml", 1, 1,
     "Prints what the job would cost and when it would finish, submits it and follows it.\n"
     "Exit status 0: done; 1: refused or failed. Ctrl-C stops following, not the job.",
     "  shoal run job.yaml\n  shoal run job.yaml --detach\n", verb_run},
    {"plan", "what a job would cost, before anything is bought", "[job.yaml]", 0, 1,
     "Lists the ways to run a job now, best first, with price, time and total, and says why the\n"
     "first one wins. With --ncu instead of a job: the cheapest mix of devices that reaches so\n"
     "many normalized compute units, at the prices of now, or at list prices when nothing is on\n"
     "sale or --list is given; refused when it costs more than --budget. Buys nothing.",
     "  shoal plan job.yaml\n  shoal plan --ncu 11 --budget 25\n", verb_plan},
    {"jobs", "list the jobs", NULL, 0, 0,
     "Lists every job with its state, progress, devices and cost, and what was decided last.",
     "  shoal jobs\n", verb_jobs},
    {"logs", "print what a job's workers wrote", "JOB", 1, 1,
     "Prints the lines of all workers of a job in order, with time, node and worker. JOB is the\n"
     "number or the name of the job.",
     "  shoal logs 1 --follow\n", verb_logs},
    {"why", "tell the decisions about a job and their reasons", "JOB", 1, 1,
     "Tells who holds the job up, when it is stalled or slowed down now: the worker, its node, "
     "and\n"
     "where its program stands. Then what was decided about it and its nodes and why, oldest\n"
     "first; for a job that waits, what would let it start now; and how fast its work runs on\n"
     "each model, when that is declared or was measured. JOB is the number or the name of the job.",
     "  shoal why 1\n", verb_why},
    {"cancel", "stop a job", "JOB", 1, 1,
     "Stops a job: its workers hand over, leave, and nodes that nobody else needs are let go.",
     "  shoal cancel 1\n", verb_cancel},
    {"nodes", "list the machines held now", NULL, 0, 0,
     "Lists the machines held now: where, of what kind, at what price, doing what.",
     "  shoal nodes\n", verb_nodes},
    {"drain", "empty a machine and let it go", "NODE", 1, 1,
     "Empties a machine: its workers hand over at the next step, then it is let go.",
     "  shoal drain 17\n", verb_drain},
    {"pools", "list the pools and who is in them", NULL, 0, 0,
     "Lists the pools of the configuration with their capabilities and members.", "  shoal pools\n",
     verb_pools},
    {"market", "what the providers sell now", "[import FILE | record]", 0, 2,
     "Lists the offers of all providers: price, share of the on-demand price, stock, what the pool\n"
     "has seen of how long such nodes stay up (lost of those held; share still up after an hour; when\n"
     "half are gone) and how the price moved of late; spot against on-demand by model; the nodes\n"
     "lost last. `shoal market import --help`: histories of prices that others tell; `shoal market\n"
     "record --help`: to keep what the server sees.",
     "  shoal market\n  shoal market --model H100 --hours 6\n  shoal market import prices.json --out prices.csv\n"
     "  shoal market record --out prices/\n", verb_market},
    {"cost", "what was spent, by whom", NULL, 0, 0,
     "Adds up the ledger by job, tenant, project, team, experiment or node.",
     "  shoal cost --by team\n", verb_cost},
    {"budget", "what is spent, set aside and left", NULL, 0, 0,
     "Lists what each tenant, project and team, each class and each pool has spent in this hour, "
     "day\n"
     "and month, what is set aside for running jobs, and what is left of limits and cost gates.\n"
     "Bought: spot and on-demand capacity, which cost gates are about.",
     "  shoal budget\n", verb_budget},
    {"advise", "swarm, one node or a fixed cluster: what a job should be run on", "job.yaml", 1, 1,
     "Compares the ways to run a job: a swarm (the cheapest mix of one region), one node, equal nodes\n"
     "that are guaranteed to stay; says which is best and what would change that. Prices: those of\n"
     "--market, else of the running server, else the list prices of the catalog.",
     "  shoal advise job.yaml\n  shoal advise job.yaml --market prices.csv\n", verb_advise},
    /* These read their own arguments, --help included. */
    {.name = "server", .summary = "the daemon; `shoal up` starts it", .run = run_server},
    {.name = "agent", .summary = "the pilot on one machine; drivers start it", .run = run_agent},
    {.name = "replay",
     .summary = "step a journal once more, beside what was recorded",
     .run = run_replay},
    {.name = "ckpt", .summary = "look at, check, convert and tidy checkpoints", .run = run_ckpt},
    {.name = "sim", .summary = "try the scheduler in made-up worlds", .run = run_sim},
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static void print_usage(void)
{
    printf("usage: shoal VERB [ARGUMENT...]\n\n"
           "Keeps training jobs running on a mixed pool of machines, exactly.\n\n");
    for (uint32_t i = 0; i < VERB_COUNT; i++)
        printf("  %-8s %s\n", verbs[i].name, verbs[i].summary);
    printf("\n`shoal VERB --help` tells more, with an example.\n");
}

static int unknown_verb(const char *word)
{
    const char *names[VERB_COUNT];
    for (uint32_t i = 0; i < VERB_COUNT; i++) names[i] = verbs[i].name;
    const char *nearest = suggest_nearest(word, names, VERB_COUNT);
    fprintf(stderr, "shoal: unknown verb \"%s\"", word);
    if (nearest != NULL) fprintf(stderr, "; did you mean \"%s\"?", nearest);
    fprintf(stderr, "\nsee: shoal --help\n");
    return CLI_USAGE;
}

static bool is_any(const char *word, const char *a, const char *b, const char *c)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

static int run_verb(int argc, char **argv)
{
    for (uint32_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(argv[1], verbs[i].name) != 0) continue;
        return verbs[i].run(&verbs[i], argc - 1, argv + 1);
    }
    return unknown_verb(argv[1]);
}

int main(int argc, char **argv)
{
    char help_flag[] = "--help";
    int code = CLI_DONE;
    json_set_alloc_funcs(mem_alloc, mem_free);
    if (argc == 3 && strcmp(argv[1], "help") == 0) { /* "help VERB" is "VERB --help" */
        argv[1] = argv[2];
        argv[2] = help_flag;
    }
    if (argc < 2 || is_any(argv[1], "--help", "-h", "help"))
        print_usage();
    else if (is_any(argv[1], "--version", "-V", "version"))
        printf("shoal %s\n", SHOAL_VERSION);
    else
        code = run_verb(argc, argv);
    bool lost = fflush(stdout) != 0 || ferror(stdout) != 0; /* now, or at a flush before */
    if (lost && code == CLI_DONE) { /* a full disk behind `shoal jobs > file` */
        fprintf(stderr, "shoal: cannot write the output\n");
        return CLI_FAILED;
    }
    return code;
}
