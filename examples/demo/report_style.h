/* The style sheet of the report: text of CSS, no state. */
#ifndef SHOAL_DEMO_REPORT_STYLE_H
#define SHOAL_DEMO_REPORT_STYLE_H

extern const char report_style_page[];   /* colours, text, layout */
extern const char report_style_charts[]; /* what the SVGs use */

#endif
