/* What accounts, classes and pools have spent, set aside and left. */
#include "codec/budget_json.h"
#include "server/server_state.h"

void api_budget(struct server *s, request *r)
{
    struct view_names view_names = server_view_names(s);
    json_t *rows = json_array();
    for (uint32_t i = 0; rows != NULL && i < pool_budgets_end(s->pool); i++) {
        struct budget_line line;
        if (!pool_budget_at(s->pool, i, &line)) continue;
        if (json_array_append_new(rows, budget_json(&view_names, &line)) == 0) continue;
        json_decref(rows); /* out of memory: no half answer */
        rows = NULL;
    }
    request_reply_json(r, 200, rows == NULL ? NULL : json_pack("{s:o}", "budgets", rows));
}
