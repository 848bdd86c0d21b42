/* The measure of a node: how much of its free device time the expected work cannot use.
 *
 * Source     FGD (Weng et al., USENIX ATC 2023) measures the fragment of a node for each typical form
 *            and takes the mean by popularity: all free devices L when one more worker of that form
 *            cannot be placed, else the devices too full for it. It asks for one worker only, so a node
 *            with much free device and little CPU looks fine, and so does a device that the next share
 *            leaves with a useless rest. Added here: devices the free CPU cannot feed at the average
 *            appetite of the arrivals, and the waste of each device with r free milli, the rest expected
 *            when typical shares that fit go there at random until none does (0 for what is exact):
 *                waste(r) = mean over the shares m <= r of waste(r - m), r when there is none
 *                F = sum w_m * fragment_m + 2 * max(0, L - cpu / ratio) + 13/16 * sum waste(free_i)
 *            in milli-devices << 16.
 * Learning   Forms are counted as they arrive. After 16, 32, ... 2048 arrivals and every 2048 from
 *            then on, the most frequent ones that make up 95 % become typical; ratio = 0.85 of the CPU
 *            per device milli of all arrivals that need devices. Nothing is known before arrival 16:
 *            only the second term counts, with 15 milli-CPU a device milli.
 * Speed      Typical forms that ask the same of devices are one demand, and weights are summed up to
 *            each CPU step, so a measure is one multiplication per demand (about 15), not per form.
 * Bounds     PACK_DEMANDS_MAX demands, PACK_CPUS_MAX CPU steps: forms beyond are not typical. When the
 *            set of forms is full, the rarest makes room. Counts are halved at PACK_COUNTS_MAX, which
 *            also lets old habits fade.
 */
#ifndef SHOAL_CORE_PACK_MIX_H
#define SHOAL_CORE_PACK_MIX_H

#include "core/pack_form.h"
#include <stddef.h>

enum {
    PACK_DEMANDS_MAX = 64,
    PACK_CPUS_MAX = 63,
    PACK_WEIGHT_SHIFT = 16,
    PACK_COVER_PERCENT = 95,
    PACK_RATIO_PERCENT = 85, /* above 100 stranded devices go unseen: up to 3 points lost */
    PACK_RATIO_FIRST = 15,
    PACK_STRAND_WEIGHT = 2,
    PACK_WASTE_SHIFT = 4,   /* wastes are kept in 16ths of a milli */
    PACK_WASTE_WEIGHT = 13, /* in 16ths */
    PACK_REFRESH_FIRST = 16,
    PACK_REFRESH_EVERY = 2048, /* or the number of nodes: a measure anew is a look at all of them */
    PACK_REFRESH_MOST = 32768,
    PACK_COUNTS_MAX = 65536,
};

#define PACK_FEED_MAX (UINT64_C(64) << PACK_WEIGHT_SHIFT)

/* The free milli and waste of a node; for each demand: devices that can take it, and the free milli
 * on these. */
struct pack_levels {
    uint32_t total_milli, waste;
    uint16_t count[PACK_DEMANDS_MAX], sum_milli[PACK_DEMANDS_MAX];
};

/* `devices` devices with from_milli free each have to_milli free; devices 0 = no change. */
struct pack_change {
    uint32_t from_milli, to_milli, devices;
};

/* A form that is typical, and its count then: what is measured with follows from these. */
struct pack_typical {
    struct pack_form form;
    uint64_t count;
};

struct pack_mix {
    struct pack_forms forms; /* memory_mib 0: it counts in no measure */
    uint64_t *counts;
    uint32_t *order;               /* forms, the most frequent first as of the last refresh */
    struct pack_typical *typicals; /* as of the last refresh */
    uint32_t *weights; /* [models][cpus + 1][stride]: of the forms that need at most that CPU */
    uint64_t arrived, refresh_at; /* arrivals so far; when to learn next */
    uint64_t refresh_every;       /* once much is known: PACK_REFRESH_EVERY, or what it is set to */
    uint64_t counted, kept;       /* sum of counts; of the typical forms, when they were chosen */
    uint64_t device_milli, cpu_milli; /* of arrivals with devices */
    uint32_t models_max, halvings;
    uint32_t version; /* grows when the measure changes: everything remembered of it is stale */
    uint32_t demands, stride, cpus, typical; /* stride: demands, padded with weight 0 */
    uint32_t weight_total;
    uint64_t feed; /* (device milli << 16) / milli-CPU: what a free CPU can feed */
    uint32_t demand_milli[PACK_DEMANDS_MAX], demand_count[PACK_DEMANDS_MAX];
    uint32_t cpu_steps[PACK_CPUS_MAX]; /* ascending */
    uint64_t demand_seen[PACK_DEMANDS_MAX];
    uint32_t waste[PACK_MILLI + 1]; /* by free milli */
};

size_t pack_mix_bytes(uint32_t forms_max, uint32_t models_max);
/* memory: pack_mix_bytes(), aligned to 8. */
void pack_mix_init(struct pack_mix *mix, void *memory, uint32_t forms_max, uint32_t models_max);
/* Counts one worker that arrived. True: the measure changed. */
bool pack_mix_arrived(struct pack_mix *mix, const struct pack_form *form);
bool pack_mix_learn(struct pack_mix *mix); /* at once; true: the measure changed */
void pack_mix_build(struct pack_mix *mix); /* again, from the typical forms */

void pack_mix_levels(const struct pack_mix *mix, const uint16_t *free_milli, uint32_t devices,
                     struct pack_levels *ret_levels);
/* The first term of F alone, as FGD has it. */
uint32_t pack_mix_fragment(const struct pack_mix *mix, uint32_t model, uint32_t cpu_milli,
                           const struct pack_levels *levels, struct pack_change change);
/* F of a node of that model with so much free CPU, as it would be after the change. */
int64_t pack_mix_measure(const struct pack_mix *mix, uint32_t model, uint32_t cpu_milli,
                         const struct pack_levels *levels, struct pack_change change);

#endif
