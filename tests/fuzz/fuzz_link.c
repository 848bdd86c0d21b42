/* A peer that sends anything over a link. First byte even: bytes of a TCP stream. Odd: the shared
 * memory of a ring as the other side might leave it: its head, its tail, then what lies in it. */
#include "worker/link/link_shm.h"
#include "worker/link/link_testing.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static volatile uint8_t sink; /* every byte handed out must be readable */

static void read_all(struct link *link)
{
    struct link_message message;
    for (int i = 0; i < 64 && link_receive(link, &message) == LINK_DONE; i++) {
        if (message.header_bytes > LINK_HEADER_MAX || message.payload_bytes > LINK_PAYLOAD_MAX)
            abort();
        for (size_t k = 0; k < message.header_bytes; k++) sink = message.header[k];
        for (size_t k = 0; k < message.payload_bytes; k += 61) sink = message.payload[k];
        if (message.payload_bytes > 0) sink = message.payload[message.payload_bytes - 1];
        link_release(link);
    }
}

static void feed_stream(const uint8_t *bytes, size_t count)
{
    struct link *end[2];
    int fd[LINK_STREAMS_MAX];
    if (!link_pair(LINK_TCP, 1, end)) return;
    (void)end[0]->ops->descriptors(end[0], fd);
    for (size_t at = 0; at < count;) {
        size_t part = count - at < 1000 ? count - at : 1000;
        if (send(fd[0], bytes + at, part, MSG_NOSIGNAL) != (ssize_t)part) break;
        at += part;
        read_all(end[1]);
    }
    link_close(end[0]);
    link_close(end[1]);
}

static void feed_ring(const uint8_t *bytes, size_t count)
{
    int fd[2], memory = link_shm_make();
    if (count < 16 || memory < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) != 0)
        return;
    uint8_t *shared = mmap(NULL, LINK_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    struct link *link = link_shm_open(fd[0], memory, true);
    if (shared == MAP_FAILED || link == NULL) abort();
    memcpy(shared + LINK_SHM_HEAD_OFFSET, bytes, 8);
    memcpy(shared + LINK_SHM_TAIL_OFFSET, bytes + 8, 8);
    size_t left = count - 16 < LINK_RING_BYTES ? count - 16 : LINK_RING_BYTES;
    memcpy(shared + LINK_SHM_BYTES - LINK_RING_BYTES, bytes + 16, left);
    read_all(link);
    struct span span = {bytes, count < LINK_PAYLOAD_MAX ? count : LINK_PAYLOAD_MAX};
    for (int i = 0; i < 20 && link_send(link, bytes, 16, &span, 1) == LINK_DONE; i++) {}
    link_close(link);
    (void)munmap(shared, LINK_SHM_BYTES); /* mapped above */
    (void)close(memory);
    (void)close(fd[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count < 1) return 0;
    if (bytes[0] % 2 == 0)
        feed_stream(bytes + 1, count - 1);
    else
        feed_ring(bytes + 1, count - 1);
    return 0;
}
