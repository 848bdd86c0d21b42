#include "worker/link/link_knock.h"
#include "core/assert.h"
#include "worker/link/token.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORDS_BYTES = 48, TLS_FIRST_BYTE = 0x16 };
static_assert(WORDS_BYTES + TOKEN_PROOF_BYTES == DOOR_KNOCK_BYTES, "words, then the proof");
static const char MAGIC[8] = {'S', 'H', 'L', 'I', 'N', 'K', '0', '1'};

/* The role keeps an answer from being a question. */
static void write_text(const uint8_t *words, bool answer, uint8_t text[WORDS_BYTES + 1])
{
    memcpy(text, words, WORDS_BYTES);
    text[WORDS_BYTES] = answer ? 'a' : 'q';
}

void knock_write(const struct knock_words *words, bool answer, const char *token,
                 uint8_t bytes[DOOR_KNOCK_BYTES])
{
    struct wire_cursor cursor = {.at = bytes, .end = bytes + WORDS_BYTES};
    wire_write(&cursor, MAGIC, sizeof MAGIC);
    wire_write_u64(&cursor, words->from);
    wire_write_u64(&cursor, words->to);
    wire_write_u64(&cursor, words->key);
    wire_write_u32(&cursor, words->kind);
    wire_write_u32(&cursor, words->stream);
    wire_write_u32(&cursor, words->streams);
    wire_write_u32(&cursor, 0);
    uint8_t text[WORDS_BYTES + 1];
    write_text(bytes, answer, text);
    if (!token_prove(token, text, sizeof text, bytes + WORDS_BYTES))
        memset(bytes, 0, DOOR_KNOCK_BYTES); /* out of memory: a message that nobody believes */
}

bool knock_read(const uint8_t bytes[DOOR_KNOCK_BYTES], bool answer, const char *token,
                struct knock_words *ret_words)
{
    uint8_t text[WORDS_BYTES + 1];
    write_text(bytes, answer, text);
    if (!token_check(token, text, sizeof text, bytes + WORDS_BYTES)) return false;
    if (memcmp(bytes, MAGIC, sizeof MAGIC) != 0) return false;
    struct wire_cursor cursor = wire_reader(bytes + sizeof MAGIC, WORDS_BYTES - sizeof MAGIC);
    struct knock_words words = {.from = wire_read_u64(&cursor)};
    words.to = wire_read_u64(&cursor);
    words.key = wire_read_u64(&cursor);
    words.kind = wire_read_u32(&cursor);
    words.stream = wire_read_u32(&cursor);
    words.streams = wire_read_u32(&cursor);
    if (cursor.failed || words.kind < LINK_SHM || words.kind > LINK_TLS) return false;
    if (words.streams == 0 || words.streams > LINK_STREAMS_MAX || words.stream >= words.streams)
        return false;
    *ret_words = words;
    return true;
}

void knock_begin(struct knock *knock, int fd, bool dials, bool is_local, int64_t now_us)
{
    *knock = (struct knock){
        .fd = fd, .memory = -1, .dials = dials, .is_local = is_local, .since_us = now_us};
    knock->state = dials ? KNOCK_CONNECTING : KNOCK_UNKNOWN;
    if (!dials && is_local) knock->state = KNOCK_HEARING;
}

void knock_end(struct knock *knock)
{
    if (knock->ssl != NULL) tls_end(knock->ssl);
    if (knock->fd >= 0) (void)close(knock->fd);         /* what it would have carried is not said */
    if (knock->memory >= 0) (void)close(knock->memory); /* a mapping keeps it */
    knock->ssl = NULL;
    knock->fd = knock->memory = -1;
    knock->state = KNOCK_FAILED;
}

static bool is_later(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* Sends with the memory's descriptor riding on the first byte. */
static ssize_t say_with_memory(const struct knock *knock)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {(void *)(uintptr_t)knock->out, DOOR_KNOCK_BYTES};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *rider = CMSG_FIRSTHDR(&message);
    rider->cmsg_level = SOL_SOCKET;
    rider->cmsg_type = SCM_RIGHTS;
    rider->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rider), &knock->memory, sizeof(int));
    return sendmsg(knock->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t say_some(struct knock *knock)
{
    const uint8_t *at = knock->out + knock->said;
    size_t left = DOOR_KNOCK_BYTES - knock->said;
    if (knock->ssl != NULL) return tls_write(knock->ssl, at, (int)left);
    bool rides = knock->dials && knock->is_local && knock->said == 0;
    ssize_t sent =
        rides ? say_with_memory(knock) : send(knock->fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return is_later() ? 0 : -1;
    return sent;
}

/* Keeps the first descriptor that rides on the bytes, closes what else a peer might send. */
static void keep_memory(struct knock *knock, struct msghdr *message)
{
    for (struct cmsghdr *rider = CMSG_FIRSTHDR(message); rider != NULL;
         rider = CMSG_NXTHDR(message, rider)) {
        if (rider->cmsg_level != SOL_SOCKET || rider->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (rider->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(rider) + i * sizeof fd, sizeof fd);
            if (knock->memory < 0)
                knock->memory = fd;
            else
                (void)close(fd); /* not asked for */
        }
    }
}

static ssize_t hear_some(struct knock *knock)
{
    uint8_t *at = knock->in + knock->heard;
    size_t left = DOOR_KNOCK_BYTES - knock->heard;
    if (knock->ssl != NULL) return tls_read(knock->ssl, at, (int)left);
    char room[CMSG_SPACE(4 * sizeof(int))] = {0};
    struct iovec piece = {at, left};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    ssize_t got = recvmsg(knock->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) return is_later() ? 0 : -1;
    if (knock->is_local) keep_memory(knock, &message);
    return got == 0 ? -1 : got;
}

static void connect_on(struct knock *knock, struct tls_keys *keys)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    int why = 0;
    socklen_t why_bytes = sizeof why;
    if (getsockopt(knock->fd, SOL_SOCKET, SO_ERROR, &why, &why_bytes) != 0 || why != 0)
        knock->state = KNOCK_FAILED;
    else if (getpeername(knock->fd, (struct sockaddr *)&peer, &bytes) != 0)
        return; /* still on its way */
    else if (knock->words.kind != LINK_TLS)
        knock->state = KNOCK_SAYING;
    else {
        knock->ssl = keys == NULL ? NULL : tls_start(keys, knock->fd, true);
        knock->state = knock->ssl == NULL ? KNOCK_FAILED : KNOCK_SHAKING;
    }
}

static void look_for_tls(struct knock *knock, struct tls_keys *keys)
{
    uint8_t first;
    ssize_t got = recv(knock->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && is_later()) return;
    knock->state = got == 1 ? KNOCK_HEARING : KNOCK_FAILED;
    if (got != 1 || first != TLS_FIRST_BYTE) return;
    knock->ssl = keys == NULL ? NULL : tls_start(keys, knock->fd, false);
    knock->state = knock->ssl == NULL ? KNOCK_FAILED : KNOCK_SHAKING;
}

static void shake_on(struct knock *knock)
{
    enum link_result result = tls_handshake(knock->ssl);
    if (result == LINK_LOST) knock->state = KNOCK_FAILED;
    if (result == LINK_DONE) knock->state = knock->dials ? KNOCK_SAYING : KNOCK_HEARING;
}

static void say_on(struct knock *knock)
{
    ssize_t sent = say_some(knock);
    if (sent < 0) knock->state = KNOCK_FAILED;
    if (sent <= 0) return;
    knock->said += (size_t)sent;
    if (knock->said == DOOR_KNOCK_BYTES) knock->state = knock->dials ? KNOCK_HEARING : KNOCK_MADE;
}

static bool words_are_same(const struct knock_words *a, const struct knock_words *b)
{
    return a->from == b->from && a->to == b->to && a->key == b->key && a->kind == b->kind &&
           a->stream == b->stream && a->streams == b->streams;
}

static void hear_on(struct knock *knock, const char *token)
{
    struct knock_words words;
    ssize_t got = hear_some(knock);
    if (got < 0) knock->state = KNOCK_FAILED;
    if (got <= 0) return;
    knock->heard += (size_t)got;
    if (knock->heard < DOOR_KNOCK_BYTES) return;
    knock->state = KNOCK_FAILED;
    if (!knock_read(knock->in, knock->dials, token, &words)) return;
    if (knock->dials) {
        if (words_are_same(&words, &knock->words)) knock->state = KNOCK_MADE;
        return;
    }
    bool as_claimed = (words.kind == LINK_TLS) == (knock->ssl != NULL) &&
                      (words.kind == LINK_SHM) == (knock->is_local && knock->memory >= 0);
    knock->words = words;
    if (as_claimed) knock->state = KNOCK_WAITING;
}

void knock_answer(struct knock *knock, const char *token, bool welcome)
{
    ASSERT(knock->state == KNOCK_WAITING);
    knock->state = welcome ? KNOCK_SAYING : KNOCK_FAILED;
    knock_write(&knock->words, true, token, knock->out);
}

void knock_step(struct knock *knock, struct tls_keys *keys, const char *token)
{
    enum knock_state before;
    size_t moved;
    do {
        before = knock->state;
        moved = knock->said + knock->heard;
        if (knock->state == KNOCK_CONNECTING) {
            knock_write(&knock->words, false, token, knock->out);
            connect_on(knock, keys);
        } else if (knock->state == KNOCK_UNKNOWN) {
            look_for_tls(knock, keys);
        } else if (knock->state == KNOCK_SHAKING) {
            shake_on(knock);
        } else if (knock->state == KNOCK_SAYING) {
            say_on(knock);
        } else if (knock->state == KNOCK_HEARING) {
            hear_on(knock, token);
        }
    } while (knock->state != before || knock->said + knock->heard != moved);
}
