/* The status page and the OpenAPI page, embedded at build time (web/index.html, docs/openapi.json).
 */
#ifndef SHOAL_SERVER_WEB_H
#define SHOAL_SERVER_WEB_H

#include <stddef.h>

extern const char web_index_text[];
extern const size_t web_index_bytes;
extern const char web_openapi_text[];
extern const size_t web_openapi_bytes;

#endif
