#include "cli/client.h"
#include "base/io.h"
#include "base/mem.h"
#include <curl/curl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_DATA "shoal-data"
#define DEFAULT_URL  "http://127.0.0.1:7070"
enum {
    SMALL_FILE_BYTES_MAX = 64 * 1024,
    REPLY_BYTES_MAX = 256 * 1024 * 1024, /* a year of decisions is smaller; more is a fault */
    CONNECT_TIMEOUT_MS = 3000,
    CALL_TIMEOUT_MS = 10000,
};

struct client {
    CURL *curl;
    char *url, *token_path;
    char *token; /* NULL: none found; the server will say so */
};

struct body {
    char *bytes;
    size_t count, capacity;
};

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

/* The url of a running server's own note; NULL: there is none. */
static char *url_of_data(const char *data)
{
    char *path = mem_printf("%s/server.json", data), *bytes = NULL, *url = NULL;
    size_t count;
    if (path != NULL && io_read_file(path, SMALL_FILE_BYTES_MAX, &bytes, &count, NULL)) {
        json_t *note = json_loads(bytes, 0, NULL);
        const char *found = json_string_value(json_object_get(note, "url"));
        if (found != NULL) url = mem_strdup(found);
        json_decref(note);
    }
    mem_free(bytes);
    mem_free(path);
    return url;
}

static char *find_url(const struct client_options *options, const char *data)
{
    const char *given = options->server != NULL ? options->server : environment("SHOAL_SERVER");
    char *url = given != NULL ? mem_strdup(given) : NULL;
    if (url == NULL && given == NULL) url = url_of_data(data);
    if (url == NULL) url = mem_strdup(DEFAULT_URL);
    size_t length = url == NULL ? 0 : strlen(url);
    while (length > 0 && url[length - 1] == '/') url[--length] = '\0';
    return url;
}

static void read_token(struct client *client)
{
    size_t count;
    if (!io_read_file(client->token_path, SMALL_FILE_BYTES_MAX, &client->token, &count, NULL))
        return;
    client->token[strcspn(client->token, "\r\n")] = '\0';
}

struct client *client_open(const struct client_options *options, struct error *ret_error)
{
    const char *data = options->data != NULL ? options->data : DEFAULT_DATA;
    const char *token_file = environment("SHOAL_TOKEN_FILE");
    struct client *client = mem_zalloc(1, sizeof *client);
    if (client == NULL) goto fail;
    client->url = find_url(options, data);
    client->token_path = token_file != NULL ? mem_strdup(token_file) : mem_printf("%s/token", data);
    if (client->url == NULL || client->token_path == NULL) goto fail;
    read_token(client);
    client->curl = curl_easy_init();
    if (client->curl == NULL) goto fail;
    (void)curl_easy_setopt(client->curl, CURLOPT_TIMEOUT_MS, (long)CALL_TIMEOUT_MS); /* known */
    return client;
fail:
    client_close(client);
    (void)error_set(ret_error, "no memory to talk to the server");
    return NULL;
}

void client_close(struct client *client)
{
    if (client == NULL) return;
    if (client->curl != NULL) curl_easy_cleanup(client->curl);
    mem_free(client->url);
    mem_free(client->token_path);
    mem_free(client->token);
    mem_free(client);
}

const char *client_url(const struct client *client)
{
    return client->url;
}

static size_t take_bytes(const char *bytes, size_t size, size_t count, void *self)
{
    struct body *body = self;
    size_t more = size * count;
    if (body->count + more > REPLY_BYTES_MAX) return 0;
    if (body->count + more + 1 > body->capacity) {
        size_t capacity = body->capacity * 2 + more + 1024;
        char *grown = mem_realloc(body->bytes, capacity);
        if (grown == NULL) return 0;
        body->bytes = grown;
        body->capacity = capacity;
    }
    memcpy(body->bytes + body->count, bytes, more);
    body->count += more;
    body->bytes[body->count] = '\0';
    return more;
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
    char *line = mem_printf("%s: %s", name, value);
    struct curl_slist *longer = line == NULL ? NULL : curl_slist_append(*list, line);
    mem_free(line);
    if (longer == NULL) return false;
    *list = longer;
    return true;
}

static bool make_headers(const struct client *client, const struct client_request *request,
                         struct curl_slist **ret_list)
{
    char *bearer = client->token == NULL ? NULL : mem_printf("Bearer %s", client->token);
    bool ok = client->token == NULL || bearer != NULL;
    if (ok && bearer != NULL) ok = add_header(ret_list, "Authorization", bearer);
    if (ok && request->type != NULL) ok = add_header(ret_list, "Content-Type", request->type);
    if (ok && request->idempotency_key != NULL)
        ok = add_header(ret_list, "Idempotency-Key", request->idempotency_key);
    mem_free(bearer);
    return ok;
}

/* Every option is set anew, so that nothing of an earlier call is left over. */
static void set_request(struct client *client, const struct client_request *request,
                        const char *url, struct curl_slist *headers, struct body *body)
{
    CURL *curl = client->curl;
    const char *sent = request->body == NULL ? "" : request->body;
    bool has_body = strcmp(request->method, "GET") != 0;
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    if (has_body) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(sent));
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, sent);
    }
    (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "127.0.0.1,localhost,::1");
}

static bool tell_transport(const struct client *client, CURLcode code, struct error *ret_error)
{
    switch ((int)code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        return error_set(ret_error, "no server at %s; start one with: shoal up", client->url);
    case CURLE_OPERATION_TIMEDOUT:
        return error_set(ret_error, "the server at %s does not answer; look at its log",
                         client->url);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return error_set(ret_error, "\"%s\" is no URL of a server; give one like %s", client->url,
                         DEFAULT_URL);
    default:
        return error_set(ret_error, "talking to the server at %s failed: %s", client->url,
                         curl_easy_strerror(code));
    }
}

static bool tell_status(const struct client *client, const struct client_reply *reply,
                        struct error *ret_error)
{
    if (reply->status == 401 || reply->status == 403)
        return error_set(ret_error,
                         "the server at %s does not accept the token of %s; name the server's data "
                         "folder with --data or its token file with SHOAL_TOKEN_FILE",
                         client->url, client->token_path);
    json_t *answer = json_loads(reply->text, 0, NULL);
    const char *sentence = json_string_value(json_object_get(answer, "error"));
    if (sentence != NULL)
        (void)error_set(ret_error, "%s", sentence);
    else
        (void)error_set(ret_error, "the server at %s answered with status %ld", client->url,
                        reply->status);
    json_decref(answer);
    return false;
}

static bool perform(struct client *client, struct body *body, struct client_reply *ret_reply,
                    struct error *ret_error)
{
    CURLcode code = curl_easy_perform(client->curl);
    if (code != CURLE_OK) return tell_transport(client, code, ret_error);
    if (body->bytes == NULL) body->bytes = mem_strdup("");
    if (body->bytes == NULL) return error_set(ret_error, "no memory for the server's answer");
    struct client_reply reply = {.text = body->bytes, .bytes = body->count};
    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &reply.status); /* after OK */
    if (reply.status >= 400) return tell_status(client, &reply, ret_error);
    *ret_reply = reply;
    return true;
}

bool client_call(struct client *client, const struct client_request *request,
                 struct client_reply *ret_reply, struct error *ret_error)
{
    struct body body = {0};
    struct curl_slist *headers = NULL;
    char *url = mem_printf("%s%s", client->url, request->path);
    bool ok = url != NULL && make_headers(client, request, &headers);
    if (!ok) {
        (void)error_set(ret_error, "no memory for a request to the server");
    } else {
        set_request(client, request, url, headers, &body);
        ok = perform(client, &body, ret_reply, ret_error);
    }
    if (!ok) mem_free(body.bytes);
    curl_slist_free_all(headers);
    mem_free(url);
    return ok;
}

void client_reply_free(struct client_reply *reply)
{
    mem_free(reply->text);
    *reply = (struct client_reply){0};
}

static json_t *call_parsed(struct client *client, const struct client_request *request,
                           struct error *ret_error)
{
    struct client_reply reply;
    if (!client_call(client, request, &reply, ret_error)) return NULL;
    json_t *answer = json_loadb(reply.text, reply.bytes, 0, NULL);
    if (answer == NULL)
        (void)error_set(ret_error, "the server at %s sent an answer to %s that is no JSON",
                        client->url, request->path);
    client_reply_free(&reply);
    return answer;
}

json_t *client_get(struct client *client, const char *path, struct error *ret_error)
{
    struct client_request request = {.method = "GET", .path = path};
    return call_parsed(client, &request, ret_error);
}

json_t *client_post(struct client *client, const char *path, const char *type, const char *body,
                    struct error *ret_error)
{
    struct client_request request = {.method = "POST", .path = path, .type = type, .body = body};
    return call_parsed(client, &request, ret_error);
}

bool client_is_up(struct client *client)
{
    struct client_request request = {.method = "GET", .path = "/healthz"};
    struct client_reply reply;
    if (!client_call(client, &request, &reply, NULL)) return false;
    client_reply_free(&reply);
    return true;
}

const char *row_text(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text == NULL ? "" : text;
}

json_int_t row_int(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

int64_t key_short(int64_t key)
{
    return key & ((INT64_C(1) << 40) - 1);
}

json_int_t row_short(const json_t *row, const char *key)
{
    return key_short(row_int(row, key));
}

double row_real(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

const json_t *row_list(const json_t *row, const char *key)
{
    const json_t *list = json_object_get(row, key);
    return json_is_array(list) ? list : NULL;
}
