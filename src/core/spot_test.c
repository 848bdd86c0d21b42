/* The spot policy: what it learns against formulas in reals, and its
 * guarantee with tables of nonsense on markets that flap. */
#include "core/spot_policy.h"
#include "core/testing.h"
#include <math.h>

enum { TICKS = 4000 };

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

/* Zones that stay up or down for heavy-tailed times. */
static void make_market(uint32_t *up, uint32_t ticks, uint32_t zones)
{
    memset(up, 0, ticks * sizeof *up);
    for (uint32_t z = 0; z < zones; z++) {
        bool is_up = draw(2);
        for (uint32_t t = 0; t < ticks; is_up = !is_up) {
            uint32_t run = 1 + draw(6);
            while (draw(3) > 0 && run < 1000) run *= 2;
            for (; run > 0 && t < ticks; run--, t++)
                if (is_up) up[t] |= UINT32_C(1) << z;
        }
    }
}

static void see_all(struct spot_life *life, const uint32_t *up, uint32_t ticks, uint32_t zones)
{
    spot_life_clear(life, zones);
    for (uint32_t t = 0; t < ticks; t++) spot_life_see(life, up[t]);
}

/* ---- what is learned ---- */

static void counts_are_those_of_the_trace(void **state)
{
    (void)state;
    struct spot_life life;
    static const uint32_t up[] = {1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 3, 2};
    see_all(&life, up, 12, 2);
    assert_int_equal(life.ticks, 12);
    /* Zone 0: ages 1 2 3, 1 2 3 4 5, 1: below 3 seen 5 times, at 3 and above 4, lost 1, 2. */
    assert_int_equal(life.seen[0][0], 5);
    assert_int_equal(life.lost[0][0], 1);
    assert_int_equal(life.seen[0][1], 4);
    assert_int_equal(life.lost[0][1], 2);
    assert_int_equal(life.age[0], 0);
    assert_int_equal(life.age[1], 2);
    assert_int_equal(life.seen[1][0], 1); /* what comes after the last tick is not known */
    assert_int_equal(spot_age_bucket(2), 0);
    assert_int_equal(spot_age_bucket(3), 1);
    assert_int_equal(spot_age_bucket(1022), 8);
    assert_int_equal(spot_age_bucket(UINT32_MAX), 9);
}

static const double starts[SPOT_AGES] = {0, 3, 7, 15, 31, 63, 127, 255, 511, 1023};

static double real_hazard(const struct spot_life *life, uint32_t zone, uint32_t b)
{
    double seen = 0, lost = 0;
    double middle = b + 1 < SPOT_AGES ? (starts[b] + starts[b + 1]) / 2 : 1.5 * starts[b];
    for (uint32_t z = 0; z < life->zone_count; z++) {
        seen += life->seen[z][b];
        lost += life->lost[z][b];
    }
    double pooled = (lost + 1) / (seen + (middle + 4) / 0.6);
    return (life->lost[zone][b] + 16) / (life->seen[zone][b] + 16 / pooled);
}

static double real_score(const struct spot_life *life, uint32_t zone, uint32_t bucket, double left)
{
    double expected = 0, alive = 1;
    for (uint32_t b = bucket; b < SPOT_AGES && left > 0; b++) {
        double width = b + 1 < SPOT_AGES ? starts[b + 1] - starts[b] : left;
        if (b == bucket && b + 1 < SPOT_AGES) width = ceil(width / 2);
        if (width > left) width = left;
        double h = real_hazard(life, zone, b), kept = pow(1 - h, width);
        expected += alive * (1 - kept) / h;
        alive *= kept;
        left -= width;
    }
    return expected;
}

static void scores_are_expected_lives(void **state)
{
    (void)state;
    static uint32_t up[TICKS];
    for (uint32_t run = 0; run < 20; run++) {
        struct spot_life life;
        struct spot_classes classes;
        uint32_t zones = 1 + draw(SPOT_ZONES_MAX), ticks = draw(TICKS), horizon = 1 + draw(3000);
        make_market(up, ticks, zones);
        see_all(&life, up, ticks, zones);
        spot_classify(&life, horizon, &classes);
        for (uint32_t z = 0; z < zones; z++) {
            for (uint32_t b = 0; b < SPOT_AGES; b++) {
                assert_near(spot_hazard_ppb(&life, z, b) / 1e9, real_hazard(&life, z, b), 1e-4,
                            1e-8);
                assert_near(classes.score[z][b] / (double)SPOT_SCORE_ONE,
                            real_score(&life, z, b, horizon), 1e-4, 0.01);
            }
        }
    }
}

static void classes_are_geometric(void **state)
{
    (void)state;
    static uint32_t up[TICKS];
    struct spot_life life;
    struct spot_classes classes;
    make_market(up, TICKS, 5);
    see_all(&life, up, TICKS, 5);
    spot_classify(&life, 886, &classes);
    double low = 1e9, high = 0;
    uint32_t met = 0;
    for (uint32_t z = 0; z < 5; z++) {
        for (uint32_t b = 0; b < SPOT_AGES; b++) {
            if (b > 0 && life.seen[z][b] == 0) continue;
            low = fmin(low, classes.score[z][b]);
            high = fmax(high, classes.score[z][b]);
        }
    }
    for (uint32_t z = 0; z < 5; z++) {
        for (uint32_t b = 0; b < SPOT_AGES; b++) {
            double exact = 6 * log(classes.score[z][b] / low) / log(high / low);
            double off = exact - (classes.class_of[z][b] - 1);
            met |= 1U << classes.class_of[z][b];
            if (classes.class_of[z][b] == 1) assert_true(off < 1.001);
            if (classes.class_of[z][b] == 6) assert_true(off > -0.001);
            if (classes.class_of[z][b] > 1 && classes.class_of[z][b] < 6)
                assert_true(off > -0.001 && off < 1.001);
        }
    }
    assert_true(met & 1U << 1);
    assert_true(met & 1U << 6);
    assert_near(classes.middle[1], low * pow(high / low, 1 / 12.0), 0.001, 1);
    assert_near(classes.middle[6], low * pow(high / low, 11 / 12.0), 0.001, 1);
}

static void the_best_zone_is_of_the_best_class_and_up_longest(void **state)
{
    (void)state;
    static uint32_t up[TICKS];
    struct spot_life life;
    struct spot_classes classes;
    make_market(up, TICKS, 6);
    spot_life_clear(&life, 6);
    for (uint32_t t = 0; t < TICKS; t++) {
        spot_life_see(&life, up[t]);
        if (t % 100 == 0) spot_classify(&life, 886, &classes);
        uint32_t except = draw(7), longest = 0, first = 0, second = 0;
        struct spot_best best = spot_best_of(&classes, life.age, except);
        for (uint32_t z = 0; z < 6; z++) {
            if (life.age[z] == 0 || z == except) continue;
            uint32_t class_of = spot_class(&classes, z, life.age[z]);
            if (class_of > first || (class_of == first && life.age[z] > longest))
                longest = life.age[z];
            second = class_of > first ? first : class_of > second ? class_of : second;
            if (class_of > first) first = class_of;
        }
        assert_int_equal(best.best, first);
        assert_int_equal(best.second, second);
        assert_int_equal(best.zone == UINT32_MAX, first == 0);
        if (first > 0) assert_int_equal(life.age[best.zone], longest);
    }
}

static void the_cheapest_zone_is_that_of_most_productive_time_for_its_price(void **state)
{
    (void)state;
    struct spot_classes classes = {.zone_count = 3};
    for (uint32_t b = 0; b < SPOT_AGES; b++) {
        classes.score[0][b] = 20 * SPOT_SCORE_ONE;
        classes.score[1][b] = classes.score[2][b] = 60 * SPOT_SCORE_ONE;
    }
    uint32_t age[] = {9, 5, 7}, equal[] = {300000, 300000, 300000};
    assert_int_equal(spot_cheapest(&classes, age, equal, 10, UINT32_MAX), 2); /* up longer than 1 */
    assert_int_equal(spot_cheapest(&classes, age, equal, 0, UINT32_MAX), 0); /* no start, no loss */
    assert_int_equal(spot_cheapest(&classes, age, equal, 10, 0), 0); /* it has begun there */
    /* 30 ticks paid for 20 against 70 for 60: the short one has to be below 7/9 of the price. */
    uint32_t dear[] = {230000, 300000, 300000}, dearer[] = {237000, 300000, 300000};
    assert_int_equal(spot_cheapest(&classes, age, dear, 10, UINT32_MAX), 0);
    assert_int_equal(spot_cheapest(&classes, age, dearer, 10, UINT32_MAX), 2);
    uint32_t free_node[] = {0, 300000, 300000};
    assert_int_equal(spot_cheapest(&classes, age, free_node, 10, 1), 0);
    age[0] = age[1] = age[2] = 0;
    assert_int_equal(spot_cheapest(&classes, age, equal, 10, UINT32_MAX), UINT32_MAX);
}

static uint64_t sum_of(const struct spot_row *row)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < row->count; i++) sum += row->ppm[i];
    return sum;
}

static void rows_are_probabilities(void **state)
{
    (void)state;
    static uint32_t up[TICKS];
    static struct spot_scratch scratch;
    static struct spot_step step;
    for (uint32_t run = 0; run < 10; run++) {
        struct spot_life life;
        struct spot_classes classes;
        uint32_t zones = 1 + draw(8), ticks = run == 0 ? 0 : draw(TICKS), lag = 1 + draw(12);
        make_market(up, ticks, zones);
        see_all(&life, up, ticks, zones);
        spot_classify(&life, 886, &classes);
        spot_learn(&classes, up, ticks, lag, &scratch, &step);
        for (uint32_t e = 0; e < SPOT_ENV; e++) {
            assert_int_equal(sum_of(&step.env[e]), SPOT_PPM);
            assert_int_equal(step.env[e].kept_count, 0);
        }
        for (uint32_t s = 0; s < SPOT_ON; s++) {
            assert_int_equal(sum_of(&step.on[s]), SPOT_PPM);
            assert_true(step.on[s].kept_ppm <= SPOT_PPM);
            for (uint32_t i = 0; i < step.on[s].count; i++)
                assert_true(step.on[s].to[i] < (i < step.on[s].kept_count ? SPOT_ON : SPOT_ENV));
        }
    }
}

/* A zone that is up for 8 ticks and down for 8, again and again. */
static void a_regular_zone_is_learned(void **state)
{
    (void)state;
    static uint32_t up[TICKS];
    static struct spot_scratch scratch;
    static struct spot_step step;
    struct spot_life life;
    struct spot_classes classes;
    for (uint32_t t = 0; t < TICKS; t++) up[t] = t / 8 % 2;
    see_all(&life, up, TICKS, 1);
    spot_classify(&life, 886, &classes);
    spot_learn(&classes, up, TICKS, 16, &scratch, &step);
    /* 16 ticks on it is where it was, and was lost in between, after 4.5 ticks on average. */
    uint32_t young = spot_class(&classes, 0, 1), on = spot_on(young, 0),
             env = spot_env_up(young, 0);
    const struct spot_row *row = &step.env[env];
    for (uint32_t i = 0; i < row->count; i++)
        if (row->to[i] == env) assert_true(row->ppm[i] > 900000);
    row = &step.on[on];
    uint32_t lost = 0;
    for (uint32_t i = row->kept_count; i < row->count; i++) lost += row->ppm[i];
    assert_true(lost > 980000);
    assert_true(row->kept_ppm > 4 * SPOT_PPM / 16);
    assert_true(row->kept_ppm < 8 * SPOT_PPM / 16);
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

/* ---- the guarantee ---- */

struct ride {
    struct spot_table table;
    struct spot_classes classes;
    struct spot_life life;
    uint32_t down_ticks, period, zones;
    uint32_t starts, forced;
};

/* Runs of lengths around the changeover and twice that, where a policy is hurt most. */
static uint32_t flap(struct ride *r, uint32_t before)
{
    uint32_t d = r->table.terms.changeover, up = before;
    for (uint32_t z = 0; z < r->zones; z++)
        if (draw(d + 1 + draw(d + 2)) == 0) up ^= UINT32_C(1) << z;
    return up;
}

static bool ride_job(struct ride *r, struct spot_job job)
{
    uint32_t d = r->table.terms.changeover, up = draw(1U << r->zones);
    while (job.time_left > 0 && job.work_left > 0) {
        up = flap(r, up);
        spot_life_see(&r->life, up);
        r->down_ticks = up != 0 ? 0 : r->down_ticks + 1;
        if (job.place == SPOT_ON_ZONE && r->life.age[job.zone] == 0) job.place = SPOT_IDLE;
        struct spot_choice choice =
            spot_choose(&r->table, &r->classes, r->life.age, r->down_ticks, &job);
        bool begins = choice.place != SPOT_IDLE &&
                      (choice.place != job.place ||
                       (choice.place == SPOT_ON_ZONE && choice.zone != job.zone));
        if (begins) job.starting_left = d;
        if (begins && choice.place == SPOT_ON_ZONE) {
            assert_true(r->life.age[choice.zone] > 0);
            assert_true(job.time_left >= job.work_left + 2 * d + 2);
            r->starts++;
        }
        r->forced += choice.forced;
        job.place = choice.place;
        job.zone = choice.zone;
        job.time_left--;
        if (job.place != SPOT_IDLE && job.starting_left-- == 0) {
            job.starting_left = 0;
            job.work_left--;
        }
    }
    return job.work_left == 0;
}

/* The table says anything: the deadline holds by the rule alone. */
static void no_deadline_is_missed_whatever_the_table_says(void **state)
{
    (void)state;
    static struct ride r;
    uint32_t missed = 0, jobs = 0;
    for (uint32_t run = 0; run < 300; run++) {
        uint32_t d = 1 + draw(12), work = 1 + draw(200);
        struct spot_terms terms = {.work = work,
                                   .window = work + d + draw(6 * d + 60),
                                   .changeover = d,
                                   .spot_price = 900,
                                   .on_demand_price = 3000,
                                   .cells = 400};
        r = (struct ride){.zones = 1 + draw(4)};
        size_t bytes = spot_table_bytes(&terms);
        void *memory = malloc(bytes);
        static struct spot_step short_step, long_step;
        draw_step(&short_step, spot_table_grain(&terms));
        draw_step(&long_step, spot_table_lag(&terms));
        spot_table_solve(&r.table, &terms, &short_step, &long_step, memory);
        size_t values = (size_t)r.table.work_rows * r.table.slack_rows * SPOT_CELL;
        if (run % 2 == 0)
            for (size_t i = 0; i < values; i++) r.table.values[i] = (int32_t)draw(1U << 28);
        spot_life_clear(&r.life, r.zones);
        spot_classify(&r.life, 886, &r.classes);
        for (uint32_t z = 0; z < r.zones; z++)
            for (uint32_t b = 0; b < SPOT_AGES; b++)
                r.classes.class_of[z][b] = (uint8_t)(1 + draw(SPOT_CLASSES));
        for (uint32_t k = 0; k < 60; k++, jobs++) {
            struct spot_job job = {.work_left = work,
                                   .time_left = work + d + draw(terms.window - work - d + 1)};
            missed += !ride_job(&r, job);
        }
        free(memory);
        if (run == 0) assert_true(r.starts > 0);
    }
    assert_int_equal(jobs, 18000);
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_trace),
        cmocka_unit_test(scores_are_expected_lives),
        cmocka_unit_test(classes_are_geometric),
        cmocka_unit_test(the_best_zone_is_of_the_best_class_and_up_longest),
        cmocka_unit_test(the_cheapest_zone_is_that_of_most_productive_time_for_its_price),
        cmocka_unit_test(rows_are_probabilities),
        cmocka_unit_test(a_regular_zone_is_learned),
        cmocka_unit_test(no_deadline_is_missed_whatever_the_table_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
