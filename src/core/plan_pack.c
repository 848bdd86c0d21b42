#include "core/plan_pack.h"
#include "core/assert.h"
#include "core/part.h"

enum { PACKING_FORMS_MAX = 512 };

struct pack_limits packing_limits(const struct pool_limits *limits, uint32_t markets)
{
    return (struct pack_limits){.nodes_max = limits->nodes_max,
                                .forms_max = PACKING_FORMS_MAX,
                                .models_max = markets == 0                ? 1
                                              : markets < PACK_MODELS_MAX ? markets
                                                                          : PACK_MODELS_MAX};
}

/* ---- types ---- */

static uint32_t market_number(const pool *p, const struct offer *o)
{
    return o->region_index * p->config.limits.models_max + o->model;
}

void packing_offer(pool *p, uint32_t offer)
{
    struct offer *o = &p->offers[offer];
    o->pack_type = SLOT_NONE;
    if (o->capacity != CAPACITY_OWNED || o->device_count > PACK_DEVICES_MAX) return;
    uint32_t market = market_number(p, o), type = 0;
    while (type < p->pack_types && p->pack_markets[type] != market) type++;
    if (type == PACK_MODELS_MAX) return;
    if (type == p->pack_types) p->pack_markets[p->pack_types++] = market;
    p->pack_model_types[o->model] |= UINT64_C(1) << type;
    p->pack_region_types[o->region_index] |= UINT64_C(1) << type;
    o->pack_type = type;
}

/* Types of the models in the region; SLOT_NONE: in all. */
static uint64_t types_of(const pool *p, uint64_t models, uint32_t region_index)
{
    uint64_t types = 0;
    if (region_index != SLOT_NONE) models &= p->regions[region_index].model_mask;
    for (; models != 0; models &= models - 1) types |= p->pack_model_types[__builtin_ctzll(models)];
    return region_index == SLOT_NONE ? types : types & p->pack_region_types[region_index];
}

static uint32_t region_index_of(const pool *p, uint32_t region)
{
    for (uint32_t i = 0; i < p->regions_end && region != 0; i++)
        if (p->regions[i].region == region) return i;
    return SLOT_NONE;
}

/* ---- forms ---- */

/* False: no node of these types could ever hold it. */
static bool form_of(const pool *p, const struct job_terms *terms, uint64_t types, uint32_t count,
                    struct pack_form *ret_form)
{
    uint64_t cpu_milli = (uint64_t)terms->host_cpu_milli * count;
    uint64_t memory_mib = (uint64_t)terms->host_memory_mib * count;
    if (types == 0 || cpu_milli > PACK_CPU_MILLI_MAX || memory_mib > PACK_MEMORY_MIB_MAX)
        return false;
    /* Instances of different models may differ; whether one fits is not left to the form. */
    uint32_t market = p->pack_markets[__builtin_ctzll(types)];
    uint32_t milli = part_milli_on(p, terms, market % p->config.limits.models_max);
    *ret_form = (struct pack_form){.models = types,
                                   .cpu_milli = (uint32_t)cpu_milli,
                                   .memory_mib = (uint32_t)memory_mib,
                                   .milli = milli,
                                   .count = milli == 0 ? 0 : count};
    return pack_form_check(ret_form);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* What one of its nodes would hold at most. */
static bool form_of_job(const pool *p, const struct shape *s, struct pack_form *ret_form)
{
    if ((s->capacity_mask != 0) && (s->capacity_mask >> CAPACITY_OWNED & 1) == 0) return false;
    uint64_t types = types_of(p, s->compat_mask, region_index_of(p, s->region));
    uint32_t most = pack_devices_max(p->pack, types, 0);
    uint32_t count = smaller(s->devices_max, most > 0 ? most : 1);
    return form_of(p, terms_of(p, s), types, count, ret_form);
}

/* ---- arrivals ---- */

static void pass_time(pool *p)
{
    if (p->pack_half_us == 0) p->pack_half_us = p->now_us + PACKING_WINDOW_US / 2;
    for (uint32_t i = 0; i < 64 && p->pack_half_us <= p->now_us; i++) {
        pack_half_window(p->pack);
        p->pack_half_us += PACKING_WINDOW_US / 2;
    }
    if (p->pack_half_us <= p->now_us) p->pack_half_us = p->now_us + PACKING_WINDOW_US / 2;
}

void packing_arrived(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    struct pack_form form;
    j->pack_set = SLOT_NONE;
    if (p->pack_types == 0 || !form_of_job(p, &p->shapes[j->shape], &form)) return;
    pass_time(p);
    j->pack_set = pack_arrived(p->pack, &form);
    j->pack_milli = (uint32_t)pack_form_milli(&form);
}

void packing_left(pool *p, uint32_t job)
{
    struct job *j = &p->jobs[job];
    if (j->pack_set == SLOT_NONE) return;
    int64_t lived_us = j->started_us == 0 ? 0 : p->now_us - j->started_us;
    int64_t ppm = lived_us >= PACKING_WINDOW_US ? 1000000 : lived_us * 1000000 / PACKING_WINDOW_US;
    pass_time(p);
    pack_left_milli(p->pack, j->pack_set, j->pack_milli, (uint32_t)ppm);
    j->pack_set = SLOT_NONE;
}

/* ---- nodes ---- */

/* 0 = not known, no limit. */
static uint32_t host_left(uint32_t have, uint64_t used, uint32_t most)
{
    if (have == 0 || have > most) return most;
    return used < have ? have - (uint32_t)used : 0;
}

static void free_of(const pool *p, const struct node *n, uint16_t free_milli[PACK_DEVICES_MAX],
                    uint32_t *ret_cpu_milli, uint32_t *ret_memory_mib)
{
    uint64_t cpu_milli = 0, memory_mib = 0;
    for (uint32_t i = 0; i < n->device_count; i++) free_milli[i] = PACK_MILLI;
    for (uint32_t l = n->leases.head; l != SLOT_NONE; l = p->leases[l].node_link.next) {
        const struct lease *own = &p->leases[l];
        cpu_milli += own->host_cpu_milli;
        memory_mib += own->host_memory_mib;
        for (uint32_t mask = own->device_mask; mask != 0; mask &= mask - 1) {
            uint16_t *milli = &free_milli[__builtin_ctz(mask)];
            *milli = (uint16_t)(*milli - own->device_milli);
        }
    }
    *ret_cpu_milli = host_left(n->host_cpu_milli, cpu_milli, PACK_CPU_MILLI_MAX);
    *ret_memory_mib = host_left(n->host_memory_mib, memory_mib, PACK_MEMORY_MIB_MAX);
}

static void add_node(pool *p, uint32_t node)
{
    struct node *n = &p->nodes[node];
    n->pack_node =
        pack_node_add(p->pack, p->offers[n->offer].pack_type, n->device_count,
                      host_left(n->host_cpu_milli, 0, PACK_CPU_MILLI_MAX),
                      host_left(n->host_memory_mib, 0, PACK_MEMORY_MIB_MAX), /* rank */ node);
}

static void set_node(pool *p, uint32_t node)
{
    const struct node *n = &p->nodes[node];
    uint16_t free_milli[PACK_DEVICES_MAX];
    uint32_t cpu_milli, memory_mib;
    free_of(p, n, free_milli, &cpu_milli, &memory_mib);
    pack_node_set(p->pack, n->pack_node, cpu_milli, memory_mib, free_milli);
}

/* Blocks that are not full have taken up the room (pack.h): all nodes anew, closely, and this one. */
static void add_all(pool *p, uint32_t wanted)
{
    for (uint32_t node = 0; node < p->nodes_end; node++)
        if (p->nodes[node].pack_node != SLOT_NONE)
            pack_node_remove(p->pack, p->nodes[node].pack_node);
    for (uint32_t node = 0; node < p->nodes_end; node++) {
        if (p->nodes[node].pack_node == SLOT_NONE && node != wanted) continue;
        add_node(p, node);
        ASSERT(p->nodes[node].pack_node != SLOT_NONE); /* one block a type is not full, at most */
        set_node(p, node);
    }
}

void packing_node(pool *p, uint32_t node)
{
    struct node *n = &p->nodes[node];
    if (n->state != NODE_READY || !packing_holds(&p->offers[n->offer])) {
        if (n->pack_node != SLOT_NONE) pack_node_remove(p->pack, n->pack_node);
        n->pack_node = SLOT_NONE;
        return;
    }
    if (n->pack_node == SLOT_NONE) add_node(p, node);
    if (n->pack_node == SLOT_NONE)
        add_all(p, node);
    else
        set_node(p, node);
}

void packing_rebuild(pool *p)
{
    p->pack_types = 0;
    for (uint32_t i = 0; i < MODELS_MAX; i++) p->pack_model_types[i] = 0;
    for (uint32_t i = 0; i < REGIONS_MAX; i++) p->pack_region_types[i] = 0;
    for (uint32_t i = 0; i < p->offers_end; i++) packing_offer(p, i);
    for (uint32_t i = 0; i < p->nodes_end; i++) {
        p->nodes[i].pack_node = SLOT_NONE;
        packing_node(p, i);
    }
    for (uint32_t i = 0; i < p->jobs_end; i++)
        if (p->jobs[i].pack_set != SLOT_NONE)
            pack_present(p->pack, p->jobs[i].pack_set, p->jobs[i].pack_milli);
}

/* ---- questions ---- */

bool packing_best(const pool *p, const struct packing_ask *ask,
                  bool (*allows)(void *context, uint32_t node), void *context, uint32_t *ret_node)
{
    struct pack_form form;
    struct pack_place place;
    uint64_t types = types_of(p, ask->compat_mask, region_index_of(p, ask->region));
    if (!form_of(p, ask->terms, types, ask->count, &form)) return false;
    const struct pack_question question = {.models =
                                               types_of(p, ask->compat_mask, ask->region_index),
                                           .allows = allows,
                                           .context = context};
    if (!pack_ask(p->pack, &form, &question, &place)) return false;
    *ret_node = pack_node(p->pack, place.node)->rank;
    return true;
}

uint32_t packing_most(const pool *p, const struct packing_ask *ask)
{
    if (p->pack_types == 0) return 0;
    uint64_t types = types_of(p, ask->compat_mask, ask->region_index);
    return pack_devices_max(p->pack, types, part_milli(ask->terms));
}

uint32_t packing_device(const pool *p, uint32_t node, const struct job_terms *terms)
{
    const struct node *n = &p->nodes[node];
    struct pack_form form;
    struct pack_place place;
    if (n->pack_node == SLOT_NONE) return SLOT_NONE;
    uint64_t type = UINT64_C(1) << p->offers[n->offer].pack_type;
    if (!form_of(p, terms, type, 1, &form)) return SLOT_NONE;
    if (!pack_score(p->pack, n->pack_node, &form, &place)) return SLOT_NONE;
    return (uint32_t)__builtin_ctz(place.devices);
}

void packing_check(const pool *p)
{
    uint16_t free_milli[PACK_DEVICES_MAX];
    uint32_t cpu_milli, memory_mib;
    for (uint32_t i = 0; i < p->nodes_end; i++) {
        const struct node *n = &p->nodes[i];
        bool wanted = n->state == NODE_READY && packing_holds(&p->offers[n->offer]);
        ASSERT(wanted == (n->pack_node != SLOT_NONE));
        if (!wanted) continue;
        const struct pack_node *packed = pack_node(p->pack, n->pack_node);
        free_of(p, n, free_milli, &cpu_milli, &memory_mib);
        ASSERT(packed->rank == i && packed->model == p->offers[n->offer].pack_type);
        ASSERT(packed->cpu_milli == cpu_milli && packed->memory_mib == memory_mib);
        for (uint32_t d = 0; d < n->device_count; d++)
            ASSERT(packed->free_milli[d] == free_milli[d]);
    }
}
