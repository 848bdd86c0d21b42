/* A made-up record for tests: 60 steps, two models, two zones, four losses, one drain. */
#ifndef SHOAL_DEMO_MADE_UP_H
#define SHOAL_DEMO_MADE_UP_H

#include "demo/record.h"

struct record made_up_record(void); /* record_index() done */

#endif
