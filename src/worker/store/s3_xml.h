/* Reads the few elements that answers of S3 have. No general XML: no attributes, entities or
 * nesting of the same name; what does not look like that is not found.
 */
#ifndef SHOAL_WORKER_STORE_S3_XML_H
#define SHOAL_WORKER_STORE_S3_XML_H

#include <stdbool.h>
#include <stddef.h>

struct s3_text { /* not terminated */
    const char *at;
    size_t count;
};

/* Next <tag>...</tag> in *scope; what follows it stays in *scope. */
bool s3_xml_next(struct s3_text *scope, const char *tag, struct s3_text *ret_inner);
/* First <tag>...</tag> in scope, copied. False: not there, or longer than room - 1. */
bool s3_xml_copy(struct s3_text scope, const char *tag, char *into, size_t room);

#endif
