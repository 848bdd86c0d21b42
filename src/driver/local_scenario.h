/* The scenario file of driver `local`: text -> struct, or the first mistake with file and line.
 *
 * Format     docs/config.md, "Scenario of the local driver". Unknown keys are mistakes.
 * Paths      Of traces: seen from the folder of the scenario; "$SHOAL_DATA/..." from that folder
 *            (../shared/data when the variable is not set). Opened by local_replay.
 * Numbers    Shares and factors are decimals in the file, doubles here: the emulated world may use
 *            reals, the core only ever sees the integers that come out.
 * Ownership  local_scenario_parse() returns one block, freed by local_scenario_free().
 */
#ifndef SHOAL_DRIVER_LOCAL_SCENARIO_H
#define SHOAL_DRIVER_LOCAL_SCENARIO_H

#include "driver/driver.h"
#include "driver/local_market.h"
#include <stddef.h>

enum {
    LOCAL_ZONES_MAX = 64,
    LOCAL_OFFERS_MAX = 256,
    LOCAL_EVENTS_MAX = 128,
    LOCAL_PATH_BYTES = 1024,
    LOCAL_SERIES_BYTES = 128,
    LOCAL_NODES_PER_OFFER_MAX = 1024,
};

struct local_zone {
    char name[DRIVER_NAME_BYTES];     /* "aurora/east-a" */
    char provider[DRIVER_NAME_BYTES]; /* "aurora" */
    char region[DRIVER_NAME_BYTES];
    int64_t notice_us; /* between notice and preemption; 0: this cloud gives none */
    int64_t boot_min_us, boot_max_us;
};

struct local_offer {
    uint32_t zone_index, capacity, device_count, stock_count;
    char model[DRIVER_NAME_BYTES];
    char rack[DRIVER_NAME_BYTES]; /* "": not known */
    uint32_t billing_s; /* billed by so many seconds, begun ones whole; 0: to the microsecond */
    int64_t on_demand_usd_micros_per_hour;
    int64_t spot_usd_micros_per_hour;      /* what the walk reverts to; on demand for other kinds */
    char price_series[LOCAL_SERIES_BYTES]; /* "ZONE/TYPE" of replay.prices; "": none */
    char availability_series[LOCAL_SERIES_BYTES]; /* series_id of replay.availability; "": none */
};

enum local_event_kind { LOCAL_EVENT_PREEMPT = 1, LOCAL_EVENT_PRICE, LOCAL_EVENT_STOCK };

struct local_event {
    uint32_t kind; /* enum local_event_kind */
    int64_t at_us; /* after the first node came up; -1: when a step is reached */
    uint64_t at_step;
    char zone[DRIVER_NAME_BYTES];  /* "": any */
    char model[DRIVER_NAME_BYTES]; /* "": any */
    uint32_t count;                /* PREEMPT: how many nodes */
    bool during_reduce;            /* PREEMPT: kill while a worker's status page says so */
    int64_t notice_us;             /* PREEMPT */
    int64_t usd_micros_per_hour;   /* PRICE; 0: given as a share */
    int64_t share_ppm;             /* PRICE: of on demand */
    int64_t for_us;                /* PRICE, STOCK; 0: for good */
    uint32_t stock_count;          /* STOCK */
};

struct local_scenario {
    uint64_t seed;
    int64_t slot_us_at_1_ncu; /* 0: no emulated speed */
    uint32_t zone_count, offer_count, event_count;
    struct local_zone zones[LOCAL_ZONES_MAX];
    struct local_offer offers[LOCAL_OFFERS_MAX];
    struct local_event events[LOCAL_EVENTS_MAX];
    struct local_prices prices;
    struct local_preemptions preemptions;
    char price_file[LOCAL_PATH_BYTES], availability_file[LOCAL_PATH_BYTES]; /* "": none */
    int64_t replay_step_us; /* of one step of the availability file, in its own time */
    int64_t replay_speedup; /* trace seconds per second */
};

struct local_scenario *local_scenario_parse(const char *file, const char *text, size_t bytes,
                                            struct error *ret_error) WARN_UNUSED;
void local_scenario_free(struct local_scenario *scenario);

/* Index of the offer with this name, or -1. */
int32_t local_scenario_find(const struct local_scenario *scenario,
                            const struct driver_offer_name *name);

#endif
