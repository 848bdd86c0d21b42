/* The charts of a report, from what a recorder kept. Inside src/whatif only. */
#ifndef SHOAL_WHATIF_REPORT_CHARTS_H
#define SHOAL_WHATIF_REPORT_CHARTS_H

#include "base/text.h"
#include "whatif/world.h"

enum { REPORT_ROWS_MAX = 72, REPORT_OFFERS_MAX = 8, REPORT_POINTS_MAX = 1200 };

/* One case with what was recorded of its first seed. */
struct report_case {
    const struct scene_case *c;
    struct recorder recorder;
};

/* Nodes from top to bottom as they came, with who held them; what was left out is said in `note`. */
void report_chart_nodes(const struct scene *scene, const struct report_case *rc, struct text *page);
void report_chart_jobs(const struct scene *scene, const struct report_case *rc, struct text *page);
/* Price of each offer that was bought most, with marks where nodes were bought and lost. */
void report_charts_price(const struct scene *scene, const struct report_case *rc,
                         struct text *page);
/* Of all cases in one chart: dollars spent so far, and the useful share of what is paid just then. */
void report_chart_cost(const struct scene *scene, const struct report_case *cases, uint32_t count,
                       struct text *page);
void report_chart_use(const struct scene *scene, const struct report_case *cases, uint32_t count,
                      struct text *page);

#endif
