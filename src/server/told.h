/* Which steps of a job are stored: all below `first`, and those marked above it.
 *
 * Role       Lets replies acknowledge progress by one number, so that workers know what nobody has
 *            to report again after a server was away or a reporting node died (docs/protocol.md).
 * Window     TOLD_WINDOW steps above `first`. A step missing for longer than that is given up: it
 *            was seen only by workers that died before they could tell.
 */
#ifndef SHOAL_SERVER_TOLD_H
#define SHOAL_SERVER_TOLD_H

#include <stdint.h>

enum { TOLD_WINDOW = 4096 };

struct told {
    uint64_t first; /* first step that is not stored */
    uint64_t words[TOLD_WINDOW / 64];
};

void told_note(struct told *told, uint64_t step);

#endif
