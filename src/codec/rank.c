#include "codec/rank.h"
#include "core/assert.h"
#include "core/limits.h"
#include <string.h>

#define ONE INT64_C(1000000)
enum { STACK_MAX = RANK_OPS_MAX, FACTOR_BITS = 9 };

enum code { NUMBER, FIELD, ADD, SUB, MUL, DIV, LESS, LESS_EQ, MORE, MORE_EQ, EQ, NOT_EQ, MIN, MAX,
            NEGATE, IF };

static const char *const fields[RANK_FIELD_COUNT] = {
#define X(name, word) [RANK_##name] = word,
    RANK_FIELDS(X)
#undef X
};

struct parser {
    const char *text, *at;
    struct rank_program *program;
    struct error *error;
    uint32_t depth;
};

static bool fail(struct parser *p, const char *at, const char *what)
{
    return error_set(p->error, "column %zu: %s", (size_t)(at - p->text) + 1, what);
}

static void skip_blanks(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n') p->at++;
}

static bool take(struct parser *p, const char *word)
{
    skip_blanks(p);
    if (strncmp(p->at, word, strlen(word)) != 0) return false;
    p->at += strlen(word);
    return true;
}

static bool expect(struct parser *p, const char *word, const char *what)
{
    return take(p, word) || fail(p, p->at, what);
}

static bool emit(struct parser *p, enum code code, int64_t value)
{
    if (p->program->count == RANK_OPS_MAX)
        return fail(p, p->at, "the expression is too long; it may have 128 steps");
    p->program->ops[p->program->count++] = (struct rank_op){.code = code, .value = value};
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

static bool parse_number(struct parser *p)
{
    const char *begin = p->at;
    int64_t value = 0, unit = ONE;
    for (; is_digit(*p->at); p->at++) {
        value = value * 10 + (*p->at - '0') * ONE;
        if (value > 1000000000 * ONE) return fail(p, begin, "the number is above a billion");
    }
    if (*p->at == '.') {
        if (!is_digit(*++p->at)) return fail(p, p->at, "digits are missing after the point");
        for (; is_digit(*p->at); p->at++) {
            unit /= 10;
            if (unit == 0) return fail(p, p->at, "more than six places after the point");
            value += (*p->at - '0') * unit;
        }
    }
    return emit(p, NUMBER, value);
}

static bool parse_comparison(struct parser *p);

static bool parse_call(struct parser *p, uint32_t arguments, enum code code)
{
    for (uint32_t i = 0; i < arguments; i++)
        if (!expect(p, i == 0 ? "(" : ",", i == 0 ? "( is missing" : ", is missing: there are more "
                                                                     "arguments") ||
            !parse_comparison(p))
            return false;
    return expect(p, ")", ") is missing") && emit(p, code, 0);
}

static bool parse_word(struct parser *p)
{
    const char *begin = p->at;
    while (is_letter(*p->at)) p->at++;
    size_t length = (size_t)(p->at - begin);
    if (length == 3 && memcmp(begin, "min", 3) == 0) return parse_call(p, 2, MIN);
    if (length == 3 && memcmp(begin, "max", 3) == 0) return parse_call(p, 2, MAX);
    if (length == 2 && memcmp(begin, "if", 2) == 0) return parse_call(p, 3, IF);
    for (uint32_t field = 0; field < RANK_FIELD_COUNT; field++)
        if (strlen(fields[field]) == length && memcmp(begin, fields[field], length) == 0)
            return emit(p, FIELD, field);
    return fail(p, begin, "no such field; there are price, on_demand, hazard, distrust, age, "
                          "changeover, ncu, devices, stock, held, spot, and min, max, if");
}

static bool parse_factor(struct parser *p)
{
    skip_blanks(p);
    if (p->depth == RANK_DEPTH_MAX) return fail(p, p->at, "nested too deeply");
    p->depth++;
    bool good;
    if (is_digit(*p->at))
        good = parse_number(p);
    else if (is_letter(*p->at))
        good = parse_word(p);
    else if (take(p, "-"))
        good = parse_factor(p) && emit(p, NEGATE, 0);
    else if (take(p, "("))
        good = parse_comparison(p) && expect(p, ")", ") is missing");
    else
        good = fail(p, p->at, "a number, a field or ( is missing");
    p->depth--;
    return good;
}

static bool parse_product(struct parser *p)
{
    if (!parse_factor(p)) return false;
    for (;;) {
        enum code code = take(p, "*") ? MUL : take(p, "/") ? DIV : NUMBER;
        if (code == NUMBER) return true;
        if (!parse_factor(p) || !emit(p, code, 0)) return false;
    }
}

static bool parse_sum(struct parser *p)
{
    if (!parse_product(p)) return false;
    for (;;) {
        enum code code = take(p, "+") ? ADD : take(p, "-") ? SUB : NUMBER;
        if (code == NUMBER) return true;
        if (!parse_product(p) || !emit(p, code, 0)) return false;
    }
}

static bool parse_comparison(struct parser *p)
{
    static const struct {
        const char *word;
        enum code code;
    } words[] = {{"<=", LESS_EQ}, {">=", MORE_EQ}, {"==", EQ},
                 {"!=", NOT_EQ},  {"<", LESS},     {">", MORE}};
    if (!parse_sum(p)) return false;
    for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (take(p, words[i].word)) return parse_sum(p) && emit(p, words[i].code, 0);
    return true;
}

bool rank_parse(const char *text, struct rank_program *ret_program, struct error *ret_error)
{
    struct parser p = {.text = text, .at = text, .program = ret_program, .error = ret_error};
    *ret_program = (struct rank_program){0};
    if (strlen(text) > RANK_TEXT_MAX)
        return error_set(ret_error, "column %d: the expression is longer than %d bytes",
                         RANK_TEXT_MAX + 1, RANK_TEXT_MAX);
    if (!parse_comparison(&p)) return false;
    skip_blanks(&p);
    return *p.at == '\0' || fail(&p, p.at, "an operator is missing, or there is too much");
}

/* ---- evaluation ---- */

static int64_t saturated(bool is_negative)
{
    return is_negative ? -INT64_MAX : INT64_MAX;
}

static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) || sum == INT64_MIN ? saturated(a < 0) : sum;
}

static int64_t signed_as(int64_t size, int64_t a, int64_t b)
{
    return (a < 0) != (b < 0) ? -size : size;
}

static int64_t absolute(int64_t a)
{
    return a < 0 ? -a : a;
}

int64_t rank_multiply(int64_t a, int64_t b)
{
    int64_t x = absolute(a), y = absolute(b), size;
    if (__builtin_mul_overflow(x / ONE, y, &size)) size = INT64_MAX;
    size = add(size, x % ONE * (y / ONE));
    return signed_as(add(size, x % ONE * (y % ONE) / ONE), a, b);
}

int64_t rank_divide(int64_t a, int64_t b)
{
    if (b == 0) return INT64_MAX;
    int64_t x = absolute(a), y = absolute(b), size, rest = x % y;
    if (__builtin_mul_overflow(x / y, ONE, &size)) size = INT64_MAX;
    rest = rest <= INT64_MAX / ONE ? rest * ONE / y : rest / (y / ONE);
    return signed_as(add(size, rest < ONE ? rest : ONE - 1), a, b);
}

static int64_t apply(enum code code, int64_t a, int64_t b)
{
    switch (code) {
    case ADD: return add(a, b);
    case SUB: return add(a, -b);
    case MUL: return rank_multiply(a, b);
    case DIV: return rank_divide(a, b);
    case LESS: return a < b ? ONE : 0;
    case LESS_EQ: return a <= b ? ONE : 0;
    case MORE: return a > b ? ONE : 0;
    case MORE_EQ: return a >= b ? ONE : 0;
    case EQ: return a == b ? ONE : 0;
    case NOT_EQ: return a != b ? ONE : 0;
    case MIN: return a < b ? a : b;
    case MAX: return a > b ? a : b;
    case NUMBER:
    case FIELD:
    case NEGATE:
    case IF: break;
    }
    UNREACHABLE();
}

int64_t rank_evaluate(const struct rank_program *program, const int64_t values[RANK_FIELD_COUNT])
{
    int64_t stack[STACK_MAX];
    uint32_t top = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        const struct rank_op *op = &program->ops[i];
        if (op->code == NUMBER || op->code == FIELD) {
            ASSERT(top < STACK_MAX);
            stack[top++] = op->code == NUMBER ? op->value : values[op->value];
        } else if (op->code == NEGATE) {
            stack[top - 1] = -stack[top - 1];
        } else if (op->code == IF) {
            top -= 2;
            stack[top - 1] = stack[top - 1] != 0 ? stack[top] : stack[top + 1];
        } else {
            top--;
            stack[top - 1] = apply((enum code)op->code, stack[top - 1], stack[top]);
        }
    }
    ASSERT(top == 1);
    return stack[0];
}

uint32_t rank_factor_ppm(int64_t value_micros, int64_t price_usd_micros)
{
    if (value_micros <= 0 || price_usd_micros <= 0) return 0;
    int64_t factor = rank_divide(value_micros, price_usd_micros);
    if (factor < RANK_PPM_MIN) return RANK_PPM_MIN;
    if (factor > RANK_PPM_MAX) return RANK_PPM_MAX;
    uint32_t bits = 64 - (uint32_t)__builtin_clzll((uint64_t)factor);
    uint32_t dropped = bits > FACTOR_BITS ? bits - FACTOR_BITS : 0;
    uint32_t rounded = (uint32_t)(factor >> dropped << dropped);
    return rounded < RANK_PPM_MIN ? RANK_PPM_MIN : rounded;
}
