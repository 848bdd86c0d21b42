/* Between report.c and report_stall.c. */
#ifndef SHOAL_WORKER_REPORT_H
#define SHOAL_WORKER_REPORT_H

#include "worker/engine.h"
#include <jansson.h>

void report_json(struct shoal *shoal, json_t *line); /* takes the line over; NULL is let go */

#endif
