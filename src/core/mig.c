#include "core/mig.h"
#include "core/assert.h"
#include <stddef.h>

#define AT(slice) (1U << (slice))

const struct mig_geometry mig_seven = {
    .slices = 8,
    .profile_count = 6,
    .profiles = {{1, 1, 0x7f},                          /* 1g: 0 .. 6 */
                 {1, 2, AT(0) | AT(2) | AT(4) | AT(6)}, /* 1g, twice the memory */
                 {2, 2, AT(0) | AT(2) | AT(4)},         /* 2g */
                 {3, 4, AT(0) | AT(4)},                 /* 3g */
                 {4, 4, AT(0)},                         /* 4g */
                 {7, 8, AT(0)}},                        /* 7g */
};

const struct mig_geometry mig_four = {
    .slices = 4,
    .profile_count = 3,
    .profiles = {{1, 1, 0x0f}, {2, 2, AT(0) | AT(2)}, {4, 4, AT(0)}},
};

const struct mig_geometry *mig_geometry_of(uint32_t slices)
{
    if (slices == mig_seven.slices) return &mig_seven;
    return slices == mig_four.slices ? &mig_four : NULL;
}

static uint32_t gib_of(uint64_t mib, uint32_t parts)
{
    uint64_t gib = UINT64_C(1024) * parts;
    return (uint32_t)((mib + gib - 1) / gib);
}

uint32_t mig_smallest(const struct mig_geometry *g, uint32_t device_memory_mib, uint32_t compute,
                      uint32_t memory_mib)
{
    uint32_t best = g->profile_count, wanted = gib_of(memory_mib, 1);
    for (uint32_t i = 0; i < g->profile_count; i++) {
        const struct mig_profile *profile = &g->profiles[i];
        if (profile->compute < compute) continue;
        if (gib_of((uint64_t)profile->size * device_memory_mib, g->slices) < wanted) continue;
        if (best == g->profile_count || profile->size < g->profiles[best].size) best = i;
    }
    return best;
}

static uint32_t mask_at(const struct mig_profile *profile, uint32_t start)
{
    return (AT(profile->size) - 1) << start;
}

uint32_t mig_used(const struct mig_geometry *g, const struct mig_gpu *gpu)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < gpu->count; i++)
        used |= mask_at(&g->profiles[gpu->instances[i].profile], gpu->instances[i].start);
    return used;
}

static bool fits_at(const struct mig_profile *profile, uint32_t used, uint32_t start)
{
    return (profile->starts >> start & 1) != 0 && (used & mask_at(profile, start)) == 0;
}

/* Legal starts of one profile are apart by at least its size, so taking each that is free is best.
 */
uint32_t mig_most(const struct mig_geometry *g, uint32_t used, uint32_t profile)
{
    uint32_t count = 0;
    for (uint32_t start = 0; start < g->slices; start++) {
        if (!fits_at(&g->profiles[profile], used, start)) continue;
        used |= mask_at(&g->profiles[profile], start);
        count++;
    }
    return count;
}

static uint32_t worth(const struct mig_geometry *g, uint32_t used)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < g->profile_count; i++)
        sum += mig_most(g, used, i) * g->profiles[i].size;
    return sum;
}

uint32_t mig_place(const struct mig_geometry *g, uint32_t used, uint32_t profile)
{
    uint32_t best = MIG_SLICES_MAX, best_worth = 0;
    ASSERT(profile < g->profile_count);
    for (uint32_t start = 0; start < g->slices; start++) {
        if (!fits_at(&g->profiles[profile], used, start)) continue;
        uint32_t left = worth(g, used | mask_at(&g->profiles[profile], start));
        if (best != MIG_SLICES_MAX && left <= best_worth) continue;
        best = start;
        best_worth = left;
    }
    return best;
}

enum mig_answer mig_ask(const struct mig_geometry *g, uint32_t used, uint32_t profile)
{
    if (mig_most(g, used, profile) > 0) return MIG_FITS;
    uint32_t free_slices = 0; /* counted by hand: the builtin may be a call outside */
    for (uint32_t slice = 0; slice < g->slices; slice++) free_slices += (used >> slice & 1) == 0;
    return free_slices < g->profiles[profile].size ? MIG_FULL : MIG_CONFLICT;
}

struct repack {
    const struct mig_geometry *g;
    const struct mig_gpu *gpu;
    struct mig_plan now, best;
    bool found;
};

static void try_instance(struct repack *r, uint32_t i, uint32_t used);

static void try_move(struct repack *r, uint32_t i, uint32_t used, uint32_t to)
{
    const struct mig_instance *instance = &r->gpu->instances[i];
    bool leaves = to == MIG_SLICES_MAX;
    r->now.moves[r->now.move_count] = (uint8_t)i;
    r->now.to[r->now.move_count++] = (uint8_t)to;
    r->now.left_count += leaves;
    r->now.cost += instance->cost;
    if (!leaves) used |= mask_at(&r->g->profiles[instance->profile], to);
    try_instance(r, i + 1, used);
    r->now.cost -= instance->cost;
    r->now.left_count -= leaves;
    r->now.move_count--;
}

static void try_instance(struct repack *r, uint32_t i, uint32_t used)
{
    if (r->found && r->now.cost >= r->best.cost) return;
    if (i == r->gpu->count) {
        r->best = r->now;
        r->found = true;
        return;
    }
    const struct mig_instance *instance = &r->gpu->instances[i];
    const struct mig_profile *profile = &r->g->profiles[instance->profile];
    if (fits_at(profile, used, instance->start)) /* stays */
        try_instance(r, i + 1, used | mask_at(profile, instance->start));
    if (!instance->movable) return;
    for (uint32_t start = 0; start < r->g->slices; start++) {
        if (start == instance->start || !fits_at(profile, used, start)) continue;
        try_move(r, i, used, start);
    }
    if (instance->leaves && r->now.left_count == 0) try_move(r, i, used, MIG_SLICES_MAX);
}

bool mig_repack(const struct mig_geometry *g, const struct mig_gpu *gpu, uint32_t profile,
                struct mig_plan *ret_plan)
{
    struct repack r = {.g = g, .gpu = gpu};
    ASSERT(gpu->count <= MIG_INSTANCES_MAX);
    for (uint32_t start = 0; start < g->slices; start++) {
        if (!fits_at(&g->profiles[profile], 0, start)) continue;
        r.now = (struct mig_plan){.start = start};
        try_instance(&r, 0, mask_at(&g->profiles[profile], start));
    }
    *ret_plan = r.best;
    return r.found;
}
