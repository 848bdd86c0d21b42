/* Answers of S3 and credentials files: any bytes are read without harm. */
#include "worker/store/s3_keys.h"
#include "worker/store/s3_xml.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const tags[] = {"Contents", "Key", "Code", "UploadId", "IsTruncated"};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        struct s3_text scope = {(const char *)bytes, count}, inner;
        char copy[64];
        (void)s3_xml_copy(scope, tags[i], copy, sizeof copy);
        while (s3_xml_next(&scope, tags[i], &inner)) {
            if (inner.at < (const char *)bytes) abort();
            if (inner.at + inner.count > (const char *)bytes + count) abort();
            (void)s3_xml_copy(inner, "Key", copy, sizeof copy);
        }
    }
    char *text = malloc(count + 1);
    if (text == NULL) return 0;
    memcpy(text, bytes, count);
    text[count] = '\0';
    struct s3_keys keys;
    if (s3_keys_parse(text, "default", &keys) && (keys.id[0] == '\0' || keys.secret[0] == '\0'))
        abort();
    free(text);
    return 0;
}
