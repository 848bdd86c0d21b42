#include "codec/explain_json.h"
#include "codec/json.h"
#include "codec/names.h"
#include <inttypes.h>
#include <stdio.h>

enum { WISH_TEXT_BYTES = 320 };

static const char *const kind_names[WISH_KIND_END] = {
    [WISH_FEWER_DEVICES] = "fewer_devices",
    [WISH_WITHOUT_CAPABILITY] = "without_capability",
    [WISH_LESS_MEMORY] = "less_memory",
    [WISH_ANY_POOL] = "any_pool",
    [WISH_ANY_REGION] = "any_region",
    [WISH_ANY_KIND] = "any_kind",
    [WISH_ANY_PRICE] = "any_price",
    [WISH_BUDGET] = "budget",
    [WISH_CLASS] = "class",
    [WISH_ANY_PLACE] = "any_place",
    [WISH_GATE] = "gate",
    [WISH_FEWER_NCU] = "fewer_ncu",
};

static void say_change(const struct view_names *names, const struct wish *wish,
                       char text[WISH_TEXT_BYTES])
{
    char money[NAMES_NUMBER_BYTES];
    const struct catalog *catalog = names->catalog;
    uint32_t bit = (uint32_t)wish->value;
    switch ((enum wish_kind)wish->kind) {
    case WISH_FEWER_DEVICES:
        (void)snprintf(text, WISH_TEXT_BYTES, "with %" PRId64 " device%s", wish->value,
                       wish->value == 1 ? "" : "s");
        return;
    case WISH_WITHOUT_CAPABILITY:
        (void)snprintf(text, WISH_TEXT_BYTES, "without %s",
                       bit < catalog->capability_count ? catalog->capabilities[bit] : "?");
        return;
    case WISH_LESS_MEMORY:
        (void)snprintf(text, WISH_TEXT_BYTES, "with devices of %" PRId64 " GB", wish->value / 1024);
        return;
    case WISH_BUDGET:
        (void)snprintf(text, WISH_TEXT_BYTES, "with a budget of %s/h",
                       money_format_up(wish->value, money));
        return;
    case WISH_GATE:
        (void)snprintf(text, WISH_TEXT_BYTES, "with %s/h left within its cost gates",
                       money_format_up(wish->value, money));
        return;
    case WISH_FEWER_NCU:
        (void)snprintf(text, WISH_TEXT_BYTES, "with %" PRId64 ".%" PRId64 " NCU",
                       wish->value / 1000, wish->value / 100 % 10);
        return;
    case WISH_CLASS:
        (void)snprintf(text, WISH_TEXT_BYTES, "at class %s", name_job_class((uint32_t)wish->value));
        return;
    case WISH_ANY_POOL: (void)snprintf(text, WISH_TEXT_BYTES, "outside its pools"); return;
    case WISH_ANY_REGION: (void)snprintf(text, WISH_TEXT_BYTES, "in another region"); return;
    case WISH_ANY_KIND: (void)snprintf(text, WISH_TEXT_BYTES, "with any kind of capacity"); return;
    case WISH_ANY_PLACE:
        (void)snprintf(text, WISH_TEXT_BYTES, "without `same` and `spread`");
        return;
    case WISH_ANY_PRICE:
        (void)snprintf(text, WISH_TEXT_BYTES, "with a price_threshold of 1");
        return;
    case WISH_KIND_END: break;
    }
    text[0] = '\0';
}

/* "without fp8: 4 devices in europe-west4 for $2.40/h", "at class P0: 2 workers of lower classes
 * would go". */
static void say(const struct view_names *names, const struct wish *wish, const char *region,
                char text[WISH_TEXT_BYTES])
{
    char change[WISH_TEXT_BYTES / 2], all[WISH_TEXT_BYTES], money[NAMES_NUMBER_BYTES];
    say_change(names, wish, all);
    (void)snprintf(change, sizeof change, "%.150s", all); /* the longest name fits */
    if (wish->victim_count > 0)
        (void)snprintf(text, WISH_TEXT_BYTES,
                       "%s: in %s, where %" PRIu32 " worker%s of lower classes would go", change,
                       region, wish->victim_count, wish->victim_count == 1 ? "" : "s");
    else
        (void)snprintf(text, WISH_TEXT_BYTES, "%s: %" PRIu32 " device%s in %s for %s/h", change,
                       wish->device_count, wish->device_count == 1 ? "" : "s", region,
                       money_format(wish->usd_micros_per_hour, money));
}

/* " for +$1.90/h", " for $1.90/h less"; "": the same, or not known. */
static void say_extra(const struct wish *wish, char text[64])
{
    char money[NAMES_NUMBER_BYTES];
    int64_t extra = wish->extra_usd_micros_per_hour;
    text[0] = '\0';
    if (!wish->has_extra || extra == 0) return;
    if (extra > 0)
        (void)snprintf(text, 64, " for +%s/h", money_format(extra, money));
    else
        (void)snprintf(text, 64, " for %s/h less", money_format(-extra, money));
}

/* A few words of the line "would start now with fp16, or in europe-west4 for +$1.90/h, or at P1". */
static void say_words(const struct view_names *names, const struct explanation *explanation,
                      const struct wish *wish, const char *region, char text[WISH_TEXT_BYTES])
{
    char change[WISH_TEXT_BYTES], extra[64];
    const struct catalog *catalog = names->catalog;
    uint64_t left = explanation->capability_mask & ~(UINT64_C(1) << (uint32_t)(wish->value & 63));
    uint32_t bit = left == 0 ? UINT32_MAX : (uint32_t)__builtin_ctzll(left);
    say_extra(wish, extra);
    if (wish->kind == WISH_WITHOUT_CAPABILITY && bit < catalog->capability_count &&
        (left & (left - 1)) == 0)
        (void)snprintf(change, sizeof change, "with %s", catalog->capabilities[bit]);
    else if (wish->kind == WISH_ANY_REGION)
        (void)snprintf(change, sizeof change, "in %s", region);
    else if (wish->kind == WISH_CLASS)
        (void)snprintf(change, sizeof change, "at %s", name_job_class((uint32_t)wish->value));
    else
        say_change(names, wish, change);
    (void)snprintf(text, WISH_TEXT_BYTES, "%.250s%s", change, extra);
}

/* "expected free in region-2 when job 7 ends; 3 of 8 devices are free now": the time is the reader's. */
json_t *next_free_json(const struct view_names *names, const struct next_free *next)
{
    bool failed = false;
    char text[WISH_TEXT_BYTES], ends[64] = "when a worker has handed over";
    if (next->at_us == 0) return json_null();
    const char *region = names->name_of(names->self, ID_REGION, next->region);
    if (next->job_id != 0)
        (void)snprintf(ends, sizeof ends, "when job %" PRIu64 " ends", next->job_id);
    (void)snprintf(text, sizeof text,
                   "in %s, %s; %" PRIu32 " of %" PRIu32 " device%s free there now", region, ends,
                   next->device_count, next->devices_min, next->devices_min == 1 ? " is" : "s are");
    json_t *row = json_object();
    json_set_i64(row, "t", next->at_us, &failed);
    json_set_text(row, "text", text, &failed);
    json_set_u64(row, "job", next->job_id, &failed);
    json_set_text(row, "region", region, &failed);
    json_set_u64(row, "devices", next->device_count, &failed);
    json_set_u64(row, "devices_min", next->devices_min, &failed);
    return json_finish(row, failed);
}

json_t *explanation_json(const struct view_names *names, const struct explanation *explanation)
{
    bool failed = false;
    json_t *rows = json_array();
    for (uint32_t i = 0; i < explanation->wish_count; i++) {
        const struct wish *wish = &explanation->wishes[i];
        const char *region = names->name_of(names->self, ID_REGION, wish->region);
        char text[WISH_TEXT_BYTES], words[WISH_TEXT_BYTES];
        say(names, wish, region == NULL ? "" : region, text);
        say_words(names, explanation, wish, region == NULL ? "" : region, words);
        json_t *row = json_object();
        json_set_text(row, "kind", kind_names[wish->kind], &failed);
        json_set_text(row, "text", text, &failed);
        json_set_text(row, "words", words, &failed);
        json_set_i64(row, "value", wish->value, &failed);
        json_set_text(row, "region", region, &failed);
        json_set_u64(row, "devices", wish->device_count, &failed);
        json_set_u64(row, "victims", wish->victim_count, &failed);
        json_set_i64(row, "usd_micros_per_hour", wish->usd_micros_per_hour, &failed);
        if (wish->has_extra)
            json_set_i64(row, "extra_usd_micros_per_hour", wish->extra_usd_micros_per_hour,
                         &failed);
        json_append(rows, row, &failed);
    }
    return json_finish(rows, failed);
}

json_t *deadline_json(const struct job_view *view, int64_t now_us)
{
    bool failed = false;
    char text[160], left[NAMES_NUMBER_BYTES], work[NAMES_NUMBER_BYTES], slack[NAMES_NUMBER_BYTES];
    if (view->deadline_us == 0 || view->ended_us != 0) return json_null();
    int64_t left_us = view->deadline_us - now_us, slack_us = left_us - view->work_left_us;
    span_format(left_us, left);
    span_format(view->work_left_us, work);
    span_format(slack_us, slack);
    if (left_us < 0)
        (void)snprintf(text, sizeof text, "its deadline has passed; its work takes another %s",
                       work);
    else
        (void)snprintf(text, sizeof text,
                       "its deadline is in %s, its work takes %s: %s are left for losses", left,
                       work, slack);
    json_t *object = json_object();
    json_set_i64(object, "t", view->deadline_us, &failed);
    json_set_i64(object, "work_left_us", view->work_left_us, &failed);
    json_set_i64(object, "slack_us", slack_us, &failed);
    json_set_text(object, "text", text, &failed);
    return json_finish(object, failed);
}
