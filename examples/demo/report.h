/* out/demo/report.html: the whole story as one self-contained page, charts as inline SVG.
 *
 * report_text() makes the page, report_write() puts it in place through a temporary file, so that a
 * reader never sees half of it. Light and dark follow the reader's setting. No script, no outside
 * resource.
 */
#ifndef SHOAL_DEMO_REPORT_H
#define SHOAL_DEMO_REPORT_H

#include "demo/summary.h"

void report_text(const struct record *record, const struct summary *summary, struct text *ret_page);
bool report_write(const struct record *record, const struct summary *summary, const char *path,
                  struct error *ret_error) WARN_UNUSED;

#endif
