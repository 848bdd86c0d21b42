#include "worker/store/s3_keys.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include <ctype.h>
#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FILE_MAX_BYTES = 1 << 20, ANSWER_BYTES = 16384 };
#define RENEW_US INT64_C(300000000) /* before the end of a role's keys */

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value == NULL ? "" : value;
}

static bool copy(char *into, size_t room, const char *text, size_t count)
{
    if (count == 0 || count >= room) return false;
    memcpy(into, text, count);
    into[count] = '\0';
    return true;
}

static void trim(const char **at, const char **end)
{
    while (*at < *end && isspace((unsigned char)**at)) ++*at;
    while (*end > *at && isspace((unsigned char)(*end)[-1])) --*end;
}

/* "name = value" of the wanted profile. */
static void take_line(struct s3_keys *keys, const char *at, const char *end)
{
    const char *equals = memchr(at, '=', (size_t)(end - at));
    if (equals == NULL) return;
    const char *name_end = equals, *value = equals + 1;
    trim(&at, &name_end);
    trim(&value, &end);
    size_t name = (size_t)(name_end - at), count = (size_t)(end - value);
    const struct {
        const char *name;
        char *into;
        size_t room;
    } known[] = {{"aws_access_key_id", keys->id, sizeof keys->id},
                 {"aws_secret_access_key", keys->secret, sizeof keys->secret},
                 {"aws_session_token", keys->token, sizeof keys->token}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].name) == name && memcmp(known[i].name, at, name) == 0)
            (void)copy(known[i].into, known[i].room, value, count); /* empty: as if not there */
}

bool s3_keys_parse(const char *text, const char *profile, struct s3_keys *ret_keys)
{
    bool inside = false;
    *ret_keys = (struct s3_keys){.until_us = INT64_MAX};
    for (const char *line = text; *line != '\0';) {
        const char *end = strchr(line, '\n'), *at = line;
        if (end == NULL) end = line + strlen(line);
        line = *end == '\0' ? end : end + 1;
        trim(&at, &end);
        if (at == end || *at == '#' || *at == ';') continue;
        if (*at == '[' && end[-1] == ']') {
            at++, end--;
            trim(&at, &end);
            inside =
                strlen(profile) == (size_t)(end - at) && memcmp(at, profile, strlen(profile)) == 0;
        } else if (inside) {
            take_line(ret_keys, at, end);
        }
    }
    return ret_keys->id[0] != '\0' && ret_keys->secret[0] != '\0';
}

static bool from_environment(struct s3_keys *keys)
{
    const char *id = environment("AWS_ACCESS_KEY_ID"),
               *secret = environment("AWS_SECRET_ACCESS_KEY"),
               *token = environment("AWS_SESSION_TOKEN");
    *keys = (struct s3_keys){.until_us = INT64_MAX};
    if (token[0] != '\0' && !copy(keys->token, sizeof keys->token, token, strlen(token)))
        return false;
    return copy(keys->id, sizeof keys->id, id, strlen(id)) &&
           copy(keys->secret, sizeof keys->secret, secret, strlen(secret));
}

static bool from_file(struct s3_keys *keys)
{
    char path[4096], *text;
    size_t count;
    const char *named = environment("AWS_SHARED_CREDENTIALS_FILE"),
               *profile = environment("AWS_PROFILE");
    int length = named[0] != '\0'
                     ? snprintf(path, sizeof path, "%s", named)
                     : snprintf(path, sizeof path, "%s/.aws/credentials", environment("HOME"));
    if (length < 0 || (size_t)length >= sizeof path) return false;
    if (!io_read_file(path, FILE_MAX_BYTES, &text, &count, NULL)) return false;
    bool found = s3_keys_parse(text, profile[0] == '\0' ? "default" : profile, keys);
    mem_free(text);
    return found;
}

struct text {
    char bytes[ANSWER_BYTES];
    size_t count;
};

static size_t on_body(char *bytes, size_t one, size_t count, void *self)
{
    struct text *text = self;
    (void)one; /* always 1 */
    if (text->count + count >= sizeof text->bytes) return 0;
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = '\0';
    return count;
}

/* One request to the metadata service; header may be NULL. False: no answer, or not 200. */
static bool ask(CURL *curl, const char *method, const char *path, const char *header,
                struct text *ret_text)
{
    char url[1024];
    const char *endpoint = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    snprintf(url, sizeof url, "%s%s", endpoint[0] == '\0' ? "http://169.254.169.254" : endpoint,
             path);
    struct curl_slist *headers = header == NULL ? NULL : curl_slist_append(NULL, header);
    ret_text->count = 0;
    ret_text->bytes[0] = '\0';
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret_text);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 1000L); /* link-local: near, or not there */
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 5000L);
    long status = 0;
    bool answered = (header == NULL || headers != NULL) && curl_easy_perform(curl) == CURLE_OK &&
                    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK;
    curl_slist_free_all(headers);
    return answered && status == 200;
}

static bool take_role(struct s3_keys *keys, const char *text)
{
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *id = json_string_value(json_object_get(root, "AccessKeyId")),
               *secret = json_string_value(json_object_get(root, "SecretAccessKey")),
               *token = json_string_value(json_object_get(root, "Token")),
               *end = json_string_value(json_object_get(root, "Expiration"));
    struct tm tm = {0};
    bool fine = id != NULL && secret != NULL && token != NULL && end != NULL &&
                strptime(end, "%Y-%m-%dT%H:%M:%SZ", &tm) != NULL &&
                copy(keys->id, sizeof keys->id, id, strlen(id)) &&
                copy(keys->secret, sizeof keys->secret, secret, strlen(secret)) &&
                copy(keys->token, sizeof keys->token, token, strlen(token));
    if (fine) {
        int64_t left_s = (int64_t)timegm(&tm) - (int64_t)time(NULL);
        keys->until_us = clock_monotonic_us() + left_s * 1000000 - RENEW_US;
    }
    json_decref(root);
    return fine;
}

static bool from_machine(struct s3_keys *keys)
{
    if (strcmp(environment("AWS_EC2_METADATA_DISABLED"), "true") == 0) return false;
    CURL *curl = curl_easy_init();
    struct text *token = mem_alloc(sizeof *token), *text = mem_alloc(sizeof *text);
    char header[ANSWER_BYTES + 64], path[512];
    bool fine =
        curl != NULL && token != NULL && text != NULL &&
        ask(curl, "PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600", token);
    if (fine) snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s", token->bytes);
    fine = fine && ask(curl, "GET", "/latest/meta-data/iam/security-credentials/", header, text);
    if (fine) text->bytes[strcspn(text->bytes, "\r\n")] = '\0';
    fine = fine && snprintf(path, sizeof path, "/latest/meta-data/iam/security-credentials/%s",
                            text->bytes) < (int)sizeof path;
    fine = fine && ask(curl, "GET", path, header, text) && take_role(keys, text->bytes);
    mem_free(token);
    mem_free(text);
    curl_easy_cleanup(curl);
    return fine;
}

bool s3_keys_load(struct s3_keys *ret_keys, struct error *ret_error)
{
    if (from_environment(ret_keys) || from_file(ret_keys)) return true;
    *ret_keys = (struct s3_keys){.until_us = INT64_MAX};
    return from_machine(ret_keys) ||
           error_set(ret_error, "no keys for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                                "write ~/.aws/credentials, or give this machine a role");
}
