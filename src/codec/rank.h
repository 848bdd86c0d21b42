/* A site's own ranking of offers, as an expression: what a node of an offer counts as, in dollars per hour.
 *
 * Role       Text -> a small program; fields of an offer -> a number. Pure, integers only: all values are
 *            millionths, products and quotients are rounded towards 0 and saturate.
 * Language   numbers (up to six places), the fields of RANK_FIELDS, + - * /, < <= > >= == != (1 or 0),
 *            min(a, b), max(a, b), if(c, a, b), parentheses. Lowest to highest: comparisons, + -, * /,
 *            unary -. x / 0 is the largest number.
 * Errors     "column N: ...", N counting bytes from 1.
 * Bounds     RANK_TEXT_MAX bytes, RANK_OPS_MAX steps, RANK_DEPTH_MAX open parentheses.
 * Quantised  rank_factor_ppm(): what the core is told, in steps of a 256th.
 */
#ifndef SHOAL_CODEC_RANK_H
#define SHOAL_CODEC_RANK_H

#include "base/error.h"
#include <stdint.h>

enum { RANK_TEXT_MAX = 512, RANK_OPS_MAX = 128, RANK_DEPTH_MAX = 32 };

/* Prices in dollars per hour of a node, hazard in losses per node-hour, times in hours; distrust: the
 * surcharge of the built-in ranking as a share of the price; spot: 1 or 0. */
#define RANK_FIELDS(X)                                                                             \
    X(PRICE, "price")                                                                              \
    X(ON_DEMAND, "on_demand")                                                                      \
    X(HAZARD, "hazard")                                                                            \
    X(DISTRUST, "distrust")                                                                        \
    X(AGE, "age")                                                                                  \
    X(CHANGEOVER, "changeover")                                                                    \
    X(NCU, "ncu")                                                                                  \
    X(DEVICES, "devices")                                                                          \
    X(STOCK, "stock")                                                                              \
    X(HELD, "held")                                                                                \
    X(SPOT, "spot")

enum rank_field {
#define X(name, word) RANK_##name,
    RANK_FIELDS(X)
#undef X
        RANK_FIELD_COUNT
};

struct rank_op {
    int64_t value; /* of a number; of a field, which */
    uint32_t code, reserved;
};

struct rank_program {
    uint32_t count; /* 0: none */
    struct rank_op ops[RANK_OPS_MAX];
};

bool rank_parse(const char *text, struct rank_program *ret_program,
                struct error *ret_error) WARN_UNUSED;
int64_t rank_evaluate(const struct rank_program *program, const int64_t fields[RANK_FIELD_COUNT]);
/* Of millionths, saturating. */
int64_t rank_multiply(int64_t a, int64_t b);
int64_t rank_divide(int64_t a, int64_t b);
/* 0: it says nothing: not above 0, or nothing to compare with. */
uint32_t rank_factor_ppm(int64_t value_micros, int64_t price_usd_micros);

#endif
