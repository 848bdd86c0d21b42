#include "codec/rank_answer.h"
#include "codec/yaml.h"
#include "core/limits.h"
#include <inttypes.h>
#include <jansson.h>

/* Prices go up to PRICE_MAX, factors to a thousand. */
#define COUNT_MAX (PRICE_MAX * 1000)

static bool read_count(const char *key, const json_t *value, int64_t *ret_id, int64_t *ret_count,
                       struct error *ret_error)
{
    if (!yaml_parse_integer(key, ret_id) || *ret_id <= 0)
        return error_set(ret_error, "counts: \"%.40s\" is no number of an offer", key);
    *ret_count = json_integer_value(value); /* 0 of anything else */
    if (*ret_count <= 0 || *ret_count > COUNT_MAX)
        return error_set(ret_error,
                         "counts: offer %" PRId64 ": expected micro-dollars above 0, a whole number",
                         *ret_id);
    return true;
}

static bool read_answer(json_t *root, uint64_t round, rank_count_fn *count, void *self,
                        struct error *ret_error)
{
    const json_t *said = json_object_get(root, "round");
    json_t *counts = json_object_get(root, "counts");
    const char *key;
    json_t *value;
    int64_t id = 0, micros = 0;
    if (!json_is_integer(said) || (uint64_t)json_integer_value(said) != round)
        return error_set(ret_error, "expected \"round\": %" PRIu64, round);
    if (!json_is_object(counts)) return error_set(ret_error, "expected \"counts\": {\"ID\": N, ...}");
    json_object_foreach(counts, key, value)
        if (!read_count(key, value, &id, &micros, ret_error)) return false;
    json_object_foreach(counts, key, value)
        if (read_count(key, value, &id, &micros, ret_error)) count(self, (uint64_t)id, micros);
    return true;
}

bool rank_answer_read(const char *text, size_t bytes, uint64_t round, rank_count_fn *count,
                      void *self, struct error *ret_error)
{
    json_error_t trouble;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &trouble);
    if (root == NULL)
        return error_set(ret_error, "not JSON: column %d: %s", trouble.column, trouble.text);
    bool good = read_answer(root, round, count, self, ret_error);
    json_decref(root);
    return good;
}
