/* One HTTP request at a time to the server, on the agent's loop.
 *
 * Role       libcurl's multi interface driven by libuv's sockets and timer, so that a slow server
 *            never blocks the handling of workers. The connection is kept between requests.
 * Answer     The callback comes from the loop, once per link_post(), never from inside it: HTTP
 *            status and body, or status 0 and a sentence when there was no answer.
 * Bounds     An answer above LINK_ANSWER_BYTES_MAX or slower than timeout_ms counts as none.
 * Proxy      A loopback server is reached directly, others as the environment says (http_proxy).
 */
#ifndef SHOAL_AGENT_LINK_H
#define SHOAL_AGENT_LINK_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { LINK_ANSWER_BYTES_MAX = 16 << 20 };

struct link;

typedef void link_answer_fn(void *self, long status, const char *body, size_t bytes,
                            const char *sentence);

/* url: the whole address to post to. token: the bearer token. Both are copied. */
struct link *link_open(uv_loop_t *loop, const char *url, const char *token, link_answer_fn *answer,
                       void *self, struct error *ret_error) WARN_UNUSED;

/* Takes the body over (mem_free). Only when no request is in flight. */
void link_post(struct link *link, char *body, int64_t timeout_ms);
bool link_is_busy(const struct link *link);

/* No callback comes after it. Its loop handles close during the next turns of the loop. */
void link_close(struct link *link);

#endif
