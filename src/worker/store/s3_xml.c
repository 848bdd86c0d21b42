#include "worker/store/s3_xml.h"
#include <string.h>

/* "<tag>" or "</tag>" in [at, end), or NULL. */
static const char *find_mark(const char *at, const char *end, const char *open, const char *tag)
{
    size_t before = strlen(open), name = strlen(tag), whole = before + name + 1;
    while ((size_t)(end - at) >= whole) {
        at = memchr(at, '<', (size_t)(end - at) - whole + 1);
        if (at == NULL) return NULL;
        if (memcmp(at, open, before) == 0 && memcmp(at + before, tag, name) == 0 &&
            at[before + name] == '>')
            return at;
        at++;
    }
    return NULL;
}

bool s3_xml_next(struct s3_text *scope, const char *tag, struct s3_text *ret_inner)
{
    const char *end = scope->at + scope->count;
    const char *open = find_mark(scope->at, end, "<", tag);
    if (open == NULL) return false;
    const char *inner = open + strlen(tag) + 2;
    const char *close = find_mark(inner, end, "</", tag);
    if (close == NULL) return false;
    *ret_inner = (struct s3_text){inner, (size_t)(close - inner)};
    scope->at = close + strlen(tag) + 3;
    scope->count = (size_t)(end - scope->at);
    return true;
}

bool s3_xml_copy(struct s3_text scope, const char *tag, char *into, size_t room)
{
    struct s3_text inner;
    if (!s3_xml_next(&scope, tag, &inner) || inner.count >= room) return false;
    memcpy(into, inner.at, inner.count);
    into[inner.count] = '\0';
    return true;
}
