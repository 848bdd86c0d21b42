/* start_ms: how long `shoal --help` takes from fork to exit, the median of 21, against the budget
 * of 50 ms.
 *
 *     bench_start [PATH OF shoal]      default: ../shoal beside this program
 */
#include "base/clock.h"
#include "median.h"
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS = 21, BUDGET_MS = 50, PATH_BYTES = 512 };

static int64_t run_once(const char *program)
{
    int status = 1;
    int64_t started_us = clock_monotonic_us();
    pid_t pid = fork();
    if (pid == 0) {
        int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (null_fd >= 0) (void)dup2(null_fd, 1);
        execl(program, "shoal", "--help", (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return -1;
    return clock_monotonic_us() - started_us;
}

int main(int argc, char **argv)
{
    char self[PATH_BYTES], program[PATH_BYTES];
    int64_t took_us[RUNS];
    (void)snprintf(self, sizeof self, "%s", argv[0]);
    (void)snprintf(program, sizeof program, "%.400s/../shoal", dirname(self));
    if (argc > 1) (void)snprintf(program, sizeof program, "%s", argv[1]);
    for (int i = 0; i < RUNS; i++) {
        took_us[i] = run_once(program);
        if (took_us[i] >= 0) continue;
        fprintf(stderr, "bench_start: cannot run %s\n", program);
        return 1;
    }
    double value = (double)median_of_integers(took_us, RUNS) / 1000;
    printf("{\"name\": \"start_ms\", \"value\": %.2f, \"unit\": \"ms\", \"peer\": \"budget\", "
           "\"peer_value\": %d, \"ratio\": %.3f, \"better\": \"lower\", \"runs\": %d}\n",
           value, BUDGET_MS, value / BUDGET_MS, RUNS);
    return 0;
}
