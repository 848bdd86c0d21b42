/* Method, path and query name of a request, one a line: whatever they hold, the router gives one of
 * its four answers, and one that fits them. */
#include "core/assert.h"
#include "server/router.h"
#include <string.h>

enum { TEXT_BYTES_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    if (end == NULL) {
        *at = line + strlen(line);
        return line;
    }
    *end = '\0';
    *at = end + 1;
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_BYTES_MAX + 1], *at = text;
    struct route_match match = {0};
    if (size > TEXT_BYTES_MAX) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    const char *method = next_line(&at), *path = next_line(&at), *name = next_line(&at);
    switch (route_match(method, path, &match)) {
    case ROUTE_FOUND:
        ASSERT(strcmp(match.route->method, method) == 0);
        ASSERT(match.route == route_at(match.route->id));
        ASSERT(strstr(match.route->path, "{id}") != NULL || strcmp(match.route->path, path) == 0);
        MAYBE(route_takes_query(match.route, name));
        break;
    case ROUTE_NO_METHOD:
        ASSERT(match.methods[0] != '\0');
        ASSERT(memchr(match.methods, '\0', sizeof match.methods) != NULL);
        break;
    case ROUTE_BAD_ID: ASSERT(strncmp(path, "/v1/", 4) == 0); break;
    case ROUTE_NO_PATH: break;
    }
    return 0;
}
