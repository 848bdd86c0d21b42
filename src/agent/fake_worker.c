/* A worker that does nothing but keep its status page: computes and reduces in turns of some
 * milliseconds, for half a minute at most.
 */
#include "worker/status.h"
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    struct status_page *page = status_open(getenv("SHOAL_STATUS"), NULL);
    if (page == NULL) return 1;
    (void)alarm(30);
    for (uint64_t step = 0;; step++) {
        struct worker_status facts = {.step = step, .phase = DOING_COMPUTE};
        status_write(page, &facts);
        (void)poll(NULL, 0, 5); /* the work of this worker is to pass time */
        facts.phase = DOING_REDUCE;
        status_write(page, &facts);
        (void)poll(NULL, 0, 3);
    }
}
