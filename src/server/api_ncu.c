/* What a number of NCU costs: the cheapest mix on sale, or by the list prices of the catalog. */
#include "base/mem.h"
#include "codec/json.h"
#include "codec/names.h"
#include "core/ncu_mix.h"
#include "core/quote_ncu.h"
#include "server/server_state.h"
#include <inttypes.h>

/* Of one answer, from wherever it comes. */
struct ncu_answer {
    const char *source, *region; /* "market", "list" */
    uint32_t verdict;
    int64_t a, b, c;
    json_t *lines;
    uint64_t ncu_milli;
    int64_t usd_micros_per_hour, bound_usd_micros_per_hour, single_usd_micros_per_hour;
    const char *single_model;
};

static json_t *line_json(const char *model, const char *zone, const char *capacity,
                         uint32_t devices, uint64_t ncu_milli, int64_t usd_micros_per_hour)
{
    return json_pack("{s:s,s:s,s:s,s:I,s:I,s:I}", "model", model, "zone", zone, "capacity",
                     capacity, "devices", (json_int_t)devices, "ncu_milli", (json_int_t)ncu_milli,
                     "usd_micros_per_hour", (json_int_t)usd_micros_per_hour);
}

static void answer_ncu(request *r, const struct ncu_answer *answer)
{
    char text[NAMES_SENTENCE_BYTES];
    bool failed = answer->lines == NULL;
    json_t *body = json_object();
    (void)reason_format(answer->verdict, answer->a, answer->b, answer->c, text, sizeof text);
    if (answer->verdict == REASON_FITS) text[0] = '\0';
    json_set_text(body, "source", answer->source, &failed);
    json_set_text(body, "region", answer->region, &failed);
    json_set_text(body, "verdict", name_reason(answer->verdict), &failed);
    json_set_text(body, "text", text, &failed);
    json_set_i64(body, "ncu_milli", (int64_t)answer->ncu_milli, &failed);
    json_set_i64(body, "usd_micros_per_hour", answer->usd_micros_per_hour, &failed);
    json_set_i64(body, "bound_usd_micros_per_hour", answer->bound_usd_micros_per_hour, &failed);
    json_set_i64(body, "single_usd_micros_per_hour", answer->single_usd_micros_per_hour, &failed);
    json_set_text(body, "single_model", answer->single_model, &failed);
    json_set(body, "lines", answer->lines, &failed);
    request_reply_json(r, 200, json_finish(body, failed));
}

/* Devices at list prices, any number of each. */
static void plan_by_list(struct server *s, request *r, uint64_t ncu_milli, int64_t budget)
{
    struct ncu_type types[CATALOG_MODELS_MAX];
    uint32_t models[CATALOG_MODELS_MAX], count = 0;
    struct ncu_mix mix, single;
    static_assert((int)CATALOG_MODELS_MAX <= (int)NCU_TYPES_MAX, "every model is a type");
    for (uint32_t i = 0; i < s->catalog->model_count; i++) {
        const struct catalog_model *m = &s->catalog->models[i];
        if (m->ncu_milli == 0 || m->usd_micros_per_hour == 0) continue;
        models[count] = i;
        types[count++] = (struct ncu_type){.ncu_milli = m->ncu_milli,
                                           .stock = UINT32_MAX,
                                           .usd_micros_per_hour = m->usd_micros_per_hour};
    }
    struct ncu_answer answer = {.source = "list",
                                .region = "",
                                .verdict = REASON_NO_OFFER,
                                .single_model = "",
                                .lines = json_array()};
    if (ncu_mix_cheapest(types, count, ncu_milli, &mix)) {
        answer.verdict = REASON_FITS;
        answer.ncu_milli = mix.ncu_milli;
        answer.usd_micros_per_hour = mix.usd_micros_per_hour;
        answer.bound_usd_micros_per_hour = mix.bound_usd_micros_per_hour;
        for (uint32_t i = 0; i < count; i++)
            if (mix.counts[i] > 0)
                (void)json_array_append_new(
                    answer.lines,
                    line_json(s->catalog->models[models[i]].name, "", "list", mix.counts[i],
                              (uint64_t)mix.counts[i] * types[i].ncu_milli,
                              mix.counts[i] * types[i].usd_micros_per_hour));
        if (ncu_mix_single(types, count, ncu_milli, &single)) {
            answer.single_usd_micros_per_hour = single.usd_micros_per_hour;
            for (uint32_t i = 0; i < count; i++)
                if (single.counts[i] > 0) answer.single_model = s->catalog->models[models[i]].name;
        }
    }
    if (answer.verdict == REASON_FITS && budget > 0 && answer.usd_micros_per_hour > budget) {
        answer.verdict = REASON_NCU_BUDGET;
        answer.a = answer.usd_micros_per_hour;
        answer.b = budget;
        answer.c = (int64_t)ncu_milli;
    }
    answer_ncu(r, &answer);
}

static void plan_by_market(struct server *s, request *r, const struct ncu_quote *quote)
{
    struct view_names views = server_view_names(s);
    struct offer_view offer;
    struct ncu_answer answer = {
        .source = "market",
        .region = names_text(s->names, ID_REGION, quote->region),
        .verdict = quote->verdict,
        .a = quote->a,
        .b = quote->b,
        .c = quote->c,
        .ncu_milli = quote->ncu_milli,
        .usd_micros_per_hour = quote->usd_micros_per_hour,
        .bound_usd_micros_per_hour = quote->bound_usd_micros_per_hour,
        .single_usd_micros_per_hour = quote->single_usd_micros_per_hour,
        .single_model = "",
        .lines = json_array(),
    };
    for (uint32_t i = 0; i < quote->line_count; i++) {
        const struct ncu_line *line = &quote->lines[i];
        bool known = views.offer_of(views.self, line->offer_id, &offer);
        (void)json_array_append_new(
            answer.lines, line_json(known ? s->catalog->models[offer.model].name : "",
                                    known ? names_text(s->names, ID_ZONE, offer.zone) : "",
                                    known ? name_capacity(offer.capacity) : "", line->device_count,
                                    line->ncu_milli, line->usd_micros_per_hour));
    }
    if (quote->single_offer_id != 0 && views.offer_of(views.self, quote->single_offer_id, &offer))
        answer.single_model = s->catalog->models[offer.model].name;
    answer_ncu(r, &answer);
}

void api_plan_ncu(struct server *s, request *r)
{
    uint64_t ncu_milli, budget, by_list;
    if (!request_query_u64(r, "ncu_milli", 0, NCU_WANTED_MAX, &ncu_milli) ||
        !request_query_u64(r, "usd_micros_per_hour", 0, INT64_MAX, &budget) ||
        !request_query_u64(r, "list", 0, 1, &by_list))
        return;
    if (ncu_milli == 0) {
        request_fail(r, 400, "ncu_milli is not given; say how many thousandths of an NCU");
        return;
    }
    struct ncu_need need = {.ncu_milli = ncu_milli, .budget_usd_micros_per_hour = (int64_t)budget};
    struct ncu_quote quote;
    pool_quote_ncu(s->pool, &need, &quote);
    if (by_list == 1 || pool_offers_end(s->pool) == 0)
        plan_by_list(s, r, ncu_milli, (int64_t)budget);
    else
        plan_by_market(s, r, &quote);
}
