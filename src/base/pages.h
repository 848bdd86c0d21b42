/* Zero memory that costs nothing until it is touched.
 *
 * Role       For the arrays of the reduction whose worst case is many times what is ever used
 *            (quant.h): pages come from the system one by one, as they are written to.
 * Errors     NULL: the address space is limited (ulimit -v) or full. It counts as a call of mem.h,
 *            so that tests can make it fail.
 */
#ifndef SHOAL_BASE_PAGES_H
#define SHOAL_BASE_PAGES_H

#include <stddef.h>

void *pages_map(size_t bytes);
void pages_unmap(void *memory, size_t bytes); /* NULL is fine */
/* Memory that will be filled from end to end soon: the system may give it in large pages, which cost
 * a fraction of the faults, and of what direct I/O spends on pinning. A hint, whatever comes of it. */
void pages_will_fill(void *memory, size_t bytes);
/* memcpy() for what this processor does not read again soon: leaves its cache alone, and spares
 * memory the reading of lines that are overwritten whole. */
void pages_copy_past_cache(void *ret_to, const void *bytes, size_t count);

#endif
