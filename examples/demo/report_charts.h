/* The charts of the report. Each appends one <svg> (prices: one a zone) to the page. x is seconds
 * since the job was submitted, the same range in all but the prices, so that they read as one. */
#ifndef SHOAL_DEMO_REPORT_CHARTS_H
#define SHOAL_DEMO_REPORT_CHARTS_H

#include "demo/summary.h"

void report_chart_workers(const struct record *record, struct text *page);
void report_chart_loss(const struct record *record, struct text *page);
void report_chart_cost(const struct record *record, const struct summary *summary,
                       struct text *page);
void report_charts_price(const struct record *record, struct text *page);

#endif
