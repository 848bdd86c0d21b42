/* CSV traces of the what-if machine: refused with FILE:LINE, or in order, without holes and above 0. The
 * first byte says what is read: a price, nodes in runs, arrivals (two ways), or nodes. Lists of jobs and nodes
 * count every row. */
#include "core/assert.h"
#include "whatif/series.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_series(const struct series *s, bool is_price)
{
    ASSERT(s->count > 0);
    ASSERT(s->steps[0].at_us == 0);
    for (uint32_t i = 0; i < s->count; i++) {
        ASSERT(s->steps[i].value >= (is_price ? 1 : 0));
        ASSERT(i == 0 || s->steps[i].at_us > s->steps[i - 1].at_us);
    }
}

static void read_series(const struct series_query *q, const char *text, size_t bytes)
{
    struct series series;
    struct error error = {""};
    if (series_read(q, text, bytes, &series, &error))
        check_series(&series, q->is_price);
    else
        ASSERT(strncmp(error.text, "f.csv", 5) == 0);
    series_free(&series);
}

static const struct series_words words = {.count = 2, .words = {"T4", "A10"}, .models = {3, 4}};

/* Each row is kept or counted once. */
static void check_tally(const struct series_tally *t)
{
    ASSERT(t->rows == t->kept + t->outside + t->without_devices + t->without_time + t->negative +
                          t->unknown_model + t->wide + t->lasting + t->malformed);
    ASSERT((t->malformed > 0) == (t->first[0] != '\0'));
}

static void read_arrivals(const struct series_query *q, const char *text, size_t bytes)
{
    struct arrivals arrivals;
    struct series_tally tally;
    struct error error = {""};
    if (arrivals_read(q, text, bytes, &arrivals, &tally, &error))
        check_tally(&tally);
    else
        ASSERT(strncmp(error.text, "f.csv", 5) == 0);
    for (uint32_t i = 0; i < arrivals.count; i++) {
        ASSERT(arrivals.rows[i].devices > 0 && arrivals.rows[i].run_us > 0);
        ASSERT(arrivals.rows[i].at_us >= (i == 0 ? 0 : arrivals.rows[i - 1].at_us));
    }
    arrivals_free(&arrivals);
}

static void read_shapes(const char *text, size_t bytes)
{
    const struct series_query q = {
        .file = "f.csv", .devices = "gpus", .model = "model", .nodes = "n", .words = &words};
    struct shapes shapes;
    struct series_tally tally;
    struct error error = {""};
    if (shapes_read(&q, text, bytes, &shapes, &tally, &error))
        check_tally(&tally);
    else
        ASSERT(strncmp(error.text, "f.csv", 5) == 0);
    for (uint32_t i = 0; i < shapes.count; i++)
        ASSERT(shapes.rows[i].devices > 0 && shapes.rows[i].count > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const char *text = (const char *)data + 1;
    struct series_query q = {.file = "f.csv", .step_us = 1, .scale_ppm = 1000000};
    if (data[0] % 5 == 0) {
        q = (struct series_query){.file = "f.csv",
                                  .picks = {{.column = "zone", .word = "a"}},
                                  .pick_count = 1,
                                  .time = "t",
                                  .value = "usd",
                                  .step_us = 1,
                                  .gap_max_us = INT64_C(86400000000),
                                  .scale_ppm = 500000,
                                  .is_price = true};
        read_series(&q, text, size - 1);
    } else if (data[0] % 5 == 1) {
        q = (struct series_query){.file = "f.csv",
                                  .time = "start",
                                  .value = "up",
                                  .length = "n",
                                  .step_us = 195000000,
                                  .from_us = 1000000,
                                  .gap_max_us = 1,
                                  .scale_ppm = 1000000};
        read_series(&q, text, size - 1);
    } else if (data[0] % 5 == 2) {
        q = (struct series_query){.file = "f.csv",
                                  .time = "t",
                                  .devices = "gpus",
                                  .duration = "run",
                                  .step_us = 1,
                                  .until_us = INT64_C(604800000000)};
        read_arrivals(&q, text, size - 1);
    } else if (data[0] % 5 == 3) {
        q = (struct series_query){.file = "f.csv",
                                  .time = "t",
                                  .begin = "from",
                                  .end = "to",
                                  .share = "milli",
                                  .model = "model",
                                  .words = &words,
                                  .devices_max = 8,
                                  .run_max_us = INT64_C(86400000000)};
        read_arrivals(&q, text, size - 1);
    } else {
        read_shapes(text, size - 1);
    }
    return 0;
}
