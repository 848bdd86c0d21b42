/* `shoal plan --ncu N`: the cheapest mix of devices that reaches N NCU. */
#ifndef SHOAL_CLI_PLAN_NCU_H
#define SHOAL_CLI_PLAN_NCU_H

#include "cli/cli.h"

struct plan_ncu_options {
    const char *ncu, *budget; /* as the user wrote them; NULL: not given */
    bool by_list;
};

int plan_ncu(const struct cli_args *args, const struct plan_ncu_options *options); /* exit code */

#endif
