/* Who we are to S3: keys from where Amazon's own tools look for them, in this order:
 *   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if set, AWS_SESSION_TOKEN;
 *   2. the profile AWS_PROFILE (default) of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials);
 *   3. the role of the machine: instance metadata version 2, unless AWS_EC2_METADATA_DISABLED=true.
 *      AWS_EC2_METADATA_SERVICE_ENDPOINT names another address of it.
 * Keys of a role end: s3_keys_load() is asked again once `until_us` is near.
 */
#ifndef SHOAL_WORKER_STORE_S3_KEYS_H
#define SHOAL_WORKER_STORE_S3_KEYS_H

#include "base/error.h"
#include <stdint.h>

enum { S3_KEY_ID_BYTES = 256, S3_SECRET_BYTES = 256, S3_TOKEN_BYTES = 4096 };

struct s3_keys {
    char id[S3_KEY_ID_BYTES], secret[S3_SECRET_BYTES], token[S3_TOKEN_BYTES]; /* token "": none */
    int64_t until_us; /* monotonic clock; INT64_MAX: they do not end */
};

bool s3_keys_load(struct s3_keys *ret_keys, struct error *ret_error) WARN_UNUSED;
/* One profile of the text of a credentials file. False: it has no keys for this profile. */
bool s3_keys_parse(const char *text, const char *profile, struct s3_keys *ret_keys);

#endif
