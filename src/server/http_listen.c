#include "server/http_listen.h"
#include "server/http.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTEN_BACKLOG = 1024, HOST_BYTES = 64, PORT_BYTES = 8 };

/* "127.0.0.1:7070" and "[::1]:7070" into their two parts. */
static bool split(const char *listen, char host[HOST_BYTES], char port[PORT_BYTES])
{
    const char *colon = strrchr(listen, ':');
    if (colon == NULL) return false;
    const char *from = listen, *end = colon;
    if (*from == '[') {
        if (end - from < 2 || end[-1] != ']') return false;
        from++;
        end--;
    }
    size_t digits = strspn(colon + 1, "0123456789");
    if (end <= from || end - from >= HOST_BYTES) return false;
    if (digits == 0 || digits >= PORT_BYTES || colon[1 + digits] != '\0') return false;
    (void)snprintf(host, HOST_BYTES, "%.*s", (int)(end - from), from);
    (void)snprintf(port, PORT_BYTES, "%s", colon + 1);
    return atoi(port) <= 65535;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 in6;
    memcpy(&in6, address, sizeof in6);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

static bool write_url(int fd, const char *host, char *ret_url)
{
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0) return false;
    bool is_v6 = bound.ss_family == AF_INET6;
    in_port_t port;
    const char *at = (const char *)&bound + (is_v6 ? offsetof(struct sockaddr_in6, sin6_port)
                                                   : offsetof(struct sockaddr_in, sin_port));
    memcpy(&port, at, sizeof port);
    (void)snprintf(ret_url, HTTP_URL_BYTES, is_v6 ? "http://[%s]:%u" : "http://%s:%u", host,
                   ntohs(port)); /* fits: the host is short */
    return true;
}

static int refuse(int fd, const char *listen, struct error *ret_error)
{
    if (errno == EADDRINUSE)
        (void)error_set(ret_error,
                        "%s is in use by another program; stop it, or choose another address with "
                        "--listen (port 0: any free one)",
                        listen);
    else
        (void)error_set(ret_error, "cannot listen on %s: %s", listen, error_errno(errno));
    if (fd >= 0) (void)close(fd); /* nothing was written */
    return -1;
}

static int bind_to(const struct addrinfo *found, const char *listen_text, struct error *ret_error)
{
    int one = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return refuse(fd, listen_text, ret_error);
    /* So that a restart does not wait for connections of the run before it to fade. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, LISTEN_BACKLOG) != 0)
        return refuse(fd, listen_text, ret_error);
    return fd;
}

bool http_listen_check(const char *listen, struct error *ret_error)
{
    char host[HOST_BYTES], port[PORT_BYTES];
    if (split(listen, host, port)) return true;
    return error_set(
        ret_error, "listen address \"%s\": expected HOST:PORT, for example 127.0.0.1:7070", listen);
}

int http_listen(const char *listen_text, bool allow_remote, char *ret_url, struct error *ret_error)
{
    char host[HOST_BYTES], port[PORT_BYTES];
    if (!http_listen_check(listen_text, ret_error)) return -1;
    (void)split(listen_text, host, port); /* as checked */
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    int failed = getaddrinfo(host, port, &wanted, &found);
    if (failed != 0) {
        (void)error_set(ret_error, "listen address \"%s\": %s", listen_text, gai_strerror(failed));
        return -1;
    }
    int fd = -1;
    if (allow_remote || is_loopback(found->ai_addr))
        fd = bind_to(found, listen_text, ret_error);
    else
        (void)error_set(ret_error,
                        "listen address \"%s\" is reachable from other machines, and tokens would "
                        "travel unencrypted; use a loopback address, or pass --allow-remote on a "
                        "network you trust (TLS comes in a later release)",
                        listen_text);
    freeaddrinfo(found);
    if (fd >= 0 && !write_url(fd, host, ret_url)) return refuse(fd, listen_text, ret_error);
    return fd;
}
