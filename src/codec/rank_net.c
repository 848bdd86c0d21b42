#include "codec/rank_net.h"
#include "core/assert.h"
#include "core/limits.h"
#include <string.h>

#define ONE INT64_C(1000000)

enum { LOG_BITS = 8 };
static_assert(RANK_UNIT == 1 << LOG_BITS, "a step of the logarithm is a 256th");

const char *const rank_input_names[RANK_INPUT_COUNT] = {
#define X(name, word, meaning) word,
    RANK_INPUTS(X)
#undef X
};

void rank_fields_of(const struct offer_view *v, uint32_t ncu_milli,
                    int64_t ret_fields[RANK_FIELD_COUNT])
{
    memset(ret_fields, 0, RANK_FIELD_COUNT * sizeof ret_fields[0]);
    ret_fields[RANK_PRICE] = v->usd_micros_per_hour;
    ret_fields[RANK_ON_DEMAND] = v->on_demand_usd_micros_per_hour;
    ret_fields[RANK_HAZARD] = v->hazard_ppm;
    ret_fields[RANK_DISTRUST] = v->risk_ppm;
    ret_fields[RANK_AGE] = v->up_us / 3600;
    ret_fields[RANK_CHANGEOVER] = v->changeover_us / 3600;
    ret_fields[RANK_NCU] = (int64_t)ncu_milli * v->device_count * 1000;
    ret_fields[RANK_DEVICES] = (int64_t)v->device_count * ONE;
    ret_fields[RANK_STOCK] = (int64_t)v->stock_count * ONE;
    ret_fields[RANK_HELD] = (int64_t)v->nodes_held * ONE;
    ret_fields[RANK_SPOT] = v->capacity == CAPACITY_SPOT ? ONE : 0;
}

/* Base 2, in 256ths, rounded down; of 0 and less: 0. One bit of the fraction for each squaring. */
static int32_t log_of(int64_t value)
{
    if (value <= 1) return 0;
    uint32_t whole = 63 - (uint32_t)__builtin_clzll((uint64_t)value);
    uint64_t mantissa =
        whole >= 31 ? (uint64_t)value >> (whole - 31) : (uint64_t)value << (31 - whole);
    int32_t log = (int32_t)whole;
    for (int i = 0; i < LOG_BITS; i++) {
        mantissa = mantissa * mantissa >> 31;
        log = log * 2 + (mantissa >> 32 != 0);
        if (mantissa >> 32 != 0) mantissa >>= 1;
    }
    return log;
}

/* 2^(score / 256) in millionths. */
static int64_t power_of(int32_t score)
{
    /* 2^(1/2), 2^(1/4), ... 2^(1/256) */
    static const int64_t roots[LOG_BITS] = {92682, 77936, 71468, 68438, 66971, 66250, 65892, 65714};
    ASSERT(score >= -RANK_SCORE_MAX && score <= RANK_SCORE_MAX);
    uint32_t bits = (uint32_t)(score + RANK_SCORE_MAX);
    int64_t power = INT64_C(65536) << bits / RANK_UNIT >> RANK_SCORE_MAX / RANK_UNIT;
    for (uint32_t i = 0; i < LOG_BITS; i++)
        if (bits >> (LOG_BITS - 1 - i) & 1) power = power * roots[i] >> 16;
    return power * ONE >> 16;
}

static int64_t above_0(int64_t value)
{
    return value < 0 ? 0 : value;
}

static int64_t weighed(const int64_t fields[RANK_FIELD_COUNT])
{
    return rank_multiply(fields[RANK_PRICE], ONE + above_0(fields[RANK_DISTRUST]));
}

/* 0: it has none. */
static int64_t unit_price(const int64_t fields[RANK_FIELD_COUNT])
{
    return fields[RANK_NCU] <= 0 ? 0 : rank_divide(weighed(fields), fields[RANK_NCU]);
}

static int64_t devices_of(const int64_t fields[RANK_FIELD_COUNT], enum rank_field nodes)
{
    return rank_multiply(above_0(fields[nodes]), above_0(fields[RANK_DEVICES]));
}

void rank_around_add(struct rank_around *around, const int64_t fields[RANK_FIELD_COUNT])
{
    int64_t price = unit_price(fields), held = devices_of(fields, RANK_HELD);
    around->held = held > INT64_MAX - around->held ? INT64_MAX : around->held + held;
    if (price <= 0 || fields[RANK_STOCK] + fields[RANK_HELD] <= 0) return;
    if (around->least == 0 || price < around->least) around->least = price;
}

static int32_t log_ratio(int64_t a, int64_t b)
{
    return a <= 0 || b <= 0 ? 0 : log_of(a) - log_of(b);
}

void rank_inputs_of(const int64_t fields[RANK_FIELD_COUNT], const struct rank_around *around,
                    int32_t ret_inputs[RANK_INPUT_COUNT])
{
    int64_t devices = fields[RANK_DEVICES];
    int64_t speed = devices <= 0 ? 0 : rank_divide(above_0(fields[RANK_NCU]), devices);
    int64_t held = devices_of(fields, RANK_HELD);
    int32_t inputs[RANK_INPUT_COUNT] = {
        [RANK_INPUT_PRICE] = log_ratio(fields[RANK_PRICE], fields[RANK_ON_DEMAND]),
        [RANK_INPUT_DEARER] = log_ratio(unit_price(fields), around->least),
        [RANK_INPUT_HAZARD] = log_of(above_0(fields[RANK_HAZARD]) / 1000 + 1),
        [RANK_INPUT_DISTRUST] = log_of(above_0(fields[RANK_DISTRUST]) / 1000 + 1000) - log_of(1000),
        [RANK_INPUT_AGE] = log_of(above_0(fields[RANK_AGE]) / 50000 + 1),
        [RANK_INPUT_CHANGEOVER] = log_of(above_0(fields[RANK_CHANGEOVER]) / 1000 + 1),
        [RANK_INPUT_STOCK] = log_of(devices_of(fields, RANK_STOCK) / ONE + 1),
        [RANK_INPUT_HELD] = log_of(held / ONE + 1),
        [RANK_INPUT_SHARE] =
            around->held <= 0 ? 0 : (int32_t)(rank_divide(held, around->held) * RANK_UNIT / ONE),
        [RANK_INPUT_DEVICES] = log_of(devices / ONE),
        [RANK_INPUT_SPEED] = log_of(speed / (ONE / 16) + 1),
        [RANK_INPUT_SPOT] = fields[RANK_SPOT] != 0 ? RANK_UNIT : 0,
    };
    memcpy(ret_inputs, inputs, sizeof inputs);
}

bool rank_net_knows(const struct rank_net *net, const int32_t inputs[RANK_INPUT_COUNT])
{
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++)
        if (inputs[i] < net->ranges[i].from || inputs[i] > net->ranges[i].to) return false;
    return true;
}

static int32_t cut(int32_t value, int32_t most)
{
    return value < -most ? -most : value > most ? most : value;
}

/* Over +-1 by its range; one that was always the same says nothing. */
static int32_t spread(struct rank_range range, int32_t input)
{
    if (range.to <= range.from) return 0;
    int32_t x = (input - range.from) * 2 * RANK_UNIT / (range.to - range.from) - RANK_UNIT;
    return cut(x, RANK_UNIT);
}

int32_t rank_net_score(const struct rank_net *net, const int32_t inputs[RANK_INPUT_COUNT])
{
    int32_t x[RANK_INPUT_COUNT];
    const int8_t *out = net->weights + RANK_HIDDEN * RANK_ROW;
    int32_t score = out[0] * RANK_UNIT;
    for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++)
        x[i] = spread(net->ranges[i], cut(inputs[i], RANK_INPUT_MAX));
    for (uint32_t j = 0; j < RANK_HIDDEN; j++) {
        const int8_t *row = net->weights + j * RANK_ROW;
        int32_t sum = row[0] * RANK_UNIT;
        for (uint32_t i = 0; i < RANK_INPUT_COUNT; i++) sum += row[1 + i] * x[i];
        score += out[1 + j] * cut(sum / 64, RANK_UNIT);
    }
    return cut(score / 64, RANK_SCORE_MAX);
}

uint32_t rank_net_factor_ppm(const struct rank_net *net, const int64_t fields[RANK_FIELD_COUNT],
                             const struct rank_around *around)
{
    int32_t inputs[RANK_INPUT_COUNT];
    if (fields[RANK_PRICE] <= 0) return 0;
    rank_inputs_of(fields, around, inputs);
    if (!rank_net_knows(net, inputs)) return RANK_OUTSIDE;
    return rank_factor_ppm(power_of(rank_net_score(net, inputs)), ONE);
}
