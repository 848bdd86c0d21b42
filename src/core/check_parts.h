/* For check*.c alone: pool_check() calls them all. */
#ifndef SHOAL_CORE_CHECK_PARTS_H
#define SHOAL_CORE_CHECK_PARTS_H

#include "core/state.h"

void check_list(const struct list *list, struct chain chain);
void check_nodes(const pool *p);
void check_keeps(const pool *p);
void check_accounts(const pool *p);
void check_gates(const pool *p);

#endif
