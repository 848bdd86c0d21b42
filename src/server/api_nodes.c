/* Calls about machines: nodes, drain, offers, pools. */
#include "codec/names.h"
#include "server/server_state.h"

/* Nodes. */

static json_t *lease_row(struct server *s, const struct lease_view *lease)
{
    json_t *row = lease_view_json(lease);
    const struct agent_info *agent = agents_find(&s->agents, lease->node_key);
    const struct agent_worker *worker =
        agent == NULL ? NULL : agent_find_worker(agent, lease->job_id, lease->worker_id);
    json_t *doing = json_string(worker == NULL ? "" : worker->doing);
    if (json_object_set_new(row, "doing", doing) == 0) return row;
    json_decref(row);
    return NULL;
}

static json_t *node_row(struct server *s, const struct node_view *view)
{
    struct view_names view_names = server_view_names(s);
    json_t *leases = json_array();
    struct lease_range range = leases_of_node(&s->leases, view->node_key);
    for (uint32_t i = 0; i < range.count; i++)
        (void)json_array_append_new(leases, lease_row(s, &range.items[i])); /* no memory: fewer */
    json_t *row = node_view_json(&view_names, view);
    const struct agent_info *agent = agents_find(&s->agents, view->node_key);
    json_t *emulated = json_boolean(agent != NULL && agent->emulated);
    if (json_object_set_new(row, "leases", leases) == 0 &&
        json_object_set_new(row, "emulated", emulated) == 0)
        return row;
    json_decref(row);
    return NULL;
}

void api_nodes(struct server *s, request *r)
{
    (void)leases_refresh(&s->leases, s->pool); /* no memory: no leases are shown */
    json_t *rows = json_array();
    for (uint32_t i = 0; i < pool_nodes_end(s->pool); i++) {
        struct node_view view;
        if (!pool_node_at(s->pool, i, &view)) continue;
        if (json_array_append_new(rows, node_row(s, &view)) == 0) continue;
        json_decref(rows); /* out of memory: no half answer */
        rows = NULL;
        break;
    }
    request_reply_json(r, 200, rows == NULL ? NULL : json_pack("{s:o}", "nodes", rows));
}

static void on_drained(void *arg, const char *error)
{
    request *r = arg;
    if (error != NULL)
        api_commit_failed(request_host(r), r, error);
    else
        request_reply_json(r, 200, json_object());
}

void api_node_drain(struct server *s, request *r)
{
    struct node_view view;
    uint64_t key = request_id(r);
    if (!pool_node_find(s->pool, key, &view)) {
        request_fail(r, 404, "there is no node %llu; see GET /v1/nodes", (unsigned long long)key);
        return;
    }
    struct pool_event event = {.kind = POOL_EVENT_NODE_DRAIN_ASKED};
    event.u.node_drain_asked.node_key = key;
    const char *trouble = pump_push(s->pump, &event);
    if (trouble != NULL)
        request_fail(r, 503, "%s", trouble);
    else
        api_wait(s, r, on_drained, r);
}

/* Offers. */

static json_t *history_of(struct server *s, uint64_t offer_id)
{
    json_t *points = json_array();
    const struct offer_info *info = offers_find(&s->offers, offer_id);
    if (info == NULL) return points;
    int64_t since_us = pump_now_us(s->pump) - OFFER_HISTORY_US;
    for (uint32_t i = 0; i < info->prices.count; i++) {
        const struct offer_price *price = array_at(&info->prices, i);
        if (price->at_us < since_us) continue;
        (void)json_array_append_new(points, json_pack("[I,I]", (json_int_t)price->at_us,
                                                      (json_int_t)price->usd_micros_per_hour));
    } /* a point that finds no memory is a gap in a picture */
    return points;
}

void api_offers(struct server *s, request *r)
{
    struct view_names view_names = server_view_names(s);
    json_t *rows = json_array();
    for (uint32_t i = 0; i < pool_offers_end(s->pool); i++) {
        struct offer_view view;
        if (!pool_offer_at(s->pool, i, &view)) continue;
        json_t *row = offer_view_json(&view_names, &view);
        if (json_object_set_new(row, "history", history_of(s, view.offer_id)) == 0 &&
            json_array_append(rows, row) == 0) {
            json_decref(row); /* the array holds it */
            continue;
        }
        json_decref(row);
        json_decref(rows); /* out of memory: no half answer */
        rows = NULL;
        break;
    }
    request_reply_json(r, 200, rows == NULL ? NULL : json_pack("{s:o}", "offers", rows));
}

/* Pools. A node is a member of every pool whose need and hardware its model meets. */

static bool is_member(struct server *s, const struct config_pool *entry,
                      const struct node_view *node)
{
    char lacking[CATALOG_NAME_BYTES];
    if (node->model >= s->catalog->model_count) return false;
    if (entry->hardware_mask != 0 && (entry->hardware_mask >> node->model & 1) == 0) return false;
    return catalog_model_has(s->catalog, node->model, &entry->need, lacking);
}

static json_t *pool_row(struct server *s, const struct config_pool *entry)
{
    json_int_t nodes = 0, devices = 0, free_devices = 0;
    json_t *members = json_array(), *row = pool_json(s->catalog, entry);
    for (uint32_t i = 0; i < pool_nodes_end(s->pool); i++) {
        struct node_view node;
        if (!pool_node_at(s->pool, i, &node) || !is_member(s, entry, &node)) continue;
        nodes++;
        devices += node.device_count;
        free_devices += node.devices_free;
        (void)json_array_append_new(members, json_integer((json_int_t)node.node_key));
    }
    json_t *counts = json_pack("{s:I,s:I,s:I,s:o}", "nodes", nodes, "devices", devices,
                               "devices_free", free_devices, "members", members);
    bool done = json_object_update(row, counts) == 0;
    json_decref(counts);
    if (done) return row;
    json_decref(row);
    return NULL;
}

void api_pools(struct server *s, request *r)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; rows != NULL && i < s->config->pool_count; i++) {
        if (json_array_append_new(rows, pool_row(s, &s->config->pools[i])) == 0) continue;
        json_decref(rows); /* out of memory: no half answer */
        rows = NULL;
    }
    request_reply_json(r, 200, rows == NULL ? NULL : json_pack("{s:o}", "pools", rows));
}
