/* MIG: where the instances of a partitioned GPU may lie, and where the next one should.
 *
 * Role       Pure functions over one GPU. Its memory is cut into slices; an instance of a profile
 *            occupies `size` of them from one of a few legal starts, so free slices alone say nothing:
 *            two 1g in the wrong places keep out a 3g that four free slices would hold.
 * Choice     mig_place(): the legal start after which most can still be placed (over all profiles,
 *            the instances that still fit times their size), the lowest of equals. So small
 *            instances keep to one side.
 * Conflict   mig_ask(): it fits; or there are too few slices; or there are enough, in the wrong
 *            places. mig_repack(): the moves of least cost, of instances that may be moved, so that it
 *            fits, at most one of them to another GPU: exhaustive, there are at most MIG_INSTANCES_MAX.
 * Source     Geometries as NVIDIA's driver lists them (`nvidia-smi mig -lgipp`).
 */
#ifndef SHOAL_CORE_MIG_H
#define SHOAL_CORE_MIG_H

#include <stdbool.h>
#include <stdint.h>

enum { MIG_SLICES_MAX = 8, MIG_PROFILES_MAX = 6, MIG_INSTANCES_MAX = 7, MIG_COMPUTE_MAX = 7 };

struct mig_profile {
    uint8_t compute, size; /* compute slices, memory slices */
    uint8_t starts;        /* bit = a legal first slice */
};

struct mig_geometry {
    uint32_t slices, profile_count;
    struct mig_profile profiles[MIG_PROFILES_MAX];
};

/* Order of profiles: 1g, 1g with twice the memory, 2g, 3g, 4g, 7g; of the small one: 1g, 2g, 4g. */
extern const struct mig_geometry mig_seven; /* A100, H100, H200, B200 */
extern const struct mig_geometry mig_four;  /* A30 */

const struct mig_geometry *mig_geometry_of(uint32_t slices); /* NULL: none has so many */
/* The smallest profile with so many compute slices and so much memory, of a device that has
 * device_memory_mib. Memory counts in whole GiB, rounded up as the names of profiles are (an H200's
 * 1g.18gb has 17.6). profile_count: none has. */
uint32_t mig_smallest(const struct mig_geometry *g, uint32_t device_memory_mib, uint32_t compute,
                      uint32_t memory_mib);

struct mig_instance {
    uint8_t profile, start;
    bool movable, leaves; /* leaves: another GPU has room for it */
    uint64_t cost;        /* of moving it; not 0 */
};

struct mig_gpu {
    uint32_t count;
    struct mig_instance instances[MIG_INSTANCES_MAX];
};

enum mig_answer { MIG_FITS, MIG_FULL, MIG_CONFLICT };

struct mig_plan {
    uint64_t cost;
    uint32_t start; /* of the new instance */
    uint32_t move_count, left_count;
    uint8_t moves[MIG_INSTANCES_MAX], to[MIG_INSTANCES_MAX]; /* instance, its new start; */
    /* MIG_SLICES_MAX: it leaves. */
};

uint32_t mig_used(const struct mig_geometry *g, const struct mig_gpu *gpu); /* bit = slice */
enum mig_answer mig_ask(const struct mig_geometry *g, uint32_t used, uint32_t profile);
/* The start that leaves most; MIG_SLICES_MAX: none. */
uint32_t mig_place(const struct mig_geometry *g, uint32_t used, uint32_t profile);
uint32_t mig_most(const struct mig_geometry *g, uint32_t used,
                  uint32_t profile); /* that still fit */
/* false: no moves of those that may be moved make it fit. */
bool mig_repack(const struct mig_geometry *g, const struct mig_gpu *gpu, uint32_t profile,
                struct mig_plan *ret_plan);

#endif
