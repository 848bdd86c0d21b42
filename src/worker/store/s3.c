#include "worker/store/s3.h"
#include "base/clock.h"
#include "base/mem.h"
#include "worker/store/s3_keys.h"
#include "worker/store/s3_xml.h"
#include <curl/curl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { POOL = 16, NAME_BYTES = 256, URL_BYTES = 8192, SHA_TEXT_BYTES = 65 };

struct s3 {
    char bucket[NAME_BYTES], region[NAME_BYTES];
    char base[1024]; /* scheme, host and, by path, the bucket: what keys are added to */
    char prefix[S3_KEY_BYTES], url[S3_KEY_BYTES + NAME_BYTES + 8];
    pthread_mutex_t lock; /* of what follows */
    struct s3_keys keys;
    bool has_keys;
    CURL *idle[POOL];
    uint32_t idle_count;
    uint64_t random;
};

/* One try: what the callbacks of libcurl see. */
struct attempt {
    const struct s3_request *request;
    struct s3_answer *answer;
    size_t sent, got;
    bool into_ok; /* the status is 2xx: the body is what was asked for */
    CURL *curl;
    char reason[CURL_ERROR_SIZE];
};

static void start_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* a failure shows in curl_easy_init() */
}

static const char *environment(const char *name, const char *other)
{
    const char *value = getenv(name);
    if (value != NULL && value[0] != '\0') return value;
    value = other == NULL ? NULL : getenv(other);
    return value == NULL ? "" : value;
}

bool s3_encode(const char *text, bool keep_slash, char *into, size_t room)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    size_t at = 0;
    for (; *text != '\0'; text++) {
        bool as_is = strchr(plain, *text) != NULL || (keep_slash && *text == '/');
        if (at + 4 > room) return false;
        if (as_is)
            into[at++] = *text;
        else
            at += (size_t)snprintf(into + at, 4, "%%%02X", (unsigned char)*text);
    }
    if (at >= room) return false;
    into[at] = '\0';
    return true;
}

static bool bucket_is_sound(const char *bucket)
{
    size_t length = strlen(bucket);
    if (length < 3 || length > 63) return false;
    for (const char *at = bucket; *at != '\0'; at++)
        if (strchr("abcdefghijklmnopqrstuvwxyz0123456789-.", *at) == NULL) return false;
    return bucket[0] != '.' && bucket[0] != '-';
}

/* "s3://bucket/prefix/" into its parts. */
static bool read_url(struct s3 *s3, const char *url, struct error *ret_error)
{
    const char *at = strncmp(url, "s3://", 5) == 0 ? url + 5 : "", *slash = strchr(at, '/');
    size_t count = slash == NULL ? strlen(at) : (size_t)(slash - at);
    if (count < sizeof s3->bucket) memcpy(s3->bucket, at, count);
    if (count >= sizeof s3->bucket || !bucket_is_sound(s3->bucket))
        return error_set(ret_error,
                         "%.100s: expected s3://BUCKET or s3://BUCKET/PREFIX with a bucket's name "
                         "of 3 to 63 small letters, digits, - and .",
                         url);
    const char *prefix = slash == NULL ? "" : slash + 1;
    size_t length = strlen(prefix);
    while (length > 0 && prefix[length - 1] == '/') length--;
    if (length + 256 > sizeof s3->prefix)
        return error_set(ret_error, "%.100s: the prefix is longer than %zu characters", url,
                         sizeof s3->prefix - 256);
    snprintf(s3->prefix, sizeof s3->prefix, "%.*s%s", (int)length, prefix, length > 0 ? "/" : "");
    snprintf(s3->url, sizeof s3->url, "s3://%s%s%.*s", s3->bucket, length > 0 ? "/" : "",
             (int)length, prefix);
    return true;
}

static bool read_place(struct s3 *s3, struct error *ret_error)
{
    const char *region = environment("AWS_REGION", "AWS_DEFAULT_REGION"),
               *endpoint = environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    if (region[0] == '\0') region = "us-east-1";
    if (strlen(region) >= 64 ||
        strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(region))
        return error_set(ret_error, "AWS_REGION=%.80s: expected a region such as eu-west-1",
                         region);
    snprintf(s3->region, sizeof s3->region, "%s", region);
    size_t length = strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/') length--;
    bool http = strncmp(endpoint, "http://", 7) == 0 || strncmp(endpoint, "https://", 8) == 0;
    if (length > 512 || (length > 0 && !http))
        return error_set(ret_error,
                         "AWS_ENDPOINT_URL=%.80s: expected http://HOST:PORT or https://HOST:PORT",
                         endpoint);
    if (length > 0)
        snprintf(s3->base, sizeof s3->base, "%.*s/%s", (int)length, endpoint, s3->bucket);
    else if (strchr(s3->bucket, '.') != NULL) /* no certificate has such a host */
        snprintf(s3->base, sizeof s3->base, "https://s3.%s.amazonaws.com/%s", s3->region,
                 s3->bucket);
    else
        snprintf(s3->base, sizeof s3->base, "https://%s.s3.%s.amazonaws.com", s3->bucket,
                 s3->region);
    return true;
}

struct s3 *s3_open(const char *url, struct error *ret_error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, start_curl); /* cannot fail with a static control */
    struct s3 *s3 = mem_zalloc(1, sizeof *s3);
    if (s3 == NULL) {
        (void)error_set(ret_error, "%.100s: out of memory", url);
        return NULL;
    }
    s3->random = (uint64_t)clock_monotonic_us() | 1;
    if (!read_url(s3, url, ret_error) || !read_place(s3, ret_error)) {
        mem_free(s3);
        return NULL;
    }
    (void)pthread_mutex_init(&s3->lock, NULL); /* no attributes: cannot fail on Linux */
    return s3;
}

void s3_close(struct s3 *s3)
{
    for (uint32_t i = 0; i < s3->idle_count; i++) curl_easy_cleanup(s3->idle[i]);
    (void)pthread_mutex_destroy(&s3->lock); /* nobody holds it */
    mem_free(s3);
}

const char *s3_prefix(const struct s3 *s3)
{
    return s3->prefix;
}

const char *s3_url(const struct s3 *s3)
{
    return s3->url;
}

void s3_answer_free(struct s3_answer *answer)
{
    mem_free(answer->text);
    answer->text = NULL;
}

static CURL *borrow(struct s3 *s3)
{
    (void)pthread_mutex_lock(&s3->lock); /* fails only on misuse */
    CURL *curl = s3->idle_count > 0 ? s3->idle[--s3->idle_count] : NULL;
    (void)pthread_mutex_unlock(&s3->lock);
    return curl == NULL ? curl_easy_init() : curl;
}

static void give_back(struct s3 *s3, CURL *curl)
{
    if (curl == NULL) return;
    curl_easy_reset(curl); /* keeps the connection */
    (void)pthread_mutex_lock(&s3->lock);
    bool keep = s3->idle_count < POOL;
    if (keep) s3->idle[s3->idle_count++] = curl;
    (void)pthread_mutex_unlock(&s3->lock);
    if (!keep) curl_easy_cleanup(curl);
}

static bool get_keys(struct s3 *s3, struct s3_keys *ret_keys, struct error *ret_error)
{
    (void)pthread_mutex_lock(&s3->lock);
    bool fine = s3->has_keys && clock_monotonic_us() < s3->keys.until_us;
    if (!fine) fine = s3->has_keys = s3_keys_load(&s3->keys, ret_error);
    if (fine) *ret_keys = s3->keys;
    (void)pthread_mutex_unlock(&s3->lock);
    return fine;
}

static size_t on_read(char *into, size_t one, size_t room, void *self)
{
    struct attempt *attempt = self;
    size_t left = attempt->request->body_bytes - attempt->sent, count = one * room;
    if (count > left) count = left;
    memcpy(into, (const uint8_t *)attempt->request->body + attempt->sent, count);
    attempt->sent += count;
    return count;
}

/* libcurl rewinds when it sends the body again on a new connection. */
static int on_seek(void *self, curl_off_t offset, int origin)
{
    struct attempt *attempt = self;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > attempt->request->body_bytes)
        return CURL_SEEKFUNC_CANTSEEK;
    attempt->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t on_body(char *bytes, size_t one, size_t room, void *self)
{
    struct attempt *attempt = self;
    const struct s3_request *request = attempt->request;
    struct s3_answer *answer = attempt->answer;
    size_t count = one * room;
    long status = 0;
    (void)curl_easy_getinfo(attempt->curl, CURLINFO_RESPONSE_CODE, &status); /* known by now */
    if (request->into != NULL && status / 100 == 2) {
        if (count > request->into_bytes - attempt->got) return 0; /* more than asked for */
        memcpy(request->into + attempt->got, bytes, count);
        attempt->got += count;
        return count;
    }
    if (answer->text_bytes + count > S3_ANSWER_MAX_BYTES) return 0;
    char *grown = mem_realloc(answer->text, answer->text_bytes + count + 1);
    if (grown == NULL) return 0;
    memcpy(grown + answer->text_bytes, bytes, count);
    answer->text = grown;
    answer->text_bytes += count;
    grown[answer->text_bytes] = '\0';
    return count;
}

static size_t on_header(char *line, size_t one, size_t room, void *self)
{
    struct attempt *attempt = self;
    size_t count = one * room, at = 5, end = count;
    if (count < 6 || strncasecmp(line, "ETag:", 5) != 0) return count;
    while (at < end && line[at] == ' ') at++;
    while (end > at && (line[end - 1] == '\r' || line[end - 1] == '\n')) end--;
    if (end - at < S3_ETAG_BYTES)
        snprintf(attempt->answer->etag, S3_ETAG_BYTES, "%.*s", (int)(end - at), line + at);
    return count;
}

static bool sha256(const void *bytes, size_t count, char text[SHA_TEXT_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    if (EVP_Digest(bytes, count, digest, &length, EVP_sha256(), NULL) != 1) return false;
    for (unsigned int i = 0; i < length; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return true;
}

static struct curl_slist *append(struct curl_slist *list, const char *line, bool *fine)
{
    struct curl_slist *longer = *fine ? curl_slist_append(list, line) : NULL;
    if (longer == NULL) *fine = false;
    return longer == NULL ? list : longer;
}

static struct curl_slist *make_headers(const struct s3_request *request, const char *sha,
                                       const struct s3_keys *keys, bool *ret_fine)
{
    char line[S3_TOKEN_BYTES + 64];
    struct curl_slist *list = NULL;
    *ret_fine = true;
    snprintf(line, sizeof line, "x-amz-content-sha256: %s", sha);
    list = append(list, line, ret_fine);
    if (keys->token[0] != '\0') {
        snprintf(line, sizeof line, "x-amz-security-token: %s", keys->token);
        list = append(list, line, ret_fine);
    }
    if (request->header != NULL) list = append(list, request->header, ret_fine);
    if (request->body_bytes > 0)
        list = append(list, "Content-Type: application/octet-stream", ret_fine);
    return list;
}

static bool make_url(const struct s3 *s3, const struct s3_request *request, char *into, size_t room)
{
    char key[S3_KEY_BYTES * 3 + 1], full[2 * S3_KEY_BYTES];
    bool bucket = request->key[0] == '\0';
    snprintf(full, sizeof full, "%s%s", bucket ? "" : s3->prefix, request->key);
    if (!s3_encode(full, true, key, sizeof key)) return false;
    int length = snprintf(into, room, "%s/%s%s%s", s3->base, key, request->query != NULL ? "?" : "",
                          request->query != NULL ? request->query : "");
    return length > 0 && (size_t)length < room;
}

static void set_options(const struct s3 *s3, struct attempt *attempt, const char *url,
                        const char *user, const char *sign, struct curl_slist *headers)
{
    CURL *curl = attempt->curl;
    const struct s3_request *request = attempt->request;
    (void)s3;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, sign);
    curl_easy_setopt(curl, CURLOPT_USERPWD, user);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, attempt);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, attempt);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, attempt->reason);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)S3_SILENCE_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)S3_SILENCE_S);
    /* "Expect:" as a header would be signed, but not sent; so do not wait for the answer to it. */
    curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L * 1024);
    curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 1024L * 1024);
    if (strcmp(request->method, "HEAD") == 0) {
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    } else if (strcmp(request->method, "PUT") == 0) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_bytes);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(curl, CURLOPT_READDATA, attempt);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, attempt);
    } else if (strcmp(request->method, "POST") == 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_bytes);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body == NULL ? "" : request->body);
    } else if (strcmp(request->method, "GET") != 0) {
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    }
}

/* False: no answer, and `reason` says why. */
static bool try_once(struct s3 *s3, struct attempt *attempt, const struct s3_keys *keys,
                     const char *sha)
{
    char url[URL_BYTES], user[S3_KEY_ID_BYTES + S3_SECRET_BYTES + 2], sign[NAME_BYTES + 16];
    bool fine;
    struct curl_slist *headers = make_headers(attempt->request, sha, keys, &fine);
    snprintf(user, sizeof user, "%s:%s", keys->id, keys->secret);
    snprintf(sign, sizeof sign, "aws:amz:%s:s3", s3->region);
    snprintf(attempt->reason, sizeof attempt->reason, "out of memory, or a name is too long");
    attempt->curl = borrow(s3);
    fine = fine && attempt->curl != NULL && make_url(s3, attempt->request, url, sizeof url);
    if (fine) {
        attempt->reason[0] = '\0';
        set_options(s3, attempt, url, user, sign, headers);
        CURLcode code = curl_easy_perform(attempt->curl);
        curl_off_t length = 0;
        (void)curl_easy_getinfo(attempt->curl, CURLINFO_RESPONSE_CODE, &attempt->answer->status);
        (void)curl_easy_getinfo(attempt->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
        attempt->answer->length = length < 0 ? 0 : (uint64_t)length;
        fine = code == CURLE_OK;
        if (!fine && attempt->reason[0] == '\0')
            snprintf(attempt->reason, sizeof attempt->reason, "%s", curl_easy_strerror(code));
    }
    if (fine && attempt->request->into != NULL && attempt->answer->status / 100 == 2 &&
        attempt->got != attempt->request->into_bytes) {
        snprintf(attempt->reason, sizeof attempt->reason, "the answer has %zu bytes instead of %zu",
                 attempt->got, attempt->request->into_bytes);
        fine = false;
    }
    give_back(s3, attempt->curl);
    curl_slist_free_all(headers);
    return fine;
}

/* Busy, broken for the moment, or a conflict with another write of the same name. */
static bool may_pass(const struct s3_answer *answer)
{
    char code[64] = "";
    if (answer->status >= 500 || answer->status == 429) return true;
    struct s3_text text = {answer->text == NULL ? "" : answer->text, answer->text_bytes};
    (void)s3_xml_copy(text, "Code", code, sizeof code); /* "": no code */
    return strcmp(code, "RequestTimeout") == 0 || strcmp(code, "ConditionalRequestConflict") == 0 ||
           strcmp(code, "OperationAborted") == 0 || strcmp(code, "SlowDown") == 0 ||
           strcmp(code, "InternalError") == 0; /* with status 200 too: CompleteMultipartUpload */
}

static void wait_before(struct s3 *s3, uint32_t tries)
{
    (void)pthread_mutex_lock(&s3->lock);
    s3->random ^= s3->random << 13; /* xorshift64: only spreads the tries of many workers */
    s3->random ^= s3->random >> 7;
    s3->random ^= s3->random << 17;
    uint64_t random = s3->random;
    (void)pthread_mutex_unlock(&s3->lock);
    int64_t ms = (int64_t)S3_WAIT_MS << (tries - 1);
    ms = ms / 2 + (int64_t)(random % (uint64_t)(ms / 2 + 1));
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&pause, NULL); /* cut short: tried sooner */
}

bool s3_refused(const struct s3 *s3, const struct s3_request *request,
                const struct s3_answer *answer, struct error *ret_error)
{
    char code[96] = "", message[256] = "", region[64] = "";
    struct s3_text text = {answer->text == NULL ? "" : answer->text, answer->text_bytes};
    (void)s3_xml_copy(text, "Code", code, sizeof code); /* each may be missing */
    (void)s3_xml_copy(text, "Message", message, sizeof message);
    (void)s3_xml_copy(text, "Region", region, sizeof region);
    const char *advice = "";
    if (answer->status == 301 || region[0] != '\0')
        advice = "; set AWS_REGION to the bucket's region";
    else if (strcmp(code, "RequestTimeTooSkewed") == 0)
        advice = "; set this machine's clock";
    else if (answer->status == 401 || answer->status == 403)
        advice = "; check the keys and that they may read and write there";
    else if (strcmp(code, "NoSuchBucket") == 0)
        advice = "; make the bucket first";
    return error_set(ret_error, "%s/%s: %s refused: %ld %s%s%s%s", s3->url, request->key,
                     request->method, answer->status, code, message[0] == '\0' ? "" : ": ", message,
                     advice);
}

static bool is_expected(long status)
{
    return status / 100 == 2 || status == 404 || status == 409 || status == 412;
}

bool s3_send(struct s3 *s3, const struct s3_request *request, struct s3_answer *ret_answer,
             struct error *ret_error)
{
    struct s3_keys keys;
    char sha[SHA_TEXT_BYTES] = "";
    bool uncertain = false;
    *ret_answer = (struct s3_answer){0};
    if (!sha256(request->body == NULL ? "" : request->body, request->body_bytes, sha))
        return error_set(ret_error, "%s/%s: SHA-256 failed", s3->url, request->key);
    for (uint32_t tries = 1;; tries++) {
        if (!get_keys(s3, &keys, ret_error))
            return error_prefix(ret_error, "%s/%s", s3->url, request->key);
        struct attempt attempt = {.request = request, .answer = ret_answer};
        bool answered = try_once(s3, &attempt, &keys, sha);
        if (answered && !may_pass(ret_answer)) break;
        if (tries == S3_TRIES) {
            if (answered)
                (void)s3_refused(s3, request, ret_answer, ret_error);
            else
                (void)error_set(ret_error, "%s/%s: %s failed: %s", s3->url, request->key,
                                request->method, attempt.reason);
            s3_answer_free(ret_answer);
            return error_prefix(ret_error, "given up after %d tries", S3_TRIES);
        }
        uncertain = true; /* a 5xx too may come after the deed */
        s3_answer_free(ret_answer);
        *ret_answer = (struct s3_answer){0};
        wait_before(s3, tries);
    }
    ret_answer->uncertain = uncertain;
    if (is_expected(ret_answer->status)) return true;
    (void)s3_refused(s3, request, ret_answer, ret_error);
    s3_answer_free(ret_answer);
    return false;
}
