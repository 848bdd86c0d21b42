/* Zero memory that costs nothing until it is touched.
 *
 * Role       For the arrays of the reduction whose worst case is many times what is ever used
 *            (quant.h): pages come from the system one by one, as they are written to.
 * Errors     NULL: the address space is limited (ulimit -v) or full. It counts as a call of mem.h,
 *            so that tests can make it fail.
 */
#ifndef SHOAL_WORKER_PAGES_H
#define SHOAL_WORKER_PAGES_H

#include <stddef.h>

void *pages_map(size_t bytes);
void pages_unmap(void *memory, size_t bytes); /* NULL is fine */

#endif
