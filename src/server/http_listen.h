/* The listening socket: "host:port" -> descriptor and URL, loopback only unless told otherwise. */
#ifndef SHOAL_SERVER_HTTP_LISTEN_H
#define SHOAL_SERVER_HTTP_LISTEN_H

#include "base/error.h"

/* Whether it is written like an address; false and a sentence: it is not. */
bool http_listen_check(const char *listen, struct error *ret_error) WARN_UNUSED;

/* ret_url: HTTP_URL_BYTES. -1 and a sentence: bad address, not loopback, port taken. */
int http_listen(const char *listen, bool allow_remote, char *ret_url,
                struct error *ret_error) WARN_UNUSED;

#endif
