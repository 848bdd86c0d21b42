#include "driver/local_driver.h"

static bool holds_place(const struct local_node *node, int64_t now_us)
{
    if (node->phase == NODE_PHASE_PENDING || node->phase == NODE_PHASE_UP) return true;
    return node->phase == NODE_PHASE_GONE && node->place_back_us > now_us;
}

static uint32_t left(uint32_t capacity, uint32_t held)
{
    return held >= capacity ? 0 : capacity - held;
}

uint32_t local_offers_stock(const struct local *local, uint32_t offer_index, int64_t now_us)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < local->node_count; i++)
        held += local->nodes[i].offer_index == offer_index && holds_place(&local->nodes[i], now_us);
    return left(local_world_capacity(&local->world, offer_index, now_us), held);
}

static void tell(struct local *local, uint32_t index, int64_t price, uint32_t stock)
{
    const struct local_scenario *s = local->world.scenario;
    const struct local_offer *offer = &s->offers[index];
    const struct local_zone *zone = &s->zones[offer->zone_index];
    int64_t life_us = offer->capacity == CAPACITY_SPOT ? s->preemptions.mean_life_us : 0;
    int64_t hazard_ppm = life_us == 0 ? 0 : INT64_C(3600000000000000) / life_us;
    const struct driver_offer told = {
        .name = {.provider = zone->provider,
                 .region = zone->region,
                 .zone = zone->name,
                 .model = offer->model,
                 .capacity = offer->capacity,
                 .device_count = offer->device_count,
                 .rack = offer->rack},
        .usd_micros_per_hour = price,
        .on_demand_usd_micros_per_hour = offer->on_demand_usd_micros_per_hour,
        .stock_count = stock,
        .hazard_ppm = hazard_ppm > UINT32_MAX ? UINT32_MAX : (uint32_t)hazard_ppm,
        .billing_s = offer->billing_s,
    };
    local->told[index].usd_micros_per_hour = price;
    local->told[index].stock_count = stock;
    local->host.offer_changed(local->host.self, &told);
}

void local_offers_tick(struct local *local, int64_t now_us)
{
    uint32_t held[LOCAL_OFFERS_MAX] = {0};
    for (uint32_t i = 0; i < local->node_count; i++) {
        const struct local_node *node = &local->nodes[i];
        if (node->offer_index < LOCAL_OFFERS_MAX && holds_place(node, now_us))
            held[node->offer_index]++;
    }
    int64_t tick = local_world_tick(&local->world, now_us);
    for (uint32_t i = 0; i < local->world.scenario->offer_count; i++) {
        int64_t price = local_world_price(&local->world, i, tick);
        uint32_t stock = left(local_world_capacity(&local->world, i, now_us), held[i]);
        if (price != local->told[i].usd_micros_per_hour || stock != local->told[i].stock_count)
            tell(local, i, price, stock);
    }
}
