#include "server/auth.h"
#include "base/io.h"
#include "base/mem.h"
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, TOKEN_FILE_BYTES_MAX = 256 };

bool auth_make_token(char ret_token[AUTH_TOKEN_DIGITS + 1], struct error *ret_error)
{
    unsigned char random[AUTH_TOKEN_DIGITS / 2];
    if (RAND_bytes(random, sizeof random) != 1)
        return error_set(ret_error, "the system gives no random numbers; a token cannot be made");
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(ret_token + 2 * i, 3, "%02x", random[i]); /* always two digits */
    OPENSSL_cleanse(random, sizeof random);
    return true;
}

static bool read_token(const char *path, char ret_token[AUTH_TOKEN_DIGITS + 1],
                       struct error *ret_error)
{
    struct stat facts;
    char *text = NULL;
    size_t count = 0;
    if (!io_read_file(path, TOKEN_FILE_BYTES_MAX, &text, &count, ret_error)) return false;
    bool is_open = stat(path, &facts) != 0 || (facts.st_mode & 077) != 0;
    size_t length = strcspn(text, "\r\n");
    bool whole = length == AUTH_TOKEN_DIGITS && strspn(text, "0123456789abcdef") == length;
    if (whole) (void)snprintf(ret_token, AUTH_TOKEN_DIGITS + 1, "%.*s", (int)length, text);
    OPENSSL_cleanse(text, count);
    mem_free(text);
    if (is_open)
        return error_set(ret_error, "%s: others may read this token; run chmod 600 on it", path);
    return whole || error_set(ret_error,
                              "%s: not a token of %d hex digits; remove the file and a new one is "
                              "made at the next start",
                              path, AUTH_TOKEN_DIGITS);
}

static bool load_or_make(const char *dir, const char *name, char ret_token[AUTH_TOKEN_DIGITS + 1],
                         struct error *ret_error)
{
    char path[PATH_BYTES], token[AUTH_TOKEN_DIGITS + 1], line[AUTH_TOKEN_DIGITS + 2];
    int length = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (length < 0 || length >= PATH_BYTES)
        return error_set(ret_error, "%s: the path is too long", dir);
    struct stat facts;
    if (stat(path, &facts) == 0) return read_token(path, ret_token, ret_error);
    if (!auth_make_token(token, ret_error)) return false;
    (void)snprintf(line, sizeof line, "%s\n", token); /* fits by its size */
    if (!io_write_file(path, line, strlen(line), 0600, ret_error)) return false;
    memcpy(ret_token, token, sizeof token);
    return true;
}

bool auth_load(const char *dir, struct auth *ret_auth, struct error *ret_error)
{
    return load_or_make(dir, "token", ret_auth->person, ret_error) &&
           load_or_make(dir, "agent-token", ret_auth->agent, ret_error);
}

enum auth_role auth_role_of(const struct auth *auth, const char *header)
{
    static const char scheme[] = "Bearer ";
    if (header == NULL || strncasecmp(header, scheme, sizeof scheme - 1) != 0) return AUTH_NOBODY;
    const char *token = header + sizeof scheme - 1;
    while (*token == ' ') token++;
    if (strlen(token) != AUTH_TOKEN_DIGITS) return AUTH_NOBODY; /* the length is no secret */
    /* Both are always compared, so that the time does not tell which kind was nearly right. */
    int person = CRYPTO_memcmp(token, auth->person, AUTH_TOKEN_DIGITS);
    int agent = CRYPTO_memcmp(token, auth->agent, AUTH_TOKEN_DIGITS);
    return person == 0 ? AUTH_PERSON : agent == 0 ? AUTH_AGENT : AUTH_NOBODY;
}
