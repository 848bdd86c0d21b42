/* Offers as the drivers name them: the number of each, who sells it, its prices of late.
 *
 * Role       Turns a driver's offer into an OFFER_CHANGED event, and a command's offer number back
 *            into a driver and the names it knows. Knows when only the price is new, which is told
 *            with others in one event (OFFERS_PRICED).
 * Identity   (entry of shoal.yaml, provider, region, zone, model, capacity, devices, and the rack if
 *            that is known) joined by tabs
 *            is the name of the offer in the table of names (NAME_OFFER), so its number survives a
 *            restart.
 * Prices     Kept in memory only: fed by live and by replayed events. At most one point a second
 *            and OFFER_PRICES_MAX points; when full, the older half loses every other point, so that
 *            the beginning is kept, ever more coarsely.
 */
#ifndef SHOAL_SERVER_OFFERS_H
#define SHOAL_SERVER_OFFERS_H

#include "codec/catalog.h"
#include "driver/driver.h"
#include "server/names.h"

enum { OFFER_PRICES_MAX = 2048 };
#define OFFER_HISTORY_US INT64_C(3600000000)

struct offer_price {
    int64_t at_us, usd_micros_per_hour;
};

struct offer_info {
    uint64_t offer_id; /* 0: no such offer */
    const char *entry; /* name of the entry under `providers` */
    struct driver_offer_name name;
    struct array prices;    /* struct offer_price, oldest first */
    char *owner;            /* the joined name, cut in place */
    struct pool_event told; /* stepped last; kind 0 = never */
    uint32_t
        pending; /* pushed since and not stepped: one whose commit failed stays for good, so that
                         all of this offer is told from then on */
};

struct offers {
    struct array infos; /* struct offer_info, by offer_id */
};

void offers_init(struct offers *o);
void offers_free(struct offers *o);

/* All that the table of names knows. false: out of memory. */
bool offers_load(struct offers *o, const names *n);

const struct offer_info *offers_find(const struct offers *o, uint64_t offer_id); /* or NULL */

/* false and a sentence: unknown model, a name too long, out of memory. */
bool offers_event(struct offers *o, names *n, const struct catalog *catalog, const char *entry,
                  const struct driver_offer *offer, struct pool_event *ret_event,
                  struct error *ret_error) WARN_UNUSED;

/* Nothing but the price differs from what the core knows, and nothing else is on its way. */
bool offers_is_price_only(const struct offers *o, const struct pool_event *offer_changed);
void offers_note_pushed(struct offers *o, const struct pool_event *offer_changed);
/* An event was stepped, now or in a replay: keeps what it tells of offers. */
void offers_note(struct offers *o, const struct pool_event *event);

#endif
