#include "codec/budget_json.h"
#include "codec/json.h"
#include "codec/names.h"

static const char *const period_keys[BUDGET_PERIODS] = {"hour", "day", "month"};

/* What is left is never below 0, even where prices have risen since the purchase. */
static json_t *amount_json(const struct budget_amount *amount)
{
    bool failed = false;
    json_t *object = json_object();
    int64_t taken = amount->used_usd_micros + amount->reserved_usd_micros;
    json_set_i64(object, "used_usd_micros", amount->used_usd_micros, &failed);
    json_set_i64(object, "reserved_usd_micros", amount->reserved_usd_micros, &failed);
    if (amount->limit_usd_micros != GATE_NONE) {
        int64_t left = amount->limit_usd_micros - taken;
        json_set_i64(object, "limit_usd_micros", amount->limit_usd_micros, &failed);
        json_set_i64(object, "left_usd_micros", left > 0 ? left : 0, &failed);
    }
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *bought_json(const struct budget_line *line)
{
    bool failed = false;
    json_t *object = json_object();
    json_set(object, "hour", amount_json(&line->bought[BUDGET_HOUR]), &failed);
    json_set(object, "month", amount_json(&line->bought[BUDGET_MONTH]), &failed);
    if (line->bought_job_limit_usd_micros != GATE_NONE)
        json_set_i64(object, "job_limit_usd_micros", line->bought_job_limit_usd_micros, &failed);
    json_set_text(object, "above", line->refuses != 0 ? "refuse" : "wait", &failed);
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static const char *level_of(const struct budget_line *line)
{
    static const char *const levels[] = {"all", "tenant", "project", "team", "user"};
    if (line->scope == GATE_OF_CLASS) return "class";
    return line->scope == GATE_OF_POOL ? "pool" : levels[line->level];
}

static void set_names(json_t *object, const struct view_names *names,
                      const struct budget_line *line, bool *failed)
{
    static const enum id_kind kinds[ACCOUNT_LEVELS] = {ID_TENANT, ID_PROJECT, ID_TEAM, ID_USER};
    static const char *const keys[ACCOUNT_LEVELS] = {"tenant", "project", "team", "user"};
    if (line->scope == GATE_OF_CLASS)
        json_set_text(object, "name", name_job_class(line->index), failed);
    else if (line->scope == GATE_OF_POOL)
        json_set_text(object, "name", names->name_of(names->self, ID_POOL, line->index), failed);
    else
        json_set_text(
            object, "name",
            line->level == 0
                ? ""
                : names->name_of(names->self, kinds[line->level - 1], line->names[line->level - 1]),
            failed);
    for (uint32_t i = 0; i < ACCOUNT_LEVELS; i++)
        json_set_text(object, keys[i], names->name_of(names->self, kinds[i], line->names[i]),
                      failed);
}

json_t *budget_json(const struct view_names *names, const struct budget_line *line)
{
    bool failed = false;
    json_t *object = json_object();
    json_set_text(object, "of", level_of(line), &failed);
    set_names(object, names, line, &failed);
    for (uint32_t i = 0; i < BUDGET_PERIODS && line->scope == GATE_OF_ACCOUNT; i++)
        json_set(object, period_keys[i], amount_json(&line->all[i]), &failed);
    json_set(object, "bought", bought_json(line), &failed);
    if (!failed) return object;
    json_decref(object);
    return NULL;
}
