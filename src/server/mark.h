/* The mark: how far the journal has come, kept outside of it.
 *
 * SQLite cannot tell a journal whose WAL was cut, damaged or deleted from a shorter one: it opens
 * what is left, and acknowledged work would be gone without a word. So the number of the newest
 * committed event also stands in a small file, and a journal that ends before it is refused.
 *
 * Order      Written after the commit is on disk, never before: the mark is never ahead of a sound
 *            journal. It is not synced: after a power cut it may be behind, which hides a loss at
 *            worst and never reports one that is none.
 * Format     20 digits and a newline, written in one piece.
 */
#ifndef SHOAL_SERVER_MARK_H
#define SHOAL_SERVER_MARK_H

#include "base/error.h"
#include <stdint.h>

/* The open file and the number in it (0 for a new file), or -1 with a sentence. */
int mark_open(const char *path, uint64_t *ret_seq, struct error *ret_error) WARN_UNUSED;
void mark_write(int fd, uint64_t seq); /* a failure only leaves the older number there */

#endif
