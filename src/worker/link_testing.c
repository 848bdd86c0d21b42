#include "worker/link_testing.h"
#include "worker/link_shm.h"
#include "worker/link_tcp.h"
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

bool link_pair(enum link_kind kind, uint32_t streams, struct link *end[2])
{
    return kind == LINK_SHM ? shm_pair(end) : tcp_pair(streams, end);
}
