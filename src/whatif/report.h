/* DIR/report.html: what came of it as one self-contained page. Inside src/whatif only.
 *
 * The charts are of the first seed, run once more for each case with a recorder; the tables are of all
 * seeds. Light and dark follow the reader's setting; no script, no outside resource.
 */
#ifndef SHOAL_WHATIF_REPORT_H
#define SHOAL_WHATIF_REPORT_H

#include "whatif/crowd.h"

/* False after a sentence: nothing can be written there. Before the worlds are run, not after. */
bool report_can_write(const char *folder, struct error *ret_error) WARN_UNUSED;
bool report_write(const struct crowd *crowd, const char *folder,
                  struct error *ret_error) WARN_UNUSED;

#endif
