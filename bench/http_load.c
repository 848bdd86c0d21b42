#include "http_load.h"
#include "base/clock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 256, ANSWER_BYTES = 16384, ANSWER_WAIT_MS = 30000 };

struct connection {
    size_t have;
    char answer[ANSWER_BYTES + 1];
};

static int dial(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) return -1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* else: slower */
    return fd;
}

/* Small enough for the socket buffer: sent in one piece. */
static int send_request(int fd, const char *request)
{
    size_t count = strlen(request);
    return send(fd, request, count, MSG_NOSIGNAL) == (ssize_t)count ? 0 : -1;
}

/* 1: the answer is whole; 0: more to come; -1: wrong. */
static int receive(int fd, struct connection *c, int status)
{
    ssize_t got = recv(fd, c->answer + c->have, ANSWER_BYTES - c->have, 0);
    if (got <= 0) return -1;
    c->have += (size_t)got;
    c->answer[c->have] = '\0';
    const char *end = strstr(c->answer, "\r\n\r\n");
    if (end == NULL) return 0;
    const char *length = strstr(c->answer, "Content-Length: ");
    if (length == NULL || length > end) return -1;
    size_t whole = (size_t)(end + 4 - c->answer) + strtoul(length + 16, NULL, 10);
    if (c->have < whole) return 0;
    c->have = 0;
    return strtol(c->answer + 9, NULL, 10) == status ? 1 : -1;
}

static int run(const struct http_load *load, struct pollfd *polls, struct connection *connections)
{
    uint32_t sent = 0, done = 0;
    for (int i = 0; i < load->connection_count; i++, sent++)
        if (send_request(polls[i].fd, load->request) != 0) return -1;
    while (done < load->request_count) {
        if (poll(polls, (nfds_t)load->connection_count, ANSWER_WAIT_MS) <= 0) return -1;
        for (int i = 0; i < load->connection_count; i++) {
            if (polls[i].revents == 0) continue;
            int whole = receive(polls[i].fd, &connections[i], load->status);
            if (whole < 0) {
                fprintf(stderr, "http_load: unexpected answer: %.200s\n", connections[i].answer);
                return -1;
            }
            done += (uint32_t)whole;
            if (whole == 0 || sent >= load->request_count) continue;
            if (send_request(polls[i].fd, load->request) != 0) return -1;
            sent++;
        }
    }
    return 0;
}

int64_t http_load_run(const struct http_load *load)
{
    struct pollfd polls[CONNECTIONS_MAX];
    struct connection *connections = calloc((size_t)load->connection_count, sizeof *connections);
    int failed = connections == NULL;
    for (int i = 0; i < load->connection_count; i++) {
        polls[i] = (struct pollfd){.fd = dial(load->port), .events = POLLIN};
        failed = failed || polls[i].fd < 0;
    }
    int64_t started_us = clock_monotonic_us();
    failed = failed || run(load, polls, connections) != 0;
    int64_t took_us = clock_monotonic_us() - started_us;
    for (int i = 0; i < load->connection_count; i++)
        if (polls[i].fd >= 0) (void)close(polls[i].fd);
    free(connections);
    if (failed) fprintf(stderr, "http_load: port %d failed: %s\n", load->port, strerror(errno));
    return failed || took_us == 0 ? 0 : (int64_t)load->request_count * 1000000 / took_us;
}
