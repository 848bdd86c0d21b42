/* What the job's token is used for: proving that one knows it, never sending it.
 *
 * A proof is the HMAC-SHA256 of a text under the token. The text begins with its purpose and holds
 * random numbers of both sides, so that a proof seen on the network is of no use elsewhere or later.
 * The token must be hard to guess (the server makes 256 random bits): whoever sees a proof can try
 * guesses.
 */
#ifndef SHOAL_WORKER_LINK_TOKEN_H
#define SHOAL_WORKER_LINK_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOKEN_PROOF_BYTES = 32 };

/* False: out of memory. */
bool token_prove(const char *token, const void *text, size_t count,
                 uint8_t ret_proof[TOKEN_PROOF_BYTES]);
bool token_check(const char *token, const void *text, size_t count,
                 const uint8_t proof[TOKEN_PROOF_BYTES]);

#endif
