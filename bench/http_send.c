/* Sends one HTTP request many times and says how fast the answers came: for benchmarks in scripts.
 *
 *     http_send PORT CONNECTIONS COUNT STATUS FILE     FILE: the whole request, head and body
 *
 * Prints answers a second; exit 1 if an answer had another status. */
#include "http_load.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static char request[65536];
    if (argc != 6) {
        fprintf(stderr, "usage: http_send PORT CONNECTIONS COUNT STATUS FILE\n");
        return 2;
    }
    FILE *file = fopen(argv[5], "re");
    if (file == NULL) {
        perror(argv[5]);
        return 1;
    }
    size_t bytes = fread(request, 1, sizeof request - 1, file);
    (void)fclose(file); /* only read */
    request[bytes] = '\0';
    struct http_load load = {.port = atoi(argv[1]),
                             .connection_count = atoi(argv[2]),
                             .request_count = (uint32_t)strtoul(argv[3], NULL, 10),
                             .request = request,
                             .status = atoi(argv[4])};
    int64_t per_s = http_load_run(&load);
    if (per_s == 0) return 1;
    printf("%" PRId64 "\n", per_s);
    return 0;
}
