#include "worker/link/token.h"
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <string.h>

bool token_prove(const char *token, const void *text, size_t count,
                 uint8_t ret_proof[TOKEN_PROOF_BYTES])
{
    unsigned int bytes = 0;
    return HMAC(EVP_sha256(), token, (int)strlen(token), text, count, ret_proof, &bytes) != NULL &&
           bytes == TOKEN_PROOF_BYTES;
}

bool token_check(const char *token, const void *text, size_t count,
                 const uint8_t proof[TOKEN_PROOF_BYTES])
{
    uint8_t ours[TOKEN_PROOF_BYTES];
    return token_prove(token, text, count, ours) &&
           CRYPTO_memcmp(ours, proof, TOKEN_PROOF_BYTES) == 0;
}
