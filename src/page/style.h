/* The style sheet of reports: text of CSS, no state. */
#ifndef SHOAL_PAGE_STYLE_H
#define SHOAL_PAGE_STYLE_H

extern const char style_page[];   /* colours, text, layout */
extern const char style_charts[]; /* what the SVGs use */

#endif
