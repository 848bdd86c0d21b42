/* The functions behind the verbs of the table in main.c; each prints and returns an exit code. */
#ifndef SHOAL_CLI_VERBS_H
#define SHOAL_CLI_VERBS_H

#include "cli/cli.h"

int verb_up(const struct cli_verb *verb, int argc, char **argv);
int verb_run(const struct cli_verb *verb, int argc, char **argv);
int verb_plan(const struct cli_verb *verb, int argc, char **argv);
int verb_jobs(const struct cli_verb *verb, int argc, char **argv);
int verb_logs(const struct cli_verb *verb, int argc, char **argv);
int verb_why(const struct cli_verb *verb, int argc, char **argv);
int verb_cancel(const struct cli_verb *verb, int argc, char **argv);
int verb_nodes(const struct cli_verb *verb, int argc, char **argv);
int verb_drain(const struct cli_verb *verb, int argc, char **argv);
int verb_pools(const struct cli_verb *verb, int argc, char **argv);
int verb_budget(const struct cli_verb *verb, int argc, char **argv);
int verb_advise(const struct cli_verb *verb, int argc, char **argv);
int verb_market(const struct cli_verb *verb, int argc, char **argv);
int verb_cost(const struct cli_verb *verb, int argc, char **argv);

#endif
