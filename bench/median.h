/* Medians of repeated runs. The values are sorted in place; count > 0. */
#ifndef SHOAL_BENCH_MEDIAN_H
#define SHOAL_BENCH_MEDIAN_H

#include <stdint.h>
#include <stdlib.h>

static inline int median_compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static inline double median_of_doubles(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, median_compare_doubles);
    return values[count / 2];
}

static inline int median_compare_integers(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static inline int64_t median_of_integers(int64_t *values, uint32_t count)
{
    qsort(values, count, sizeof *values, median_compare_integers);
    return values[count / 2];
}

#endif
