#include "worker/link/link_tcp.h"
#include "worker/link/link_stream.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static bool means_later(int why)
{
    return why == EAGAIN || why == EWOULDBLOCK || why == ENOBUFS;
}

static ssize_t tcp_write(int fd, void *ssl, const struct iovec *piece, int piece_count)
{
    (void)ssl; /* in the clear */
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)piece,
                             .msg_iovlen = (size_t)piece_count};
    ssize_t sent;
    do {
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) return means_later(errno) ? 0 : -1;
    return sent;
}

static ssize_t tcp_read(int fd, void *ssl, void *bytes, size_t count)
{
    (void)ssl; /* in the clear */
    ssize_t got;
    do {
        got = recv(fd, bytes, count, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return means_later(errno) ? 0 : -1;
    return got == 0 ? -1 : got;
}

static void tcp_close(int fd, void *ssl)
{
    (void)ssl;       /* in the clear */
    (void)close(fd); /* what was not sent is of no use to anybody now */
}

static const struct stream_io TCP_IO = {tcp_write, tcp_read, tcp_close};

/* Do both ends have one address, so that nothing leaves this machine? */
static bool stays_here(int fd)
{
    struct sockaddr_in ours, theirs;
    socklen_t ours_bytes = sizeof ours, theirs_bytes = sizeof theirs;
    return getsockname(fd, (struct sockaddr *)&ours, &ours_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&theirs, &theirs_bytes) == 0 &&
           ours.sin_family == AF_INET && theirs.sin_family == AF_INET &&
           ours.sin_addr.s_addr == theirs.sin_addr.s_addr;
}

/* Where nothing can be congested, pacing (as of BBR) only costs timers; reno is always there. */
static void hurry(int fd)
{
    static const char control[] = "reno";
    if (stays_here(fd)) /* only slower if refused */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, sizeof control - 1);
}

struct link *link_tcp_open(const int *fd, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) hurry(fd[i]);
    return link_stream_open(LINK_TCP, &TCP_IO, fd, NULL, count);
}
