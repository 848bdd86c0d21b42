#include "peer.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void become(const char *const *argv, const char *const *environment, const int in[2],
                   const int out[2])
{
    for (; environment != NULL && *environment != NULL; environment++)
        if (strchr(*environment, '=') != NULL)
            (void)putenv((char *)(uintptr_t)*environment); /* literals live as long as we do */
        else
            (void)unsetenv(*environment);
    if (dup2(in[0], STDIN_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0) {
        (void)close(in[1]);
        (void)execvp(argv[0], (char **)(uintptr_t)argv);
    }
    _exit(127);
}

static bool read_line(struct peer *peer, char *ret_line, int bytes, struct error *ret_error)
{
    if (fgets(ret_line, bytes, peer->from) == NULL)
        return error_set(ret_error, "the peer ended without an answer");
    ret_line[strcspn(ret_line, "\n")] = '\0';
    return true;
}

bool peer_start(struct peer *ret_peer, const char *const *argv, const char *const *environment,
                struct error *ret_error)
{
    int in[2], out[2];
    *ret_peer = (struct peer){0};
    if (pipe(in) != 0) return error_set(ret_error, "no pipe: %s", error_errno(errno));
    if (pipe(out) != 0) {
        (void)close(in[0]);
        (void)close(in[1]);
        return error_set(ret_error, "no pipe: %s", error_errno(errno));
    }
    ret_peer->process = fork();
    if (ret_peer->process == 0) become(argv, environment, in, out);
    (void)close(in[0]);
    (void)close(out[1]);
    ret_peer->to = fdopen(in[1], "w");
    ret_peer->from = fdopen(out[0], "r");
    bool started = ret_peer->process > 0 && ret_peer->to != NULL && ret_peer->from != NULL &&
                   read_line(ret_peer, ret_peer->name, sizeof ret_peer->name, ret_error);
    if (!started) {
        peer_stop(ret_peer);
        return error_set(ret_error, "%s %s: does not start", argv[0], argv[1]);
    }
    return true;
}

bool peer_ask(struct peer *peer, const char *question, double *ret_answer, struct error *ret_error)
{
    char line[128], *end;
    if (fprintf(peer->to, "%s\n", question) < 0 || fflush(peer->to) != 0)
        return error_set(ret_error, "%s: has ended", peer->name);
    if (!read_line(peer, line, sizeof line, ret_error)) return false;
    *ret_answer = strtod(line, &end);
    if (end == line) return error_set(ret_error, "%s: answered \"%s\"", peer->name, line);
    return true;
}

void peer_stop(struct peer *peer)
{
    if (peer->to != NULL) (void)fclose(peer->to);
    if (peer->from != NULL) (void)fclose(peer->from);
    if (peer->process > 0) (void)waitpid(peer->process, NULL, 0);
    *peer = (struct peer){0};
}
