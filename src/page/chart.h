/* Charts as inline SVG: axes, lines, steps, stacked areas, marks. Text out, nothing else.
 *
 *     struct chart chart = chart_of(&page, 960, 240, x_range, y_range);
 *     chart_open(&chart, "Loss over time");
 *     chart_axes(&chart, "%.1f");
 *     chart_line(&chart, points, count, "line m0");
 *     chart_mark(&chart, CHART_LOSS, x, y, "12 s: node 7 lost");
 *     chart_close(&chart);
 *
 * Units      x: seconds; y: whatever the caller's ticks say. Colours come from CSS classes of the
 *            page, so that the same SVG serves light and dark. Values outside the ranges are drawn
 *            at the edge.
 */
#ifndef SHOAL_PAGE_CHART_H
#define SHOAL_PAGE_CHART_H

#include "base/text.h"
#include <stddef.h>

struct chart_range {
    double low, high;
};

struct chart_point {
    double x, y;
};

enum chart_mark {
    CHART_LOSS,   /* taken without notice: a filled cross */
    CHART_NOTICE, /* taken after a notice: an open cross */
    CHART_BUY,
    CHART_DRAIN,
    CHART_RESTART
};

struct chart {
    struct text *out;
    double width, height; /* of the whole picture; the plot lies inside the margins */
    double left, right, top, bottom;
    struct chart_range x, y;
};

struct chart chart_of(struct text *out, double width, double height, struct chart_range x,
                      struct chart_range y);
void chart_open(const struct chart *chart, const char *label);
/* Grid and ticks; y_format takes one double: "$%.2f". */
void chart_axes(const struct chart *chart, const char *y_format);
void chart_line(const struct chart *chart, const struct chart_point *points, size_t count,
                const char *css);
/* A value holds until the next point. */
void chart_steps(const struct chart *chart, const struct chart_point *points, size_t count,
                 const char *css);
/* Between low[i] and high[i], both holding until x[i+1]; the last one to x_end. */
void chart_band(const struct chart *chart, const double *x, const double *low, const double *high,
                size_t count, double x_end, const char *css);
void chart_mark(const struct chart *chart, enum chart_mark mark, double x, double y,
                const char *title);
void chart_rule_x(const struct chart *chart, double x, const char *css, const char *title);
void chart_rule_y(const struct chart *chart, double y, const char *css);
void chart_close(const struct chart *chart);

/* A round step (1, 2 or 5 times a power of ten) so that about `count` ticks fill the range. */
double chart_tick_step(double range, double count);

#endif
