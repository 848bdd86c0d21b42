/* What a worker's status page (worker/status.h) says it is doing now. */
#ifndef SHOAL_AGENT_STATUS_PAGE_H
#define SHOAL_AGENT_STATUS_PAGE_H

#include <stddef.h>

/* "" if there is no page, or none that can be read. */
void status_page_phase(const char *file, char *ret_phase, size_t bytes);

#endif
