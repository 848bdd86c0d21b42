/* Tables of expected costs against the same world told from the top: recursion over what each state
 * leads to. */
#include "core/spot_table.h"
#include "core/testing.h"
#include <math.h>

static uint64_t state_of_random;

static uint32_t draw(uint32_t end)
{
    state_of_random =
        state_of_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state_of_random >> 33) % end);
}

static void assert_near(double a, double b, double share, double least)
{
    if (fabs(a - b) > share * fabs(b) + least) fail_msg("%f is not near %f", a, b);
}

/* Up to three ends a row, drawn. */
static void draw_row(struct spot_row *row, uint32_t kept_most, uint32_t lost_most)
{
    uint32_t left = SPOT_PPM;
    *row = (struct spot_row){.kept_count = draw(kept_most + 1), .kept_ppm = draw(SPOT_PPM + 1)};
    row->count = row->kept_count + 1 + draw(lost_most);
    for (uint32_t i = 0; i < row->count; i++) {
        row->to[i] = (uint8_t)draw(i < row->kept_count ? SPOT_ON : SPOT_ENV);
        row->ppm[i] = i + 1 < row->count ? draw(left + 1) : left;
        left -= row->ppm[i];
    }
}

static void draw_step(struct spot_step *step, uint32_t lag)
{
    step->lag = lag;
    for (uint32_t e = 0; e < SPOT_ENV; e++) draw_row(&step->env[e], 0, 3);
    for (uint32_t s = 0; s < SPOT_ON; s++) draw_row(&step->on[s], 2, 2);
}

/* The same world, told from the top: what a state costs is what its best answer leads to. */
struct world {
    struct spot_terms terms;
    const struct spot_step *short_step, *long_step;
    int u, d, rows, columns;
    double idle[16][24][SPOT_ENV], od[16][24][SPOT_ENV], on[16][24][SPOT_ON];
};

static double idle(struct world *w, int n, int j, uint32_t e);
static double on_demand(struct world *w, int n, int j, uint32_t e);
static double on_spot(struct world *w, int n, int j, uint32_t s);

typedef double (*value_fn)(struct world *w, int n, int j, uint32_t state);

/* A value `ticks` of slack further down, between rows if need be. */
static double later(struct world *w, value_fn value, int n, int j, int ticks, uint32_t state)
{
    double row = j - (double)ticks / w->u;
    if (row <= 0) return value(w, n, 0, state);
    int low = (int)floor(row + 1e-9);
    double part = row - low;
    if (part < 1e-9) return value(w, n, low, state);
    return (1 - part) * value(w, n, low, state) + part * value(w, n, low + 1, state);
}

/* After a start: a changeover of slack is gone, or if a step is longer, the rest of it is work. */
static double started(struct world *w, value_fn value, int n, int j, uint32_t state)
{
    if (w->d >= w->u) return later(w, value, n, j, w->d, state);
    double part = (double)w->d / w->u;
    return (1 - part) * value(w, n - 1, j, state) + part * value(w, n, j - 1, state);
}

static double wait(struct world *w, int n, int j, uint32_t e)
{
    double sum = 0;
    const struct spot_row *row = &w->short_step->env[e];
    for (uint32_t i = 0; i < row->count; i++)
        sum += row->ppm[i] / 1e6 * idle(w, n, j - 1, row->to[i]);
    return sum;
}

static double start(struct world *w, int n, int j, uint32_t s)
{
    double sum = 0, lag = w->long_step->lag;
    const struct spot_row *row = &w->long_step->on[s];
    for (uint32_t i = 0; i < row->count; i++) {
        double end = i < row->kept_count
                         ? lag * w->terms.spot_price + started(w, on_spot, n, j, row->to[i])
                         : lag * w->terms.spot_price * row->kept_ppm / 1e6 +
                               later(w, idle, n, j, (int)lag, row->to[i]);
        sum += row->ppm[i] / 1e6 * end;
    }
    return sum;
}

static double stay(struct world *w, int n, int j, uint32_t s)
{
    double sum = 0, paid = (double)w->u * w->terms.spot_price;
    const struct spot_row *row = &w->short_step->on[s];
    double f = row->kept_ppm / 1e6;
    for (uint32_t i = 0; i < row->count; i++) {
        double end = i < row->kept_count ? paid + on_spot(w, n - 1, j, row->to[i])
                                         : f * paid + f * idle(w, n - 1, j, row->to[i]) +
                                               (1 - f) * later(w, idle, n, j, w->u, row->to[i]);
        sum += row->ppm[i] / 1e6 * end;
    }
    return sum;
}

static double best_start(struct world *w, int n, int j, uint32_t e)
{
    for (uint32_t best = 1; best <= SPOT_CLASSES; best++)
        for (uint32_t second = 0; second <= best; second++)
            if (spot_env_up(best, second) == e) return start(w, n, j, spot_on(best, second));
    return INFINITY;
}

static double idle(struct world *w, int n, int j, uint32_t e)
{
    double K = w->terms.on_demand_price;
    if (j == 0) return K * (n * w->u + w->d);
    if (n == 0) return fmin(w->terms.spot_price, K) * w->d;
    double *kept = &w->idle[n][j][e], sum = 0;
    if (*kept >= 0) return *kept;
    const struct spot_row *row = &w->long_step->env[e];
    for (uint32_t i = 0; i < row->count; i++)
        sum += row->ppm[i] / 1e6 * started(w, on_demand, n, j, row->to[i]);
    *kept = fmin(fmin(wait(w, n, j, e), K * w->long_step->lag + sum), best_start(w, n, j, e));
    return *kept;
}

static double on_demand(struct world *w, int n, int j, uint32_t e)
{
    double K = w->terms.on_demand_price, sum = 0;
    if (n == 0) return 0;
    if (j == 0) return K * n * w->u;
    double *kept = &w->od[n][j][e];
    if (*kept >= 0) return *kept;
    const struct spot_row *row = &w->short_step->env[e];
    for (uint32_t i = 0; i < row->count; i++)
        sum += row->ppm[i] / 1e6 * on_demand(w, n - 1, j, row->to[i]);
    *kept = fmin(fmin(K * w->u + sum, wait(w, n, j, e)), best_start(w, n, j, e));
    return *kept;
}

static double on_spot(struct world *w, int n, int j, uint32_t s)
{
    if (n == 0) return 0;
    double *kept = &w->on[n][j][s];
    if (*kept >= 0) return *kept;
    uint32_t own = s / (SPOT_CLASSES + 1) + 1, other = s % (SPOT_CLASSES + 1);
    *kept = stay(w, n, j, s);
    if (other > 0 && j > 0) *kept = fmin(*kept, start(w, n, j, spot_on(other, own)));
    return *kept;
}

static void compare(const struct spot_table *table, struct world *w)
{
    int64_t floor_of_slack = 2 * w->d + 1;
    for (int n = 1; n < w->rows; n++) {
        for (int j = 1; j < w->columns; j++) {
            uint32_t work = (uint32_t)(n * w->u);
            int64_t slack = floor_of_slack + j * w->u;
            for (uint32_t e = 0; e < SPOT_ENV; e++)
                assert_near((double)spot_table_at(table, SPOT_WAIT + e, work, slack),
                            wait(w, n, j, e), 1e-5, 8);
            for (uint32_t s = 0; s < SPOT_ON; s++) {
                assert_near((double)spot_table_at(table, SPOT_START + s, work, slack),
                            start(w, n, j, s), 1e-5, 8);
                assert_near((double)spot_table_at(table, SPOT_STAY + s, work, slack),
                            stay(w, n, j, s), 1e-5, 8);
            }
        }
    }
}

static void tables_equal_recursion(void **state)
{
    (void)state;
    static struct spot_step short_step, long_step;
    static struct world w;
    uint32_t longer = 0;
    for (uint32_t run = 0; run < 12; run++) {
        uint32_t d = 1 + draw(4), work = 3 + draw(7);
        struct spot_terms terms = {.work = work,
                                   .window = work + 2 * d + 2 + draw(12),
                                   .changeover = d,
                                   .spot_price = 1 + draw(2000),
                                   .on_demand_price = 1000 + draw(3000),
                                   .cells = draw(2) ? 1000 : 15};
        struct spot_table table;
        draw_step(&short_step, spot_table_grain(&terms));
        draw_step(&long_step, spot_table_lag(&terms));
        void *memory = malloc(spot_table_bytes(&terms));
        assert_non_null(memory);
        spot_table_solve(&table, &terms, &short_step, &long_step, memory);
        w = (struct world){.terms = terms,
                           .short_step = &short_step,
                           .long_step = &long_step,
                           .u = (int)table.grain,
                           .d = (int)d,
                           .rows = (int)table.work_rows,
                           .columns = (int)table.slack_rows};
        for (size_t i = 0; i < sizeof w.idle / sizeof(double); i++) (&w.idle[0][0][0])[i] = -1;
        for (size_t i = 0; i < sizeof w.od / sizeof(double); i++) (&w.od[0][0][0])[i] = -1;
        for (size_t i = 0; i < sizeof w.on / sizeof(double); i++) (&w.on[0][0][0])[i] = -1;
        assert_true(w.rows <= 16 && w.columns <= 24);
        longer += table.grain > d;
        compare(&table, &w);
        free(memory);
    }
    assert_true(longer > 0);
    assert_true(longer < 12);
}

static void what_cannot_be_has_no_table(void **state)
{
    (void)state;
    struct spot_terms terms = {.work = 100,
                               .window = 150,
                               .changeover = 4,
                               .spot_price = 900,
                               .on_demand_price = 3000,
                               .cells = SPOT_CELLS};
    assert_true(spot_table_bytes(&terms) > 0);
    struct spot_terms bad = terms;
    bad.work = 0;
    assert_int_equal(spot_table_bytes(&bad), 0);
    bad = terms;
    bad.work = 151;
    assert_int_equal(spot_table_bytes(&bad), 0);
    bad = terms;
    bad.on_demand_price = UINT32_MAX;
    assert_int_equal(spot_table_bytes(&bad), 0);
    bad = terms;
    bad.window = UINT32_MAX;
    assert_int_equal(spot_table_bytes(&bad), 0);
    bad = terms;
    bad.spot_price = 0; /* free spot is a price */
    assert_true(spot_table_bytes(&bad) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_equal_recursion),
        cmocka_unit_test(what_cannot_be_has_no_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
