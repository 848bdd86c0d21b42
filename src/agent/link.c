#include "agent/link.h"
#include "base/mem.h"
#include "core/assert.h"
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

struct link {
    uv_loop_t *loop;
    uv_timer_t timer;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    link_answer_fn *answer;
    void *self;
    char *request; /* NULL: idle */
    char *body;
    size_t body_bytes, body_room;
    uint32_t polls_open; /* sockets whose loop handle is not closed yet */
    bool closing, timer_closed;
    char reason[CURL_ERROR_SIZE];
};

struct link_socket { /* loop handle of one socket of curl */
    uv_poll_t poll;
    struct link *link;
    curl_socket_t socket;
};

static void free_when_closed(struct link *link)
{
    if (!link->closing || !link->timer_closed || link->polls_open > 0) return;
    mem_free(link->body);
    mem_free(link);
}

static size_t on_body(char *bytes, size_t one, size_t count, void *self)
{
    struct link *link = self;
    (void)one; /* always 1 */
    if (link->body_bytes + count > LINK_ANSWER_BYTES_MAX) return 0;
    if (link->body_bytes + count + 1 > link->body_room) {
        size_t room = 2 * (link->body_bytes + count + 1);
        char *body = mem_realloc(link->body, room);
        if (body == NULL) return 0;
        link->body = body;
        link->body_room = room;
    }
    memcpy(link->body + link->body_bytes, bytes, count);
    link->body_bytes += count;
    return count;
}

static void finish(struct link *link, CURLcode result)
{
    long status = 0;
    (void)curl_easy_getinfo(link->easy, CURLINFO_RESPONSE_CODE, &status); /* known option */
    (void)curl_multi_remove_handle(link->multi, link->easy);              /* it was added */
    mem_free(link->request);
    link->request = NULL;
    if (link->body != NULL) link->body[link->body_bytes] = '\0';
    const char *reason = link->reason[0] != '\0' ? link->reason : curl_easy_strerror(result);
    if (result == CURLE_OK)
        link->answer(link->self, status, link->body == NULL ? "" : link->body, link->body_bytes,
                     "");
    else
        link->answer(link->self, 0, "", 0, reason);
}

static void check_done(struct link *link)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(link->multi, &left)) != NULL;) {
        if (message->msg != CURLMSG_DONE) continue;
        finish(link, message->data.result);
        return; /* one request at a time; the answer may have closed the link */
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct link *link = timer->data;
    int running;
    (void)curl_multi_socket_action(link->multi, CURL_SOCKET_TIMEOUT, 0, &running); /* as messages */
    check_done(link);
}

static int on_curl_timer(CURLM *multi, long timeout_ms, void *self)
{
    struct link *link = self;
    (void)multi;
    if (link->closing) return 0;
    if (timeout_ms < 0)
        (void)uv_timer_stop(&link->timer); /* always 0 */
    else
        (void)uv_timer_start(&link->timer, on_timer, (uint64_t)timeout_ms, 0); /* callback given */
    return 0;
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    struct link_socket *socket = poll->data;
    struct link *link = socket->link;
    int flags = status < 0 ? CURL_CSELECT_ERR : 0, running;
    if (events & UV_READABLE) flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE) flags |= CURL_CSELECT_OUT;
    (void)curl_multi_socket_action(link->multi, socket->socket, flags, &running); /* as messages */
    check_done(link);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct link_socket *socket = handle->data;
    struct link *link = socket->link;
    mem_free(socket);
    link->polls_open--;
    free_when_closed(link);
}

static struct link_socket *open_socket(struct link *link, curl_socket_t fd)
{
    struct link_socket *socket = mem_zalloc(1, sizeof *socket);
    if (socket == NULL) return NULL;
    socket->link = link;
    socket->socket = fd;
    if (uv_poll_init_socket(link->loop, &socket->poll, fd) != 0) {
        mem_free(socket);
        return NULL;
    }
    socket->poll.data = socket;
    link->polls_open++;
    (void)curl_multi_assign(link->multi, fd, socket); /* fails only for unknown sockets */
    return socket;
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *self, void *known)
{
    struct link *link = self;
    struct link_socket *socket = known;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (socket != NULL) uv_close((uv_handle_t *)&socket->poll, on_poll_closed);
        return 0;
    }
    if (socket == NULL) socket = open_socket(link, fd);
    if (socket == NULL) return -1; /* the request fails, the next one tries again */
    int events = what == CURL_POLL_IN    ? UV_READABLE
                 : what == CURL_POLL_OUT ? UV_WRITABLE
                                         : UV_READABLE | UV_WRITABLE;
    return uv_poll_start(&socket->poll, events, on_socket) == 0 ? 0 : -1;
}

static bool is_loopback(const char *url)
{
    const char *host = strstr(url, "://");
    host = host == NULL ? url : host + 3;
    return strncmp(host, "127.", 4) == 0 || strncmp(host, "localhost", 9) == 0 ||
           strncmp(host, "[::1]", 5) == 0;
}

static bool set_options(struct link *link, const char *url, const char *token)
{
    char *authorization = mem_printf("Authorization: Bearer %s", token);
    if (authorization == NULL) return false;
    const char *const lines[] = {authorization, "Content-Type: application/json", "Expect:"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct curl_slist *longer = curl_slist_append(link->headers, lines[i]);
        if (longer == NULL) break;
        link->headers = longer;
    }
    memset(authorization, 0, strlen(authorization));
    mem_free(authorization);
    CURL *easy = link->easy;
    bool good = curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, link->headers) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_WRITEDATA, link) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, link->reason) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    if (is_loopback(url)) good &= curl_easy_setopt(easy, CURLOPT_NOPROXY, "*") == CURLE_OK;
    good &= curl_multi_setopt(link->multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket) == CURLM_OK;
    good &= curl_multi_setopt(link->multi, CURLMOPT_SOCKETDATA, link) == CURLM_OK;
    good &= curl_multi_setopt(link->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer) == CURLM_OK;
    good &= curl_multi_setopt(link->multi, CURLMOPT_TIMERDATA, link) == CURLM_OK;
    return good;
}

struct link *link_open(uv_loop_t *loop, const char *url, const char *token, link_answer_fn *answer,
                       void *self, struct error *ret_error)
{
    struct link *link = mem_zalloc(1, sizeof *link);
    if (link == NULL) {
        (void)error_set(ret_error, "%s: out of memory", url);
        return NULL;
    }
    link->loop = loop;
    link->answer = answer;
    link->self = self;
    link->multi = curl_multi_init();
    link->easy = curl_easy_init();
    if (link->multi == NULL || link->easy == NULL || !set_options(link, url, token)) {
        (void)error_set(ret_error,
                        "%s: not an address this agent can post to; expected "
                        "http://HOST:PORT or https://HOST:PORT",
                        url);
        curl_easy_cleanup(link->easy);
        if (link->multi != NULL) (void)curl_multi_cleanup(link->multi); /* nothing was added */
        curl_slist_free_all(link->headers);
        mem_free(link);
        return NULL;
    }
    (void)uv_timer_init(loop, &link->timer); /* always 0 */
    link->timer.data = link;
    return link;
}

bool link_is_busy(const struct link *link)
{
    return link->request != NULL;
}

void link_post(struct link *link, char *body, int64_t timeout_ms)
{
    ASSERT(link->request == NULL);
    link->request = body;
    link->body_bytes = 0;
    link->reason[0] = '\0';
    /* Known options with plain values: they cannot fail. */
    (void)curl_easy_setopt(link->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    (void)curl_easy_setopt(link->easy, CURLOPT_POSTFIELDS, body);
    (void)curl_easy_setopt(link->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    (void)curl_multi_add_handle(link->multi, link->easy); /* it is not in it: idle */
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    link->timer_closed = true;
    free_when_closed(link);
}

void link_close(struct link *link)
{
    if (link == NULL) return;
    link->closing = true;
    if (link->request != NULL)
        (void)curl_multi_remove_handle(link->multi, link->easy); /* it was added */
    mem_free(link->request);
    link->request = NULL;
    curl_easy_cleanup(link->easy);
    (void)curl_multi_cleanup(link->multi); /* gives its sockets back through on_curl_socket */
    curl_slist_free_all(link->headers);
    uv_close((uv_handle_t *)&link->timer, on_timer_closed);
}
