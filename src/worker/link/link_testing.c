#include "worker/link/link_testing.h"
#include "worker/link/link_shm.h"
#include "worker/link/link_tcp.h"
#include "worker/link/link_tls.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

bool link_socket_pair(int fd[2])
{
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof local;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&local, sizeof local) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&local, &bytes) != 0)
        return false;
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = connect(fd[0], (struct sockaddr *)&local, sizeof local) == 0;
    fd[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    (void)close(listener); /* its one connection was taken */
    return fine && fd[1] >= 0 && fcntl(fd[0], F_SETFL, O_NONBLOCK) == 0;
}

static bool shm_pair(struct link *end[2])
{
    int fd[2], memory = link_shm_make();
    if (memory < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) != 0)
        return false;
    for (int i = 0; i < 2; i++) end[i] = link_shm_open(fd[i], memory, i == 0);
    (void)close(memory); /* mapped twice */
    return end[0] != NULL && end[1] != NULL;
}

static bool tcp_pair(uint32_t streams, struct link *end[2])
{
    int fd[2][LINK_STREAMS_MAX];
    for (uint32_t i = 0; i < streams; i++) {
        int pair[2];
        if (!link_socket_pair(pair)) return false;
        fd[0][i] = pair[0];
        fd[1][i] = pair[1];
    }
    for (int i = 0; i < 2; i++) end[i] = link_tcp_open(fd[i], streams);
    return end[0] != NULL && end[1] != NULL;
}

static bool shake(void *ssl[2])
{
    enum link_result result[2] = {LINK_AGAIN, LINK_AGAIN};
    for (int i = 0; i < 100000 && result[0] != LINK_LOST && result[1] != LINK_LOST; i++) {
        if (result[0] == LINK_DONE && result[1] == LINK_DONE) return true;
        if (result[i % 2] == LINK_AGAIN) result[i % 2] = tls_handshake(ssl[i % 2]);
    }
    return false;
}

/* One shaken stream. False: everything of it is closed. */
static bool tls_stream(struct tls_keys *keys[2], int fd[2], void *ssl[2])
{
    if (!link_socket_pair(fd)) return false;
    for (int i = 0; i < 2; i++) ssl[i] = tls_start(keys[i], fd[i], i == 0);
    if (ssl[0] != NULL && ssl[1] != NULL && shake(ssl)) return true;
    for (int i = 0; i < 2; i++) {
        tls_end(ssl[i]);
        (void)close(fd[i]); /* of no use without the other */
    }
    return false;
}

bool link_tls_pair(const char *token[2], uint32_t streams, struct link *end[2])
{
    int fd[2][LINK_STREAMS_MAX];
    void *ssl[2][LINK_STREAMS_MAX];
    struct tls_keys *keys[2] = {tls_keys_open(token[0]), tls_keys_open(token[1])};
    bool fine = keys[0] != NULL && keys[1] != NULL;
    uint32_t count = 0;
    for (; count < streams && fine; count += fine) {
        int pair[2];
        void *both[2];
        fine = tls_stream(keys, pair, both);
        for (int k = 0; k < 2 && fine; k++) {
            fd[k][count] = pair[k];
            ssl[k][count] = both[k];
        }
    }
    for (int i = 0; i < 2; i++) { /* the contexts are counted: ssl objects keep theirs */
        end[i] = fine ? link_tls_open(fd[i], ssl[i], streams) : NULL;
        for (uint32_t k = 0; k < count && end[i] == NULL; k++) {
            tls_end(ssl[i][k]);
            (void)close(fd[i][k]); /* what a link would have taken over */
        }
        tls_keys_close(keys[i]);
    }
    return end[0] != NULL && end[1] != NULL;
}

bool link_pair(enum link_kind kind, uint32_t streams, struct link *end[2])
{
    const char *token[2] = {"one token", "one token"};
    if (kind == LINK_TLS) return link_tls_pair(token, streams, end);
    return kind == LINK_SHM ? shm_pair(end) : tcp_pair(streams, end);
}
