#include "whatif/measure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const measure_names[MEASURE_COUNT] = {
#define X(id, name, meaning) name,
    MEASURES(X)
#undef X
};

const char *const measure_meanings[MEASURE_COUNT] = {
#define X(id, name, meaning) meaning,
    MEASURES(X)
#undef X
};

enum measure measure_find(const char *name)
{
    uint32_t i = 0;
    while (i < MEASURE_COUNT && strcmp(measure_names[i], name) != 0) i++;
    return (enum measure)i;
}

/* Student's t at 97.5 % for 1, 2, ... degrees of freedom. */
static double quantile_of(uint32_t freedom)
{
    static const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                               2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                               2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                               2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
    uint32_t known = sizeof t / sizeof t[0];
    return freedom <= known ? t[freedom - 1] : 1.96 + 2.5 / freedom;
}

struct estimate measure_estimate(const double *values, uint32_t count)
{
    struct estimate e = {0};
    if (count == 0) return e;
    for (uint32_t i = 0; i < count; i++) e.mean += values[i];
    e.mean /= count;
    if (count == 1) return e;
    double squares = 0;
    for (uint32_t i = 0; i < count; i++) squares += (values[i] - e.mean) * (values[i] - e.mean);
    e.half = quantile_of(count - 1) * sqrt(squares / (count - 1) / count);
    return e;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double measure_percentile(double *values, uint32_t count, double share)
{
    if (count == 0) return 0;
    qsort(values, count, sizeof *values, by_size);
    uint32_t at = (uint32_t)(share * count);
    return values[at < count ? at : count - 1];
}
