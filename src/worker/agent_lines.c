#include "worker/agent_lines.h"
#include "base/mem.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool agent_lines_open(struct agent_lines *agent)
{
    agent->in = mem_alloc(AGENT_LINE_MAX_BYTES);
    return agent->in != NULL;
}

void agent_lines_close(struct agent_lines *agent)
{
    if (agent->fd >= 0) (void)close(agent->fd); /* nothing to lose in it */
    mem_free(agent->in);
    mem_free(agent->out);
}

void agent_lines_send(struct agent_lines *agent, const char *line)
{
    size_t count = strlen(line) + 1;
    if (agent->fd < 0) return;
    if (agent->out_count + count > agent->out_bytes) {
        size_t bytes = (agent->out_count + count) * 2;
        bool fits = bytes <= 64u * AGENT_LINE_MAX_BYTES;
        char *grown = fits ? mem_realloc(agent->out, bytes) : NULL;
        if (grown == NULL) return; /* the agent does not read: progress is repeated by others */
        agent->out = grown;
        agent->out_bytes = bytes;
    }
    memcpy(agent->out + agent->out_count, line, count - 1);
    agent->out[agent->out_count + count - 1] = '\n';
    agent->out_count += count;
}

static void lose(struct agent_lines *agent)
{
    if (agent->fd < 0) return;
    (void)close(agent->fd); /* the other end is gone */
    agent->fd = -1;
    agent->on_gone(agent->self);
}

void agent_lines_flush(struct agent_lines *agent)
{
    while (agent->fd >= 0 && agent->out_count > 0) {
        ssize_t sent = send(agent->fd, agent->out, agent->out_count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (sent <= 0) {
            lose(agent);
            return;
        }
        memmove(agent->out, agent->out + sent, agent->out_count - (size_t)sent);
        agent->out_count -= (size_t)sent;
    }
}

static void split(struct agent_lines *agent)
{
    char *start = agent->in, *end = agent->in + agent->in_count, *newline;
    while ((newline = memchr(start, '\n', (size_t)(end - start))) != NULL) {
        *newline = '\0';
        agent->on_line(agent->self, start);
        start = newline + 1;
    }
    agent->in_count = (size_t)(end - start);
    memmove(agent->in, start, agent->in_count);
}

void agent_lines_read(struct agent_lines *agent)
{
    while (agent->fd >= 0) {
        ssize_t got = recv(agent->fd, agent->in + agent->in_count,
                           AGENT_LINE_MAX_BYTES - agent->in_count, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (got <= 0) {
            lose(agent);
            return;
        }
        agent->in_count += (size_t)got;
        split(agent);
        if (agent->in_count == AGENT_LINE_MAX_BYTES) agent->in_count = 0; /* none is that long */
    }
}

bool agent_lines_all_sent(const struct agent_lines *agent)
{
    return agent->out_count == 0 || agent->fd < 0;
}
