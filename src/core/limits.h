/* Every bound of the core: name, value, reason, and what is seen when it is reached.
 *
 * Role       Sizes that the caller chooses are in struct pool_limits; these are the rest. Reaching
 *            a bound is a refusal or a wait with a reason, never a crash.
 * Units      As the names say.
 */
#ifndef SHOAL_CORE_LIMITS_H
#define SHOAL_CORE_LIMITS_H

#include "core/output.h"
#include <assert.h>
#include <stdint.h>

enum {
    MODELS_MAX = 64,   /* a model is a bit of hardware_mask; later ones are not taken */
    POOLS_MAX = 64,    /* a pool is a bit of pool_mask; later ones are not taken */
    REGIONS_MAX = 256, /* regions * models markets exist; offers of later regions are not taken */
    NODE_LEASES_MAX = 64, /* one settlement of a node fits one step; the node takes no more jobs */
    DEVICES_NAMED_MAX = 32,    /* bits of a device mask: workers on larger nodes get no numbers */
    NODE_DEVICES_MAX = 4096,   /* pool_event_check() refuses more */
    STEP_UNITS_MAX = 2048,     /* pieces of work in one step; the rest waits for the next event */
    NODES_REMEMBERED_MIN = 64, /* ended nodes whose late answers are still understood, at least */
    HISTORY_MAX = 1024,        /* shapes and projects whose run times are remembered (predict.h) */
    WORKS_MAX = 1024, /* kinds of work whose rates are remembered (rate.h); then the oldest goes */
    ACCOUNTS_MAX = 4096, /* tenants, projects, teams, users; then jobs count for the one above */
    ASKS_MAX = 4096,     /* asks whose shapes rest together (ask.h); others are woken one by one */
    ASK_TENANTS_MAX = 16384, /* of an ask and a tenant */
    LINKS_MAX = 2048,        /* pairs of regions between which data may be brought (data.h) */
    NEAR_PLACES_MAX = 64,    /* racks or zones over which a job is spread (near.h) */
    SUPPLY_LINES_MAX = 16,   /* offers named in one mix; more are counted, not named */
};

/* Room one piece of work may need: ending a node speaks once for each of its leases. */
enum {
    ROOM_COMMANDS = 2,
    ROOM_DECISIONS = NODE_LEASES_MAX + 2,
    ROOM_ENTRIES = NODE_LEASES_MAX + 3, /* leases, idle devices, adjustment */
};
static_assert(ROOM_ENTRIES * 2 <= POOL_ENTRIES_MAX, "an event and one piece of work fit a step");
static_assert(ROOM_DECISIONS * 2 <= POOL_DECISIONS_MAX,
              "an event and one piece of work fit a step");

#define HOUR_US             INT64_C(3600000000)
#define TIME_US_MAX         INT64_C(4102444800000000) /* the year 2100: later stamps are refused */
#define PRICE_MAX           INT64_C(10000000000)      /* $10 000 a node-hour, in micro-dollars */
#define MONEY_MAX           INT64_C(1000000000000000) /* $1 billion: above, refused */
#define DEVICES_MAX         UINT32_C(1000000)         /* of one job */
#define NCU_MILLI_MAX       UINT32_C(1000000)         /* a device a thousand times an A100-40GB */
#define LINK_USD_MICROS_MAX UINT32_C(1000000000)      /* $1000 a GB */
#define THRESHOLD_PPM_MAX   UINT32_C(10000000)        /* ten times on-demand: never reached */
#define THRESHOLD_PPM_NONE  UINT32_C(1000000)         /* what 0 means: the on-demand price itself */
#define TERMS_US_MAX        INT64_C(315360000000000)  /* ten years */
#define TERMS_SIZE_MAX      UINT32_C(1000000000)    /* a device: a million processors, a petabyte */
#define BILLING_S_MAX       UINT32_C(86400)         /* begun days are billed whole, at most */
#define QUOTA_MILLI_MAX     INT64_C(1000000000000)  /* a billion NCU */
#define RATE_MICRO_MAX      UINT64_C(1000000000000) /* a million a second */
#define WEIGHT_MILLI_MAX    UINT32_C(1000000)       /* a share a thousand times another's */
#define RANK_PPM_MIN        UINT32_C(1000)          /* of a price: a thousandth, */
#define RANK_PPM_MAX        UINT32_C(1000000000)    /* a thousand times */
#define RANK_OUTSIDE        UINT32_C(1) /* no factor: as built in, for a learned ranking knows no such */
#define SEQ_MAX             (UINT64_C(1) << 47)     /* ids are seq << 16 | position */
#define KEY_SHIFT           40 /* node keys, worker ids: incarnation << 40 | n */
#define INCARNATION_MAX     ((UINT64_C(1) << 23) - 1)

#define ENTRY_US_MAX INT64_C(60000000) /* an open ledger interval is closed after this */
#define SWAP_HOLD_US                                                                               \
    INT64_C(60000000)                 /* guaranteed capacity is kept this long before spot      \
                                            may replace it: bounds the swaps of a node-hour */
#define SWAP_GAIN_PPM INT64_C(900000) /* spot must cost below this share to be taken (back) */
/* Back from the next tier (tier.h): it stays there so long at least, twice as long after each return, up
 * to 16 times; and leaves it within so long after a checkpoint. */
#define TIER_HOLD_US  INT64_C(1800000000)
#define TIER_SAVED_US INT64_C(60000000)
enum { TIER_DOUBLINGS_MAX = 4 };
/* A job's hourly budget when prices rise after buying. Trading a node costs a boot and a hand-over,
 * so: more than 2 % above is acted upon at once, less only when it lasts a minute (at most 0.04 %
 * of an hour's budget), and for ten minutes after a node went more is bought only within 90 % of
 * the budget: a price that wavers around it trades one node in ten minutes, not one per wave. */
#define BUDGET_SLACK_DIVISOR 50
#define BUDGET_HOLD_US       INT64_C(60000000)
#define BUDGET_QUIET_US      INT64_C(600000000)
/* Who holds a job up is a level: the shell repeats it, and it is believed a little longer than three
 * repeats. Between two nodes of one job that go for it lies a pause that doubles up to 64 times: a
 * fault of the program, which every machine shows, costs eight nodes on the first day, not hundreds. */
#define STALL_TOLD_AGAIN_US INT64_C(4000000)
#define STALL_BELIEVED_US   INT64_C(15000000)
#define REPLACE_QUIET_US    INT64_C(600000000)
enum { STALL_MANY_SHARE = 4, REPLACE_DOUBLINGS_MAX = 6 };
#define NOTICE_MARGIN_US INT64_C(200000) /* workers are gone this long before it acts */
enum {
    REFUSED_DOUBLINGS_MAX = 3, /* an offer that keeps refusing is asked at up to 8 backoffs */
    REFRESH_LEASES = 4
}; /* a silent provider, a silent worker: asked again after this many
      agent leases, in case the one message that mattered was lost */

static_assert((uint64_t)HOUR_US <= UINT64_MAX / (uint64_t)HOUR_US - 1,
              "money_meter_add() is exact");

#endif
