/* Signed requests to one S3 bucket: one call, one answer, tried again while that can help.
 *
 * Address    s3://BUCKET or s3://BUCKET/PREFIX. Where and as whom (s3_keys.h for the keys):
 *            AWS_REGION or AWS_DEFAULT_REGION (us-east-1), AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL
 *            for other servers than Amazon's; those are asked by path (URL/BUCKET/KEY).
 * Signing    AWS signature version 4 by libcurl. The body's SHA-256 is part of it, so a server
 *            refuses bytes that were changed on the way.
 * Tries      Lost connections, 5xx, 429 and the busy answers of S3 are tried S3_TRIES times in all,
 *            waiting S3_WAIT_MS, then twice as long, each wait random between its half and itself.
 *            An answer that came after a lost one has `uncertain` set: the lost try may have been
 *            carried out.
 * Threads    s3_send() may be called from several threads; each uses a connection of its own.
 */
#ifndef SHOAL_WORKER_STORE_S3_H
#define SHOAL_WORKER_STORE_S3_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum {
    S3_TRIES = 8,
    S3_WAIT_MS = 100,              /* 12 to 25 s in all */
    S3_SILENCE_S = 20,             /* a transfer that moves nothing for so long is given up */
    S3_ANSWER_MAX_BYTES = 4 << 20, /* of answers that are text: a listing has 1,000 rows */
    S3_ETAG_BYTES = 128,
    S3_KEY_BYTES = 1024,
};

struct s3;

struct s3_request {
    const char *method; /* GET, HEAD, PUT, POST, DELETE */
    const char *key;    /* below the prefix, not encoded; "" the bucket itself */
    const char *query;  /* encoded, "name=value&...", sorted by name; NULL: none */
    const char *header; /* one more: "If-Match: ..."; NULL: none */
    const void *body;
    size_t body_bytes;
    uint8_t *into; /* takes a 2xx answer's body, exactly into_bytes; NULL: as text */
    size_t into_bytes;
};

struct s3_answer {
    long status;
    bool uncertain;
    uint64_t length; /* of the object, for HEAD */
    char etag[S3_ETAG_BYTES];
    char *text; /* body, a 0 byte added, or NULL; s3_answer_free */
    size_t text_bytes;
};

struct s3 *s3_open(const char *url, struct error *ret_error);
void s3_close(struct s3 *s3);
const char *s3_prefix(const struct s3 *s3); /* "" or "a/b/" */
const char *s3_url(const struct s3 *s3);    /* s3://BUCKET/PREFIX without a slash at the end */

/* True: 2xx, or one of 404, 409, 412, for which the caller knows what they mean. Else the sentence
 * names the object and says what the server said. */
bool s3_send(struct s3 *s3, const struct s3_request *request, struct s3_answer *ret_answer,
             struct error *ret_error) WARN_UNUSED;
void s3_answer_free(struct s3_answer *answer);
/* Sets the sentence of an answer that the caller did not expect. Always false. */
bool s3_refused(const struct s3 *s3, const struct s3_request *request,
                const struct s3_answer *answer, struct error *ret_error);

/* Percent-encodes as signatures demand; keep_slash: '/' stays. False: no room. */
bool s3_encode(const char *text, bool keep_slash, char *into, size_t room);

#endif
