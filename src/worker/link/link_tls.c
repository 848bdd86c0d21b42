#include "worker/link/link_tls.h"
#include "base/mem.h"
#include "worker/link/link_stream.h"
#include "worker/link/token.h"
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEY_BYTES = TOKEN_PROOF_BYTES, AHEAD_BYTES = 128 * 1024 };
static const unsigned char IDENTITY[] = "shoal job";
static const unsigned char PURPOSE[] = "shoal link, TLS 1.3 pre-shared key, 1";
static const unsigned char SUITE[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

struct tls_keys {
    SSL_CTX *context;
    unsigned char key[KEY_BYTES];
};

/* The library's own socket BIO would raise SIGPIPE in the training program. */
static int socket_write(BIO *bio, const char *bytes, int count)
{
    int fd = (int)(intptr_t)BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t sent = send(fd, bytes, (size_t)count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)sent;
}

static int socket_read(BIO *bio, char *bytes, int count)
{
    int fd = (int)(intptr_t)BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t got = recv(fd, bytes, (size_t)count, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)got;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer; /* nothing is buffered here */
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/* One for the process, kept to its end: links may outlive the keys they were made with. */
static pthread_once_t sockets_once = PTHREAD_ONCE_INIT;
static BIO_METHOD *sockets;

static void make_sockets(void)
{
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "shoal socket");
    if (made == NULL || BIO_meth_set_write(made, socket_write) != 1 ||
        BIO_meth_set_read(made, socket_read) != 1 || BIO_meth_set_ctrl(made, socket_control) != 1)
        return;
    sockets = made;
}

static SSL_SESSION *session_of_key(SSL *ssl)
{
    const struct tls_keys *keys = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    SSL_SESSION *session = SSL_SESSION_new();
    const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, SUITE);
    if (session != NULL && suite != NULL &&
        SSL_SESSION_set1_master_key(session, keys->key, KEY_BYTES) == 1 &&
        SSL_SESSION_set_cipher(session, suite) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int use_key(SSL *ssl, const EVP_MD *hash, const unsigned char **id, size_t *id_bytes,
                   SSL_SESSION **ret_session)
{
    (void)hash; /* there is one suite, so one hash */
    *ret_session = session_of_key(ssl);
    *id = IDENTITY;
    *id_bytes = sizeof IDENTITY;
    return *ret_session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **ret_session)
{
    *ret_session = NULL; /* another identity: the handshake fails for want of a certificate */
    if (id_bytes != sizeof IDENTITY || memcmp(id, IDENTITY, id_bytes) != 0) return 1;
    *ret_session = session_of_key(ssl);
    return *ret_session != NULL;
}

static bool set_up(struct tls_keys *keys)
{
    keys->context = SSL_CTX_new(TLS_method());
    (void)pthread_once(&sockets_once, make_sockets); /* cannot fail */
    if (keys->context == NULL || sockets == NULL) return false;
    (void)SSL_CTX_set_app_data(keys->context, keys);
    SSL_CTX_set_psk_use_session_callback(keys->context, use_key);
    SSL_CTX_set_psk_find_session_callback(keys->context, find_key);
    SSL_CTX_set_session_cache_mode(keys->context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_mode(keys->context,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(keys->context, 1);
    SSL_CTX_set_default_read_buffer_len(keys->context, AHEAD_BYTES);
    return SSL_CTX_set_min_proto_version(keys->context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_num_tickets(keys->context, 0) == 1 &&
           SSL_CTX_set_ciphersuites(keys->context, "TLS_AES_128_GCM_SHA256") == 1;
}

struct tls_keys *tls_keys_open(const char *token)
{
    struct tls_keys *keys = token[0] == '\0' ? NULL : mem_zalloc(1, sizeof *keys);
    if (keys == NULL) return NULL;
    if (token_prove(token, PURPOSE, sizeof PURPOSE, keys->key) && set_up(keys)) return keys;
    tls_keys_close(keys);
    return NULL;
}

void tls_keys_close(struct tls_keys *keys)
{
    if (keys == NULL) return;
    SSL_CTX_free(keys->context);
    OPENSSL_cleanse(keys->key, sizeof keys->key);
    mem_free(keys);
}

void *tls_start(struct tls_keys *keys, int fd, bool dials)
{
    SSL *ssl = SSL_new(keys->context);
    BIO *bio = BIO_new(sockets);
    if (ssl == NULL || bio == NULL) {
        SSL_free(ssl);
        (void)BIO_free(bio); /* never used */
        return NULL;
    }
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    if (dials) {
        SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL); /* no certificate can be right */
        SSL_set_connect_state(ssl);
    } else {
        SSL_set_accept_state(ssl); /* has none, so without the key nothing can be agreed on */
    }
    return ssl;
}

void tls_end(void *ssl)
{
    SSL_free(ssl);
}

static bool means_later(SSL *ssl, int result)
{
    int why = SSL_get_error(ssl, result);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

enum link_result tls_handshake(void *ssl)
{
    ERR_clear_error();
    int result = SSL_do_handshake(ssl);
    if (result != 1) return means_later(ssl, result) ? LINK_AGAIN : LINK_LOST;
    return SSL_session_reused(ssl) == 1 ? LINK_DONE : LINK_LOST; /* "reused": by the key */
}

int tls_write(void *ssl, const void *bytes, int count)
{
    ERR_clear_error();
    int sent = SSL_write(ssl, bytes, count);
    if (sent > 0) return sent;
    return means_later(ssl, sent) ? 0 : -1;
}

int tls_read(void *ssl, void *bytes, int count)
{
    ERR_clear_error();
    int got = SSL_read(ssl, bytes, count);
    if (got > 0) return got;
    return means_later(ssl, got) ? 0 : -1;
}

static ssize_t stream_write(int fd, void *ssl, const struct iovec *piece, int piece_count)
{
    (void)fd, (void)piece_count; /* one piece at a time: it is encrypted into a record anyway */
    int count = piece->iov_len > INT32_MAX ? INT32_MAX : (int)piece->iov_len;
    return tls_write(ssl, piece->iov_base, count);
}

static ssize_t stream_read(int fd, void *ssl, void *bytes, size_t count)
{
    (void)fd; /* the ssl object has it */
    return tls_read(ssl, bytes, count > INT32_MAX ? INT32_MAX : (int)count);
}

static void stream_close(int fd, void *ssl)
{
    tls_end(ssl);
    (void)close(fd); /* what was not sent is of no use to anybody now */
}

static const struct stream_io TLS_IO = {stream_write, stream_read, stream_close};

struct link *link_tls_open(const int *fd, void *const *ssl, uint32_t count)
{
    return link_stream_open(LINK_TLS, &TLS_IO, fd, ssl, count);
}
