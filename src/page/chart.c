#include "page/chart.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TICK_PIXELS_X = 90, TICK_PIXELS_Y = 30, TICKS_MAX = 100, TICK_BYTES = 64 };

struct chart chart_of(struct text *out, double width, double height, struct chart_range x,
                      struct chart_range y)
{
    struct chart chart = {.out = out, .width = width, .height = height};
    chart.left = 56;
    chart.right = width - 12;
    chart.top = 12;
    chart.bottom = height - 24;
    if (!(x.high > x.low)) x.high = x.low + 1; /* one point only: any width will do */
    if (!(y.high > y.low)) y.high = y.low + 1;
    chart.x = x;
    chart.y = y;
    return chart;
}

static double clamp(double value, struct chart_range range)
{
    if (!(value > range.low)) return range.low; /* also what is no number */
    return value > range.high ? range.high : value;
}

static double x_of(const struct chart *chart, double x)
{
    double share = (clamp(x, chart->x) - chart->x.low) / (chart->x.high - chart->x.low);
    return chart->left + share * (chart->right - chart->left);
}

static double y_of(const struct chart *chart, double y)
{
    double share = (clamp(y, chart->y) - chart->y.low) / (chart->y.high - chart->y.low);
    return chart->bottom - share * (chart->bottom - chart->top);
}

static void add_title(struct text *out, const char *title)
{
    if (title == NULL) return;
    text_add(out, "<title>");
    text_add_html(out, title);
    text_add(out, "</title>");
}

void chart_open(const struct chart *chart, const char *label)
{
    text_add(chart->out, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", chart->width,
             chart->height);
    text_add_html(chart->out, label);
    text_add(chart->out, "\">\n");
}

void chart_close(const struct chart *chart)
{
    text_add(chart->out, "</svg>\n");
}

double chart_tick_step(double range, double count)
{
    if (!(range > 0) || !(count > 0)) return 1;
    double rough = range / count, power = pow(10, floor(log10(rough))), unit = rough / power;
    if (unit <= 1) return power;
    if (unit <= 2) return 2 * power;
    return unit <= 5 ? 5 * power : 10 * power;
}

/* Time steps that people count in. */
static double time_step(double range, double count)
{
    static const double steps[] = {1,     2,     5,     10,     15,     30,     60,
                                   120,   300,   600,   1800,   3600,   7200,   10800,
                                   21600, 43200, 86400, 172800, 604800, 1209600};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (range / steps[i] <= count) return steps[i];
    return chart_tick_step(range, count);
}

static void add_number(struct text *out, const char *format, double value)
{
    char text[TICK_BYTES];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the formats are literals of the report */
    (void)snprintf(text, sizeof text, format, value);
#pragma GCC diagnostic pop
    text_add_html(out, text);
}

/* "3:20" of minutes, "14h" of hours, "day 3" of days. */
static void add_time(struct text *out, int64_t seconds, double step)
{
    if (step < 3600)
        text_add(out, "%d:%02d", (int)(seconds / 60), (int)(seconds % 60));
    else if (step < 86400)
        text_add(out, "%dh", (int)(seconds / 3600));
    else
        text_add(out, "day %d", (int)(seconds / 86400));
}

void chart_axes(const struct chart *chart, const char *y_format)
{
    struct text *out = chart->out;
    double y_step =
        chart_tick_step(chart->y.high - chart->y.low, (chart->bottom - chart->top) / TICK_PIXELS_Y);
    double first = ceil(chart->y.low / y_step - 1e-9);
    for (int i = 0; i < TICKS_MAX && (first + i) * y_step <= chart->y.high + y_step * 1e-6; i++) {
        double value = (first + i) * y_step, y = y_of(chart, value);
        text_add(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", chart->left, y, chart->right);
        text_add(out, "<text class=\"tick\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">",
                 chart->left - 7, y + 3.5);
        add_number(out, y_format, value);
        text_add(out, "</text>\n");
    }
    double x_step =
        time_step(chart->x.high - chart->x.low, (chart->right - chart->left) / TICK_PIXELS_X);
    first = ceil(chart->x.low / x_step - 1e-9);
    for (int i = 0; i < TICKS_MAX && (first + i) * x_step <= chart->x.high; i++) {
        int64_t seconds = llround((first + i) * x_step);
        text_add(out, "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">",
                 x_of(chart, (double)seconds), chart->bottom + 16);
        add_time(out, seconds, x_step);
        text_add(out, "</text>\n");
    }
    text_add(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", chart->left, chart->bottom,
             chart->right);
}

void chart_line(const struct chart *chart, const struct chart_point *points, size_t count,
                const char *css)
{
    if (count == 0) return;
    text_add(chart->out, "<path class=\"%s\" d=\"", css);
    for (size_t i = 0; i < count; i++)
        text_add(chart->out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x_of(chart, points[i].x),
                 y_of(chart, points[i].y));
    text_add(chart->out, "\"/>\n");
}

void chart_steps(const struct chart *chart, const struct chart_point *points, size_t count,
                 const char *css)
{
    if (count == 0) return;
    text_add(chart->out, "<path class=\"%s\" d=\"M%.1f %.1f", css, x_of(chart, points[0].x),
             y_of(chart, points[0].y));
    for (size_t i = 1; i < count; i++)
        text_add(chart->out, "H%.1fV%.1f", x_of(chart, points[i].x), y_of(chart, points[i].y));
    text_add(chart->out, "\"/>\n");
}

void chart_band(const struct chart *chart, const double *x, const double *low, const double *high,
                size_t count, double x_end, const char *css)
{
    if (count == 0) return;
    text_add(chart->out, "<path class=\"%s\" d=\"M%.1f %.1f", css, x_of(chart, x[0]),
             y_of(chart, high[0]));
    for (size_t i = 1; i < count; i++)
        text_add(chart->out, "H%.1fV%.1f", x_of(chart, x[i]), y_of(chart, high[i]));
    text_add(chart->out, "H%.1fV%.1f", x_of(chart, x_end), y_of(chart, low[count - 1]));
    for (size_t i = count; i > 1; i--)
        text_add(chart->out, "H%.1fV%.1f", x_of(chart, x[i - 1]), y_of(chart, low[i - 2]));
    text_add(chart->out, "H%.1fZ\"/>\n", x_of(chart, x[0]));
}

void chart_mark(const struct chart *chart, enum chart_mark mark, double x, double y,
                const char *title)
{
    double at_x = x_of(chart, x), at_y = y_of(chart, y);
    struct text *out = chart->out;
    text_add(out, "<g class=\"mark\" transform=\"translate(%.1f %.1f)\">", at_x, at_y);
    add_title(out, title);
    switch (mark) {
    case CHART_LOSS:
        text_add(out, "<circle class=\"loss\" r=\"6\"/><path class=\"cross\" "
                      "d=\"M-2.4 -2.4L2.4 2.4M-2.4 2.4L2.4 -2.4\"/>");
        break;
    case CHART_NOTICE:
        text_add(out, "<circle class=\"noticed\" r=\"5.5\"/><path class=\"cross-open\" "
                      "d=\"M-2.2 -2.2L2.2 2.2M-2.2 2.2L2.2 -2.2\"/>");
        break;
    case CHART_BUY: text_add(out, "<path class=\"buy\" d=\"M0 -5L5 4H-5Z\"/>"); break;
    case CHART_DRAIN: text_add(out, "<path class=\"drain\" d=\"M0 5L5 -4H-5Z\"/>"); break;
    case CHART_RESTART: text_add(out, "<path class=\"restart\" d=\"M0 -6L6 0L0 6L-6 0Z\"/>"); break;
    }
    text_add(out, "</g>\n");
}

void chart_rule_x(const struct chart *chart, double x, const char *css, const char *title)
{
    double at = x_of(chart, x);
    text_add(chart->out, "<path class=\"%s\" d=\"M%.1f %.1fV%.1f\">", css, at, chart->top,
             chart->bottom);
    add_title(chart->out, title);
    text_add(chart->out, "</path>\n");
}

void chart_rule_y(const struct chart *chart, double y, const char *css)
{
    text_add(chart->out, "<path class=\"%s\" d=\"M%.1f %.1fH%.1f\"/>\n", css, chart->left,
             y_of(chart, y), chart->right);
}
