/* A fake agent for tests with real processes: it starts workers of e2e_trainer.c, tells them of each
 * other, and keeps what they report. Any failure of its own ends the test that runs.
 */
#ifndef SHOAL_WORKER_E2E_TESTING_H
#define SHOAL_WORKER_E2E_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

enum { WORKERS = 32, LINE_MAX_BYTES = 1 << 16, STEPS = 40, SLOTS = 24 };

struct worker {
    pid_t pid; /* 0: not running */
    int fd;
    char addr[64], in[LINE_MAX_BYTES];
    size_t in_count;
    int exit_status;
};

struct agent {
    struct worker worker[WORKERS];
    uint32_t worker_count;
    int64_t last_step, saved_step, done_count;
    int64_t first_step; /* lowest reported, since it was set */
    bool may_stall;     /* then a bound that passes is no failure */
    bool step_seen[STEPS];
    uint32_t owned[STEPS][WORKERS]; /* slots of each worker in each step */
    char hash[65], not_finite[16];
    int not_finite_count; /* steps */
    const char *extra[8]; /* more NAME=VALUE for the workers */
    const char *log;      /* file for their stderr; NULL: that of this process */
};

extern const char *e2e_trainer; /* the program that workers run: for main() to set */

void e2e_init(struct agent *agent);
uint32_t e2e_start(struct agent *agent); /* one more worker; its index, one less than its id */
void e2e_send(struct worker *worker, const char *text);
/* Serves until step `step` is reported, or (step == STEPS) until all workers have ended. */
void e2e_serve(struct agent *agent, int64_t step, int64_t bound_ms);
/* The hash that the same job prints on one worker without an agent; moments: "" or NAME=VALUE. */
void e2e_standalone_hash(char hash[65], const char *moments);
bool e2e_read_log(const char *log, char *ret_text, size_t bytes); /* and removes it */

#endif
