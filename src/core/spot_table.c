#include "core/spot_table.h"
#include "core/assert.h"
#include <string.h>

enum { TICKS_MAX = 1 << 20 };

/* The best that can be done in a cell, by where the job is. */
struct best {
    int32_t idle[SPOT_ENV], on_demand[SPOT_ENV], on_spot[SPOT_ON];
};

struct pass {
    struct spot_table *table;
    const struct spot_step *short_step, *long_step;
    struct best *less, *here; /* [slack_rows]: one grain of work less, and this row */
    int64_t spot, on_demand;  /* price of a tick */
    uint32_t grain, changeover;
    uint32_t env_count, on_count; /* states that can be */
    uint8_t env[SPOT_ENV], on[SPOT_ON];
    uint32_t short_lost[SPOT_ON], long_lost[SPOT_ON]; /* ppm */
};

/* Slack that the grid divides: row 0 is at 2 changeover + 1. */
static uint32_t slack_span(const struct spot_terms *terms)
{
    uint32_t slack = terms->window - terms->work, floor = 2 * terms->changeover + 1;
    return slack > floor ? slack - floor : 1;
}

uint32_t spot_table_grain(const struct spot_terms *terms)
{
    uint64_t area = (uint64_t)terms->work * slack_span(terms);
    uint32_t grain = 1;
    while ((uint64_t)grain * grain * terms->cells < area) grain++;
    return grain;
}

uint32_t spot_table_lag(const struct spot_terms *terms)
{
    uint32_t grain = spot_table_grain(terms);
    return terms->changeover > grain ? terms->changeover : grain;
}

static bool is_possible(const struct spot_terms *terms)
{
    if (terms->work == 0 || terms->work > terms->window || terms->window > TICKS_MAX) return false;
    if (terms->changeover > TICKS_MAX || terms->cells == 0) return false;
    uint64_t dearer = terms->spot_price;
    if (terms->on_demand_price > dearer) dearer = terms->on_demand_price;
    uint64_t ticks = (uint64_t)terms->window + terms->changeover;
    return dearer > 0 && ticks * dearer <= SPOT_VALUE_MAX;
}

static void shape(struct spot_table *table, const struct spot_terms *terms)
{
    uint32_t grain = spot_table_grain(terms);
    *table = (struct spot_table){.terms = *terms,
                                 .grain = grain,
                                 .work_rows = (terms->work + grain - 1) / grain + 1,
                                 .slack_rows = (slack_span(terms) + grain - 1) / grain + 1};
}

static size_t values_bytes(const struct spot_table *table)
{
    return (size_t)table->work_rows * table->slack_rows * SPOT_CELL * sizeof(int32_t);
}

size_t spot_table_bytes(const struct spot_terms *terms)
{
    if (!is_possible(terms)) return 0;
    struct spot_table table;
    shape(&table, terms);
    return values_bytes(&table) + 2 * (size_t)table.slack_rows * sizeof(struct best);
}

static int32_t *cell_of(const struct spot_table *table, uint32_t work_row, uint32_t slack_row)
{
    return table->values + ((size_t)work_row * table->slack_rows + slack_row) * SPOT_CELL;
}

/* ---- expectations ---- */

static int64_t expect(const struct spot_row *row, uint32_t from, uint32_t to, const int32_t *values)
{
    int64_t sum = 0;
    for (uint32_t i = from; i < to; i++) sum += (int64_t)row->ppm[i] * values[row->to[i]];
    return sum;
}

static int32_t rounded(int64_t millionths)
{
    return (int32_t)((millionths + SPOT_PPM / 2) / SPOT_PPM);
}

static int32_t expect_env(const struct spot_row *row, int64_t paid, const int32_t *values)
{
    return rounded(paid * SPOT_PPM + expect(row, 0, row->count, values));
}

static void mix(int32_t *ret, const int32_t *a, const int32_t *b, uint32_t count, uint32_t part,
                uint32_t whole)
{
    for (uint32_t i = 0; i < count; i++)
        ret[i] = (int32_t)(((int64_t)a[i] * (whole - part) + (int64_t)b[i] * part) / whole);
}

/* ---- one cell ---- */

/* Where a start ends: after a changeover without progress; when the step is longer than that, the
 * rest of it is progress. */
static void after_start(const struct pass *p, uint32_t row, struct best *ret)
{
    uint32_t part, whole = p->grain;
    const struct best *a, *b;
    if (p->changeover >= p->grain) {
        uint32_t ticks = row * p->grain > p->changeover ? row * p->grain - p->changeover : 0;
        a = &p->here[ticks / whole];
        part = ticks % whole;
        b = part > 0 ? a + 1 : a;
    } else {
        a = &p->less[row];
        b = &p->here[row - 1];
        part = p->changeover;
    }
    mix(ret->on_demand, a->on_demand, b->on_demand, SPOT_ENV, part, whole);
    mix(ret->on_spot, a->on_spot, b->on_spot, SPOT_ON, part, whole);
}

/* Lost during a start: the time is gone. */
static void after_lost_start(const struct pass *p, uint32_t row, struct best *ret)
{
    uint32_t lag = p->long_step->lag, whole = p->grain;
    uint32_t ticks = row * p->grain > lag ? row * p->grain - lag : 0;
    const struct best *a = &p->here[ticks / whole];
    const struct best *b = ticks % whole > 0 ? a + 1 : a;
    mix(ret->idle, a->idle, b->idle, SPOT_ENV, ticks % whole, whole);
}

static int64_t start_value(const struct pass *p, uint32_t state, const struct best *kept)
{
    const struct spot_row *on = &p->long_step->on[state];
    int64_t lag = p->long_step->lag, lost_ppm = p->long_lost[state];
    int64_t paid =
        lag * p->spot * (SPOT_PPM - lost_ppm) + lag * p->spot * on->kept_ppm / SPOT_PPM * lost_ppm;
    return paid + expect(on, 0, on->kept_count, kept->on_spot) +
           expect(on, on->kept_count, on->count, kept->idle);
}

/* While it is held a node works; what is lost of the step is time alone. */
static int64_t stay_value(const struct pass *p, uint32_t state, uint32_t row)
{
    const struct spot_row *on = &p->short_step->on[state];
    const struct best *less = &p->less[row], *late = &p->here[row > 0 ? row - 1 : 0];
    int64_t held = on->kept_ppm, lost_ppm = p->short_lost[state];
    int64_t paid = p->grain * p->spot * (SPOT_PPM - lost_ppm) +
                   p->grain * p->spot * held / SPOT_PPM * lost_ppm;
    int64_t worked = expect(on, on->kept_count, on->count, less->idle);
    int64_t idled = expect(on, on->kept_count, on->count, late->idle);
    return paid + expect(on, 0, on->kept_count, less->on_spot) +
           (worked / 1024 * held + idled / 1024 * (SPOT_PPM - held)) / SPOT_PPM * 1024;
}

static void put_market(const struct pass *p, uint32_t row, const struct best *started,
                       int32_t *cell)
{
    int64_t grain = p->grain, lag = p->long_step->lag;
    for (uint32_t i = 0; i < p->env_count; i++) {
        uint32_t e = p->env[i];
        cell[SPOT_WAIT + e] = expect_env(&p->short_step->env[e], 0, p->here[row - 1].idle);
        cell[SPOT_OD_START + e] =
            expect_env(&p->long_step->env[e], p->on_demand * lag, started->on_demand);
        cell[SPOT_OD_STAY + e] =
            expect_env(&p->short_step->env[e], p->on_demand * grain, p->less[row].on_demand);
    }
}

static void put_node(const struct pass *p, uint32_t row, const struct best *started, int32_t *cell)
{
    for (uint32_t i = 0; i < p->on_count; i++) {
        uint32_t s = p->on[i];
        cell[SPOT_START + s] = rounded(start_value(p, s, started));
        cell[SPOT_STAY + s] = rounded(stay_value(p, s, row));
    }
}

static int32_t lesser(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* The best of a cell, from its values. */
static void choose(const struct pass *p, const int32_t *cell, struct best *ret)
{
    for (uint32_t i = 0; i < p->env_count; i++) {
        uint32_t e = p->env[i];
        ret->idle[e] = lesser(cell[SPOT_WAIT + e], cell[SPOT_OD_START + e]);
        ret->on_demand[e] = lesser(cell[SPOT_OD_STAY + e], cell[SPOT_WAIT + e]);
    }
    for (uint32_t i = 0; i < p->on_count; i++) {
        uint32_t s = p->on[i], own = s / (SPOT_CLASSES + 1) + 1, other = s % (SPOT_CLASSES + 1);
        ret->on_spot[s] = cell[SPOT_STAY + s];
        if (other > 0)
            ret->on_spot[s] = lesser(ret->on_spot[s], cell[SPOT_START + spot_on(other, own)]);
        if (other > own) continue;
        uint32_t e = spot_env_up(own, other);
        ret->idle[e] = lesser(ret->idle[e], cell[SPOT_START + s]);
        ret->on_demand[e] = lesser(ret->on_demand[e], cell[SPOT_START + s]);
    }
}

/* On-demand alone from here: all slack is gone. */
static void put_forced(const struct pass *p, uint32_t work, int32_t *cell)
{
    int32_t stay = (int32_t)(p->on_demand * work);
    int32_t start = stay + (int32_t)(p->on_demand * p->changeover);
    for (uint32_t e = 0; e < SPOT_ENV; e++) {
        cell[SPOT_WAIT + e] = cell[SPOT_OD_START + e] = start;
        cell[SPOT_OD_STAY + e] = stay;
    }
    for (uint32_t s = 0; s < SPOT_ON; s++) {
        cell[SPOT_START + s] = SPOT_NEVER;
        cell[SPOT_STAY + s] = work == 0 ? 0 : rounded(stay_value(p, s, 0));
    }
}

/* No work left. Running costs nothing more; a start is what one step before the end would pay. */
static void put_done(const struct pass *p, int32_t *cell)
{
    for (uint32_t e = 0; e < SPOT_ENV; e++) {
        cell[SPOT_WAIT + e] = (int32_t)(p->spot * p->changeover);
        cell[SPOT_OD_START + e] = (int32_t)(p->on_demand * p->changeover);
        cell[SPOT_OD_STAY + e] = 0;
    }
    for (uint32_t s = 0; s < SPOT_ON; s++) {
        cell[SPOT_START + s] = (int32_t)(p->spot * p->changeover);
        cell[SPOT_STAY + s] = 0;
    }
}

static void put_row(struct pass *p, uint32_t work_row)
{
    for (uint32_t row = 0; row < p->table->slack_rows; row++) {
        int32_t *cell = cell_of(p->table, work_row, row);
        /* stay_value() of row 0 looks at idle of row 0 itself: always on-demand. */
        if (row == 0) {
            int32_t forced = (int32_t)(p->on_demand * (work_row * p->grain + p->changeover));
            for (uint32_t e = 0; e < SPOT_ENV; e++) p->here[0].idle[e] = forced;
            put_forced(p, work_row * p->grain, cell);
        } else if (work_row == 0) {
            put_done(p, cell);
        } else {
            struct best started;
            after_start(p, row, &started);
            after_lost_start(p, row, &started);
            put_market(p, row, &started, cell);
            put_node(p, row, &started, cell);
        }
        choose(p, cell, &p->here[row]);
    }
}

static uint32_t lost_ppm(const struct spot_row *row)
{
    uint32_t ppm = 0;
    for (uint32_t i = row->kept_count; i < row->count; i++) ppm += row->ppm[i];
    return ppm;
}

/* With one zone there is no second one: a seventh of the states. */
static void list_states(struct pass *p)
{
    uint32_t most = p->short_step->one_zone ? 0 : SPOT_CLASSES;
    for (uint32_t down = 0; down < SPOT_DOWNS; down++) p->env[p->env_count++] = (uint8_t)down;
    for (uint32_t own = 1; own <= SPOT_CLASSES; own++) {
        for (uint32_t other = 0; other <= most; other++) {
            p->on[p->on_count++] = (uint8_t)spot_on(own, other);
            if (other <= own) p->env[p->env_count++] = (uint8_t)spot_env_up(own, other);
        }
    }
    for (uint32_t s = 0; s < SPOT_ON; s++) {
        p->short_lost[s] = lost_ppm(&p->short_step->on[s]);
        p->long_lost[s] = lost_ppm(&p->long_step->on[s]);
    }
}

void spot_table_solve(struct spot_table *ret_table, const struct spot_terms *terms,
                      const struct spot_step *short_step, const struct spot_step *long_step,
                      void *memory)
{
    ASSERT(is_possible(terms));
    shape(ret_table, terms);
    ASSERT(short_step->lag == ret_table->grain);
    ASSERT(long_step->lag == spot_table_lag(terms));
    ret_table->values = memory;
    struct best *rows = (struct best *)((char *)memory + values_bytes(ret_table));
    struct pass p = {.table = ret_table,
                     .short_step = short_step,
                     .long_step = long_step,
                     .less = rows,
                     .here = rows + ret_table->slack_rows,
                     .spot = terms->spot_price,
                     .on_demand = terms->on_demand_price,
                     .grain = ret_table->grain,
                     .changeover = terms->changeover};
    memset(rows, 0, 2 * (size_t)ret_table->slack_rows * sizeof *rows);
    list_states(&p);
    for (uint32_t work_row = 0; work_row < ret_table->work_rows; work_row++) {
        put_row(&p, work_row);
        struct best *swap = p.less;
        p.less = p.here;
        p.here = swap;
    }
}

int64_t spot_table_at(const struct spot_table *table, uint32_t value, uint32_t work, int64_t slack)
{
    ASSERT(value < SPOT_CELL);
    int64_t grain = table->grain, floor = 2 * (int64_t)table->terms.changeover + 1;
    int64_t work_most = (table->work_rows - 1) * grain,
            slack_most = (table->slack_rows - 1) * grain;
    int64_t n = work < work_most ? work : work_most, s = slack - floor;
    if (s < 0) s = 0;
    if (s > slack_most) s = slack_most;
    uint32_t row = (uint32_t)(n / grain), column = (uint32_t)(s / grain);
    int64_t right = n % grain, down = s % grain;
    const int32_t *at = cell_of(table, row, column) + value;
    size_t next_row = right > 0 ? (size_t)table->slack_rows * SPOT_CELL : 0;
    size_t next_column = down > 0 ? SPOT_CELL : 0;
    int64_t low = at[0] * (grain - down) + at[next_column] * down;
    int64_t high = at[next_row] * (grain - down) + at[next_row + next_column] * down;
    return (low * (grain - right) + high * right) / (grain * grain);
}
