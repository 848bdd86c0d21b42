/* A small closed-loop HTTP client: so many connections, each sends its next request when the answer
 * to the last one is there. For benchmarks on loopback; answers must carry Content-Length. */
#ifndef SHOAL_BENCH_HTTP_LOAD_H
#define SHOAL_BENCH_HTTP_LOAD_H

#include <stdint.h>

struct http_load {
    int port;
    int connection_count;   /* at most 256 */
    uint32_t request_count; /* in all */
    const char *request;    /* whole text, headers and body */
    int status;             /* every answer must have it */
};

/* Requests a second; 0 and a line on stderr if something went wrong. */
int64_t http_load_run(const struct http_load *load);

#endif
