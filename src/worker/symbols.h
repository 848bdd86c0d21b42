/* Names for addresses of this process, also of functions that only the symbol table of a file knows
 * (static ones, and all of a program that was not linked to export them). May take locks and read
 * files: not for signal handlers. */
#ifndef SHOAL_WORKER_SYMBOLS_H
#define SHOAL_WORKER_SYMBOLS_H

#include <stddef.h>

enum { SYMBOL_BYTES = 256 };

/* "compute_on_and_on+0x1c (trainer)", or "trainer+0x66fc" when the file has no name for it, or
 * "0x7f..." when no file holds it. */
void symbol_name(const void *address, char ret_name[SYMBOL_BYTES]);

#endif
