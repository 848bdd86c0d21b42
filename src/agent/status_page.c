#include "agent/status_page.h"
#include "worker/status.h"
#include <stdio.h>

void status_page_phase(const char *file, char *ret_phase, size_t bytes)
{
    struct worker_status status;
    bool read = status_read(file, &status, /* ret_error */ NULL); /* absent: nothing to say */
    (void)snprintf(ret_phase, bytes, "%s", read ? status_phase_name(status.phase) : "");
}
