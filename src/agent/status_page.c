#include "agent/status_page.h"
#include <stdio.h>

void status_page_phase(const char *file, char *ret_phase, size_t bytes)
{
    (void)file;
    (void)snprintf(ret_phase, bytes, "%s", "");
}
