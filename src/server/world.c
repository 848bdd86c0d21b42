#include "server/world.h"
#include "base/mem.h"
#include "server/world_parts.h"

static void init(world *w)
{
    array_init(&w->due, sizeof(struct due));
    array_init(&w->ready, sizeof(struct pool_event));
    array_init(&w->nodes, sizeof(struct world_node));
    array_init(&w->workers, sizeof(struct world_worker));
    array_init(&w->jobs, sizeof(struct world_job));
    array_init(&w->totals, sizeof(uint32_t));
    array_init(&w->ordinals, sizeof(uint32_t));
}

static bool make_tables(world *w, const struct survival_curve *curves)
{
    uint32_t offers = w->facts->offers.count;
    w->curves = mem_zalloc(offers + 1, sizeof *w->curves);
    w->taken = mem_zalloc(w->facts->lives.count + 1, sizeof *w->taken);
    if (w->curves == NULL || w->taken == NULL || !array_reserve(&w->totals, offers) ||
        !array_reserve(&w->ordinals, offers))
        return false;
    struct survival_random random = {w->seed};
    for (uint32_t i = 0; i < offers; i++) {
        survival_draw(&curves[i], &random, &w->curves[i]);
        (void)array_push(&w->totals); /* reserved */
        (void)array_push(&w->ordinals);
    }
    return true;
}

static void take_over(world *w, const pool *p)
{
    int64_t now_us = w->facts->from_us;
    for (uint32_t i = 0; i < pool_offers_end(p); i++) {
        struct offer_view view;
        if (pool_offer_at(p, i, &view))
            world_told(w, view.offer_id, view.stock_count + view.nodes_held);
    }
    for (uint32_t i = 0; i < pool_nodes_end(p); i++) {
        struct node_view view;
        if (pool_node_at(p, i, &view)) world_take_over(w, &view, now_us);
    }
    for (uint32_t i = 0; i < pool_leases_end(p); i++) {
        struct lease_view view;
        if (pool_lease_at(p, i, &view) && view.worker_id != 0)
            world_take_over_worker(w, p, &view, now_us);
    }
}

world *world_open(const struct facts *facts, const struct survival_curve *curves, uint64_t seed,
                  const pool *p)
{
    world *w = mem_zalloc(1, sizeof *w);
    if (w == NULL) return NULL;
    w->facts = facts;
    w->seed = seed;
    init(w);
    if (!make_tables(w, curves)) {
        world_close(w);
        return NULL;
    }
    take_over(w, p);
    return w;
}

void world_close(world *w)
{
    if (w == NULL) return;
    array_free(&w->due);
    array_free(&w->ready);
    array_free(&w->nodes);
    array_free(&w->workers);
    array_free(&w->jobs);
    array_free(&w->totals);
    array_free(&w->ordinals);
    mem_free(w->curves);
    mem_free(w->taken);
    mem_free(w);
}

void world_obey(world *w, const pool *p, const struct pool_output *out, int64_t now_us)
{
    for (uint32_t i = 0; i < out->command_count; i++) {
        const struct pool_command *c = &out->commands[i];
        switch (c->kind) {
        case POOL_COMMAND_ENSURE_NODE: world_ensure_node(w, c, now_us); break;
        case POOL_COMMAND_RELEASE_NODE: world_release_node(w, c->node_key, now_us); break;
        case POOL_COMMAND_OBSERVE_NODE: world_answer(w, c->node_key, now_us); break;
        case POOL_COMMAND_ENSURE_WORKER: world_ensure_worker(w, p, c, now_us); break;
        case POOL_COMMAND_STOP_WORKER: world_stop_worker(w, c, now_us); break;
        default: break;
        }
    }
}

bool world_failed(const world *w)
{
    return w->failed;
}

struct world_sums world_end(world *w, int64_t now_us)
{
    for (uint32_t i = 0; i < w->nodes.count; i++) {
        const struct world_node *node = array_at(&w->nodes, i);
        if (node->fate_since_us == 0) continue;
        *(node->life == FACT_NONE ? &w->sums.modelled_us : &w->sums.known_us) +=
            now_us - node->fate_since_us;
    }
    return w->sums;
}
